"""Advertisements of own clients: which of them the tree has answered.

An advertisement draws the matching subscriptions from the whole tree, which takes a round trip;
until then its publisher waits (`core.routing.publisher_gate`). One that is covered by an answered
one of any own client draws nothing that is not here already, and waits for nobody.
"""

from __future__ import annotations

from pubweave.core.routing.tree.link_table import TopicBuckets
from pubweave.core.session.session import Session
from pubweave.model.filters.filter import Filter
from pubweave.model.filters.relations import covers
from pubweave.model.ids import AdvertisementId


class AnsweredAdvertisements:
    """The answered ones, and by client those that are not answered yet."""

    def __init__(self) -> None:
        self._answered = TopicBuckets()
        self._open: dict[Session, dict[AdvertisementId, Filter]] = {}

    def has_drawn(self, filter_: Filter) -> bool:
        """Whether all subscriptions that intersect a filter are here. O(answered about its topic,
        or about no one topic)."""
        return any(covers(wide, filter_) for _, wide in self._answered.related(filter_))

    def asked(self, client: Session, id_: AdvertisementId, filter_: Filter) -> None:
        """The neighbors were asked about an advertisement of a client."""
        self._open.setdefault(client, {})[id_] = filter_

    def add(self, id_: AdvertisementId, filter_: Filter) -> None:
        self._answered.add(id_, filter_)

    def answered(self, client: Session) -> None:
        """They have answered all of a client."""
        for id_, filter_ in self._open.pop(client, {}).items():
            self.add(id_, filter_)

    def give_up(self, client: Session) -> None:
        """The answers are not awaited any longer."""
        self._open.pop(client, None)

    def remove(self, client: Session, id_: AdvertisementId) -> None:
        """An advertisement was withdrawn, or its client is elsewhere now."""
        self._open.get(client, {}).pop(id_, None)
        if id_ in self._answered:
            self._answered.remove(id_)
