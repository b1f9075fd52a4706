"""How sessions of a broker end: a client that leaves or is given up, a link that is removed."""

from __future__ import annotations

from collections.abc import Callable

from pubweave.core.dataplane.outgoing import OutgoingQueue
from pubweave.core.metering.counters import Counters
from pubweave.core.metering.recorder import BrokerMeter
from pubweave.core.routing.strategy import RoutingStrategy
from pubweave.core.session.backpressure import FlowControl
from pubweave.core.session.session import Session
from pubweave.core.session.table import SessionTable
from pubweave.core.vocabulary.effects import CloseConnection
from pubweave.core.vocabulary.events import ConnectionId
from pubweave.model.ids import BrokerId
from pubweave.model.telemetry import LinkChange


class SessionTeardown:
    """Takes sessions out of all that knows of them."""

    def __init__(
        self,
        sessions: SessionTable,
        routing: RoutingStrategy,
        sending: OutgoingQueue,
        flow: FlowControl,
        counters: Counters,
        meter: BrokerMeter | None,
    ) -> None:
        self._sessions = sessions
        self._routing = routing
        self._sending = sending
        self._flow = flow
        self._counters = counters
        self._meter = meter
        self.on_end: Callable[[Session], None] = lambda session: None
        """Also hears of every end."""
        self.on_link_down: Callable[[float], None] = lambda now: None
        """Hears that the connection of a link is gone."""

    def end(self, session: Session, reason: str, now: float) -> None:
        """Forget a session; what was queued for it is gone."""
        self._sessions.discard(session, reason, now, self._sending.effects)
        session.restart()
        self._sending.touched.pop(session, None)
        self.on_end(session)
        self._flow.discard(session, self._sending.effects)

    def expire(self, client: Session, reason: str, now: float) -> None:
        """Give a client up that did not wish it."""
        self._counters.clients_expired += 1
        self._counters.session_lost(client, is_replayed=self._routing.replays)
        self.withdraw(client, reason, now)

    def leave(self, client: Session, reason: str, now: float) -> None:
        """A client leaves as it wished, or was told; what it did not wait for is counted."""
        self._counters.notifications_left += client.queue_messages + len(client.pending)
        self.withdraw(client, reason, now)

    def withdraw(self, client: Session, reason: str, now: float) -> None:
        """A client is not ours any more; its session goes on elsewhere, or has been counted."""
        self._routing.client_left(client)
        if self._meter is not None:
            self._meter.client_left(client.remote, now)
        self.end(client, reason, now)

    def disconnected(self, origin: Session, now: float) -> None:
        """The far end ends its connection; its session waits for the next one."""
        connection = origin.connection
        if connection is not None:
            self._sessions.closed(connection, now)
            self._sending.effects.append(
                CloseConnection(connection, "the far end closed the connection")
            )

    def closed(self, connection: ConnectionId, now: float) -> None:
        """A connection is gone; its session waits for the next one."""
        session = self._sessions.closed(connection, now)
        if session is None or session.is_client:
            return
        self.on_link_down(now)
        if self._meter is not None:
            self._meter.link_changed(session.remote, LinkChange.DOWN, now)

    def link_changed(self, neighbor: BrokerId, is_added: bool, now: float) -> None:
        """A link of the topology came or went."""
        if self._meter is not None:
            change = LinkChange.ADDED if is_added else LinkChange.REMOVED
            self._meter.link_changed(neighbor, change, now)
