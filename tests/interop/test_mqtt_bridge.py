"""A mosquitto that is bridged to a broker, in both directions: nothing is lost, nothing circles."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest

from tests.interop.mqtt_brokers import mosquitto
from tests.interop.raw_mqtt import RawClient

pytestmark = [pytest.mark.slow, pytest.mark.sockets]
Doors = tuple[int, int]
COUNT = 30
BRIDGE_S = 10.0


def bridge(name: str, door: int, version: str) -> list[str]:
    """As mosquitto does it by itself, with a will and a notification under $SYS."""
    return [
        f"connection {name}",
        f"address 127.0.0.1:{door}",
        "topic # both 1",
        f"bridge_protocol_version {version}",
        "cleansession true",
        "restart_timeout 1",
    ]


def wait_for_bridge(listening: RawClient, speaking: RawClient, topic: str) -> None:
    listening.subscribe(topic)
    deadline = time.monotonic() + BRIDGE_S
    while time.monotonic() < deadline:
        speaking.publish(topic, b"", 1)
        if listening.take_all(0.3):
            return
    raise AssertionError("the bridge does not carry anything")


def exchange(listening: RawClient, speaking: RawClient, topic: str) -> Counter[bytes]:
    """What comes out of so many publications, in order, until it is quiet for a while."""
    listening.subscribe(topic, qos=1)
    time.sleep(1.0)
    for number in range(COUNT):
        speaking.publish(topic, b"%d" % number, 1)
    payloads = [packet.payload for packet in listening.take_all(1.5)]
    assert list(dict.fromkeys(payloads)) == [b"%d" % n for n in range(COUNT)], "order or loss"
    return Counter(payloads)


@pytest.mark.parametrize("version", ["mqttv311", "mqttv50"])
def test_a_bridged_mosquitto_is_a_client_like_others(
    doors: Doors, tmp_path: Path, version: str
) -> None:
    once = Counter({b"%d" % number: 1 for number in range(COUNT)})
    with (
        mosquitto(tmp_path, bridge(f"bridge-{version}", doors[0], version)) as rival,
        RawClient(rival.port) as outside,
        RawClient(doors[1]) as inside,
    ):
        outside.connect(f"outside-{version}")
        inside.connect(f"inside-{version}")
        wait_for_bridge(inside, outside, f"hello/in/{version}")
        wait_for_bridge(outside, inside, f"hello/out/{version}")
        assert exchange(inside, outside, f"in/{version}") == once
        assert exchange(outside, inside, f"out/{version}") == once
        # Whoever hears its own topic hears itself once: not the echo of the other side.
        assert exchange(inside, inside, f"own/{version}") == once
        assert exchange(outside, outside, f"own-out/{version}") == once


def test_a_mosquitto_with_bridges_to_two_brokers_is_no_ring(doors: Doors, tmp_path: Path) -> None:
    """What leaves the overlay at one broker does not come in again at the other. That mosquitto
    itself gets and gives everything twice, over its two bridges, is its own affair."""
    lines = [line for n in (0, 1) for line in bridge(f"ring-{n}", doors[n], "mqttv50")]
    with (
        mosquitto(tmp_path, lines) as rival,
        RawClient(rival.port) as outside,
        RawClient(doors[0]) as inside,
        RawClient(doors[1]) as hearer,
    ):
        outside.connect("ring-outside")
        inside.connect("ring-inside")
        hearer.connect("ring-hearer")
        wait_for_bridge(hearer, outside, "ring/hello/in")
        wait_for_bridge(outside, inside, "ring/hello/out")
        time.sleep(1.0)
        hearer.take_all(0.5)
        once = Counter({b"%d" % number: 1 for number in range(COUNT)})
        assert exchange(hearer, inside, "ring/out") == once
        assert exchange(inside, inside, "ring/own") == once
        twice = Counter({b"%d" % number: 2 for number in range(COUNT)})
        assert exchange(hearer, outside, "ring/in") == twice
