"""POP's phase 1 (section 3.1): tagged publications, trace results, publisher profile tables.

A publisher's first broker tags some publications. Every broker that passes one on waits for the
results of the neighbors it passed it to, enters them in the publisher's table and tells its
upstream neighbor the sum. A result that does not come in time is given up, there and upstream.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from zlib import crc32

from pubweave.core.session.session import Session
from pubweave.model.ids import BrokerId, ClientId
from pubweave.model.messages.relocation import TraceResult
from pubweave.model.publications import Publication

NEWEST_WEIGHT = 0.25
"""Of a result in the running average (section 3.1)."""
MOST_AWAITED = 65_536
"""Traced publications that a broker waits for at most."""
ROW_BYTES = 48
"""What a row of a table, or a neighbor waited for, is taken to occupy."""


@dataclass(slots=True)
class PublisherProfileTable:
    """PPTable: how many subscribers each downstream neighbor has behind it, on average."""

    upstream: BrokerId | None
    """Where the publisher's publications come from; None: it is attached here."""
    averages: dict[BrokerId, float] = field(default_factory=dict)
    own: float | None = None
    """The same for this broker's subscribers."""

    def note(self, neighbor: BrokerId, subscribers: int) -> None:
        self.averages[neighbor] = _running(self.averages.get(neighbor), subscribers)

    def note_own(self, subscribers: int) -> None:
        self.own = _running(self.own, subscribers)

    def note_others(self, taken: set[BrokerId]) -> None:
        """A traced publication went to these neighbors: all others had nobody for it. The paper
        does not say so; without it a neighbor whose subscribers want every tenth publication
        weighs as much as one whose subscribers want all, and publishers move the wrong way."""
        for neighbor in self.averages.keys() - taken:
            self.note(neighbor, 0)


@dataclass(slots=True)
class _Awaited:
    """A traced publication whose results are not all in."""

    upstream: Session | None
    waiting: set[Session]
    subscribers: int
    until: float


@dataclass(slots=True)
class _Window:
    """How many publications of a publisher were tagged (T) in its time window."""

    began_at: float
    tagged: int = 0


Key = tuple[ClientId, int]


class PopTracing:
    """One broker's part in tracing by POP."""

    def __init__(
        self,
        *,
        window_s: float,
        most_traced: int,
        answer_limit_s: float,
        send: Callable[[Session, TraceResult], None],
        on_result: Callable[[ClientId, float], None],
    ) -> None:
        self._window_s = window_s
        self._most_traced = most_traced
        self._answer_limit_s = answer_limit_s
        self._send = send
        self._on_result = on_result
        self.tables: dict[ClientId, PublisherProfileTable] = {}
        self._windows: dict[ClientId, _Window] = {}
        self._awaited: dict[Key, _Awaited] = {}
        self.given_up = 0

    def is_tagged(self, publication: Publication, now: float) -> bool:
        """Whether a local publisher's publication is to be traced: P = 1 - T/N."""
        window = self._windows.get(publication.publisher)
        if window is None or now - window.began_at >= self._window_s:
            self._windows[publication.publisher] = window = _Window(now)
        # A draw that needs no generator: publications' names are as good as random.
        draw = crc32(f"{publication.publisher}/{publication.sequence}".encode()) / 2**32
        if draw >= 1 - window.tagged / self._most_traced:
            return False
        window.tagged += 1
        return True

    def routed(
        self,
        publication: Publication,
        upstream: Session | None,
        own: int,
        downstream: list[Session],
        now: float,
    ) -> None:
        """A traced publication was passed on to neighbors and to ``own`` subscribers."""
        publisher = publication.publisher
        table = self._table(publisher, None if upstream is None else upstream.remote)
        table.note_own(own)
        table.note_others({link.remote for link in downstream})
        if len(self._awaited) >= MOST_AWAITED:
            self.given_up += 1
            return
        awaited = _Awaited(upstream, set(downstream), own, now + self._answer_limit_s)
        if awaited.waiting:
            self._awaited[publication.key] = awaited
        else:
            self._finish(publication.key, awaited, now)

    def receive_result(self, origin: Session, message: TraceResult, now: float) -> None:
        """A neighbor tells of a traced publication. What nobody waits for is of no use."""
        key = (message.publisher, message.sequence)
        awaited = self._awaited.get(key)
        if awaited is None or origin not in awaited.waiting:
            return
        awaited.waiting.discard(origin)
        awaited.subscribers += message.subscribers
        upstream = awaited.upstream
        table = self._table(message.publisher, None if upstream is None else upstream.remote)
        table.note(origin.remote, message.subscribers)
        if not awaited.waiting:
            del self._awaited[key]
            self._finish(key, awaited, now)

    def _finish(self, key: Key, awaited: _Awaited, now: float) -> None:
        if awaited.upstream is not None:
            self._send(awaited.upstream, TraceResult(*key, awaited.subscribers))
        else:
            self._on_result(key[0], now)

    def _table(self, publisher: ClientId, upstream: BrokerId | None) -> PublisherProfileTable:
        """A publisher's table; begun anew where its publications come from elsewhere now."""
        table = self.tables.get(publisher)
        if table is None or table.upstream != upstream:
            self.tables[publisher] = table = PublisherProfileTable(upstream)
        return table

    @property
    def local(self) -> list[ClientId]:
        """The publishers whose publications are tagged here."""
        return list(self._windows)

    def is_awaited(self, publisher: ClientId) -> bool:
        """Whether results of a publisher are outstanding. O(publications awaited)."""
        return any(key[0] == publisher for key in self._awaited)

    def discard(self, publisher: ClientId) -> None:
        self.tables.pop(publisher, None)
        self._windows.pop(publisher, None)

    def give_up_late(self, now: float) -> None:
        for key in [k for k, awaited in self._awaited.items() if awaited.until <= now]:
            del self._awaited[key]
            self.given_up += 1

    @property
    def memory_bytes(self) -> int:
        """What tables and awaited publications occupy, by their entries."""
        rows = sum(1 + len(table.averages) for table in self.tables.values())
        rows += sum(1 + len(awaited.waiting) for awaited in self._awaited.values())
        return ROW_BYTES * (rows + len(self._windows))


def _running(average: float | None, newest: int) -> float:
    if average is None:
        return float(newest)
    return NEWEST_WEIGHT * newest + (1 - NEWEST_WEIGHT) * average
