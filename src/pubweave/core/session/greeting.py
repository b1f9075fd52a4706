"""Sessions that begin or go on, and links that come and go: what that means for a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubweave.core.session.session import OvertakenError, RemoteProtocolError, Session
from pubweave.core.vocabulary.events import ConnectionId
from pubweave.model.ids import BrokerId
from pubweave.model.messages.session import Hello, Message, SequencedMessage
from pubweave.model.telemetry import LinkChange

if TYPE_CHECKING:
    from pubweave.core.broker import Broker


def link_added(broker: Broker, neighbor: BrokerId, now: float) -> None:
    """A neighbor belongs to the topology now."""
    added = broker.sessions.add_link(neighbor)
    if added is not None:
        added.down_since = now
        broker.routing.link_added(added)
        early = broker._publishing.early
        for publication in () if early is None or early.is_over(now) else early.published():
            broker._outgoing.send(added, publication)
        broker._teardown.link_changed(neighbor, True, now)
        if broker.topics is not None:
            broker.topics.link_added(neighbor, now)


def greet(broker: Broker, connection: ConnectionId, message: Message, now: float) -> Session:
    """A Hello came: the session it is about, which goes on or begins anew."""
    if not isinstance(message, Hello):
        raise RemoteProtocolError("the first message must be Hello")
    if broker.topics is not None:
        broker.topics.greeted(message, now)
    last_sequence = broker._publishing.last_sequence(message.id)
    session, resumed = broker.sessions.greet(
        connection, message, last_sequence, broker._outgoing.effects
    )
    session.heard_at = now
    if broker._meter is not None and not session.is_client:
        broker._meter.link_changed(session.remote, LinkChange.UP, now)
    if resumed:
        if broker._gate is not None:
            broker._gate.greeted(session, is_returning=False)
        session.retransmit(broker._outgoing.effects)
        return session
    if session.is_client:
        broker.counters.session_lost(session, is_replayed=False)
    held = session.restart()
    if session.is_client:
        # Another incarnation of the client: nothing of the old one is its concern.
        broker.routing.client_left(session)
        if broker._gate is not None:
            broker._gate.greeted(session, is_returning=bool(message.remote_epoch))
        if broker._meter is not None:
            broker._meter.client_attached(session.remote, now)
    else:
        link_began(broker, session, held, now)
    broker._flow.relieve(session, broker._outgoing.effects)
    return session


def greet_late(broker: Broker, connection: ConnectionId, hello: Hello, now: float) -> None:
    """A Hello that had to wait; its connection may be gone by now."""
    if not broker.sessions.is_known(connection):
        return
    try:
        greet(broker, connection, hello, now)
    except RemoteProtocolError as error:
        broker.counters.protocol_errors += not isinstance(error, OvertakenError)
        broker.sessions.drop(connection, str(error), now, broker._outgoing.effects)


def link_began(
    broker: Broker, link: Session, under_way: list[SequencedMessage], now: float
) -> None:
    """Tables are told afresh; publications that were under way go again after them."""
    broker.maintenance.discard(link)
    if broker.migrations is not None:
        broker.migrations.remark(link, under_way)
    if broker.actions is None or not broker.actions.link_began(link, under_way, now):
        broker.routing.link_began(link, under_way)
    if broker.migrations is not None:
        broker.migrations.link_began(link)
    if broker.topics is not None:
        broker.topics.link_began(link, now)


def link_removed(broker: Broker, neighbor: str, now: float) -> None:
    if broker.topics is not None:
        broker.topics.link_removed(neighbor, now)
        return
    session = broker.sessions.links.get(neighbor)
    if session is None or (broker.actions is not None and broker.actions.uses(neighbor, now)):
        return
    broker.routing.link_removed(session)
    broker._teardown.link_changed(neighbor, False, now)
    broker._teardown.end(session, "the link was removed", now)
