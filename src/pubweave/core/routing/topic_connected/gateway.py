"""A broker of a topic-connected overlay as the overlay's gateway to a ring of rendezvous brokers.

DYNATOPS section 7: clusters of unstructured overlays, of which only gateways join the structured
core. A gateway has a link with a broker of the ring (`rendezvous/clusters`) besides those of its
own overlay. Of all gateways that have one the first by name is *in charge*: it takes part in every
topic of the cluster, which it knows from the map (`topic_connected/membership_map`), and wants
these of the ring, which wants them of it. So a publication crosses the border once each way.

If the gateway in charge, or its link, is lost, the map says so to everybody, and the next one takes
over: as new to the topics it gets what is kept on both sides, and what has crossed before is
dropped by its marks. Two in charge at once do no harm but to send copies. If there is none, whoever
was in charge takes part on, and everybody keeps what the ring misses.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

from pubweave.core.dataplane.services import BrokerServices
from pubweave.core.routing.topic_connected.link_monitor import LinkMonitor
from pubweave.core.routing.topic_connected.routing import TopicRouting
from pubweave.core.session.session import Session
from pubweave.model.ids import BrokerId
from pubweave.model.messages.rendezvous import RENDEZVOUS_PROTOCOL
from pubweave.model.messages.session import Hello, Role
from pubweave.model.messages.topic_connected import BrokerRecord


class RingGateway:
    """What one broker does for its cluster at the border; nothing unless it has links there."""

    def __init__(self, services: BrokerServices[TopicRouting]) -> None:
        self._services = services
        self._id = services.config.id
        self.ring = frozenset(services.config.topics.ring)
        """Brokers of the ring that this one has links with."""
        self.links = LinkMonitor(services, lambda broker: "")
        self.links.lasting = self.ring
        self.in_charge: BrokerId | None = None
        """The cluster's gateway, as far as this broker knows; None: the cluster is on its own."""
        self._crossed_at = -math.inf
        """When a gateway was in charge last."""
        self._keep_until = -math.inf
        self._crossing: frozenset[str] = frozenset()
        """Topics that whoever is in charge takes part in; of this broker: that the ring wants."""
        self._held: dict[str, None] = {}
        """Topics in which this broker takes part for the cluster."""
        services.routing.outside = self.ring

    def is_ring_broker(self, hello: Hello) -> bool:
        """Whether a Hello is one of a broker of the ring that we were told of."""
        is_told = hello.role is Role.BROKER and hello.id in self.ring
        return is_told and hello.routing == RENDEZVOUS_PROTOCOL

    def _border(self) -> Session | None:
        """The link over which everything goes: the first that stands."""
        for name in sorted(self.ring):
            session = self._services.sessions.links.get(name)
            if session is not None and session.is_established:
                return session
        return None

    @property
    def is_linked(self) -> bool:
        """Whether this broker could be in charge."""
        return self._border() is not None

    def keeps_all(self, now: float) -> bool:
        """Whether nobody of the cluster reaches the ring, or did not until a moment ago: what it
        publishes is kept for the gateway that comes next."""
        return now < self._keep_until

    def is_missed(self, topic: str) -> bool:
        """Whether the ring has yet to ask for a topic: what was published on it has to wait,
        though nobody here publishes or subscribes any more."""
        if self.in_charge is None:
            return self.keeps_all(self._services.routing.now)
        return topic not in self._crossing

    def _note_crossing(self, now: float) -> None:
        topics = self._services.config.topics
        if self.in_charge is not None:
            self._crossed_at = now
        elif self.ring or now - self._crossed_at < topics.forget_after_s:
            self._keep_until = now + topics.keep_s

    def excuse(self, seconds: float) -> None:
        """This broker did not run for so long."""
        self.links.excuse(seconds)
        self._crossed_at += seconds
        self._keep_until += seconds

    def check(
        self, present: Mapping[BrokerId, BrokerRecord], *, is_leaving: bool, now: float
    ) -> None:
        """See who is in charge, and act if it is us. O(brokers), and O(topics of all) if it is."""
        self.links.check(now)
        others = {name: record for name, record in present.items() if name != self._id}
        linked = [n for n, record in others.items() if record.is_gateway and not record.is_leaving]
        if self.is_linked and not (is_leaving and linked):
            linked.append(self._id)
        self.in_charge = min(linked, default=None)
        self._note_crossing(now)
        self._crossing = self._crossed_by(others)
        if not self.ring:
            return
        if self.in_charge == self._id:
            self._hold({topic for record in others.values() for topic in record.topics})
        elif self.in_charge is not None:
            self._hold(set())
        self._ask()

    def _crossed_by(self, others: Mapping[BrokerId, BrokerRecord]) -> frozenset[str]:
        border = self._border() if self.in_charge == self._id else None
        if border is not None:
            return frozenset(self._services.routing.wanted.get(border, ()))
        record = others.get(self.in_charge or "")
        return frozenset(record.topics if record is not None else ())

    def _hold(self, topics: set[str]) -> None:
        routing = self._services.routing
        for topic in [topic for topic in self._held if topic not in topics]:
            del self._held[topic]
            routing.release(topic)
        for topic in sorted(topics - self._held.keys()):
            self._held[topic] = None
            routing.hold(topic)

    def _ask(self) -> None:
        """Want everything over the border, or nothing."""
        routing = self._services.routing
        border = self._border() if self.in_charge == self._id else None
        for name in sorted(self.ring):
            session = self._services.sessions.links.get(name)
            if session is None:
                continue
            # Also what nobody claims any more: of what is kept the ring may not have all.
            wanted = routing.topics if session is border else {}
            for topic in [t for t in routing.asked.get(session, ()) if t not in wanted]:
                routing.ask(session, topic, wants=False)
            for topic in wanted:
                routing.ask(session, topic, wants=True)
