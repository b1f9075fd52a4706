"""A simulated process: its queue of callbacks, its timers and what its kernel has for it.

Handles run in the order of asyncio: what can be read or written, then timers that are due, each
turn what was ready at its beginning. A turn takes a little virtual time, so timers are late, and
turns of different processes interleave as the seed has it.
"""

from __future__ import annotations

import asyncio
import contextvars
import heapq
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from pubweave.sim.kernel.world import World

if TYPE_CHECKING:
    from pubweave.sim.eventloop.endpoint import TcpEnd
    from pubweave.sim.eventloop.transport import TcpTransport

PROCESS: contextvars.ContextVar[SimProcess] = contextvars.ContextVar("process")
"""Whose callback it is that runs: each handle carries it in its context."""
TURN_S = (2e-6, 2e-4)
"""How long a turn takes."""


class Pollable(Protocol):
    """What a process waits for, as the kernel shows it."""

    def ready(self) -> list[asyncio.Handle]:
        """The handles of what can be done now."""


class SimProcess:
    """One process on one host; it runs until it is killed."""

    def __init__(self, world: World, name: str, host: str) -> None:
        self.name = name
        self.host = host
        self.is_dead = False
        self.context = contextvars.copy_context()
        self.context.run(PROCESS.set, self)
        self.tasks: dict[int, asyncio.Task[Any]] = {}
        """Those that are not done, by their numbers."""
        self.endpoints: dict[int, TcpEnd] = {}
        """Ends of connections that this process has open."""
        self.transports: dict[int, TcpTransport] = {}
        """Those whose end their protocols have not heard of."""
        self.on_death: list[Callable[[], None]] = []
        self._world = world
        self._ready: deque[asyncio.Handle] = deque()
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._timer_count = 0
        self._polled: dict[int, Pollable] = {}
        self._paused_until = 0.0
        self._busy_until = 0.0
        self._turn_at = float("inf")
        self._turns = 0

    # --- what asyncio asks for -------------------------------------------------------------

    def soon(self, handle: asyncio.Handle) -> None:
        if not self.is_dead:
            self._ready.append(handle)
            self._wake(self._world.now)

    def at(self, handle: asyncio.TimerHandle) -> None:
        if not self.is_dead:
            self._timer_count += 1
            heapq.heappush(self._timers, (handle.when(), self._timer_count, handle))
            self._wake(handle.when())

    def poll(self, source: Pollable) -> None:
        """Something may have become possible there."""
        if not self.is_dead:
            self._polled[id(source)] = source
            self._wake(self._world.now)

    # --- what happens to a process ---------------------------------------------------------

    @property
    def runs_at(self) -> float:
        """When it runs again, if it is stopped."""
        return max(self._world.now, self._paused_until)

    def pause(self, until: float) -> None:
        """As with SIGSTOP, and SIGCONT at an instant: the kernel goes on without it."""
        self._paused_until = max(self._paused_until, until)

    def go_on(self) -> None:
        """SIGCONT now."""
        self._paused_until = 0.0
        self._wake(self._world.now)

    def kill(self, *, with_machine: bool = False) -> None:
        """As with SIGKILL; ``with_machine``: nobody is left to tell the far ends of connections."""
        self.is_dead = True
        self._ready.clear()
        self._timers.clear()
        self._polled.clear()
        for endpoint in list(self.endpoints.values()):
            endpoint.vanish() if with_machine else endpoint.close()
        self.transports.clear()
        for tell in self.on_death:
            tell()

    # --- turns -----------------------------------------------------------------------------

    def _wake(self, at: float) -> None:
        at = max(at, self._world.now, self._busy_until, self._paused_until)
        if at < self._turn_at:
            self._turn_at = at
            self._turns += 1
            self._world.at(at, self._turn, self._turns)

    def _turn(self, number: int) -> None:
        if self.is_dead or number != self._turns:
            return
        self._turn_at = float("inf")
        now = self._world.now
        if now < self._paused_until:
            self._wake(self._paused_until)
            return
        self._collect(now)
        if self._ready:
            for _ in range(len(self._ready)):
                if not self._ready:  # killed meanwhile
                    return
                handle = self._ready.popleft()
                if not handle.cancelled():
                    handle._run()
            self._busy_until = now + self._world.uniform(*TURN_S)
        if self.is_dead:
            return
        if self._ready or self._polled:
            self._wake(now)
        elif self._timers:
            self._wake(self._timers[0][0])

    def _collect(self, now: float) -> None:
        """Put what can be read or written, and then due timers, behind what is ready."""
        for key, source in list(self._polled.items()):
            handles = source.ready()
            if not handles:
                del self._polled[key]
            self._ready.extend(handles)
        timers = self._timers
        while timers and (timers[0][2].cancelled() or timers[0][0] <= now):
            handle = heapq.heappop(timers)[2]
            if not handle.cancelled():
                self._ready.append(handle)
