"""What is kept for brokers that are away, however old it gets, within ``keep_bytes``.

A broker that was stopped, cut off, or killed with a journal comes back with its clients' sessions,
and everything that was published meanwhile is due to them. Nobody can tell it from one that is
dead. So the topics of whoever is gone are kept for as long as the map knows it
(`TopicConfig.forget_after_s`); and so are topics in pieces, whose other brokers are out of reach.
"""

from __future__ import annotations

from collections.abc import Callable

from pubweave.core.routing.topic_connected.membership_map import MembershipMap, MembershipView
from pubweave.model.ids import BrokerId


class AbsentBrokers:
    """The topics that somebody misses who is away; ``view`` is what the map says now."""

    def __init__(
        self, map_: MembershipMap, view: Callable[[], MembershipView], grace_s: float
    ) -> None:
        self._map = map_
        self._view = view
        self._grace_s = grace_s
        """Whoever is back is known to be back before it has a link that brings what it missed."""
        self._away: dict[BrokerId, float] = {}
        """Who is gone, or was until a moment ago; until when its topics are kept for it."""
        self._broken: dict[str, float] = {}
        """The same of topics in pieces."""
        self.missed: frozenset[str] = frozenset()
        """The topics of which nothing is old, as of the last look."""

    def check(self, now: float) -> None:
        """See what is missed. O(topics of those who are gone)."""
        view, records = self._view(), self._map.records
        until = now + self._grace_s
        self._away.update(dict.fromkeys(view.gone, until))
        self._broken.update(dict.fromkeys(view.pieces, until))
        self._away = {b: at for b, at in self._away.items() if at > now and b in records}
        self._broken = {topic: at for topic, at in self._broken.items() if at > now}
        away = [records[broker] for broker in self._away if not records[broker].is_leaving]
        topics = {topic for record in away for topic in record.topics}
        self.missed = frozenset(topics | self._broken.keys())

    def excuse(self, seconds: float) -> None:
        """This broker did not run for so long, and heard of nobody."""
        self._away = {broker: at + seconds for broker, at in self._away.items()}
        self._broken = {topic: at + seconds for topic, at in self._broken.items()}
