"""What migrations may use of their broker; counts what they send."""

from __future__ import annotations

from dataclasses import dataclass, field

from pubweave.core.session.session import Session
from pubweave.core.transformation.coordinator import ActionCoordinator
from pubweave.core.transformation.services import TreeServices
from pubweave.model.messages.migration import MigrationSeek
from pubweave.model.messages.session import SequencedMessage


@dataclass
class SentCounts:
    """How many messages about migrations were sent; seeks apart."""

    messages: int = 0
    seeks: int = 0


@dataclass(frozen=True, kw_only=True)
class MigrationServices(TreeServices):
    """What a migration may use of its broker."""

    actions: ActionCoordinator
    sent: SentCounts = field(default_factory=SentCounts)

    def send(self, session: Session, message: SequencedMessage) -> None:
        if isinstance(message, MigrationSeek):
            self.sent.seeks += 1
        else:
            self.sent.messages += 1
        super().send(session, message)
