"""What actions, migrations, relocation and self-organization may use of their broker."""

from __future__ import annotations

from dataclasses import dataclass, field

from pubweave.core.dataplane.services import BrokerServices
from pubweave.core.routing.tree.routing import TreeRouting
from pubweave.core.session.session import Session
from pubweave.model.ids import ActionId, BrokerId

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


@dataclass(frozen=True, kw_only=True)
class TreeServices(BrokerServices[TreeRouting]):
    """What a part of a broker on a tree may use of it, and what these parts share."""

    migrating: dict[str, None] = field(default_factory=dict)
    """Migrations in progress here; until they end, this broker takes part in no action."""
    precedence: Precedence = field(default_factory=Precedence)
    expected: dict[BrokerId, ExpectedLink] = field(default_factory=dict)
    """By expected neighbor; their sessions are among the links of ``sessions``."""

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
