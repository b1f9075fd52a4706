"""What one session is expected to bring back: publications that left the overlay over bridges from
which a way leads to it, outside.

Each of these is expected once for each such bridge that it is sent to, for a while. What comes and
is expected has been in the overlay before; who else says the very same in that moment only changes
places with it. So nothing is lost but where an expected one never comes.
"""

from __future__ import annotations

from collections import deque
from hashlib import blake2b

from pubweave.core.mqtt.protocol.topics import matches_topic

ECHO_S = 10.0
"""So long an echo is waited for; one that comes later is new, and waited for in its turn."""
EXPECTED_MAX = 10_000
WAYS_MAX = 64
"""So many patterns of bridges are remembered for one session."""
_DIGEST_BYTES = 16


class EchoFilter:
    """The ways by which publications come back over one session, and those that are under way.

    >>> echoes = Echoes()
    >>> echoes.learn("mqtt:left", "a/#", until=100.0)
    >>> echoes.expect("a/b", b"x", "mqtt:ann", 1.0)
    >>> [echoes.took("a/b", b"x", 2.0) for _ in range(2)]
    [True, False]
    """

    def __init__(self) -> None:
        self._ways: dict[tuple[str, str], float] = {}
        """Until when what is sent to a bridge by a pattern comes back here."""
        self._expected: dict[bytes, deque[float]] = {}
        """Until when, in order, by digest."""
        self._order: deque[tuple[float, bytes]] = deque()

    def learn(self, bridge: str, pattern: str, until: float) -> None:
        """What is sent to ``bridge`` because of ``pattern`` has come in over this session."""
        if (bridge, pattern) in self._ways or len(self._ways) < WAYS_MAX:
            self._ways[bridge, pattern] = until

    def forget_ways(self, now: float) -> bool:
        """Forget those that have not been seen for long; True: there is none left."""
        self._ways = {way: until for way, until in self._ways.items() if until > now}
        return not self._ways

    def expect(self, topic: str, payload: bytes, origin: str, now: float) -> None:
        """The overlay has a publication of the session ``origin``, which does not get it back; to
        all other bridges that want it, it is sent. O(ways)."""
        bridges = {
            bridge: None
            for bridge, pattern in self._ways
            if bridge != origin and matches_topic(pattern, topic)
        }
        digest = fingerprint(topic, payload)
        for _ in bridges:
            self._expected.setdefault(digest, deque()).append(now + ECHO_S)
            self._order.append((now + ECHO_S, digest))
        self._forget_old(now)

    def took(self, topic: str, payload: bytes, now: float) -> bool:
        """Whether a publication that the session brings is expected; once less from now on.

        Whether it is retained does not count: bridges can be told to change that."""
        self._forget_old(now)
        digest = fingerprint(topic, payload)
        if digest not in self._expected:
            return False
        self._drop_first(digest)
        return True

    def _forget_old(self, now: float) -> None:
        """Those that have waited long enough, and have not come."""
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
    """The same for equal publications. No topic has a zero byte in it."""
    return blake2b(b"%b\0%b" % (topic.encode(), payload), digest_size=_DIGEST_BYTES).digest()
