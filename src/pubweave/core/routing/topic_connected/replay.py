"""What somebody lacks of a topic: what is kept, and in its place which spans are kept no more.

A neighbor names its marks and gets all beyond them. A client that comes from another broker names
none: it gets what is kept and drops what it has got before. It must not get more than its queue may
hold, or it is cut off for what it comes back for, again and again: so it gets the newest, and hears
of the rest as of what was dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.routing.topic_connected.dropped_ranges import DroppedRange
from pubweave.core.routing.topic_connected.topic_log import TopicLog
from pubweave.model.filters.filter import Filter
from pubweave.model.ids import ClientId
from pubweave.model.messages.session import Missed
from pubweave.model.publications import Publication

Spans = dict[ClientId, list[DroppedRange]]


@dataclass(frozen=True)
class ReplayLimits:
    """How much a client from another broker gets."""

    keep_s: float
    """It hears of nothing that was dropped and is older: nothing older is kept for anybody."""
    size_bytes: int

    @classmethod
    def of(cls, config: BrokerConfig) -> ReplayLimits:
        """Half of what ends a session, for several topics may be replayed at once."""
        most = min(config.topics.queue_limit_bytes, config.entry.queue_bytes_per_client)
        return cls(config.topics.keep_s, most // 2)


def in_place(
    kept: Iterable[Publication], missed: Spans
) -> Iterator[Publication | tuple[ClientId, list[DroppedRange]]]:
    """Publications, and before each what its publisher's subscribers miss up to there."""
    for publication in kept:
        publisher, sequence = publication.key
        spans = missed.get(publisher, ())
        before = [span for span in spans if span.first < sequence]
        if before:
            yield publisher, before
            missed[publisher] = missed[publisher][len(before) :]
        yield publication
    yield from ((publisher, spans) for publisher, spans in missed.items() if spans)


def for_client(
    log: TopicLog, topic: str, filter_: Filter, limits: ReplayLimits, now: float
) -> Iterator[Publication | Missed]:
    """What a client may have missed of a topic while it was elsewhere. ``now``: without the time
    that this broker was away. O(kept)."""
    wanted = [(p, came_at) for _, p, came_at in log.kept if filter_.matches(p)]
    room = limits.size_bytes
    first = len(wanted)
    while first and room >= wanted[first - 1][0].size_bytes:
        first -= 1
        room -= wanted[first][0].size_bytes
    missed: Spans = {
        publisher: [s for s in spans if s.ended_at >= now - limits.keep_s]
        for publisher, spans in log.dropped.spans.items()
    }
    for publication, came_at in wanted[:first]:
        publisher, sequence = publication.key
        skipped = DroppedRange(sequence, sequence, 1, came_at, came_at)
        missed.setdefault(publisher, []).append(skipped)
    for spans in missed.values():
        spans.sort(key=lambda span: span.first)
    for found in in_place([p for p, _ in wanted[first:]], missed):
        if isinstance(found, tuple):
            publisher, spans = found
            count = sum(span.count for span in spans)
            yield Missed(topic, publisher, count, True, max(span.last for span in spans))
        else:
            yield found
