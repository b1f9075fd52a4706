"""``pubweave broker``: a single broker on its own host, told where its neighbors are."""

from __future__ import annotations

import asyncio
import functools
import logging
import signal
import tomllib
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import msgspec

from pubweave.cli.errors import BadInput
from pubweave.cli.kinds import DIRECTORY, FILE, SHARE, packed
from pubweave.cli.options.brokers import (
    chosen_journal,
    durability_options,
    mqtt_option,
    on_loop_option,
    with_mqtt,
)
from pubweave.cli.options.coordination import given_target, zookeeper_options
from pubweave.cli.options.placement import NUMBER_OPTIONS, changed_fields, check_placement
from pubweave.cli.options.security import broker_security_options
from pubweave.cli.options.target import address_option
from pubweave.cli.output import json_option, print_json, remark
from pubweave.cli.run.up import warn_exposed
from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.entry_limits import EntryLimits
from pubweave.core.config.mqtt import MqttConfig, OnLoop
from pubweave.core.config.placement import PlacementConfig
from pubweave.core.config.relocation import RelocationConfig
from pubweave.core.config.self_organizing import OrganizeConfig
from pubweave.core.config.session import SessionLimits
from pubweave.core.strategies import GRAPHS, STRATEGIES, make_strategy
from pubweave.deploy.commands import create_topology
from pubweave.deploy.layout import Layout
from pubweave.model.files.topology import read_topology
from pubweave.model.messages.topic_connected import TOPIC_PROTOCOL
from pubweave.runtime.broker.host_config import HostConfig
from pubweave.runtime.net.addresses import Address, is_loopback
from pubweave.runtime.net.signals import StopRequest, run_async
from pubweave.runtime.net.tls import server_context
from pubweave.runtime.security.broker_files import BrokerSecurity, secured
from pubweave.runtime.security.passwords import read_passwords
from pubweave.runtime.store.session import opened_store, run_command
from pubweave.runtime.store.zookeeper_target import Coordination

if TYPE_CHECKING:
    from pubweave.runtime.broker.host import BrokerHost
    from pubweave.runtime.overlay.broker_process import BrokerService


def parse_neighbor(text: str) -> tuple[str, Address]:
    """``id=host:port``."""
    broker, separator, address = text.partition("=")
    if not separator or not broker:
        raise click.BadParameter(f"{text!r}: write id=host:port, for example b2=10.0.0.2:7001")
    try:
        return broker, Address.parse(address)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@dataclass(frozen=True)
class RingChoice:
    """What was chosen: brokers of the ring, members of the placement cluster, its settings."""

    ring: dict[str, Address]
    members: dict[str, Address]
    placement: dict[str, Any]

    @property
    def neighbors(self) -> dict[str, Address]:
        return {**self.ring, **self.members}

    def applied(self, config: HostConfig) -> HostConfig:
        """A broker with these settings; told in words if its strategy has no use for them."""
        broker = config.broker
        if self.ring and broker.strategy != TOPIC_PROTOCOL:
            raise BadInput(f"--ring is for brokers of clusters: give --strategy {TOPIC_PROTOCOL}")
        check_placement("--placement-with", bool(self.members), broker.strategy, self.placement)
        topics, placement = broker.topics, broker.placement
        if self.ring:
            topics = replace(topics, ring=tuple(self.ring))
        if self.members:
            placement = replace(placement, members=tuple(self.members), **self.placement)
        return replace(config, broker=replace(broker, topics=topics, placement=placement))


ring_options = packed(
    "ring",
    lambda ring, members, **given: RingChoice(dict(ring), dict(members), changed_fields(**given)),
    click.option(
        "--ring",
        multiple=True,
        type=parse_neighbor,
        metavar="ID=HOST:PORT",
        help="A broker of a ring, with --strategy topic_connected: be a gateway there.",
    ),
    click.option(
        "--placement-with",
        "members",
        multiple=True,
        type=parse_neighbor,
        metavar="ID=HOST:PORT",
        help="Another broker of the placement cluster, with --strategy rendezvous.",
    ),
    *NUMBER_OPTIONS,
)
"""All of them; the command gets ``ring``, a `RingChoice`."""

_FILE_KEYS = ("id", "listen", "strategy", "neighbors", "telemetry", "sample", "settings")


