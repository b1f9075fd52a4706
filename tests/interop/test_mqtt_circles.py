"""Rings through mosquittos that no probe finds: topics without wildcards, other names on the way
round, a bridge that only takes and says nothing. What circles in them ends, and nothing is lost."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interop.mqtt_brokers import Running, ask, broker_chain, mosquitto
from tests.interop.raw_mqtt import RawClient, wait_until_linked

pytestmark = [pytest.mark.slow, pytest.mark.sockets, pytest.mark.timeout(240)]
CIRCLE_S = 60.0
"""So long a publication circles at most."""
QUIET_S = 12.0
"""Longer than any trial lets wait between two copies."""
COPIES_MAX = 150
"""So often it is heard inside meanwhile."""


@pytest.fixture
def brokers(tmp_path: Path) -> Iterator[list[Running]]:
    with broker_chain(tmp_path, 3) as chain:
        wait_until_linked([broker.port for broker in chain])
        yield chain


def bridge(name: str, door: int, *topics: str, says_so: bool = True) -> list[str]:
    """One of version 3.1.1, with topics without wildcards."""
    lines = [f"connection {name}", f"address 127.0.0.1:{door}", "restart_timeout 1"]
    lines += ["bridge_protocol_version mqttv311", "cleansession true"]
    return [*lines, f"notifications {str(says_so).lower()}", *(f"topic {t}" for t in topics)]


def heard(hearer: RawClient, seconds: float) -> list[tuple[str, bytes]]:
    """What comes until nothing has for so long."""
    return [(packet.topic, packet.payload) for packet in hearer.take_all(seconds)]


def circle(hearer: RawClient, speaker: RawClient, topic: str) -> tuple[int, float]:
    """How many copies of one publication come, and for how long."""
    begun = last = time.monotonic()
    speaker.publish(topic, b"round", 1)
    count = 0
    while time.monotonic() - last < QUIET_S:
        found = hearer.take_all(0.5) if count < 10_000 else [None]
        if found:
            count, last = count + len(found), time.monotonic()
        assert last - begun < CIRCLE_S, f"it circles: {count} copies"
    return count, last - begun


def check(brokers: list[Running], conf: list[str], folder: Path, topics: list[str]) -> None:
    """A first publication circles for a while; those after it are heard once under each name."""
    with mosquitto(folder, conf) as rival, contextlib.ExitStack() as stack:
        hearer = stack.enter_context(RawClient(brokers[1].port))
        hearer.connect("hearer")
        hearer.subscribe(*topics, qos=1)
        inside = [stack.enter_context(RawClient(broker.port)) for broker in brokers]
        for number, client in enumerate(inside):
            client.connect(f"inside-{number}")
        outside = stack.enter_context(RawClient(rival.port))
        outside.connect("outside")
        time.sleep(3.0)  # until the bridges are there
        copies, seconds = circle(hearer, inside[0], topics[0])
        print(f"{copies} copies in {seconds:.1f} s")  # noqa: T201
        assert 1 < copies <= COPIES_MAX, "there was no ring" if copies == 1 else copies
        for client in inside:
            for number in range(10):
                client.publish(topics[0], b"%d" % number, 1)
            came = Counter(heard(hearer, 2.0))
            expected = {(topic, b"%d" % n) for topic in topics for n in range(10)}
            assert set(came) == expected, "something is lost"
            print(Counter(came.values()))  # noqa: T201
            assert set(came.values()) == {1}, came


def test_two_bridges_with_exact_topics(brokers: list[Running], tmp_path: Path) -> None:
    ends = [brokers[0].port, brokers[2].port]
    conf = [line for n, door in enumerate(ends) for line in bridge(f"to-{n}", door, "lamp both 1")]
    check(brokers, conf, tmp_path, ["lamp"])


def test_three_bridges_with_exact_topics(brokers: list[Running], tmp_path: Path) -> None:
    ends = [broker.port for broker in brokers]
    conf = [line for n, door in enumerate(ends) for line in bridge(f"to-{n}", door, "lamp both 1")]
    check(brokers, conf, tmp_path, ["lamp"])


def test_a_bridge_that_only_takes_and_says_nothing(brokers: list[Running], tmp_path: Path) -> None:
    """Over one everything goes out, over the other it comes in."""
    conf = bridge("out", brokers[0].port, "lamp in 1", says_so=False)
    conf += bridge("in", brokers[2].port, "lamp out 1", says_so=False)
    check(brokers, conf, tmp_path, ["lamp"])


def test_names_that_are_exchanged(brokers: list[Running], tmp_path: Path) -> None:
    """a/lamp leaves, comes in as b/lamp, leaves and comes in as a/lamp."""
    conf = bridge("one", brokers[0].port, "lamp in 1 m/ a/", "lamp in 1 n/ b/")
    conf += bridge("two", brokers[2].port, "lamp out 1 m/ b/", "lamp out 1 n/ a/")
    check(brokers, conf, tmp_path, ["a/lamp", "b/lamp"])


def test_two_sites_that_say_the_same_lose_nothing(brokers: list[Running], tmp_path: Path) -> None:
    """Each with a bridge of its own, in different rhythms."""
    with contextlib.ExitStack() as stack:
        sites = []
        for number in (0, 2):
            conf = bridge(f"site-{number}", brokers[number].port, "lamp both 1")
            rival = stack.enter_context(mosquitto(tmp_path, conf))
            site = stack.enter_context(RawClient(rival.port))
            site.connect(f"client-{number}")
            sites.append(site)
        hearer = stack.enter_context(RawClient(brokers[1].port))
        hearer.connect("hearer")
        hearer.subscribe("lamp", qos=1)
        time.sleep(3.0)
        said = 0
        for pause_s, times in ((0.0, 100), (0.05, 100), (0.25, 40), (1.0, 10)):
            for _ in range(times):
                for site in sites:
                    site.publish("lamp", b"on", 1)
                    said += 1
                time.sleep(pause_s)
        came = heard(hearer, 30.0)
        assert len(came) == said
    assert sum(ask(broker, "status")["mqtt"]["echoes"] for broker in brokers) == 0
