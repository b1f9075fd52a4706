"""Brokers and clients of the simulation: the real cores, driven by virtual time."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from pubweave.core.broker import Broker
from pubweave.core.client import ClientCore
from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.session import SessionLimits
from pubweave.core.metering.metering import Metering
from pubweave.core.strategies import find_strategy
from pubweave.core.vocabulary.effects import (
    ActionEffect,
    CloseConnection,
    CloseLink,
    Effect,
    EmitTelemetry,
    FollowRedirect,
    Notify,
    OpenLink,
    OrganizeEffect,
    ProbeBrokers,
    ReportConfirmed,
    ReportGap,
    ReportMissed,
    ReportMove,
    ReportRefusal,
    ReportSession,
    Transmit,
    TryBroker,
)
from pubweave.core.vocabulary.events import (
    LOCAL_PAUSE_S,
    AddressKnown,
    ConnectionClosed,
    ConnectionOpened,
    DeadlineReached,
    DialRefused,
    Event,
    HandlingMeasured,
    LinkAdded,
    LocalPauseEnded,
    MessagesReceived,
)
from pubweave.model.messages.session import Message
from pubweave.model.publications import Publication
from pubweave.sim.kernel.clocks import Clock
from pubweave.sim.kernel.journal_node import SimJournal
from pubweave.sim.kernel.network import Network, SimConnection, SimLink
from pubweave.sim.kernel.trace import show_effect, show_messages

# What brokers and clients of the simulation share: connections, a core, a timer, virtual time.
#
# A node takes one batch at a time: a batch waits until the node is free, and its effects leave when
# its handling time is over. So queueing and matching delays exist as they do on a machine.


@dataclass(frozen=True)
class HandlingTime:
    """How long a broker is busy with a batch, in seconds."""

    per_message_s: float = 0.0001
    per_match_s: float = 0.0002

    def of(self, event: Event) -> float:
        if type(event) is not MessagesReceived:
            return 0.0
        matches = list(map(type, event.messages)).count(Publication)
        return self.per_message_s * len(event.messages) + self.per_match_s * matches


class SimNode:
    """What brokers and clients share: connections, a core, a timer, one thing at a time."""

    clock = Clock()
    """What this node's core takes for the time; `_timer_at` and `_due_at` are readings of it."""

    def __init__(self, name: str, network: Network) -> None:
        self.name = name
        self.network = network
        self.world = network.world
        self.incarnation = 0
        self.busy_until = 0.0
        self.connections: dict[int, SimConnection] = {}
        self._inbox: deque[Event] = deque()
        self._timer_at: float | None = None
        self._due_at = math.inf
        """When the core wanted to be called, if it was not yet."""

    @property
    def now(self) -> float:
        """The time by this node's clock."""
        return self.clock.read(self.world.now)

    # --- to be provided --------------------------------------------------------------------

    def is_up(self) -> bool:
        raise AssertionError("provided by subclasses")

    def core_handle(self, event: Event, now: float) -> list[Effect]:
        raise AssertionError("provided by subclasses")

    def core_deadline(self) -> float:
        raise AssertionError("provided by subclasses")

    def handling_s(self, event: Event) -> float:
        return 0.0

    def carry_out_other(self, effect: Effect) -> None:
        """Effects that are not about connections."""

    def connection_ended(self, connection: SimConnection) -> None:
        """After the core was told."""

    # --- from the network ------------------------------------------------------------------

    def opened(self, connection: SimConnection) -> None:
        self.connections[connection.number] = connection
        self.handle(ConnectionOpened(connection.number, self.dialed_neighbor(connection)))

    def dialed_neighbor(self, connection: SimConnection) -> str | None:
        return connection.ends[1].name if connection.ends[0] is self else None

    def received(self, connection: SimConnection, messages: Sequence[Message]) -> None:
        self.handle(MessagesReceived(connection.number, messages, self.now))

    def closed(self, connection: SimConnection) -> None:
        if not self.is_up():
            return
        if self.connections.pop(connection.number, None) is not None:
            self.handle(ConnectionClosed(connection.number))
        self.connection_ended(connection)

    # --- one thing at a time ---------------------------------------------------------------

    def handle(self, event: Event) -> None:
        """Handle an event when this node is free, after those that came before it."""
        if not self.is_up():
            return
        self._inbox.append(event)
        if len(self._inbox) == 1:
            self._work(self.incarnation)

    def _work(self, incarnation: int) -> None:
        """Handle what waits, one event after the other; come back when busy."""
        if incarnation != self.incarnation:
            return
        while self._inbox:
            if self.busy_until > self.world.now:
                self.world.at(self.busy_until, self._work, incarnation)
                return
            self._handle(self._inbox[0])
            if incarnation != self.incarnation:
                return
            self._inbox.popleft()

    def _handle(self, event: Event) -> None:
        world, now = self.world, self.now
        late_s = now - self._due_at
        if type(event) is DeadlineReached:
            # Another timer may have been armed while this event waited for its turn.
            self._due_at = math.inf if self._timer_at is None else max(self._timer_at, now)
        if late_s > LOCAL_PAUSE_S:
            self._due_at += late_s
            effects = self._core_handle(LocalPauseEnded(late_s)) + self._core_handle(event)
        else:
            effects = self._core_handle(event)
        handling_s = self.handling_s(event)
        if handling_s:
            self.busy_until = world.now + handling_s
        if effects:
            incarnation = self.incarnation
            if handling_s:
                world.at(self.busy_until, self.carry_out, effects, incarnation)
            else:
                self.carry_out(effects, incarnation)
                if incarnation != self.incarnation:
                    return
        self.arm()

    def _core_handle(self, event: Event) -> list[Effect]:
        if self.world.trace is not None:
            self.world.note(self.name, _show_event(event))
        return self.core_handle(event, self.now)

    def carry_out(self, effects: list[Effect], incarnation: int) -> None:
        trace = self.world.trace
        for effect in effects:
            if incarnation != self.incarnation:
                return  # crashed before it, or between two effects
            if trace is not None:
                self.world.note(self.name, "  " + show_effect(effect))
            if type(effect) is Transmit:
                connection = self.connections.get(effect.connection)
                if connection is not None:
                    self.network.send(connection, self, effect.messages)
            elif isinstance(effect, CloseConnection):
                connection = self.connections.get(effect.connection)
                if connection is not None:
                    self.network.close(connection, self)
            else:
                self.carry_out_other(effect)
            self.carried_out()

    def carried_out(self) -> None:
        """After each effect."""

    def arm(self) -> None:
        deadline = self.core_deadline()
        if self._timer_at is None or deadline < self._timer_at:
            self._timer_at = deadline
            self._due_at = min(max(deadline, self.now), self._due_at)
            self.world.at(self.clock.when(deadline), self._on_timer, deadline, self.incarnation)

    def clock_jumps(self, seconds: float) -> None:
        """This node's clock says so much more from now on: its timer may be late at once."""
        self.clock.jump(seconds)
        if self.is_up():
            self._timer_at = None
            self.arm()

    def _on_timer(self, armed_for: float, incarnation: int) -> None:
        if incarnation != self.incarnation or armed_for != self._timer_at:
            return
        self._timer_at = None
        self.handle(DeadlineReached())


