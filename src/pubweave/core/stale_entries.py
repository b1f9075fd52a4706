"""What neighbors told before they began anew, and have yet to tell again.

Such entries still count: a neighbor that was restarted wants what it wanted, as far as anybody
knows. They go when it has told everything, and not them.
"""

from __future__ import annotations

from collections.abc import Iterable

from pubweave.core.session import Session
from pubweave.model.ids import AdvertisementId, SubscriptionId


class StaleEntries:
    """Advertisements and subscriptions by the link they came from."""

    def __init__(self) -> None:
        self._of: dict[Session, tuple[set[AdvertisementId], set[SubscriptionId]]] = {}

    def add(
        self,
        link: Session,
        advertisements: Iterable[AdvertisementId] = (),
        subscriptions: Iterable[SubscriptionId] = (),
    ) -> None:
        """Entries that the far end of a link has to tell again."""
        stale = self._of.setdefault(link, (set(), set()))
        stale[0].update(advertisements)
        stale[1].update(subscriptions)

    def any_of(self, link: Session) -> bool:
        return any(self._of.get(link, ()))

    def has_subscription(self, link: Session, id_: SubscriptionId) -> bool:
        return link in self._of and id_ in self._of[link][1]

    def discard(self, link: Session, id_: str) -> None:
        """An entry was told again, or is gone for good."""
        for ids in self._of.get(link, ()):
            ids.discard(id_)

    def take(self, link: Session) -> tuple[list[AdvertisementId], list[SubscriptionId]]:
        """All of a link, in an order that is always the same; none is stale any more."""
        advertisements, subscriptions = self._of.pop(link, ((), ()))
        return sorted(advertisements), sorted(subscriptions)
