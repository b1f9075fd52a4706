"""A deployment on its way, for people and for programs: a table, a line, a JSON object."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pubweave.cli.output import new_table, seconds_in_words
from pubweave.deploy.documents import DeploymentDocument
from pubweave.deploy.executor import ExecutorReport, ExecutorRole
from pubweave.model.deployment import ActionState, DeploymentState

if TYPE_CHECKING:
    from rich.console import RenderableType

_STYLES = {
    ActionState.PENDING: "dim",
    ActionState.RUNNING: "yellow",
    ActionState.COMMITTED: "cyan",
    ActionState.DONE: "green",
    ActionState.ABORTED: "red",
}


@dataclass(frozen=True)
class Look:
    """What is known at one instant; ``held`` are buffered messages by action id."""

    report: ExecutorReport
    held: Mapping[str, int]
    elapsed_s: float

    @property
    def held_messages(self) -> int:
        return sum(self.held.values())

    @property
    def done(self) -> int:
        return sum(action.state is ActionState.DONE for action in self.report.actions)

    def document(self) -> dict[str, Any]:
        """For programs; without times, so that an unchanged look gives an equal document."""
        report = self.report
        return {
            "event": "progress",
            "role": report.role.value,
            "executor": report.holder or None,
            **deployment_document(report.deployment),
            "actions": [
                {
                    "action": action.text,
                    "state": action.state.value,
                    "held_messages": self.held.get(action.action_id, 0),
                    "reason": action.reason or None,
                }
                for action in report.actions
            ],
            "held_messages": self.held_messages,
            "missing_brokers": list(report.missing),
            "problem": report.problem or None,
        }

    def line(self) -> str:
        """One line for a log."""
        deployment = self.report.deployment
        if deployment is None:
            return f"{self.report.role.value}"
        text = f"{deployment.state.value}: "
        if deployment.steps_done < deployment.step_count:
            text += f"step {deployment.steps_done + 1} of {deployment.step_count}"
            if self.report.actions:
                text += f", {self.done} of {len(self.report.actions)} actions done"
        else:
            text += f"all {deployment.step_count} steps done"
        if self.held_messages:
            text += f", {self.held_messages} messages buffered"
        return text + self.troubles()

    def troubles(self) -> str:
        """What stands in the way, to be put behind a sentence."""
        report = self.report
        text = f"; waiting for {', '.join(report.missing)}" if report.missing else ""
        if report.problem:
            text += f"; {report.problem}"
        if report.role is ExecutorRole.STANDBY:
            text += f"; standing by, {report.holder} executes"
        return text

    def drawing(self) -> RenderableType:
        """A table of the step under way, and a bar over all steps."""
        from rich.console import Group
        from rich.progress_bar import ProgressBar
        from rich.text import Text

        table = new_table("action", "state", "buffered", "", left=("action", "state", ""))
        for action in self.report.actions:
            held = self.held.get(action.action_id, 0)
            table.add_row(
                action.text,
                Text(action.state.value, style=_STYLES[action.state]),
                f"{held:,}" if held else "",
                Text(action.reason, style="dim"),
            )
        deployment = self.report.deployment
        total = deployment.step_count if deployment is not None else 1
        reached = float(deployment.steps_done) if deployment is not None else 0.0
        if self.report.actions and reached < total:
            reached += self.done / len(self.report.actions)
        foot = f"{seconds_in_words(self.elapsed_s)}  {self.line()}"
        return Group(ProgressBar(total=total, completed=reached, width=40), "", table, "", foot)


def deployment_document(deployment: DeploymentDocument | None) -> dict[str, Any]:
    """Which deployment it is and how far, for programs; all is None of none."""
    names = ("deployment", "state", "steps_done", "step_count")
    found = {name: getattr(deployment, name, None) for name in names}
    return found if deployment is None else {**found, "state": deployment.state.value}


def end_in_words(state: DeploymentState, steps_done: int, step_count: int, reason: str) -> str:
    """How a deployment ended or where it rests."""
    steps = f"{steps_done} of {step_count} steps done"
    match state:
        case DeploymentState.DONE:
            return f"done: {step_count} step{'' if step_count == 1 else 's'}"
        case DeploymentState.PAUSED:
            return f"paused: {steps}; go on with 'pubweave plan resume'"
        case DeploymentState.ABORTED:
            return f"aborted: {steps}" + (f": {reason}" if reason else "")
        case _:
            return f"{state.value}: {steps}"