def _show_event(event: Event) -> str:
    if isinstance(event, MessagesReceived):
        return f"received c{event.connection} {show_messages(event.messages)}"
    fields = ", ".join(str(getattr(event, name)) for name in event.__struct_fields__)
    return f"{type(event).__name__}({fields})"


REDIAL_S = (0.05, 0.3)


class SimBroker(SimNode):
    """A broker core with neighbors to dial, that can crash and come back."""

    def __init__(
        self,
        config: BrokerConfig,
        network: Network,
        handling: HandlingTime,
        *,
        on_telemetry: Callable[[str, Any, float], None] | None = None,
    ) -> None:
        super().__init__(config.id, network)
        self.clock = self.world.draw_clock()
        self.config = config
        self.links: dict[str, tuple[SimLink, SimBroker]] = {}
        """Whom to keep a connection with, and over which path."""
        self.find_path: Callable[[str, str], tuple[SimLink, SimBroker]] | None = None
        """The path from one broker to another, for links that actions make."""
        self.on_action: Callable[[SimBroker, ActionEffect], None] = lambda broker, effect: None
        """Hears of every effect of an action, after this node has done its part of it."""
        self.on_organize: Callable[[SimBroker, OrganizeEffect], None] = lambda broker, effect: None
        """Carries out what a self-organizing broker wants."""
        self.before_start: Callable[[SimBroker], None] = lambda broker: None
        """May set `links`, which a crash can leave behind the topology."""
        self.core_effects: Callable[[Event, float], list[Effect]] = self._core_effects
        """All that an event causes, whenever it may leave; a checker may wrap it."""
        self.core: Broker | None = None
        self.journal: SimJournal | None = None
        self.asleep: Broker | None = None
        """What a crashed broker will be when it comes back, if it has a journal."""
        self.on_crash: Callable[[SimBroker, Broker], None] = lambda broker, was: None
        """Hears what a crashed broker was; whether it comes back as that, `asleep` says."""
        self.is_back = False
        """The core remembers what it was before a crash."""
        self.crash_in: int | None = None
        """After so many effects more `on_boundary` is called, which may crash this broker."""
        self.on_boundary: Callable[[SimBroker], None] = lambda broker: None
        self.epoch_base = 0
        """Keeps sessions of different brokers apart, where clients go from one to another."""
        self._handling = handling
        self._on_telemetry = on_telemetry

    @property
    def broker(self) -> Broker:
        assert self.core is not None, f"{self.name} is down"
        return self.core

    def is_up(self) -> bool:
        return self.core is not None

    def start(self) -> None:
        self.before_start(self)
        self.incarnation += 1
        self.busy_until = self.world.now
        self._timer_at = None
        self._due_at = math.inf
        epoch = (self.epoch_base + self.incarnation) << 20
        back, self.asleep = self.asleep, None
        self.is_back = back is not None
        self.core = back or Broker(
            replace(self.config, secret=f"{self.name}:{epoch}".encode()),
            epoch=epoch,
            now=self.now,
            metering=self._metering(),
        )
        if back is None:
            self._introduce(self.core)
        if self.journal is not None:
            self._begin_journal(self.journal, self.core, epoch, is_back=back is not None)
        for neighbor in sorted(self.links):
            self.handle(LinkAdded(neighbor))
            if self.name < neighbor:
                self._redial(neighbor, self.incarnation)
        self.arm()

    def _introduce(self, core: Broker) -> None:
        """Tell a new core what its driver knows: how fast it is, and where clients reach it."""
        message_s = self._handling.per_message_s + self._handling.per_match_s
        effects = core.handle(HandlingMeasured(1000.0 * message_s), self.now)
        if not find_strategy(self.config.strategy).needs_tree:
            effects += core.handle(AddressKnown(self.name), self.now)
        assert not effects, effects

    def _begin_journal(
        self, journal: SimJournal, core: Broker, epoch: int, *, is_back: bool
    ) -> None:
        incarnation = self.incarnation
        journal.clock = self.clock
        journal.carry_out = lambda effects: self.carry_out(effects, incarnation)
        effects = journal.begin(core, epoch, is_back=is_back)
        if is_back:
            assert self.find_path is not None
            self.links |= {name: self.find_path(self.name, name) for name in core.sessions.links}
            # Behind whoever begins with the core: an agent hears what it may have missed.
            self.world.after(0.0, self.carry_out, effects, incarnation)

    def _metering(self) -> Metering | None:
        if self._on_telemetry is None:
            return None
        return Metering(self.name, 1.0, epoch=self.incarnation)

    def link(self, neighbor: str, *, dial_once: bool = False) -> None:
        """Keep a connection with a neighbor from now on; the smaller name dials, or `dial_once`."""
        if neighbor not in self.links:
            assert self.find_path is not None, "this overlay's links never change"
            self.links[neighbor] = self.find_path(self.name, neighbor)
        elif not dial_once:
            return
        if self.is_up() and (dial_once or self.name < neighbor):
            self._redial(neighbor, self.incarnation)

    def unlink(self, neighbor: str) -> None:
        """Keep no connection with a broker any more."""
        self.links.pop(neighbor, None)

    def crash(self) -> None:
        """Everything this broker held is gone, except what its journal has."""
        core, self.core = self.core, None
        self.crash_in = None
        self.incarnation += 1
        self.clock = self.world.draw_clock()
        if self.journal is not None:
            self.journal.clock = self.clock
            self.journal.crashed()
            self.asleep = self.journal.recover(self.config, self._metering())
        if core is not None:
            self.on_crash(self, core)
        self._inbox.clear()
        for connection in list(self.connections.values()):
            connection.left.add(self.name)
            self.network.drop(connection)
        self.connections.clear()

    @property
    def known_core(self) -> Broker | None:
        """The core, or what it will be when it comes back; None: it does not."""
        return self.core or self.asleep

    def _core_effects(self, event: Event, now: float) -> list[Effect]:
        assert self.core is not None
        return self.core.handle(event, now)

    def core_handle(self, event: Event, now: float) -> list[Effect]:
        effects = self.core_effects(event, now)
        if self.journal is None:
            return effects
        return self.journal.noted(event, now, effects, self.handling_s(event))

    def core_deadline(self) -> float:
        assert self.core is not None
        return self.core.next_deadline()

    def received(self, connection: SimConnection, messages: Sequence[Message]) -> None:
        if self.journal is not None:
            messages = self.journal.as_received(messages)
        super().received(connection, messages)

    def carried_out(self) -> None:
        if self.crash_in is not None:
            self.crash_in -= 1
            if self.crash_in <= 0:
                self.crash_in = None
                self.on_boundary(self)

    def handling_s(self, event: Event) -> float:
        return self._handling.of(event)

    def carry_out_other(self, effect: Effect) -> None:
        if isinstance(effect, EmitTelemetry) and self._on_telemetry is not None:
            self._on_telemetry(self.name, effect.records, self._handling.per_match_s)
        elif isinstance(effect, ActionEffect):
            if isinstance(effect, OpenLink):
                self.link(effect.neighbor, dial_once=effect.dial_once)
            elif isinstance(effect, CloseLink):
                self.unlink(effect.neighbor)
            self.on_action(self, effect)
        elif isinstance(effect, OrganizeEffect):
            self.on_organize(self, effect)

    def connection_ended(self, connection: SimConnection) -> None:
        neighbor = self.dialed_neighbor(connection)
        if neighbor is not None and self.name < neighbor:
            delay_s = self.world.uniform(*REDIAL_S)
            self.world.after(delay_s, self._redial, neighbor, self.incarnation)

    def _redial(self, neighbor: str, incarnation: int) -> None:
        if incarnation != self.incarnation or neighbor not in self.links or not self.is_up():
            return
        if any(c.ends[1].name == neighbor for c in self.connections.values()):
            return
        link, far = self.links[neighbor]
        if self.network.dial(link, self, far):
            return
        if not far.is_up() and self.network.tells_refusals:
            self.handle(DialRefused(neighbor))
        if self.name < neighbor:
            delay_s = self.world.uniform(*REDIAL_S)
            self.world.after(delay_s, self._redial, neighbor, incarnation)


