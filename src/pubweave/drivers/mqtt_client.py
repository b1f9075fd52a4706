"""A small MQTT client of our own: a session that lasts, all three qualities, one connection at a
time, and nothing more. It asks for a session that outlives connections, says again what has no
answer, and takes a publication of quality 2 only once.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Any, cast

import mqtt5

from pubweave.runtime.net.addresses import Address
from pubweave.sim.kernel.world import World
from pubweave.wire.mqtt.codec import V5, MqttDecoder, encode

QUALITIES = (mqtt5.QoS.AT_MOST_ONCE, mqtt5.QoS.AT_LEAST_ONCE, mqtt5.QoS.EXACTLY_ONCE)
EXPIRY_S = 3600
REDIAL_S = (0.05, 1.0)
ANSWER_LIMIT_S = 10.0
PING_S = 4.0
WINDOW = 40
"""So many publications may have no answer yet."""


class PlainMqttClient(asyncio.Protocol):
    """One client; `live` is its whole life."""

    def __init__(
        self,
        name: str,
        address: Address,
        version: int,
        world: World,
        on_delivery: Callable[[mqtt5.PublishPacket], None],
    ) -> None:
        self.name = name
        self.address = address
        self.version = version
        self.losses = 0
        """How often a connection was lost."""
        self.sessions_lost = 0
        self.refusals: list[str] = []
        self.is_leaving = False
        self.unanswered: dict[int, Any] = {}
        """What was said and has no answer yet, by packet id, in order."""
        self.waiting: deque[tuple[str, bytes, int]] = deque()
        """Publications that the window has no room for."""
        self.on_acknowledged: Callable[[bytes], None] = lambda payload: None
        self._world = world
        self._on_delivery = on_delivery
        self._payloads: dict[int, bytes] = {}
        self._wishes: dict[str, int] = {}
        self._received: set[int] = set()
        self._had_session = False
        self._is_inside = False
        self._transport: asyncio.Transport | None = None
        self._decoder = MqttDecoder(1 << 24, version=version)
        self._heard_at = 0.0
        self._last_id = 0
        self._lost = asyncio.Event()
        self._left = asyncio.Event()

    # --- what a workload asks for ----------------------------------------------------------

    def subscribe(self, pattern: str, qos: int) -> None:
        self._wishes[pattern] = qos
        wish = mqtt5.TopicFilter(pattern, max_qos=QUALITIES[qos])
        packet_id = self._next_id()
        self.unanswered[packet_id] = mqtt5.SubscribePacket(packet_id, [wish])
        self._say(self.unanswered[packet_id])

    def publish(self, topic: str, payload: bytes, qos: int) -> None:
        self.waiting.append((topic, payload, qos))
        self._pump()

    def leave(self) -> None:
        """Say goodbye; the session stays."""
        self.is_leaving = True
        self._say(mqtt5.DisconnectPacket())
        if self._transport is not None:
            self._transport.close()
        self._left.set()

    def read_nothing_for(self, seconds: float) -> None:
        """Be a slow reader."""
        transport = self._transport
        if transport is not None and transport.is_reading():
            transport.pause_reading()
            asyncio.get_running_loop().call_later(seconds, transport.resume_reading)

    @property
    def is_quiet(self) -> bool:
        return self._is_inside and not self.unanswered and not self.waiting

    # --- a life ----------------------------------------------------------------------------

    async def live(self) -> None:
        while not self.is_leaving:
            self._lost.clear()
            with contextlib.suppress(OSError):
                await asyncio.get_running_loop().create_connection(
                    lambda: self, self.address.host, self.address.port
                )
                if self.is_leaving and self._transport is not None:
                    self._transport.abort()
                await self._watch()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._world.uniform(*REDIAL_S)):
                    await self._left.wait()

    async def _watch(self) -> None:
        """Until the connection is lost; ends it itself if the far end is silent."""
        loop = asyncio.get_running_loop()
        self._heard_at = loop.time()
        while not self._lost.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(PING_S):
                    await self._lost.wait()
            if self._transport is not None:
                if loop.time() > self._heard_at + ANSWER_LIMIT_S:
                    self._transport.abort()
                else:
                    self._say(mqtt5.PingReqPacket())

    # --- from the connection ---------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._decoder = MqttDecoder(1 << 24, version=self.version)
        is_clean = not self._had_session and self.version == V5
        expiry_s = EXPIRY_S if self.version == V5 else 0xFFFFFFFF
        connect = mqtt5.ConnectPacket(
            self.name, clean_start=is_clean, keep_alive=30, session_expiry_interval=expiry_s
        )
        self._transport.write(encode(connect, self.version))

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._is_inside = False
        self.losses += 1
        self._lost.set()

    def data_received(self, data: bytes) -> None:
        self._heard_at = asyncio.get_running_loop().time()
        for packet in self._decoder.feed(data):
            self._take(packet)

    def _take(self, packet: Any) -> None:
        packet_id = getattr(packet, "packet_id", 0)
        match packet:
            case mqtt5.ConnAckPacket():
                self._enter(packet)
            case mqtt5.PublishPacket():
                self._take_publication(packet)
            case mqtt5.PubRecPacket() if packet.reason_code.value >= 128:
                self._answered(packet_id, packet.reason_code.value)
            case mqtt5.PubRecPacket():
                if packet_id in self.unanswered:
                    self.unanswered[packet_id] = mqtt5.PubRelPacket(packet_id)
                self._say(mqtt5.PubRelPacket(packet_id))
            case mqtt5.PubRelPacket():
                self._received.discard(packet_id)
                self._say(mqtt5.PubCompPacket(packet_id))
            case mqtt5.SubAckPacket():
                self.unanswered.pop(packet_id, None)
                self.refusals += [f"{code}" for code in packet.reason_codes if code.value >= 128]
            case mqtt5.PubAckPacket():
                self._answered(packet_id, packet.reason_code.value)
            case mqtt5.PubCompPacket():  # that the identifier is not known any more is no refusal
                self._answered(packet_id, 0)
            case mqtt5.DisconnectPacket():
                self._world.note(self.name, f"is told to go: {packet.reason_code}")

    def _answered(self, packet_id: int, reason: int) -> None:
        payload = self._payloads.pop(packet_id, None)
        if self.unanswered.pop(packet_id, None) is not None and payload is not None:
            if reason >= 128:
                self.refusals.append(f"a publication: {reason:#x}")
            self.on_acknowledged(payload)
        self._pump()

    def _enter(self, answer: mqtt5.ConnAckPacket) -> None:
        if answer.reason_code.value:
            self.refusals.append(f"the connection: {answer.reason_code}")
            return
        self._is_inside = True
        is_lost = self._had_session and not answer.session_present
        self._had_session = True
        if is_lost:
            self.sessions_lost += 1
            self._received.clear()
            for packet_id in [k for k, p in self.unanswered.items() if _is_release(p)]:
                self._answered(packet_id, 0)
        for packet in list(self.unanswered.values()):
            is_again = isinstance(packet, mqtt5.PublishPacket) and not is_lost
            self._say(_again(packet) if is_again else packet)
        if is_lost:
            for pattern, qos in self._wishes.items():
                self.subscribe(pattern, qos)
        self._pump()

    def _take_publication(self, packet: mqtt5.PublishPacket) -> None:
        packet_id = packet.packet_id or 0
        if packet.qos is QUALITIES[2]:
            if packet_id not in self._received:
                self._received.add(packet_id)
                self._on_delivery(packet)
            self._say(mqtt5.PubRecPacket(packet_id))
            return
        self._on_delivery(packet)
        if packet.qos is QUALITIES[1]:
            self._say(mqtt5.PubAckPacket(packet_id))

    # --- inside ----------------------------------------------------------------------------

    def _pump(self) -> None:
        while self._is_inside and self.waiting and len(self.unanswered) < WINDOW:
            topic, payload, qos = self.waiting.popleft()
            if not qos:
                self._say(mqtt5.PublishPacket(topic, payload))
                continue
            packet_id = self._next_id()
            packet = mqtt5.PublishPacket(topic, payload, qos=QUALITIES[qos], packet_id=packet_id)
            self.unanswered[packet_id], self._payloads[packet_id] = packet, payload
            self._say(packet)

    def _next_id(self) -> int:
        while True:
            self._last_id = self._last_id % 65_535 + 1
            if self._last_id not in self.unanswered:
                return self._last_id

    def _say(self, packet: Any) -> None:
        transport = self._transport
        if self._is_inside and transport is not None and not transport.is_closing():
            transport.write(encode(packet, self.version))


def _is_release(packet: Any) -> bool:
    return isinstance(packet, mqtt5.PubRelPacket)


def _again(packet: mqtt5.PublishPacket) -> mqtt5.PublishPacket:
    return mqtt5.PublishPacket(
        packet.topic, packet.payload, qos=packet.qos, packet_id=packet.packet_id, duplicate=True
    )
