"""Withdrawn advertisements while their withdrawals are still queued.

Publications depend on advertisements: a broker has subscriptions only for known advertisements,
and drops unmatched publications. When a link's session restarts, its far end has lost everything,
and queued messages are sent again. An advertisement that was withdrawn behind such publications
has to be sent again, and withdrawn again behind them. Its filter is in no table any more, so it
is kept here until no queue holds the withdrawal.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence

from pubweave.core.session.session import Session
from pubweave.model.filters.filter import Filter
from pubweave.model.ids import AdvertisementId, publisher_of
from pubweave.model.messages.migration import MigrationSignal, MigrationStep
from pubweave.model.messages.session import SequencedMessage, Unadvertise
from pubweave.model.publications import Publication

REMEMBERED = 1000
"""How many are kept before the queues are checked."""


class Withdrawals:
    """Filters of advertisements whose withdrawals may be queued."""

    def __init__(self) -> None:
        self._filters: dict[AdvertisementId, Filter] = {}
        self._forget_above = REMEMBERED

    def __len__(self) -> int:
        return len(self._filters)

    def note(self, id_: AdvertisementId, filter_: Filter) -> None:
        """An advertisement was withdrawn."""
        self._filters.pop(id_, None)
        self._filters[id_] = filter_

    @property
    def are_many(self) -> bool:
        """Whether it is time to check which ones are still queued."""
        return len(self._filters) > self._forget_above

    def forget_settled(self, sessions: Iterable[Session]) -> None:
        """Keep those whose withdrawals are queued in ``sessions``. O(messages queued), which is
        rare: only when twice as many are known as were under way the last time."""
        queued = {
            message.id
            for session in sessions
            for queue in (session.unacked, session.waiting, session.pending)
            for message in queue
            if isinstance(message, Unadvertise)
        }
        self._filters = {id_: f for id_, f in self._filters.items() if id_ in queued}
        self._forget_above = max(REMEMBERED, 2 * len(self._filters))

    def sort_out(
        self, under_way: Sequence[SequencedMessage], known: Container[AdvertisementId]
    ) -> tuple[list[SequencedMessage], dict[AdvertisementId, Filter]]:
        """What of ``under_way`` to send again to a far end that has lost everything, in order:
        publications, and withdrawals behind publications of the same publisher; and the
        advertisements to send before. One that is ``known`` is sent anyway, and stays."""
        last = {m.id: place for place, m in enumerate(under_way) if isinstance(m, Unadvertise)}
        publishers: set[str] = set()
        again: list[SequencedMessage] = []
        to_announce: dict[AdvertisementId, Filter] = {}
        for place, message in enumerate(under_way):
            if isinstance(message, Publication):
                publishers.add(message.publisher)
                again.append(message)
            elif isinstance(message, MigrationSignal) and message.step is MigrationStep.MOVED:
                again.append(message)  # it separates publications before and behind it
            elif (
                isinstance(message, Unadvertise)
                and last[message.id] == place
                and message.id not in known
                and publisher_of(message.id) in publishers
                and message.id in self._filters
            ):
                again.append(message)
                to_announce[message.id] = self._filters[message.id]
        return again, to_announce
