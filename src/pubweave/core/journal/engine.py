"""The rules of a journal: what waits for the disk, what is written when, and what if that fails.

Effects. Whatever tells somebody what this broker has done leaves after the event that it comes from
is on disk, and in order. What promises nothing leaves at once: keep-alive, answers to questions,
telemetry, and everything for clients that only look on. So a broker whose disk is full or slow is
still known to be alive, and says what is wrong.

Writing. One thing is under way at a time; meanwhile the records of further events gather (group
commit). A batch begins when an effect waits for it, or when much has gathered. A snapshot replaces
what was written when going through that again would take too long, or when it is too large.

Failures. A batch that could not be written and synced is written again for as long as it takes: the
broker routes on, and whoever waits for an acknowledgement waits. A snapshot that could not be put
in place is given up for now, and the records that it stood for are written behind the others.

The engine does no I/O and reads no clock. Its driver (`runtime.journal.host`,
`sim.kernel.journal_node`) tells it what happened and carries out the commands that come back.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Protocol

import msgspec

from pubweave.core.vocabulary.effects import (
    Effect,
    EmitTelemetry,
    PauseReading,
    Transmit,
    TransmitPackets,
)
from pubweave.core.vocabulary.events import ConnectionId
from pubweave.core.vocabulary.rare_branches import Branch, sometimes
from pubweave.model.messages.session import Answer, Hello, Ping, Pong
from pubweave.model.mqtt_packets import PingResp
from pubweave.model.records.journal_records import DiskOperation

# --- commands ------------------------------------------------------------------------------


class Operate(msgspec.Struct, frozen=True):
    """Carry these out one after the other, up to the first that fails; then `done` or `failed`."""

    operations: Sequence[DiskOperation]


class TakeSnapshot(msgspec.Struct, frozen=True):
    """Take a snapshot before the next event is handled; then `snapshot_taken`."""

    is_last: bool = False


class Release(msgspec.Struct, frozen=True):
    """These effects need not wait any more."""

    effects: list[Effect]


class Wait(msgspec.Struct, frozen=True):
    """Call `waited` after this time."""

    seconds: float


class End(msgspec.Struct, frozen=True):
    """All that could be written is written."""


Command = Operate | TakeSnapshot | Release | Wait | End


class Files(Protocol):
    """What is to be done on a disk (`wire.journal_files.JournalFiles`)."""

    @property
    def journal_bytes(self) -> int: ...

    def snapshot(self, content: bytes, *, is_last: bool = False) -> Sequence[DiskOperation]: ...

    def installed(self) -> None: ...

    def clearing(self) -> Sequence[DiskOperation]: ...

    def cleared(self) -> None: ...

    def batch(self, records: bytes) -> Sequence[DiskOperation]: ...

    def written(self) -> None: ...

    def failed(self) -> None: ...


@dataclass(frozen=True)
class JournalPolicy:
    """When a journal writes, begins anew, and tries again."""

    lazy_bytes: int = 1 << 20
    """Events for which nobody waits are written when there is this much."""
    replay_s: float = 3.0
    """When the events of a journal took so long to handle, a snapshot replaces it: it would take as
    long to go through them again."""
    snapshot_ratio: float = 3.0
    """Unless they took less than so many times what the last snapshot took to take."""
    snapshot_bytes: int = 256 << 20
    """Nor does a journal grow beyond this, however fast its events were handled."""
    retry_s: float = 0.2
    """A batch that the disk refused is written again after this time."""


# --- effects that wait ---------------------------------------------------------------------

_PROMISES_NOTHING = (Ping, Pong, Answer)


class EffectOrder:
    """Effects of events by the number of the event, until the journal has that many.

    >>> order = EffectOrder(lambda connection: False)
    >>> order.noted([Transmit(1, (Pong(0.5),))])
    [Transmit(connection=1, messages=(Pong(sent_at=0.5),))]
    >>> order.is_awaited
    False
    """

    def __init__(self, is_onlooker: Callable[[ConnectionId], bool]) -> None:
        """``is_onlooker`` knows the connections of clients that only look on."""
        self._is_onlooker = is_onlooker
        self._waiting: deque[tuple[int, list[Effect]]] = deque()
        self._greeted_by: dict[ConnectionId, int] = {}
        """Connections whose Hello waits, and for which event: nothing may go before it."""
        self.events = 0
        """How many events were noted so far."""

    @property
    def is_awaited(self) -> bool:
        """Whether an effect waits for the journal."""
        return bool(self._waiting)

    def noted(self, effects: list[Effect]) -> list[Effect]:
        """The next event is handed to the journal; which of its effects need not wait."""
        self.events += 1
        waiting = [effect for effect in effects if self._has_to_wait(effect)]
        if not waiting:
            return effects
        self._waiting.append((self.events, waiting))
        if len(waiting) == len(effects):
            return []
        return [effect for effect in effects if not self._has_to_wait(effect)]

    def settled(self, events: int) -> list[Effect]:
        """So many events are on disk: the effects that may leave now, in order."""
        freed: list[Effect] = []
        while self._waiting and self._waiting[0][0] <= events:
            freed += self._waiting.popleft()[1]
        if self._greeted_by:
            self._greeted_by = {c: event for c, event in self._greeted_by.items() if event > events}
        return freed

    def _has_to_wait(self, effect: Effect) -> bool:
        if isinstance(effect, Transmit):
            for message in effect.messages:
                if type(message) not in _PROMISES_NOTHING:
                    break
            else:
                return effect.connection in self._greeted_by
            if self._is_onlooker(effect.connection):
                return False
            if type(effect.messages[0]) is Hello:
                self._greeted_by[effect.connection] = self.events
            return True
        if isinstance(effect, TransmitPackets):
            return not all(isinstance(packet, PingResp) for packet in effect.packets)
        return not isinstance(effect, EmitTelemetry | PauseReading)


# --- the engine ----------------------------------------------------------------------------


class _Doing(Enum):
    """What is under way; one thing at a time."""

    NOTHING = auto()
    BEGINNING = auto()
    BATCH = auto()
    SNAPSHOT = auto()
    CLEARING = auto()
    WAITING = auto()
    """For the next attempt at a batch."""
    ENDING = auto()
    """The last snapshot is being written."""
    ENDED = auto()


class JournalEngine:
    """One life of a broker's journal, from `begin` to `finish`."""

    def __init__(
        self, files: Files, policy: JournalPolicy, is_onlooker: Callable[[ConnectionId], bool]
    ) -> None:
        self.problem = ""
        """Why the disk takes nothing at the moment; empty: it does."""
        self.problem_since = 0.0
        self.waiting_bytes = 0
        """Of records that are not being written yet."""
        self.settled_events = 0
        """How many events of this life are on disk."""
        self.snapshot_events = 0
        """How many of them the last snapshot has."""
        self.snapshots = 0
        """How many were put in place since `begin`."""
        self.snapshots_refused = 0
        self._files = files
        self._policy = policy
        self._order = EffectOrder(is_onlooker)
        self._gathered: list[bytes] = []
        self._doing = _Doing.NOTHING
        self._records = b""
        """What is being written, or is to be if there is no room for the snapshot."""
        self._given_events = 0
        self._is_finishing = False
        self._is_sealed = False
        self._handled_s = 0.0
        self._snapshot_s = 0.0
        self._refused_bytes = 0
        """How large the journal was when there could be no snapshot."""

    @property
    def events(self) -> int:
        """How many events were noted in this life."""
        return self._order.events

    @property
    def journal_bytes(self) -> int:
        return self._files.journal_bytes

    def begin(self, snapshot: bytes, took_s: float) -> Operate:
        """The first snapshot, of a broker that has promised nothing yet: if it cannot be put in
        place, the broker does not start."""
        self._snapshot_s = took_s
        self._doing = _Doing.BEGINNING
        return Operate(self._files.snapshot(snapshot))

    # --- what the driver tells -------------------------------------------------------------

    def noted(self, record: bytes, effects: list[Effect]) -> tuple[list[Effect], list[Command]]:
        """An event was handled; which of its effects may leave at once. O(effects)."""
        self._gathered.append(record)
        self.waiting_bytes += len(record)
        return self._order.noted(effects), self._next()

    def measured(self, handled_s: float) -> None:
        """How long an event took to handle."""
        self._handled_s += handled_s

    def snapshot_taken(self, snapshot: bytes | None, took_s: float) -> list[Command]:
        """After `TakeSnapshot`. None: there can be none, and the journal goes on, which is as
        good, only longer."""
        self._handled_s = 0.0
        if snapshot is None:
            if self._doing is _Doing.ENDING:
                return self._end()
            return self._refused()
        self._snapshot_s = took_s
        is_last = self._doing is _Doing.ENDING
        return [Operate(self._files.snapshot(snapshot, is_last=is_last))]

    def done(self) -> list[Command]:
        """What was to be carried out worked."""
        doing, self._doing = self._doing, _Doing.NOTHING
        self.problem = ""
        if doing is _Doing.CLEARING:
            self._files.cleared()
            return self._next()
        if doing is _Doing.BATCH:
            self._files.written()
            return self._settled()
        self._files.installed()
        self.snapshot_events = self._given_events
        self.snapshots += doing is not _Doing.BEGINNING
        self._refused_bytes = 0
        self._is_sealed = doing is _Doing.ENDING
        return self._settled(self._files.clearing())

    def failed(self, problem: str, now: float) -> list[Command]:
        """An operation failed, or a part of it; those behind it were not begun."""
        doing = self._doing
        if doing is _Doing.CLEARING:  # the next snapshot finds what is left here
            self._doing = _Doing.NOTHING
            return self._next()
        self._files.failed()
        if doing is _Doing.SNAPSHOT:
            return self._refused()
        if not self.problem:
            self.problem_since = now
        self.problem = problem
        if self._is_finishing:
            return self._end()
        self._doing = _Doing.WAITING
        sometimes(Branch.BATCH_REFUSED)
        return [Wait(self._policy.retry_s)]

    def waited(self) -> list[Command]:
        """After `Wait`."""
        return [self._batch()] if self._doing is _Doing.WAITING else []

    def finish(self) -> list[Command]:
        """The broker ends in an orderly way: write what is left, and a last snapshot, which other
        versions can read. Without it the journal is as good, but only for this version. What the
        disk refuses now is given up."""
        self._is_finishing = True
        return self._end() if self._doing is _Doing.WAITING else self._next()

    # --- what is next ----------------------------------------------------------------------

    def _next(self) -> list[Command]:
        """Begin what is due, unless something is under way."""
        if self._doing is not _Doing.NOTHING:
            return []
        if self._is_sealed:
            return self._end()
        if not self._gathered and self._is_finishing:
            self._doing = _Doing.ENDING
            return [TakeSnapshot(is_last=True)]
        is_due = self._order.is_awaited or self._is_finishing
        if not is_due and self.waiting_bytes < self._policy.lazy_bytes:
            return []
        self._records = b"".join(self._gathered)
        self._gathered, self.waiting_bytes = [], 0
        self._given_events = self._order.events
        if self._is_snapshot_due():
            self._doing = _Doing.SNAPSHOT
            return [TakeSnapshot()]
        return [self._batch()]

    def _is_snapshot_due(self) -> bool:
        policy = self._policy
        return not self._is_finishing and (
            self._handled_s > max(policy.replay_s, policy.snapshot_ratio * self._snapshot_s)
            or self._files.journal_bytes - self._refused_bytes > policy.snapshot_bytes
        )

    def _batch(self) -> Operate:
        self._doing = _Doing.BATCH
        return Operate(self._files.batch(self._records))

    def _refused(self) -> list[Command]:
        """No snapshot for now: its events are written behind the others, and the next one is tried
        when as much again is there."""
        self.snapshots_refused += 1
        sometimes(Branch.SNAPSHOT_REFUSED)
        self._refused_bytes = self._files.journal_bytes
        return [self._batch()]

    def _settled(self, clearing: Sequence[DiskOperation] = ()) -> list[Command]:
        self._records = b""
        self.settled_events = self._given_events
        freed = self._order.settled(self._given_events)
        if clearing:
            self._doing = _Doing.CLEARING
            commands: list[Command] = [Operate(clearing)]
        else:
            commands = self._next()
        # Last, for whoever carries them out may hand in further events meanwhile.
        return [*commands, Release(freed)] if freed else commands

    def _end(self) -> list[Command]:
        self._doing = _Doing.ENDED
        return [End()]
