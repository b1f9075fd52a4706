"""The store that executor, agents and operators share: a tree of small documents, as ZooKeeper's.

Here is only its vocabulary: what can be asked (`StoreRequest`), what comes back (`StoreAnswer`),
and what it says by itself (`StoreNotice`). Executor and agent send requests as effects and get
answers and notices as events, so that the same code runs on the memory store in virtual time and
on ZooKeeper over sockets. Contract of every implementation:

- The first thing a user hears is `SessionChanged(CONNECTED)`; before it, it asks nothing.
- Requests of one user are carried out in the order they were made; each gets one answer. After a
  lost connection an answer may be `Outcome.UNSURE`: it may have happened or not; read again. What
  was under way when the connection went is answered before the next CONNECTED is told; what is
  asked while not connected is answered UNSURE.
- A node's ``version`` counts its writes, from 0 when it was created; the answer to an accepted
  `Create` or `Write` names the version it made. `Write` and `Delete` with a version other than
  ANY_VERSION fail with `BAD_VERSION` if somebody wrote in between: this is compare-and-set, and
  all coordination rests on it.
- An ephemeral node goes when the session of whoever created it is over. It has no children
  (a `Create` below it is DENIED).
- A watch is armed by a `Read` (of the node: written, created, deleted) or a `List` (of its
  children: one came or went, or the node itself did) with ``watch=True``, also where the node is
  MISSING, and fires once (`NodeChanged`). Whoever hears it reads again. It may fire needlessly.
  A notice of a change is heard before any answer that was given after the change.
  After `StoreSessionState.CONNECTED` all watches have to be armed anew.
- SUSPENDED is not LOST: a suspended session may come back with its ephemeral nodes; a lost one
  never does, and its owner must behave as if somebody else had taken its place.
"""

from __future__ import annotations

import enum

import msgspec

ANY_VERSION = -1
Path = str
"""Absolute, such as ``/pubweave/demo/plan``; no trailing slash."""


class Create(msgspec.Struct, frozen=True):
    """Make a node; its parents are made on the way. EXISTS if it is there."""

    path: Path
    data: bytes = b""
    ephemeral: bool = False


class Read(msgspec.Struct, frozen=True):
    """A node's data and version. MISSING if it is not there; the watch is armed either way."""

    path: Path
    watch: bool = False


class Write(msgspec.Struct, frozen=True):
    """Replace a node's data if its version is still this one."""

    path: Path
    data: bytes
    version: int = ANY_VERSION


class Delete(msgspec.Struct, frozen=True):
    """Remove a node without children if its version is still this one."""

    path: Path
    version: int = ANY_VERSION


class List(msgspec.Struct, frozen=True):
    """The names of a node's children, sorted. MISSING if the node is not there; the watch is armed
    either way."""

    path: Path
    watch: bool = False


StoreRequest = Create | Read | Write | Delete | List


class Outcome(enum.Enum):
    """How a request ended."""

    OK = "ok"
    MISSING = "missing"
    EXISTS = "exists"
    BAD_VERSION = "bad version"
    NOT_EMPTY = "not empty"
    DENIED = "denied"
    UNSURE = "unsure"
    """The connection went while the request was under way, or the session is over."""


class StoreAnswer(msgspec.Struct, frozen=True):
    """What became of a request, which is repeated so that nobody has to remember it."""

    request: StoreRequest
    outcome: Outcome
    data: bytes = b""
    version: int = 0
    written_at: float | None = None
    """Of a `Read`: when the node was last written (seconds since 1970), if the store tells."""
    children: tuple[str, ...] = ()


class NodeChanged(msgspec.Struct, frozen=True):
    """A watch on this path fired; it has to be armed again by reading again."""

    path: Path


class StoreSessionState(enum.Enum):
    """The user's own session with the store."""

    CONNECTED = "connected"
    SUSPENDED = "suspended"
    LOST = "lost"


class SessionChanged(msgspec.Struct, frozen=True):
    """The session changed. After LOST a new session is opened by the driver: CONNECTED follows."""

    state: StoreSessionState


StoreNotice = NodeChanged | SessionChanged


class TimerFired(msgspec.Struct, frozen=True, gc=False):
    """The instant that ``next_deadline()`` of an agent or executor named has come."""


StoreEvent = StoreAnswer | StoreNotice | TimerFired
"""What the driver of a store hands to its user."""
