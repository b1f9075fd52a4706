"""Sessions of a broker that leaves the overlay, whose clients are not there to take them along.

They are given to other doors, a few at a time, by the same handover as those whose clients have
connected elsewhere (`cluster/handover`). A client that connects anywhere meanwhile goes before.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf

from pubweave.core.mqtt.cluster.gossip import GatewayGossip
from pubweave.core.mqtt.cluster.handover import SessionHandover
from pubweave.core.mqtt.session.table import MqttSessionTable

LOOK_S = 0.1
AT_ONCE = 20
"""So many sessions are on their way at the same time."""
RETURN_S = 1.0
"""So long a client that was sent elsewhere may take to fetch its session."""


class SessionEvacuation:
    """Which sessions have to go, and from when on without their clients."""

    def __init__(
        self,
        sessions: MqttSessionTable,
        doors: GatewayGossip,
        moving: SessionHandover,
        is_leaving: Callable[[], bool],
    ) -> None:
        self._sessions = sessions
        self._doors = doors
        self._moving = moving
        self._is_leaving = is_leaving
        self._from: dict[str, float] = {}
        self.deadline = inf

    def add(self, session: str, now: float) -> None:
        self._from[session] = now
        self.deadline = now

    def on_deadline(self, now: float) -> None:
        """O(sessions that have to go)."""
        if now < self.deadline:
            return
        if not self._is_leaving():  # or no longer
            self._from.clear()
        room = AT_ONCE
        for name, since in list(self._from.items()):
            session = self._sessions.get(name)
            if session is None:
                del self._from[name]
            elif session.connection is not None:
                self._from[name] = now + RETURN_S
            elif self._moving.is_under_way(session, now):
                room -= 1
            elif now >= since and room > 0 and (door := self._doors.another_for(name)):
                room -= 1
                self._moving.give_away(session, door, now)
        self.deadline = now + LOOK_S if self._from else inf
