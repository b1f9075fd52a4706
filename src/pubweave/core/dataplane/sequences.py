"""The last sequence received of each publisher, by which duplicates are dropped."""

from __future__ import annotations

from collections.abc import Callable

from pubweave.model.ids import ClientId


class PublisherSequences:
    """``last`` is the last sequence by publisher; the hot path reads and writes it directly.

    ``knows_publisher`` says whether publications of a publisher may still arrive."""

    def __init__(self, knows_publisher: Callable[[ClientId], bool]) -> None:
        self.last: dict[ClientId, int] = {}
        self._knows_publisher = knows_publisher

    def of(self, publisher: ClientId) -> int:
        """The last sequence received of a publisher; 0 if none was."""
        return self.last.get(publisher, 0)

    def note(self, publisher: ClientId, sequence: int) -> None:
        """Another broker received this sequence: older ones are duplicates here, too."""
        self.last[publisher] = max(sequence, self.of(publisher))

    def withdrawn(self, publisher: ClientId) -> None:
        """An advertisement of a publisher was withdrawn; was it the last one, then no publication
        of it is under way."""
        if not self._knows_publisher(publisher):
            self.last.pop(publisher, None)

    def forget_unknown(self) -> None:
        """The same for all publishers whose advertisements were removed without a message."""
        for publisher in [p for p in self.last if not self._knows_publisher(p)]:
            del self.last[publisher]
