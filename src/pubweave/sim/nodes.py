"""Brokers and clients of the simulation: the real cores, driven by virtual time.

A broker takes one batch at a time: a batch waits until the broker is free, and its effects leave
when its handling time is over. So queueing and matching delays exist as they do on a machine.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pubweave.core.broker import Broker
from pubweave.core.broker_config import BrokerConfig
from pubweave.core.client import Client
from pubweave.core.effects import (
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
    ReportMove,
    ReportRefusal,
    ReportSession,
    Transmit,
    TryBroker,
)
from pubweave.core.events import (
    ConnectionClosed,
    ConnectionOpened,
    DeadlineReached,
    Event,
    LinkAdded,
    MessagesReceived,
)
from pubweave.core.metering import Metering
from pubweave.core.session import SessionLimits
from pubweave.model.messages import Message
from pubweave.model.publications import Publication
from pubweave.sim.network import Network, SimConnection, SimLink
from pubweave.sim.trace import show_effect, show_messages

REDIAL_S = (0.05, 0.3)


@dataclass(frozen=True)
class HandlingTime:
    """How long a broker is busy with a batch, in seconds."""

    per_message_s: float = 0.0001
    per_match_s: float = 0.0002

    def of(self, event: Event) -> float:
        if not isinstance(event, MessagesReceived):
            return 0.0
        matches = sum(type(message) is Publication for message in event.messages)
        return self.per_message_s * len(event.messages) + self.per_match_s * matches


class _Node:
    """What brokers and clients share: connections, a core, a timer, one thing at a time."""

    def __init__(self, name: str, network: Network) -> None:
        self.name = name
        self.network = network
        self.world = network.world
        self.incarnation = 0
        self.busy_until = 0.0
        self.connections: dict[int, SimConnection] = {}
        self._inbox: deque[Event] = deque()
        self._timer_at: float | None = None

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
        self.take(ConnectionOpened(connection.number, self.dialed_neighbor(connection)))

    def dialed_neighbor(self, connection: SimConnection) -> str | None:
        return connection.ends[1].name if connection.ends[0] is self else None

    def received(self, connection: SimConnection, messages: Sequence[Message]) -> None:
        self.take(MessagesReceived(connection.number, messages, self.world.now))

    def closed(self, connection: SimConnection) -> None:
        if not self.is_up():
            return
        if self.connections.pop(connection.number, None) is not None:
            self.take(ConnectionClosed(connection.number))
        self.connection_ended(connection)

    # --- one thing at a time ---------------------------------------------------------------

    def take(self, event: Event) -> None:
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
        world = self.world
        if world.trace is not None:
            world.note(self.name, _show_event(event))
        effects = self.core_handle(event, world.now)
        handling_s = self.handling_s(event)
        if handling_s:
            self.busy_until = world.now + handling_s
            world.at(self.busy_until, self.carry_out, effects, self.incarnation)
        else:
            self.carry_out(effects, self.incarnation)
        self.arm()

    def carry_out(self, effects: list[Effect], incarnation: int) -> None:
        if incarnation != self.incarnation:
            return
        for effect in effects:
            if self.world.trace is not None:
                self.world.note(self.name, "  " + show_effect(effect))
            if isinstance(effect, Transmit):
                connection = self.connections.get(effect.connection)
                if connection is not None:
                    self.network.send(connection, self, effect.messages)
            elif isinstance(effect, CloseConnection):
                connection = self.connections.get(effect.connection)
                if connection is not None:
                    self.network.close(connection, self)
            else:
                self.carry_out_other(effect)

    def arm(self) -> None:
        deadline = self.core_deadline()
        if self._timer_at is None or deadline < self._timer_at:
            self._timer_at = deadline
            self.world.at(deadline, self._on_timer, deadline, self.incarnation)

    def _on_timer(self, armed_for: float, incarnation: int) -> None:
        if incarnation != self.incarnation or armed_for != self._timer_at:
            return
        self._timer_at = None
        self.take(DeadlineReached())


class SimBroker(_Node):
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
        self.core: Broker | None = None
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
        metering = None
        if self._on_telemetry is not None:
            metering = Metering(self.name, 1.0, epoch=self.incarnation)
        self.core = Broker(
            self.config,
            epoch=(self.epoch_base + self.incarnation) << 20,
            now=self.world.now,
            metering=metering,
        )
        if self.core.relocator is not None:
            handling_s = self._handling.per_message_s + self._handling.per_match_s
            self.core.relocator.handling_ms = 1000.0 * handling_s
        if self.core.topics is not None:
            self.core.sessions.address = self.name
        for neighbor in sorted(self.links):
            self.take(LinkAdded(neighbor))
            if self.name < neighbor:
                self._redial(neighbor, self.incarnation)
        self.arm()

    def link(self, neighbor: str, *, knocks: bool = False) -> None:
        """Keep a connection with a neighbor from now on; the smaller name dials, or who knocks."""
        if neighbor not in self.links:
            assert self.find_path is not None, "this overlay's links never change"
            self.links[neighbor] = self.find_path(self.name, neighbor)
        elif not knocks:
            return
        if self.is_up() and (knocks or self.name < neighbor):
            self._redial(neighbor, self.incarnation)

    def unlink(self, neighbor: str) -> None:
        """Keep no connection with a broker any more."""
        self.links.pop(neighbor, None)

    def crash(self) -> None:
        """Everything this broker held is gone."""
        self.core = None
        self.incarnation += 1
        self._inbox.clear()
        for connection in list(self.connections.values()):
            connection.left.add(self.name)
            self.network.drop(connection)
        self.connections.clear()

    def core_handle(self, event: Event, now: float) -> list[Effect]:
        return self.broker.handle(event, now)

    def core_deadline(self) -> float:
        return self.broker.next_deadline()

    def handling_s(self, event: Event) -> float:
        return self._handling.of(event)

    def carry_out_other(self, effect: Effect) -> None:
        if isinstance(effect, EmitTelemetry) and self._on_telemetry is not None:
            self._on_telemetry(self.name, effect.records, self._handling.per_match_s)
        elif isinstance(effect, ActionEffect):
            if isinstance(effect, OpenLink):
                self.link(effect.neighbor, knocks=effect.knocks)
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
        if not self.network.dial(link, self, far) and self.name < neighbor:
            delay_s = self.world.uniform(*REDIAL_S)
            self.world.after(delay_s, self._redial, neighbor, incarnation)


class SimClient(_Node):
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
        self.core = Client(
            name, epoch=epoch, now=self.world.now, first_sequence=epoch << 32, limits=limits
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
            case ReportRefusal(subject, reason):
                self._on_refusal(self, subject, reason)
            case TryBroker(token, name, _):
                self.world.after(2 * self.link.latency_s, self._tried, token, name)
            case FollowRedirect(name, _):
                broker = self.find_broker(name)
                assert broker is not None, f"{self.name} is sent to {name}, which is nowhere"
                self.home, self.link = broker, SimLink(self.latency_to(name))
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


def _show_event(event: Event) -> str:
    if isinstance(event, MessagesReceived):
        return f"received c{event.connection} {show_messages(event.messages)}"
    fields = ", ".join(str(getattr(event, name)) for name in event.__struct_fields__)
    return f"{type(event).__name__}({fields})"
