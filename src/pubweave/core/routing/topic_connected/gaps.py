"""Gaps: publications of a topic that this broker has lost for good, counted and reported.

A neighbor that no longer keeps what we lack reports that (`TopicMissed`) before later publications.
But other neighbors may have kept more, and would be too late once we accept what is behind the gap.
So a gap is only suspected at first: the neighbor's publications on the topic are not accepted, and
it is asked again after `PATIENCE_S`, in which others may fill the gap. Of several neighbors with
gaps the one with the smallest is asked first. A confirmed gap is counted for each client that
subscribes, and reported to neighbors that depend on us.

What was published before this broker took part in the topic is due here only to clients that come
from another broker, where they may have subscribed long before. Anything else is noted only, for
neighbors to which it may be due.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pubweave.core.dataplane.services import BrokerServices
from pubweave.core.routing.topic_connected.dropped_ranges import DroppedRange
from pubweave.core.routing.topic_connected.routing import TopicEntry, TopicRouting
from pubweave.core.routing.topic_connected.topic_log import TopicLog
from pubweave.core.session.session import Session
from pubweave.core.vocabulary.rare_branches import Branch, sometimes
from pubweave.model.ids import ClientId
from pubweave.model.messages.session import Missed
from pubweave.model.messages.topic_connected import TopicMissed

PATIENCE_S = 2.0
"""Within this time the links of a restarted broker are established again."""


@dataclass
class SuspectedGap:
    """What one neighbor reports as missed of a topic, and since when that is suspected."""

    since: float
    missed: dict[ClientId, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return sum(self.missed.values())


class TopicGaps:
    """Suspected and confirmed gaps of one broker."""

    def __init__(self, services: BrokerServices[TopicRouting]) -> None:
        self._services = services
        self._routing = services.routing
        self._routing.config = services.config
        self._suspected: dict[str, dict[Session, SuspectedGap]] = {}

    def receive(self, link: Session, message: TopicMissed, now: float) -> None:
        """A neighbor no longer keeps what we lack, or never had it. O(spans)."""
        topic, publisher = message.topic, message.publisher
        log = self._routing.logs.get(topic)
        is_opened = self._routing.is_opened(link, topic)
        if log is None or not (is_opened or link in self._suspected.get(topic, ())):
            return
        mark = log.marks.get(publisher, 0)
        reported = (span.beyond(mark) for span in spans_of(message, now))
        spans = [span for span in reported if span is not None]
        if not spans:
            return
        due_since = min([log.began_at, *map(self._due_since, self._claims(topic))])
        due = [span for span in spans if span.ended_at >= due_since]
        if not is_opened or (due and not message.is_agreed):
            self._routing.opened[link].pop(topic, None)
            gap = self._suspected.setdefault(topic, {}).setdefault(link, SuspectedGap(now))
            gap.missed[publisher] = sum(span.count for span in due)
            sometimes(Branch.GAP_SUSPECTED)
            return
        self._routing.logs.miss(log, publisher, spans, now)
        if due:
            sometimes(Branch.GAP_CONFIRMED)
            self._count(log, topic, publisher, due)
        self._routing.send_missed(topic, publisher, spans, but=link)

    def _claims(self, topic: str) -> list[TopicEntry]:
        return [c for c in self._routing.subscriptions.values() if c.topic == topic]

    def _due_since(self, claim: TopicEntry) -> float:
        """From when on publications are due to a client. One from another broker gets what is kept;
        nothing older is kept for anybody."""
        return claim.since - (self._services.config.topics.keep_s if claim.has_moved else 0.0)

    def _count(
        self, log: TopicLog, topic: str, publisher: ClientId, due: list[DroppedRange]
    ) -> None:
        """Count and report what each subscriber of the topic has missed. O(clients)."""
        counters = self._services.counters
        claims: dict[Session, list[TopicEntry]] = {}
        for claim in self._claims(topic):
            claims.setdefault(claim.client, []).append(claim)
        for client, own in claims.items():
            due_since = min(map(self._due_since, own))
            missed = [span for span in due if span.ended_at >= due_since]
            count = sum(span.count for span in missed)
            certain_at = max(log.began_at, min(claim.since for claim in own))
            if any(claim.has_moved for claim in own):
                certain_at += self._services.config.topics.keep_s
            is_plain = any(len(claim.filter.predicates) == 1 for claim in own)
            # A disconnected client may have moved elsewhere, and have received it there.
            is_exact = is_plain and client.is_established
            if not is_exact or any(s.is_at_most or s.began_at < certain_at for s in missed):
                counters.notifications_lost_at_most += count
                is_exact = False
            else:
                counters.notifications_lost += count
            if count:
                self._services.send(client, Missed(topic, publisher, count, not is_exact))

    @property
    def has_suspected(self) -> bool:
        """Whether any gap is suspected."""
        return any(self._suspected.values())

    def check(self, now: float) -> None:
        """Ask again where a gap was suspected for long enough. O(suspected gaps)."""
        routing = self._routing
        for topic, suspected in list(self._suspected.items()):
            for link in [link for link in suspected if not routing.wants_of(link, topic)]:
                del suspected[link]
            if not suspected:
                del self._suspected[topic]
            elif now - min(gap.since for gap in suspected.values()) >= PATIENCE_S:
                least = min(suspected, key=lambda link: (suspected[link].count, link.remote))
                del suspected[least]
                routing.ask_again(least, topic)
                for gap in suspected.values():
                    gap.since = now

    def excuse(self, seconds: float) -> None:
        """Extend all times by a local pause."""
        for suspected in self._suspected.values():
            for gap in suspected.values():
                gap.since += seconds

    def discard(self, link: Session) -> None:
        """A link's session restarted: its far end is asked again anyway."""
        for suspected in self._suspected.values():
            suspected.pop(link, None)


def spans_of(message: TopicMissed, now: float) -> list[DroppedRange]:
    return [
        DroppedRange(first, last, count, now - oldest_s, now - newest_s, is_at_most)
        for first, last, count, oldest_s, newest_s, is_at_most in message.spans
    ]
