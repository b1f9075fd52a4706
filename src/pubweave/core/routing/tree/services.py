"""What a part in an action (`transformation/participant`) may use of its broker.

No part reaches into the broker otherwise, so that what actions can do to it is listed here.
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
"""How long an action that was turned away has time to come again: a few of its retries."""


@dataclass
class ExpectedLink:
    """A session that was made for an action whose turn has yet to come; nothing uses it."""

    action_id: ActionId
    has_begun: bool = False
    """Its session stood at least once, and so does what is sent over it arrive."""


@dataclass
class Precedence:
    """An action that was turned away by migrations is next: so long no further one passes."""

    until: float = 0.0

    def claim(self, now: float) -> None:
        self.until = now + PRECEDENCE_S


@dataclass(frozen=True)
class TreeServices:
    """What a part may use of its broker."""

    config: BrokerConfig
    sessions: SessionTable
    routing: TreeRouting
    flow: FlowControl
    send: Callable[[Session, SequencedMessage], None]
    emit: Callable[[Effect], None]
    flush: Callable[[Session], None]
    """Transmit at once what is queued for a session."""
    end: Callable[[Session, str, float], None]
    """Forget a session for good."""
    refuse: Callable[[Session, str, str], None]
    """Tell a client that something is not accepted, and why."""
    let_go: Callable[[Session, str, float], None]
    """End a client's session and withdraw all that the client had."""
    link_changed: Callable[[BrokerId, bool, float], None]
    """For telemetry: a neighbor came (True) or went."""
    relieve: Callable[[Session], None]
    """Let go whom a session held up."""
    take_table: Callable[[Session, TableMessage | Synced, float], None]
    forget_publishers: Callable[[], None]
    """Forget what came by of publishers that no advertisement names any more."""
    withdraw: Callable[[Session, str, float], None]
    """The same as `let_go` for a client that went of its own accord, or to another broker."""
    greet: Callable[[ConnectionId, Hello, float], None]
    """Take a Hello in that had to wait."""
    last_sequence: Callable[[ClientId], int]
    note_sequence: Callable[[ClientId, int], None]
    """What came by of a publisher, as far as that is known elsewhere."""
    in_action: Callable[[], bool]
    meter: BrokerMeter | None
    migrating: dict[str, None] = field(default_factory=dict)
    """Migrations that this broker takes part in: so long it takes part in no action."""
    precedence: Precedence = field(default_factory=Precedence)
    expected: dict[BrokerId, ExpectedLink] = field(default_factory=dict)
    """By the neighbor to be; their sessions are among the links of ``sessions``."""

    @property
    def id(self) -> BrokerId:
        return self.config.id

    def link(self, neighbor: BrokerId) -> Session | None:
        """The session with a neighbor; none while it is only expected to become one."""
        return None if neighbor in self.expected else self.sessions.links.get(neighbor)

    @property
    def is_leaf(self) -> bool:
        """Whether it has one neighbor, those to be left aside."""
        return len(self.sessions.links) - len(self.expected) == 1

    def is_linked(self, neighbor: BrokerId) -> bool:
        """Whether a neighbor is one to the routing strategy, too."""
        session = self.link(neighbor)
        return session is not None and session in self.routing.links
