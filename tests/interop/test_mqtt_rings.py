"""Rings through mosquittos whose bridges lose the mark (3.1.1): what left comes in no more."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.interop.mqtt_brokers import Running, broker_chain, mosquitto
from tests.interop.raw_mqtt import RawClient, wait_until_linked
from tests.interop.test_mqtt_bridge import bridge, wait_for_bridge

pytestmark = [pytest.mark.slow, pytest.mark.sockets]
COUNT = 50
V3, V5 = "mqttv311", "mqttv50"
PATIENCE_S = 20.0


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Running]]:
    with broker_chain(tmp_path_factory.mktemp("ring"), 3) as chain:
        wait_until_linked([broker.port for broker in chain])
        yield chain


@contextlib.contextmanager
def one_mosquitto(folder: Path, doors: list[int], versions: list[str]) -> Iterator[list[int]]:
    """With bridges to several brokers; where its clients connect."""
    ends = enumerate(zip(doors, versions, strict=True))
    lines = [line for n, (door, version) in ends for line in bridge(f"to-{n}", door, version)]
    with mosquitto(folder, lines) as rival:
        yield [rival.port]


@contextlib.contextmanager
def two_mosquittos(folder: Path, doors: list[int], version: str) -> Iterator[list[int]]:
    """Bridged with each other, and each with one broker."""
    left_lines = bridge("right-out", doors[1], version)
    with mosquitto(folder, left_lines) as right:
        lines = [*bridge("left-out", doors[0], version), *bridge("inner", right.port, V3)]
        with mosquitto(folder, lines) as left:
            yield [left.port, right.port]


def until_quiet(client: RawClient, quiet_s: float = 1.5) -> list[Any]:
    """What comes until nothing does; fails where it never ends."""
    found, deadline = [], time.monotonic() + PATIENCE_S
    while True:
        try:
            found.append(client.take(quiet_s))
        except AssertionError as error:
            assert str(error) == "nothing came", error  # noqa: PT017
            return found
        assert time.monotonic() < deadline, f"it circles: {len(found)} so far"


def copies(hearer: RawClient, speaker: RawClient, topic: str) -> Counter[int]:
    """How often which number of copies came of what was published, all the same payloads among
    them."""
    for number in range(COUNT):
        speaker.publish(topic, b"%d" % number, 1)
    speaker.publish(f"{topic}/same", b"same", 1)
    speaker.publish(f"{topic}/same", b"same", 1)
    came = Counter((packet.topic, packet.payload) for packet in until_quiet(hearer))
    assert len(came) == COUNT + 1, "something is lost"
    came[f"{topic}/same", b"same"] //= 2
    return Counter(came.values())


def check_ring(brokers: list[Running], outside: list[int], name: str) -> None:
    """Published inside, at each broker, and outside, at each mosquitto."""
    with contextlib.ExitStack() as stack:
        inside = [stack.enter_context(RawClient(broker.port)) for broker in brokers]
        for number, client in enumerate(inside):
            client.connect(f"{name}-inside-{number}")
        outer = [stack.enter_context(RawClient(port)) for port in outside]
        for number, client in enumerate(outer):
            client.connect(f"{name}-outside-{number}")
            wait_for_bridge(inside[1], client, f"hello/{name}/{number}")
        hearer = stack.enter_context(RawClient(brokers[1].port))
        hearer.connect(f"{name}-hearer")
        hearer.subscribe(f"{name}/#", qos=1)
        until_quiet(hearer)
        for number, client in enumerate(inside):
            found = copies(hearer, client, f"{name}/in/{number}")
            assert max(found) <= 6, found
            assert found[1] >= 0.8 * COUNT, found
        for number, client in enumerate(outer):
            found = copies(hearer, client, f"{name}/out/{number}")
            assert max(found) <= 6, found


@pytest.mark.parametrize("versions", [[V3, V3], [V3, V5], [V3, V3, V3]])
def test_a_mosquitto_with_several_bridges(
    brokers: list[Running], tmp_path: Path, versions: list[str]
) -> None:
    ends = [brokers[0].port, brokers[2].port, brokers[1].port][: len(versions)]
    with one_mosquitto(tmp_path, ends, versions) as outside:
        check_ring(brokers, outside, "-".join(versions))


@pytest.mark.parametrize("version", [V3, V5])
def test_two_mosquittos_that_are_bridged_with_each_other(
    brokers: list[Running], tmp_path: Path, version: str
) -> None:
    with two_mosquittos(tmp_path, [brokers[0].port, brokers[2].port], version) as outside:
        check_ring(brokers, outside, f"two-{version}")
