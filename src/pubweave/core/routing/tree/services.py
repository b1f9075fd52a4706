"""What a participant of an action (`transformation/participant`) may use of its broker.

Participants use nothing else of it, so this lists all that actions can do to a broker.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.metering.recorder import BrokerMeter
from pubweave.core.routing.tree.routing import TreeRouting
from pubweave.core.session.backpressure import FlowControl
from pubweave.core.session.session import Session
from pubweave.core.session.table import SessionTable
from pubweave.core.vocabulary.effects import Effect
from pubweave.core.vocabulary.events import ConnectionId
from pubweave.model.ids import ActionId, BrokerId, ClientId
from pubweave.model.messages.session import Hello, SequencedMessage, Synced, TableMessage

PRECEDENCE_S = 1.0
"""How long a rejected action has precedence: time for a few of its retries."""


@dataclass
class ExpectedLink:
    """A session that was made for an action that has not begun; nothing uses it."""

    action_id: ActionId
    has_begun: bool = False
    """Its session was established at least once, so what is sent over it arrives."""


@dataclass
class Precedence:
    """An action that was rejected because clients are migrating takes precedence: no new migration
    may start until it has run or ``until`` has passed."""

    until: float = 0.0

    def claim(self, now: float) -> None:
        self.until = now + PRECEDENCE_S


@dataclass(frozen=True)
class TreeServices:
    """What a participant may use of its broker."""

    config: BrokerConfig
    sessions: SessionTable
    routing: TreeRouting
    flow: FlowControl
    send: Callable[[Session, SequencedMessage], None]
    emit: Callable[[Effect], None]
    flush: Callable[[Session], None]
    """Transmit at once what is queued for a session."""
    end: Callable[[Session, str, float], None]
    """End a session for good."""
    refuse: Callable[[Session, str, str], None]
    """Refuse a client's request, with a reason."""
    let_go: Callable[[Session, str, float], None]
    """End a client's session and withdraw all that the client had."""
    link_changed: Callable[[BrokerId, bool, float], None]
    """For telemetry: a neighbor was added (True) or removed."""
    relieve: Callable[[Session], None]
    """Resume the sessions that a congested session held up."""
    take_table: Callable[[Session, TableMessage | Synced, float], None]
    forget_publishers: Callable[[], None]
    """Discard the sequences of publishers without advertisements."""
    withdraw: Callable[[Session, str, float], None]
    """Like `let_go`, for a client that left on purpose or moved to another broker."""
    greet: Callable[[ConnectionId, Hello, float], None]
    """Handle a Hello that had to wait."""
    last_sequence: Callable[[ClientId], int]
    note_sequence: Callable[[ClientId, int], None]
    """The last sequence of a publisher, and what another broker knows of it."""
    in_action: Callable[[], bool]
    meter: BrokerMeter | None
    migrating: dict[str, None] = field(default_factory=dict)
    """Migrations in progress here; until they end, this broker takes part in no action."""
    precedence: Precedence = field(default_factory=Precedence)
    expected: dict[BrokerId, ExpectedLink] = field(default_factory=dict)
    """By expected neighbor; their sessions are among the links of ``sessions``."""

    @property
    def id(self) -> BrokerId:
        return self.config.id

    def link(self, neighbor: BrokerId) -> Session | None:
        """The session with a neighbor; None while it is only expected."""
        return None if neighbor in self.expected else self.sessions.links.get(neighbor)

    @property
    def is_leaf(self) -> bool:
        """Whether this broker has one neighbor, not counting expected ones."""
        return len(self.sessions.links) - len(self.expected) == 1

    def is_linked(self, neighbor: BrokerId) -> bool:
        """Whether the routing strategy knows a neighbor, too."""
        session = self.link(neighbor)
        return session is not None and session in self.routing.links
