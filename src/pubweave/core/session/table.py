"""All sessions of one broker: who is attached, over which connection, since when.

Handshakes, superseded connections, expiry and keep-alive live here. What a session that began
anew or ended means for the tables is the broker's business.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.session.access import Access
from pubweave.core.session.admission import Refusal
from pubweave.core.session.session import (
    LocalEnd,
    OvertakenError,
    RemoteProtocolError,
    Session,
)
from pubweave.core.session.states import SessionState
from pubweave.core.session.tokens import Tokens
from pubweave.core.vocabulary.effects import CloseConnection, Effect, Transmit
from pubweave.core.vocabulary.events import ConnectionId, ConnectionOpened
from pubweave.core.vocabulary.rare_branches import Branch, sometimes
from pubweave.model.ids import BrokerId, ClientId
from pubweave.model.messages.session import PROTOCOL_VERSION, Disconnect, Hello, Message, Ping, Role

OBSERVER_MARK = "$"
"""Ids of clients that only look at a broker begin with this; a broker that leaves the overlay
does not wait for them and goes on to answer them."""


class Exceptions(Protocol):
    """Who is let in although others are not."""

    def accepts_foreign_link(self, hello: Hello) -> bool:
        """Whether a broker that routes otherwise may be a neighbor all the same."""

    def was_redirected_here(self, hello: Hello) -> bool:
        """Whether a client was sent here, and is taken although no further ones are."""


class SessionTable:
    """Sessions with neighbors and clients, found by connection, neighbor or client."""

    def __init__(self, config: BrokerConfig, epoch: int, routing: str) -> None:
        self._config = config
        self._routing = routing
        self._next_epoch = epoch
        self.links: dict[BrokerId, Session] = {}
        self.clients: dict[ClientId, Session] = {}
        self.address = ""
        """Where clients reach this broker, in the words of its driver."""
        self.closed_reason = ""
        """Why no further clients are taken; empty: they are."""
        self._by_connection: dict[ConnectionId, Session] = {}
        self._unknown: dict[ConnectionId, float] = {}
        self._dialed: set[ConnectionId | None] = set()
        self._local: dict[ConnectionId, LocalEnd] = {}
        self.access = Access(config)
        self.tokens = Tokens(config.secret)

    def __iter__(self) -> Iterator[Session]:
        yield from self.links.values()
        yield from self.clients.values()

    def of(self, connection: ConnectionId) -> Session | None:
        return self._by_connection.get(connection)

    def heard(self, connection: ConnectionId, now: float) -> Session | None:
        """The session of a connection on which something came; None: it says Hello first."""
        session = self._by_connection.get(connection)
        if session is None or session.state is not SessionState.ESTABLISHED:
            return None
        session.heard_at = now
        return session

    def is_known(self, connection: ConnectionId) -> bool:
        """Whether a connection is still ours: attached, or about to say Hello."""
        return connection in self._by_connection or connection in self._unknown

    def connections(self) -> list[ConnectionId]:
        """All that stand, whether they have said Hello or not."""
        return [*self._by_connection, *self._unknown]

    def restarted(self, epoch: int, now: float) -> None:
        """This broker is in a new process: clients get their whole time to come back, and sessions
        that begin from here on are told from all that it ever had."""
        self._next_epoch = max(epoch, self._next_epoch)
        for session in self:
            session.down_since = now

    # --- connections -----------------------------------------------------------------------

    def opened(self, event: ConnectionOpened, now: float, effects: list[Effect]) -> None:
        """A connection stands, dialed by us or by somebody."""
        self.access.opened(event.connection, event.certified)
        if event.neighbor is None:
            self.accepted(event.connection, now, effects)
            return
        self.dialed(event.connection, event.neighbor, effects)
        session = self.of(event.connection)
        if session is not None:
            session.heard_at = now

    def dialed(self, connection: ConnectionId, neighbor: BrokerId, effects: list[Effect]) -> None:
        """We reached a neighbor: say Hello and wait for its answer."""
        session = self.links.get(neighbor)
        if session is None:
            effects.append(CloseConnection(connection, f"{neighbor!r} is not a neighbor"))
            return
        self._attach(session, connection, effects)
        self._dialed.add(connection)
        session.attempts += 1
        hello = session.hello(Role.BROKER, self._config.id, routing=self._routing)
        effects.append(Transmit(connection, (hello,)))

    def accepted(self, connection: ConnectionId, now: float, effects: list[Effect]) -> None:
        """Somebody reached us; Hello will tell who."""
        if len(self._unknown) >= self._config.max_unknown_connections:
            most = self._config.max_unknown_connections
            reason = f"{most} connections have not said Hello, the limit"
            effects.append(CloseConnection(connection, reason))
            return
        self._unknown[connection] = now

    def accept_local(self, connection: ConnectionId, end: LocalEnd, user: str, now: float) -> None:
        """A client in this process, whose user was authenticated elsewhere, says Hello next."""
        self._local[connection] = end
        self._unknown[connection] = now
        self.access.vouch(connection, user)

    def closed(self, connection: ConnectionId, now: float) -> Session | None:
        """A connection is gone; the session it carried, if any."""
        self._local.pop(connection, None)
        self._unknown.pop(connection, None)
        self._dialed.discard(connection)
        self.access.closed(connection)
        session = self._by_connection.pop(connection, None)
        if session is not None:
            session.closed(now)
        return session

    def drop(
        self, connection: ConnectionId, reason: str, now: float, effects: list[Effect]
    ) -> None:
        """Close a connection from our side, telling why."""
        local = self._local.get(connection)
        self.closed(connection, now)
        if local is not None:
            local.closed(reason)
            return
        effects.append(Transmit(connection, (Disconnect(reason),)))
        effects.append(CloseConnection(connection, reason))

    def _attach(self, session: Session, connection: ConnectionId, effects: list[Effect]) -> None:
        """The newest connection carries the session; an older one is let go unread."""
        if session.connection is not None:
            self._by_connection.pop(session.connection, None)
            self._dialed.discard(session.connection)
            self.access.closed(session.connection)
            reason = "superseded by a newer connection"
            if session.local is not None:
                del self._local[session.connection]
                session.local.closed(reason)
            else:
                effects.append(CloseConnection(session.connection, reason))
        self._by_connection[connection] = session
        session.opened(connection, self._local.get(connection))

    # --- handshake -------------------------------------------------------------------------

    def check(self, connection: ConnectionId, message: Message, exceptions: Exceptions) -> None:
        """RemoteProtocolError unless a first message is a Hello of somebody who may be who it says
        and speaks as we do. Nothing is told to anybody, or remembered, before that."""
        if not isinstance(message, Hello):
            return  # whoever waits for the answer to its Hello may say more
        if message.version != PROTOCOL_VERSION:
            raise RemoteProtocolError(
                f"speaks protocol version {message.version}, this broker speaks {PROTOCOL_VERSION}"
            )
        is_stranger = message.role is Role.BROKER and message.routing != self._routing
        if is_stranger and not exceptions.accepts_foreign_link(message):
            raise RemoteProtocolError(
                f"broker {message.id!r} routes by {message.routing!r}, this one by "
                f"{self._routing!r}: start all brokers with the same strategy"
            )
        self.access.check_hello(connection, message)

    def greet(
        self,
        connection: ConnectionId,
        hello: Hello,
        exceptions: Exceptions,
        last_sequence: int,
        effects: list[Effect],
    ) -> tuple[Session, bool]:
        """A Hello came: attach its session and answer if we were dialed.

        Returns the session and whether it goes on where it was."""
        # Again: rules may have changed while it had to wait.
        self.check(connection, hello, exceptions)
        session = self._by_connection.get(connection)
        if session is None:
            session = self._session_for(hello, exceptions)
            if session.is_outdated(hello):
                sometimes(Branch.OVERTAKEN_HELLO)
                raise OvertakenError("a newer connection has taken this one's place")
            if self._is_crossed(session, hello):
                sometimes(Branch.CROSSED_DIALS)
                raise OvertakenError("the connection that we dialed takes this one's place")
            if not session.continues(hello):
                session.own_epoch = self._fresh_epoch()
            self._unknown.pop(connection, None)
            self._attach(session, connection, effects)
            own = session.hello(
                Role.BROKER, self._config.id, last_sequence=last_sequence, routing=self._routing
            )
            if session.local is not None:
                session.local.attached(session, own)
            else:
                effects.append(Transmit(connection, (own,)))
        elif hello.role is not Role.BROKER or hello.id != session.remote:
            raise RemoteProtocolError(f"expected {session.remote!r} here, got {hello.id!r}")
        return session, session.take_hello(hello)

    def _is_crossed(self, session: Session, hello: Hello) -> bool:
        """Whether both ends of a link have dialed at once. If each took the other's connection for
        the newer one, both would go; so that of the smaller id stays."""
        return (
            hello.role is Role.BROKER
            and self._config.id < hello.id
            and session.state is SessionState.OPEN
            and session.connection in self._dialed
        )

    def _session_for(self, hello: Hello, exceptions: Exceptions) -> Session:
        if not hello.id or len(hello.id) > 256 or not hello.epoch:
            raise RemoteProtocolError("Hello without a usable id and epoch")
        if hello.role is Role.BROKER:
            if hello.id not in self.links:
                raise RemoteProtocolError(f"broker {hello.id!r} is not a neighbor of this broker")
            return self.links[hello.id]
        session = self.clients.get(hello.id)
        if session is None:
            is_observer = hello.id.startswith(OBSERVER_MARK)
            is_late = not is_observer and not exceptions.was_redirected_here(hello)
            if self.closed_reason and is_late:
                raise RemoteProtocolError(self.closed_reason)
            if len(self.clients) >= self._config.max_clients:
                raise RemoteProtocolError(f"this broker is full ({len(self.clients)} clients)")
            session = self._make(hello.id, is_client=True)
            self.clients[hello.id] = session
        return session

    def _fresh_epoch(self) -> int:
        self._next_epoch += 1
        return self._next_epoch

    def _make(self, remote: str, *, is_client: bool) -> Session:
        return Session(
            remote,
            own_epoch=self._fresh_epoch(),
            is_client=is_client,
            limits=self._config.limits,
        )

    # --- upkeep ----------------------------------------------------------------------------

    def add_link(self, neighbor: BrokerId) -> Session | None:
        """A session for a new neighbor; None if there is one already."""
        if neighbor in self.links:
            return None
        session = self._make(neighbor, is_client=False)
        self.links[neighbor] = session
        return session

    def adopt(self, client: ClientId, now: float) -> Session:
        """A session for a client that is on its way here; one that is there already is taken."""
        session = self.clients.get(client)
        if session is None:
            session = self.clients[client] = self._make(client, is_client=True)
            session.down_since = now
        return session

    def discard(self, session: Session, reason: str, now: float, effects: list[Effect]) -> None:
        """End a session for good."""
        if session.connection is not None:
            self.drop(session.connection, reason, now, effects)
        (self.clients if session.is_client else self.links).pop(session.remote, None)

    def keep_alive(self, now: float, effects: list[Effect]) -> None:
        """Ping quiet neighbors, close silent connections and those that never said Hello."""
        config = self._config
        for connection, since in list(self._unknown.items()):
            if now - since > config.hello_limit_s:
                self.drop(connection, "no Hello in time", now, effects)
        for session in list(self._by_connection.values()):
            if session.is_client or session.connection is None:
                continue
            if now - session.heard_at > config.silence_limit_s:
                sometimes(Branch.SILENT_NEIGHBOR)
                self.drop(session.connection, "silent for too long", now, effects)
            elif session.is_established:
                effects.append(Transmit(session.connection, (Ping(now),)))

    def excuse(self, seconds: float) -> None:
        """This broker did not run for so long: nobody has been silent or away for that time."""
        for session in self:
            session.excuse(seconds)
        self._unknown = {connection: at + seconds for connection, at in self._unknown.items()}

    def lapsed_clients(
        self, congested_since: Mapping[Session, float], now: float
    ) -> list[tuple[Session, str]]:
        """Clients to let go: away for too long, or holding everybody up for too long."""
        config = self._config
        found = []
        for session in self.clients.values():
            is_away = session.connection is None
            held_s = now - congested_since.get(session, now)
            if is_away and now - session.down_since > config.client_expiry_s:
                found.append((session, "away for too long"))
            elif is_away and held_s > config.away_client_s:
                sometimes(Branch.AWAY_WITH_FULL_QUEUE)
                found.append((session, "away with a full queue"))
            elif held_s > config.slow_client_s:
                found.append((session, "too slow: it held up the overlay"))
            elif session.queue_bytes > config.entry.queue_bytes_per_client:
                sometimes(Branch.CLIENT_QUEUE_FULL)
                self.access.count(Refusal.QUEUE)
                most = config.entry.queue_bytes_per_client
                found.append((session, f"more than {most} bytes queued, the limit for a client"))
        return found
