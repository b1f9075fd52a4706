"""The broker without I/O: events in, effects out, `now` as an argument.

One mutator, `Broker.handle`. It keeps sessions (`session_table`), asks the routing strategy where
things go (`routing`), counts (`counters`) and records (`metering`). The same object runs behind
sockets and in the simulator.

Order inside one event: messages are handled in their order, whatever they cause is queued per
session, and at the end of the event each touched session is flushed once. So a batch of
publications costs one `Transmit` per destination, not one per publication.
"""

from __future__ import annotations

import msgspec

from pubweave.core.actions import BrokerActions
from pubweave.core.broker_config import BrokerConfig
from pubweave.core.broker_inside import BrokerInside
from pubweave.core.broker_meter import BrokerMeter
from pubweave.core.broker_status import broker_status
from pubweave.core.counters import Counters, LoadWindow
from pubweave.core.effects import CloseConnection, DecideAction, Effect, EmitTelemetry, Transmit
from pubweave.core.events import (
    ActionDecided,
    ActionRequested,
    BrokerProbed,
    ConnectionClosed,
    ConnectionId,
    ConnectionOpened,
    DeadlineReached,
    Event,
    ExchangeEnded,
    LinkAdded,
    LinkExpected,
    LinkRemoved,
    MessagesReceived,
)
from pubweave.core.flow import FlowControl
from pubweave.core.metering import Metering
from pubweave.core.publishing import Publishing
from pubweave.core.reorganizing import Organizer
from pubweave.core.routing import RefusedError
from pubweave.core.session import RemoteProtocolError, Session
from pubweave.core.session_table import SessionTable
from pubweave.core.strategies import make_strategy
from pubweave.core.tree_routing import TreeRouting
from pubweave.model.ids import BrokerId, publisher_of
from pubweave.model.messages import (
    Ack,
    ActionMessage,
    Answer,
    Goodbye,
    Hello,
    Message,
    OrganizeMessage,
    Ping,
    Pong,
    Query,
    Refused,
    SequencedMessage,
    SessionMessage,
    Synced,
    TableMessage,
    Unadvertise,
)
from pubweave.model.publications import Publication
from pubweave.model.status import STATUS_SUBJECT, BrokerStatus
from pubweave.model.telemetry import LinkChange

PUBLISHERS_SWEEP_S = 60.0
"""How often publishers that no advertisement names any more are forgotten."""


