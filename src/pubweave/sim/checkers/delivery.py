"""Checkers that know the truth of a run and say where the overlay departed from it.

`DeliveryChecker` sees every publication when it is made and every notification when it reaches
an application. A delivery is *due* when, at the instant of publishing, the overlay's tables would
carry the publication to a client that wants it; when the network was quiet before, the truth
itself says who is due, without asking the tables.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from pubweave.core.vocabulary.effects import ReportMissed
from pubweave.model.filters.filter import Filter
from pubweave.model.ids import BrokerId
from pubweave.model.publications import Publication


@dataclass(frozen=True)
class Truth:
    """What all attached clients have asked for: id -> (home broker, client, filter)."""

    subscriptions: Mapping[str, tuple[BrokerId, str, Filter]]
    advertisements: Mapping[str, tuple[BrokerId, str, Filter]]


@dataclass
class ClientSubscription:
    """A subscription as its client sees it."""

    client: str
    filter: Filter
    is_withdrawn: bool = False
    """The client took it back: nothing is due for it any more."""
    gone_at: float | None = None
    """When the broker had acknowledged that: nothing published later may come for it."""


@dataclass
class _Published:
    publication: Publication
    due: set[str]
    delivered: set[str] = field(default_factory=set)


class DeliveryChecker:
    """Exactly once, in publisher order, and only to those who asked."""

    def __init__(self) -> None:
        self.violations: list[str] = []
        self.publications = 0
        self.deliveries = 0
        self.due = 0
        self.excused = 0
        self.told_missed = 0
        """Due deliveries that were lost, and their clients were told."""
        self._missed: dict[tuple[str, str, str], list[ReportMissed]] = {}
        """By client, publisher and topic: what the client was told since the last rest."""
        self._wishes: dict[str, dict[str, ClientSubscription]] = {}
        self._published: dict[tuple[str, int], _Published] = {}
        self._last: dict[tuple[str, str], int] = {}

    # --- what clients want -----------------------------------------------------------------

    def subscribed(self, client: str, id_: str, filter_: Filter) -> None:
        self._wishes.setdefault(client, {})[id_] = ClientSubscription(client, filter_)

    def withdrawing(self, client: str, id_: str) -> None:
        """The client took a subscription back: deliveries that only it made due are excused."""
        wishes = self._wishes[client]
        wishes[id_].is_withdrawn = True
        for record in self._published.values():
            if client in record.due - record.delivered and not self.wanting(
                record.publication, (client,)
            ):
                record.due.discard(client)

    def unsubscribed(self, client: str, id_: str, at: float) -> None:
        """The broker has taken the withdrawal in: nothing published later may come."""
        self._wishes[client][id_].gone_at = at

    def wanting(self, publication: Publication, clients: Iterable[str]) -> set[str]:
        """Those of ``clients`` who want a publication, by the truth."""
        found = set()
        for client in clients:
            for wish in self._wishes.get(client, {}).values():
                if not wish.is_withdrawn and wish.filter.matches(publication):
                    found.add(client)
                    break
        return found

    # --- what happens ----------------------------------------------------------------------

    def published(self, publication: Publication, due: set[str]) -> None:
        self.publications += 1
        self.due += len(due)
        self._published[publication.key] = _Published(publication, due)

    def notified(self, client: str, publication: Publication, now: float) -> None:
        self.deliveries += 1
        record = self._published.get(publication.key)
        name = f"{publication.publisher}#{publication.sequence}"
        if record is None:
            self._violation(now, f"{client} got {name}, which nobody published")
            return
        if client in record.delivered:
            self._violation(now, f"{client} got {name} twice")
        record.delivered.add(client)
        order = client, self.order_of(publication)
        last = self._last.get(order, 0)
        if publication.sequence < last:
            self._violation(now, f"{client} got {name} after #{last}: out of order")
        self._last[order] = max(last, publication.sequence)
        if not any(
            wish.filter.matches(publication)
            and (wish.gone_at is None or wish.gone_at > publication.published_at)
            for wish in self._wishes.get(client, {}).values()
        ):
            self._violation(now, f"{client} got {name}, which it did not ask for")

    def order_of(self, publication: Publication) -> str:
        """Publications for which this is the same have to come in their order."""
        return publication.publisher

    def excuse(self, client: str | None = None) -> None:
        """Deliveries under way to a client (None: to all) may be lost: it left, or the broker
        that held them crashed."""
        self.excuse_where(lambda _, other: client in (None, other))

    def excuse_where(self, may_be_lost: Callable[[Publication, str], bool]) -> None:
        """Of the deliveries under way, those for which this is True may be lost."""
        for record in self._published.values():
            lost = {c for c in record.due - record.delivered if may_be_lost(record.publication, c)}
            self.excused += len(lost)
            record.due -= lost

    def receivers(self, since: float) -> list[tuple[Publication, list[str]]]:
        """What was published from an instant on, and which clients have got it so far."""
        return [
            (record.publication, sorted(record.delivered))
            for record in self._published.values()
            if record.publication.published_at >= since
        ]

    def undelivered(self) -> list[tuple[Publication, str]]:
        """What is due and has not come yet: publication and client, the oldest first."""
        return [
            (record.publication, client)
            for record in self._published.values()
            for client in sorted(record.due - record.delivered)
        ]

    def excuse_one(self, publication: Publication, client: str) -> None:
        """One delivery may be lost: nobody who lives has the publication any more."""
        self.excused += 1
        self._published[publication.key].due.discard(client)

    def missed(self, client: str, missed: ReportMissed, now: float) -> None:
        """A client is told that publications are lost to it."""
        self._missed.setdefault((client, missed.publisher, missed.topic), []).append(missed)

    def check_all_delivered(self, now: float) -> None:
        """The network is quiet: whatever was due must have come, or its client was told how much
        is lost of a publisher on a topic. Forgets what is settled."""
        missing: dict[tuple[str, str, str], list[Publication]] = {}
        for record in self._published.values():
            for client in sorted(record.due - record.delivered):
                publication = record.publication
                key = client, publication.publisher, publication.topic
                missing.setdefault(key, []).append(publication)
            record.due = set()
        for key, publications in missing.items():
            told = sum(missed.count for missed in self._missed.get(key, ()))
            self.told_missed += min(told, len(publications))
            for publication in publications[told:]:
                self._violation(
                    now,
                    f"{key[0]} never got {publication.publisher}#{publication.sequence}, "
                    f"published at {publication.published_at:.3f}",
                )
        self._check_told(now)

    def _check_told(self, now: float) -> None:
        """Whether nobody was told of more than it misses, as far as a number was to be exact."""
        for (client, publisher, topic), told in self._missed.items():
            count = sum(missed.count for missed in told)
            never = sum(
                client not in record.delivered
                for record in self._published.values()
                if (record.publication.publisher, record.publication.topic) == (publisher, topic)
            )
            if count > never and not any(missed.at_most for missed in told):
                self._violation(
                    now, f"{client} was told of {count} lost of {publisher} on {topic}, not {never}"
                )
        self._missed.clear()

    def _violation(self, now: float, text: str) -> None:
        self.violations.append(f"{now:.3f} {text}")
