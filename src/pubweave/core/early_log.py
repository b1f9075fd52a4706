"""The publications since a broker was started, replayed to clients and links that come later.

A broker that was restarted without a journal does not know its clients, but its neighbors still
send what these clients want. A client that reconnects and subscribes again gets what arrived
before it; it drops what it already has. Links may come later than clients, too: a broker with a
store reads its links from there. The log is kept for a short time and is bounded in bytes.
"""

from __future__ import annotations

from collections.abc import Callable

from pubweave.core.session import Session
from pubweave.model.publications import Publication

EARLY_BYTES = 4 << 20


class EarlyLog:
    """The publications since a broker was started, until ``until``."""

    def __init__(self, until: float, is_wanted_by: Callable[[Session, Publication], bool]) -> None:
        self._until = until
        self._is_wanted_by = is_wanted_by
        self._kept: list[Publication] = []
        self._published: list[Publication] = []
        self._size_bytes = 0

    def note(self, publication: Publication, origin: Session) -> None:
        self._kept.append(publication)
        if origin.is_client:
            self._published.append(publication)
        self._size_bytes += publication.size_bytes

    def is_over(self, now: float) -> bool:
        """Whether the log has ended: its time is over, or it has too many bytes."""
        return now >= self._until or self._size_bytes > EARLY_BYTES

    def excuse(self, seconds: float) -> None:
        """This broker did not run for so long."""
        self._until += seconds

    def published(self) -> list[Publication]:
        """What own clients have published, in order."""
        return self._published.copy()

    def replay(self, client: Session) -> list[Publication]:
        """The publications that match the subscriptions of a client, in order. O(kept)."""
        return [p for p in self._kept if self._is_wanted_by(client, p)]