_NOT_SETTINGS = {"id", "strategy", "access", "certified", "secret"}
"""Of a broker's configuration, what is said elsewhere."""


@dataclass(frozen=True)
class BrokerFile:
    """A configuration file as far as it was written; options go before it."""

    id: str | None = None
    listen: Address | None = None
    strategy: str | None = None
    neighbors: dict[str, Address] = field(default_factory=dict)
    telemetry: Path | None = None
    sample: float | None = None
    settings: dict[str, Any] = field(default_factory=dict)


@click.command()
@click.option("--id", "id_", help="The broker's id.")
@address_option("--listen", help="Where to listen; port 0 takes any free one.")
@click.option(
    "--neighbor",
    "neighbors",
    multiple=True,
    type=parse_neighbor,
    metavar="ID=HOST:PORT",
    help="A neighbor and where it listens; once for each link.",
)
@ring_options
@click.option(
    "--config", type=FILE, help="A TOML file with the same and more; options go before it."
)
@zookeeper_options
@click.option("--overlay", help="The overlay this broker belongs to, with --zookeeper.")
@click.option(
    "--topology",
    type=FILE,
    help="What the overlay looks like at first, with --zookeeper: stored there unless one is.",
)
@mqtt_option
@on_loop_option
@address_option("--advertise", help="Where others reach this broker. [default: --listen]")
@click.option("--strategy", type=click.Choice(sorted(STRATEGIES)), help="How to route.")
@click.option("--telemetry", type=DIRECTORY, help="Record what the broker does in this directory.")
@click.option("--sample", type=SHARE, help="The share of publications recorded.")
@durability_options("")
@click.option(
    "--held-file",
    type=FILE,
    help="Without a journal: a file to note in how much only this broker has. If it is killed, the "
    "one that is started in its place with the same file counts that as lost and says so.",
)
@broker_security_options
@click.option("-v", "--verbose", is_flag=True, help="Log what happens to connections.")
@json_option
@click.pass_context
def broker(
    ctx: click.Context,
    id_: str | None,
    listen: Address | None,
    neighbors: tuple[tuple[str, Address], ...],
    ring: RingChoice,
    config: Path | None,
    zookeeper: str | None,
    zookeeper_auth: str | None,
    overlay: str | None,
    topology: Path | None,
    mqtt: Address | None,
    on_loop: OnLoop | None,
    advertise: Address | None,
    strategy: str | None,
    telemetry: Path | None,
    sample: float | None,
    durability: str,
    journal_dir: Path | None,
    held_file: Path | None,
    security: Callable[[str], BrokerSecurity | None],
    verbose: bool,
    as_json: bool,
) -> None:
    """Run one broker of an overlay whose others are elsewhere, until Ctrl-C or SIGTERM. On SIGHUP
    a secured broker reads its certificates, passwords and rules again.

    Both ends of a link must name each other; the one with the smaller id dials. A configuration
    file has the keys id, listen, strategy, telemetry, sample, a table [neighbors] of addresses
    and a table [settings] of bounds and intervals (client_expiry_s, limits.window_bytes, ...);
    with [settings.organize] (heuristic, eta, interval_s, ...) and --zookeeper the broker takes
    part in organizing the overlay.

    With --zookeeper the broker takes part in plans of its --overlay. Its links are then those of
    the topology in ZooKeeper, and brokers find each other there: --neighbor is not needed. One
    that is in no topology yet waits for a plan that appends it.

    \b
    Example:
      pubweave broker --id b1 --listen 127.0.0.1:7001 --neighbor b2=127.0.0.1:7002
      pubweave broker --id b2 --listen 127.0.0.1:7002 --neighbor b1=127.0.0.1:7001
      pubweave broker --id b3 --listen 127.0.0.1:7005 --mqtt 127.0.0.1:1883
      pubweave broker --id c1 --listen 127.0.0.1:7003 --strategy topic_connected \\
        --ring b1=127.0.0.1:7001
      pubweave broker --id b1 --listen 10.0.0.3:7001 --overlay demo --topology tree.json \\
        --zookeeper 10.0.0.1:2181
    """
    from pubweave.runtime.overlay.broker_process import LOG_FORMAT

    written = BrokerFile() if config is None else read_broker_file(config)
    near = dict(neighbors) | ring.neighbors
    given = BrokerFile(id_, listen, strategy, near, telemetry, sample)
    host_config = ring.applied(make_host_config(_merged(written, given)))
    coordination = _coordination(zookeeper, zookeeper_auth, overlay)
    host_config = replace(
        host_config,
        advertised=advertise,
        links_at_start=coordination is None or host_config.broker.strategy in GRAPHS,
        journal_directory=chosen_journal(durability, journal_dir, None),
        held_file=held_file,
    )
    host_config = _secured(with_mqtt(host_config, mqtt, on_loop), security(host_config.broker.id))
    logging.basicConfig(level=logging.INFO if verbose else logging.WARNING, format=LOG_FORMAT)
    if host_config.security is None and not is_loopback(host_config.listen.host):
        warn_exposed(str(host_config.listen))
    ctx.exit(run_async(_run(host_config, coordination, topology, as_json)))


