"""A planning result in words and as JSON."""

from __future__ import annotations

from typing import Any

import click

from pubweave.deploy.topology_state import rounds, schedule_step
from pubweave.model.amounts import counted
from pubweave.model.files.plan import PlanRecord, plan_id
from pubweave.model.plans import Move, Plan, PlanStatus
from pubweave.planning.problem.problem import PlanResult

_PROVEN = {
    PlanStatus.OPTIMAL: "proven: no plan has fewer steps, none of as many steps costs less",
    PlanStatus.STEPS_OPTIMAL: "proven: no plan has fewer steps; at least {actions} are needed",
    PlanStatus.FEASIBLE: "valid; at least {steps} and {actions} are needed",
}
_WRAP_AT = 96
_ACTIONS_REPEATED = 300


def result_json(result: PlanResult, record: PlanRecord | None) -> dict[str, Any]:
    """One object for programs: the file's fields and the counts."""
    document: dict[str, Any] = {
        "format_version": 1,
        "status": result.status.value,
        "method": result.method,
        "seconds": round(result.seconds, 6),
        "bounds": {"steps": result.bounds.steps, "actions": result.bounds.actions},
        "notes": list(result.notes),
    }
    if record is not None:
        document |= {
            "plan_id": plan_id(record),
            "source": record.source_hash,
            "target": record.target_hash,
            "step_count": record.plan.step_count,
            "action_count": record.plan.action_count,
            "round_count": rounds_of(record.plan),
            "steps": [
                [
                    {"op": type(action).__name__.lower(), "brokers": list(action.brokers)}
                    for action in step
                ]
                for step in record.plan.steps
            ],
        }
    return document


def plan_in_words(plan: Plan) -> str:
    return f"{counted(plan.step_count, 'step')}, {counted(plan.action_count, 'action')}"


def rounds_of(plan: Plan) -> int | None:
    """How many rounds of actions the plan takes: those of a step that share a broker wait for
    each other. None: that depends on the topology (moves)."""
    if any(isinstance(action, Move) for action in plan.actions()):
        return None
    return sum(rounds(schedule_step(step)) for step in plan.steps)


def _in_rounds(plan: Plan) -> str:
    rounds = rounds_of(plan)
    return "" if rounds is None else f" in {counted(rounds, 'round')}"


def print_plan(plan: Plan) -> None:
    """One paragraph per step, its actions wrapped."""
    width = len(str(plan.step_count))
    for number, step in enumerate(plan.steps, 1):
        lines, line = [], ""
        for action in step:
            text = str(action)
            if line and len(line) + len(text) + 2 > _WRAP_AT:
                lines.append(line)
                line = ""
            line = f"{line}, {text}" if line else text
        lines.append(line)
        indent = ",\n" + " " * (width + 7)
        click.echo(f"step {number:>{width}}: {indent.join(lines)}")


def print_result(result: PlanResult, *, is_written: bool) -> None:
    """The plan, then what is known about it; a long plan that is in a file is not repeated."""
    if result.plan is not None:
        if not is_written or result.plan.action_count <= _ACTIONS_REPEATED:
            print_plan(result.plan)
        proven = _PROVEN[result.status].format(
            steps=counted(result.bounds.steps, "step"),
            actions=counted(result.bounds.actions, "action"),
        )
        click.echo(
            f"{plan_in_words(result.plan)}{_in_rounds(result.plan)} "
            f"({result.status.value}, {proven}); "
            f"{result.method}, {result.seconds:.2f} s"
        )
    else:
        click.echo(f"{result.status.value} ({result.method}, {result.seconds:.2f} s)")
    for note in result.notes:
        click.echo(f"note: {note}")
