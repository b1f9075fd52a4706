"""Options for MQTT clients, of ``broker`` and ``up``."""

from __future__ import annotations

from dataclasses import replace

import click

from pubweave.cli.options.target import address_option
from pubweave.core.config.mqtt import MqttConfig, OnLoop
from pubweave.runtime.broker.host_config import HostConfig
from pubweave.runtime.net.addresses import Address

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
