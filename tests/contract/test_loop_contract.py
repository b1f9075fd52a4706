"""The same script on asyncio's own loop over real sockets and on the virtual one: the same answers.

What depends on the machine (how bytes are cut into pieces, when) is not compared.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from pubweave.sim.eventloop.loop import VirtualLoop
from pubweave.sim.kernel.world import World

Script = Callable[[], Coroutine[Any, Any, list[Any]]]
BIG = b"x" * 3_000_000


class Heard(asyncio.Protocol):
    """Writes down all that it hears."""

    def __init__(self, *, keeps_open: bool = False) -> None:
        self.events: list[Any] = []
        self.data = bytearray()
        self.over = asyncio.Event()
        self.made = asyncio.Event()
        self.transport: Any = None
        self._keeps_open = keeps_open

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.events.append("made")
        self.made.set()

    def data_received(self, data: bytes) -> None:
        if not self.events or self.events[-1] != "data":
            self.events.append("data")
        self.data += data

    def eof_received(self) -> bool:
        self.events.append("eof")
        return self._keeps_open

    def pause_writing(self) -> None:
        self.events.append("pause")

    def resume_writing(self) -> None:
        self.events.append("resume")

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append(f"lost {type(exc).__name__ if exc else 'cleanly'}")
        self.over.set()


async def pair(ours: Heard, theirs: Heard) -> Any:
    """The two ends of a connection, ours dialed."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: theirs, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    await loop.create_connection(lambda: ours, "127.0.0.1", port)
    await theirs.made.wait()
    server.close()
    return ours.transport, theirs.transport


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.01)


async def order_of_callbacks() -> list[Any]:
    loop, said = asyncio.get_running_loop(), list[Any]()
    loop.call_later(0.3, said.append, "later")
    loop.call_soon(said.append, "soon 1")
    loop.call_soon(lambda: loop.call_soon(said.append, "soon of soon"))
    loop.call_soon(said.append, "soon 2")
    loop.call_later(0.2, said.append, "sooner").cancel()
    task = asyncio.create_task(asyncio.sleep(0.6))
    task.add_done_callback(lambda _: said.append("task"))
    await task
    await asyncio.sleep(0)
    return said


async def cancellation() -> list[Any]:
    said: list[Any] = []

    async def work() -> None:
        try:
            await asyncio.sleep(100)
        except asyncio.CancelledError:
            said.append("cancelled")
            raise
        finally:
            said.append("cleaned")

    task = asyncio.create_task(work())
    await asyncio.sleep(0)
    task.cancel()
    said.append(await asyncio.gather(task, return_exceptions=True) and task.cancelled())
    try:
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()
    except TimeoutError:
        said.append("timeout")
    return said


async def half_close() -> list[Any]:
    """One direction ends, the other goes on."""
    ours, theirs = Heard(), Heard(keeps_open=True)
    near, far = await pair(ours, theirs)
    near.write(b"question")
    near.write_eof()
    refused = ""
    try:
        near.write(b"more")
    except RuntimeError as error:
        refused = str(error)
    await until(lambda: "eof" in theirs.events)
    far.write(b"answer")
    far.close()
    await ours.over.wait()
    await theirs.over.wait()
    return [ours.events, bytes(ours.data), theirs.events, bytes(theirs.data), refused]


async def flow_control() -> list[Any]:
    """A far end that does not read stops the near end, and lets it go on when it reads."""
    ours, theirs = Heard(), Heard()
    near, far = await pair(ours, theirs)
    far.pause_reading()
    for _ in range(10):
        near.write(BIG)
    was_full = near.get_write_buffer_size() > near.get_write_buffer_limits()[1]
    said = [*ours.events, was_full, far.is_reading()]
    far.resume_reading()
    await until(lambda: len(theirs.data) == 10 * len(BIG))
    near.close()
    await ours.over.wait()
    await theirs.over.wait()
    return [said, ours.events, theirs.events, len(theirs.data), near.is_closing()]


