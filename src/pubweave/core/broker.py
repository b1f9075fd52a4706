"""The broker without I/O: events in, effects out, `now` as an argument.

One mutator, `Broker.handle`. It keeps sessions (`session/table`), asks the routing strategy for
routes (`routing/strategy`), counts (`counters`) and records (`metering`). What else a strategy
needs are parts (`dataplane/part`), which the broker loops over. The same object runs behind sockets
and in the simulator.

Order inside one event: messages are handled in order, what they cause is queued per session, and
at the end of the event each touched session is flushed once. So a batch of publications costs one
`Transmit` per destination, not one per publication.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

from pubweave.core.assembly import make_publishing, make_services
from pubweave.core.config.broker import BrokerConfig
from pubweave.core.dataplane.greeting import Greeting
from pubweave.core.dataplane.maintenance import Maintenance
from pubweave.core.dataplane.part import BrokerPart, BrokerParts, EventHandler, P
from pubweave.core.dataplane.publishing import EARLY_SHARE, EarlyLog
from pubweave.core.metering.metering import Metering
from pubweave.core.queries import answer, broker_status
from pubweave.core.rule_change import RuleChange
from pubweave.core.session.admission import Refusal
from pubweave.core.session.session import OvertakenError, RemoteProtocolError, Session
from pubweave.core.session.states import SessionState
from pubweave.core.strategies import find_strategy
from pubweave.core.vocabulary.effects import DecideAction, Effect, EmitTelemetry, Transmit
from pubweave.core.vocabulary.events import (
    AccessChanged,
    ActionRequested,
    AddressKnown,
    ConnectionClosed,
    ConnectionId,
    ConnectionOpened,
    DeadlineReached,
    DriverCounted,
    DriverReport,
    EntryRefused,
    Event,
    HandlingFailed,
    LinkAdded,
    LinkRemoved,
    LocalPauseEnded,
    LoginReceived,
    MessagesReceived,
    PasswordVerified,
    ProcessRestarted,
)
from pubweave.core.vocabulary.rare_branches import Branch, sometimes
from pubweave.model.ids import ClientId
from pubweave.model.messages.session import (
    Ack,
    Answer,
    Confirmed,
    Disconnect,
    Goodbye,
    Hello,
    Message,
    Missed,
    Ping,
    Pong,
    Query,
    Refused,
    SessionMessage,
    Subscribe,
    Synced,
    TableMessage,
)
from pubweave.model.publications import Publication
from pubweave.model.records.status import BrokerStatus, JournalStatus

# Asked of every message, so no union is made each time.
_FOR_CLIENTS = Refused | Missed | Confirmed | Publication
_FOR_TABLES = TableMessage | Synced


def no_journal(now: float) -> None:
    """The journal status of a driver without a journal."""
    return None


class Broker:
    """One broker. ``epoch`` must exceed that of every earlier incarnation by more than the sessions
    which that one ever made. ``journal_status`` says how the driver's journal is doing."""

    def __init__(
        self,
        config: BrokerConfig,
        *,
        epoch: int,
        now: float,
        metering: Metering | None = None,
        journal_status: Callable[[float], JournalStatus | None] = no_journal,
    ) -> None:
        self.config = config
        self.journal_status = journal_status
        strategy = find_strategy(config.strategy)
        self._services = services = make_services(
            config,
            strategy,
            epoch=epoch,
            now=now,
            metering=metering,
            greet=self._greet_late,
            on_messages=self._on_messages,
        )
        self.counters = services.counters
        self.routing = services.routing
        self.sessions = services.sessions
        self.mqtt = services.mqtt
        self._gate = services.routing.gate
        self._flow = services.flow
        self._outgoing = services.outgoing
        self._meter = services.meter
        self._questions_at_once = config.entry.questions_at_once
        self.parts = BrokerParts(strategy.make_parts(services))
        early_s = config.stale_grace_s if self.routing.keeps_early else -math.inf
        early_bytes = EARLY_SHARE * config.limits.congested_bytes
        self._early = EarlyLog(now + early_s, early_bytes, self.routing.is_wanted_by)
        self._publishing = make_publishing(strategy, services, self.parts, self._early)
        self._greeting = Greeting(services, self.parts, self._early)
        self._rule_change = RuleChange(services, self.parts, self._publishing)
        self.maintenance = Maintenance(services)
        self._event_handler = self._event_handlers().get

    def _greet_late(self, connection: ConnectionId, hello: Hello, now: float) -> None:
        self._greeting.greet_late(connection, hello, now)

    def part(self, kind: type[P]) -> P | None:
        """The part of a class; None if the strategy brings none."""
        return self.parts.of(kind)

    # --- events and deadlines --------------------------------------------------------------

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Handle an event; return its effects, in order. O(messages x destinations).

        Should it raise, the next event returns what this one had caused until then."""
        effects = self._outgoing.effects
        if type(event) is MessagesReceived:
            self._on_messages(event, now)
        elif isinstance(event, DriverReport):
            self._on_report(event, now)
            return []
        elif self.mqtt is None or not self.mqtt.handle(event, now):
            self._on_other(event, now)
            self._flush(None, now)
        if self.mqtt is not None:
            self.mqtt.settle(now)
        if self._gate.opened:
            self._resume_opened(now)
        for unsettled, part in self.parts.eager:
            if unsettled:
                self._settle(part, now)
        if self.mqtt is not None:
            self.mqtt.flush()
        if self._meter is not None:
            records = self._meter.pop()
            if records:
                effects.append(EmitTelemetry(records))
        self._outgoing.effects = []
        return effects

    def _settle(self, part: BrokerPart, now: float) -> None:
        """An event was handled, and a part may have waited for what it brought."""
        if part.is_eager:
            part.check(now)
            self._flush(None, now)
            if self.mqtt is not None:
                self.mqtt.settle(now)

    def next_deadline(self) -> float:
        """When `DeadlineReached` is due: the earliest deadline of any component."""
        ack_at = self._flow.ack_at
        tick_at = self.maintenance.tick_at
        deadline = tick_at if ack_at is None else min(ack_at, tick_at)
        for part in self.parts.timed:
            due = part.deadline
            if due is not None and due < deadline:
                deadline = due
        return deadline if self.mqtt is None else min(deadline, self.mqtt.deadline)

    def last_sequence(self, publisher: ClientId) -> int:
        """The last sequence received of a publisher; 0 if none was."""
        return self._services.sequences.of(publisher)

    def status(self, now: float) -> BrokerStatus:
        return broker_status(self, now, now - self._services.started_at)

    def _on_other(self, event: Event, now: float) -> None:
        handler = self._event_handler(type(event))
        if handler is not None:
            handler(event, now)
        elif not self.parts.handle(event, now) and isinstance(event, ActionRequested):
            protocol = self.routing.protocol
            reason = f"a broker that routes by {protocol!r} takes part in no actions"
            self._outgoing.effects.append(DecideAction(event.action_id, False, reason))

    def _event_handlers(self) -> dict[type[Any], EventHandler]:
        """What the broker itself handles, apart from messages and reports of its driver."""
        return {
            ConnectionOpened: self._on_opened,
            LoginReceived: self._on_login,
            PasswordVerified: self._on_login,
            ConnectionClosed: self._on_closed,
            AccessChanged: self._rule_change.apply,
            LinkAdded: self._greeting.link_added,
            LinkRemoved: self._greeting.link_removed,
            DeadlineReached: self._on_deadline,
            LocalPauseEnded: self._excuse,
            HandlingFailed: self._on_failure,
            ProcessRestarted: self._on_restart,
        }

    def _on_opened(self, event: ConnectionOpened, now: float) -> None:
        self.sessions.opened(event, now, self._outgoing.effects)

    def _on_login(self, event: LoginReceived | PasswordVerified, now: float) -> None:
        self.sessions.access.note(event, self._outgoing.effects)
        self._on_messages(MessagesReceived(event.connection, (), now), now)

    def _on_closed(self, event: ConnectionClosed, now: float) -> None:
        link = self._services.teardown.closed(event.connection, now)
        for link_down in self.parts.link_down if link is not None else ():
            link_down(link, now)

    def _on_failure(self, event: HandlingFailed, now: float) -> None:
        self.counters.protocol_errors += 1

    def _on_restart(self, event: ProcessRestarted, now: float) -> None:
        self.sessions.restarted(event.epoch, now)
        self._flow.restarted(now)
        away_s = max(0.0, now - self.maintenance.checked_at)
        for restored in self.parts.restored:
            restored(event.epoch, away_s, now)

    def _on_report(self, report: DriverReport, now: float) -> None:
        match report:
            case AddressKnown(address):
                self.sessions.address = address
            case EntryRefused(refusal):
                self.sessions.access.count(Refusal(refusal))
            case DriverCounted(counter, count):
                setattr(self.counters, counter, getattr(self.counters, counter) + count)
            case _:
                self.parts.handle(report, now)

    def _excuse(self, event: LocalPauseEnded, now: float) -> None:
        """Cassandra's "local pause": time in which we did not run is nobody's silence."""
        seconds = event.seconds
        sometimes(Branch.LATE_DEADLINE)
        self.sessions.excuse(seconds)
        self._flow.excuse(seconds)
        self._services.grace.excuse(seconds)
        for excuse in self.parts.excuse:
            excuse(seconds)
        if self.mqtt is not None:
            self.mqtt.excuse(seconds)
        self._early.excuse(seconds)

    def _on_deadline(self, event: DeadlineReached, now: float) -> None:
        """Call the components whose deadlines are due."""
        effects = self._outgoing.effects
        self._flow.send_due_acks(now, effects)
        for on_deadline in self.parts.on_deadline:
            on_deadline(now)
        if self.mqtt is not None and now >= self.mqtt.deadline:
            self.mqtt.on_deadline(now)
        if now >= self.maintenance.tick_at:
            self.maintenance.on_tick(now, effects)
            for on_tick in self.parts.on_tick:
                on_tick(now)

    # --- messages --------------------------------------------------------------------------

    def _on_messages(self, event: MessagesReceived, now: float) -> None:
        origin = self.sessions.heard(event.connection, now)
        messages = event.messages
        try:
            if origin is None:
                messages = self.sessions.access.admit(event.connection, messages)
                origin = self._greet(event.connection, messages, now)
                if origin is None:
                    return
                messages = messages[1:]
            elif len(messages) == 1 and type(messages[0]) is Ack:
                self._on_ack(origin, messages[0])  # the most frequent batch; concerns no one else
                messages = ()
            if messages:
                self._take(origin, messages, event.received_at, now)
        except RemoteProtocolError as error:
            self.counters.protocol_errors += not isinstance(error, OvertakenError)
            self.sessions.drop(event.connection, str(error), now, self._outgoing.effects)
        if self._outgoing.touched:
            self._flush(origin, now)
        if origin is not None and origin.received != origin.told:
            self._flow.schedule_ack(origin, now, self._outgoing.effects)

    def _take(
        self, origin: Session, messages: Sequence[Message], received_at: float, now: float
    ) -> None:
        """Handle what an established session sent, unless the sender is paused."""
        for paused in self.parts.paused:
            if origin.remote in paused and origin.is_client:
                messages = [m for m in messages if isinstance(m, SessionMessage)]
        # One message may exceed the window, of whatever size; what comes behind it may not.
        if origin.received_bytes_unacked > 4 * self.config.limits.window_bytes and not all(
            isinstance(message, SessionMessage) for message in messages
        ):
            raise RemoteProtocolError("sends beyond its window")
        if len(messages) > self._questions_at_once and origin.is_client:
            self.sessions.access.check_questions(messages)
        self._process(origin, messages, received_at, now)

    def _greet(
        self, connection: ConnectionId, messages: Sequence[Message], now: float
    ) -> Session | None:
        """The session that the first message of a connection is about; None: it has to wait."""
        if not messages or not self.sessions.is_known(connection):
            return None  # a superseded connection: the newer one repeats its messages
        self.sessions.check(connection, messages[0], self.parts)
        if any(greeted(connection, messages[0], now) for greeted in self.parts.greeted):
            return None
        return self._greeting.greet(connection, messages[0], now)

    def _process(
        self, origin: Session, messages: Sequence[Message], received_at: float, now: float
    ) -> None:
        """Handle what a session sent, or let it wait until its advertisements are answered."""
        ready = self._gate.admit(origin, messages) if self._gate.is_shut(origin) else messages
        while ready:
            rest = self._publishing.route_batch(
                origin, ready, self._on_other_message, received_at, now
            )
            ready = self._gate.admit(origin, rest) if rest else ()
        if origin in self._gate.returning and any(isinstance(m, Subscribe) for m in messages):
            self._send_early(origin, now)

    def _send_early(self, client: Session, now: float) -> None:
        """A returning client subscribes: send what arrived for it since the start."""
        if self._early.is_over(now):
            return
        for publication in self._early.replay(client):
            sometimes(Branch.EARLY_REPLAYED)
            self._outgoing.send(client, publication)
            if self._meter is not None:
                self._meter.delivered(publication, client.remote, now)

    def _resume_opened(self, now: float) -> None:
        for origin, messages in self._gate.pop_opened():
            self._services.grace.discard(origin)
            self._resume(origin, messages, now)
        if self.mqtt is not None:
            self.mqtt.settle(now)

    def _resume(self, origin: Session, messages: Sequence[Message], now: float) -> None:
        """A client need not wait any longer: handle the messages that it sent meanwhile."""
        if self.parts.is_paused(origin):
            return  # its messages are dropped now; it sends them again when it resumes
        try:
            self._process(origin, messages, now, now)
        except RemoteProtocolError as error:
            self.counters.protocol_errors += 1
            if origin.connection is not None:
                self.sessions.drop(origin.connection, str(error), now, self._outgoing.effects)
        self._flush(origin, now)
        if origin.received != origin.told:
            self._flow.schedule_ack(origin, now, self._outgoing.effects)

    def _on_other_message(self, origin: Session, message: Message, now: float) -> None:
        if isinstance(message, SessionMessage):
            if origin.state is SessionState.ESTABLISHED:
                self._on_session_message(origin, message, now)
            return
        if isinstance(message, _FOR_CLIENTS):
            raise RemoteProtocolError(f"{type(message).__name__} is not for brokers")
        origin.took_in(1, message.size_bytes)
        self.counters.messages_in += 1
        self.counters.bytes_in += message.size_bytes
        if isinstance(message, _FOR_TABLES):
            if self.parts.keep(origin, message, now):
                return
            self._services.tables.receive(origin, message, now)
        else:
            handler = self.parts.message_handler(type(message))
            if origin.is_client or handler is None:
                raise RemoteProtocolError(f"{type(message).__name__} is not for {self.config.id!r}")
            handler(origin, message, now)
        self._publishing.forget_routes(origin)

    def _on_session_message(self, origin: Session, message: SessionMessage, now: float) -> None:
        match message:
            case Ack():
                self._on_ack(origin, message)
            case Ping(sent_at):
                self._flow.ack(origin, self._outgoing.effects)
                self._outgoing.effects.append(Transmit(origin.connection, (Pong(sent_at),)))  # type: ignore[arg-type]
            case Pong(sent_at):
                rtt_ms = origin.take_pong(sent_at, now)
                if self._meter is not None and not origin.is_client:
                    self._meter.rtt_sampled(origin.remote, rtt_ms, now)
            case Query(number, subject):
                reply = Answer(number, answer(self, origin, subject, now))
                self._outgoing.effects.append(Transmit(origin.connection, (reply,)))  # type: ignore[arg-type]
            case Goodbye() if origin.is_client:
                self._services.teardown.leave(origin, "said goodbye", now)
            case Goodbye() | Disconnect():
                self._services.teardown.disconnected(origin, now)
            case _:
                handler = self.parts.message_handler(type(message))
                if handler is None:
                    raise RemoteProtocolError(f"unexpected {type(message).__name__}")
                handler(origin, message, now)

    def _on_ack(self, origin: Session, ack: Ack) -> None:
        origin.take_ack(ack.received)
        if origin.waiting:
            origin.pump(self._outgoing.effects)
        self._flow.relieve(origin, self._outgoing.effects)

    def _flush(self, origin: Session | None, now: float) -> None:
        if not self._outgoing.touched:
            return
        self._outgoing.flush(origin, self.sessions, self.routing, self.parts.holder, now)
