"""``pubweave up``: an overlay of brokers on this machine, from a topology file, until stopped."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from pubweave.cli.errors import BadInput, blaming
from pubweave.cli.kinds import FILE, PORT, POSITIVE, SHARE
from pubweave.cli.options.brokers import (
    check_on_loop,
    chosen_journal,
    durability_options,
    mqtt_option,
    on_loop_option,
    store_for,
)
from pubweave.cli.options.coordination import given_target, zookeeper_options
from pubweave.cli.options.placement import PlacementChoice, placement_options
from pubweave.cli.options.relocation import relocation_options
from pubweave.cli.options.security import security_option
from pubweave.cli.options.self_organizing import OrganizeChoice, organize_options
from pubweave.cli.options.target import run_dir_option
from pubweave.cli.output import LiveView, json_option, print_json, progress_bar, remark, warn
from pubweave.cli.tco.files import named_links, read_wanted
from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.mqtt import OnLoop
from pubweave.core.config.relocation import RelocationConfig
from pubweave.core.routing.topic_connected.membership_map import MAP_TOPIC
from pubweave.core.strategies import STRATEGIES
from pubweave.design.tco.interests import Subscriptions
from pubweave.model.files.topology import read_topology
from pubweave.model.ids import Link
from pubweave.model.topology import Topology, TopologyError
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.net.signals import StopRequest, run_async
from pubweave.runtime.net.tls import server_context
from pubweave.runtime.overlay.events import BrokerDied, OverlayEvent, StoreChoice, StoreTrouble
from pubweave.runtime.overlay.run_directory import (
    JOURNAL_DIRECTORY,
    TELEMETRY_DIRECTORY,
    RunDirectory,
)
from pubweave.runtime.overlay.spec import OverlaySpec, exposed, make_spec, mqtt_addresses
from pubweave.runtime.security.broker_files import secured
from pubweave.runtime.security.directory import SecurityDirectory

if TYPE_CHECKING:
    from pubweave.cli.run.status_view import PulseMeter
    from pubweave.runtime.overlay.overlay import Overlay

LIVE_INTERVAL_S = 1.0
LINE_INTERVAL_S = 5.0


@click.command()
@click.argument("topology", required=False, type=FILE)
@click.option(
    "--subscriptions",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="With --strategy topic_connected instead of TOPOLOGY: which brokers want which topics.",
)
@click.option("--in-process", is_flag=True, help="All brokers in one process.")
@click.option("--host", default="127.0.0.1", help="Where brokers listen.")
@click.option(
    "--port",
    default=7000,
    type=PORT,
    help="The first broker's port, the others count on; 0 takes any free ones.",
)
@click.option(
    "--strategy", default="tree", type=click.Choice(sorted(STRATEGIES)), help="How brokers route."
)
@run_dir_option
@security_option
@click.option("--name", help="The overlay's name. [default: that of the file]")
@zookeeper_options
@click.option("--no-zookeeper", is_flag=True, help="Do without: no plan can be applied then.")
@organize_options
@relocation_options
@placement_options
@click.option(
    "--telemetry/--no-telemetry", default=True, help="Record what brokers do, in RUN_DIR/telemetry."
)
@click.option(
    "--sample", default=1.0, type=SHARE, help="The share of publications that telemetry records."
)
@mqtt_option
@on_loop_option
@durability_options("[default: RUN_DIR/journal, new with every start]")
@click.option("--no-restart", is_flag=True, help="Leave broker processes that died alone.")
@click.option(
    "--duration", type=POSITIVE, help="Stop after this many seconds. [default: at Ctrl-C]"
)
@click.option(
    "--interval",
    type=click.FloatRange(min=0.1),
    help="Seconds between reports. [default: 1 on a terminal and with --json, else 5]",
)
@click.option("-q", "--quiet", is_flag=True, help="Report only the start, troubles and the end.")
@json_option
@click.pass_context
def up(
    ctx: click.Context,
    /,
    topology: Path | None,
    subscriptions: Path | None,
    strategy: str,
    run_dir: Path,
    security_dir: Path | None,
    organize: OrganizeChoice | None,
    relocation: RelocationConfig,
    placement: PlacementChoice,
    mqtt: Address | None,
    on_loop: OnLoop | None,
    durability: str,
    journal_dir: Path | None,
    quiet: bool,
    as_json: bool,
    **given: Any,
) -> None:
    """Start the brokers of a TOPOLOGY file on this machine and watch over them.

    The topology must be a tree. Brokers listen where their attribute "address" says, or else at
    --host on ports from --port on, in the order of their ids. A broker process that dies is
    started again. Ctrl-C stops everything.

    With --strategy topic_connected it can be any graph ('pubweave tco build' makes one): brokers
    route by topic, add the links they need, and need no ZooKeeper. Or give --subscriptions, CSV or
    Parquet with the columns client,topic: a broker is started for each client, and they are linked
    so that those that want a topic are connected among themselves.

    With --strategy rendezvous the brokers form a Chord ring and topics have trees on it; the links
    of the TOPOLOGY are only how they meet. A broker's attribute "ring_id" says where on the ring it
    is; 'pubweave remap' moves brokers to other positions, and --placement clients. Brokers with an
    attribute "cluster" reach the ring through those of their cluster that have a link with it.

    A ZooKeeper server is started with the overlay (that needs Java), so that plans can be applied
    to it with 'pubweave apply'; or name an existing ensemble. With --self-organize the brokers
    improve the tree by themselves; a plan that is applied goes before that. With --relocation
    publishers move to the brokers where they cost least ('pubweave relocate' shows where).

    \b
    Example:
      pubweave topology generate hierarchical -n 20 -o tree.json
      pubweave up tree.json
      pubweave up tree.json --port 0 --duration 60 --json
      pubweave up tree.json --self-organize ci --organize-every 10
      pubweave up tree.json --relocation grape --relocation-priority delay
      pubweave security init secure --topology tree.json; pubweave up tree.json --security secure
      pubweave up tree.json --mqtt 127.0.0.1:1883
      pubweave up overlay.json --strategy topic_connected
      pubweave up tree.json --strategy rendezvous --placement 10
      pubweave up --strategy topic_connected --subscriptions subscriptions.csv
    """
    source = choose_source(topology, subscriptions, strategy)
    read = _read(source) if subscriptions is None else topology_for(subscriptions)
    spec = _with_mqtt(_spec(source, read, strategy, run_dir, given), mqtt, on_loop)
    journal = chosen_journal(durability, journal_dir, run_dir / JOURNAL_DIRECTORY)
    spec = replace(spec, relocation=relocation, journal_directory=journal, security=security_dir)
    spec = placement.applied(spec)
    if organize is not None:
        spec = replace(spec, organize=organize.config, link_prices=organize.read_prices(read))
    _check_security(spec)
    store = _store(strategy, security_dir, given)
    how = {"in_process": given["in_process"], "restart": not given["no_restart"], "store": store}
    opened = functools.partial(open_overlay, spec, run_dir, as_json, **how)
    view = LiveView(as_json=as_json, quiet=quiet)
    ctx.exit(run_async(_run(opened, run_dir, view, given, not (quiet or as_json), as_json)))


def _spec(
    source: Path, read: Topology, strategy: str, run_dir: Path, given: dict[str, Any]
) -> OverlaySpec:
    with blaming(str(source)):
        return make_spec(
            read,
            name=given["name"] or usable_name(source.stem),
            host=given["host"],
            base_port=given["port"],
            strategy=strategy,
            telemetry_directory=run_dir / TELEMETRY_DIRECTORY if given["telemetry"] else None,
            sample_ratio=given["sample"],
        )


def _with_mqtt(spec: OverlaySpec, mqtt: Address | None, on_loop: OnLoop | None) -> OverlaySpec:
    check_on_loop(mqtt, on_loop)
    if mqtt is None:
        return spec
    return replace(spec, mqtt=mqtt_addresses(spec, mqtt), mqtt_on_loop=on_loop or "warn")


def _store(strategy: str, security_dir: Path | None, given: dict[str, Any]) -> StoreChoice | None:
    login = given["zookeeper_auth"]
    if given["zookeeper"] is not None and login is None:
        login = _store_login(security_dir)
    target = given_target(given["zookeeper"], login)
    return store_for(strategy, target, not given["no_zookeeper"])


def _store_login(security_dir: Path | None) -> str | None:
    return None if security_dir is None else SecurityDirectory(security_dir).store_login()


def usable_name(stem: str) -> str:
    """A file's name as the name of an overlay, which the store has to take.

    >>> usable_name("my tree (2)")
    'my-tree-2'
    """
    return re.sub(r"[^A-Za-z0-9_.:-]+", "-", stem).strip("-_.:") or "overlay"


def _read(path: Path) -> Topology:
    """The topology in a file; who has no file is told how to get one."""
    try:
        return read_topology(path)
    except TopologyError as error:
        advice = "" if path.exists() else "; make one with 'pubweave topology generate'"
        raise BadInput(f"{error}{advice}") from error


def _check_security(spec: OverlaySpec) -> None:
    """What secures the overlay is there and can be read, before anything is started; if nothing
    does, say what that means."""
    if spec.security is None:
        if open_to_all := exposed([*spec.addresses.values(), *spec.mqtt.values()]):
            warn_exposed(str(open_to_all[0]))
        return
    directory = SecurityDirectory(spec.security)
    for broker in spec.brokers:
        found = directory.broker_security(broker)
        server_context(found.tls)
        secured(BrokerConfig(broker), found)


def warn_exposed(address: str) -> None:
    """Say what it means to listen at an address that other machines reach."""
    warn(
        f"{address} can be reached from other machines, and there is no authentication: "
        "whoever reaches it can publish and subscribe; secure it with 'pubweave security init'"
    )


async def _run(
    opened: Callable[[], Overlay],
    run_dir: Path,
    view: LiveView,
    given: dict[str, Any],
    is_shown: bool,
    as_json: bool,
) -> int:
    from pubweave.cli.run.status_view import PulseMeter

    meter = PulseMeter()
    async with StopRequest() as stop:
        overlay = opened()
        try:
            if await start_with_progress(overlay, stop, shown=is_shown):
                _tell_started(overlay, run_dir, as_json)
                with view:
                    await _watch(overlay, stop, view, meter, given, as_json)
        finally:
            await overlay.stop()
        _tell_stopped(overlay, meter, as_json)
        return stop.exit_code


def open_overlay(spec: OverlaySpec, run_dir: Path, as_json: bool, **how: Any) -> Overlay:
    """An overlay that reports its troubles; its run directory is claimed and its ports are had."""
    from pubweave.runtime.overlay.overlay import Overlay

    directory = RunDirectory(run_dir)
    try:
        return Overlay(spec, directory, on_event=lambda event: _tell_event(event, as_json), **how)
    except BaseException:
        directory.release()
        raise


async def start_with_progress(overlay: Overlay, stop: StopRequest, *, shown: bool) -> bool:
    """Start an overlay under a progress bar; False if a stop was requested meanwhile."""
    steps = len(overlay.spec.brokers) + len(overlay.spec.topology.links)
    with progress_bar("starting brokers and links", steps, shown=shown) as advance:
        overlay.on_progress = lambda p: advance.to(p.listening + p.links_up)
        return await stop.unless(overlay.start())


async def _watch(
    overlay: Overlay,
    stop: StopRequest,
    view: LiveView,
    meter: PulseMeter,
    given: dict[str, Any],
    as_json: bool,
) -> None:
    from pubweave.cli.run.status_view import live_drawing

    duration: float | None = given["duration"]
    every_s = given["interval"] or (LIVE_INTERVAL_S if view.is_live or as_json else LINE_INTERVAL_S)
    while True:
        addresses = {b: str(address) for b, address in overlay.observer.addresses.items()}
        snapshot = await overlay.snapshot()
        pulse = meter.take(snapshot)
        is_over = duration is not None and pulse.elapsed_s >= duration
        if stop.is_set or is_over:
            return
        pids = {broker: overlay.pid(broker) for broker in addresses}
        view.show(
            {"event": "pulse", **pulse.document()},
            pulse.line(),
            lambda p=pulse, s=snapshot, a=addresses, i=pids: live_drawing(p, s, a, i),  # type: ignore[misc]
        )
        rest_s = every_s if duration is None else min(every_s, duration - pulse.elapsed_s)
        # Asked for a stop, look once more: the summary is about the very end.
        await stop.wait(max(rest_s, 0.05))


def _tell_event(event: OverlayEvent, as_json: bool) -> None:
    if not as_json:
        remark(str(event))
        return
    document: dict[str, Any] = {"event": "broker_restarted"}
    if isinstance(event, BrokerDied):
        document = {"event": "broker_died"}
    elif isinstance(event, StoreTrouble):
        document = {"event": "zookeeper_trouble"}
    print_json({**document, **{k: getattr(event, k) for k in event.__dataclass_fields__}})


def _tell_started(overlay: Overlay, run_dir: Path, as_json: bool) -> None:
    spec = overlay.spec
    first = next(iter(spec.addresses.items()))
    if as_json:
        print_json(
            {
                "event": "started",
                "overlay": spec.name,
                "strategy": spec.strategy,
                "run_dir": str(run_dir),
                "brokers": {b: str(address) for b, address in spec.addresses.items()},
                "links": len(spec.topology.links),
                "mqtt": {b: str(address) for b, address in spec.mqtt.items()},
                "zookeeper": None if overlay.zookeeper is None else str(overlay.zookeeper),
            }
        )
        return
    remark(
        f"overlay {spec.name} (strategy {spec.strategy}): {len(spec.brokers)} brokers and "
        f"{len(spec.topology.links)} links are up "
        f"({first[0]} at {first[1]}); state and logs in {run_dir}"
        + (f"; MQTT at {next(iter(spec.mqtt.values()))} and so on" if spec.mqtt else "")
        + ("" if overlay.zookeeper is None else f"; ZooKeeper at {overlay.zookeeper}")
    )


def _tell_stopped(overlay: Overlay, meter: PulseMeter, as_json: bool) -> None:
    totals = meter.totals.counters()
    if as_json:
        print_json(
            {
                "event": "stopped",
                "overlay": overlay.spec.name,
                "broker_deaths": overlay.deaths,
                "totals": msgspec.to_builtins(totals),
            }
        )
        return
    click.echo(
        f"stopped {overlay.spec.name}: {totals.publications_accepted:,} publications, "
        f"{totals.deliveries:,} deliveries, {totals.messages_out:,} messages, "
        f"{totals.lost_in_words}, "
        f"{totals.clients_expired:,} clients expired, {overlay.deaths} broker deaths"
    )


STRATEGY = "topic_connected"
BROKERS_MAX = 500
"""More processes than that are a mistake: somebody else's followers, taken for brokers."""


