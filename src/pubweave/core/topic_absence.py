"""Brokers with journals that are away: what is published meanwhile is kept for them for longer.

A broker that is killed and has a journal comes back with its clients' sessions, and everything
that was published meanwhile is due to them. So its topics are kept for as long as the map knows
it (`TopicConfig.forget_after_s`), however old publications get, within ``keep_bytes``. What has
to go before that is lost to it. One broker counts that: the first of those who take part.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from pubweave.core.topic_inside import TopicInside
from pubweave.core.topic_map import TopicMap, TopicView
from pubweave.model.ids import BrokerId


class Absences:
    """Who is away and will come back, as one broker sees it; ``view`` is what its map says now."""

    def __init__(self, inside: TopicInside, map_: TopicMap, view: Callable[[], TopicView]) -> None:
        self._inside = inside
        self._map = map_
        self._view = view
        self._since: dict[BrokerId, float] = {}

    def look(self, now: float) -> dict[str, float]:
        """The topics of those who are away, and since when. O(their topics)."""
        records = self._map.records
        self._since = {
            broker: self._since.get(broker, now)
            for broker in sorted(self._view().gone)
            if records[broker].is_durable and not records[broker].is_leaving
        }
        topics: dict[str, float] = {}
        for broker, since in self._since.items():
            for topic in records[broker].topics:
                topics[topic] = min(since, topics.get(topic, since))
        return topics

    def tidy(self, missed: Mapping[str, float], now: float) -> dict[str, list[float]]:
        """Let go what is old, or too much (`TopicLogs.tidy`), but for what is missed by those who
        are away; ``missed`` is what `look` said before anybody was forgotten."""
        config = self._inside.config.topics
        lasting = self.look(now)
        went = self._inside.routing.logs.tidy(now, config.keep_s, config.keep_bytes, lasting)
        for topic in went.keys() & missed.keys():
            self._inside.counters.publications_lost += self._lost(topic, went[topic], missed[topic])
        return went

    def _lost(self, topic: str, times: Sequence[float], since: float) -> int:
        """How many of those that went, by when they had come, are for this broker to count."""
        view = self._view()
        if topic in view.pieces or self._map.own != min(view.members.get(topic, ("",))):
            return 0
        # It may have taken as long as a silence lasts to notice the absence.
        return sum(at >= since - self._inside.config.silence_limit_s for at in times)

    def excuse(self, seconds: float) -> None:
        """This broker was away itself, and heard of nobody."""
        self._since = {broker: at + seconds for broker, at in self._since.items()}
