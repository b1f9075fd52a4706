"""The retained store: the newest retained publication of each topic.

Newest is by the publisher's time, then by publisher and sequence, so that all gateways decide
alike, in whatever order they learn of them. A cleared topic is remembered for a while, so that a
gateway that has not heard of it does not bring it back.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator

from pubweave.core.mqtt.protocol.properties import EXPIRY_S, is_expired
from pubweave.core.mqtt.protocol.topics import has_wildcards, matches_topic
from pubweave.model.publications import Publication

CLEARED_MAX = 10_000
"""How many cleared topics are remembered."""


class RetainedStore:
    """The retained publications of the overlay, as far as one gateway knows them.

    >>> store = RetainedStore(10, 1000)
    >>> store.put(Publication("p", 1, "a/b", {}, b"on", 5.0), 5.0)
    True
    >>> [p.payload for p in store.matching("a/+", 6.0)]
    [b'on']
    """

    def __init__(self, messages_max: int, bytes_max: int) -> None:
        self.refused = 0
        """How many publications there was no room for."""
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._bytes = 0
        self._by_topic: dict[str, Publication] = {}
        self._by_first_level: dict[str, dict[str, None]] = {}
        self._cleared: dict[str, Publication] = {}
        self._expiring: dict[str, None] = {}
        self._digest = 0

    def __len__(self) -> int:
        return len(self._by_topic)

    @property
    def digest(self) -> int:
        """Equal for two gateways that retain the same, and hardly ever otherwise."""
        return self._digest

    def all(self) -> Iterator[Publication]:
        """Everything another gateway may need, cleared topics as empty publications."""
        yield from self._by_topic.values()
        yield from self._cleared.values()

    def put(self, publication: Publication, now: float) -> bool:
        """Retain a publication, or clear its topic if it has no payload; False if it is older than
        what is known, or there is no room."""
        topic = publication.topic
        known = self._by_topic.get(topic) or self._cleared.get(topic)
        if known is not None and _age(known) >= _age(publication):
            return False
        if is_expired(publication, now):
            return False
        before = self._by_topic.get(topic)
        freed = 0 if before is None else before.size_bytes
        if publication.payload and (
            self._bytes - freed + publication.size_bytes > self._bytes_max
            or (before is None and len(self._by_topic) >= self._messages_max)
        ):
            self.refused += 1
            return False
        if known is not None:
            self._remove(known)
        self._insert(publication)
        return True

    def _remove(self, known: Publication) -> None:
        if self._cleared.pop(known.topic, None) is None:
            del self._by_topic[known.topic]
            self._expiring.pop(known.topic, None)
            self._digest ^= _mark(known)
            self._bytes -= known.size_bytes
            first = _first_level(known.topic)
            same = self._by_first_level[first]
            del same[known.topic]
            if not same:
                del self._by_first_level[first]

    def _insert(self, publication: Publication) -> None:
        topic = publication.topic
        if publication.payload:
            self._by_topic[topic] = publication
            self._digest ^= _mark(publication)
            if EXPIRY_S in publication.attributes:
                self._expiring[topic] = None
            self._bytes += publication.size_bytes
            self._by_first_level.setdefault(_first_level(topic), {})[topic] = None
            return
        self._cleared[topic] = publication
        if len(self._cleared) > CLEARED_MAX:
            self._remove(next(iter(self._cleared.values())))

    def discard_expired(self, now: float) -> None:
        """O(publications that can expire)."""
        for topic in [t for t in self._expiring if is_expired(self._by_topic[t], now)]:
            self._remove(self._by_topic[topic])

    def matching(self, pattern: str, now: float) -> list[Publication]:
        """Those of a pattern that have not expired. O(1) without wildcards, else O(topics that
        begin with the pattern's first level)."""
        if not has_wildcards(pattern):
            topics = [pattern] if pattern in self._by_topic else []
        else:
            first = _first_level(pattern)
            candidates = (
                self._by_topic if first in ("+", "#") else self._by_first_level.get(first, {})
            )
            topics = [topic for topic in candidates if matches_topic(pattern, topic)]
        found = [self._by_topic[topic] for topic in topics]
        return [publication for publication in found if not is_expired(publication, now)]


def _first_level(topic: str) -> str:
    return topic.partition("/")[0]


def _age(publication: Publication) -> tuple[float, str, int]:
    return publication.published_at, publication.publisher, publication.sequence


def _mark(publication: Publication) -> int:
    named = f"{publication.topic}\0{publication.publisher}\0{publication.sequence}".encode()
    return zlib.crc32(named) << 32 | zlib.adler32(named)
