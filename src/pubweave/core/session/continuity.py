"""Continuity of a publisher's publications on a topic, which subscribers check for gaps.

A publication names the sequence of its publisher's previous one on the topic (``previous``). A
subscriber that wants the whole topic, and has been sure of getting it ever since, has got that one,
or a gap is seen. A filter on content proves nothing: the previous publication may not have matched
it. 0 says nothing: it is the first, or an older one was forgotten, or refused.
"""

from __future__ import annotations

from pubweave.model.filters.filter import Filter, topic_of
from pubweave.model.ids import ClientId, SubscriptionId
from pubweave.model.publications import Publication, make_publication

TOPICS_REMEMBERED = 10_000
"""Of one publisher."""
PAIRS_REMEMBERED = 100_000
"""Publishers and topics, of one subscriber."""


class PublishedBefore:
    """A publisher's last publication on each topic."""

    def __init__(self) -> None:
        self._last: dict[str, int] = {}

    def turn(self, topic: str, sequence: int) -> int:
        """One more publication; the previous one on its topic, or 0."""
        last = self._last
        previous = last.get(topic, 0)
        if not previous and len(last) >= TOPICS_REMEMBERED:
            del last[next(iter(last))]
        last[topic] = sequence
        return previous

    def take_back(self, publication: Publication) -> None:
        """The latest publication was not sent after all."""
        if publication.previous:
            self._last[publication.topic] = publication.previous
        else:
            self._last.pop(publication.topic, None)

    def refused(self, subject: str) -> None:
        """A broker refused something. If that is the last publication on a topic, the next one says
        nothing; O(topics)."""
        what, _, number = subject.partition(" ")
        if what == "publication" and number.isdigit():
            for topic in [t for t, last in self._last.items() if last == int(number)]:
                del self._last[topic]


class GapDetector:
    """What a subscriber last got of each publisher on the topics that it is sure to get."""

    def __init__(self) -> None:
        self._sure: dict[str | None, dict[SubscriptionId, Filter]] = {}
        """Subscriptions that were confirmed, by their topic."""
        self._last: dict[str, dict[ClientId, int] | None] = {}
        """By topic; None: no subscription is sure to bring all of it."""
        self._pairs = 0

    def confirmed(self, id_: SubscriptionId, filter_: Filter) -> None:
        """From now on everything comes that a subscription wants."""
        self._sure.setdefault(topic_of(filter_), {})[id_] = filter_
        for topic in [topic for topic, last in self._last.items() if last is None]:
            del self._last[topic]

    def unsubscribed(self, id_: SubscriptionId, filter_: Filter) -> None:
        """O(topics), for a subscription to one topic O(subscriptions to it)."""
        named = topic_of(filter_)
        among = self._sure.get(named, {})
        if among.pop(id_, None) is None:
            return
        if not among:
            del self._sure[named]
        for topic in [named] if named is not None else list(self._last):
            if topic in self._last and not self._is_sure(topic):
                del self._last[topic]

    def missed(self, topic: str, publisher: ClientId) -> None:
        """A broker has told of the gap before what comes next."""
        (self._last.get(topic) or {}).pop(publisher, None)

    def check(self, publication: Publication) -> int:
        """The sequence behind which there is a gap before this publication; 0: none is seen.

        Of each publisher and topic in order, without duplicates."""
        topic = publication.topic
        if topic not in self._last:
            self._last[topic] = {} if self._is_sure(topic) else None
        last = self._last[topic]
        if last is None:
            return 0
        after = last.get(publication.publisher)
        last[publication.publisher] = publication.sequence
        if after is None:
            self._note_pair()
            return 0
        return after if publication.previous > after else 0

    def _note_pair(self) -> None:
        self._pairs += 1
        if max(self._pairs, len(self._last)) > PAIRS_REMEMBERED:
            self._last.clear()
            self._pairs = 0

    def _is_sure(self, topic: str) -> bool:
        """Whether a subscription brings a topic whatever the attributes: without any, only a
        filter on nothing but the topic matches."""
        bare = make_publication("", 0, topic, {}, b"", 0.0)
        return any(
            filter_.matches(bare)
            for named in (topic, None)
            for filter_ in self._sure.get(named, {}).values()
        )
