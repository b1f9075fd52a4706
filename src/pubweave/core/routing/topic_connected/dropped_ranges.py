"""Which publications of a topic a broker has had and keeps no more: their sequences, in spans.

So it can say exactly how many a neighbor misses that has got less. A publisher counts over all its
topics, so sequences of one topic have holes; a span is a run without holes, and not too long in
time. What is too much is merged: then the count of a merged span is exact as a whole, and a bound
for a part of it. Times are those at which publications came, and no sleep of this broker shifts
them: what is older than `REMEMBERED_S` nobody is told of.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pubweave.model.ids import ClientId

REMEMBERED_S = 600.0
SPAN_S = 10.0
"""Who takes part since then, or has subscribed since then, misses a whole span or nothing of it."""
MAX_SPANS = 512
"""Of one publisher on one topic."""


@dataclass(frozen=True)
class DroppedRange:
    """``count`` sequences from ``first`` to ``last``, which came in this order from ``began_at`` to
    ``ended_at``."""

    first: int
    last: int
    count: int
    began_at: float
    ended_at: float
    is_at_most: bool = False
    """Whether ``count`` is a bound."""

    @property
    def is_whole(self) -> bool:
        return self.count == self.last - self.first + 1

    def beyond(self, mark: int) -> DroppedRange | None:
        """The part behind a sequence."""
        if mark < self.first:
            return self
        if mark >= self.last:
            return None
        left = self.last - mark
        is_at_most = self.is_at_most or not self.is_whole
        return DroppedRange(
            mark + 1, self.last, min(self.count, left), self.began_at, self.ended_at, is_at_most
        )


@dataclass
class DroppedPublications:
    """One topic at one broker; by publisher, in the order of sequences."""

    spans: dict[ClientId, list[DroppedRange]] = field(default_factory=dict)

    def add(self, publisher: ClientId, sequence: int, came_at: float) -> None:
        self.extend(publisher, DroppedRange(sequence, sequence, 1, came_at, came_at))

    def extend(self, publisher: ClientId, span: DroppedRange) -> None:
        """Enter a span behind or between those that are there. O(spans of the publisher)."""
        spans = self.spans.setdefault(publisher, [])
        place = len(spans)
        while place and spans[place - 1].first > span.first:
            place -= 1
        before = spans[place - 1] if place else None
        if before is not None and _continues(before, span):
            spans[place - 1] = _joined(before, span)
        else:
            spans.insert(place, span)
        if len(spans) > MAX_SPANS:
            spans[:2] = [_joined(spans[0], spans[1])]

    def has(self, publisher: ClientId, sequence: int) -> bool:
        return any(s.first <= sequence <= s.last for s in self.spans.get(publisher, ()))

    def beyond(self, publisher: ClientId, mark: int, now: float) -> list[DroppedRange]:
        """What somebody misses who has got a publisher's publications up to a sequence."""
        found = (span.beyond(mark) for span in self.spans.get(publisher, ()))
        return [span for span in found if span is not None and now - span.ended_at < REMEMBERED_S]

    def tidy(self, now: float) -> None:
        """Forget what is long ago. O(publishers)."""
        for publisher, spans in list(self.spans.items()):
            while spans and now - spans[0].ended_at >= REMEMBERED_S:
                del spans[0]
            if not spans:
                del self.spans[publisher]


def _continues(before: DroppedRange, span: DroppedRange) -> bool:
    return (
        span.first == before.last + 1
        and span.ended_at - before.began_at <= SPAN_S
        and before.is_whole
        and span.is_whole
    )


def _joined(one: DroppedRange, other: DroppedRange) -> DroppedRange:
    return DroppedRange(
        one.first,
        max(one.last, other.last),
        one.count + other.count,
        min(one.began_at, other.began_at),
        max(one.ended_at, other.ended_at),
        one.is_at_most or other.is_at_most,
    )
