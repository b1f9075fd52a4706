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
from pubweave.cli.options.coordination import choose_store, target_of
from pubweave.cli.options.settings import (
    DURABILITY,
    JSON,
    MQTT,
    SECURITY,
    ZOOKEEPER,
    ZOOKEEPER_AUTH,
    Flag,
    settings_options,
)
from pubweave.cli.output import LiveView, print_json, progress_bar, remark, warn
from pubweave.core.routing.topic_connected.membership_map import MAP_TOPIC
from pubweave.core.strategies import strategy_names
from pubweave.design.ci.rules import Heuristic
from pubweave.design.tco.interests import Subscriptions
from pubweave.model.files.subscriptions import read_subscriptions
from pubweave.model.files.topology import read_topology
from pubweave.model.ids import Link
from pubweave.model.messages.topic_connected import TOPIC_PROTOCOL
from pubweave.model.topology import Topology, TopologyError
from pubweave.runtime.net.signals import StopRequest, run_async
from pubweave.runtime.observe.security_check import check_files
from pubweave.runtime.overlay.events import BrokerDied, OverlayEvent, StoreChoice, StoreTrouble
from pubweave.runtime.overlay.run_directory import (
    JOURNAL_DIRECTORY,
    TELEMETRY_DIRECTORY,
    RunDirectory,
)
from pubweave.runtime.overlay.spec import OverlaySpec, exposed, make_spec, validate_shared
from pubweave.runtime.security.directory import broker_security
from pubweave.runtime.settings.check import uses_store
from pubweave.runtime.settings.sources import Effective
from pubweave.runtime.settings.tree import BrokerTable, OverlayTable, Settings

if TYPE_CHECKING:
    from pubweave.runtime.observe.pulse import PulseMeter
    from pubweave.runtime.overlay.overlay import Overlay

LIVE_INTERVAL_S = 1.0
LINE_INTERVAL_S = 5.0

_FLAGS = (
    Flag("TOPOLOGY", "overlay.topology", "What to start.", is_argument=True),
    Flag(
        "--subscriptions",
        "overlay.subscriptions",
        "With --strategy topic_connected instead of TOPOLOGY: which brokers want which topics.",
        metavar="FILE",
    ),
    Flag("--name", "overlay.name", "The overlay's name; that of the file by default."),
    Flag("--host", "overlay.host", "Where brokers listen."),
    Flag(
        "--port",
        "overlay.port",
        "The first broker's port, the others count on; 0 takes any free ones.",
    ),
    Flag("--strategy", "broker.strategy", "How brokers route.", choices=strategy_names()),
    Flag(
        "--run-dir",
        "overlay.run_directory",
        "Where the overlay keeps its state, logs and telemetry; or PUBWEAVE_RUN.",
        metavar="DIR",
    ),
    SECURITY,
    ZOOKEEPER,
    ZOOKEEPER_AUTH,
    Flag(
        "--no-zookeeper",
        "store.enabled",
        "Do without: no plan can be applied then.",
        value="false",
    ),
    Flag(
        "--self-organize",
        "self_organizing.heuristic",
        "Let brokers exchange links by themselves: by cost and common interest (ci), by cost alone "
        "(mst) or by common interest alone (mit). Needs ZooKeeper.",
        choices=[heuristic.value for heuristic in Heuristic],
        implies=("self_organizing.enabled", "true"),
    ),
    Flag(
        "--relocation",
        "relocation.mode",
        "Let publishers move to the broker where they cost least: by the majority of subscribers "
        "(pop) or by load and delay (grape).",
    ),
    Flag("--no-telemetry", "broker.telemetry.enabled", "Record nothing.", value="false"),
    MQTT,
    DURABILITY,
    Flag("--duration", "overlay.duration_s", "Stop after this many seconds.", metavar="SECONDS"),
    Flag(
        "-q --quiet", "output.quiet", "Report only the start, troubles and the end.", value="true"
    ),
    JSON,
)


@click.command()
@settings_options(*_FLAGS)
@click.pass_context
def up(ctx: click.Context, /, effective: Effective) -> None:
    """Start the brokers of a TOPOLOGY file on this machine and watch over them.

    The topology must be a tree. Brokers listen where their attribute "address" says, or else at
    --host on ports from --port on, in the order of their ids. A broker process that dies is
    started again. Ctrl-C stops everything.

    Each setting has a place in the file that --config names, shown in brackets below. There are
    many more: 'pubweave config show' prints them, docs/reference/configuration.md explains them.

    With --strategy topic_connected it can be any graph ('pubweave tco build' makes one): brokers
    route by topic, add the links they need, and need no ZooKeeper. Or give --subscriptions, CSV or
    Parquet with the columns client,topic: a broker is started for each client, and they are linked
    so that those that want a topic are connected among themselves.

    With --strategy rendezvous the brokers form a Chord ring and topics have trees on it; the links
    of the TOPOLOGY are only how they meet. A broker's attribute "ring_id" says where on the ring it
    is; 'pubweave remap' moves brokers to other positions, and placement.size lets clients move.
    Brokers with an attribute "cluster" reach the ring through those of their cluster that have a
    link with it.

    A ZooKeeper server is started with the overlay (that needs Java), so that plans can be applied
    to it with 'pubweave apply'; or name an existing ensemble. With --self-organize the brokers
    improve the tree by themselves; a plan that is applied goes before that. With --relocation
    publishers move to the brokers where they cost least ('pubweave relocate' shows where).

    \b
    Example:
      pubweave topology generate hierarchical -n 20 -o tree.json
      pubweave up tree.json
      pubweave up tree.json --port 0 --duration 60 --json
      pubweave up --config overlay.toml --set broker.mqtt.queue_messages=5000
      pubweave up tree.json --self-organize ci --set self_organizing.interval_s=10
      pubweave up tree.json --relocation grape --set relocation.preference.priority=delay
      pubweave security init secure --topology tree.json; pubweave up tree.json --security secure
      pubweave up tree.json --mqtt 127.0.0.1:1883
      pubweave up overlay.json --strategy topic_connected
      pubweave up tree.json --strategy rendezvous --set placement.size=10
      pubweave up --strategy topic_connected --subscriptions subscriptions.csv
    """
    settings = effective.settings
    overlay, output = settings.overlay, settings.output
    spec = spec_of(settings)
    _check_security(spec)
    opened = functools.partial(
        open_overlay,
        spec,
        overlay.run_directory,
        output.json,
        in_process=overlay.in_process,
        restart=overlay.restart,
        store=_store(settings),
    )
    view = LiveView(as_json=output.json, quiet=output.quiet)
    ctx.exit(run_async(_run(opened, settings, view)))


