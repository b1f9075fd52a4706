"""How much a session may have under way."""

from __future__ import annotations

from dataclasses import dataclass

from pubweave.core.config.bounds import Count


@dataclass(frozen=True)
class SessionLimits:
    """Bounds of one session, in bytes of messages."""

    window_bytes: Count = 1 << 20
    """How much may be on its way unacknowledged."""
    congested_bytes: Count = 1 << 20
    """Above this much waiting, whoever feeds this session is slowed down."""
    relieved_bytes: Count = 1 << 18
    """Below this much waiting, they are let go again."""

    def widened(self, times: int) -> SessionLimits:
        """All of it so many times as large: for sides that are slow to acknowledge."""
        return SessionLimits(
            times * self.window_bytes, times * self.congested_bytes, times * self.relieved_bytes
        )
