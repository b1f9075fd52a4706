"""What a socket of an MQTT client does while the client does not read."""

from __future__ import annotations

import asyncio
from typing import Any

from pubweave.core.session.admission import Refusal
from pubweave.model.mqtt_packets import PingResp, PubAck, Publish, ToClient
from pubweave.runtime.net.mqtt_connection import UNREAD_FACTOR, MqttSocket
from pubweave.sim.eventloop.loop import VirtualLoop
from pubweave.sim.kernel.world import World

UNREAD = 1_000
READ_LATER_S = 5.0


class Owner:
    """Hears everything."""

    def __init__(self) -> None:
        self.paused: list[bool] = []

    def writing_paused(self, connection: MqttSocket, is_paused: bool) -> None:
        self.paused.append(is_paused)

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


class SlowReader(asyncio.Protocol):
    """Reads nothing until it is let."""

    def __init__(self) -> None:
        self.bytes_read = 0
        self.transport: Any = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.transport.pause_reading()

    def data_received(self, data: bytes) -> None:
        self.bytes_read += len(data)


def sent(packets: list[ToClient], times: int) -> tuple[MqttSocket, Owner, SlowReader]:
    """After so many writes to a client that reads later."""
    loop = VirtualLoop(World(1))
    loop.network.capacity = (500, 500)
    owner, reader = Owner(), SlowReader()
    connection = MqttSocket(owner, max_packet_bytes=100_000, unread_bytes=UNREAD)

    async def main() -> None:
        server = await loop.create_server(lambda: connection, "127.0.0.1", 1883)
        await loop.create_connection(lambda: reader, "127.0.0.1", 1883)
        await asyncio.sleep(1.0)
        for _ in range(times):
            connection.write(packets)
        await asyncio.sleep(READ_LATER_S)
        reader.transport.resume_reading()
        await asyncio.sleep(60.0)
        server.close()

    loop.run_until_complete(main())
    assert not loop.faults
    return connection, owner, reader


def test_what_was_in_flight_comes_at_once_and_does_not_cut_the_client_off() -> None:
    """It would come back, get all of it again, and be cut off again, for ever."""
    payload = bytes(2 * UNREAD)
    flight: list[ToClient] = [Publish("a", payload, 1, packet_id=n) for n in range(1, 30)]
    connection, owner, reader = sent([*flight, PingResp()], 1)
    assert connection.fault is None
    assert reader.bytes_read > 29 * len(payload) > UNREAD_FACTOR * UNREAD
    assert owner.paused == [True, False]


def test_answers_that_pile_up_cut_the_client_off() -> None:
    connection, owner, _ = sent([PubAck(1)], UNREAD * UNREAD_FACTOR)
    assert connection.refusal is Refusal.UNREAD
    assert owner.paused == [True]
    connection, _, _ = sent([PubAck(1)], UNREAD)
    assert connection.fault is None
