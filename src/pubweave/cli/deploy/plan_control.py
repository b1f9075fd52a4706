"""``pubweave plan status|resume|abort``: the plan that an overlay is walked through."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, TypeVar

import click

from pubweave.cli.deploy.run import carry_out, step_timeout_option
from pubweave.cli.kinds import COUNT
from pubweave.cli.options.coordination import DeploymentChoice, ask_store, deployment_options
from pubweave.cli.output import json_option, new_table, output_console, print_json, remark, tell
from pubweave.deploy.commands import ActionStatus, Progress, abort, read_progress, resume
from pubweave.runtime.coordination.deployment_run import deployment_document, end_in_words
from pubweave.runtime.net.signals import run_async

T = TypeVar("T")


@click.command("status")
@deployment_options
@json_option
def plan_status(deployment: DeploymentChoice, as_json: bool) -> None:
    """Show how far the overlay's plan is, the last one's end included.

    \b
    Example:
      pubweave plan status
      pubweave plan status --json
    """
    progress = ask_store(deployment.find(), read_progress)
    tell(_document(progress), as_json, lambda: _print(progress))


@click.command("resume")
@deployment_options
@click.option(
    "--pause-after-step", type=COUNT, metavar="N", help="Pause again when N steps are done in all."
)
@step_timeout_option
@click.option("-q", "--quiet", is_flag=True, help="Report only the end.")
@json_option
@click.pass_context
def plan_resume(
    ctx: click.Context,
    deployment: DeploymentChoice,
    pause_after_step: int | None,
    step_timeout: float,
    quiet: bool,
    as_json: bool,
) -> None:
    """Go on with a plan that paused, or whose 'pubweave apply' died.

    While another one executes it, this one stands by to take its place, and says so.

    \b
    Example:
      pubweave plan resume
    """
    where = deployment.find()
    ctx.exit(
        run_async(
            carry_out(
                where,
                lambda layout: resume(layout, pause_after_step),
                step_timeout_s=step_timeout,
                as_json=as_json,
                quiet=quiet,
            )
        )
    )


@click.command("abort")
@deployment_options
@click.option("--reason", default="asked by the operator")
@json_option
def plan_abort(deployment: DeploymentChoice, reason: str, as_json: bool) -> None:
    """Give the overlay's plan up where it is; the overlay stays as the last actions left it.

    What is decided of the current step is still finished, by whoever executes the plan.

    \b
    Example:
      pubweave plan abort --reason "the new rack is not ready"
    """
    ended = ask_store(deployment.find(), lambda layout: abort(layout, reason))
    if as_json:
        print_json({**deployment_document(ended), "reason": ended.reason or None})
        return
    remark(
        f"plan {ended.deployment} is {ended.state.value}: "
        f"{ended.steps_done} of {ended.step_count} steps done"
        + ("" if ended.state.is_final else "; watch its end with 'pubweave plan status'")
    )


def _document(progress: Progress) -> dict[str, Any]:
    deployment = progress.deployment
    return {
        **deployment_document(deployment),
        "pause_after": deployment.pause_after,
        "reason": deployment.reason or None,
        "purpose": deployment.purpose or None,
        "executor": progress.executor,
        "steps": [list(step) for step in progress.steps],
        "actions": [
            {
                "action": action.text,
                "state": action.state.value,
                "reason": action.reason or None,
                "held_messages": action.held_messages,
                "reported": sorted(action.parts),
                "waits_for": list(action.waits_for),
                "since": action.since,
            }
            for action in progress.actions
        ],
        "missing_brokers": list(progress.missing),
    }


def _waiting(action: ActionStatus, missing: Sequence[str], now: float) -> str:
    """What a decided action waits for, and since when: there is no way back from a decision.

    It has no time limit either, so somebody may have to see to a broker that is gone."""
    since = "" if action.since is None else f" {max(0.0, now - action.since):,.0f} s ago"
    whom = ", ".join(
        f"{broker} (not there: start it again)" if broker in missing else broker
        for broker in action.waits_for
    )
    return f"{action.text} was decided{since} and waits for {whom}"


def _print(progress: Progress) -> None:
    deployment = progress.deployment
    titles = ("step", "action", "state", "reported by", "why")
    table = new_table(*titles, left=titles)
    for number, step in enumerate(progress.steps, 1):
        if number <= deployment.steps_done:
            table.add_row(str(number), f"{len(step)} actions", "done", "", "")
        elif number == deployment.steps_done + 1:
            for action in progress.actions:
                reported = ", ".join(sorted(action.parts))
                table.add_row(str(number), action.text, action.state.value, reported, action.reason)
        else:
            table.add_row(str(number), f"{len(step)} actions", "", "", "")
    output_console().print(table)
    told = end_in_words(
        deployment.state, deployment.steps_done, deployment.step_count, deployment.reason
    )
    click.echo(f"plan {deployment.deployment} {told}")
    if deployment.purpose:
        click.echo(f"asked for because: {deployment.purpose}")
    for action in progress.actions:
        if action.waits_for:
            click.echo(_waiting(action, progress.missing, time.time()))
    if not deployment.state.is_final:
        who = progress.executor or "nobody: 'pubweave plan resume' goes on with it"
        click.echo(f"executed by {who}")
