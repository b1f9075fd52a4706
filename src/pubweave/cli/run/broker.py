"""``pubweave broker``: a single broker on its own host, told where its neighbors are."""

from __future__ import annotations

import asyncio
import functools
import logging
import signal
from pathlib import Path
from typing import TYPE_CHECKING

import click
import msgspec

from pubweave.cli.errors import BadInput
from pubweave.cli.options.coordination import coordination_of
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
from pubweave.cli.output import print_json, remark
from pubweave.cli.run.up import warn_exposed
from pubweave.core.strategies import strategy_names
from pubweave.deploy.commands import create_topology
from pubweave.deploy.documents import Layout
from pubweave.model.files.topology import read_topology
from pubweave.runtime.net.addresses import is_loopback
from pubweave.runtime.net.signals import StopRequest, run_async
from pubweave.runtime.observe.security_check import check_files
from pubweave.runtime.security.directory import broker_security
from pubweave.runtime.settings.sources import Effective
from pubweave.runtime.settings.text import changes
from pubweave.runtime.settings.tree import BrokerTable, Settings
from pubweave.runtime.store.session import opened_store, run_command
from pubweave.runtime.store.zookeeper_target import Coordination

if TYPE_CHECKING:
    from pubweave.runtime.broker.host import BrokerHost
    from pubweave.runtime.overlay.broker_process import BrokerService

_FLAGS = (
    Flag("--id", "broker.id", "The broker's id."),
    Flag(
        "--listen",
        "broker.listen",
        "Where to listen; port 0 takes any free one.",
        metavar="HOST:PORT",
    ),
    Flag(
        "--neighbor",
        "broker.neighbors",
        "A neighbor and where it listens; once for each link.",
        metavar="ID=HOST:PORT",
        is_keyed=True,
    ),
    Flag(
        "--advertise",
        "broker.advertise",
        "Where others reach this broker, if that is not where it listens.",
        metavar="HOST:PORT",
    ),
    Flag("--strategy", "broker.strategy", "How to route.", choices=strategy_names()),
    ZOOKEEPER,
    ZOOKEEPER_AUTH,
    Flag("--overlay", "overlay.name", "The overlay this broker belongs to, with --zookeeper."),
    Flag(
        "--topology",
        "overlay.topology",
        "What the overlay looks like at first, with --zookeeper: stored there unless one is.",
        metavar="FILE",
    ),
    MQTT,
    Flag(
        "--telemetry",
        "broker.telemetry.directory",
        "Record what the broker does in this directory.",
        metavar="DIR",
    ),
    DURABILITY,
    Flag(
        "--journal-dir",
        "broker.journal.directory",
        "Where the journal is; the broker goes on with what is there.",
        metavar="DIR",
    ),
    SECURITY,
    Flag("-v --verbose", "output.verbose", "Log what happens to connections.", value="true"),
    JSON,
)


@click.command()
@settings_options(*_FLAGS)
@click.pass_context
def broker(ctx: click.Context, effective: Effective) -> None:
    """Run one broker of an overlay whose others are elsewhere, until Ctrl-C or SIGTERM. On SIGHUP
    a secured broker reads its certificates, passwords and rules again.

    Both ends of a link must name each other; the one with the smaller id dials. Each setting has a
    place in the file that --config names, shown in brackets below; all of them are in
    docs/reference/configuration.md. 'pubweave config show' prints them.

    With --zookeeper the broker takes part in plans of its --overlay. Its links are then those of
    the topology in ZooKeeper, and brokers find each other there: --neighbor is not needed. One
    that is in no topology yet waits for a plan that appends it. With self_organizing.enabled it
    takes part in organizing the overlay.

    \b
    Example:
      pubweave broker --id b1 --listen 127.0.0.1:7001 --neighbor b2=127.0.0.1:7002
      pubweave broker --id b2 --listen 127.0.0.1:7002 --neighbor b1=127.0.0.1:7001
      pubweave broker --id b3 --listen 127.0.0.1:7005 --mqtt 127.0.0.1:1883
      pubweave broker --config b4.toml --set broker.mqtt.queue_messages=5000
      pubweave broker --id b1 --listen 10.0.0.3:7001 --overlay demo --topology tree.json \\
        --zookeeper 10.0.0.1:2181
    """
    from pubweave.runtime.overlay.broker_process import LOG_FORMAT

    settings = effective.settings
    _check_complete(settings.broker)
    coordination = coordination_of(settings)
    security = broker_security(settings.broker.security, settings.broker.id)
    if security is not None:
        check_files(settings.broker.id, security)
    level = logging.INFO if settings.output.verbose else logging.WARNING
    logging.basicConfig(level=level, format=LOG_FORMAT)
    listen = settings.broker.listen
    if security is None and listen is not None and not is_loopback(listen.host):
        warn_exposed(str(listen))
    ctx.exit(run_async(_run(settings, coordination)))


def _check_complete(table: BrokerTable) -> None:
    """BadInput says what a single broker has to be told."""
    if not table.id or table.listen is None:
        raise BadInput("a broker needs --id and --listen (or [broker] id and listen in --config)")
    if table.durability == "journal" and table.journal.directory is None:
        raise BadInput(
            "--durability journal needs --journal-dir (or [broker.journal] directory): where to "
            "keep the journal"
        )


async def _store_topology(path: Path, coordination: Coordination | None) -> None:
    """Put the topology of a file into the store, unless there is one."""
    if coordination is None:
        raise BadInput("--topology is for overlays with a store: give --zookeeper, too")
    topology = read_topology(path)
    async with opened_store(coordination.target) as store:
        await run_command(store, create_topology(Layout(coordination.overlay), topology))


async def _run(settings: Settings, coordination: Coordination | None) -> int:
    from pubweave.runtime.overlay.broker_process import BrokerService

    as_json, topology = settings.output.json, settings.overlay.topology
    if topology is not None:
        await _store_topology(topology, coordination)
    async with StopRequest() as stop:
        service = BrokerService(settings, coordination)
        if service.agent is not None:
            service.agent.on_problem = functools.partial(_tell_problem, settings.broker.id, as_json)
        try:
            await _start(service)
            _tell_listening(service.host, as_json)
            if service.host.is_secured:
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
    id_, address = host.config.id, str(host.address)
    mqtt = None if host.mqtt_address is None else str(host.mqtt_address)
    if as_json:
        said = {"event": "listening", "broker": id_, "address": address, "mqtt": mqtt}
        print_json({**said, "settings": changes(host.settings)})
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
    id_, counted = host.config.id, host.broker.counters.status()
    if as_json:
        print_json({"event": "stopped", "broker": id_, "totals": msgspec.to_builtins(counted)})
    else:
        click.echo(
            f"stopped broker {id_}: {counted.publications_in:,} publications, "
            f"{counted.deliveries:,} deliveries, {counted.lost_in_words}"
        )
