"""Redirects clients to another broker's gateway, by MQTT 5's "use another server".

The session stays here until its client connects there and claims it (`cluster/handover`), so
nothing is lost, and a client that returns instead finds everything as it was. Clients are
redirected one at a time, when nothing is unanswered, and no gateway redirects one again for a
while. A broker that leaves the overlay redirects them for good: "server moved".
"""

from __future__ import annotations

from collections import deque
from math import inf

import msgspec

from pubweave.core.mqtt.cluster.gossip import GatewayGossip
from pubweave.core.mqtt.connections import ConnectionTable
from pubweave.core.mqtt.services import MqttServices
from pubweave.core.mqtt.session.cluster_messages import Redirected
from pubweave.core.mqtt.session.connection import MqttError
from pubweave.core.mqtt.session.session import MqttSession, session_of
from pubweave.core.mqtt.session.table import MqttSessionTable
from pubweave.model.ids import BrokerId, ClientId
from pubweave.model.mqtt_packets import Reason

HELD_MAX = 100_000
CHECK_EVERY_S = 0.05
"""How often clients with unanswered packets are checked."""


class PendingRedirect(msgspec.Struct, frozen=True):
    """A redirection to be sent when the client has its answers and it is its turn."""

    session: str
    address: str
    reason: Reason
    text: str
    until: float
    """From then on it is sent in any case."""


class ClientRedirector:
    """Redirections that are pending, and clients that were redirected lately."""

    def __init__(
        self,
        services: MqttServices,
        sessions: MqttSessionTable,
        gossip: GatewayGossip,
        connections: ConnectionTable,
    ) -> None:
        self._services = services
        self._config = services.config
        self._sessions = sessions
        self._gossip = gossip
        self._connections = connections
        self._pending: deque[PendingRedirect] = deque()
        self._next_at = 0.0
        self.redirected = 0
        self._held_until: dict[str, float] = {}

    def redirect(self, client: ClientId, destination: BrokerId, now: float) -> str | None:
        """Redirect a client: why it cannot be, empty if it will be; None if it is no client of this
        gateway."""
        name = session_of(client)
        session = self._sessions.by_name.get(name)
        if session is None:
            return None
        address = self._gossip.addresses.get(destination, "")
        if session.connection is None or not session.connection.is_v5:
            return f"{client} cannot be redirected: only connected MQTT 5 clients can"
        if not session.expiry_s and session.subscriptions.wants_acknowledged:
            return f"{client} cannot be redirected: its session ends with its connection"
        if not address:
            return f"no door of {destination} is known"
        if self._held_until.get(name, now) > now:
            return f"{client} was redirected lately"
        text = "another broker is closer"
        self._enqueue(name, address, Reason.USE_ANOTHER_SERVER, text, now)
        return ""

    def leave(self, session: MqttSession, text: str, now: float) -> None:
        """This broker leaves the overlay: redirect a client for good. One that cannot be told, and
        has no session to return to, stays until the broker stops. A session that its client does
        not claim is handed over without it (`mqtt/evacuation`)."""
        address = self._other_address(session.name)
        connection = session.connection
        if connection is not None and address and (connection.is_v5 or session.expiry_s):
            self._enqueue(session.name, address, Reason.SERVER_MOVED, text, now)

    def elsewhere(self, session: str, now: float) -> str:
        """The address of another gateway for a client that is refused here; empty if there is none
        or the client was just redirected here."""
        address = self._other_address(session)
        if not address or self._held_until.get(session, now) > now:
            return ""
        self._hold_everywhere(session, now)
        self.redirected += 1
        return address

    def _other_address(self, session: str) -> str:
        return self._gossip.addresses.get(self._gossip.gateway_for(session), "")

    def _hold_everywhere(self, session: str, now: float) -> None:
        """At all gateways."""
        self.hold(session, now)
        self._gossip.publish(Redirected(session), now)

    def _enqueue(self, session: str, address: str, reason: Reason, text: str, now: float) -> None:
        self._hold_everywhere(session, now)
        until = now + self._config.redirect_drain_s
        self._pending.append(PendingRedirect(session, address, reason, text, until))
        self.on_deadline(now)

    def hold(self, session: str, now: float) -> None:
        """Do not redirect a client again for a while."""
        if len(self._held_until) >= HELD_MAX:
            del self._held_until[next(iter(self._held_until))]
        self._held_until.pop(session, None)
        self._held_until[session] = now + self._config.redirect_hold_s

    def on_deadline(self, now: float) -> None:
        self._send(now)
        self._services.deadlines.set("redirect", self._next_at if self._pending else inf)

    def _send(self, now: float) -> None:
        """Redirect the first client that is ready. O(pending)."""
        for _ in range(len(self._pending) if now >= self._next_at else 0):
            pending = self._pending.popleft()
            session = self._sessions.by_name.get(pending.session)
            if session is None or session.connection is None:
                continue
            if not session.is_drained and now < pending.until:
                self._pending.append(pending)
                continue
            self._next_at = now + self._config.redirect_every_s
            self.redirected += 1
            session.will = None  # it disconnects because it is redirected
            error = MqttError(pending.reason, pending.text, pending.address)
            self._connections.end(session.connection, error, now)
            return
        self._next_at = max(self._next_at, now + CHECK_EVERY_S)
