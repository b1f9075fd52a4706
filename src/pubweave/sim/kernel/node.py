"""What brokers and clients of the simulation share: connections, a core, a timer, virtual time.

A node takes one batch at a time: a batch waits until the node is free, and its effects leave when
its handling time is over. So queueing and matching delays exist as they do on a machine.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from pubweave.core.vocabulary.effects import CloseConnection, Effect, Transmit
from pubweave.core.vocabulary.events import (
    LOCAL_PAUSE_S,
    ConnectionClosed,
    ConnectionOpened,
    DeadlineReached,
    Event,
    LocalPauseEnded,
    MessagesReceived,
)
from pubweave.model.messages.session import Message
from pubweave.model.publications import Publication
from pubweave.sim.kernel.network import Network, SimConnection
from pubweave.sim.kernel.trace import show_effect, show_messages


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


class SimNode:
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
        self._due_at = math.inf
        """When the core wanted to be called, if it was not yet."""

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
        self.handle(MessagesReceived(connection.number, messages, self.world.now))

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
        world = self.world
        late_s = world.now - self._due_at
        if isinstance(event, DeadlineReached):
            # Another timer may have been armed while this event waited for its turn.
            self._due_at = math.inf if self._timer_at is None else max(self._timer_at, world.now)
        effects: list[Effect] = []
        if late_s > LOCAL_PAUSE_S:
            self._due_at += late_s
            effects += self._core_handle(LocalPauseEnded(late_s))
        effects += self._core_handle(event)
        handling_s = self.handling_s(event)
        if handling_s:
            self.busy_until = world.now + handling_s
            world.at(self.busy_until, self.carry_out, effects, self.incarnation)
        else:
            incarnation = self.incarnation
            self.carry_out(effects, incarnation)
            if incarnation != self.incarnation:
                return
        self.arm()

    def _core_handle(self, event: Event) -> list[Effect]:
        if self.world.trace is not None:
            self.world.note(self.name, _show_event(event))
        return self.core_handle(event, self.world.now)

    def carry_out(self, effects: list[Effect], incarnation: int) -> None:
        if incarnation != self.incarnation:
            return
        for effect in effects:
            if incarnation != self.incarnation:
                return  # crashed between two effects
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
            self.carried_out()

    def carried_out(self) -> None:
        """After each effect."""

    def arm(self) -> None:
        deadline = self.core_deadline()
        if self._timer_at is None or deadline < self._timer_at:
            self._timer_at = deadline
            self._due_at = min(max(deadline, self.world.now), self._due_at)
            self.world.at(deadline, self._on_timer, deadline, self.incarnation)

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
