"""The states of a plan and of its actions while they are carried out: two closed tables.

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
    ActionState.PENDING: frozenset({ActionState.RUNNING, ActionState.ABORTED}),
    ActionState.RUNNING: frozenset({ActionState.COMMITTED, ActionState.ABORTED}),
    ActionState.COMMITTED: frozenset({ActionState.DONE}),
    ActionState.DONE: frozenset(),
    ActionState.ABORTED: frozenset(),
}

DEPLOYMENT_CHANGES: Mapping[DeploymentState, frozenset[DeploymentState]] = {
    DeploymentState.READY: frozenset({DeploymentState.RUNNING, DeploymentState.ABORTED}),
    DeploymentState.RUNNING: frozenset(
        {DeploymentState.PAUSED, DeploymentState.ABORTING, DeploymentState.DONE}
    ),
    DeploymentState.PAUSED: frozenset({DeploymentState.RUNNING, DeploymentState.ABORTED}),
    DeploymentState.ABORTING: frozenset({DeploymentState.ABORTED}),
    DeploymentState.DONE: frozenset(),
    DeploymentState.ABORTED: frozenset(),
}
