"""``pubweave plan``: make plans, look at them, have them judged.

Parsing, progress and exit codes only. A plan that is made has passed the judge; Ctrl-C and the
time limit end the search with the best plan so far, which is then a result like any other.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from pubweave.cli.deploy.plan_control import plan_abort, plan_resume, plan_status
from pubweave.cli.deploy.plan_view import plan_in_words, print_plan, print_result, result_json
from pubweave.cli.errors import FAILED, BadInput
from pubweave.cli.kinds import COUNT_OR_ZERO, FILE, POSITIVE
from pubweave.cli.options.plan_rules import (
    costs_from,
    problem_from,
    rule_options,
    source_argument,
    target_argument,
)
from pubweave.cli.options.time_limit import SearchStop, stopping
from pubweave.cli.output import changing_line, json_option, print_json, remark, tell, warn
from pubweave.model.files.plan import (
    PlanFileError,
    plan_id,
    read_plan,
    validate_belongs,
    write_plan,
)
from pubweave.model.files.topology import read_topology
from pubweave.planning.check.validate import InvalidPlanError, validate_plan
from pubweave.planning.problem.problem import OnProgress, PlanningProgress, PlanResult, PlanStatus

IMPOSSIBLE = 3
UNKNOWN = 4
METHODS = (
    "auto",
    "exact",
    "fast",
    "ip-naive",
    "ip-all-paths",
    "ip-each-path",
    "bfs",
    "bfs-parallel",
)


class _AsInLife(click.Group):
    """Its overview has the verbs in the order in which a plan meets them."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(cls=_AsInLife)
def plan() -> None:
    """Plan the way from one topology to another, judge plans, and steer one that is applied.

    \b
    Example:
      pubweave plan make before.json after.json -o plan.json
      pubweave plan show before.json plan.json -o plan.png
      pubweave plan validate before.json after.json plan.json
      pubweave apply plan.json
      pubweave plan status
    """


@plan.command(short_help="Make a plan of the fewest steps.")
@source_argument
@target_argument
@click.option("-o", "--output", type=FILE, help="Write the plan to this file.")
@click.option(
    "--method",
    default="auto",
    type=click.Choice(METHODS),
    help="How to plan; ip-* are the paper's integer programs, bfs is its baseline.",
)
@click.option(
    "--time-limit", type=POSITIVE, metavar="SECONDS", help="End with the best plan found by then."
)
@rule_options
@click.option(
    "--action-cost",
    default="uniform",
    metavar="uniform|latency|traffic|FILE",
    help="What to minimise at the fewest steps; FILE is CSV: broker,cost.",
)
@click.option("--same-brokers", is_flag=True, help="Refuse topologies with different brokers.")
@click.option("--seed", default=0, type=COUNT_OR_ZERO)
@json_option
@click.pass_context
def make(
    ctx: click.Context,
    /,
    source: Path,
    target: Path,
    output: Path | None,
    method: str,
    time_limit: float | None,
    action_cost: str,
    same_brokers: bool,
    seed: int,
    as_json: bool,
    **rules: Any,
) -> None:
    """Make a plan of the fewest steps from SOURCE to TARGET.

    Exit code 0 with a plan, 3 if it is proven that there is none, 4 if none was found in time.
    Brokers that only TARGET has are appended first, those that only SOURCE has are detached last.

    \b
    Example:
      pubweave plan make before.json after.json -o plan.json --time-limit 60
    """
    from pubweave.planning.solver import solve_problem

    problem = problem_from(source, target, **rules)
    if same_brokers and problem.source.brokers != problem.target.brokers:
        different = min(problem.source.brokers ^ problem.target.brokers)
        raise BadInput(f"the topologies have different brokers, for example {different!r}")
    problem = replace(problem, action_cost=costs_from(action_cost, problem.source, problem.target))
    with stopping(time_limit) as stop, _shown_progress(as_json) as on_progress:
        result = solve_problem(
            problem,
            method=method,
            stop=stop,
            clock=time.perf_counter,
            seed=seed,
            on_progress=on_progress,
        )
    result = _with_note(result, stop)
    record = None if result.plan is None else result.record(problem.source, problem.target)
    if output is not None and record is not None:
        write_plan(record, output)
    tell(
        result_json(result, record),
        as_json,
        lambda: print_result(result, is_written=output is not None),
    )
    if output is not None and record is not None and not as_json:
        remark(f"wrote {output}")
    ctx.exit(_exit_code(result))


