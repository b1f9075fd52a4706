"""A way to cut or stall connections between processes: bytes pass through it until they do not."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from pubweave.runtime.net.addresses import Address

READ_BYTES = 1 << 16


class CuttingProxy:
    """Listens at `address`, passes bytes on to a target, and drops or keeps everything when told
    to."""

    def __init__(self, find_target: Callable[[], Address]) -> None:
        """``find_target`` is asked for every connection: it may not be known at the start."""
        self._find_target = find_target
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._flowing = asyncio.Event()
        self._flowing.set()
        self.connections_cut = 0

    @property
    def address(self) -> Address:
        assert self._server is not None, "enter it first"
        host, port = self._server.sockets[0].getsockname()[:2]
        return Address(host, port)

    def cut(self) -> int:
        """Drop every connection with whatever is under way; how many there were."""
        cut = len(self._writers) // 2
        self.connections_cut += cut
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()
        return cut

    def stall(self) -> int:
        """Pass nothing on, as a network that is gone: nobody is told, connections stay open and
        new ones get no answer. How many connections there are."""
        self._flowing.clear()
        return len(self._writers) // 2

    def flow(self) -> None:
        """Go on after `stall` with all that has come meanwhile."""
        self._flowing.set()

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

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        ends = {writer}
        try:
            await self._flowing.wait()
            far_reader, far_writer = await asyncio.open_connection(*self._find_target())
            ends.add(far_writer)
            self._writers |= ends
            await asyncio.gather(self._pipe(reader, far_writer), self._pipe(far_reader, writer))
        except (OSError, asyncio.CancelledError):
            pass
        finally:
            for end in ends:
                end.transport.abort()
            self._writers -= ends
            self._tasks.discard(task)

    async def _pipe(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # uvloop says RuntimeError of a transport that is gone.
        with contextlib.suppress(OSError, RuntimeError):
            while data := await reader.read(READ_BYTES):
                await self._flowing.wait()
                writer.write(data)
                await writer.drain()
        await self._flowing.wait()
        writer.transport.abort()
