"""Clusters whose gateways reach the ring through this broker (DYNATOPS section 7, hybrid network).

A cluster is a topic-connected overlay of its own; one of its brokers, the gateway, has a link here
(`topic_connected/gateway`). What the gateway wants is what the whole cluster wants: for this broker
it is as if a client had subscribed to these topics and advertised them. In turn this broker wants
the same topics of the gateway. Marks and logs are the same on both sides of the link (`topic_log`),
so the argument for order and completeness holds across it.

A gateway that is away comes back, or another one of its cluster comes instead: until then this
broker wants its topics still, and keeps them however old they get.
"""

from __future__ import annotations

from pubweave.core.routing.rendezvous.routing import RendezvousRouting
from pubweave.core.session.session import Session
from pubweave.core.session.table import SessionTable
from pubweave.model.ids import BrokerId
from pubweave.model.messages.session import Hello, Role
from pubweave.model.messages.topic_connected import TOPIC_PROTOCOL

SAID_WITHIN_S = 2.0
"""How long a returned gateway may take to say what it wants; nothing if not in charge."""


class AttachedClusters:
    """The ring gateways that are linked with one broker of a ring, and the topics they want."""

    def __init__(self, sessions: SessionTable, routing: RendezvousRouting) -> None:
        self._sessions = sessions
        self._routing = routing
        self.gateways: dict[BrokerId, None] = {}
        self._requests: dict[BrokerId, tuple[dict[str, None], float]] = {}
        """By gateway: the topics it wanted last, and when it said so last or was away."""
        self.missed: dict[str, None] = {}
        """Topics of gateways that are away, or have not said yet what they want."""
        self._held: dict[str, None] = {}
        """Topics that gateways want."""

    def is_gateway(self, hello: Hello) -> bool:
        """Whether a Hello is one of a cluster's broker that is no neighbor on the ring."""
        is_ours = hello.id in self._sessions.links and hello.id not in self.gateways
        return hello.role is Role.BROKER and hello.routing == TOPIC_PROTOCOL and not is_ours

    def forgotten(self, neighbor: BrokerId) -> None:
        """A link was removed for good."""
        self.gateways.pop(neighbor, None)
        self._requests.pop(neighbor, None)

    def check(self, now: float) -> None:
        """Hold exactly the topics that gateways want now. O(topics of gateways)."""
        wanted: dict[str, None] = {}
        self.missed = {}
        for name in list(self.gateways):
            link = self._sessions.links.get(name)
            if link is None:
                self.forgotten(name)
            else:
                wanted.update(self._requests_of(name, link, now))
        for topic in [topic for topic in self._held if topic not in wanted]:
            del self._held[topic]
            self._routing.release(topic)
        for topic in wanted:
            if topic not in self._held:
                self._held[topic] = None
                self._routing.hold(topic)

    def _requests_of(self, name: BrokerId, link: Session, now: float) -> dict[str, None]:
        """What a gateway wants; what it wanted, if it is away and its link is not given up."""
        wanted = dict.fromkeys(self._routing.wanted.get(link, ()))
        last, said_at = self._requests.get(name, ({}, now))
        if wanted or not link.is_established:
            said_at = now
        last = wanted or last
        self._requests[name] = last, said_at
        if wanted or now - said_at > SAID_WITHIN_S:
            return wanted
        self.missed.update(last)
        return last
