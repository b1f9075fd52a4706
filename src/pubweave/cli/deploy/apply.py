"""``pubweave apply``: walk a running overlay through a plan."""

from __future__ import annotations

from pathlib import Path

import click

from pubweave.cli.deploy.dry_run import rehearse
from pubweave.cli.deploy.mismatch import refuse_misfit
from pubweave.cli.deploy.run import carry_out
from pubweave.cli.errors import BadInput
from pubweave.cli.options.coordination import DeploymentChoice, ask_store, deployment_options
from pubweave.cli.options.kinds import COUNT, DIRECTORY, FILE, POSITIVE
from pubweave.cli.output import json_option
from pubweave.deploy import commands
from pubweave.model.files.plan import read_plan
from pubweave.model.files.topology import read_topology
from pubweave.runtime.net.signals import run_async
from pubweave.runtime.overlay.run_directory import TELEMETRY_DIRECTORY

STEP_TIMEOUT_S = 60.0

step_timeout_option = click.option(
    "--step-timeout",
    default=STEP_TIMEOUT_S,
    type=POSITIVE,
    metavar="SECONDS",
    help="A step that takes longer is aborted, and the plan with it.",
)


@click.command()
@click.argument("plan_file", metavar="PLAN", type=FILE)
@deployment_options
@click.option("--pause-after-step", type=COUNT, metavar="N", help="Pause when N steps are done.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Change nothing: carry the plan out in simulation, on the recorded traffic.",
)
@click.option(
    "--traffic",
    type=DIRECTORY,
    help="Recorded telemetry for --dry-run. [default: RUN_DIR/telemetry]",
)
@click.option(
    "--source",
    type=FILE,
    help="The topology the plan was made for, to show exactly how the overlay differs.",
)
@click.option(
    "--reason",
    default="",
    show_default=False,
    help="Why, for those who look at 'pubweave plan status'.",
)
@step_timeout_option
@click.option("-q", "--quiet", is_flag=True, help="Report only the end.")
@json_option
@click.pass_context
def apply(
    ctx: click.Context,
    plan_file: Path,
    deployment: DeploymentChoice,
    pause_after_step: int | None,
    dry_run: bool,
    traffic: Path | None,
    source: Path | None,
    reason: str,
    step_timeout: float,
    quiet: bool,
    as_json: bool,
) -> None:
    """Walk a running overlay through a PLAN, step by step, while it delivers.

    The next step starts when the last one has succeeded everywhere; a step that fails or takes
    too long is undone as far as it was not decided, and ends the plan with a valid overlay. Ctrl-C
    stops after the current step. Should this command be killed, 'pubweave plan resume' goes on.

    Exit code 0 when done or paused as asked, 1 if the plan was aborted, 2 if it does not fit.

    \b
    Example:
      pubweave plan make before.json after.json -o plan.json
      pubweave apply plan.json
      pubweave apply plan.json --pause-after-step 1 --json
    """
    record = read_plan(plan_file)
    made_for = None if source is None else read_topology(source)
    if not record.plan.steps:
        raise BadInput(f"{plan_file}: the plan has no steps: there is nothing to apply")
    where = deployment.find()
    current = ask_store(where, commands.read_topology)
    refuse_misfit(record, current, made_for, where.overlay)
    if dry_run:
        recorded = traffic or deployment.run_dir / TELEMETRY_DIRECTORY
        ctx.exit(rehearse(record, current, recorded, as_json))

    ctx.exit(
        run_async(
            carry_out(
                where,
                lambda layout: commands.submit(layout, record, pause_after_step, purpose=reason),
                step_timeout_s=step_timeout,
                as_json=as_json,
                quiet=quiet,
            )
        )
    )
