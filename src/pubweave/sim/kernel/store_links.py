"""The memory store at the end of a line: requests travel, answers and notices come back in order.

A line breaks and comes back: what is under way then has reached the store or not, nobody knows.
The store ends the session of a line that stays broken for too long; whoever sits at the line
learns of that only when it is back, as with ZooKeeper.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from pubweave.deploy.memory_store import MemoryStore, SessionNumber
from pubweave.deploy.store import (
    Create,
    NodeChanged,
    Outcome,
    SessionChanged,
    StoreAnswer,
    StoreNotice,
    StoreRequest,
    StoreSessionState,
    Write,
)
from pubweave.sim.kernel.world import World


class SimStore:
    """The store of one run and the lines that lead to it."""

    def __init__(
        self, world: World, *, latency_s: tuple[float, float], session_limit_s: float
    ) -> None:
        self.world = world
        self.memory = MemoryStore()
        self.session_limit_s = session_limit_s
        self.requests = 0
        self.on_change: Callable[[StoreRequest], None] = lambda request: None
        """Hears of every accepted `Create` and `Write`, in the order of the store."""
        self._latency_s = latency_s
        self._lines: dict[SessionNumber, StoreLine] = {}
        self._operator = self.memory.open()

    def connect(self, name: str, deliver: Callable[[StoreAnswer | StoreNotice], None]) -> StoreLine:
        """A line with a session of its own."""
        return StoreLine(self, name, deliver, self.world.uniform(*self._latency_s))

    def open(self, line: StoreLine) -> SessionNumber:
        session = self.memory.open()
        self._lines[session] = line
        return session

    def expire(self, session: SessionNumber) -> None:
        if self.memory.is_open(session):
            self.memory.expire(session)
            del self._lines[session]
            self.spread()

    def handle(self, session: SessionNumber, request: StoreRequest) -> StoreAnswer:
        self.requests += 1
        answer = self.memory.handle(session, request)
        if answer.outcome is Outcome.OK and isinstance(request, Create | Write):
            self.on_change(request)
        self.spread()
        return answer

    def spread(self) -> None:
        """Send the notices of what just changed, ahead of every later answer."""
        for session, notice in self.memory.take_notices():
            if session in self._lines:
                self._lines[session].notify(notice)

    def run(self, script: Any) -> Any:
        """Run an operator's script (`deploy.commands`) in no time."""
        return run_script(script, partial(self.handle, self._operator))


def run_script(script: Any, handle: Callable[[StoreRequest], StoreAnswer]) -> Any:
    """What a script of requests comes to where each is answered at once."""
    request = next(script)
    try:
        while True:
            request = script.send(handle(request))
    except StopIteration as end:
        return end.value


class StoreLine:
    """One user's line. ``deliver`` gets answers and notices."""

    def __init__(
        self,
        store: SimStore,
        name: str,
        deliver: Callable[[StoreAnswer | StoreNotice], None],
        latency_s: float,
    ) -> None:
        self.name = name
        self.is_open = True
        self.is_broken = False
        self._store = store
        self._world = store.world
        self._deliver = deliver
        self._latency_s = latency_s
        self._session = store.open(self)
        self._connection = 0
        self._under_way: list[StoreRequest] = []
        self._world.after(latency_s, self._hear, SessionChanged(StoreSessionState.CONNECTED), 0)

    def ask(self, request: StoreRequest) -> None:
        """Send a request on its way; its answer is delivered."""
        self._world.note(self.name, f"  asks {_show(request)}")
        if self.is_broken:
            answer = StoreAnswer(request, Outcome.UNSURE)
            self._world.after(self._latency_s, self._hear, answer, self._connection)
            return
        self._under_way.append(request)
        self._world.after(self._latency_s, self._arrive, request, self._connection)

    def _arrive(self, request: StoreRequest, connection: int) -> None:
        if connection != self._connection:
            return
        answer = self._store.handle(self._session, request)
        self._world.after(self._latency_s, self._hear, answer, connection)

    def notify(self, notice: NodeChanged) -> None:
        self._world.after(self._latency_s, self._hear, notice, self._connection)

    def _hear(self, event: StoreAnswer | StoreNotice, connection: int) -> None:
        if connection != self._connection or not self.is_open:
            return
        if isinstance(event, StoreAnswer) and event.request in self._under_way:
            self._under_way.remove(event.request)
        self._deliver(event)

    # --- faults ----------------------------------------------------------------------------

    def interrupt(self, lasts_s: float, *, arrives: bool) -> None:
        """Break for a while. ``arrives``: what is under way still reaches the store, and only
        its answers are lost."""
        if self.is_broken or not self.is_open:
            return
        world, store = self._world, self._store
        world.note(self.name, f"store line broken for {lasts_s:.3f} s")
        self.is_broken = True
        self._connection += 1
        open_requests, self._under_way = self._under_way, []
        if arrives:
            for request in open_requests:
                store.handle(self._session, request)
        store.memory.forget_watches(self._session)
        if lasts_s > store.session_limit_s:
            world.after(store.session_limit_s, store.expire, self._session)
        self._deliver(SessionChanged(StoreSessionState.SUSPENDED))
        for request in open_requests:
            if self.is_open:
                self._deliver(StoreAnswer(request, Outcome.UNSURE))
        world.after(lasts_s, self._come_back)

    def _come_back(self) -> None:
        if not self.is_open:
            return
        self._connection += 1
        self.is_broken = False
        if not self._store.memory.is_open(self._session):
            self._deliver(SessionChanged(StoreSessionState.LOST))
            self._session = self._store.open(self)
        self._deliver(SessionChanged(StoreSessionState.CONNECTED))

    def die(self) -> None:
        """Whoever sat here is gone; the store notices when the session has been silent for too
        long."""
        self.is_open = False
        self._connection += 1
        self._world.after(self._store.session_limit_s, self._store.expire, self._session)

    def close(self) -> None:
        """Whoever sat here ends the session in good order: the store knows at once."""
        self.is_open = False
        self._connection += 1
        self._store.expire(self._session)


def _show(request: StoreRequest) -> str:
    data = getattr(request, "data", b"")
    return f"{type(request).__name__} {request.path} {data.decode(errors='replace')}".rstrip()
