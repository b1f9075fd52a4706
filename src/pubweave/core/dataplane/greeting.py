"""Sessions that begin or go on, and links that come and go."""

from __future__ import annotations

from pubweave.core.dataplane.part import BrokerParts
from pubweave.core.dataplane.publishing import EarlyLog
from pubweave.core.dataplane.services import BrokerServices
from pubweave.core.routing.strategy import RoutingStrategy
from pubweave.core.session.session import OvertakenError, RemoteProtocolError, Session
from pubweave.core.vocabulary.events import ConnectionId, LinkAdded, LinkRemoved
from pubweave.model.messages.session import Hello, Message, SequencedMessage
from pubweave.model.telemetry import LinkChange


class Greeting:
    """Greets those who say Hello, and begins and ends links."""

    def __init__(
        self, services: BrokerServices[RoutingStrategy], parts: BrokerParts, early: EarlyLog
    ) -> None:
        self._services = services
        self._parts = parts
        self._early = early

    def greet(self, connection: ConnectionId, message: Message, now: float) -> Session:
        """A Hello came: the session it is about, which goes on or begins anew."""
        if not isinstance(message, Hello):
            raise RemoteProtocolError("the first message must be Hello")
        services, routing = self._services, self._services.routing
        effects, meter = services.outgoing.effects, services.meter
        last_sequence = services.sequences.of(message.id)
        session, resumed = services.sessions.greet(
            connection, message, self._parts, last_sequence, effects
        )
        session.heard_at = now
        if meter is not None and not session.is_client:
            meter.link_changed(session.remote, LinkChange.UP, now)
        if resumed:
            routing.client_greeted(session, is_returning=False)
            session.retransmit(effects)
            return session
        # Who comes back where what is kept is replayed gets it, or is told that it is gone.
        if session.is_client and not (routing.replays and message.remote_epoch):
            services.counters.session_lost(session, is_replayed=False)
        held = session.restart()
        services.grace.discard(session)
        services.sessions.access.forget(session)
        services.routes.pop(session, None)
        if session.is_client:
            # Another incarnation of the client: nothing of the old one is its concern.
            routing.client_left(session)
            routing.client_greeted(session, is_returning=bool(message.remote_epoch))
            if meter is not None:
                meter.client_attached(session.remote, now)
        else:
            self._link_began(session, held, now)
        services.relieve(session)
        return session

    def greet_late(self, connection: ConnectionId, hello: Hello, now: float) -> None:
        """A Hello that had to wait; its connection may be gone by now."""
        services = self._services
        if not services.sessions.is_known(connection):
            return
        try:
            self.greet(connection, hello, now)
        except RemoteProtocolError as error:
            services.counters.protocol_errors += not isinstance(error, OvertakenError)
            services.sessions.drop(connection, str(error), now, services.outgoing.effects)

    def _link_began(self, link: Session, under_way: list[SequencedMessage], now: float) -> None:
        """Tables are told afresh; publications that were under way go again after them."""
        is_seen_to = False
        for link_begins in self._parts.link_begins:
            is_seen_to |= link_begins(link, under_way, now)
        if not is_seen_to:
            self._services.routing.link_began(link, under_way)
        for link_began in self._parts.link_began:
            link_began(link, now)

    def link_added(self, event: LinkAdded, now: float) -> None:
        """A neighbor belongs to the topology now."""
        services, neighbor = self._services, event.neighbor
        added = services.sessions.add_link(neighbor)
        if added is None:
            return
        added.down_since = now
        services.routing.link_added(added)
        if not self._early.is_over(now):
            for publication in self._early.published():
                services.send(added, publication)
        services.teardown.link_changed(neighbor, True, now)
        for link_added in self._parts.link_added:
            link_added(neighbor, now)

    def link_removed(self, event: LinkRemoved, now: float) -> None:
        """A neighbor does not belong to the topology any more."""
        neighbor = event.neighbor
        if any([seen_to(neighbor, now) for seen_to in self._parts.link_removed]):
            return
        services = self._services
        session = services.sessions.links.get(neighbor)
        if session is not None:
            services.routing.link_removed(session)
            services.teardown.link_changed(neighbor, False, now)
            services.teardown.end(session, "the link was removed", now)
