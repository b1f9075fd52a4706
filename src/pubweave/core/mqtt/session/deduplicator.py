"""One session's publications on their several ways: each is given to it once.

Where the overlay routes by whole topics, what comes for ``a/b`` comes on that topic, what comes for
``a/#`` on a wild topic, and what comes for ``#`` on another (`protocol/wildcard_topics`). A
publication that a session wants for more than one of them is given to it when it first comes, for
all of them.

Within one publisher and topic each way keeps the order. So the last that was given is enough to
know what was. That goes with the session to other doors, too: whoever is new to a topic is sent
what is kept of it (`topic_log`), which the session may have got where it was before. And what was
published before a subscription was granted is none of its business.
"""

from __future__ import annotations

from collections.abc import Iterable

from pubweave.core.mqtt.protocol.properties import QOS
from pubweave.core.mqtt.protocol.wildcard_topics import original_of, way_of
from pubweave.core.mqtt.session.cluster_messages import Mark
from pubweave.core.mqtt.session.subscriptions import MqttSubscription, SessionSubscriptions
from pubweave.model.ids import ClientId
from pubweave.model.publications import Publication

CLOCKS_APART_S = 1.0
"""So far the clocks of brokers may be apart without a loss."""
REMEMBERED_MAX = 20_000
"""Publishers and topics of a session; the one that was silent for longest is forgotten first. What
comes again, or later on another way, is seconds old."""


class SessionDeduplicator:
    """What was given to one session.

    >>> from pubweave.model.mqtt_packets import TopicFilter
    >>> both = [MqttSubscription(TopicFilter(p, 0), "", p, None, None, ()) for p in ("a", "#")]
    >>> ways, publication = Ways(), Publication("p", 1, "a", {}, b"", 0.0)
    >>> ways.is_first("a", publication, both), ways.is_first("$mqtt/wild", publication, both)
    (True, False)
    """

    def __init__(self) -> None:
        self._given: dict[tuple[ClientId, str], int] = {}

    def unknown(self, notified: Iterable[Publication]) -> list[Publication]:
        """Of what came, what was not given for certain; nothing is given by asking."""
        return [
            came
            for came in notified
            if (publication := original_of(came)) is not None
            and publication.sequence
            > self._given.get((publication.publisher, publication.topic), 0)
        ]

    def news(
        self, notified: Iterable[Publication], subscriptions: SessionSubscriptions
    ) -> list[Publication]:
        """Of what came, what a session that subscribes so is to get; of copies, the originals."""
        found = []
        for came in notified:
            publication = original_of(came)
            if publication is None:
                continue
            wanted = [
                s for s in subscriptions.matching(publication) if not _is_past(publication, s)
            ]
            if wanted and self.is_first(came.topic, publication, wanted):
                found.append(publication)
        return found

    def is_first(
        self, way: str, publication: Publication, wanted: Iterable[MqttSubscription]
    ) -> bool:
        """Whether a publication that came on a way is to be given for those who want it."""
        if all(way_of(subscription.pattern) != way for subscription in wanted):
            return False  # for a subscription that is no more, or another content
        return self._note((publication.publisher, publication.topic), publication.sequence)

    def _note(self, key: tuple[ClientId, str], sequence: int) -> bool:
        last = self._given.pop(key, 0)
        if len(self._given) >= REMEMBERED_MAX:
            del self._given[next(iter(self._given))]
        self._given[key] = max(last, sequence)
        return sequence > last

    def marks(self) -> list[Mark]:
        """What was given, for another door."""
        return [(publisher, topic, last) for (publisher, topic), last in self._given.items()]

    def learn(self, marks: Iterable[Mark]) -> None:
        """So much was given at another door."""
        for publisher, topic, sequence in marks:
            self._note((publisher, topic), sequence)


def _is_past(publication: Publication, subscription: MqttSubscription) -> bool:
    """Whether a publication was there before a subscription, by the clocks of two doors. Native
    clients have clocks of their own, of which nothing is known."""
    is_timed = QOS in publication.attributes
    return is_timed and publication.published_at < subscription.since - CLOCKS_APART_S
