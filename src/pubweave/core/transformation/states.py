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


def _role(
    name: str, first: Phase, *steps: tuple[str, Phase], is_reserved: bool = False
) -> StateTable[Phase]:
    """A role is aborted in any phase and committed in its last one; one that a leader has reserved
    may give the reservation back as long as it has not taken a step."""
    transitions, phase = [], first
    for event, after in steps:
        transitions += [(phase, event, after), (phase, "aborted", Phase.OVER)]
        phase = after
    transitions += [(phase, "aborted", Phase.OVER), (phase, "committed", Phase.OVER)]
    if is_reserved:
        transitions.append((first, "given back", Phase.OVER))
    return StateTable(name, first, tuple(transitions))


MOVER = _role(
    "Shift: mover",
    Phase.RESERVING,
    ("new peer linked", Phase.HOLDING),
    ("marker and new peer ready", Phase.READY),
)
OLD_PEER = _role("Shift: old peer", Phase.RESERVED, ("both markers", Phase.READY), is_reserved=True)
NEW_PEER = _role(
    "Shift: new peer",
    Phase.RESERVED,
    ("mover quiet", Phase.HOLDING),
    ("tables complete", Phase.READY),
    is_reserved=True,
)
APPEND_NEIGHBOR = _role("Append: neighbor", Phase.RESERVING, ("broker linked", Phase.READY))
APPEND_JOINING = _role("Append: joining broker", Phase.RESERVED)
DETACH_NEIGHBOR = _role("Detach: neighbor", Phase.RESERVING, ("marker", Phase.READY))
DETACH_LEAVING = _role(
    "Detach: leaving broker", Phase.RESERVED, ("clients gone", Phase.READY), is_reserved=True
)
