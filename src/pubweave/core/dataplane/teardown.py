"""Teardown of sessions: clients that leave or expire, links that are removed."""

from __future__ import annotations

from pubweave.core.dataplane.grace import GracePeriods
from pubweave.core.dataplane.outgoing import OutgoingQueue
from pubweave.core.dataplane.publishing import RouteCache
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
    """Removes sessions from everything that refers to them."""

    def __init__(
        self,
        sessions: SessionTable,
        routing: RoutingStrategy,
        outgoing: OutgoingQueue,
        flow: FlowControl,
        routes: RouteCache,
        counters: Counters,
        grace: GracePeriods,
        meter: BrokerMeter | None,
    ) -> None:
        self._sessions = sessions
        self._routing = routing
        self._outgoing = outgoing
        self._flow = flow
        self._routes = routes
        self._counters = counters
        self._grace = grace
        self._meter = meter

    def end(self, session: Session, reason: str, now: float) -> None:
        """Remove a session; what was queued for it is lost."""
        self._sessions.discard(session, reason, now, self._outgoing.effects)
        session.restart()
        self._sessions.access.forget(session)
        self._routes.pop(session, None)
        self._outgoing.touched.pop(session, None)
        self._grace.discard(session)
        self._flow.discard(session, self._outgoing.effects)

    def expire(self, client: Session, reason: str, now: float) -> None:
        """End the session of a client that did not ask for that."""
        self._counters.clients_expired += 1
        self._counters.session_lost(client, is_replayed=self._routing.replays)
        self.withdraw(client, reason, now)

    def leave(self, client: Session, reason: str, now: float) -> None:
        """A client leaves on purpose, or was told to; what was still queued for it is counted."""
        self._counters.notifications_left += client.queue_messages + len(client.pending)
        self.withdraw(client, reason, now)

    def withdraw(self, client: Session, reason: str, now: float) -> None:
        """Withdraw all entries of a client that has left or moved, and end its session."""
        self._routing.client_left(client)
        if self._meter is not None:
            self._meter.client_left(client.remote, now)
        self.end(client, reason, now)

    def disconnected(self, origin: Session, now: float) -> None:
        """The far end ends its connection; its session waits for the next one."""
        connection = origin.connection
        if connection is not None:
            self._sessions.closed(connection, now)
            self._outgoing.effects.append(
                CloseConnection(connection, "the far end closed the connection")
            )

    def closed(self, connection: ConnectionId, now: float) -> Session | None:
        """A connection was closed; its session waits for the next one. The session of a link."""
        session = self._sessions.closed(connection, now)
        if session is None or session.is_client:
            return None
        if self._meter is not None:
            self._meter.link_changed(session.remote, LinkChange.DOWN, now)
        return session

    def link_changed(self, neighbor: BrokerId, is_added: bool, now: float) -> None:
        """A link of the topology was added or removed."""
        if self._meter is not None:
            change = LinkChange.ADDED if is_added else LinkChange.REMOVED
            self._meter.link_changed(neighbor, change, now)