def spec_of(settings: Settings) -> OverlaySpec:
    """The overlay that settings name, with its journals and telemetry in the run directory."""
    source = _source(settings.overlay)
    is_file = settings.overlay.subscriptions is None
    topology = _read(source) if is_file else topology_for(source)
    run_dir = settings.overlay.run_directory

    def in_run_dir(table: BrokerTable) -> BrokerTable:
        journal, telemetry = table.journal, table.telemetry
        journals = journal.directory or run_dir / JOURNAL_DIRECTORY
        records = telemetry.directory or run_dir / TELEMETRY_DIRECTORY
        return replace(
            table,
            journal=replace(journal, directory=journals),
            telemetry=replace(telemetry, directory=records),
        )

    validate_shared(settings.broker)
    with blaming(str(source)):
        name = settings.overlay.name or usable_name(source.stem)
        spec = make_spec(topology, settings.with_tables(in_run_dir), name=name)
    prices = settings.self_organizing.prices
    return spec if prices is None else replace(spec, link_prices=read_prices(prices, topology))


def read_prices(file: Path, topology: Topology) -> dict[Link, float]:
    """The prices of links in a file; BadInput names a broker or link that cannot be."""
    subject = f"self_organizing.prices = {file}"
    with blaming(subject):
        table = read_topology(file)
    strange = sorted(table.brokers - topology.brokers)
    if strange:
        raise BadInput(f"{subject}: the overlay has no broker {strange[0]!r}")
    if not table.latency_ms:
        raise BadInput(f"{subject}: no link has a latency_ms: give each its price")
    return dict(table.latency_ms)


def _store(settings: Settings) -> StoreChoice | None:
    """The store an overlay gets, if its brokers do not decide by themselves."""
    is_wanted = settings.store.enabled and uses_store(settings.broker.strategy)
    return choose_store(target_of(settings), is_wanted=is_wanted)


def usable_name(stem: str) -> str:
    """A file's name as the name of an overlay, which the store has to take.

    >>> usable_name("my tree (2)")
    'my-tree-2'
    """
    return re.sub(r"[^A-Za-z0-9_.:-]+", "-", stem).strip("-_.:") or "overlay"


def _read(path: Path) -> Topology:
    """The topology in a file."""
    try:
        return read_topology(path)
    except TopologyError as error:
        raise BadInput(str(error)) from error


def _check_security(spec: OverlaySpec) -> None:
    """What secures the overlay is there and can be read, before anything is started; if nothing
    does, say what that means."""
    for broker in spec.brokers:
        found = broker_security(spec.settings.of(broker).security, broker)
        if found is not None:
            check_files(broker, found)
        elif open_to_all := exposed([*spec.addresses.values(), *spec.mqtt.values()]):
            warn_exposed(str(open_to_all[0]))
            return


def warn_exposed(address: str) -> None:
    """Say what it means to listen at an address that other machines reach."""
    warn(
        f"{address} can be reached from other machines, and there is no authentication: "
        "whoever reaches it can publish and subscribe; secure it with 'pubweave security init'"
    )


async def _run(opened: Callable[[], Overlay], settings: Settings, view: LiveView) -> int:
    from pubweave.runtime.observe.pulse import PulseMeter

    meter, as_json = PulseMeter(), settings.output.json
    is_shown = not (settings.output.quiet or as_json)
    async with StopRequest() as stop:
        overlay = opened()
        try:
            if await start_with_progress(overlay, stop, shown=is_shown):
                _tell_started(overlay, settings.overlay.run_directory, as_json)
                with view:
                    await _watch(overlay, stop, view, meter, settings)
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
    settings: Settings,
) -> None:
    from pubweave.cli.run.status_view import live_drawing

    duration = settings.overlay.duration_s
    is_frequent = view.is_live or settings.output.json
    usual_s = LIVE_INTERVAL_S if is_frequent else LINE_INTERVAL_S
    every_s = settings.overlay.report_every_s or usual_s
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


BROKERS_MAX = 500
"""More processes than that are a mistake: somebody else's followers, taken for brokers."""


def _source(table: OverlayTable) -> Path:
    """The file that an overlay is to be started from."""
    source = table.topology or table.subscriptions
    if source is None:
        raise click.UsageError(
            f"give a TOPOLOGY file, or --subscriptions FILE with --strategy {TOPIC_PROTOCOL}"
        )
    return source


def topology_for(path: Path) -> Topology:
    """An overlay in which the subscribers of each topic are connected, and all brokers are."""
    from pubweave.design.tco.low_oda import build_overlay

    wanted = Subscriptions.from_pairs(*read_subscriptions(path))
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
    return everybody.overlay(links)