def choose_source(topology: Path | None, subscriptions: Path | None, strategy: str) -> Path:
    """The one file that an overlay is to be started from; `click.UsageError` if it is not one."""
    if subscriptions is not None and strategy != STRATEGY:
        raise click.UsageError(f"--subscriptions needs --strategy {STRATEGY}")
    if topology is not None and subscriptions is not None:
        raise click.UsageError(
            "give either TOPOLOGY or --subscriptions, not both: the links are made from the latter"
        )
    source = topology or subscriptions
    if source is None:
        raise click.UsageError(
            f"give a TOPOLOGY file, or --subscriptions FILE with --strategy {STRATEGY}"
        )
    return source


def topology_for(path: Path) -> Topology:
    """An overlay in which the subscribers of each topic are connected, and all brokers are."""
    from pubweave.design.tco.low_oda import build_overlay

    wanted = read_wanted(path)
    if wanted.node_count > BROKERS_MAX:
        raise BadInput(
            f"{path}: {wanted.node_count:,} clients; one broker is started for each, at most "
            f"{BROKERS_MAX}: let 'client' be the broker that wants the topic"
        )
    # Brokers find each other by the map, a topic of all: the overlay must be in one piece.
    everybody = Subscriptions.of(
        {
            name: (MAP_TOPIC, *(wanted.topic_names[topic] for topic in wanted.topics_of(node)))
            for node, name in enumerate(wanted.nodes)
        }
    )
    links = build_overlay(everybody)
    remark(
        f"{path}: {wanted.node_count} brokers, {wanted.topic_count} topics, {len(links)} links "
        f"(degree {2 * len(links) / wanted.node_count:.1f} on average)"
    )
    pairs = named_links(everybody, links)
    return Topology(frozenset(wanted.nodes), frozenset(Link.between(a, b) for a, b in pairs))
