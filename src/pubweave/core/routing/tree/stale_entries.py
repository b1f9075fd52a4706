"""Stale entries: what neighbors sent before they restarted, and have not sent again.

Such entries stay valid: a restarted neighbor presumably wants what it wanted. They expire when it
has sent everything else, but not them.
"""

from __future__ import annotations

from collections.abc import Iterable

from pubweave.core.session.session import Session
from pubweave.model.ids import AdvertisementId, SubscriptionId


class StaleEntries:
    """Advertisements and subscriptions by the link they came from."""

    def __init__(self) -> None:
        self._by_link: dict[Session, tuple[set[AdvertisementId], set[SubscriptionId]]] = {}

    def add(
        self,
        link: Session,
        advertisements: Iterable[AdvertisementId] = (),
        subscriptions: Iterable[SubscriptionId] = (),
    ) -> None:
        """Mark entries that the far end of a link has to send again."""
        stale = self._by_link.setdefault(link, (set(), set()))
        stale[0].update(advertisements)
        stale[1].update(subscriptions)

    def any_of(self, link: Session) -> bool:
        return any(self._by_link.get(link, ()))

    def has_subscription(self, link: Session, id_: SubscriptionId) -> bool:
        return link in self._by_link and id_ in self._by_link[link][1]

    def discard(self, link: Session, id_: str) -> None:
        """An entry was sent again, or removed for good."""
        for ids in self._by_link.get(link, ()):
            ids.discard(id_)

    def pop(self, link: Session) -> tuple[list[AdvertisementId], list[SubscriptionId]]:
        """Remove and return the stale entries of a link, in a fixed order."""
        advertisements, subscriptions = self._by_link.pop(link, ((), ()))
        return sorted(advertisements), sorted(subscriptions)
