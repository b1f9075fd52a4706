"""Hands over the sessions of a broker that leaves the overlay while their clients are away.

Other gateways receive them, a few at a time, by the same handover as when a client connects
elsewhere (`cluster/handover`). A client that connects anywhere meanwhile takes precedence.
"""

from __future__ import annotations

from math import inf

from pubweave.core.mqtt.cluster.gossip import GatewayGossip
from pubweave.core.mqtt.cluster.handover import SessionHandover
from pubweave.core.mqtt.services import MqttServices
from pubweave.core.mqtt.session.table import MqttSessionTable

CHECK_EVERY_S = 0.1
AT_ONCE = 20
"""Sessions in handover at the same time."""
RETURN_S = 1.0
"""How long a redirected client may take to claim its session."""


class SessionEvacuation:
    """The sessions to hand over, and from when on without their clients."""

    def __init__(
        self,
        services: MqttServices,
        sessions: MqttSessionTable,
        gossip: GatewayGossip,
        handover: SessionHandover,
    ) -> None:
        self._services = services
        self._sessions = sessions
        self._gossip = gossip
        self._handover = handover
        self._due_at: dict[str, float] = {}
        self._check_at = inf

    def add(self, session: str, now: float) -> None:
        self._due_at[session] = now
        self._check(now)

    def _check(self, at: float) -> None:
        self._check_at = at
        self._services.deadlines.set("evacuation", at)

    def on_deadline(self, now: float) -> None:
        """O(sessions to hand over)."""
        if now < self._check_at:
            return
        if not self._services.is_leaving():
            self._due_at.clear()
        room = AT_ONCE
        for name, due_at in list(self._due_at.items()):
            session = self._sessions.by_name.get(name)
            if session is None:
                del self._due_at[name]
            elif session.connection is not None:
                self._due_at[name] = now + RETURN_S
            elif self._handover.is_under_way(session, now):
                room -= 1
            elif now >= due_at and room > 0 and (gateway := self._gossip.gateway_for(name)):
                room -= 1
                self._handover.offer(session, gateway, now)
        self._check(now + CHECK_EVERY_S if self._due_at else inf)