async def close_writes_first() -> list[Any]:
    """What was written before `close` arrives, what is written after it does not."""
    ours, theirs = Heard(), Heard()
    near, _ = await pair(ours, theirs)
    near.write(BIG)
    near.close()
    near.close()
    await theirs.over.wait()
    await ours.over.wait()
    near.write(b"late")
    return [ours.events[0], ours.events[-1], theirs.events, len(theirs.data)]


async def abort() -> list[Any]:
    """Is told at once and once, after whatever runs now."""
    ours, theirs = Heard(), Heard()
    near, _ = await pair(ours, theirs)
    near.abort()
    said = [*ours.events, near.is_closing()]
    near.abort()
    near.write(b"nothing")
    await ours.over.wait()
    await theirs.over.wait()
    return [said, ours.events, theirs.events, bytes(theirs.data)]


async def reset() -> list[Any]:
    """Who closes with something unread resets the connection."""
    ours, theirs = Heard(), Heard()
    near, far = await pair(ours, theirs)
    far.pause_reading()
    near.write(b"never read")
    await asyncio.sleep(0.05)
    far.abort()
    await ours.over.wait()
    return [ours.events, theirs.events, bytes(theirs.data)]


async def refused() -> list[Any]:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(Heard, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    server.close()
    try:
        await loop.create_connection(Heard, "127.0.0.1", port)
    except OSError as error:
        return [type(error).__name__]
    return []


async def given_up_dialing() -> list[Any]:
    """A dial that is cancelled leaves nothing behind."""
    loop = asyncio.get_running_loop()
    accepted: list[Heard] = []

    def make() -> Heard:
        accepted.append(Heard())
        return accepted[-1]

    server = await loop.create_server(make, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    task = asyncio.create_task(loop.create_connection(Heard, "127.0.0.1", port))
    await asyncio.sleep(0)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await asyncio.sleep(0.1)
    server.close()
    # Whether the far end ever heard of it is a matter of time.
    return [task.cancelled(), all(heard.events[-1].startswith("lost") for heard in accepted)]


async def streams() -> list[Any]:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line.upper())
            await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"a\nb\n")
    writer.write_eof()
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    server.close()
    found = await asyncio.get_running_loop().run_in_executor(None, sum, (1, 2, 3))
    return [answer, found]


async def accepted_sockets() -> list[Any]:
    """As `runtime.entrance.listener` lets connections in."""
    loop = asyncio.get_running_loop()
    made: list[Any] = []
    if isinstance(loop, VirtualLoop):
        (listening,) = loop.listening_sockets([(0, 0, 0, "", ("127.0.0.1", 0))], 0)
    else:
        listening = socket.socket()
        listening.bind(("127.0.0.1", 0))
    listening.setblocking(False)
    listening.listen(5)
    arrived = asyncio.Event()
    loop.add_reader(listening.fileno(), arrived.set)
    ours, theirs = Heard(), Heard()
    place = listening.getsockname()[:2]
    near, _ = await loop.create_connection(lambda: ours, *place)
    near.write(b"before anybody accepts")
    await arrived.wait()
    loop.remove_reader(listening.fileno())
    accepted, where = listening.accept()
    accepted.setblocking(False)
    await loop.connect_accepted_socket(lambda: theirs, accepted)
    made.append(where[1] == near.get_extra_info("sockname")[1])
    with pytest.raises(BlockingIOError):
        listening.accept()
    await until(lambda: bool(theirs.data))
    near.close()
    await theirs.over.wait()
    listening.close()
    return [*made, bytes(theirs.data), theirs.events, ours.events]


SCRIPTS: list[Script] = [
    order_of_callbacks,
    cancellation,
    half_close,
    flow_control,
    close_writes_first,
    abort,
    reset,
    refused,
    given_up_dialing,
    streams,
    accepted_sockets,
]


@pytest.mark.sockets
@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.__name__)
def test_the_virtual_loop_does_what_asyncio_does(script: Script) -> None:
    real = asyncio.run(script())
    assert real
    for seed in range(5):
        loop = VirtualLoop(World(seed))
        assert loop.run_until_complete(script()) == real
        loop.run_until_complete(asyncio.sleep(10, None))
        assert not loop.faults
        loop.close()
