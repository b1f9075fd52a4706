"""``pubweave decisions``: what the autopilot decided and why; a person's answer to it."""

from __future__ import annotations

import getpass
import time
from collections.abc import Generator
from typing import Any

import click

from pubweave.cli.autopilot.decisions_view import print_decision, print_decisions
from pubweave.cli.kinds import COUNT
from pubweave.cli.options.coordination import DeploymentChoice, ask_store, deployment_options
from pubweave.cli.output import json_option, print_json, remark, tell
from pubweave.control import records
from pubweave.control.records import list_decisions, read_autopilot, read_decision


@click.group()
def decisions() -> None:
    """Decisions of the autopilot, the newest last.

    \b
    Example:
      pubweave decisions list
      pubweave decisions show 17
      pubweave decisions approve 17
      pubweave decisions reject 17 --reason "after the weekend"
    """


@decisions.command("list")
@deployment_options
@click.option("--last", type=COUNT, default=20, help="How many of the newest.")
@click.option("--all", "show_all", is_flag=True, help="All that are kept.")
@json_option
def list_(deployment: DeploymentChoice, last: int, show_all: bool, as_json: bool) -> None:
    """List decisions; those that wait for an answer say so."""
    found, autopilot = ask_store(
        deployment.find(),
        lambda layout: _both(
            list_decisions(layout, None if show_all else last), read_autopilot(layout)
        ),
    )
    if as_json:
        for record in found:
            print_json(record)
        return
    print_decisions(found, autopilot, time.time())


@decisions.command()
@click.argument("decision_id", metavar="ID")
@deployment_options
@json_option
def show(decision_id: str, deployment: DeploymentChoice, as_json: bool) -> None:
    """Show one decision: what was known, weighed, predicted, done and measured."""
    record = ask_store(deployment.find(), lambda layout: read_decision(layout, decision_id))
    tell(record, as_json, lambda: print_decision(record))


_by_option = click.option(
    "--by", metavar="NAME", help="Who answers. [default: the name you are logged in with]"
)


@decisions.command()
@click.argument("decision_id", metavar="ID")
@deployment_options
@_by_option
@json_option
def approve(decision_id: str, deployment: DeploymentChoice, by: str | None, as_json: bool) -> None:
    """Agree to a waiting decision: the autopilot carries it out."""
    record = ask_store(
        deployment.find(),
        lambda layout: records.approve(layout, decision_id, by or _user(), time.time()),
    )
    line = f"decision {record.id} is approved; 'pubweave plan status' shows how far it is"
    tell(record, as_json, lambda: remark(line))


@decisions.command()
@click.argument("decision_id", metavar="ID")
@deployment_options
@click.option("--reason", default="", show_default=False, help="Why not, for the record.")
@_by_option
@json_option
def reject(
    decision_id: str, deployment: DeploymentChoice, reason: str, by: str | None, as_json: bool
) -> None:
    """Decline a waiting decision: this very plan is not proposed again for a while."""
    record = ask_store(
        deployment.find(),
        lambda layout: records.reject(layout, decision_id, by or _user(), time.time(), reason),
    )
    tell(record, as_json, lambda: remark(f"decision {record.id} is rejected"))


def _both(
    first: Generator[Any, Any, Any], second: Generator[Any, Any, Any]
) -> Generator[Any, Any, tuple[Any, Any]]:
    one = yield from first
    return one, (yield from second)


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without a name for its user
        return "somebody"
