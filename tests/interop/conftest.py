"""One chain of two brokers with MQTT doors for all tests of a module.

With PUBWEAVE_MQTT_RIVAL=1 it is one mosquitto instead: what it fails, a test may ask too much. With
PUBWEAVE_MQTT_STRATEGY=topic_connected or rendezvous the brokers route so."""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.interop.mqtt_brokers import broker_chain, mosquitto
from tests.interop.raw_mqtt import wait_until_linked


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, int]]:
    """Where the doors of two neighboring brokers listen."""
    folder = tmp_path_factory.mktemp("doors")
    if os.environ.get("PUBWEAVE_MQTT_RIVAL"):
        with mosquitto(folder, []) as broker:
            yield broker.port, broker.port
        return
    strategy = os.environ.get("PUBWEAVE_MQTT_STRATEGY", "tree")
    with broker_chain(folder, 2, "--strategy", strategy) as (first, second):
        wait_until_linked([first.port, second.port])
        yield first.port, second.port
