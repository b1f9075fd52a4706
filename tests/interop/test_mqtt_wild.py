"""Wildcards across broker processes that route by whole topics: each once, and in order."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.enums import CallbackAPIVersion

from tests.interop.mqtt_brokers import broker_chain
from tests.interop.raw_mqtt import RawClient, wait_until_linked

pytestmark = [pytest.mark.slow, pytest.mark.sockets]
COUNT = 150
PATIENCE_S = 20.0


@pytest.fixture(scope="module", params=["topic_connected", "rendezvous"])
def doors(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[list[int]]:
    """Where the doors of three brokers in a chain listen."""
    folder: Path = tmp_path_factory.mktemp("wild")
    with broker_chain(folder, 3, "--strategy", request.param) as brokers:
        ports = [broker.port for broker in brokers]
        wait_until_linked(ports)
        yield ports


def taken(client: RawClient, count: int) -> list[tuple[str, bytes]]:
    """So many publications, and that there are no more."""
    deadline = time.monotonic() + PATIENCE_S
    found = []
    while len(found) < count and time.monotonic() < deadline:
        packet = client.take(PATIENCE_S)
        found.append((packet.topic, packet.payload))
    client.expect_nothing()
    return found


def test_each_publication_comes_once_and_in_order(doors: list[int]) -> None:
    with RawClient(doors[2]) as far, RawClient(doors[1]) as near:
        far.connect("far")
        assert [int(c) for c in far.subscribe("plant/+/temp", qos=2).reason_codes] == [2]
        near.connect("near")
        near.subscribe("+/+/temp", qos=1)
        publishers = []
        for number, door in enumerate(doors):
            client = RawClient(door)
            client.connect(f"p{number}")
            publishers.append(client)
        expected = []
        for number in range(COUNT):
            for place, client in enumerate(publishers):
                client.publish(
                    f"plant/{number % 4}/temp", b"%d %d" % (place, number), 1 + place % 2
                )
                client.publish("plant/other", b"%d" % number)
                expected.append(b"%d %d" % (place, number))
        found = [payload for _, payload in taken(far, len(expected))]
        assert sorted(found) == sorted(expected)
        for place in range(len(doors)):
            own = [int(p.split()[1]) for p in found if p.startswith(b"%d " % place)]
            assert own == list(range(COUNT))
        assert sorted(payload for _, payload in taken(near, len(expected))) == sorted(expected)
        for client in publishers:
            client.sock.close()


def test_the_first_publication_after_the_answer_is_not_missed(doors: list[int]) -> None:
    """On topics that nobody has used, by clients that leave at once."""
    for number in range(10):
        with RawClient(doors[2]) as wild, RawClient(doors[2]) as exact:
            wild.connect(f"wild{number}")
            exact.connect(f"exact{number}")
            wild.subscribe(f"fresh{number}/#", qos=1)
            exact.subscribe(f"fresh{number}/x", qos=1)
            with RawClient(doors[0]) as publisher:
                publisher.connect(f"once{number}")
                publisher.publish(f"fresh{number}/x", b"first", 1)
            assert taken(wild, 1) == taken(exact, 1) == [(f"fresh{number}/x", b"first")]


def test_a_session_with_wildcards_follows_its_client(doors: list[int]) -> None:
    with RawClient(doors[0]) as publisher:
        publisher.connect("mover-publisher")
        with RawClient(doors[0]) as old:
            old.connect("mover", session_expiry_interval=300)
            old.subscribe("moving/#", "moving/1", qos=2)
            publisher.publish("moving/1", b"0", 1)
            assert taken(old, 1) == [("moving/1", b"0")]
        sent, found = [b"0"], [b"0"]
        for door in (doors[2], doors[1], doors[0]):
            with RawClient(door) as client:
                for _ in range(5):
                    sent.append(b"%d" % len(sent))
                    publisher.publish(f"moving/{len(sent) % 2}", sent[-1], 2)
                answer = client.connect("mover", clean=False, session_expiry_interval=300)
                assert answer.session_present
                found += [payload for _, payload in taken(client, 5)]
        assert sorted(found) == sorted(sent)


def test_paho_subscribes_with_wildcards(doors: list[int]) -> None:
    got: list[bytes] = []
    granted, complete = threading.Event(), threading.Event()

    def on_message(_client: Any, _userdata: Any, message: Any) -> None:
        got.append(message.payload)
        if len(got) == COUNT:
            complete.set()

    subscriber = paho.Client(CallbackAPIVersion.VERSION2, "paho-wild", protocol=paho.MQTTv5)
    subscriber.on_message = on_message
    subscriber.on_subscribe = lambda *_: granted.set()
    subscriber.connect("127.0.0.1", doors[2])
    subscriber.subscribe("paho/#", qos=1)
    subscriber.loop_start()
    assert granted.wait(PATIENCE_S)
    publisher = paho.Client(CallbackAPIVersion.VERSION2, "paho-publisher")
    publisher.connect("127.0.0.1", doors[0])
    publisher.loop_start()
    for number in range(COUNT):
        publisher.publish(f"paho/{number % 3}", b"%d" % number, qos=1)
    assert complete.wait(PATIENCE_S)
    time.sleep(0.3)
    assert got == [b"%d" % number for number in range(COUNT)]
    for client in (subscriber, publisher):
        client.disconnect()
        client.loop_stop()
