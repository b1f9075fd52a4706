"""Clusters whose gateways reach the ring through this broker (DYNATOPS section 7, hybrid network).

A cluster is a topic-connected overlay of its own; one of its brokers, the gateway, has a link here
(`topic_gateway`). What the gateway wants is what the whole cluster wants: for this broker it is as
if a client had subscribed to these topics and advertised them. In turn this broker wants the same
topics of the gateway. Marks and logs are the same on both sides of the link (`topic_log`), so the
argument for order and completeness holds across it.
"""

from __future__ import annotations

from pubweave.core.rendezvous_routing import RendezvousRouting
from pubweave.core.session_table import SessionTable
from pubweave.model.ids import BrokerId
from pubweave.model.messages import Hello, Role
from pubweave.model.topic_messages import TOPIC_PROTOCOL


class AttachedClusters:
    """The gateways that are linked with one broker of a ring, and what they want of it."""

    def __init__(self, sessions: SessionTable, routing: RendezvousRouting) -> None:
        self._sessions = sessions
        self._routing = routing
        self.gateways: dict[BrokerId, None] = {}
        self._held: dict[str, None] = {}
        """Topics that gateways want."""
        sessions.is_beyond = self.is_gateway

    def is_gateway(self, hello: Hello) -> bool:
        """Whether a Hello is one of a cluster's broker that is no neighbor on the ring."""
        is_ours = hello.id in self._sessions.links and hello.id not in self.gateways
        return hello.role is Role.BROKER and hello.routing == TOPIC_PROTOCOL and not is_ours

    def forgotten(self, neighbor: BrokerId) -> None:
        """A link is over for good."""
        self.gateways.pop(neighbor, None)

    def look(self) -> None:
        """Hold what gateways want now, and nothing else. O(topics of gateways)."""
        wanted: dict[str, None] = {}
        for name in list(self.gateways):
            link = self._sessions.links.get(name)
            if link is None:
                self.forgotten(name)
            else:
                wanted.update(dict.fromkeys(self._routing.wanted.get(link, ())))
        for topic in [topic for topic in self._held if topic not in wanted]:
            del self._held[topic]
            self._routing.release(topic)
        for topic in wanted:
            if topic not in self._held:
                self._held[topic] = None
                self._routing.hold(topic)
