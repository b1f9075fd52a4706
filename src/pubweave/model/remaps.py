"""The steps by which brokers are remapped to other positions (DYNATOPS section 5.1.2).

INIT -> OVERLAY -> TABLES -> TREES -> FINISH -> DONE
  \\--------\\---------\\--------\\--> ABORTED
"""

from __future__ import annotations

import enum


class RemapStep(enum.Enum):
    """What all brokers do now; the next step begins when all have done it."""

    INIT = "init"
    """RCFG_INIT: begin a second version of the control plane, a copy of the first."""
    OVERLAY = "overlay"
    """RCFG_OVERLAY: take the new position in it, and make the ring stand."""
    TABLES = "tables"
    """RCFG_PUBSUB 3.1: whoever takes a broker's old position gets its places in the trees."""
    TREES = "trees"
    """RCFG_PUBSUB 3.2: join and leave trees until they are what the clients want; from here on
    publications travel by both versions."""
    FINISH = "finish"
    """RCFG_FINISH: the second version is the only one. There is no way back from here."""
    DONE = "done"
    ABORTED = "aborted"
    """The first version is the only one."""

    @property
    def is_final(self) -> bool:
        return self in (RemapStep.DONE, RemapStep.ABORTED)

    @property
    def is_decided(self) -> bool:
        """Whether it is too late to return to the old version."""
        return self in (RemapStep.FINISH, RemapStep.DONE)


STEPS = (
    RemapStep.INIT,
    RemapStep.OVERLAY,
    RemapStep.TABLES,
    RemapStep.TREES,
    RemapStep.FINISH,
    RemapStep.DONE,
)
"""In their order."""


def step_after(step: RemapStep) -> RemapStep:
    """What follows when all brokers have done a step.

    >>> step_after(RemapStep.TREES)
    <RemapStep.FINISH: 'finish'>
    """
    return STEPS[STEPS.index(step) + 1]
