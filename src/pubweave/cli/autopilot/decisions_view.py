"""Decisions as tables and sentences."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence

import click

from pubweave.cli.deploy.plan_view import print_plan
from pubweave.cli.output import new_table, output_console
from pubweave.model.decisions import AutopilotStatus, DecisionRecord


def print_decisions(
    records: Sequence[DecisionRecord], autopilot: AutopilotStatus | None, now: float
) -> None:
    """One line each, and what the autopilot is doing."""
    titles = ("id", "when", "verdict", "state", "saves", "turned out", "why")
    table = new_table(*titles, left=titles)
    for column in table.columns:
        column.overflow = "fold"
    for record in records:
        saves = "" if record.prediction is None else f"{record.prediction.saving_share:.1%}"
        off = "" if record.measured is None else f"{record.measured.prediction_error:+.1%}"
        table.add_row(
            record.id.lstrip("0"),
            clock(record.decided_at),
            record.verdict.value.replace("_", " "),
            record.state.value,
            saves,
            off,
            record.reason + (f" ({record.outcome_reason})" if record.outcome_reason else ""),
        )
    if records:
        output_console().print(table)
    else:
        click.echo("no decisions yet")
    click.echo(autopilot_in_words(autopilot, now))
    for record in records:
        if record.state.value == "waiting":
            id_ = record.id.lstrip("0")
            until = "" if record.expires_at is None else f" until {clock(record.expires_at)}"
            click.echo(
                f"decision {id_} waits for an answer{until}: 'pubweave decisions approve {id_}' "
                f"or 'pubweave decisions reject {id_}'"
            )


def autopilot_in_words(status: AutopilotStatus | None, now: float) -> str:
    if status is None:
        return "no autopilot is running: start one with 'pubweave autopilot'"
    words = f"the autopilot ({status.name}, mode {status.mode.value}) is "
    words += status.phase.value.replace("_", " ")
    if status.next_look_at is not None and status.next_look_at > now:
        words += f"; next look at {clock(status.next_look_at)}"
    if status.stands_down_until is not None and status.stands_down_until > now:
        words += f"; standing down until {clock(status.stands_down_until)}"
    return words + (f"; last trouble: {status.notice}" if status.notice else "")


def print_decision(record: DecisionRecord) -> None:
    """Everything about one decision."""
    for label, text in decision_lines(record):
        click.echo(f"{label:<14} {text}")
    if record.alternatives:
        _print_alternatives(record)
    if record.plan:
        print_plan(record.plan_record().plan)


def decision_lines(record: DecisionRecord) -> Iterable[tuple[str, str]]:
    """Labels and sentences, in the order of events."""
    yield "decision", f"{record.id} of {clock(record.decided_at)}, mode {record.mode.value}"
    yield "verdict", f"{record.verdict.value.replace('_', ' ')}: {record.reason}"
    known = record.inputs
    if known is not None:
        yield (
            "profile",
            f"{known.profile_id}: {known.notifications_per_s:.1f} notifications/s at "
            f"{known.cost_ms_per_notification:.3g} ms each, {known.cost_ms_per_s:,.0f} ms/s",
        )
    if record.prediction is not None:
        yield (
            "prediction",
            f"{record.prediction.cost_ms_per_notification:.3g} ms per notification, "
            f"{record.prediction.saving_share:.1%} less than now",
        )
    yield (
        "state",
        record.state.value + (f": {record.outcome_reason}" if record.outcome_reason else ""),
    )
    if record.reviewed_by:
        yield "reviewed", f"by {record.reviewed_by}, {clock(record.reviewed_at or 0.0)}"
    if record.deployment:
        yield "deployment", record.deployment
    if record.stands_down_until is not None:
        yield "standing down", f"until {clock(record.stands_down_until)}"
    if record.measured is not None:
        yield (
            "measured",
            f"{record.measured.cost_ms_per_notification:.3g} ms per notification: "
            f"{record.measured.prediction_error:+.1%} off the prediction",
        )


def _print_alternatives(record: DecisionRecord) -> None:
    titles = ("alternative", "new links", "actions", "cost, ms/s", "saves, ms", "change, ms", "net")
    table = new_table(*titles, "", left=("alternative", ""))
    for each in record.alternatives:
        table.add_row(
            each.name,
            str(len(each.added_links)),
            str(each.action_count),
            f"{each.cost_ms_per_s:,.0f}",
            f"{each.benefit_ms:,.0f}",
            f"{each.change_cost_ms:,.0f}",
            f"{each.net_ms:,.0f}",
            "chosen" if each.name == record.chosen else each.refusal,
        )
    output_console().print(table)


def clock(instant: float) -> str:
    """An instant as people read it."""
    return time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(instant))
