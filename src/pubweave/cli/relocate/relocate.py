"""``pubweave relocate``: where publishers and subscribers cost least, and moving them there."""

from __future__ import annotations

from pathlib import Path

import click

from pubweave.cli.errors import BadInput, blaming
from pubweave.cli.kinds import DIRECTORY, FILE, NOT_NEGATIVE, together
from pubweave.cli.options.target import run_dir_option
from pubweave.cli.output import json_option, print_json, warn
from pubweave.cli.relocate.live import LiveRelocation, relocate_overlay
from pubweave.cli.relocate.view import (
    print_selection,
    profile_document,
    selection_document,
    show_clients,
)
from pubweave.core.config.relocation import RelocationConfig
from pubweave.design.relocation.publisher_profile import subscriber_problem, traced_publishers
from pubweave.design.relocation.rules import Preference, Priority
from pubweave.design.relocation.subscriber import SubscriberPlacement
from pubweave.model.files.profile import WorkloadProfile
from pubweave.model.records.status import TraceRequest
from pubweave.runtime.net.signals import run_async

preference_options = together(
    click.option(
        "--priority",
        type=click.Choice(["load", "delay"]),
        default="load",
        help="What to minimise first: the system's message rate or the average delay.",
    ),
    click.option(
        "--weight",
        type=click.FloatRange(0, 100),
        default=100.0,
        help="How much of it: candidates within 100 - WEIGHT of the best stay.",
    ),
)
"""GRAPE's two settings."""


@click.group(invoke_without_command=True)
@run_dir_option
@preference_options
@click.option("--dry-run", is_flag=True, help="Show where clients should be; move nobody.")
@click.option(
    "--subscribers",
    is_flag=True,
    help="Place the subscribers of these publishers instead; publishers stay.",
)
@click.option(
    "--least-gain",
    type=click.FloatRange(0, 99),
    default=0.0,
    metavar="PERCENT",
    help="By how much a move has to lower what decides it; overlays that decide by themselves "
    "ask for 5.",
)
@click.option(
    "--from-profile",
    "profile_dir",
    type=DIRECTORY,
    help="Decide from a workload profile, made by 'pubweave profile', instead of live traces.",
)
@click.option("--publisher", "publishers", multiple=True, help="Only this one; may be repeated.")
@click.option(
    "--trace",
    type=click.IntRange(1, 4096),
    default=100,
    metavar="PUBLICATIONS",
    help="How many publications of each publisher are traced.",
)
@click.option(
    "--wait", type=NOT_NEGATIVE, default=120.0, metavar="SECONDS", help="How long to wait for them."
)
@json_option
@click.pass_context
def relocate(
    ctx: click.Context,
    run_dir: Path,
    priority: str,
    weight: float,
    dry_run: bool,
    subscribers: bool,
    least_gain: float,
    profile_dir: Path | None,
    publishers: tuple[str, ...],
    trace: int,
    wait: float,
    as_json: bool,
) -> None:
    """Move publishers, or subscribers, to the brokers where they cost least (GRAPE).

    Every publisher of a running overlay is traced over its next publications; then its broker
    knows the average delay and the message rate with the publisher at any broker. With
    --subscribers a round then goes through the brokers of each publisher's tree, which place the
    subscribers attached to them. Overlays that do this by themselves are started with
    'pubweave up --relocation' (and '--relocation-subscribers').

    \b
    Example:
      pubweave relocate --dry-run
      pubweave relocate --priority delay --weight 75 --publisher quotes
      pubweave relocate --subscribers --dry-run
      pubweave relocate --dry-run --from-profile profile
      pubweave relocate select stats.json --priority load --weight 100 --json
    """
    if ctx.invoked_subcommand is not None:
        return
    if profile_dir is not None:
        if not dry_run:
            raise click.UsageError("a profile has no brokers to ask: give --dry-run, too")
        if subscribers:
            _subscribers_from_profile(profile_dir, priority, weight, least_gain, as_json)
        else:
            _from_profile(profile_dir, priority, weight, least_gain, publishers, as_json)
        return
    request = TraceRequest(priority, weight, trace, least_gain / 100, subscribers)
    asked = LiveRelocation(request, publishers, wait, dry_run, as_json)
    ctx.exit(run_async(relocate_overlay(run_dir, asked)))


def _from_profile(
    profile_dir: Path,
    priority: str,
    weight: float,
    least_gain: float,
    publishers: tuple[str, ...],
    as_json: bool,
) -> None:
    from pubweave.design.relocation.publisher import DeliveryStatistics, select_broker

    profile = WorkloadProfile(profile_dir)
    with blaming(str(profile_dir)):
        traced = traced_publishers(profile)
    missing = sorted(set(publishers) - {found.publisher for found in traced})
    if missing:
        raise BadInput(f"{profile_dir}: it has no traced publisher {missing[0]!r}")
    preference = Preference(Priority(priority), weight)
    documents = []
    for found in traced:
        if publishers and found.publisher not in publishers:
            continue
        statistics = DeliveryStatistics.of(found.reports)
        equally_far = dict.fromkeys(found.reports, 0.0)
        selection = select_broker(statistics, found.publisher_at, equally_far, preference)
        selection = selection.unless_less_than(least_gain / 100)
        documents.append(profile_document(found.publisher, selection))
    show_clients(documents, "publisher", as_json)


def _subscribers_from_profile(
    profile_dir: Path, priority: str, weight: float, least_gain: float, as_json: bool
) -> None:
    preference = Preference(Priority(priority), weight)
    profile = WorkloadProfile(profile_dir)
    with blaming(str(profile_dir)):
        room = RelocationConfig().most_clients
        problem = subscriber_problem(profile, preference, room, least_gain / 100)
        placement = SubscriberPlacement(problem)
    documents = []
    for client in list(placement.subscribers):
        selection = placement.choose(client)
        documents.append(profile_document(client, selection, "subscriber"))
        if selection.moves:
            placement.move(client, selection.choice)
    show_clients(documents, "subscriber", as_json)


@relocate.command()
@click.argument("statistics_file", metavar="STATS", type=FILE)
@preference_options
@json_option
def select(statistics_file: Path, priority: str, weight: float, as_json: bool) -> None:
    """Decide from a file: all candidates with both metrics, the choice and why (GRAPE 4.2).

    STATS is node-link JSON. Its nodes carry 'deliveries', 'bits' (hexadecimal) and
    'queue_match_ms' (by neighbor, and 'client'); beside them stand 'publisher_at' and 'ping_ms'
    (round trips by broker). docs/papers/pop-grape.md has an example.

    \b
    Example:
      pubweave relocate select stats.json --priority load --weight 100 --json
    """
    from pubweave.design.relocation.files import parse_statistics
    from pubweave.design.relocation.publisher import select_broker

    with blaming(str(statistics_file)):
        given = parse_statistics(statistics_file.read_bytes())
    for remark in given.remarks:
        warn(f"{statistics_file}: {remark}")
    preference = Preference(Priority(priority), weight)
    selection = select_broker(given.statistics, given.publisher_at, given.ping_ms, preference)
    document = selection_document(selection)
    if as_json:
        print_json({"file": str(statistics_file), **document})
    else:
        print_selection(document, f"{statistics_file}: {preference}")
