"""The subscriptions of one MQTT session, and which of them a publication matches."""

from __future__ import annotations

import msgspec

from pubweave.core.mqtt.protocol.topics import has_wildcards, is_topic, matches_topic
from pubweave.model.filters.filter import Filter
from pubweave.model.ids import SubscriptionId
from pubweave.model.mqtt_packets import TopicFilter
from pubweave.model.publications import Publication

CACHED_TOPICS = 4096


class MqttSubscription(msgspec.Struct, frozen=True):
    """A subscription as it was granted; ``native`` are those of the overlay behind it."""

    options: TopicFilter
    group: str
    pattern: str
    subscription_id: int | None
    content: Filter | None
    native: tuple[SubscriptionId, ...]
    since: float = 0.0
    """When it was granted; one that replaces it keeps the time."""

    @property
    def is_of_bridge(self) -> bool:
        """Whether its options are those of a bridge: no local, and retain as published."""
        return self.options.no_local and self.options.retain_as_published


class SessionSubscriptions:
    """The subscriptions of one session by their text, `$share/...` included."""

    def __init__(self) -> None:
        self._by_text: dict[str, MqttSubscription] = {}
        self._exact: dict[str, list[MqttSubscription]] = {}
        self._with_wildcards: list[MqttSubscription] = []
        self._cache: dict[str, tuple[MqttSubscription, ...]] = {}
        self.shared = 0
        """How many are shared with others."""
        self.of_bridges = self.without_own = 0
        """How many have the options of a bridge, and how many exclude what their own client
        publishes."""

    def __len__(self) -> int:
        return len(self._by_text)

    def __contains__(self, text: str) -> bool:
        return text in self._by_text

    def get(self, text: str) -> MqttSubscription | None:
        return self._by_text.get(text)

    def all(self) -> list[MqttSubscription]:
        return list(self._by_text.values())

    def with_wildcards(self) -> list[MqttSubscription]:
        """Those with wildcards."""
        return list(self._with_wildcards)

    @property
    def wants_acknowledged(self) -> bool:
        """Whether any is for more than QoS 0. O(subscriptions)."""
        return any(s.options.qos for s in self._by_text.values())

    def add(self, subscription: MqttSubscription) -> MqttSubscription | None:
        """Add a subscription; it replaces the one with the same text, which is returned."""
        before = self.remove(subscription.options.pattern)
        self._by_text[subscription.options.pattern] = subscription
        self.shared += bool(subscription.group)
        self.of_bridges += subscription.is_of_bridge
        self.without_own += subscription.options.no_local
        if has_wildcards(subscription.pattern):
            self._with_wildcards.append(subscription)
        else:
            self._exact.setdefault(subscription.pattern, []).append(subscription)
        self._cache.clear()
        return before

    def remove(self, text: str) -> MqttSubscription | None:
        """None: there was no such subscription."""
        known = self._by_text.pop(text, None)
        if known is None:
            return None
        self.shared -= bool(known.group)
        self.of_bridges -= known.is_of_bridge
        self.without_own -= known.options.no_local
        if has_wildcards(known.pattern):
            self._with_wildcards.remove(known)
        else:
            same = self._exact[known.pattern]
            same.remove(known)
            if not same:
                del self._exact[known.pattern]
        self._cache.clear()
        return known

    def matching(self, publication: Publication) -> tuple[MqttSubscription, ...]:
        """Those that match a publication. O(1) for a recent topic, else O(wildcard
        subscriptions)."""
        found = self._cache.get(publication.topic)
        if found is None:
            found = self._by_topic(publication.topic)
            if len(self._cache) >= CACHED_TOPICS:
                self._cache.clear()
            self._cache[publication.topic] = found
        if all([s.content is None for s in found]):
            return found
        return tuple(s for s in found if s.content is None or s.content.matches(publication))

    def _by_topic(self, topic: str) -> tuple[MqttSubscription, ...]:
        if not is_topic(topic):
            return ()
        with_wildcards = (s for s in self._with_wildcards if matches_topic(s.pattern, topic))
        return (*self._exact.get(topic, ()), *with_wildcards)