class Broker:
    """One broker. ``epoch`` must be larger than that of every earlier incarnation, by more than
    the sessions that one ever made."""

    def __init__(
        self, config: BrokerConfig, *, epoch: int, now: float, metering: Metering | None = None
    ) -> None:
        self.config = config
        self.counters = Counters()
        self.routing = make_strategy(config.strategy, self._send)
        self.sessions = SessionTable(config, epoch, self.routing.protocol)
        self.load = LoadWindow(now)
        self.records_dropped = 0
        """What the driver's writer had to drop; it keeps this current."""
        self._meter = BrokerMeter(metering) if metering is not None else None
        self._started_at = now
        self._touched: dict[Session, None] = {}
        self._effects: list[Effect] = []
        self._publishing = Publishing(
            self.routing, self.counters, self._meter, self._touched, self._refuse
        )
        self._flow = FlowControl(ack_delay_s=config.ack_delay_s)
        self._tick_at = now + config.tick_s
        self._ping_at = now
        self._sweep_at = now + PUBLISHERS_SWEEP_S
        self._stale_until: dict[Session, float] = {}
        self._refusals = 0
        self.actions: BrokerActions | None = None
        self.organizer: Organizer | None = None
        if isinstance(self.routing, TreeRouting):
            # Actions change a tree; other strategies' overlays are changed otherwise.
            self._make_changeable(self.routing, epoch, now)

    def _make_changeable(self, routing: TreeRouting, epoch: int, now: float) -> None:
        inside = BrokerInside(
            config=self.config,
            sessions=self.sessions,
            routing=routing,
            flow=self._flow,
            send=self._send,
            emit=lambda effect: self._effects.append(effect),
            flush=lambda session: session.flush(self._effects),
            end=self._end,
            refuse=self._refuse,
            let_go=self._expire,
            link_changed=self._link_changed,
            relieve=lambda session: self._flow.relieve(session, self._effects),
            take_table=self._on_table_message,
            forget_publishers=self._publishing.forget_unknown_publishers,
        )
        self.actions = BrokerActions(inside)
        if self.config.organize is not None:
            self.organizer = Organizer(inside, self.actions, self.config.organize, epoch, now)
            self._publishing.interest = self.organizer.cache

    # --- the one door ----------------------------------------------------------------------

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Take an event in; return what is to be done, in order. O(messages x destinations)."""
        self._effects = effects = list[Effect]()
        if type(event) is MessagesReceived:
            self._on_messages(event, now)
        else:
            self._on_other(event, now)
            self._flush(None, now)
        if self._meter is not None:
            records = self._meter.take()
            if records:
                effects.append(EmitTelemetry(records))
        return effects

    def salvage(self) -> list[Effect]:
        """After `handle` raised: what was to be done until then. Sessions count it as sent, so
        it has to be; what was queued and not yet sent goes with the next event."""
        effects, self._effects = self._effects, []
        return effects

    def next_deadline(self) -> float:
        """When `DeadlineReached` is due."""
        ack_at = self._flow.ack_at
        deadline = self._tick_at if ack_at is None else min(ack_at, self._tick_at)
        if self.organizer is not None:
            deadline = min(deadline, self.organizer.deadline)
        due = self.actions.deadline if self.actions is not None else None
        return deadline if due is None else min(due, deadline)

    def status(self, now: float) -> BrokerStatus:
        return broker_status(self, now, now - self._started_at)

    def _on_other(self, event: Event, now: float) -> None:
        match event:
            case ConnectionOpened(connection, None):
                self.sessions.accepted(connection, now, self._effects)
            case ConnectionOpened(connection, neighbor) if neighbor is not None:
                self.sessions.dialed(connection, neighbor, self._effects)
                session = self.sessions.of(connection)
                if session is not None:
                    session.heard_at = now
            case ConnectionClosed(connection):
                self._on_closed(connection, now)
            case LinkAdded(neighbor):
                added = self.sessions.add_link(neighbor)
                if added is not None:
                    self.routing.link_added(added)
                    self._link_changed(neighbor, True, now)
            case LinkRemoved(neighbor):
                self._on_link_removed(neighbor, now)
            case LinkExpected() | ActionRequested() | ActionDecided():
                self._on_action_event(event, now)
            case BrokerProbed() | ExchangeEnded() if self.organizer is not None:
                self.organizer.take_event(event, now)
            case DeadlineReached():
                self._on_deadline(now)

    def _on_action_event(
        self, event: LinkExpected | ActionRequested | ActionDecided, now: float
    ) -> None:
        if self.actions is not None:
            self.actions.take_event(event, now)
        elif isinstance(event, ActionRequested):
            reason = f"a broker that routes by {self.routing.protocol!r} takes part in no actions"
            self._effects.append(DecideAction(event.action_id, False, reason))

    def _send(self, session: Session, message: SequencedMessage) -> None:
        session.pending.append(message)
        self._touched[session] = None

    # --- messages --------------------------------------------------------------------------

    def _on_messages(self, event: MessagesReceived, now: float) -> None:
        origin = self.sessions.of(event.connection)
        messages = event.messages
        try:
            if origin is None or not origin.is_established:
                if not messages or not self.sessions.is_known(event.connection):
                    return  # a superseded connection: its messages come again on the newer one
                origin = self._on_hello(event.connection, messages[0], now)
                messages = messages[1:]
            origin.heard_at = now
            if origin.received_bytes_unacked > 4 * self.config.limits.window_bytes:
                raise RemoteProtocolError("sends beyond its window")
            self._publishing.take_in(
                origin, messages, self._on_other_message, event.received_at, now
            )
        except RemoteProtocolError as error:
            self.counters.protocol_errors += 1
            self.sessions.drop(event.connection, str(error), now, self._effects)
        self._flush(origin, now)
        if origin is not None:
            self._flow.schedule_ack(origin, now, self._effects)

    def _refuse(self, origin: Session, subject: str, reason: str) -> None:
        self.counters.refused += 1
        self._refusals += 1  # queued for a client, yet no delivery
        self._send(origin, Refused(subject, reason))

    def _on_other_message(self, origin: Session, message: Message, now: float) -> None:
        if isinstance(message, SessionMessage):
            if origin.is_established:
                self._on_session_message(origin, message, now)
        elif isinstance(message, Refused | Publication):
            raise RemoteProtocolError(f"{type(message).__name__} is not for brokers")
        else:
            origin.took_in(1, message.size_bytes)
            self.counters.messages_in += 1
            self.counters.bytes_in += message.size_bytes
            if isinstance(message, ActionMessage):
                self._on_action_message(origin, message, now)
            elif isinstance(message, OrganizeMessage):
                if self.organizer is not None and not origin.is_client:
                    self.organizer.take(origin, message, now)
            elif self.actions is None or not self.actions.keeps(origin, message, now):
                self._on_table_message(origin, message, now)

    def _on_action_message(self, origin: Session, message: ActionMessage, now: float) -> None:
        if origin.is_client or self.actions is None:
            raise RemoteProtocolError(f"{type(message).__name__} is not for {self.config.id!r}")
        self.actions.take(origin, message, now)
        self._publishing.forget_routes(origin)

    def _on_table_message(
        self, origin: Session, message: TableMessage | Synced, now: float
    ) -> None:
        try:
            self.routing.take(origin, message)
        except RefusedError as error:
            self._refuse(origin, getattr(message, "id", "synced"), str(error))
            return
        self._publishing.forget_routes(origin)
        if isinstance(message, Unadvertise) and not self.routing.knows_publisher(
            publisher := publisher_of(message.id)
        ):
            self._publishing.forget_publisher(publisher)
        if isinstance(message, Synced) and not origin.is_client:
            self._stale_until[origin] = now + self.config.stale_grace_s
        if origin.is_client and self._meter is not None:
            self._meter.table_changed(origin.remote, message, now)

    def _on_session_message(self, origin: Session, message: SessionMessage, now: float) -> None:
        match message:
            case Ack(received):
                origin.take_ack(received)
                origin.pump(self._effects)
                self._flow.relieve(origin, self._effects)
            case Ping(sent_at):
                origin.ack(self._effects)
                self._effects.append(Transmit(origin.connection, (Pong(sent_at),)))  # type: ignore[arg-type]
            case Pong(sent_at):
                origin.rtt_ms = (now - sent_at) * 1000.0
                if self._meter is not None and not origin.is_client:
                    self._meter.rtt_sampled(origin.remote, origin.rtt_ms, now)
            case Query(number, subject):
                self._on_query(origin, number, subject, now)
            case Goodbye():
                self._on_goodbye(origin, now)
            case Hello() | Answer():
                raise RemoteProtocolError(f"unexpected {type(message).__name__}")

    def _on_query(self, origin: Session, number: int, subject: str, now: float) -> None:
        document: object = (
            self.status(now) if subject == STATUS_SUBJECT else {"error": f"unknown: {subject}"}
        )
        answer = Answer(number, msgspec.json.encode(document))
        self._effects.append(Transmit(origin.connection, (answer,)))  # type: ignore[arg-type]

    # --- sessions --------------------------------------------------------------------------

    def _on_hello(self, connection: ConnectionId, message: Message, now: float) -> Session:
        if not isinstance(message, Hello):
            raise RemoteProtocolError("the first message must be Hello")
        last_sequence = self._publishing.last_sequence(message.id)
        session, resumed = self.sessions.greet(connection, message, last_sequence, self._effects)
        session.heard_at = now
        if self._meter is not None and not session.is_client:
            self._meter.link_changed(session.remote, LinkChange.UP, now)
        if resumed:
            session.retransmit(self._effects)
            return session
        held = session.restart()
        if session.is_client:
            # Another incarnation of the client: nothing of the old one is its concern.
            self.counters.notifications_lost += len(held)
            self.routing.client_left(session)
            if self._meter is not None:
                self._meter.client_attached(session.remote, now)
        else:
            self._on_link_began(session, held, now)
        self._flow.relieve(session, self._effects)
        return session

    def _on_link_began(self, link: Session, under_way: list[SequencedMessage], now: float) -> None:
        """Tables are told afresh; publications that were under way go again after them."""
        # A grace that an earlier session began would end before this one has told anything.
        self._stale_until.pop(link, None)
        if self.actions is None or not self.actions.link_began(link, under_way, now):
            self.routing.link_began(link, under_way)

    def _link_changed(self, neighbor: BrokerId, is_added: bool, now: float) -> None:
        if self._meter is not None:
            change = LinkChange.ADDED if is_added else LinkChange.REMOVED
            self._meter.link_changed(neighbor, change, now)

    def _on_closed(self, connection: ConnectionId, now: float) -> None:
        session = self.sessions.closed(connection, now)
        if session is not None and not session.is_client and self._meter is not None:
            self._meter.link_changed(session.remote, LinkChange.DOWN, now)

    def _on_goodbye(self, origin: Session, now: float) -> None:
        if origin.is_client:
            self._expire(origin, "said goodbye", now, counted=False)
        elif origin.connection is not None:
            connection = origin.connection
            self.sessions.closed(connection, now)
            self._effects.append(CloseConnection(connection, "the neighbor said goodbye"))

    def _on_link_removed(self, neighbor: str, now: float) -> None:
        session = self.sessions.links.get(neighbor)
        if session is None or (self.actions is not None and self.actions.uses(neighbor, now)):
            return
        self.routing.link_removed(session)
        self._link_changed(neighbor, False, now)
        self._end(session, "the link was removed", now)

    def _expire(self, session: Session, reason: str, now: float, *, counted: bool = True) -> None:
        if counted:
            self.counters.clients_expired += 1
            self.counters.notifications_lost += session.queue_messages
        self.routing.client_left(session)
        if self._meter is not None:
            self._meter.client_left(session.remote, now)
        self._end(session, reason, now)

    def _end(self, session: Session, reason: str, now: float) -> None:
        self.sessions.forget(session, reason, now, self._effects)
        session.restart()
        self._touched.pop(session, None)
        self._stale_until.pop(session, None)
        self._flow.forget(session, self._effects)

    # --- sending ---------------------------------------------------------------------------

    def _flush(self, origin: Session | None, now: float) -> None:
        """Send what the event queued; hold up its origin where a destination is congested."""
        if not self._touched:
            return
        touched = list(self._touched)
        self._touched.clear()
        counters = self.counters
        effects = self._effects
        counters.deliveries -= self._refusals
        self._refusals = 0
        stand_in = self.actions.stand_in if self.actions is not None else None
        for session in touched:
            if session is stand_in:
                self._gather(origin, now)
                continue
            count = len(session.pending)
            counters.messages_out += count
            if session.is_client:
                counters.deliveries += count
            before = session.sent_total_bytes
            session.flush(effects)
            counters.bytes_out += session.sent_total_bytes - before
            if session.is_congested:
                self._on_congested(origin, session, now)

    def _on_congested(self, origin: Session | None, session: Session, now: float) -> None:
        if session.is_client or self.sessions.links.get(session.remote) is session:
            self._flow.hold(origin, session, now)
            self.counters.holds = self._flow.holds
        else:  # it stands in for a link
            self.routing.open_full_gates()
            self._flush(None, now)

    def _gather(self, origin: Session | None, now: float) -> None:
        """What was queued for held links stays; if that is too much, the hold may have to end."""
        assert self.actions is not None
        self.actions.gather(origin, now)
        if self._touched:
            self._flush(None, now)

    # --- time ------------------------------------------------------------------------------

    def _on_deadline(self, now: float) -> None:
        self._flow.send_due_acks(now, self._effects)
        if self.actions is not None:
            self.actions.on_deadline(now)
        if self.organizer is not None and now >= self.organizer.deadline:
            self.organizer.on_deadline(now)
        if now >= self._tick_at:
            self._tick_at = now + self.config.tick_s
            self._on_tick(now)

    def _on_tick(self, now: float) -> None:
        if now >= self._ping_at:
            self._ping_at = now + self.config.ping_every_s
            self.sessions.keep_alive(now, self._effects)
        for session, reason in self.sessions.lapsed_clients(now):
            self._expire(session, reason, now)
        for link, until in list(self._stale_until.items()):
            if now >= until and not (self.actions is not None and self.actions.is_held(link)):
                del self._stale_until[link]
                self.routing.forget_stale(link)
        if self.load.due(now, self.config.load_window_s):
            self._sample_load(now)
        if now >= self._sweep_at:
            self._sweep_at = now + PUBLISHERS_SWEEP_S
            self._publishing.forget_unknown_publishers()

    def _sample_load(self, now: float) -> None:
        if self._meter is not None:
            self.counters.records_dropped = self._meter.dropped_records + self.records_dropped
        window_s, counted = self.load.turn(self.counters.status(), now)
        if self._meter is not None:
            sizes = self.routing.sizes()
            self._meter.load_sampled(window_s, counted, sizes, self.sessions, now)
