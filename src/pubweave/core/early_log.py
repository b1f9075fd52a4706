"""What a broker has got since it was started, for clients and links that are not there yet.

A broker that was restarted without a journal knows none of its clients, but its neighbors still
send what these wanted. A client that comes back and subscribes again gets what has come by
meanwhile; it drops what it has got before. Links may come later than clients, too: a broker that
has to ask a store for them. Kept for a short time, within a bound.
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
        """Whoever is not back by now is not waited for; nor is anybody if there is too much."""
        return now >= self._until or self._size_bytes > EARLY_BYTES

    def excuse(self, seconds: float) -> None:
        """This broker did not run for so long."""
        self._until += seconds

    def published(self) -> list[Publication]:
        """What own clients have published, in order."""
        return self._published.copy()

    def replay(self, client: Session) -> list[Publication]:
        """What a client wants that was not here, in order. O(kept)."""
        return [p for p in self._kept if self._is_wanted_by(client, p)]
