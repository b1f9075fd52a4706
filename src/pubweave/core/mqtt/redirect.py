"""Clients that are sent to another broker's door, by MQTT 5's "use another server".

The session stays here until its client connects there and claims it (`cluster/handover`), so
nothing is lost, and a client that comes back instead finds everything as it was. Clients are sent
one after the other, never all at once, each when it has its answers, and none again before it had
time to settle, at any door. From a broker that leaves the overlay they go for good: "server moved".
"""

from __future__ import annotations

from collections import deque
from math import inf

import msgspec

from pubweave.core.config.mqtt import MqttConfig
from pubweave.core.mqtt.cluster.gossip import GatewayGossip
from pubweave.core.mqtt.connections import ConnectionTable
from pubweave.core.mqtt.session.cluster_messages import Redirected
from pubweave.core.mqtt.session.connection import MqttError
from pubweave.core.mqtt.session.session import MqttSession, session_of
from pubweave.core.mqtt.session.table import MqttSessionTable
from pubweave.model.ids import BrokerId, ClientId
from pubweave.model.mqtt_packets import Reason

RESTING_MAX = 100_000
LOOK_S = 0.05
"""How often clients that wait for answers are looked at."""


class PendingRedirect(msgspec.Struct, frozen=True):
    """A client that is to go, as soon as it has its answers and it is its turn."""

    session: str
    address: str
    reason: Reason
    text: str
    until: float
    """It goes then in any case."""


class ClientRedirector:
    """Who is to be sent where, and who has been lately."""

    def __init__(
        self,
        config: MqttConfig,
        sessions: MqttSessionTable,
        doors: GatewayGossip,
        comings: ConnectionTable,
    ) -> None:
        self._config = config
        self._sessions = sessions
        self._doors = doors
        self._comings = comings
        comings.elsewhere = self.elsewhere
        self._waiting: deque[PendingRedirect] = deque()
        self._next_at = 0.0
        self.redirected = 0
        self._resting: dict[str, float] = {}

    def redirect(self, client: ClientId, destination: BrokerId, now: float) -> str | None:
        """Send a client to another door: empty if it is or will be, else why it is not; None: it
        is no client of this door."""
        name = session_of(client)
        session = self._sessions.get(name)
        if session is None:
            return None
        address = self._doors.addresses.get(destination, "")
        if session.connection is None or not session.connection.is_v5:
            return f"{client} cannot be redirected: only connected MQTT 5 clients can"
        if not session.expiry_s and session.subscriptions.wants_acknowledged:
            return f"{client} cannot be redirected: its session ends with its connection"
        if not address:
            return f"no door of {destination} is known"
        if self._resting.get(name, now) > now:
            return f"{client} was redirected lately"
        text = "another broker is closer"
        self._depart(name, address, Reason.USE_ANOTHER_SERVER, text, now)
        return ""

    def leave(self, session: MqttSession, text: str, now: float) -> None:
        """This broker leaves the overlay: a client of it has to go for good, wherever it is let
        in. Who cannot be told, and has no session to come back to, stays until the broker is gone.
        A session that its client does not fetch goes by itself (`mqtt/evacuation`)."""
        address = self._other_door(session.name)
        connection = session.connection
        if connection is not None and address and (connection.is_v5 or session.expiry_s):
            self._depart(session.name, address, Reason.SERVER_MOVED, text, now)

    def elsewhere(self, session: str, now: float) -> str:
        """Where a client may try that cannot be let in here; empty: nowhere, or it was sent here
        just now."""
        address = self._other_door(session)
        if not address or self._resting.get(session, now) > now:
            return ""
        self._let_rest(session, now)
        self.redirected += 1
        return address

    def _other_door(self, session: str) -> str:
        return self._doors.addresses.get(self._doors.another_for(session), "")

    def _let_rest(self, session: str, now: float) -> None:
        """Here and at all doors."""
        self.rest(session, now)
        self._doors.say(Redirected(session), now)

    def _depart(self, session: str, address: str, reason: Reason, text: str, now: float) -> None:
        self._let_rest(session, now)
        until = now + self._config.redirect_drain_s
        self._waiting.append(PendingRedirect(session, address, reason, text, until))
        self._send(now)

    def rest(self, session: str, now: float) -> None:
        """Leave a client alone for a while: it has been sent somewhere."""
        if len(self._resting) >= RESTING_MAX:
            del self._resting[next(iter(self._resting))]
        self._resting.pop(session, None)
        self._resting[session] = now + self._config.redirect_hold_s

    @property
    def deadline(self) -> float:
        return self._next_at if self._waiting else inf

    def on_deadline(self, now: float) -> None:
        self._send(now)

    def _send(self, now: float) -> None:
        """Whoever is ready, in turn. O(clients that wait)."""
        for _ in range(len(self._waiting) if now >= self._next_at else 0):
            departure = self._waiting.popleft()
            session = self._sessions.get(departure.session)
            if session is None or session.connection is None:
                continue
            if not session.is_drained and now < departure.until:
                self._waiting.append(departure)
                continue
            self._next_at = now + self._config.redirect_every_s
            self.redirected += 1
            session.will = None  # it goes because it was told to
            error = MqttError(departure.reason, departure.text, departure.address)
            self._comings.end(session.connection, error, now)
            return
        self._next_at = max(self._next_at, now + LOOK_S)
