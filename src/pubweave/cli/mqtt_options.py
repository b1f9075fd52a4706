"""The option that lets MQTT clients in, of ``broker`` and ``up``."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pubweave.cli.target import address_option
from pubweave.runtime.addresses import Address

if TYPE_CHECKING:
    from pubweave.runtime.host_config import HostConfig

mqtt_option = address_option(
    "--mqtt",
    help="Let MQTT clients in, at this address; of several brokers, at this port and those behind.",
)


def with_mqtt(config: HostConfig, listen: Address | None) -> HostConfig:
    """A broker that lets MQTT clients in where it is told to; its settings may say how."""
    from pubweave.core.mqtt_config import MqttConfig

    if listen is None:
        return replace(config, broker=replace(config.broker, mqtt=None))
    settings = config.broker.mqtt or MqttConfig()
    settings = replace(settings, address=settings.address or str(listen))
    return replace(config, mqtt_listen=listen, broker=replace(config.broker, mqtt=settings))
