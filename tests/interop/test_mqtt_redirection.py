"""Clients of paho-mqtt that are sent to another broker, as an operator or GRAPE asks for it."""

from __future__ import annotations

import contextlib
import json
import queue
import time
from collections.abc import Iterator
from typing import Any

import paho.mqtt.client as paho
import pytest
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from pubweave.wire.mqtt.codec import V5
from tests.interop.mqtt_brokers import Running, ask, broker_chain
from tests.interop.raw_mqtt import RawClient, wait_until_linked

pytestmark = [pytest.mark.slow, pytest.mark.sockets]
HOST = "127.0.0.1"
COUNT = 300
USE_ANOTHER_SERVER = 0x9C


@pytest.fixture(scope="module")
def brokers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Running]]:
    with broker_chain(tmp_path_factory.mktemp("redirection"), 2) as brokers:
        wait_until_linked([broker.port for broker in brokers])
        yield brokers


def relocate(brokers: list[Running], client: str) -> dict[str, Any]:
    """From the first to the second."""
    request = {"client": f"mqtt:{client}@b1", "destination": "b2"}
    return ask(brokers[0], f"relocate {json.dumps(request)}")


class Roamer:
    """A client of paho with a session that lasts. It goes where it is sent if it ``follows``."""

    def __init__(self, name: str, port: int, *, follows: bool) -> None:
        self.greetings: queue.Queue[tuple[int, bool]] = queue.Queue()
        """The port of each connection, and whether the session was there."""
        self.payloads: list[bytes] = []
        self.goodbyes: list[tuple[int, str]] = []
        self._follows = follows
        self._port = port
        client = paho.Client(paho.CallbackAPIVersion.VERSION2, name, protocol=paho.MQTTv5)
        client.reconnect_delay_set(0.05, 0.2)  # type: ignore[arg-type]
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_message = lambda c, u, message: self.payloads.append(message.payload)
        self.client = client
        self._dial()
        client.loop_start()

    def _dial(self) -> None:
        kept = Properties(PacketTypes.CONNECT)
        kept.SessionExpiryInterval = 60
        self.client.connect_async(HOST, self._port, clean_start=False, properties=kept)

    def _on_connect(self, c: Any, u: Any, flags: Any, reason: Any, p: Any) -> None:
        if not reason.is_failure:
            self.greetings.put((self._port, flags.session_present))

    def _on_disconnect(self, c: Any, u: Any, flags: Any, reason: Any, properties: Any) -> None:
        reference = getattr(properties, "ServerReference", "") if properties is not None else ""
        self.goodbyes.append((reason.value, reference))
        if reason.value == USE_ANOTHER_SERVER and self._follows:
            self._port = int(reference.rpartition(":")[2])
            self._dial()

    def greeted(self) -> tuple[int, bool]:
        return self.greetings.get(timeout=10)

    def wait_for(self, count: int) -> list[bytes]:
        """What came, each once, in order."""
        deadline = time.monotonic() + 15
        while len(set(self.payloads)) < count and time.monotonic() < deadline:
            time.sleep(0.02)
        return list(dict.fromkeys(self.payloads))


@contextlib.contextmanager
def roamer(name: str, port: int, *, follows: bool = True) -> Iterator[Roamer]:
    made = Roamer(name, port, follows=follows)
    try:
        assert made.greeted() == (port, False)
        yield made
    finally:
        made.client.disconnect()
        made.client.loop_stop()


def numbers(count: int = COUNT) -> list[bytes]:
    return [b"%d" % number for number in range(count)]


@pytest.mark.parametrize("follows", [True, False], ids=["follows", "ignores"])
def test_a_subscriber_is_sent_away_under_traffic(brokers: list[Running], follows: bool) -> None:
    name = f"subscriber-{follows}"
    first, second = brokers[0].port, brokers[1].port
    with roamer(name, first, follows=follows) as hearer, RawClient(second) as speaker:
        hearer.client.subscribe(f"to/{name}/#", 1)
        speaker.connect(f"speaker-{follows}")
        time.sleep(0.5)
        for number in range(COUNT):
            speaker.publish(f"to/{name}/x", b"%d" % number, 1)
            if number == COUNT // 3:
                assert "error" not in relocate(brokers, name)
        assert hearer.greeted() == (second if follows else first, True)
        assert hearer.wait_for(COUNT) == numbers()
        assert hearer.goodbyes == [(USE_ANOTHER_SERVER, f"{HOST}:{second}")]
        if not follows:
            assert "lately" in relocate(brokers, name)["error"]


def test_a_publisher_is_sent_away_and_loses_nothing(brokers: list[Running]) -> None:
    first, second = brokers[0].port, brokers[1].port
    with roamer("hearer", first) as hearer, roamer("publisher", first) as speaker:
        hearer.client.subscribe("from/publisher", 1)
        time.sleep(0.5)
        acknowledged: set[int] = set()
        speaker.client.on_publish = lambda c, u, packet_id, r, p: acknowledged.add(packet_id)
        for number in range(COUNT):
            speaker.client.publish("from/publisher", b"%d" % number, 1)
            time.sleep(0.002)
            if number == COUNT // 3:
                assert "error" not in relocate(brokers, "publisher")
        assert speaker.greeted() == (second, True)
        assert sorted(hearer.wait_for(COUNT), key=int) == numbers()
        deadline = time.monotonic() + 10
        while len(acknowledged) < COUNT and time.monotonic() < deadline:
            time.sleep(0.02)
        assert len(acknowledged) == COUNT


def test_many_clients_are_sent_away_one_after_the_other(brokers: list[Running]) -> None:
    count = 15
    with contextlib.ExitStack() as stack:
        clients = [stack.enter_context(RawClient(brokers[0].port, V5)) for _ in range(count)]
        for number, client in enumerate(clients):
            client.connect(f"many-{number}", session_expiry_interval=60)
        began = time.monotonic()
        for number in range(count):
            assert "error" not in relocate(brokers, f"many-{number}")
        for client in clients:
            client.expect_closed(USE_ANOTHER_SERVER)
        assert time.monotonic() - began >= 0.05 * (count - 1), "all at once"