class SimClient(SimNode):
    """A client core attached to one broker, with an application that is told everything."""

    def __init__(
        self,
        name: str,
        network: Network,
        broker: SimBroker,
        *,
        latency_s: float,
        limits: SessionLimits,
        epoch: int,
        on_notification: Callable[[SimClient, Publication], None],
        on_session: Callable[[SimClient, bool], None],
        on_refusal: Callable[[SimClient, str, str], None],
        can_move: bool = True,
    ) -> None:
        super().__init__(name, network)
        self.home = broker
        self.link = SimLink(latency_s)
        self.find_broker: Callable[[str], SimBroker | None] = lambda name: None
        """Brokers that this client may be redirected to."""
        self.latency_to: Callable[[str], float] = lambda name: latency_s
        """How far they are from it."""
        self.on_move: Callable[[SimClient, FollowRedirect | ReportMove], None] = (
            lambda client, effect: None
        )
        self.on_missed: Callable[[SimClient, ReportMissed], None] = lambda client, effect: None
        """Hears what was lost to this client."""
        self.on_gap: Callable[[SimClient, ReportGap], None] = lambda client, effect: None
        """Hears of what the client misses and no broker has told of."""
        self.on_confirmed: Callable[[SimClient, tuple[str, ...]], None] = lambda client, ids: None
        """Hears of subscriptions that everything reaches from now on."""
        self.core = ClientCore(
            name,
            epoch=epoch,
            now=self.world.now,
            first_sequence=epoch << 32,
            limits=limits,
            can_move=can_move,
        )
        self.is_attached = True
        self._on_notification = on_notification
        self._on_session = on_session
        self._on_refusal = on_refusal

    def is_up(self) -> bool:
        return self.is_attached

    def dialed_neighbor(self, connection: SimConnection) -> None:
        return None

    def start(self) -> None:
        self._redial()
        self.arm()

    def flush(self) -> None:
        """Send what the application queued in the core."""
        self.carry_out(self.core.flush(), self.incarnation)

    def leave(self) -> None:
        """Say goodbye for good."""
        self.carry_out(self.core.goodbye("leaves"), self.incarnation)
        self.is_attached = False
        self.incarnation += 1
        self._inbox.clear()

    def attach_to(self, broker: SimBroker) -> None:
        """Its broker is gone, or is about to be: go on at another one."""
        old = list(self.connections.values())
        self.home, self.link = broker, SimLink(self.latency_to(broker.name))
        for connection in old:
            self.network.close(connection, self)
        self._redial()

    def core_handle(self, event: Event, now: float) -> list[Effect]:
        return self.core.handle(event, now)

    def core_deadline(self) -> float:
        return self.core.next_deadline()

    def carry_out_other(self, effect: Effect) -> None:
        match effect:
            case Notify(publications):
                for publication in publications:
                    self._on_notification(self, publication)
            case ReportSession(resumed):
                self._on_session(self, resumed)
            case ReportGap():
                self.on_gap(self, effect)
            case ReportConfirmed(ids):
                self.on_confirmed(self, ids)
            case ReportMissed():
                self.on_missed(self, effect)
            case ReportRefusal(subject, reason):
                self._on_refusal(self, subject, reason)
            case TryBroker(token, name, _):
                self.world.after(2 * self.link.latency_s, self._tried, token, name)
            case FollowRedirect(name, _):
                # Should that broker be gone, the others know the client: as the library does.
                broker = self.find_broker(name) or self.home
                self.home, self.link = broker, SimLink(self.latency_to(broker.name))
                self.on_move(self, effect)
                self._redial()
            case ProbeBrokers(number, brokers):
                self._probe(number, [name for name, _ in brokers])
            case ReportMove():
                self.on_move(self, effect)

    def _probe(self, number: int, names: list[str]) -> None:
        rtt_ms = {name: 2000.0 * self.latency_to(name) for name in names}
        waits_s = max(rtt_ms.values(), default=0.0) / 1000.0
        self.world.after(waits_s, self._probed, number, rtt_ms)

    def _probed(self, number: int, rtt_ms: dict[str, float]) -> None:
        if self.is_attached:
            self.carry_out(self.core.probed(number, rtt_ms), self.incarnation)

    def _tried(self, token: str, name: str) -> None:
        broker = self.find_broker(name)
        can_reach = broker is not None and broker.is_up()
        problem = "" if can_reach else f"{self.name} cannot reach {name}"
        if self.is_attached:
            self.carry_out(self.core.tried(token, problem), self.incarnation)

    def connection_ended(self, connection: SimConnection) -> None:
        if connection.link is self.link:
            self.world.after(self.world.uniform(*REDIAL_S), self._redial)

    def _redial(self) -> None:
        if not self.is_attached or any(c.link is self.link for c in self.connections.values()):
            return
        if not self.network.dial(self.link, self, self.home):
            self.world.after(self.world.uniform(*REDIAL_S), self._redial)
