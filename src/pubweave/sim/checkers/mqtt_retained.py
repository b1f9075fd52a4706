"""What is retained: a new subscription gets the newest of each topic, as it asked to.

What was retained when all was at rest is known; from then on every newer one may be the newest
somewhere, until the next rest. So what gateways agree on is checked at rest: eventually consistent
means here, when connections have healed and gateways have compared what they have.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from pubweave.model.mqtt_packets import Publish
from pubweave.sim.checkers.mqtt_wishes import Wish


@dataclass
class _Topic:
    """What is known of one topic; each has one publisher."""

    publisher: str
    settled: bytes = b""
    """Retained when all was at rest; empty: nothing."""
    newer: list[bytes] = field(default_factory=list)
    """What was published to be retained since, in order."""
    unanswered: dict[int, Publish] = field(default_factory=dict)
    """Those of ``newer`` that have no answer, by place."""
    is_again: bool = False
    """One at QoS 1 is said again, and a later one not: either may be taken in last."""

    def clear(self) -> None:
        self.newer.clear()
        self.unanswered.clear()


class RetainedChecker:
    """Knows what is retained on each topic, and who is to get it."""

    def __init__(self, violate: Callable[[str, float], None], are_clocks_right: bool) -> None:
        self._violate = violate
        self._are_clocks_right = are_clocks_right
        self._topics: dict[str, _Topic] = {}
        self._expected: dict[str, dict[str, bytes]] = {}
        """By client: what must come, by topic; only of those that subscribed at rest."""
        self._got: dict[str, dict[str, set[bytes]]] = {}
        self.is_at_rest = True
        self.counts = dict.fromkeys(("retained", "retained_due", "retained_deleted"), 0)

    def publishing(self, packet: Publish, publisher: str) -> None:
        topic = self._topics.setdefault(packet.topic, _Topic(publisher))
        if self.is_at_rest and self._are_clocks_right:
            topic.clear()
        topic.is_again = False
        topic.unanswered[len(topic.newer)] = packet
        topic.newer.append(packet.payload)
        self.counts["retained_deleted"] += not packet.payload

    def answered(self, packet: Publish) -> None:
        """A publication that was to be retained has its first answer."""
        topic = self._topics[packet.topic]
        found = [place for place, one in topic.unanswered.items() if one.payload == packet.payload]
        topic.unanswered.pop(found[0] if found else -1, None)

    def closed(self, publisher: str) -> None:
        """It says again what has no answer. What a gateway has taken in at QoS 1 counts anew then,
        but not at QoS 2."""
        for topic in self._topics.values():
            if topic.publisher == publisher:
                again = [at for at, one in topic.unanswered.items() if one.qos == 1]
                last = len(topic.newer) - 1
                topic.is_again |= bool(again) and again[-1] < last

    def subscribing(self, wish: Wish, now: float) -> None:
        """At rest it is known what a subscription brings."""
        if not self.is_at_rest or wish.group:
            return
        expected = self._expected.setdefault(wish.client, {})
        handling = wish.filter.retain_handling
        for name, topic in self._topics.items():
            if not wish.wants(name, topic.publisher) or not topic.settled or topic.newer:
                continue
            if handling == 0 or (handling == 1 and wish.is_new):
                expected[name] = topic.settled

    def forget(self, client: str) -> None:
        """A client's subscriptions were refused, or are gone: nothing is due to it."""
        self._expected.pop(client, None)

    def came(self, client: str, packet: Publish, wishes: list[Wish], now: float) -> None:
        """Something retained came to a client, which asks or has asked for all of ``wishes``."""
        self.counts["retained"] += 1
        topic = self._topics.get(packet.topic)
        what = f"{client} got {packet.payload[:40]!r} as retained on {packet.topic}"
        if topic is None or packet.payload not in (topic.settled, *topic.newer):
            self._violate(f"{what}, which is not", now)
            return
        if not packet.payload:
            self._violate(f"{what}: nothing", now)
        if not any(self._may_bring(wish, packet.topic, topic) for wish in wishes):
            self._violate(f"{what}, which it did not ask for", now)
        self._got.setdefault(client, {}).setdefault(packet.topic, set()).add(packet.payload)

    def _may_bring(self, wish: Wish, name: str, topic: _Topic) -> bool:
        handling = wish.filter.retain_handling
        is_asked = handling == 0 or (handling == 1 and wish.is_new)
        return is_asked and not wish.group and wish.wants(name, topic.publisher)

    def check(self, moved: Collection[str], now: float) -> None:
        """At rest again: what was due must have come. Then the last of each topic is retained,
        unless its publisher has ``moved``: then it is whichever a broker took in last."""
        for client, expected in self._expected.items():
            got = self._got.get(client, {})
            self.counts["retained_due"] += len(expected)
            for name, payload in expected.items():
                if payload not in got.get(name, ()):
                    text = f"{payload!r}, retained on {name}, never came to {client}"
                    self._violate(text, now)
        self._expected.clear()
        self._got.clear()
        for topic in self._topics.values():
            if self._are_clocks_right:
                is_known = topic.publisher not in moved and not topic.is_again
                is_known |= len(topic.newer) == 1
            else:  # whatever was retained may be the newest
                is_known = len(topic.newer) == 1 and not topic.settled
            if is_known:
                topic.settled = topic.newer.pop() if topic.newer else topic.settled
                topic.clear()

    def retained(self) -> dict[str, bytes]:
        """At rest: what every gateway must have."""
        known = {name: topic for name, topic in self._topics.items() if not topic.newer}
        return {name: topic.settled for name, topic in known.items() if topic.settled}
