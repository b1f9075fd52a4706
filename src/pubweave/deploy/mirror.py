"""The part of the store that its user watches, as far as it is known: read, watched, read again.

Executor and agent think in levels, not in edges: whenever something changed they look at the
mirror and say what is still to be done. So it does not matter which notice told them, nor what an
interrupted request became: the mirror reads again and they look again. Invariants: a node is
*settled* only if it was read after the last notice of it, nothing of ours is under way to it, and
the session is connected; nothing is sent while the session is not connected.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import TypeVar

from pubweave.deploy.documents import Document, decode, encode
from pubweave.deploy.store import (
    Create,
    Delete,
    List,
    NodeChanged,
    Outcome,
    Path,
    Read,
    SessionChanged,
    StoreAnswer,
    StoreEvent,
    StoreRequest,
    StoreSessionState,
    Write,
)

DocumentT = TypeVar("DocumentT", bound=Document)
Change = Create | Write | Delete


class _Seen:
    """What is known of one node, or of one node's children."""

    def __init__(self) -> None:
        self.is_known = False
        self.is_stale = True
        """Something may have changed since the last read was asked for."""
        self.is_reading = False
        self.exists = False
        self.data = b""
        self.version = 0
        self.children: tuple[str, ...] = ()
        self.decoded: Document | None = None

    @property
    def is_fresh(self) -> bool:
        return self.is_known and not self.is_stale and not self.is_reading

    def learn(self, *, exists: bool, data: bytes = b"", version: int = 0) -> None:
        if data != self.data:
            self.decoded = None
        self.is_known = True
        # A node without data is only the way to those below it: a broker's late report makes anew
        # what was swept with its plan.
        self.exists = exists and bool(data)
        self.data = data
        self.version = version


