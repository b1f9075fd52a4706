"""Connections that stand and carry nothing: whoever gives one up does not leave."""

from __future__ import annotations

import asyncio

import pytest

import pubweave
from pubweave.model.publications import make_publication
from pubweave.model.topology import Topology
from pubweave.runtime.client.client import Client
from pubweave.runtime.net import connection
from tests.sockets.harness import CuttingProxy, overlay, run, until

pytestmark = pytest.mark.sockets

ALONE = Topology.from_links([], brokers=["b1"])


def make_impatient(client: Client) -> None:
    """Let a client give a silent connection up after half a second."""
    client._core._ping_every_s = 0.1
    client._core._silence_limit_s = 0.5
    client._core._ping_at = 0.0


def test_who_gives_up_a_silent_connection_keeps_its_session() -> None:
    async def main() -> None:
        async with (
            overlay(ALONE) as hosts,
            CuttingProxy(hosts["b1"].address) as proxy,
            pubweave.connect(str(hosts["b1"].address)) as publisher,
            pubweave.connect(str(proxy.address)) as subscriber,
        ):
            make_impatient(subscriber)
            await publisher.advertise("class = 'T'")
            got = await subscriber.subscribe("class = 'T'")
            await subscriber.flush()
            (session,) = [
                s for s in hosts["b1"].broker.sessions.clients.values() if s.remote == subscriber.id
            ]
            proxy.flows.clear()
            dialed = subscriber._connection
            for number in range(100):
                await publisher.publish("T", {"n": number})
            await publisher.flush()
            await until(lambda: subscriber._connection not in (None, dialed))
            proxy.flows.set()
            await until(lambda: got.queued == 100)
            assert [n.attributes["n"] for n in got.take_all()] == list(range(100))
            assert hosts["b1"].broker.sessions.clients[subscriber.id] is session
            counters = hosts["b1"].broker.counters
            assert counters.notifications_lost == counters.notifications_left == 0

    run(main())


def test_what_a_client_did_not_wait_for_when_it_left_is_counted() -> None:
    async def main() -> None:
        async with (
            overlay(ALONE) as hosts,
            CuttingProxy(hosts["b1"].address) as proxy,
            pubweave.connect(str(hosts["b1"].address)) as publisher,
        ):
            async with pubweave.connect(str(proxy.address)) as subscriber:
                await publisher.advertise("class = 'T'")
                await subscriber.subscribe("class = 'T'")
                await subscriber.flush()
                proxy.flows.clear()
                for number in range(7):
                    await publisher.publish("T", {"n": number})
                await publisher.flush()
                await subscriber.close()
                proxy.flows.set()
                await until(lambda: subscriber.id not in hosts["b1"].broker.sessions.clients)
            counters = hosts["b1"].broker.counters
            assert (counters.notifications_left, counters.notifications_lost) == (7, 0)

    run(main())


def test_closing_does_not_wait_for_a_far_end_that_reads_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Else nobody would dial it anew."""
    monkeypatch.setattr(connection, "LINGER_S", 0.2)

    async def main() -> None:
        silent = asyncio.Event()

        async def read_nothing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            reader._transport.pause_reading()  # type: ignore[attr-defined]
            await silent.wait()
            writer.transport.abort()

        server = await asyncio.start_server(read_nothing, "127.0.0.1", 0)
        lost = asyncio.Event()
        _, made = await asyncio.get_running_loop().create_connection(
            lambda: connection.Connection(Deaf(), max_frame_bytes=100, on_lost=lost.set),
            *server.sockets[0].getsockname(),
        )
        publication = make_publication("p", 1, "T", {}, bytes(1 << 20), 0.0)
        made.write([publication] * 12)
        made.close("the far end is silent")
        async with asyncio.timeout(5.0):
            await lost.wait()
        silent.set()
        server.close()

    run(main())


class Deaf:
    """Wants to know nothing of its connection."""

    def connection_opened(self, connection: object) -> None: ...

    def messages_received(self, connection: object, messages: object) -> None: ...

    def connection_closed(self, connection: object) -> None: ...
