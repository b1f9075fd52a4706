"""The broker without I/O: events in, effects out, `now` as an argument.

One mutator, `Broker.handle`. It keeps sessions (`session/table`), asks the routing strategy for
routes (`routing/strategy`), counts (`counters`) and records (`metering`). The same object runs
behind sockets and in the simulator.

Order inside one event: messages are handled in order, what they cause is queued per session, and
at the end of the event each touched session is flushed once. So a batch of publications costs one
`Transmit` per destination, not one per publication.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.dataplane.maintenance import Maintenance
from pubweave.core.dataplane.outgoing import OutgoingQueue
from pubweave.core.dataplane.publishing import EarlyLog
from pubweave.core.dataplane.teardown import SessionTeardown
from pubweave.core.metering.counters import Counters
from pubweave.core.metering.metering import Metering
from pubweave.core.metering.recorder import BrokerMeter
from pubweave.core.migration.coordinator import MigrationCoordinator
from pubweave.core.mqtt.gateway import MqttGateway
from pubweave.core.mqtt.session.native_client import InProcessLink
from pubweave.core.queries import answer, broker_status
from pubweave.core.relocation.relocator import Relocator
from pubweave.core.routing.rendezvous.maintenance import RendezvousMaintenance
from pubweave.core.routing.rendezvous.routing import RendezvousRouting
from pubweave.core.routing.topic_connected.publishing import make_publishing
from pubweave.core.routing.topic_connected.repair import OverlayRepair
from pubweave.core.routing.topic_connected.routing import TopicRouting
from pubweave.core.routing.topic_connected.services import TopicServices
from pubweave.core.routing.tree.publisher_gate import PublisherGate, cut_behind_advertisements
from pubweave.core.routing.tree.routing import TreeRouting
from pubweave.core.routing.tree.services import TreeServices
from pubweave.core.rule_change import change_access
from pubweave.core.self_organizing.organizer import Organizer
from pubweave.core.session.backpressure import FlowControl
from pubweave.core.session.greeting import greet, greet_late, link_added, link_removed
from pubweave.core.session.session import OvertakenError, RemoteProtocolError, Session
from pubweave.core.session.table import SessionTable
from pubweave.core.strategies import make_strategy
from pubweave.core.transformation.coordinator import ActionCoordinator
from pubweave.core.vocabulary.effects import DecideAction, Effect, EmitTelemetry, Transmit
from pubweave.core.vocabulary.errors import RefusedError
from pubweave.core.vocabulary.events import (
    AccessChanged,
    ActionDecided,
    ActionRequested,
    BrokerProbed,
    ConnectionClosed,
    ConnectionOpened,
    DeadlineReached,
    DialRefused,
    Event,
    ExchangeEnded,
    LeaveRequested,
    LinkAdded,
    LinkExpected,
    LinkRemoved,
    LocalPauseEnded,
    LoginReceived,
    MessagesReceived,
    MigrationRequested,
    PasswordVerified,
    RemapAnnounced,
)
from pubweave.model.ids import ClientId, publisher_of
from pubweave.model.messages.migration import MigrationMessage, RedirectReply
from pubweave.model.messages.relocation import ProbeReply, RelocationMessage
from pubweave.model.messages.rendezvous import RendezvousMessage
from pubweave.model.messages.session import (
    Ack,
    ActionMessage,
    Answer,
    Disconnect,
    Goodbye,
    Message,
    Missed,
    OrganizeMessage,
    Ping,
    Pong,
    Query,
    Refused,
    SessionMessage,
    Subscribe,
    Synced,
    TableMessage,
    Unadvertise,
)
from pubweave.model.messages.topic_connected import TopicMessage
from pubweave.model.publications import Publication
from pubweave.model.records.status import BrokerStatus


class Broker:
    """One broker. ``epoch`` must exceed that of every earlier incarnation by more than the sessions
    which that one ever made."""

    def __init__(
        self, config: BrokerConfig, *, epoch: int, now: float, metering: Metering | None = None
    ) -> None:
        self.config = config
        self.counters = Counters()
        self._flow = FlowControl(ack_delay_s=config.ack_delay_s)
        self._outgoing = OutgoingQueue(self.counters, self._flow)
        self.routing = make_strategy(config.strategy, self._outgoing.send)
        self.sessions = SessionTable(config, epoch, self.routing.protocol)
        self._meter = BrokerMeter(metering) if metering is not None else None
        self._started_at = now
        self._publishing = make_publishing(
            self.routing, self.counters, self._meter, self._outgoing.touched, self._refuse
        )
        self._publishing.access = self.sessions.access
        self._teardown = SessionTeardown(
            self.sessions, self.routing, self._outgoing, self._flow, self.counters, self._meter
        )
        self.maintenance = Maintenance(
            config,
            self.sessions,
            self.routing,
            self._publishing,
            self.counters,
            self._meter,
            self._teardown.expire,
            lambda link: self.actions is not None and self.actions.is_held(link),
            now,
        )
        self._teardown.on_end = self.maintenance.discard
        self._gate: PublisherGate | None = None
        self.actions: ActionCoordinator | None = None
        self.migrations: MigrationCoordinator | None = None
        self.organizer: Organizer | None = None
        self.relocator: Relocator | None = None
        self.topics: OverlayRepair | RendezvousMaintenance | None = None
        if isinstance(self.routing, TreeRouting):
            # Actions change trees only.
            self._make_changeable(self.routing, epoch, now)
        elif isinstance(self.routing, TopicRouting):
            self._flow.holds_links = False
            shared = self.counters, self._outgoing, self._teardown
            services = TopicServices(config, self.sessions, self.routing, *shared)
            if isinstance(self.routing, RendezvousRouting):
                self.topics = RendezvousMaintenance(services, self.routing, now)
            else:
                self.topics = OverlayRepair(services, epoch, now)
        self.mqtt = self._make_mqtt(now)

    def _make_changeable(self, routing: TreeRouting, epoch: int, now: float) -> None:
        self._gate = routing.gate
        self._publishing.early = EarlyLog(now + self.config.stale_grace_s, routing.is_wanted_by)
        services = self._tree_services(routing)
        self.actions = actions = ActionCoordinator(services)
        self._outgoing.find_stand_in = lambda: actions.stand_in
        self._outgoing.gather = actions.gather
        self.migrations = MigrationCoordinator(services, epoch)
        self.relocator = Relocator(services, self.config.relocation, self.migrations.begin, now)
        self._publishing.tracer = self.relocator
        self.migrations.on_end.append(self.relocator.migration_ended)
        self.migrations.on_arrival.append(self.relocator.client_arrived)
        if self.config.organize is not None:
            self.organizer = Organizer(services, self.actions, self.config.organize, epoch, now)
            self._publishing.interest = self.organizer.cache

    def _tree_services(self, routing: TreeRouting) -> TreeServices:
        """What actions, migrations and other roles may use of a broker that routes on a tree."""
        return TreeServices(
            config=self.config,
            sessions=self.sessions,
            routing=routing,
            flow=self._flow,
            send=self._outgoing.send,
            emit=lambda effect: self._outgoing.effects.append(effect),
            flush=lambda session: session.flush(self._outgoing.effects),
            end=self._teardown.end,
            refuse=self._send_refusal,
            let_go=self._teardown.expire,
            link_changed=self._teardown.link_changed,
            relieve=lambda session: self._flow.relieve(session, self._outgoing.effects),
            take_table=self._on_table_message,
            forget_publishers=self._publishing.forget_unknown_publishers,
            withdraw=self._teardown.withdraw,
            greet=partial(greet_late, self),
            last_sequence=self._publishing.last_sequence,
            note_sequence=self._publishing.note_sequence,
            in_action=lambda: self.actions is not None and self.actions.is_busy,
            meter=self._meter,
        )

    def _make_mqtt(self, now: float) -> MqttGateway | None:
        """The MQTT gateway, if MQTT is enabled."""
        config, access = self.config, self.sessions.access
        if config.mqtt is None:
            return None
        link = InProcessLink(
            access,
            lambda event, now: self.sessions.opened(event, now, self._outgoing.effects),
            self._on_messages,
        )
        gateway = MqttGateway(
            config.id,
            config.mqtt,
            access,
            link,
            now,
            routes_whole_topics=isinstance(self.routing, TopicRouting),
            is_leaving=lambda: bool(self.sessions.closed_reason),
        )
        if isinstance(self.routing, TopicRouting):
            self._publishing.on_accepted = gateway.replicator.published
            gateway.replicator.on_congested = self._flow.hold
            gateway.replicator.on_relieved = lambda session: self._flow.relieve(
                session, self._outgoing.effects
            )
        if self.migrations is not None:
            self.migrations.redirect = gateway.redirector.redirect
        return gateway

    # --- events and deadlines --------------------------------------------------------------

    def handle(self, event: Event, now: float) -> list[Effect]:
        """Handle an event; return its effects, in order. O(messages x destinations)."""
        self._outgoing.effects = effects = list[Effect]()
        if type(event) is MessagesReceived:
            self._on_messages(event, now)
        elif self.mqtt is None or not self.mqtt.handle(event, now, effects):
            self._on_other(event, now)
            self._flush(None, now)
        if self.mqtt is not None:
            self.mqtt.finish(effects, now)
        if self._gate is not None and self._gate.has_opened:
            for origin, messages in self._gate.pop_opened():
                self._resume(origin, messages, now)
            if self.mqtt is not None:
                self.mqtt.finish(effects, now)
        if self.migrations is not None and self.migrations.is_eager:
            self.migrations.check(now)
            self._flush(None, now)
            if self.mqtt is not None:
                self.mqtt.finish(effects, now)
        if self._meter is not None:
            records = self._meter.pop()
            if records:
                effects.append(EmitTelemetry(records))
        return effects

    def salvage(self) -> list[Effect]:
        """After `handle` raised: the effects until then. Sessions count them as sent, so they must
        be carried out; what is still queued is sent with the next event."""
        effects, self._outgoing.effects = self._outgoing.effects, []
        if self.mqtt is not None:
            self.mqtt.defer(effects)
        return effects

    def next_deadline(self) -> float:
        """When `DeadlineReached` is due: the earliest deadline of any component."""
        ack_at = self._flow.ack_at
        tick_at = self.maintenance.tick_at
        deadline = tick_at if ack_at is None else min(ack_at, tick_at)
        for part in (self.organizer, self.actions, self.migrations, self.topics, self.mqtt):
            due = None if part is None else part.deadline
            if due is not None and due < deadline:
                deadline = due
        return deadline

    def last_sequence(self, publisher: ClientId) -> int:
        """The last sequence received of a publisher; 0 if none was."""
        return self._publishing.last_sequence(publisher)

    def status(self, now: float) -> BrokerStatus:
        return broker_status(self, now, now - self._started_at)

    def _on_other(self, event: Event, now: float) -> None:
        match event:
            case ConnectionOpened():
                self.sessions.opened(event, now, self._outgoing.effects)
            case LoginReceived(connection) | PasswordVerified(connection):
                self.sessions.access.note(event, self._outgoing.effects)
                self._on_messages(MessagesReceived(connection, (), now), now)
            case ConnectionClosed(connection):
                self._teardown.closed(connection, now)
            case AccessChanged(rules):
                change_access(self, rules, now)
            case LinkAdded() | LinkRemoved() | DialRefused():
                self._on_link_event(event, now)
            case LinkExpected() | ActionRequested() | ActionDecided():
                self._on_action_event(event, now)
            case BrokerProbed() | ExchangeEnded() if self.organizer is not None:
                self.organizer.handle(event, now)
            case MigrationRequested(client, destination) if self.migrations is not None:
                self.migrations.begin(client, destination, now)
            case RemapAnnounced() if isinstance(self.topics, RendezvousMaintenance):
                self.topics.remapping.announced(event, now)
            case LeaveRequested() if self.topics is not None:
                self.topics.leave(now)
            case DeadlineReached() | LocalPauseEnded():
                self._on_time(event, now)

    def _on_time(self, event: DeadlineReached | LocalPauseEnded, now: float) -> None:
        if isinstance(event, DeadlineReached):
            self._on_deadline(now)
            return
        # Cassandra's "local pause": time in which we did not run is nobody's silence.
        for part in (
            self.sessions,
            self.maintenance,
            self.topics,
            self.mqtt,
            self._publishing.early,
        ):
            if part is not None:
                part.excuse(event.seconds)

    def _on_deadline(self, now: float) -> None:
        """Call the components whose deadlines are due."""
        effects = self._outgoing.effects
        self._flow.send_due_acks(now, effects)
        if self.actions is not None:
            self.actions.on_deadline(now)
        if self.organizer is not None and now >= self.organizer.deadline:
            self.organizer.on_deadline(now)
        if self.migrations is not None:
            self.migrations.on_deadline(now)
        if self.topics is not None and now >= self.topics.deadline:
            self.topics.check(now)
        if self.mqtt is not None and now >= self.mqtt.deadline:
            self.mqtt.on_deadline(now, effects)
        if now >= self.maintenance.tick_at:
            self.maintenance.on_tick(now, effects)
            self._give_up_absent(effects, now)
            if self.relocator is not None:
                self.relocator.on_tick(now)

    def _give_up_absent(self, effects: list[Effect], now: float) -> None:
        """Stop waiting for neighbors that never connected: count what waits for them as lost."""
        for link in self.sessions.links.values():
            if link.is_congested and self.routing.give_up(link, now):
                self.counters.publications_lost_at_most += link.forget_waiting()
                self._flow.relieve(link, effects)

    def _on_link_event(self, event: LinkAdded | LinkRemoved | DialRefused, now: float) -> None:
        if isinstance(event, LinkAdded):
            link_added(self, event.neighbor, now)
        elif isinstance(event, LinkRemoved):
            link_removed(self, event.neighbor, now)
        elif isinstance(self.topics, OverlayRepair):
            self.topics.refused(event.neighbor, now)

    def _on_action_event(
        self, event: LinkExpected | ActionRequested | ActionDecided, now: float
    ) -> None:
        if self.actions is not None:
            self.actions.take_event(event, now)
        elif isinstance(event, ActionRequested):
            reason = f"a broker that routes by {self.routing.protocol!r} takes part in no actions"
            self._outgoing.effects.append(DecideAction(event.action_id, False, reason))

    # --- messages --------------------------------------------------------------------------

    def _on_messages(self, event: MessagesReceived, now: float) -> None:
        origin = self.sessions.of(event.connection)
        messages = event.messages
        try:
            if origin is None or not origin.is_established:
                messages = self.sessions.access.admit(event.connection, messages)
                if not messages or not self.sessions.is_known(event.connection):
                    return  # a superseded connection: the newer one repeats its messages
                self.sessions.check(event.connection, messages[0])
                if self.migrations is not None and self.migrations.greeted(
                    event.connection, messages[0], now
                ):
                    return
                origin = greet(self, event.connection, messages[0], now)
                messages = messages[1:]
            origin.heard_at = now
            if self.migrations is not None and self.migrations.is_paused(origin):
                messages = [m for m in messages if isinstance(m, SessionMessage)]
            if origin.received_bytes_unacked > 4 * self.config.limits.window_bytes:
                raise RemoteProtocolError("sends beyond its window")
            self.sessions.access.check_batch(origin, messages)
            self._process(origin, messages, event.received_at, now)
        except RemoteProtocolError as error:
            self.counters.protocol_errors += not isinstance(error, OvertakenError)
            self.sessions.drop(event.connection, str(error), now, self._outgoing.effects)
        self._flush(origin, now)
        if origin is not None:
            self._flow.schedule_ack(origin, now, self._outgoing.effects)

    def _process(
        self, origin: Session, messages: Sequence[Message], received_at: float, now: float
    ) -> None:
        if self._gate is None or origin not in self._gate.returning:
            self._publishing.route_batch(origin, messages, self._on_other_message, received_at, now)
            return
        for part in cut_behind_advertisements(messages):
            ready = self._gate.admit(origin, part)
            self._publishing.route_batch(origin, ready, self._on_other_message, received_at, now)
        if any(isinstance(message, Subscribe) for message in messages):
            self._send_early(origin, now)

    def _send_early(self, client: Session, now: float) -> None:
        """A returning client subscribes: send what arrived for it since the start."""
        early = self._publishing.early
        if early is not None and not early.is_over(now):
            for publication in early.replay(client):
                self._outgoing.send(client, publication)
                if self._meter is not None:
                    self._meter.delivered(publication, client.remote, now)

    def _resume(self, origin: Session, messages: Sequence[Message], now: float) -> None:
        """A client need not wait any longer: handle the messages that it sent meanwhile."""
        if self.migrations is not None and self.migrations.is_paused(origin):
            return  # its messages are dropped now; it sends them again when it resumes
        try:
            self._process(origin, messages, now, now)
        except RemoteProtocolError as error:
            self.counters.protocol_errors += 1
            if origin.connection is not None:
                self.sessions.drop(origin.connection, str(error), now, self._outgoing.effects)
        self._flush(origin, now)
        self._flow.schedule_ack(origin, now, self._outgoing.effects)

    def _refuse(self, origin: Session, subject: str, reason: str) -> None:
        """Refuse a request; RemoteProtocolError if that happened too often."""
        self._send_refusal(origin, subject, reason)
        self.sessions.access.check_patience(origin)

    def _send_refusal(self, origin: Session, subject: str, reason: str) -> None:
        self.counters.refused += 1
        self._outgoing.refusals += 1
        self._outgoing.send(origin, Refused(subject, reason))

    def _on_other_message(self, origin: Session, message: Message, now: float) -> None:
        if isinstance(message, SessionMessage):
            if origin.is_established:
                self._on_session_message(origin, message, now)
        elif isinstance(message, Refused | Missed | Publication):
            raise RemoteProtocolError(f"{type(message).__name__} is not for brokers")
        else:
            origin.took_in(1, message.size_bytes)
            self.counters.messages_in += 1
            self.counters.bytes_in += message.size_bytes
            if isinstance(message, ActionMessage | TopicMessage | RendezvousMessage):
                self._on_overlay_message(origin, message, now)
            elif isinstance(message, OrganizeMessage):
                if self.organizer is not None and not origin.is_client:
                    self.organizer.receive(origin, message, now)
            elif isinstance(message, MigrationMessage):
                if self.migrations is not None and not origin.is_client:
                    self.migrations.receive(origin, message, now)
                    self._publishing.forget_routes(origin)
            elif isinstance(message, RelocationMessage):
                if self.relocator is not None and not origin.is_client:
                    self.relocator.receive(origin, message, now)
            elif not self._is_withheld(origin, message, now):
                self._on_table_message(origin, message, now)

    def _is_withheld(self, origin: Session, message: TableMessage | Synced, now: float) -> bool:
        """Whether a migration or an action keeps a table message from the tables."""
        if self.migrations is not None and self.migrations.parts.keeps(origin, message):
            return True
        return self.actions is not None and self.actions.keeps(origin, message, now)

    def _on_overlay_message(
        self,
        origin: Session,
        message: ActionMessage | TopicMessage | RendezvousMessage,
        now: float,
    ) -> None:
        """A message about the links of the overlay."""
        part = self.actions if isinstance(message, ActionMessage) else self.topics
        is_strange = isinstance(message, RendezvousMessage) and isinstance(part, OverlayRepair)
        if origin.is_client or part is None or is_strange:
            raise RemoteProtocolError(f"{type(message).__name__} is not for {self.config.id!r}")
        part.receive(origin, message, now)  # type: ignore[arg-type]
        self._publishing.forget_routes(origin)

    def _on_table_message(
        self, origin: Session, message: TableMessage | Synced, now: float
    ) -> None:
        try:
            self.sessions.access.check_entry(origin, message)
            self.routing.receive(origin, message)
        except RefusedError as error:
            self._refuse(origin, getattr(message, "id", "synced"), str(error))
            return
        self._publishing.forget_routes(origin)
        if isinstance(message, Unadvertise) and not self.routing.knows_publisher(
            publisher := publisher_of(message.id)
        ):
            self._publishing.forget_publisher(publisher)
        if isinstance(message, Synced) and not origin.is_client:
            self.maintenance.synced(origin, now)
        elif self._gate is not None and self._gate.is_shut(origin):
            self.maintenance.note_waiting(origin, now)
        if origin.is_client and self._meter is not None:
            self._meter.table_changed(origin.remote, message, now)

    def _on_session_message(self, origin: Session, message: SessionMessage, now: float) -> None:
        match message:
            case Ack(received):
                origin.take_ack(received)
                origin.pump(self._outgoing.effects)
                self._flow.relieve(origin, self._outgoing.effects)
            case Ping(sent_at):
                origin.ack(self._outgoing.effects)
                self._outgoing.effects.append(Transmit(origin.connection, (Pong(sent_at),)))  # type: ignore[arg-type]
            case Pong(sent_at):
                origin.rtt_ms = (now - sent_at) * 1000.0
                if self._meter is not None and not origin.is_client:
                    self._meter.rtt_sampled(origin.remote, origin.rtt_ms, now)
            case Query(number, subject):
                reply = Answer(number, answer(self, origin, subject, now))
                self._outgoing.effects.append(Transmit(origin.connection, (reply,)))  # type: ignore[arg-type]
            case RedirectReply() if self.migrations is not None:
                self.migrations.replied(origin, message, now)
            case RedirectReply() if isinstance(self.topics, RendezvousMaintenance):
                self.topics.placing.replied(origin, message, now)
            case ProbeReply() if self.relocator is not None and origin.is_client:
                self.relocator.receive_reply(origin, message, now)
            case Goodbye() if origin.is_client:
                self._teardown.leave(origin, "said goodbye", now)
            case Goodbye() | Disconnect():
                self._teardown.disconnected(origin, now)
            case _:
                raise RemoteProtocolError(f"unexpected {type(message).__name__}")

    def _flush(self, origin: Session | None, now: float) -> None:
        self._outgoing.flush(origin, self.sessions, self.routing, now)
