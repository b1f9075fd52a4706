"""The stages of a migration at one broker, and what leads from one to another."""

from __future__ import annotations

import enum

from pubweave.core.vocabulary.state_table import StateTable


class Stage(enum.Enum):
    """How far a migration has come at one broker, whatever crashes around it."""

    RESERVED = "reserved"
    """It takes part and is in no action, so the path stays as it is."""
    PASSED = "passed"
    """The update has passed: the client's publications come from the destination's side."""
    MOVED = "moved"
    """`moved` has passed: what is for the client goes to the destination."""


PATH = StateTable(
    "Migration: source, and brokers between",
    Stage.RESERVED,
    (
        (Stage.RESERVED, "update passed on", Stage.PASSED),
        (Stage.PASSED, "moved", Stage.MOVED),
        # The next broker was restarted, and gets the update again.
        (Stage.PASSED, "update passed on", Stage.PASSED),
        # This one was, and the update had passed it before.
        (Stage.RESERVED, "moved", Stage.MOVED),
    ),
)
DESTINATION = StateTable(
    "Migration: destination", Stage.RESERVED, ((Stage.RESERVED, "moved", Stage.MOVED),)
)
