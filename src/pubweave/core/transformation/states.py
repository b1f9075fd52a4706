"""The phases of a participant in an action: what leads from one to another, for each role."""

from __future__ import annotations

import enum

from pubweave.core.vocabulary.state_table import StateTable


class Phase(enum.Enum):
    """How far a part has come."""

    RESERVING = "reserving"
    RESERVED = "reserved"
    HOLDING = "holding"
    READY = "ready"
    OVER = "over"


RESERVING, RESERVED, HOLDING, READY, OVER = Phase


def _role(
    name: str, first: Phase, *steps: tuple[str, Phase], is_reserved: bool = False
) -> StateTable[Phase]:
    """A role is aborted in any phase and committed in its last one; one that a leader has reserved
    may give the reservation back as long as it has not taken a step."""
    transitions, phase = [], first
    for event, after in steps:
        transitions += [(phase, event, after), (phase, "aborted", OVER)]
        phase = after
    transitions += [(phase, "aborted", OVER), (phase, "committed", OVER)]
    if is_reserved:
        transitions.append((first, "given back", OVER))
    return StateTable(name, first, tuple(transitions))


MOVER = _role(
    "Shift: mover", RESERVING, ("new peer linked", HOLDING), ("marker and new peer ready", READY)
)
OLD_PEER = _role("Shift: old peer", RESERVED, ("both markers", READY), is_reserved=True)
NEW_PEER = _role(
    "Shift: new peer",
    RESERVED,
    ("mover quiet", HOLDING),
    ("tables complete", READY),
    is_reserved=True,
)
APPEND_NEIGHBOR = _role("Append: neighbor", RESERVING, ("broker linked", READY))
APPEND_JOINING = _role("Append: joining broker", RESERVED)
DETACH_NEIGHBOR = _role("Detach: neighbor", RESERVING, ("marker", READY))
DETACH_LEAVING = _role(
    "Detach: leaving broker", RESERVED, ("clients gone", READY), is_reserved=True
)
