"""``pubweave apply``: walk a running overlay through a plan."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pubweave.cli.deploy.plan_view import plan_in_words, print_plan
from pubweave.cli.deploy.run import carry_out, step_timeout_option
from pubweave.cli.errors import FAILED, BadInput
from pubweave.cli.kinds import COUNT, DIRECTORY, FILE
from pubweave.cli.options.coordination import DeploymentChoice, ask_store, deployment_options
from pubweave.cli.output import json_option, remark, tell
from pubweave.deploy import commands
from pubweave.model.files.plan import PlanRecord, plan_id, read_plan
from pubweave.model.files.topology import read_topology
from pubweave.model.records.recorded_traffic import RecordedTraffic
from pubweave.model.topology import Topology
from pubweave.runtime.coordination.mismatch import refuse_misfit
from pubweave.runtime.net.signals import run_async
from pubweave.runtime.overlay.run_directory import TELEMETRY_DIRECTORY

if TYPE_CHECKING:
    from pubweave.sim.kernel.results import RunResult


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


def rehearse(record: PlanRecord, current: Topology, traffic_dir: Path, as_json: bool) -> int:
    """Carry the plan out in simulation and tell what it cost; the exit code."""
    from pubweave.sim.whatif import rehearsal

    traffic = _recorded(traffic_dir)
    if not as_json and not traffic.publications:
        remark(f"no traffic is recorded in {traffic_dir}: this is the plan on an idle overlay")
    result = rehearsal.rehearse(current, record.plan, traffic)
    tell(_document(record, traffic, result), as_json, lambda: _print(record, traffic, result))
    return FAILED if result.violations else 0


def _recorded(directory: Path) -> RecordedTraffic:
    if not directory.is_dir():
        return RecordedTraffic()
    from pubweave.telemetry.recorded_traffic import read_traffic

    return read_traffic(directory)


def _document(record: PlanRecord, traffic: RecordedTraffic, result: RunResult) -> dict[str, Any]:
    return {
        "event": "dry_run",
        "plan_id": plan_id(record),
        "fits": True,
        "steps": [[str(action) for action in step] for step in record.plan.steps],
        "clients": len(traffic.clients),
        "publications_per_s": round(traffic.rate_per_s, 2),
        "actions_done": result.counts["actions_committed"],
        "publications": result.counts["publications"],
        "deliveries": result.counts["deliveries"],
        "deliveries_due": result.counts["due"],
        "held_publications": result.counts["held_publications"],
        **result.measures,
        "violations": list(result.violations),
    }


def _print(record: PlanRecord, traffic: RecordedTraffic, result: RunResult) -> None:
    print_plan(record.plan)
    click.echo(f"{plan_in_words(record.plan)}; it fits the overlay, and nothing was changed")
    measures, counts = result.measures, result.counts
    click.echo(
        f"in simulation, with {len(traffic.clients)} recorded clients and "
        f"{traffic.rate_per_s:.1f} publications/s: {measures['plan_s']:.2f} s; "
        f"{counts['held_publications']} publications wait, at most {measures['hold_ms_max']:.0f} ms"
    )
    if counts["deliveries"]:
        click.echo(
            f"99% of the deliveries meanwhile take at most {measures['affected_ms_p99']:.0f} ms "
            f"where the plan affects them ({measures['affected_share']:.0%} of all), "
            f"{measures['unaffected_ms_p99']:.0f} ms elsewhere; "
            f"{counts['deliveries']:,} of {counts['due']:,} arrive"
        )
    for violation in result.violations[:5]:
        click.echo(f"  {violation}")
