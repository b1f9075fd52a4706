"""Copies of what clients of a broker publish, for wildcard subscriptions at any door.

```
 client ─ a/b ─> broker ─> a/b                     exact subscriptions
                   └─ Copying ─> $mqtt/wild/a      a/#, a/+  (only if some door takes it)
                             └─> $mqtt/wild        #, +/b
```

The broker says what it has taken in of a client's, native or MQTT; so nothing is copied that was
refused, and copies are in the order of their originals. The door's own client publishes them: it
stays when the publisher goes, and wild topics stay connected.

Copies are made only of what somebody wants (`cluster/wildcard_interests`). A door hears of that a
moment after the subscriber has its answer, or later, if links were down. So what was published
lately is kept here, and copied when it turns out that somebody had wanted it since before it was
published.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from math import inf

import msgspec

from pubweave.core.mqtt.protocol.wildcard_topics import (
    COPIED_BYTES_MAX,
    copied_attributes,
    wild_client,
    wild_topics_of,
)
from pubweave.core.mqtt.session.deduplicator import CLOCKS_APART_S
from pubweave.core.mqtt.session.native_client import InProcessLink, NativeSession
from pubweave.core.session.access import DOOR_USER
from pubweave.core.session.session import Session
from pubweave.model.filters.filter import topic_filter
from pubweave.model.ids import AdvertisementId, BrokerId
from pubweave.model.publications import Publication

OWNER = "\0wild"
"""No session has such a name."""
KEEP_S = 30.0
KEEP_BYTES = 8 << 20
"""What is kept for doors that have yet to hear who wants it."""
TIDY_EVERY_S = 5.0
LINGER_S = 30.0
"""Nobody wants a wild topic any more: it may be that a session is between two doors."""


class _Recent(msgspec.Struct, frozen=True):
    number: int
    at: float
    publication: Publication


class WildcardReplicator:
    """The copies that one door publishes."""

    def __init__(self, broker: BrokerId, loop: InProcessLink) -> None:
        self.on_congested: Callable[[Session, Session, float], None]
        """A publisher has to wait for a session: copies pile up there."""
        self.on_relieved: Callable[[Session], None]
        """Whoever waited for a session may go on, if that has room again."""
        self.copied = 0
        self._broker = broker
        self._loop = loop
        self._end: NativeSession | None = None
        self._recent: deque[_Recent] = deque()
        self._recent_bytes = 0
        self._number = 0
        self._wanted: dict[str, None] = {}
        self._unwanted_at: dict[str, float] = {}
        """Wild topics that are still copied to, though nobody wants them, and since when."""
        self._done: dict[str, int] = {}
        """Of a wild topic that was copied to: up to which number."""
        self._advertised: dict[str, AdvertisementId] = {}
        self._tidy_at = inf

    # --- what clients publish --------------------------------------------------------------

    def published(self, origin: Session, publication: Publication, now: float) -> None:
        """The broker has taken in what a client of it published."""
        topics = wild_topics_of(publication.topic)
        if not topics or publication.size_bytes > COPIED_BYTES_MAX:
            return
        self._number += 1
        self._tidy_at = min(self._tidy_at, now + TIDY_EVERY_S)
        self._recent.append(_Recent(self._number, now, publication))
        self._recent_bytes += publication.size_bytes
        while self._recent_bytes > KEEP_BYTES:
            self._recent_bytes -= self._recent.popleft().publication.size_bytes
        for topic in topics:
            if topic in self._wanted or topic in self._unwanted_at:
                self._copy(topic, publication, now)
                end = self._end
                if end is not None and end.client.session.is_congested:
                    self.on_congested(origin, end.client.session, now)

    def _copy(self, topic: str, publication: Publication, now: float) -> None:
        end = self._end
        if end is None or end.lost_reason is not None:
            end = self._begin(now)
        if topic not in self._advertised:
            self._advertised[topic] = end.client.advertise(topic_filter(topic))
        attributes = copied_attributes(publication)
        # By the original's time: that is what it expires by.
        end.client.publish(topic, attributes, publication.payload, publication.published_at)
        self.copied += 1
        self._loop.touch(end)

    def _begin(self, now: float) -> NativeSession:
        self._end = self._loop.open(wild_client(self._broker), DOOR_USER, OWNER, now)
        self._advertised.clear()
        return self._end

    def settled(self) -> None:
        """The broker has taken copies in."""
        if self._end is not None:
            self._end.refusals.clear()
            self.on_relieved(self._end.client.session)

    # --- what doors want -------------------------------------------------------------------

    def want(self, wanted: dict[str, float], now: float) -> None:
        """Some doors take these now, each since some time: copy what they should have got
        already. O(what is kept) for each that is new."""
        for topic in [t for t in self._wanted if t not in wanted]:
            del self._wanted[topic]
            self._unwanted_at[topic] = now
            self._tidy_at = min(self._tidy_at, now + TIDY_EVERY_S)
        for topic, since in wanted.items():
            if topic in self._wanted:
                continue
            self._wanted[topic] = None
            if self._unwanted_at.pop(topic, None) is None:
                self._catch_up(topic, since - CLOCKS_APART_S, now)

    def _catch_up(self, topic: str, since: float, now: float) -> None:
        done = self._done.pop(topic, 0)
        for recent in list(self._recent):
            is_missing = recent.number > done and recent.at >= since
            if is_missing and topic in wild_topics_of(recent.publication.topic):
                self._copy(topic, recent.publication, now)

    # --- time ------------------------------------------------------------------------------

    @property
    def deadline(self) -> float:
        return self._tidy_at

    def on_deadline(self, now: float) -> None:
        """O(wild topics, and what has been kept for long enough)."""
        if now < self._tidy_at:
            return
        while self._recent and self._recent[0].at + KEEP_S <= now:
            self._recent_bytes -= self._recent.popleft().publication.size_bytes
        for topic in [t for t, at in self._unwanted_at.items() if at + LINGER_S <= now]:
            del self._unwanted_at[topic]
            self._done[topic] = self._number
            advertisement = self._advertised.pop(topic, None)
            if advertisement is not None and self._end is not None:
                self._end.client.unadvertise(advertisement)
                self._loop.touch(self._end)
        first = self._recent[0].number if self._recent else self._number + 1
        self._done = {topic: number for topic, number in self._done.items() if number >= first}
        is_idle = not (self._recent or self._unwanted_at or self._done)
        self._tidy_at = inf if is_idle else now + TIDY_EVERY_S