def _secured(config: HostConfig, security: BrokerSecurity | None) -> HostConfig:
    if security is not None:
        server_context(security.tls)
        if security.passwords is not None:
            read_passwords(Path(security.passwords))
    return replace(config, broker=secured(config.broker, security), security=security)


def _coordination(
    zookeeper: str | None, auth: str | None, overlay: str | None
) -> Coordination | None:
    target = given_target(zookeeper, auth)
    if target is None:
        return None
    if overlay is None:
        raise BadInput("--zookeeper needs --overlay: the name of the overlay there")
    return Coordination(overlay, target)


async def _store_topology(path: Path, coordination: Coordination | None) -> None:
    """Put the topology of a file into the store, unless there is one."""
    if coordination is None:
        raise BadInput("--topology is for overlays with a store: give --zookeeper, too")
    topology = read_topology(path)
    async with opened_store(coordination.target) as store:
        await run_command(store, create_topology(Layout(coordination.overlay), topology))


async def _run(
    config: HostConfig, coordination: Coordination | None, topology: Path | None, as_json: bool
) -> int:
    from pubweave.runtime.overlay.broker_process import BrokerService

    if topology is not None:
        await _store_topology(topology, coordination)
    async with StopRequest() as stop:
        service = BrokerService(config, coordination)
        if service.agent is not None:
            service.agent.on_problem = functools.partial(_tell_problem, config.broker.id, as_json)
        try:
            await _start(service)
            _tell_listening(service.host, as_json)
            if config.security is not None:
                # Before, it was a closed terminal; to stop this broker there is SIGTERM.
                asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, service.reload)
            await stop.wait()
        finally:
            await service.stop()
        _tell_stopped(service.host, as_json)
        return stop.exit_code


async def _start(service: BrokerService) -> None:
    from pubweave.runtime.overlay.broker_process import CannotListenError

    try:
        await service.start()
    except CannotListenError as error:
        advice = "choose another port (0: any free one) or another address for --listen"
        raise BadInput(f"{error}; {advice}") from error


def _tell_listening(host: BrokerHost, as_json: bool) -> None:
    id_, address = host.config.broker.id, str(host.address)
    mqtt = None if host.mqtt_address is None else str(host.mqtt_address)
    if as_json:
        print_json({"event": "listening", "broker": id_, "address": address, "mqtt": mqtt})
    else:
        neighbors = len(host.config.neighbors)
        at = address if mqtt is None else f"{address} (MQTT at {mqtt})"
        remark(f"broker {id_} listens at {at}, neighbors: {neighbors}")


def _tell_problem(id_: str, as_json: bool, problem: str) -> None:
    """A broker that the store does not let in listens, but takes part in nothing."""
    if as_json:
        print_json({"event": "store", "broker": id_, "problem": problem or None})
    elif problem:
        remark(
            f"broker {id_} takes no part in its overlay: {problem} "
            "(--zookeeper-auth-file FILE, or PUBWEAVE_ZOOKEEPER_AUTH)"
        )
    else:
        remark(f"broker {id_} takes part in its overlay")


