"""Options of the verbs that start brokers: their journal, MQTT clients, and the store they get."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click

from pubweave.cli.errors import BadInput
from pubweave.cli.kinds import DIRECTORY, Command, together
from pubweave.cli.options.target import address_option
from pubweave.cli.output import warn
from pubweave.core.config.mqtt import MqttConfig, OnLoop
from pubweave.core.strategies import GRAPHS
from pubweave.runtime.broker.host_config import HostConfig
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.overlay.events import StoreChoice
from pubweave.runtime.store.embedded_zookeeper import ZooKeeperUnavailable, find_jars, find_java
from pubweave.runtime.store.zookeeper_target import ZooKeeperTarget

DURABILITIES = ("memory", "journal")


def durability_options(default_directory: str) -> Callable[[Command], Command]:
    """``--durability`` and ``--journal-dir``; says where journals are if nobody else does."""

    return together(
        click.option(
            "--durability",
            type=click.Choice(DURABILITIES),
            default="memory",
            help="With 'journal' a killed broker comes back with all that it had acknowledged.",
        ),
        click.option(
            "--journal-dir",
            type=DIRECTORY,
            help=f"Where journals are; brokers go on with what is there. {default_directory}",
        ),
    )


def chosen_journal(durability: str, given: Path | None, default: Path | None) -> Path | None:
    """The directory for journals; None: everything stays in memory. BadInput in words."""
    if durability == "memory":
        if given is not None:
            raise BadInput("--journal-dir is of no use without --durability journal")
        return None
    if given is None and default is None:
        raise BadInput("--durability journal needs --journal-dir: where to keep the journal")
    return given or default


mqtt_option = address_option(
    "--mqtt",
    help="Let MQTT clients in, at this address; of several brokers, at this port and those behind.",
)
on_loop_option = click.option(
    "--mqtt-on-loop",
    "on_loop",
    type=click.Choice(["warn", "refuse"]),
    help="Disconnect an MQTT bridge that brings back what another was sent, or only warn. "
    "[default: warn]",
)


def check_on_loop(listen: Address | None, on_loop: OnLoop | None) -> None:
    """UsageError for an option that nothing would come of."""
    if listen is None and on_loop is not None:
        raise click.UsageError("--mqtt-on-loop needs --mqtt: no MQTT clients are let in")


def with_mqtt(config: HostConfig, listen: Address | None, on_loop: OnLoop | None) -> HostConfig:
    """A broker that lets MQTT clients in where it is told to; its settings may say how."""
    check_on_loop(listen, on_loop)
    if listen is None:
        return replace(config, broker=replace(config.broker, mqtt=None))
    settings = config.broker.mqtt or MqttConfig()
    on_loop = on_loop or settings.on_loop
    settings = replace(settings, address=settings.address or str(listen), on_loop=on_loop)
    return replace(config, mqtt_listen=listen, broker=replace(config.broker, mqtt=settings))


def store_for(strategy: str, target: ZooKeeperTarget | None, is_wanted: bool) -> StoreChoice | None:
    """The store an overlay gets; brokers that route on any graph decide by themselves."""
    uses_store = strategy not in GRAPHS or strategy == "rendezvous"
    if not uses_store and target is not None:
        raise click.UsageError(f"--zookeeper is of no use with --strategy {strategy}")
    return choose_store(target, is_wanted=is_wanted and uses_store)


def choose_store(target: ZooKeeperTarget | None, *, is_wanted: bool) -> StoreChoice | None:
    """The store an overlay gets: the one named, or one of its own, or none where none can be."""
    if not is_wanted:
        if target is not None:
            raise click.UsageError("give either --zookeeper or --no-zookeeper, not both")
        return None
    if target is None:
        try:
            find_java()
            find_jars()
        except ZooKeeperUnavailable as error:
            warn(f"no plan can be applied to this overlay: {error}")
            return None
    return StoreChoice(target)
