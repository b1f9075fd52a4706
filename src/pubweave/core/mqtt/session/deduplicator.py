"""Deduplication of one session's publications where they arrive on several topics.

Where the overlay routes by whole topics, publications for ``a/b`` arrive on that topic, those for
``a/#`` on a wildcard topic, and those for ``#`` on another (`protocol/wildcard_topics`). A
publication that matches several of a session's subscriptions is given to it once, when it first
arrives, for all of them.

On each of these topics the publications of one publisher and original topic keep their order, so
the last sequence given tells what was given. These marks move with the session: a gateway that is
new to a topic is sent what is kept of it (`topic_log`), which the session may have been given
elsewhere. What was published before a subscription was granted is not for that subscription.
"""

from __future__ import annotations

from collections.abc import Iterable

from pubweave.core.mqtt.protocol.properties import QOS
from pubweave.core.mqtt.protocol.wildcard_topics import original_of, overlay_topic_of
from pubweave.core.mqtt.session.cluster_messages import Mark
from pubweave.core.mqtt.session.subscriptions import MqttSubscription, SessionSubscriptions
from pubweave.core.vocabulary.rare_branches import Branch, sometimes
from pubweave.model.ids import ClientId
from pubweave.model.publications import Publication

CLOCKS_APART_S = 1.0
"""How far the clocks of brokers may differ without a loss."""
REMEMBERED_MAX = 20_000
"""Publishers and topics of a session; the longest silent is discarded first. Duplicates are seconds
old."""


class SessionDeduplicator:
    """What was given to one session, by publisher and topic.

    >>> from pubweave.model.mqtt_packets import TopicFilter
    >>> both = [MqttSubscription(TopicFilter(p, 0), "", p, None, None, ()) for p in ("a", "#")]
    >>> given, publication = SessionDeduplicator(), Publication("p", 1, "a", {}, b"", 0.0)
    >>> given.is_first("a", publication, both), given.is_first("$mqtt/wild", publication, both)
    (True, False)
    """

    def __init__(self) -> None:
        self._given: dict[tuple[ClientId, str], int] = {}

    def unknown(
        self, notified: Iterable[Publication], subscriptions: SessionSubscriptions
    ) -> list[Publication]:
        """Publications for these subscriptions that were certainly not given yet; they are not
        marked as given."""
        return [
            received
            for received in notified
            if (publication := original_of(received)) is not None
            and publication.sequence
            > self._given.get((publication.publisher, publication.topic), 0)
            and any(not _is_past(publication, s) for s in subscriptions.matching(publication))
        ]

    def first_copies(
        self, notified: Iterable[Publication], subscriptions: SessionSubscriptions
    ) -> list[Publication]:
        """Publications to give to a session with these subscriptions; of copies, the originals."""
        found = []
        for received in notified:
            publication = original_of(received)
            if publication is None:
                continue
            wanted = [
                s for s in subscriptions.matching(publication) if not _is_past(publication, s)
            ]
            if wanted and self.is_first(received.topic, publication, wanted):
                found.append(publication)
        return found

    def is_first(
        self, topic: str, publication: Publication, wanted: Iterable[MqttSubscription]
    ) -> bool:
        """Whether a publication that arrived on ``topic`` is to be given; it is marked as given."""
        if all(overlay_topic_of(subscription.pattern) != topic for subscription in wanted):
            return False  # the subscription has ended, or has another content filter
        return self._note((publication.publisher, publication.topic), publication.sequence)

    def _note(self, key: tuple[ClientId, str], sequence: int) -> bool:
        last = self._given.pop(key, 0)
        if len(self._given) >= REMEMBERED_MAX:
            del self._given[next(iter(self._given))]
        self._given[key] = max(last, sequence)
        if sequence <= last:
            sometimes(Branch.MQTT_DUPLICATE)
        return sequence > last

    def marks(self) -> list[Mark]:
        """What was given, for another gateway."""
        return [(publisher, topic, last) for (publisher, topic), last in self._given.items()]

    def learn(self, marks: Iterable[Mark]) -> None:
        """Add what was given at another gateway."""
        for publisher, topic, sequence in marks:
            self._note((publisher, topic), sequence)


def _is_past(publication: Publication, subscription: MqttSubscription) -> bool:
    """Whether a publication is older than a subscription, by the clocks of two gateways. Nothing is
    known of the clocks of native clients."""
    is_timed = QOS in publication.attributes
    return is_timed and publication.published_at < subscription.since - CLOCKS_APART_S
