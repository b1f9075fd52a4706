"""An MQTT client that does only what it is told to, also what no client should do."""

from __future__ import annotations

import contextlib
import socket
import time
from typing import Any

import mqtt5
from mqtt5 import QoS

from pubweave.wire.mqtt.codec import V5, MqttDecoder, encode

QUALITIES = (QoS.AT_MOST_ONCE, QoS.AT_LEAST_ONCE, QoS.EXACTLY_ONCE)
PATIENCE_S = 5.0
QUIET_S = 0.4
"""So long nothing comes if nothing is to come."""


class RawClient:
    """One connection. `receive` and the like fail with an assertion, not with an exception."""

    def __init__(self, port: int, version: int = V5) -> None:
        self.version = version
        self.sock = socket.create_connection(("127.0.0.1", port))
        self._decoder = MqttDecoder(1 << 24, version=version)
        self._waiting: list[Any] = []
        self.packet_id = 0

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    # --- sending -----------------------------------------------------------------------------

    def send(self, *packets: Any) -> None:
        self.send_bytes(b"".join(encode(packet, self.version) for packet in packets))

    def send_bytes(self, data: bytes) -> None:
        self.sock.sendall(data)

    def connect(self, client_id: str, *, clean: bool = True, **fields: Any) -> mqtt5.ConnAckPacket:
        """CONNECT and its answer, whatever it is."""
        self.send(mqtt5.ConnectPacket(client_id, clean_start=clean, **fields))
        return self.expect(mqtt5.ConnAckPacket)

    def subscribe(self, *patterns: str, qos: int = 2, **fields: Any) -> mqtt5.SubAckPacket:
        """With every pattern's options in ``options``; others are fields of the packet."""
        options = {"retain_as_published": False, **fields.pop("options", {})}
        filters = [
            mqtt5.TopicFilter(pattern, max_qos=QUALITIES[qos], **options) for pattern in patterns
        ]
        self.packet_id += 1
        self.send(mqtt5.SubscribePacket(self.packet_id, filters, **fields))
        return self.answer(mqtt5.SubAckPacket)

    def publish(self, topic: str, payload: bytes = b"", qos: int = 0, **fields: Any) -> Any:
        """The last packet of the exchange that confirms it; None for QoS 0."""
        self.packet_id += 1
        packet_id = self.packet_id if qos else None
        quality = QUALITIES[qos]
        self.send(mqtt5.PublishPacket(topic, payload, qos=quality, packet_id=packet_id, **fields))
        if qos == 1:
            return self.answer(mqtt5.PubAckPacket)
        if qos == 2:
            self.answer(mqtt5.PubRecPacket)
            self.send(mqtt5.PubRelPacket(self.packet_id))
            return self.answer(mqtt5.PubCompPacket)
        return None

    # --- receiving ---------------------------------------------------------------------------

    def receive(self, patience_s: float = PATIENCE_S) -> Any:
        """The next packet; None: the connection was closed. Fails if nothing comes."""
        deadline = time.monotonic() + patience_s
        while not self._waiting:
            self.sock.settimeout(max(0.001, deadline - time.monotonic()))
            try:
                data = self.sock.recv(1 << 16)
            except TimeoutError:
                raise AssertionError("nothing came") from None
            except ConnectionError:
                data = b""
            if not data:
                return None
            self._waiting += self._decoder.feed(data)
        return self._waiting.pop(0)

    def answer(self, kind: type) -> Any:
        """The next packet that is no publication; those wait for `take`."""
        waiting = []
        while isinstance(packet := self.receive(), mqtt5.PublishPacket):
            waiting.append(packet)
        self._waiting[:0] = waiting
        assert isinstance(packet, kind), f"{kind.__name__} was expected, {packet} came"
        return packet

    def expect(self, kind: type, patience_s: float = PATIENCE_S) -> Any:
        packet = self.receive(patience_s)
        assert isinstance(packet, kind), f"{kind.__name__} was expected, {packet} came"
        return packet

    def take(self, patience_s: float = PATIENCE_S) -> Any:
        """The next publication, confirmed as its QoS asks for."""
        packet = self.expect(mqtt5.PublishPacket, patience_s)
        match int(packet.qos):
            case 1:
                self.send(mqtt5.PubAckPacket(packet.packet_id))
            case 2:
                self.send(mqtt5.PubRecPacket(packet.packet_id))
                self.answer(mqtt5.PubRelPacket)
                self.send(mqtt5.PubCompPacket(packet.packet_id))
        return packet

    def take_all(self, quiet_s: float = QUIET_S) -> list[Any]:
        """Every publication until none comes for a while."""
        found = []
        while True:
            try:
                found.append(self.take(quiet_s))
            except AssertionError as error:
                assert str(error) == "nothing came", error  # noqa: PT017
                return found

    def expect_nothing(self, quiet_s: float = QUIET_S) -> None:
        assert self.take_all(quiet_s) == []

    def expect_closed(self, reason: int | None = None) -> None:
        """The server ends the connection; with MQTT 5.0 it says why, in a DISCONNECT or CONNACK."""
        packet = self.receive()
        if packet is not None:
            assert reason is not None, f"{packet} came"
            assert int(packet.reason_code) == reason, packet
            assert self.receive() is None
        else:
            assert self.version != V5 or reason is None, "closed without a reason"


def wait_until_linked(doors: list[int]) -> None:
    """Until what is published at the first door comes out of the others."""
    with contextlib.ExitStack() as stack:
        first, *others = (stack.enter_context(RawClient(door)) for door in doors)
        first.connect("probe-0")
        for number, other in enumerate(others, 1):
            other.connect(f"probe-{number}")
            other.subscribe("probe")
            for _ in range(300):
                first.publish("probe", b"", 1)
                if other.take_all(0.1):
                    break
            else:
                raise AssertionError("the brokers do not find each other")
