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
from pubweave.model.messages import SequencedMessage
from pubweave.model.publications import Publication

KEEP_S = 15.0
KEEP_BYTES = 4 << 20


class AcknowledgedPublications:
    """The latest acknowledged publications of a client, bounded in time and bytes.

    Each is kept once, from its first acknowledgement on: what is offered again is acknowledged
    again, and a client that goes from broker to broker would double all of it every time."""

    def __init__(self) -> None:
        self._kept: deque[tuple[float, Publication]] = deque()
        self._sequences: set[int] = set()
        """Of those kept."""
        self._size_bytes = 0

    def acknowledging(self, session: Session, received: int, now: float) -> None:
        """The session is about to forget what it sent up to this number. O(acknowledged)."""
        for _, message in zip(range(received - session.acked), session.unacked, strict=False):
            if type(message) is Publication and message.sequence not in self._sequences:
                self._kept.append((now, message))
                self._sequences.add(message.sequence)
                self._size_bytes += message.size_bytes
        while self._kept and (self._kept[0][0] < now - KEEP_S or self._size_bytes > KEEP_BYTES):
            gone = self._kept.popleft()[1]
            self._sequences.discard(gone.sequence)
            self._size_bytes -= gone.size_bytes

    def again(
        self, advertised: Iterable[Filter], held: Iterable[SequencedMessage] = ()
    ) -> list[Publication]:
        """What to offer to a broker that forgot us, in order; only what may be published now, and
        is not among what is ``held`` for it anyway."""
        filters = list(advertised)
        waiting = {message.sequence for message in held if type(message) is Publication}
        return [
            publication
            for _, publication in self._kept
            if publication.sequence not in waiting
            and any(own.matches(publication) for own in filters)
        ]