class Mirror:
    """What one user of the store knows of it."""

    def __init__(self, retry_s: float) -> None:
        self.is_connected = False
        self.sessions = 0
        """How many sessions there have been; the current one's number."""
        self.problem = ""
        """What the store last refused, in words."""
        self._retry_s = retry_s
        self._quiet_until = -math.inf
        self._nodes: dict[Path, _Seen] = {}
        self._children: dict[Path, _Seen] = {}
        self._under_way: dict[Path, Change] = {}
        self._outbox: list[Change] = []

    # --- what to watch ---------------------------------------------------------------------

    def watch(self, nodes: Iterable[Path], children: Iterable[Path] = ()) -> None:
        """Watch exactly these nodes, and the children of those."""
        self._nodes = {path: self._nodes.get(path) or _Seen() for path in nodes}
        self._children = {path: self._children.get(path) or _Seen() for path in children}

    # --- what is known ---------------------------------------------------------------------

    def is_settled(self, path: Path) -> bool:
        """Whether a watched node is known as it is, there or not."""
        seen = self._nodes.get(path)
        return (
            self.is_connected and seen is not None and seen.is_fresh and not self.is_changing(path)
        )

    def is_changing(self, path: Path) -> bool:
        """Whether a change of ours is under way to this node."""
        return path in self._under_way

    def is_there(self, path: Path) -> bool:
        """Whether a settled node exists."""
        return self._nodes[path].exists

    def version(self, path: Path) -> int:
        return self._nodes[path].version

    def document(self, path: Path, kind: type[DocumentT]) -> DocumentT | None:
        """What a watched node held when it was last read, settled or not; None: it was not
        there. Good enough for what never changes back, such as a decision."""
        seen = self._nodes.get(path)
        if seen is None or not seen.exists:
            return None
        if not isinstance(seen.decoded, kind):
            seen.decoded = decode(seen.data, kind, path)
        return seen.decoded

    def children(self, path: Path) -> tuple[str, ...] | None:
        """The names of a watched node's children; None as long as they are not known."""
        seen = self._children.get(path)
        if not self.is_connected or seen is None or not seen.is_fresh:
            return None
        return seen.children

    # --- changes ---------------------------------------------------------------------------

    def send(self, change: Change) -> None:
        """Make a change; one at a time and node. It is dropped if the session is not connected,
        and whoever wants it sees that it has not happened."""
        assert change.path not in self._under_way
        if self.is_connected:
            self._under_way[change.path] = change
            self._outbox.append(change)

    def hold(
        self, path: Path, own: DocumentT, is_outdated: Callable[[DocumentT], bool]
    ) -> bool | None:
        """Keep an ephemeral node of ours in place; whether it is, None: not known now. One of an
        earlier session or incarnation, about to go and in our way, is removed."""
        if not self.is_settled(path):
            return None
        there = self.document(path, type(own))
        if there is None:
            self.send(Create(path, encode(own), ephemeral=True))
        elif there != own and is_outdated(there):
            self.send(Delete(path, self.version(path)))
        return there == own

    # --- the store -------------------------------------------------------------------------

    def handle(self, event: StoreEvent, now: float) -> None:
        """Learn from what the store says."""
        match event:
            case StoreAnswer():
                self._take_answer(event, now)
            case NodeChanged(path):
                for seen in (self._nodes.get(path), self._children.get(path)):
                    if seen is not None:
                        seen.is_stale = True
            case SessionChanged(state):
                self._take_session(state)

    def flush(self, now: float) -> list[StoreRequest]:
        """What is to be asked now, in order."""
        if not self.is_connected or now < self._quiet_until:
            return []
        self._quiet_until = -math.inf
        requests: list[StoreRequest] = list(self._outbox)
        self._outbox.clear()
        for path in _to_read(self._nodes):
            requests.append(Read(path, watch=True))
        for path in _to_read(self._children):
            requests.append(List(path, watch=True))
        return requests

    def next_deadline(self) -> float:
        """When `flush` has something to say again after a pause."""
        is_waiting = self.is_connected and self._quiet_until > -math.inf
        return self._quiet_until if is_waiting else math.inf

    def _take_session(self, state: StoreSessionState) -> None:
        self.is_connected = state is StoreSessionState.CONNECTED
        if state is StoreSessionState.LOST:
            self.sessions += 1
        self._quiet_until = -math.inf
        self._outbox.clear()
        self._under_way.clear()
        for seen in (*self._nodes.values(), *self._children.values()):
            seen.is_stale = True
            seen.is_reading = False

    def _take_answer(self, answer: StoreAnswer, now: float) -> None:
        request = answer.request
        if answer.outcome is Outcome.DENIED:
            asked = type(request).__name__.lower()
            self.problem = f"the store denies {asked} of {request.path}: check its login"
        if answer.outcome in (Outcome.UNSURE, Outcome.DENIED):
            self._quiet_until = now + self._retry_s
        match request:
            case Read(path):
                self._take_read(self._nodes.get(path), answer)
            case List(path):
                self._take_read(self._children.get(path), answer)
            case Create() | Write() | Delete():
                self._take_change(request, answer)

    def _take_read(self, seen: _Seen | None, answer: StoreAnswer) -> None:
        if seen is None:
            return
        seen.is_reading = False
        if answer.outcome in (Outcome.OK, Outcome.MISSING):
            exists = answer.outcome is Outcome.OK
            seen.learn(exists=exists, data=answer.data, version=answer.version)
            seen.children = answer.children
        else:
            seen.is_stale = True

    def _take_change(self, change: Change, answer: StoreAnswer) -> None:
        if self._under_way.get(change.path) == change:
            del self._under_way[change.path]
        seen = self._nodes.get(change.path)
        if seen is None:
            return
        if answer.outcome is not Outcome.OK:
            seen.is_stale = True
        elif isinstance(change, Delete):
            seen.learn(exists=False)
        else:
            seen.learn(exists=True, data=change.data, version=answer.version)


def _to_read(watched: dict[Path, _Seen]) -> list[Path]:
    """The nodes to be read now; they count as being read."""
    paths = [path for path, seen in watched.items() if seen.is_stale and not seen.is_reading]
    for path in paths:
        watched[path].is_stale = False
        watched[path].is_reading = True
    return paths
