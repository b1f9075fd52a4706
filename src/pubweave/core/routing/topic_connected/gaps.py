"""What this broker misses of a topic for good: found out, counted, and told to clients.

A neighbor that keeps no more what we lack says so (`TopicMissed`) before what comes after it. But
others may have kept more, and once we take in what is behind the gap, theirs would come too late.
So a gap is doubted at first: the neighbor's publications on the topic are not taken in, and it is
asked again after a while (`PATIENCE_S`), in which whoever has more fills the gap. Of several
neighbors with gaps the one with the smallest is asked first. Then the gap is agreed on: it is
counted here for each client that subscribes, and neighbors that rest on us are told of it.

What was published before this broker took part in the topic is due to nobody here but to clients
that come from another broker, which may have subscribed there long before. Anything else is noted
only, for those below us to whom it may be due.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from pubweave.core.routing.topic_connected.dropped_ranges import DroppedRange
from pubweave.core.routing.topic_connected.routing import TopicEntry
from pubweave.core.routing.topic_connected.services import TopicServices
from pubweave.core.routing.topic_connected.topic_log import TopicLog
from pubweave.core.session.session import Session
from pubweave.model.ids import ClientId
from pubweave.model.messages.session import Missed
from pubweave.model.messages.topic_connected import TopicMissed

PATIENCE_S = 2.0
"""Links of a broker that was away come back within so long of each other."""


@dataclass
class SuspectedGap:
    """What one neighbor says that we miss of a topic, and since when that is doubted."""

    since: float
    missed: dict[ClientId, int] = field(default_factory=dict)

    @property
    def count(self) -> int:
        return sum(self.missed.values())


class TopicGaps:
    """One broker's gaps."""

    def __init__(self, services: TopicServices) -> None:
        self._services = services
        self._routing = services.routing
        self._suspected: dict[str, dict[Session, SuspectedGap]] = {}

    def receive(self, link: Session, message: TopicMissed, now: float) -> None:
        """A neighbor keeps no more what we lack, or never had it. O(spans)."""
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
            return
        self._routing.logs.miss(log, publisher, spans, now)
        if due:
            self._count(log, topic, publisher, due)
        self._routing.send_missed(topic, publisher, spans, but=link)

    def _claims(self, topic: str) -> list[TopicEntry]:
        return [c for c in self._routing.subscriptions.values() if c.topic == topic]

    def _due_since(self, claim: TopicEntry) -> float:
        """From when on publications are due to a client. One that comes from another broker gets
        what is kept; what is older than that was not kept for anybody."""
        return claim.since - (self._services.config.topics.keep_s if claim.has_moved else 0.0)

    def _count(
        self, log: TopicLog, topic: str, publisher: ClientId, due: list[DroppedRange]
    ) -> None:
        """Count what each client misses that subscribes to the topic, and tell it. O(clients)."""
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
            # One that is not here may have gone on elsewhere, and have got it there.
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
        """Whether something is waited for that may fill a gap."""
        return any(self._suspected.values())

    def check(self, now: float) -> None:
        """Ask again where a gap was doubted for long enough. O(doubts)."""
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
        """This broker did not run for so long."""
        for suspected in self._suspected.values():
            for gap in suspected.values():
                gap.since += seconds

    def discard(self, link: Session) -> None:
        """A link begins anew: its far end is asked again anyway."""
        for suspected in self._suspected.values():
            suspected.pop(link, None)


def spans_of(message: TopicMissed, now: float) -> list[DroppedRange]:
    return [
        DroppedRange(first, last, count, now - oldest_s, now - newest_s, is_at_most)
        for first, last, count, oldest_s, newest_s, is_at_most in message.spans
    ]
