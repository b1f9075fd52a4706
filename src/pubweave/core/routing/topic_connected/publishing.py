"""Publishing where publications have many ways: what is a copy is told by publisher and topic.

See `publishing` for the rest. A publication is taken in once, kept for a while (`topic_log`) and
passed on at once to every neighbor that takes part in its topic, except the one it came from.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pubweave.core.dataplane.publishing import OtherMessage, Publishing, Routes
from pubweave.core.routing.topic_connected.routing import TopicRouting
from pubweave.core.session.session import Session
from pubweave.core.vocabulary.rare_branches import Branch, sometimes
from pubweave.model.messages.session import Message
from pubweave.model.publications import Publication


class TopicPublishing(Publishing):
    """Routes batches of publications in a topic-connected overlay."""

    def __init__(self, routing: TopicRouting, *args: Any, **kwargs: Any) -> None:
        super().__init__(routing, *args, **kwargs)
        self._topics = routing
        self._logs = routing.logs
        self._is_opened = routing.is_opened

    def route_batch(
        self,
        origin: Session,
        messages: Sequence[Message],
        on_other: OtherMessage,
        received_at: float,
        now: float,
    ) -> Sequence[Message]:
        """As `Publishing.route_batch`; O(publications x destinations). Nobody waits here."""
        sizes: list[int] = []
        self._topics.now = now
        routed = 0
        routes = self._routes_of(origin)
        try:
            for message in messages:
                if type(message) is Publication:
                    sizes.append(message.size_bytes)
                    routed += self._route_one(origin, message, routes, received_at, now)
                else:
                    on_other(origin, message, now)
                    routes = self._routes_of(origin)  # tables may have changed
        finally:
            self._count(origin, len(sizes), routed, sum(sizes))
        return ()

    def _route_one(
        self,
        origin: Session,
        message: Publication,
        routes: Routes,
        received_at: float,
        now: float,
    ) -> bool:
        """Whether a publication was news, and allowed."""
        log = self._logs.get(message.topic)
        if not origin.is_client and not self._is_opened(origin, message.topic):
            return False  # it was sent for an earlier part of ours in the topic, or comes again
        if log is not None and not log.is_new(message):
            self._counters.duplicates_dropped += 1
            sometimes(Branch.TOPIC_DUPLICATE)
            if log.is_late(message):
                sometimes(Branch.LATE_PUBLICATION)
                # Not new and yet never seen: its publisher went on elsewhere before it came.
                # Clients here may have got it elsewhere, or not want it.
                self._counters.publications_lost_at_most += 1
                log.dropped.add(*message.key, now)
            return False
        route = routes.get(message.topic)
        if route is None:
            route = self._route(message, origin, routes)
            if route is None:
                return False
        elif origin.is_client and not self._is_sound(origin, message):
            return False
        if log is None:
            return False
        if origin.is_client:
            self._last_sequence[message.publisher] = message.sequence
            message = self._amended(message, False, now) if self._skipped else message
        self._logs.append(log, message, now)
        self._touched.update(dict.fromkeys(route))
        for destination in route:
            destination.pending.append(message)
        if origin.is_client and self._on_accepted is not None:
            self._on_accepted(origin, message, now)
        if self._meter is not None:
            self._note(message, origin, route, received_at, now)
        return True
