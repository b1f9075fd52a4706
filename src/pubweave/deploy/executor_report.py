"""What an executor tells of itself and of the step under way, whenever that changed."""

from __future__ import annotations

import enum

import msgspec

from pubweave.deploy.documents import DeploymentDocument
from pubweave.model.deployment import ActionState
from pubweave.model.ids import ActionId, BrokerId


class ExecutorRole(enum.Enum):
    """Of all executors of an overlay one executes, and the others stand by to take its place."""

    CONNECTING = "connecting"
    STANDBY = "standby"
    EXECUTING = "executing"


class ActionProgress(msgspec.Struct, frozen=True):
    """One action of the current step."""

    action_id: ActionId
    text: str
    brokers: tuple[BrokerId, ...]
    state: ActionState
    reason: str = ""


class ExecutorReport(msgspec.Struct, frozen=True):
    """Where things stand; told whenever it changed."""

    role: ExecutorRole
    holder: str = ""
    """Who executes."""
    deployment: DeploymentDocument | None = None
    actions: tuple[ActionProgress, ...] = ()
    missing: tuple[BrokerId, ...] = ()
    """Brokers of the step that are not registered."""
    problem: str = ""
