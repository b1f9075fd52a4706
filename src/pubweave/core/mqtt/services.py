"""What the MQTT gateway may use of its broker, and when its own parts are due."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf
from typing import Protocol

from pubweave.core.config.mqtt import MqttConfig
from pubweave.core.session.session import Session
from pubweave.core.session.table import SessionTable
from pubweave.core.vocabulary.effects import Effect
from pubweave.core.vocabulary.events import MessagesReceived
from pubweave.model.ids import BrokerId


class Deadlines:
    """The deadlines of the gateway's parts by name. The earliest is asked for after every event.

    >>> deadlines = Deadlines()
    >>> deadlines.set("gossip", 7.0), deadlines.set("sessions", 5.0), deadlines.earliest
    (None, None, 5.0)
    """

    def __init__(self) -> None:
        self.earliest = inf
        self._by_part: dict[str, float] = {}

    def set(self, part: str, at: float) -> None:
        """When a part is due; infinity: not at all for now."""
        if self._by_part.get(part, inf) != at:
            self._by_part[part] = at
            self.earliest = min(self._by_part.values())


class Outgoing(Protocol):
    """Has the effects of the current event."""

    effects: list[Effect]


@dataclass(frozen=True)
class MqttServices:
    """The gateway uses nothing else of its broker."""

    broker: BrokerId
    config: MqttConfig
    sessions: SessionTable
    outgoing: Outgoing
    routes_whole_topics: bool
    """Whether the overlay routes by whole topics only, and accepts no other advertisements."""
    receive: Callable[[MessagesReceived, float], None]
    """Let the broker handle messages of a native client of the gateway."""
    hold: Callable[[Session | None, Session, float], None]
    """Hold up whoever has just fed a congested session."""
    relieve: Callable[[Session], None]
    """Let go whom a session held up."""
    ack: Callable[[Session], None]
    """Acknowledge what came in, unless the session is held up."""
    deadlines: Deadlines = field(default_factory=Deadlines)

    def emit(self, effect: Effect) -> None:
        self.outgoing.effects.append(effect)

    def is_leaving(self) -> bool:
        """Whether the broker is leaving the overlay."""
        return bool(self.sessions.closed_reason)
