"""Echo filter: recognises publications that a session returns to the overlay.

A publication that leaves over a bridge from which a route leads back to this session is expected
once per bridge, for a while. An expected publication that arrives is an echo. An identical message
from another client is indistinguishable from it, so a message is lost only if the expected echo
never arrives.
"""

from __future__ import annotations

from collections import deque
from hashlib import blake2b

from pubweave.core.mqtt.protocol.topics import matches_topic

ECHO_S = 10.0
"""How long an echo is expected; one that arrives later counts as new."""
EXPECTED_MAX = 10_000
ROUTES_MAX = 64
"""How many patterns of bridges are remembered for one session."""
_DIGEST_BYTES = 16


class EchoFilter:
    """The routes by which publications return over one session, and the expected echoes.

    >>> echoes = EchoFilter()
    >>> echoes.learn("mqtt:left", "a/#", until=100.0)
    >>> echoes.expect("a/b", b"x", "mqtt:ann", 1.0)
    >>> [echoes.consume("a/b", b"x", 2.0) for _ in range(2)]
    [True, False]
    """

    def __init__(self) -> None:
        self._routes: dict[tuple[str, str], float] = {}
        """By bridge and pattern: until when publications sent there are expected here."""
        self._expected: dict[bytes, deque[float]] = {}
        """By fingerprint: until when each is expected, in order."""
        self._order: deque[tuple[float, bytes]] = deque()

    def learn(self, bridge: str, pattern: str, until: float) -> None:
        """What is sent to ``bridge`` because of ``pattern`` has returned over this session."""
        if (bridge, pattern) in self._routes or len(self._routes) < ROUTES_MAX:
            self._routes[bridge, pattern] = until

    def discard_old_routes(self, now: float) -> bool:
        """Discard routes that no probe has taken lately; True if none is left."""
        self._routes = {route: until for route, until in self._routes.items() if until > now}
        return not self._routes

    def expect(self, topic: str, payload: bytes, origin: str, now: float) -> None:
        """A publication of the session ``origin`` is sent to all other bridges that want it: expect
        an echo for each. O(routes)."""
        bridges = {
            bridge: None
            for bridge, pattern in self._routes
            if bridge != origin and matches_topic(pattern, topic)
        }
        digest = fingerprint(topic, payload)
        for _ in bridges:
            self._expected.setdefault(digest, deque()).append(now + ECHO_S)
            self._order.append((now + ECHO_S, digest))
        self._discard_old(now)

    def consume(self, topic: str, payload: bytes, now: float) -> bool:
        """Whether a publication of the session is an expected echo; that one is then used up.

        The retain flag is not compared, because bridges may be configured to change it."""
        self._discard_old(now)
        digest = fingerprint(topic, payload)
        if digest not in self._expected:
            return False
        self._drop_first(digest)
        return True

    def _discard_old(self, now: float) -> None:
        """Discard expected echoes that have not arrived in time."""
        while self._order and (self._order[0][0] <= now or len(self._order) > EXPECTED_MAX):
            until, digest = self._order.popleft()
            if digest in self._expected and self._expected[digest][0] <= until:
                self._drop_first(digest)

    def _drop_first(self, digest: bytes) -> None:
        waiting = self._expected[digest]
        waiting.popleft()
        if not waiting:
            del self._expected[digest]


def fingerprint(topic: str, payload: bytes) -> bytes:
    """Equal for equal publications. No topic contains a zero byte."""
    return blake2b(b"%b\0%b" % (topic.encode(), payload), digest_size=_DIGEST_BYTES).digest()
