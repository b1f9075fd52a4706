"""The routing table of one link: advertisements from it, subscriptions forwarded to it.

A subscription is *needed* on a link when an advertisement from that link intersects it. Without
covering, exactly the needed ones are forwarded. With covering, a needed one may be *suppressed* by
a forwarded one that covers it; when that one is withdrawn, the suppressed are forwarded first, so
that no publication is missed in between.

Nothing is sent over a link that an action holds: changes are recorded, and the difference is sent
when the link is released (`TreeRouting.catch_up`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass

from pubweave.core.routing.strategy import Send
from pubweave.core.session.session import Session
from pubweave.model.filters.filter import Filter, topic_of
from pubweave.model.filters.relations import covers, intersects
from pubweave.model.ids import AdvertisementId, ClientId, SubscriptionId, publisher_of
from pubweave.model.messages.session import Subscribe, SyncStage, Unsubscribe


@dataclass(frozen=True)
class Entry:
    """A filter and the session it came from."""

    filter: Filter
    hop: Session


class TopicBuckets:
    """Filters by id, indexed by topic: only those of the same or of no one topic can be related."""

    def __init__(self) -> None:
        self._filters: dict[str, Filter] = {}
        self._buckets: dict[str | None, dict[str, Filter]] = {}

    def __len__(self) -> int:
        return len(self._filters)

    def __contains__(self, id_: str) -> bool:
        return id_ in self._filters

    def __iter__(self) -> Iterator[str]:
        return iter(self._filters)

    def get(self, id_: str) -> Filter | None:
        return self._filters.get(id_)

    def items(self) -> Iterable[tuple[str, Filter]]:
        return self._filters.items()

    def add(self, id_: str, filter_: Filter) -> None:
        self._filters[id_] = filter_
        self._buckets.setdefault(topic_of(filter_), {})[id_] = filter_

    def remove(self, id_: str) -> Filter:
        filter_ = self._filters.pop(id_)
        topic = topic_of(filter_)
        bucket = self._buckets[topic]
        del bucket[id_]
        if not bucket:
            del self._buckets[topic]
        return filter_

    def related(self, filter_: Filter) -> Iterator[tuple[str, Filter]]:
        """Those that could intersect, cover or be covered by a filter."""
        topic = topic_of(filter_)
        if topic is None:
            yield from self._filters.items()
            return
        yield from self._buckets.get(topic, {}).items()
        yield from self._buckets.get(None, {}).items()


class LinkTable:
    """Advertisements from a link, and subscriptions forwarded to it."""

    def __init__(self, link: Session, send: Send, *, covering: bool) -> None:
        self.link = link
        self.covering = covering
        self.advertisements = TopicBuckets()
        self.forwarded = TopicBuckets()
        self.suppressed: dict[SubscriptionId, SubscriptionId] = {}
        """With covering: by suppressed subscription the forwarded one that covers it."""
        self._suppressed_filters: dict[SubscriptionId, Filter] = {}
        self._stands_for: dict[SubscriptionId, dict[SubscriptionId, None]] = {}
        self.announced: dict[AdvertisementId, Filter] | None = None
        """While the link is held: the advertisements that the far end knows; else None."""
        self.withdrawn: dict[AdvertisementId, Filter] = {}
        """While the link is held: withdrawn advertisements that publications for it may depend on
        and that the far end has lost; to be sent again and withdrawn behind these."""
        self.owed_stages: Counter[SyncStage] = Counter()
        """While the link is held: how many `Synced` messages of each stage to send when it is
        released."""
        self.migrating: set[ClientId] = set()
        """Clients that migrate over this link. Their subscriptions will soon come from the far end,
        or it does not use them yet: so they cover no others."""
        self._send = send

    @property
    def is_held(self) -> bool:
        return self.announced is not None

    def is_needed(self, filter_: Filter) -> bool:
        """O(advertisements from this link about the filter's topic)."""
        for _, advertised in self.advertisements.related(filter_):
            if intersects(advertised, filter_):
                return True
        return False

    def has(self, id_: SubscriptionId) -> bool:
        return id_ in self.forwarded or id_ in self.suppressed

    def has_passed_on(self, id_: SubscriptionId, filter_: Filter) -> bool:
        """Whether the far end was sent a subscription, or one that covers it."""
        if self.is_held:
            return False
        if not self.covering or id_ in self.forwarded:
            return self.forwarded.get(id_) == filter_
        return any(
            self._may_stand_in(other) and covers(wide, filter_)
            for other, wide in self.forwarded.related(filter_)
        )

    def advertised(
        self, id_: AdvertisementId, filter_: Filter, candidates: Iterable[tuple[str, Filter]]
    ) -> None:
        """An advertisement arrived: forward the subscriptions that it makes needed."""
        self.advertisements.add(id_, filter_)
        if self.is_held:
            return
        for subscription, wanted in candidates:
            if not self.has(subscription) and intersects(filter_, wanted):
                self._admit(subscription, wanted)

    def unadvertised(self, id_: AdvertisementId) -> None:
        """An advertisement was withdrawn: withdraw the subscriptions that only it made needed."""
        withdrawn = self.advertisements.remove(id_)
        if self.is_held:
            return
        affected = [
            (subscription, wanted)
            for subscription, wanted in [
                *self.forwarded.related(withdrawn),
                *self._suppressed_filters.items(),
            ]
            if intersects(withdrawn, wanted) and not self.is_needed(wanted)
        ]
        for subscription, _ in affected:
            self.unsubscribed(subscription)

    def subscribed(self, id_: SubscriptionId, filter_: Filter) -> None:
        """A subscription arrived from elsewhere: forward it if it is needed here."""
        if not self.is_held and not self.has(id_) and self.is_needed(filter_):
            self._admit(id_, filter_)

    def unsubscribed(self, id_: SubscriptionId) -> None:
        """A subscription was withdrawn, or is no longer needed here."""
        if self.is_held:
            return
        if id_ in self.suppressed:
            self._unsuppress(id_)
        elif id_ in self.forwarded:
            self.forwarded.remove(id_)
            self._pass_on_orphans(id_)
            # Last, so that the far end never lacks a path that a replacement provides.
            self._send(self.link, Unsubscribe(id_))

    def _pass_on_orphans(self, id_: SubscriptionId) -> None:
        """A subscription no longer covers others: forward those that are needed."""
        orphans = [(orphan, self._unsuppress(orphan)) for orphan in self._stands_for.pop(id_, {})]
        for orphan, filter_ in orphans:
            if self.is_needed(filter_):
                self._admit(orphan, filter_)

    def set_migrating(self, client: ClientId) -> None:
        """A client migrates over this link: forward what its subscriptions covered.
        O(subscriptions that cover others)."""
        self.migrating.add(client)
        for id_ in [i for i in self._stands_for if publisher_of(i) == client]:
            self._pass_on_orphans(id_)

    def moved_to_far_end(self, ids: Iterable[SubscriptionId]) -> None:
        """Subscriptions of a `migrating` client come from the far end now, which no longer counts
        them as forwarded by us."""
        for id_ in ids:
            if id_ in self.suppressed:
                self._unsuppress(id_)
            elif id_ in self.forwarded:
                self.forwarded.remove(id_)
                self._pass_on_orphans(id_)

    def reconsider(self, id_: SubscriptionId, filter_: Filter) -> None:
        """After a hold: forward what is needed and was not, or was with another filter."""
        if self.has(id_) and filter_ not in (
            self.forwarded.get(id_),
            self._suppressed_filters.get(id_),
        ):
            self.unsubscribed(id_)
        self.subscribed(id_, filter_)

    def passed_on(self) -> list[tuple[SubscriptionId, Filter]]:
        """All suppressed and all forwarded subscriptions, in this order."""
        return [*self._suppressed_filters.items(), *self.forwarded.items()]

    def inherit(self, other: LinkTable, without: Container[SubscriptionId]) -> None:
        """Take over what another table forwarded, except some and what these covered."""
        for id_, filter_ in other.forwarded.items():
            if id_ not in without:
                self.forwarded.add(id_, filter_)
        for id_, by in other.suppressed.items():
            if id_ not in without and by not in without:
                self._suppress(id_, other._suppressed_filters[id_], by)

    def admit_silently(self, id_: SubscriptionId, filter_: Filter) -> bool:
        """Count a needed subscription as forwarded; False if a forwarded one covers it."""
        if self.covering:
            for other, wide in self.forwarded.related(filter_):
                if self._may_stand_in(other) and covers(wide, filter_):
                    self._suppress(id_, filter_, other)
                    return False
        self.forwarded.add(id_, filter_)
        return True

    def clear_forwarded(self) -> None:
        """The far end has lost everything that was forwarded."""
        self.forwarded = TopicBuckets()
        self.suppressed.clear()
        self._suppressed_filters.clear()
        self._stands_for.clear()

    def _admit(self, id_: SubscriptionId, filter_: Filter) -> None:
        if self.covering:
            for other, wide in self.forwarded.related(filter_):
                if self._may_stand_in(other) and covers(wide, filter_):
                    self._suppress(id_, filter_, other)
                    return
        self._send(self.link, Subscribe(id_, filter_))
        narrower = (
            [
                other
                for other, narrow in self.forwarded.related(filter_)
                if self._may_stand_in(other) and covers(filter_, narrow)
            ]
            if self.covering and self._may_stand_in(id_)
            else ()
        )
        self.forwarded.add(id_, filter_)
        for other in narrower:
            self._replace(other, id_)

    def _replace(self, narrow: SubscriptionId, wide: SubscriptionId) -> None:
        """A forwarded subscription is covered by a newer one: withdraw it."""
        filter_ = self.forwarded.remove(narrow)
        for orphan in self._stands_for.pop(narrow, {}):
            self.suppressed[orphan] = wide
            self._stands_for.setdefault(wide, {})[orphan] = None
        self._suppress(narrow, filter_, wide)
        self._send(self.link, Unsubscribe(narrow))

    def _may_stand_in(self, id_: SubscriptionId) -> bool:
        return not self.migrating or publisher_of(id_) not in self.migrating

    def _suppress(self, id_: SubscriptionId, filter_: Filter, by: SubscriptionId) -> None:
        self.suppressed[id_] = by
        self._suppressed_filters[id_] = filter_
        self._stands_for.setdefault(by, {})[id_] = None

    def _unsuppress(self, id_: SubscriptionId) -> Filter:
        by = self.suppressed.pop(id_)
        standing = self._stands_for.get(by)
        if standing is not None:
            standing.pop(id_, None)
            if not standing:
                del self._stands_for[by]
        return self._suppressed_filters.pop(id_)
