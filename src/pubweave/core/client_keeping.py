"""What a client keeps of publications that its broker has acknowledged.

A broker that dies takes along what it has acknowledged and not passed on. In a topic-connected
overlay its clients go on elsewhere: what they published lately is offered again there, before
anything new, and brokers drop what they have. So nothing of a publisher is missing before what
comes after it (`topic_log`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from pubweave.core.session import Session
from pubweave.model.filters import Filter
from pubweave.model.publications import Publication

KEEP_S = 15.0
KEEP_BYTES = 4 << 20


class AcknowledgedPublications:
    """The latest acknowledged publications of a client, bounded in time and bytes."""

    def __init__(self) -> None:
        self._kept: deque[tuple[float, Publication]] = deque()
        self._size_bytes = 0

    def acknowledging(self, session: Session, received: int, now: float) -> None:
        """The session is about to forget what it sent up to this number. O(acknowledged)."""
        for _, message in zip(range(received - session.acked), session.unacked, strict=False):
            if type(message) is Publication:
                self._kept.append((now, message))
                self._size_bytes += message.size_bytes
        while self._kept and (self._kept[0][0] < now - KEEP_S or self._size_bytes > KEEP_BYTES):
            self._size_bytes -= self._kept.popleft()[1].size_bytes

    def again(self, advertised: Iterable[Filter]) -> list[Publication]:
        """What to offer to a broker that forgot us, in order; only what may be published now."""
        filters = list(advertised)
        return [p for _, p in self._kept if any(own.matches(p) for own in filters)]
