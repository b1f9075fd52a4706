"""The states of a plan and of its actions while they are carried out, and a remapping's steps.

Executor, agents, brokers, the command line and the simulator speak of them in these words.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping


class ActionState(enum.Enum):
    """One action of the current plan. COMMITTED is the decision: from there on only forward."""

    PENDING = "pending"
    RUNNING = "running"
    COMMITTED = "committed"
    DONE = "done"
    ABORTED = "aborted"


class DeploymentState(enum.Enum):
    """A plan that was handed to an overlay."""

    READY = "ready"
    RUNNING = "running"
    PAUSED = "paused"
    ABORTING = "aborting"
    DONE = "done"
    ABORTED = "aborted"

    @property
    def is_final(self) -> bool:
        return not DEPLOYMENT_CHANGES[self]


class AbortedBy(enum.Enum):
    """Who gave a plan up."""

    EXECUTOR = "executor"
    """A step failed, or took too long."""
    OPERATOR = "operator"


ACTION_CHANGES: Mapping[ActionState, frozenset[ActionState]] = {
    **dict.fromkeys(ActionState, frozenset()),
    ActionState.PENDING: frozenset({ActionState.RUNNING, ActionState.ABORTED}),
    ActionState.RUNNING: frozenset({ActionState.COMMITTED, ActionState.ABORTED}),
    ActionState.COMMITTED: frozenset({ActionState.DONE}),
}

DEPLOYMENT_CHANGES: Mapping[DeploymentState, frozenset[DeploymentState]] = {
    **dict.fromkeys(DeploymentState, frozenset()),
    DeploymentState.READY: frozenset({DeploymentState.RUNNING, DeploymentState.ABORTED}),
    DeploymentState.RUNNING: frozenset(
        {DeploymentState.PAUSED, DeploymentState.ABORTING, DeploymentState.DONE}
    ),
    DeploymentState.PAUSED: frozenset({DeploymentState.RUNNING, DeploymentState.ABORTED}),
    DeploymentState.ABORTING: frozenset({DeploymentState.ABORTED}),
}


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
