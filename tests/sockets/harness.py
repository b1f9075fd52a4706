"""Brokers on loopback sockets, and a proxy that cuts connections."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import uvloop

from pubweave.model.topology import Topology
from pubweave.runtime.broker.host import BrokerHost
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.settings.tree import BrokerTable, Settings

ANY_PORT = Address("127.0.0.1", 0)


def run(main: Coroutine[Any, Any, None], limit_s: float = 60.0) -> None:
    """Run a test's coroutine on the event loop that brokers use."""

    async def limited() -> None:
        async with asyncio.timeout(limit_s):
            await main

    uvloop.run(limited())


def settings_of(name: str, **table: Any) -> Settings:
    """Of a broker at any free port unless the table says where."""
    return Settings(BrokerTable(**{"id": name, "listen": ANY_PORT, **table}))


@contextlib.asynccontextmanager
async def overlay(topology: Topology, **config: Any) -> AsyncIterator[dict[str, BrokerHost]]:
    """All brokers of a topology in this process, each on a port of its own."""
    hosts: dict[str, BrokerHost] = {}
    # A broker dials larger ids, so those must be listening, and known, before it starts.
    for name in sorted(topology.brokers, reverse=True):
        neighbors = {
            neighbor: hosts[neighbor].address if neighbor in hosts else ANY_PORT
            for neighbor in topology.neighbors[name]
        }
        hosts[name] = BrokerHost(settings_of(name, neighbors=neighbors, **config))
        await hosts[name].start()
    try:
        await until(
            lambda: all(
                link.state == "established"
                for host in hosts.values()
                for link in host.broker.status(0.0).links
            )
        )
        yield hosts
    finally:
        for host in hosts.values():
            await host.stop()


async def until(condition: Callable[[], bool], limit_s: float = 10.0) -> None:
    """Wait for something that has no event of its own."""
    async with asyncio.timeout(limit_s):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


class CuttingProxy:
    """Passes bytes on to an address; cuts every connection, or stalls, when told to."""

    def __init__(self, target: Address) -> None:
        self._target = target
        self.flows = asyncio.Event()
        """While it is not set, connections stand and nothing passes."""
        self.flows.set()
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self.cuts = 0

    async def __aenter__(self) -> CuttingProxy:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def address(self) -> Address:
        assert self._server is not None
        return Address(*self._server.sockets[0].getsockname()[:2])

    def cut(self) -> None:
        """Drop every connection with whatever is under way."""
        self.cuts += 1
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            far_reader, far_writer = await asyncio.open_connection(*self._target)
            self._writers |= {writer, far_writer}
            await asyncio.gather(self._pipe(reader, far_writer), self._pipe(far_reader, writer))
        except (OSError, asyncio.CancelledError):
            writer.transport.abort()
        finally:
            self._tasks.discard(task)

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(3000):
                await self.flows.wait()
                writer.write(data)
                await writer.drain()
        writer.close()
