"""The topic log of a broker: marks for deduplication, and recent publications for later links.

Sequences count all publications of a publisher, and two topics may take different routes: order
holds within a topic only. So a mark belongs to a publisher and a topic.

Invariant: of each publisher and topic, a broker has accepted everything up to the mark that was
published since it takes part in the topic, or has counted it: as late, or as missed
(`topic_connected/gaps`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection
from dataclasses import dataclass, field

from pubweave.core.routing.topic_connected.dropped_ranges import (
    REMEMBERED_S,
    DroppedPublications,
    DroppedRange,
)
from pubweave.core.vocabulary.rare_branches import Branch, sometimes
from pubweave.model.ids import ClientId
from pubweave.model.messages.topic_connected import TopicWanted
from pubweave.model.publications import Publication


@dataclass
class TopicLog:
    """One topic at one broker; ``number`` differs each time that the broker takes part in it."""

    number: int
    began_at: float = 0.0
    marks: dict[ClientId, int] = field(default_factory=dict)
    heard_at: dict[ClientId, float] = field(default_factory=dict)
    kept: deque[tuple[float, Publication, float]] = field(default_factory=deque)
    """Arrival without local pauses, the publication, and its real arrival."""
    keys: set[tuple[ClientId, int]] = field(default_factory=set)
    """Of the kept publications."""
    floors: dict[ClientId, int] = field(default_factory=dict)
    """By publisher: the first accepted sequence, or the last that is no longer kept."""
    dropped: DroppedPublications = field(default_factory=DroppedPublications)

    def is_new(self, publication: Publication) -> bool:
        return publication.sequence > self.marks.get(publication.publisher, 0)

    def is_late(self, publication: Publication) -> bool:
        """Whether an old publication was never accepted; False if that is no longer known."""
        publisher, sequence = publication.key
        if sequence <= self.floors.get(publisher, 0) or publication.key in self.keys:
            return False
        return not self.dropped.has(publisher, sequence)

    def beyond(self, marks: dict[ClientId, int]) -> list[Publication]:
        """The kept publications beyond these marks, in order of arrival. O(kept)."""
        return [p for _, p, _ in self.kept if p.sequence > marks.get(p.publisher, 0)]


class TopicLogs:
    """The topic logs of a broker, bounded in time and bytes."""

    def __init__(self) -> None:
        self._size_bytes = 0
        self._logs: dict[str, TopicLog] = {}
        self._numbers = 0
        self.away_s = 0.0
        """How long the broker was away in all: spans of what was dropped look so much older."""

    def __getitem__(self, topic: str) -> TopicLog:
        return self._logs[topic]

    def get(self, topic: str) -> TopicLog | None:
        """The log of a topic that this broker takes part in."""
        return self._logs.get(topic)

    def begin(self, topic: str, now: float) -> None:
        self._numbers += 1
        self._logs[topic] = TopicLog(self._numbers, now)

    def end(self, topic: str) -> None:
        log = self._logs.pop(topic, None)
        if log is not None:
            self._size_bytes -= sum(publication.size_bytes for _, publication, _ in log.kept)

    def append(self, log: TopicLog, publication: Publication, now: float) -> None:
        """Append a new publication."""
        log.floors.setdefault(publication.publisher, publication.sequence)
        log.marks[publication.publisher] = publication.sequence
        log.heard_at[publication.publisher] = now
        log.kept.append((now, publication, now))
        log.keys.add(publication.key)
        self._size_bytes += publication.size_bytes

    def miss(
        self, log: TopicLog, publisher: ClientId, spans: list[DroppedRange], now: float
    ) -> None:
        """Advance the mark over publications that will not arrive any more."""
        for span in spans:
            log.dropped.extend(publisher, span)
        log.marks[publisher] = log.floors[publisher] = spans[-1].last
        log.heard_at[publisher] = now

    def wanted(self, topic: str, *, takes_gaps: bool = False) -> TopicWanted:
        """The request for a topic's publications to a neighbor."""
        log = self._logs[topic]
        return TopicWanted(topic, log.number, tuple(log.marks.items()), takes_gaps)

    def clean_up(
        self, now: float, keep_s: float, keep_bytes: int, lasting: Collection[str] = ()
    ) -> None:
        """Discard what is too old or too much, the oldest first; in ``lasting`` topics nothing is
        too old. O(topics, and topics x excess)."""
        for topic, log in self._logs.items():
            while topic not in lasting and log.kept and log.kept[0][0] < now - keep_s:
                self._drop_first(log)
            log.dropped.tidy(now)
            # No copy can be that old, unless it is kept for somebody who is away.
            for publisher in [p for p, at in log.heard_at.items() if at < now - REMEMBERED_S]:
                if not any(p.publisher == publisher for _, p, _ in log.kept):
                    del log.heard_at[publisher], log.marks[publisher], log.floors[publisher]
        while self._size_bytes > keep_bytes:
            sometimes(Branch.LOG_FULL)
            full = [log for log in self._logs.values() if log.kept]
            self._drop_first(min(full, key=lambda log: log.kept[0][0]))

    def excuse(self, seconds: float) -> None:
        """The broker was away: that time does not count. O(kept)."""
        self.away_s += seconds
        for log in self._logs.values():
            log.kept = deque((at + seconds, p, came_at) for at, p, came_at in log.kept)
            log.heard_at = {publisher: at + seconds for publisher, at in log.heard_at.items()}

    def _drop_first(self, log: TopicLog) -> None:
        _, publication, came_at = log.kept.popleft()
        publisher, sequence = publication.key
        log.keys.discard(publication.key)
        log.floors[publisher] = max(sequence, log.floors.get(publisher, 0))
        log.dropped.add(publisher, sequence, came_at)
        self._size_bytes -= publication.size_bytes
