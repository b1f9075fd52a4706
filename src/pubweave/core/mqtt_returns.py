"""What one session brings back of topics of which that has been proven (`mqtt_trials`).

Unlike a probe, a proof does not say over which bridges something left. So of each publication as
many copies are expected, for a short while, as there are other bridges; where fewer come, fewer are
expected of that origin's from then on. What comes and is expected has been in the overlay before.
Where nothing comes any more there is no such ring, and nothing is expected.
"""

from __future__ import annotations

from collections import deque

import msgspec

TOPICS_MAX = 1000
ORIGINS_MAX = 1000
EXPECTED_MAX = 10_000
MISSES_MAX, OWN_MISSES = 8, 4
"""After so many publications in a row of which no copy came, there is no ring. What this session
itself has brought counts so many times: that it comes back was proven. Of others a copy may only
seem to have come, because somebody outside had said it, too."""


class Expected(msgspec.Struct, frozen=True):
    """One copy of a publication of ``origin`` that should come until then; no origin: one that has
    come already."""

    until: float
    digest: bytes
    topic: str
    origin: str


class Topic:
    """What is known of one topic."""

    def __init__(self, wait_s: float, most: int, owner: str) -> None:
        self.owner = owner
        self.wait_s = wait_s
        self.most = most
        self.counts: dict[str, int] = {}
        """Copies of a publication, by its origin, where it is not `most`."""
        self.came_from: set[str] = set()
        """Origins of which copies have come; those that stop coming are missed."""
        self.misses = 0
        self.came_at = 0.0


class Returns:
    """The copies that one session is to bring.

    >>> returns = Returns()
    >>> returns.learn("a", 0.5, 1, "mqtt:left", 0.0)
    >>> returns.expect("a", b"digest", "mqtt:ann", 1.0)
    >>> [returns.took(b"digest", 1.1) for _ in range(2)]
    [True, False]
    """

    def __init__(self) -> None:
        self.topics: dict[str, Topic] = {}
        self._expected: dict[bytes, deque[Expected]] = {}
        self._order: deque[Expected] = deque()
        self._mixed: set[bytes] = set()
        """What was said again before all had come: whose copies are missing is not known."""

    def learn(self, topic: str, wait_s: float, most: int, origin: str, now: float) -> None:
        """What is said on a topic comes back, within ``wait_s``, at most so many times; what
        ``origin`` says does."""
        if topic in self.topics or len(self.topics) < TOPICS_MAX:
            known = self.topics[topic] = Topic(wait_s, most, origin)
            known.came_from.add(origin)
            known.came_at = now

    def expect(self, topic: str, digest: bytes, origin: str, now: float) -> None:
        """The overlay has a publication of the session ``origin``, or of somebody else."""
        known = self.topics.get(topic)
        if known is not None:
            count = known.counts.get(origin, known.most)
            if digest in self._expected:
                self._mixed.add(digest)
            self.add(Expected(now + known.wait_s, digest, topic, origin), count)

    def add(self, one: Expected, count: int) -> None:
        for _ in range(count):
            self._expected.setdefault(one.digest, deque()).append(one)
            self._order.append(one)

    def took(self, digest: bytes, now: float) -> bool:
        """Whether a publication that the session brings is expected; once less from now on."""
        self.forget_old(now)
        if digest not in self._expected:
            return False
        one = self._drop_first(digest)
        known = self.topics.get(one.topic)
        if known is not None:
            known.misses, known.came_at = 0, now
            if one.origin and len(known.came_from) < ORIGINS_MAX:
                known.came_from.add(one.origin)
        return True

    def forget_old(self, now: float) -> None:
        """Those that have not come. Some of `_order` came, and are not expected any more."""
        while self._order and (self._order[0].until <= now or len(self._order) > EXPECTED_MAX):
            one = self._order.popleft()
            waiting = self._expected.get(one.digest)
            if waiting is not None and waiting[0].until <= one.until:
                if one.origin and one.digest not in self._mixed:
                    self._missed(one)
                self._drop_first(one.digest)

    def _missed(self, one: Expected) -> None:
        known = self.topics.get(one.topic)
        if known is None:
            return
        has_come = one.origin in known.came_from
        count = max(int(has_come), known.counts.get(one.origin, known.most) - 1)
        if one.origin in known.counts or len(known.counts) < ORIGINS_MAX:
            known.counts[one.origin] = count
        if has_come and known.came_at <= one.until - known.wait_s:
            known.misses += OWN_MISSES if one.origin == known.owner else 1
            if known.misses >= MISSES_MAX:
                del self.topics[one.topic]

    def _drop_first(self, digest: bytes) -> Expected:
        waiting = self._expected[digest]
        first = waiting.popleft()
        if not waiting:
            del self._expected[digest]
            self._mixed.discard(digest)
        return first
