"""An asyncio event loop without time, selectors and threads of its own: all it has is a `World`.

One loop serves all processes of a run. Which one a callback belongs to is in its context, so a
process can be stopped or killed without a word from the code that runs in it.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import itertools
import socket
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Executor
from typing import Any, TypeVar

from pubweave.sim.eventloop.endpoint import Place, TcpEnd
from pubweave.sim.eventloop.network import TcpNetwork
from pubweave.sim.eventloop.process import PROCESS, SimProcess
from pubweave.sim.eventloop.sockets import AcceptedSocket, ListeningSocket
from pubweave.sim.eventloop.threads import VirtualThread
from pubweave.sim.eventloop.transport import TcpTransport
from pubweave.sim.kernel.world import World

T = TypeVar("T")
STEP_S = 0.05
"""`VirtualLoop.run_until_complete` looks so often whether it is complete."""


class NumberedTask(asyncio.Task[Any]):
    """A task whose place in a set is the same in every run."""

    def __init__(self, *args: Any, loop: VirtualLoop, **named: Any) -> None:
        self.number = next(loop.numbers)
        super().__init__(*args, loop=loop, **named)

    def __hash__(self) -> int:
        return self.number


class NumberedFuture(asyncio.Future[Any]):
    """The same for a future."""

    def __init__(self, *args: Any, loop: VirtualLoop, **named: Any) -> None:
        self.number = next(loop.numbers)
        super().__init__(*args, loop=loop, **named)

    def __hash__(self) -> int:
        return self.number


class VirtualLoop(asyncio.AbstractEventLoop):
    """The loop of all processes of a run."""

    def __init__(self, world: World, network: TcpNetwork | None = None) -> None:
        self.world = world
        self.network = network or TcpNetwork(world)
        self.numbers = itertools.count(1)
        self.faults: list[str] = []
        """What no code has caught, in words: also what is only found when it is forgotten."""
        self._left_behind: list[asyncio.Task[Any]] = []
        self._handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None = None
        self._is_closed = False
        self._main = SimProcess(world, "main", "127.0.0.1")

    # --- processes -------------------------------------------------------------------------

    def spawn(self, name: str, host: str) -> SimProcess:
        """A new process; `begin` gives it work."""
        return SimProcess(self.world, name, host)

    def begin(self, process: SimProcess, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Start a task in a process."""
        return process.context.copy().run(self.create_task, work)

    def kill(self, process: SimProcess, *, with_machine: bool = False) -> None:
        """End a process on the spot: none of its code runs any more, not even to clean up."""
        for task in process.tasks.values():
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            self._left_behind.append(task)
        process.kill(with_machine=with_machine)

    def _process(self, context: contextvars.Context | None) -> SimProcess:
        if context is None:
            return PROCESS.get(self._main)
        return context.get(PROCESS, self._main)

    # --- running ---------------------------------------------------------------------------

    @contextlib.contextmanager
    def running(self) -> Iterator[None]:
        """Be the loop that runs, while somebody lets virtual time pass."""
        asyncio._set_running_loop(self)
        try:
            yield
        finally:
            asyncio._set_running_loop(None)

    def run_until_complete(self, future: Any) -> Any:
        with self.running():
            task = self._main.context.run(asyncio.ensure_future, future, loop=self)
            while not task.done():
                self.world.run_until(self.world.now + STEP_S)
        return task.result()

    def is_running(self) -> bool:
        return asyncio._get_running_loop() is self

    def is_closed(self) -> bool:
        return self._is_closed

    def close(self) -> None:
        """Forget what killed processes left behind, unheard."""
        self._is_closed = True
        for task in self._left_behind:
            with contextlib.suppress(BaseException):
                coroutine = task.get_coro()
                assert coroutine is not None
                coroutine.close()
        self._left_behind.clear()

    def get_debug(self) -> bool:
        return False

    async def shutdown_asyncgens(self) -> None:
        """There are none that need it."""

    # --- callbacks -------------------------------------------------------------------------

    def time(self) -> float:
        return self.world.now

    def handle(self, callback: Callable[..., object], *args: Any) -> asyncio.Handle:
        """A handle in the context of now."""
        return asyncio.Handle(callback, args, self, None)

    def call_soon(  # type: ignore[override]
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        if not self._is_closed:
            self._process(context).soon(handle)
        return handle

    call_soon_threadsafe = call_soon  # type: ignore[assignment]

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        if not self._is_closed:
            self._process(context).at(handle)
        return handle

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        """Its process passes it over."""

    def create_future(self) -> asyncio.Future[Any]:
        return NumberedFuture(loop=self)

    def create_task(
        self,
        coro: Any,
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
    ) -> asyncio.Task[Any]:
        task = NumberedTask(coro, loop=self, name=name, context=context)
        tasks = self._process(context).tasks
        tasks[task.number] = task
        task.add_done_callback(lambda done: tasks.pop(task.number, None))
        return task

    # --- threads ---------------------------------------------------------------------------

    def run_in_executor(  # type: ignore[override]
        self, executor: Executor | None, func: Callable[..., Any], *args: Any
    ) -> asyncio.Future[Any]:
        thread = executor or VirtualThread(self.world, PROCESS.get(self._main))
        return asyncio.wrap_future(thread.submit(func, *args), loop=self)

    # --- faults ----------------------------------------------------------------------------

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self._handler is not None:
            self._handler(self, context)
            return
        name = PROCESS.get(self._main).name
        self.faults.append(f"{name}: {context['message']}: {context.get('exception')!r}")

    def set_exception_handler(
        self, handler: Callable[[asyncio.AbstractEventLoop, dict[str, Any]], object] | None
    ) -> None:
        self._handler = handler

    # --- connections -----------------------------------------------------------------------

    async def getaddrinfo(self, host: Any, port: Any, **named: Any) -> list[Any]:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (host, port))]

    def listening_sockets(self, places: Any, port: int) -> Iterator[Any]:
        """In the place of sockets of this machine (`bound_sockets`)."""
        for *_, place in places:
            yield ListeningSocket(self.network, (place[0], port))

    def add_reader(  # type: ignore[override]
        self, fd: Any, callback: Callable[..., Any], *args: Any
    ) -> None:
        listening = self._descriptors()[fd]
        listening.reader = self.handle(callback, *args)
        listening.process.poll(listening)

    def remove_reader(self, fd: Any) -> bool:
        listening = self._descriptors().get(fd)
        if listening is None or listening.reader is None:
            return False
        listening.reader.cancel()
        listening.reader = None
        return True

    def _descriptors(self) -> dict[int, ListeningSocket]:
        return {listening.fileno(): listening for listening in self.network.listening}

    async def create_connection(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], Any],
        host: str,
        port: int,
        *,
        ssl: None = None,
        ssl_handshake_timeout: None = None,
    ) -> tuple[asyncio.Transport, Any]:
        found: asyncio.Future[TcpEnd] = self.create_future()
        self.network.dial(PROCESS.get(self._main), (host, port), found)
        try:
            end = await found
        except asyncio.CancelledError:
            if not found.cancelled() and found.exception() is None:
                found.result().close()  # it stood at the same moment
            raise
        return await self._connected(protocol_factory, end)

    async def connect_accepted_socket(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], Any],
        sock: AcceptedSocket,
        *,
        ssl: None = None,
        ssl_handshake_timeout: None = None,
    ) -> tuple[asyncio.Transport, Any]:
        return await self._connected(protocol_factory, sock.end)

    async def _connected(
        self, protocol_factory: Callable[[], Any], end: TcpEnd
    ) -> tuple[asyncio.Transport, Any]:
        protocol = protocol_factory()
        waiter = self.create_future()
        transport = TcpTransport(self, end, protocol, waiter)
        try:
            await waiter
        except BaseException:
            transport.close()
            raise
        return transport, protocol

    async def create_server(  # type: ignore[override]
        self, protocol_factory: Callable[[], Any], host: str, port: int
    ) -> VirtualServer:
        return VirtualServer(self, protocol_factory, (host, port))


class VirtualServer(asyncio.AbstractServer):
    """Accepts whoever comes."""

    def __init__(self, loop: VirtualLoop, factory: Callable[[], Any], place: Place) -> None:
        self.sockets = [ListeningSocket(loop.network, place)]
        self.sockets[0].listen(100)
        self._loop = loop
        self._factory = factory
        loop.add_reader(self.sockets[0].fileno(), self._accept)

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while True:
                accepted, _ = self.sockets[0].accept()
                TcpTransport(self._loop, accepted.end, self._factory())

    def close(self) -> None:
        self._loop.remove_reader(self.sockets[0].fileno())
        self.sockets[0].close()

    def get_loop(self) -> VirtualLoop:
        return self._loop

    def is_serving(self) -> bool:
        return self.sockets[0].fileno() >= 0

    async def start_serving(self) -> None:
        """It has begun."""

    async def serve_forever(self) -> None:
        await self._loop.create_future()

    async def wait_closed(self) -> None:
        """It is at once."""
