"""Carrying a deployment out from the command line: a view, an exit code, and Ctrl-C."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from pubweave.cli.errors import FAILED
from pubweave.cli.kinds import POSITIVE
from pubweave.cli.output import LiveView, new_table, remark, tell
from pubweave.deploy.commands import Script
from pubweave.deploy.documents import DeploymentDocument, Layout
from pubweave.deploy.executor import ExecutorRole
from pubweave.model.amounts import seconds_in_words
from pubweave.model.deployment import ActionState
from pubweave.runtime.coordination import deployment_run
from pubweave.runtime.coordination.deployment_run import STEP_TIMEOUT_S, Look
from pubweave.runtime.net.signals import StopRequest
from pubweave.runtime.store.zookeeper_target import Coordination

if TYPE_CHECKING:
    from rich.console import RenderableType

_STYLES = {
    ActionState.PENDING: "dim",
    ActionState.RUNNING: "yellow",
    ActionState.COMMITTED: "cyan",
    ActionState.DONE: "green",
    ActionState.ABORTED: "red",
}
step_timeout_option = click.option(
    "--step-timeout",
    default=STEP_TIMEOUT_S,
    type=POSITIVE,
    metavar="SECONDS",
    help="A step that takes longer is aborted, and the plan with it.",
)


async def carry_out(
    where: Coordination,
    begin: Callable[[Layout], Script[DeploymentDocument]],
    *,
    step_timeout_s: float,
    as_json: bool,
    quiet: bool = False,
) -> int:
    """Begin or go on, be the executor until it ends or pauses; the exit code."""
    async with StopRequest() as stop:
        with LiveView(as_json=as_json, quiet=quiet) as view:
            watch = _Watch(view, stop, as_json)
            ended = await deployment_run.carry_out(
                where, begin, stop, step_timeout_s=step_timeout_s, on_look=watch.show
            )
        tell(ended.document(), as_json, lambda: remark(str(ended)))
    if ended.is_aborted:
        return FAILED
    return stop.exit_code if ended.is_paused else 0


class _Watch:
    """Shows what is new of a deployment."""

    def __init__(self, view: LiveView, stop: StopRequest, as_json: bool) -> None:
        self._view = view
        self._stop = stop
        self._as_json = as_json
        self._shown: object = None
        self._said = ""
        self._pause_said = False

    def show(self, look: Look) -> None:
        if look.report.role is ExecutorRole.STANDBY and look.report.holder != self._said:
            self._said = look.report.holder
            remark(f"{self._said} executes this plan; standing by to take its place")
        seen: object = look.document() if self._as_json else look.line()
        if self._view.is_live or seen != self._shown:
            self._shown = seen
            self._view.show(look.document(), look.line(), lambda: drawing(look))
        if self._stop.is_set and not self._pause_said:
            self._pause_said = True
            remark("stopping after the current step; 'pubweave plan resume' goes on from there")


def drawing(look: Look) -> RenderableType:
    """A table of the step under way, and a bar over all steps."""
    from rich.console import Group
    from rich.progress_bar import ProgressBar
    from rich.text import Text

    table = new_table("action", "state", "buffered", "", left=("action", "state", ""))
    for action in look.report.actions:
        held = look.held.get(action.action_id, 0)
        table.add_row(
            action.text,
            Text(action.state.value, style=_STYLES[action.state]),
            f"{held:,}" if held else "",
            Text(action.reason, style="dim"),
        )
    deployment = look.report.deployment
    total = deployment.step_count if deployment is not None else 1
    reached = float(deployment.steps_done) if deployment is not None else 0.0
    if look.report.actions and reached < total:
        reached += look.done / len(look.report.actions)
    foot = f"{seconds_in_words(look.elapsed_s)}  {look.line()}"
    return Group(ProgressBar(total=total, completed=reached, width=40), "", table, "", foot)
