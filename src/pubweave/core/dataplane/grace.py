"""Grace periods: how long stale entries of a neighbor, and waiting publishers, have left."""

from __future__ import annotations

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.session.session import Session


class GracePeriods:
    """By session, when the strategy is to drop what is still stale."""

    def __init__(self, config: BrokerConfig) -> None:
        self._config = config
        self._until: dict[Session, float] = {}

    def synced(self, link: Session, now: float) -> None:
        """A neighbor has sent its tables; entries that it left out expire after a grace period."""
        self._until[link] = now + self._config.stale_grace_s

    def note_waiting(self, client: Session, now: float) -> None:
        """A client waits for answers of neighbors, for a limited time from the first call on."""
        self._until.setdefault(client, now + self._config.publisher_wait_s)

    def discard(self, session: Session) -> None:
        """A session ended or restarted: drop its grace period."""
        self._until.pop(session, None)

    def over(self, now: float) -> list[Session]:
        """The sessions whose grace period is over."""
        return [session for session, until in self._until.items() if now >= until]

    def excuse(self, seconds: float) -> None:
        """Extend grace periods by a local pause."""
        self._until = {session: at + seconds for session, at in self._until.items()}
