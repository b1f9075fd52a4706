"""The supervising side of broker processes: orders to the fork server, events back.

Two ways to run the brokers of an overlay, behind one door (`BrokerRunner`): as processes, or all
in this process. Either tells through a callback what happens to a broker; what follows from it
(restart, report, give up) is decided in `overlay`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import msgspec

from pubweave.runtime.broker.host import BrokerHost
from pubweave.runtime.overlay.broker_process import BrokerService, StartBroker
from pubweave.runtime.overlay.fork_server import (
    STOP_LIMIT_S,
    Exited,
    Listening,
    ServerEvent,
    Started,
)
from pubweave.runtime.settings.text import encode

log = logging.getLogger(__name__)

_events = msgspec.json.Decoder(Started | Listening | Exited)


@dataclass(frozen=True)
class ServerLost:
    """The fork server is gone, and with it every broker."""

    exit_code: int


RunnerEvent = ServerEvent | ServerLost
Tell = Callable[[RunnerEvent], None]


class BrokerRunner(Protocol):
    """Starts brokers and ends them all."""

    async def open(self) -> None:
        """Get ready to start brokers."""

    async def start(self, order: StartBroker) -> None:
        """Start one broker; events follow."""

    async def close(self) -> None:
        """End every broker; returns when all are gone."""


class ProcessRunner:
    """Each broker is a process, forked from a server that has imported everything."""

    def __init__(
        self, tell: Tell, *, with_telemetry: bool = False, with_agents: bool = False
    ) -> None:
        self._tell = tell
        wanted = (("--telemetry", with_telemetry), ("--agents", with_agents))
        self._options = [option for option, is_wanted in wanted if is_wanted]
        self._server: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._is_closing = False

    async def open(self) -> None:
        arguments = ["-P", "-m", "pubweave.runtime.overlay.fork_server"]
        self._server = await asyncio.create_subprocess_exec(
            sys.executable,
            *arguments,
            *self._options,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            env={
                **os.environ,
                # No threads before a fork: numpy's pool and Arrow's allocator would start some.
                "OPENBLAS_NUM_THREADS": "1",
                "ARROW_DEFAULT_MEMORY_POOL": "system",
            },
            start_new_session=True,  # Ctrl-C is for us: we stop the brokers in order
        )
        self._reader = asyncio.create_task(self._read(self._server), name="fork server")

    async def start(self, order: StartBroker) -> None:
        orders = None if self._server is None else self._server.stdin
        assert orders is not None, "open() first"
        orders.write(encode(order) + b"\n")
        with contextlib.suppress(ConnectionError):  # ServerLost tells
            await orders.drain()

    async def close(self) -> None:
        if self._server is None or self._server.stdin is None or self._reader is None:
            return
        self._is_closing = True
        self._server.stdin.close()
        try:
            async with asyncio.timeout(STOP_LIMIT_S + 5.0):
                await self._reader
        except TimeoutError:
            self._server.kill()
            await self._server.wait()

    async def _read(self, server: asyncio.subprocess.Process) -> None:
        assert server.stdout is not None
        while line := await server.stdout.readline():
            self._tell(_events.decode(line))
        exit_code = await server.wait()
        if not self._is_closing:
            self._tell(ServerLost(exit_code))


class InProcessRunner:
    """All brokers in this process and event loop: easy to look into, one core for all."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._services: dict[str, BrokerService] = {}

    @property
    def hosts(self) -> dict[str, BrokerHost]:
        """The brokers by their ids."""
        return {broker: service.host for broker, service in self._services.items()}

    async def open(self) -> None:
        """Nothing to get ready."""

    async def start(self, order: StartBroker) -> None:
        broker = order.settings.broker.id
        self._services[broker] = service = BrokerService(order.settings, order.coordination)
        await service.start()
        self._tell(Started(broker, os.getpid()))
        self._tell(Listening(broker, os.getpid(), service.host.address))

    async def close(self) -> None:
        await asyncio.gather(*(service.stop() for service in self._services.values()))
        self._services.clear()
