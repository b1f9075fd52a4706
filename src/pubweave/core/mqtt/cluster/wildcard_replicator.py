"""Copies of what clients of a broker publish, for wildcard subscriptions at any gateway.

```
 client ─ a/b ─> broker ─> a/b                            exact subscriptions
                   └─ WildcardReplicator ─> $mqtt/wild/a  a/#, a/+  (if a gateway wants it)
                                        └─> $mqtt/wild    #, +/b
```

The broker reports each publication that it accepted of a client, native or MQTT, so refused ones
are not copied and copies keep the order of their originals. The gateway's own client publishes
them: it stays when the publisher disconnects, and wildcard topics stay connected.

Only wanted topics are copied (`cluster/wildcard_interests`). A gateway learns of an interest a
moment after the subscriber has its answer, or later if links were down. So recent publications are
kept here, and copied if an interest turns out to be older than they are.
"""

from __future__ import annotations

from collections import deque
from math import inf

import msgspec

from pubweave.core.config.session import SessionLimits
from pubweave.core.mqtt.protocol.wildcard_topics import (
    COPIED_BYTES_MAX,
    copied_attributes,
    replicator_client,
    wildcard_topics_of,
)
from pubweave.core.mqtt.services import MqttServices
from pubweave.core.mqtt.session.deduplicator import CLOCKS_APART_S
from pubweave.core.mqtt.session.native_client import InProcessLink, NativeSession
from pubweave.core.session.access import GATEWAY_USER
from pubweave.core.session.session import Session
from pubweave.model.filters.filter import topic_filter
from pubweave.model.ids import AdvertisementId
from pubweave.model.publications import Publication

OWNER = "\0wild"
"""Owner of the native session; no MQTT session has such a name."""
KEEP_S = 30.0
KEEP_BYTES = 8 << 20
"""What is kept for interests that have yet to be learned."""
CLEANUP_EVERY_S = 5.0
LINGER_S = 30.0
"""How long an unwanted topic is still copied: a session may be between two gateways."""


class _Recent(msgspec.Struct, frozen=True):
    number: int
    at: float
    publication: Publication


class WildcardReplicator:
    """The copies that one gateway publishes."""

    def __init__(self, services: MqttServices, link: InProcessLink) -> None:
        self.copied = 0
        self._broker = services.broker
        self._services = services
        self._congestion = Session("", own_epoch=0, is_client=True, limits=SessionLimits())
        """Stands for the copies that queue up: holds up publishers."""
        self._link = link
        self._end: NativeSession | None = None
        self._recent: deque[_Recent] = deque()
        self._recent_bytes = 0
        self._number = 0
        self._wanted: dict[str, None] = {}
        self._unwanted_at: dict[str, float] = {}
        """Topics that are still copied to, though no longer wanted, and since when."""
        self._copied_to: dict[str, int] = {}
        """By topic that is no longer copied to: the number of the last copied publication."""
        self._advertised: dict[str, AdvertisementId] = {}
        self._cleanup_at = inf

    # --- what clients publish --------------------------------------------------------------

    def published(self, origin: Session, publication: Publication, now: float) -> None:
        """The broker has accepted a publication of a client."""
        topics = wildcard_topics_of(publication.topic)
        if not topics or publication.size_bytes > COPIED_BYTES_MAX:
            return
        self._number += 1
        self._clean_up_at(min(self._cleanup_at, now + CLEANUP_EVERY_S))
        self._recent.append(_Recent(self._number, now, publication))
        self._recent_bytes += publication.size_bytes
        while self._recent_bytes > KEEP_BYTES:
            self._recent_bytes -= self._recent.popleft().publication.size_bytes
        for topic in topics:
            if topic in self._wanted or topic in self._unwanted_at:
                self._copy(topic, publication, now)
                end = self._end
                if end is not None and end.is_congested:
                    end.holds_up = True
                    self._services.hold(origin, self._congestion, now)

    def _copy(self, topic: str, publication: Publication, now: float) -> None:
        end = self._end
        if end is None or end.lost_reason is not None:
            end = self._begin(now)
        if topic not in self._advertised:
            self._advertised[topic] = end.advertise(topic_filter(topic))
        attributes = copied_attributes(publication)
        # With the original's time, by which it expires.
        end.publish(topic, attributes, publication.payload, publication.published_at)
        self.copied += 1

    def _begin(self, now: float) -> NativeSession:
        self._end = self._link.open(replicator_client(self._broker), GATEWAY_USER, OWNER, now)
        self._advertised.clear()
        return self._end

    def settled(self) -> None:
        """The broker has handled copies."""
        if self._end is not None:
            self._end.refusals.clear()
            if self._end.waiting_bytes <= self._congestion.limits.relieved_bytes:
                self._end.holds_up = False
                self._services.relieve(self._congestion)

    # --- interests -------------------------------------------------------------------------

    def set_wanted(self, wanted: dict[str, float], now: float) -> None:
        """Topics that gateways want now, each since some time: copy what they should have received
        already. O(what is kept) for each new topic."""
        for topic in [t for t in self._wanted if t not in wanted]:
            del self._wanted[topic]
            self._unwanted_at[topic] = now
            self._clean_up_at(min(self._cleanup_at, now + CLEANUP_EVERY_S))
        for topic, since in wanted.items():
            if topic in self._wanted:
                continue
            self._wanted[topic] = None
            if self._unwanted_at.pop(topic, None) is None:
                self._catch_up(topic, since - CLOCKS_APART_S, now)

    def _catch_up(self, topic: str, since: float, now: float) -> None:
        copied_to = self._copied_to.pop(topic, 0)
        for recent in list(self._recent):
            is_missing = recent.number > copied_to and recent.at >= since
            if is_missing and topic in wildcard_topics_of(recent.publication.topic):
                self._copy(topic, recent.publication, now)

    # --- time ------------------------------------------------------------------------------

    def _clean_up_at(self, at: float) -> None:
        if at != self._cleanup_at:
            self._cleanup_at = at
            self._services.deadlines.set("copies", at)

    def on_deadline(self, now: float) -> None:
        """O(wildcard topics, and what has expired)."""
        if now < self._cleanup_at:
            return
        while self._recent and self._recent[0].at + KEEP_S <= now:
            self._recent_bytes -= self._recent.popleft().publication.size_bytes
        for topic in [t for t, at in self._unwanted_at.items() if at + LINGER_S <= now]:
            del self._unwanted_at[topic]
            self._copied_to[topic] = self._number
            advertisement = self._advertised.pop(topic, None)
            if advertisement is not None and self._end is not None:
                self._end.unadvertise(advertisement)
        first = self._recent[0].number if self._recent else self._number + 1
        self._copied_to = {topic: n for topic, n in self._copied_to.items() if n >= first}
        is_idle = not (self._recent or self._unwanted_at or self._copied_to)
        self._clean_up_at(inf if is_idle else now + CLEANUP_EVERY_S)
