"""``pubweave decisions``: what the autopilot decided and why; a person's answer to it."""

from __future__ import annotations

import getpass
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any, TypeVar

import click

from pubweave.cli.autopilot.decisions_view import print_decision, print_decisions
from pubweave.cli.options.coordination import deployment_options, find_coordination
from pubweave.cli.output import json_option, print_json, remark
from pubweave.control import records
from pubweave.control.records import list_decisions, read_autopilot, read_decision
from pubweave.deploy.layout import Layout
from pubweave.runtime.net.signals import run_async
from pubweave.runtime.store.session import opened_store, run_command

T = TypeVar("T")


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
@click.option("--last", type=click.IntRange(min=1), default=20, show_default=True,
              help="How many of the newest.")  # fmt: skip
@click.option("--all", "show_all", is_flag=True, help="All that are kept.")
@json_option
def list_(
    run_dir: Path,
    zookeeper: str | None,
    zookeeper_auth: str | None,
    overlay: str | None,
    last: int,
    show_all: bool,
    as_json: bool,
) -> None:
    """List decisions; those that wait for an answer say so."""
    found, autopilot = _ask(
        (run_dir, zookeeper, zookeeper_auth, overlay),
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
def show(
    decision_id: str,
    run_dir: Path,
    zookeeper: str | None,
    zookeeper_auth: str | None,
    overlay: str | None,
    as_json: bool,
) -> None:
    """Show one decision: what was known, weighed, predicted, done and measured."""
    record = _ask(
        (run_dir, zookeeper, zookeeper_auth, overlay),
        lambda layout: read_decision(layout, decision_id),
    )
    if as_json:
        print_json(record)
    else:
        print_decision(record)


_by_option = click.option(
    "--by", metavar="NAME", help="Who answers. [default: the name you are logged in with]"
)


@decisions.command()
@click.argument("decision_id", metavar="ID")
@deployment_options
@_by_option
@json_option
def approve(
    decision_id: str,
    run_dir: Path,
    zookeeper: str | None,
    zookeeper_auth: str | None,
    overlay: str | None,
    by: str | None,
    as_json: bool,
) -> None:
    """Agree to a waiting decision: the autopilot carries it out."""
    record = _ask(
        (run_dir, zookeeper, zookeeper_auth, overlay),
        lambda layout: records.approve(layout, decision_id, by or _user(), time.time()),
    )
    if as_json:
        print_json(record)
    else:
        remark(f"decision {record.id} is approved; 'pubweave plan status' shows how far it is")


@decisions.command()
@click.argument("decision_id", metavar="ID")
@deployment_options
@click.option("--reason", default="", help="Why not, for the record.")
@_by_option
@json_option
def reject(
    decision_id: str,
    run_dir: Path,
    zookeeper: str | None,
    zookeeper_auth: str | None,
    overlay: str | None,
    reason: str,
    by: str | None,
    as_json: bool,
) -> None:
    """Decline a waiting decision: this very plan is not proposed again for a while."""
    record = _ask(
        (run_dir, zookeeper, zookeeper_auth, overlay),
        lambda layout: records.reject(layout, decision_id, by or _user(), time.time(), reason),
    )
    if as_json:
        print_json(record)
    else:
        remark(f"decision {record.id} is rejected")


def _ask(
    options: tuple[Path, str | None, str | None, str | None],
    command: Callable[[Layout], Generator[Any, Any, T]],
) -> T:
    where = find_coordination(*options)

    async def ask() -> T:
        async with opened_store(where.target) as store:
            return await run_command(store, command(Layout(where.overlay)))

    return run_async(ask())


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