@plan.command(short_help="Show a plan in words or as a picture.")
@source_argument
@click.argument("plan_file", metavar="PLAN", type=FILE)
@click.option("-o", "--output", type=FILE, help="Draw the steps into this file, .png or .svg.")
@json_option
def show(source: Path, plan_file: Path, output: Path | None, as_json: bool) -> None:
    """Show a PLAN that starts at SOURCE, in words or as a picture of every step.

    \b
    Example:
      pubweave plan show before.json plan.json -o plan.png
    """
    topology, record = read_topology(source), read_plan(plan_file)
    validate_belongs(record, topology)
    if output is not None:
        from pubweave.plots.plan import draw_plan

        draw_plan(topology, record.plan, output)
    if as_json:
        status = None if record.status is None else record.status.value
        print_json(
            {
                "plan_id": plan_id(record),
                "status": status,
                "method": record.method,
                "step_count": record.plan.step_count,
                "action_count": record.plan.action_count,
                "picture": None if output is None else str(output),
            }
        )
        return
    print_plan(record.plan)
    known = "" if record.status is None else f", {record.status.value}"
    click.echo(f"{plan_in_words(record.plan)}{known}")
    if output is not None:
        remark(f"wrote {output}")


@plan.command(short_help="Judge a plan of any origin.")
@source_argument
@target_argument
@click.argument("plan_file", metavar="PLAN", type=FILE)
@rule_options
@json_option
@click.pass_context
def validate(
    ctx: click.Context, /, source: Path, target: Path, plan_file: Path, as_json: bool, **rules: Any
) -> None:
    """Judge a PLAN of any origin that claims to lead from SOURCE to TARGET.

    Exit code 0 if it is valid, 1 if it breaks a rule. The judge shares no code with the planners.

    \b
    Example:
      pubweave plan validate before.json after.json plan.json --max-degree 7
    """
    problem = problem_from(source, target, **rules)
    record = read_plan(plan_file)
    try:
        validate_belongs(record, problem.source, problem.target)
    except PlanFileError as error:
        warn(f"{plan_file}: {error}")
    verdict: dict[str, Any] = {"valid": True, "steps": record.plan.step_count}
    verdict["actions"] = record.plan.action_count
    try:
        validate_plan(problem, record.plan)
    except InvalidPlanError as error:
        verdict = {
            "valid": False,
            "step": error.step,
            "action": None if error.action is None else str(error.action),
            "rule": error.rule.name.lower(),
            "message": str(error),
        }
    if as_json:
        print_json(verdict)
    elif verdict["valid"]:
        click.echo(f"valid: {plan_in_words(record.plan)}")
    else:
        click.echo(f"not valid: {verdict['message']}")
    ctx.exit(0 if verdict["valid"] else FAILED)


def _exit_code(result: PlanResult) -> int:
    if result.plan is not None:
        return 0
    return IMPOSSIBLE if result.status is PlanStatus.INFEASIBLE else UNKNOWN


def _with_note(result: PlanResult, stop: SearchStop) -> PlanResult:
    if not stop.was_asked:
        return result
    why = "Ctrl-C" if stop.interrupted else f"the time limit of {stop.limit_s:g} s"
    found = "no plan was found by then" if result.plan is None else "this is the best plan by then"
    if result.status.value == "optimal":
        return result
    return replace(result, notes=(*result.notes, f"ended by {why}: {found}"))


@contextlib.contextmanager
def _shown_progress(as_json: bool) -> Iterator[OnProgress]:
    """What the planner tells, on one changing line of standard error."""
    title = "planning (Ctrl-C ends with the best plan so far)"
    with changing_line(title, shown=not as_json) as say:
        best = ""

        def on_progress(progress: PlanningProgress) -> None:
            nonlocal best
            if progress.plan is not None:
                best = f"; best so far {plan_in_words(progress.plan)}"
            say(progress.message + best)

        yield on_progress


for verb, summary in (
    (plan_status, "How far the overlay's plan is."),
    (plan_resume, "Go on with a plan that paused or was left."),
    (plan_abort, "Give the overlay's plan up where it is."),
):
    verb.short_help = summary
    plan.add_command(verb)
