"""Which wild topics (`protocol/wildcard_topics`) the sessions of each door take, and since when.

Copies are published only where somebody wants them. That is told like the members of groups
(`cluster/gossip`): news at once, and a digest now and then, so that whoever missed it asks.
"""

from __future__ import annotations

from pubweave.core.mqtt.protocol.wildcard_topics import way_of
from pubweave.core.mqtt.session.cluster_messages import WildcardInterests, digest_of
from pubweave.core.mqtt.session.session import MqttSession
from pubweave.model.ids import BrokerId

ABSENT_S = 900.0
"""So long a door that is silent still counts: it may come back from its journal with all its
sessions, and what is kept for it meanwhile (`topic_log`) must have been published."""


class WildcardInterestTable:
    """What all doors take, as far as this one knows."""

    def __init__(self, broker: BrokerId) -> None:
        self._broker = broker
        self._by_session: dict[str, tuple[str, ...]] = {}
        self._by_door: dict[BrokerId, dict[str, float]] = {}
        self._silent_since: dict[BrokerId, float] = {}
        self._is_settled = True
        """No session has changed what it takes since `changed` was asked."""

    def note(self, session: MqttSession, *, is_over: bool = False) -> None:
        """A session of this door came, went or subscribed. O(its subscriptions)."""
        ways = set() if is_over else {way_of(s.pattern) for s in session.subscriptions.wild()}
        taken = tuple(sorted(ways))
        if taken == self._by_session.get(session.name, ()):
            return
        if taken:
            self._by_session[session.name] = taken
        else:
            del self._by_session[session.name]
        self._is_settled = False

    def changed(self, now: float) -> bool:
        """Whether this door takes something else than when this was last asked. O(1) if no session
        does, else O(sessions with wildcards)."""
        if self._is_settled:
            return False
        self._is_settled = True
        before = self._by_door.get(self._broker, {})
        wanted = {topic for some in self._by_session.values() for topic in some}
        if wanted == before.keys():
            return False
        own = {topic: before.get(topic, now) for topic in sorted(wanted)}
        self._replace(self._broker, own)
        return True

    def own(self) -> WildcardInterests:
        return WildcardInterests(tuple(self._by_door.get(self._broker, {}).items()))

    def heard(self, door: BrokerId, word: WildcardInterests) -> None:
        """Another door has said what it takes."""
        self._replace(door, dict(word.topics))

    def _replace(self, door: BrokerId, topics: dict[str, float]) -> None:
        self._silent_since.pop(door, None)
        if topics:
            self._by_door[door] = topics
        else:
            self._by_door.pop(door, None)

    def silent(self, door: BrokerId, now: float) -> None:
        """Nothing has been heard of a door for long."""
        if door in self._by_door:
            self._silent_since.setdefault(door, now)

    def is_back(self, door: BrokerId) -> None:
        """A door that was silent has said something."""
        self._silent_since.pop(door, None)

    def forget_absent(self, now: float) -> bool:
        """Doors that were silent for too long count no longer; whether there were such."""
        gone = [d for d, since in self._silent_since.items() if now - since > ABSENT_S]
        for door in gone:
            self._replace(door, {})
        return bool(gone)

    def wanted(self) -> dict[str, float]:
        """What anybody takes, and since when at the earliest. O(what doors take)."""
        found: dict[str, float] = {}
        for topics in self._by_door.values():
            for topic, since in topics.items():
                found[topic] = min(since, found.get(topic, since))
        return found

    def digest(self, door: BrokerId) -> int:
        return digest_of(self._by_door.get(door, ()))
