"""Delays the acknowledgement of a subscription until this broker receives the topic's publications.

A broker that is new to a topic takes a moment to be connected in it. Until then the client's
acknowledgements are withheld, as those of a congested publisher are (`core.session.backpressure`):
so a client that awaits the confirmation of its subscription, and then publishes elsewhere, receives
that. The delay is limited; a topic without other brokers is connected at once.
"""

from __future__ import annotations

from collections.abc import Callable

from pubweave.core.config.session import SessionLimits
from pubweave.core.dataplane.services import BrokerServices
from pubweave.core.routing.topic_connected.link_monitor import LinkMonitor
from pubweave.core.routing.topic_connected.membership_map import MembershipMap, MembershipView
from pubweave.core.routing.topic_connected.routing import TopicRouting
from pubweave.core.session.session import Session
from pubweave.core.vocabulary.rare_branches import Branch, sometimes


class SubscribeBarrier:
    """The clients whose acknowledgements are withheld; ``view`` returns the map's current view."""

    def __init__(
        self,
        services: BrokerServices[TopicRouting],
        links: LinkMonitor,
        map_: MembershipMap,
        view: Callable[[], MembershipView],
    ) -> None:
        self._services = services
        self._links = links
        self._map = map_
        self._view = view
        self._limit_s = services.config.topics.subscribe_limit_s
        # A cause to withhold acknowledgements, as congested sessions are.
        self._gate = Session("", own_epoch=0, is_client=False, limits=SessionLimits())
        self._waiting: dict[Session, dict[str, float | None]] = {}
        """By client: the awaited topics, and since when they were first checked."""
        self.given_up = 0
        """How many subscriptions were acknowledged because of the limit."""

    def subscribed(self, client: Session, topic: str) -> None:
        """A client has subscribed; O(links), and O(map) if that has changed."""
        if topic in self._waiting.get(client, ()) or self.is_reached(topic):
            return
        self._waiting.setdefault(client, {})[topic] = None
        self._services.flow.withhold(client, self._gate)

    def is_reached(self, topic: str) -> bool:
        """Whether a topic's publications reach this broker, as far as known: it is announced, all
        its brokers are connected on the map, and every neighbor has confirmed to send them.

        A neighbor's answer follows all that it knew of the overlay when the link began; so a
        neighbor that is not on the map yet may bring new records, and is awaited."""
        routing, view = self._services.routing, self._view()
        if self._map.records[self._map.own].is_leaving:
            return True
        if topic not in self._map.records[self._map.own].topics or topic in view.pieces:
            return False
        if not self._knows_all_brokers():
            return False
        members = view.members.get(topic, ())
        for neighbor in self._links.standing():
            link = self._services.sessions.links.get(neighbor)
            if link is not None and link.is_established:
                if not routing.is_opened(link, topic):
                    return False
            elif neighbor in members or neighbor not in self._map.records:
                return False
        return True

    def _knows_all_brokers(self) -> bool:
        """Whether every broker named as a neighbor has a record: two that join at the same time,
        one through the other, learn of the rest late. O(links on the map)."""
        records = self._map.records
        return all(n in records for record in records.values() for n in record.links)

    def restored(self) -> None:
        """The broker was restored: all waiting times begin again."""
        for waited in self._waiting.values():
            waited.update(dict.fromkeys(waited))

    def check(self, now: float) -> None:
        """Acknowledge subscriptions that need not wait any longer."""
        if not self._waiting:
            return
        topics = {topic for waited in self._waiting.values() for topic in waited}
        reached = {topic for topic in topics if self.is_reached(topic)}
        for client, waited in list(self._waiting.items()):
            for topic, since in list(waited.items()):
                is_late = since is not None and now - since > self._limit_s
                if topic in reached or is_late:
                    if topic not in reached:
                        self.given_up += 1
                        sometimes(Branch.BARRIER_TIMED_OUT)
                    del waited[topic]
                elif since is None:
                    waited[topic] = now
            if not waited:
                self._release(client)

    def _release(self, client: Session) -> None:
        del self._waiting[client]
        self._services.flow.resume(client, self._gate, self._services.outgoing.effects)