def _tell_stopped(host: BrokerHost, as_json: bool) -> None:
    id_, counted = host.config.broker.id, host.broker.counters.status()
    if as_json:
        print_json({"event": "stopped", "broker": id_, "totals": msgspec.to_builtins(counted)})
    else:
        click.echo(
            f"stopped broker {id_}: {counted.publications_in:,} publications, "
            f"{counted.deliveries:,} deliveries, {counted.lost_in_words}"
        )


def read_broker_file(path: Path) -> BrokerFile:
    """A configuration file; BadInput names the file, the key and what it should be."""
    try:
        document = tomllib.loads(path.read_text())
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror or error}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise BadInput(f"{path}: not TOML: {error}") from error
    for key in document:
        if key not in _FILE_KEYS:
            raise BadInput(f"{path}: unknown key {key!r}: there are {', '.join(_FILE_KEYS)}")
    try:
        return BrokerFile(
            id=_typed(document, "id", "a string", str),
            listen=_address(document, "listen"),
            strategy=_typed(document, "strategy", "a string", str),
            neighbors={
                name: _parsed(f"neighbors.{name}", text)
                for name, text in (_typed(document, "neighbors", "a table", dict) or {}).items()
            },
            telemetry=None if "telemetry" not in document else Path(str(document["telemetry"])),
            sample=_typed(document, "sample", "a number", int, float),
            settings=_typed(document, "settings", "a table", dict) or {},
        )
    except ValueError as error:
        raise BadInput(f"{path}: {error}") from error


def make_host_config(file: BrokerFile) -> HostConfig:
    """A broker's configuration; BadInput says what is missing or cannot be."""
    if not file.id or file.listen is None:
        raise BadInput("a broker needs --id and --listen (or id and listen in --config)")
    if file.id in file.neighbors:
        raise BadInput(f"broker {file.id!r} cannot be its own neighbor")
    if file.sample is not None and not 0 <= file.sample <= 1:
        raise BadInput(f"sample must be between 0 and 1, got {file.sample:g}")
    tables = {
        "settings": (BrokerConfig, file.settings),
        "settings.limits": (SessionLimits, file.settings.get("limits", {})),
        "settings.mqtt": (MqttConfig, file.settings.get("mqtt", {})),
        "settings.entry": (EntryLimits, file.settings.get("entry", {})),
        "settings.organize": (OrganizeConfig, file.settings.get("organize", {})),
        "settings.relocation": (RelocationConfig, file.settings.get("relocation", {})),
        "settings.placement": (PlacementConfig, file.settings.get("placement", {})),
    }
    for name, (known, table) in tables.items():
        allowed = sorted({f.name for f in fields(known)} - _NOT_SETTINGS)
        if unknown := sorted(set(table) - set(allowed)):
            raise BadInput(f"{name}: unknown key {unknown[0]!r}: there are {', '.join(allowed)}")
    try:
        strategy = file.strategy or "tree"
        make_strategy(strategy, lambda session, message: None)
        settings = {**file.settings, "id": file.id, "strategy": strategy}
        broker_config = msgspec.convert(settings, BrokerConfig)
    except ValueError as error:  # msgspec's own errors are ValueErrors, too
        raise BadInput(f"settings: {error}") from error
    return HostConfig(
        broker=broker_config,
        listen=file.listen,
        neighbors=file.neighbors,
        telemetry_directory=file.telemetry,
        sample_ratio=1.0 if file.sample is None else float(file.sample),
    )


def _merged(written: BrokerFile, given: BrokerFile) -> BrokerFile:
    """What was given as options goes before what the file says; neighbors add up."""
    changes = {
        f.name: value
        for f in fields(BrokerFile)
        if (value := getattr(given, f.name)) is not None and f.name not in ("neighbors", "settings")
    }
    return replace(written, neighbors={**written.neighbors, **given.neighbors}, **changes)


def _typed(document: dict[str, Any], key: str, wanted: str, *kinds: type) -> Any:
    value = document.get(key)
    if value is not None and (not isinstance(value, kinds) or isinstance(value, bool)):
        raise ValueError(f"{key} must be {wanted}, got {value!r}")
    return value


def _address(document: dict[str, Any], key: str) -> Address | None:
    return None if key not in document else _parsed(key, document[key])


def _parsed(key: str, text: object) -> Address:
    try:
        return Address.parse(str(text))
    except ValueError as error:
        raise ValueError(f"{key}: {error}") from error
