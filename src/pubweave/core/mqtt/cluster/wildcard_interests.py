"""Which wildcard topics (`protocol/wildcard_topics`) each gateway's sessions want, and since when.

Copies are published only where a gateway wants them. Interests are gossiped like group members
(`cluster/gossip`): news at once, and digests at intervals, so that whoever missed news pulls them.
"""

from __future__ import annotations

from pubweave.core.mqtt.protocol.wildcard_topics import overlay_topic_of
from pubweave.core.mqtt.session.cluster_messages import WildcardInterests, digest_of
from pubweave.core.mqtt.session.session import MqttSession
from pubweave.model.ids import BrokerId

ABSENT_S = 900.0
"""How long a silent gateway still counts: it may recover from its journal with all sessions,
and what is kept for it meanwhile (`topic_log`) must have been published."""


class WildcardInterestTable:
    """The interests of all gateways, as far as this one knows."""

    def __init__(self, broker: BrokerId) -> None:
        self._broker = broker
        self._by_session: dict[str, tuple[str, ...]] = {}
        self._by_gateway: dict[BrokerId, dict[str, float]] = {}
        self._silent_since: dict[BrokerId, float] = {}
        self._is_unchanged = True
        """No session has changed its interests since the last call of `changed`."""

    def note(self, session: MqttSession, *, is_over: bool = False) -> None:
        """A session of this gateway connected, ended or subscribed. O(its subscriptions)."""
        subscriptions = [] if is_over else session.subscriptions.with_wildcards()
        topics = tuple(sorted({overlay_topic_of(s.pattern) for s in subscriptions}))
        if topics == self._by_session.get(session.name, ()):
            return
        if topics:
            self._by_session[session.name] = topics
        else:
            del self._by_session[session.name]
        self._is_unchanged = False

    def changed(self, now: float) -> bool:
        """Whether this gateway's interests have changed since the last call. O(1) if no session's
        have, else O(sessions with wildcards)."""
        if self._is_unchanged:
            return False
        self._is_unchanged = True
        before = self._by_gateway.get(self._broker, {})
        wanted = {topic for some in self._by_session.values() for topic in some}
        if wanted == before.keys():
            return False
        own = {topic: before.get(topic, now) for topic in sorted(wanted)}
        self._replace(self._broker, own)
        return True

    def own(self) -> WildcardInterests:
        return WildcardInterests(tuple(self._by_gateway.get(self._broker, {}).items()))

    def heard(self, gateway: BrokerId, message: WildcardInterests) -> None:
        """Another gateway has announced its interests."""
        self._replace(gateway, dict(message.topics))

    def _replace(self, gateway: BrokerId, topics: dict[str, float]) -> None:
        self._silent_since.pop(gateway, None)
        if topics:
            self._by_gateway[gateway] = topics
        else:
            self._by_gateway.pop(gateway, None)

    def silent(self, gateway: BrokerId, now: float) -> None:
        """A gateway has been silent for long."""
        if gateway in self._by_gateway:
            self._silent_since.setdefault(gateway, now)

    def is_back(self, gateway: BrokerId) -> None:
        """A gateway was heard of again."""
        self._silent_since.pop(gateway, None)

    def discard_absent(self, now: float) -> bool:
        """Drop the interests of gateways that were silent for too long; whether there were any."""
        absent = [d for d, since in self._silent_since.items() if now - since > ABSENT_S]
        for gateway in absent:
            self._replace(gateway, {})
        return bool(absent)

    def wanted(self) -> dict[str, float]:
        """All wanted topics, each with the earliest time. O(interests)."""
        found: dict[str, float] = {}
        for topics in self._by_gateway.values():
            for topic, since in topics.items():
                found[topic] = min(since, found.get(topic, since))
        return found

    def digest(self, gateway: BrokerId) -> int:
        return digest_of(self._by_gateway.get(gateway, ()))
