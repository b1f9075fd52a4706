"""The states of one side's session, and what leads from one to another."""

from __future__ import annotations

import enum

from pubweave.core.vocabulary.state_table import StateTable


class SessionState(enum.Enum):
    DOWN = "down"
    OPEN = "open"
    """A connection stands; nothing but Hello may travel yet."""
    ESTABLISHED = "established"


SESSION = StateTable(
    "Session",
    SessionState.DOWN,
    (
        (SessionState.DOWN, "opened", SessionState.OPEN),
        (SessionState.OPEN, "hello", SessionState.ESTABLISHED),
        (SessionState.OPEN, "closed", SessionState.DOWN),
        (SessionState.ESTABLISHED, "closed", SessionState.DOWN),
        # A newer connection of the same far end takes the place of the one that was there.
        (SessionState.OPEN, "opened", SessionState.OPEN),
        (SessionState.ESTABLISHED, "opened", SessionState.OPEN),
        # What a client that was redirected still reads may be a reason to close once more.
        (SessionState.DOWN, "closed", SessionState.DOWN),
    ),
)
