"""``pubweave relocate``: where publishers and subscribers cost least, and moving them there."""

from __future__ import annotations

from pathlib import Path

import click

from pubweave.cli.errors import FAILED, blaming
from pubweave.cli.kinds import DIRECTORY, FILE, NOT_NEGATIVE, together
from pubweave.cli.options.target import run_dir_option
from pubweave.cli.output import json_option, print_json, progress_bar, remark, tell, warn
from pubweave.cli.relocate.view import (
    print_selection,
    profile_document,
    selection_document,
    show_clients,
    status_document,
)
from pubweave.core.config.relocation import RelocationConfig
from pubweave.design.relocation.publisher_profile import choose_publishers, choose_subscribers
from pubweave.design.relocation.rules import Preference, Priority
from pubweave.model.files.profile import WorkloadProfile
from pubweave.model.records.status import TraceRequest
from pubweave.runtime.net.signals import StopRequest, run_async
from pubweave.runtime.observe.live_relocation import ClientMove, LiveRelocation, observer_in

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
    ctx.exit(run_async(relocate_overlay(run_dir, request, publishers, wait, dry_run, as_json)))


async def relocate_overlay(
    run_dir: Path,
    request: TraceRequest,
    publishers: tuple[str, ...],
    wait_s: float,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Trace, show, and move unless it is a dry run; the exit code."""
    role = "subscriber" if request.subscribers else "publisher"
    async with StopRequest() as stop, observer_in(run_dir) as observer:
        relocation = LiveRelocation(observer, request, publishers, on_warning=warn)
        title = f"tracing {request.publications} publications of each publisher"
        with progress_bar(title, None, shown=not as_json) as bar:
            if not await stop.unless(relocation.trace(wait_s, bar.to)):
                return stop.exit_code
        documents = [
            status_document(client, broker, status, role)
            for client, (broker, status) in relocation.selections.items()
        ]
        if documents or as_json or role == "publisher":
            show_clients(documents, role, as_json)
        else:
            remark(f"no {role} of a traced publisher is attached to this overlay")
        failed: list[ClientMove] = []

        def tell(move: ClientMove) -> None:
            _tell(move, role, as_json)
            failed.extend([move] if move.problem else [])

        if not dry_run:
            await stop.unless(relocation.move(tell))
        return stop.exit_code or (FAILED if failed else 0)


def _tell(move: ClientMove, role: str, as_json: bool) -> None:
    client, selection, status = move.client, move.selection, move.status
    if as_json:
        print_json({
            "event": "moved" if not move.problem else "not_moved",
            role: client,
            "from": selection.publisher_at,
            "to": selection.choice,
            "problem": move.problem,
            **({} if status is None else {"hops": status.hops, "paused_ms": status.paused_ms}),
        })  # fmt: skip
    elif move.problem:
        warn(f"{client} was not moved to {selection.choice}: {move.problem}")
    else:
        waited = f", it waited {status.paused_ms:.0f} ms over {status.hops} hops" if status else ""
        remark(f"{client} moved from {selection.publisher_at} to {selection.choice}{waited}")


def _from_profile(
    profile_dir: Path,
    priority: str,
    weight: float,
    least_gain: float,
    publishers: tuple[str, ...],
    as_json: bool,
) -> None:
    preference = Preference(Priority(priority), weight)
    with blaming(str(profile_dir)):
        chosen = choose_publishers(
            WorkloadProfile(profile_dir),
            preference,
            least_gain=least_gain / 100,
            publishers=publishers,
        )
    documents = [profile_document(client, selection) for client, selection in chosen.items()]
    show_clients(documents, "publisher", as_json)


def _subscribers_from_profile(
    profile_dir: Path, priority: str, weight: float, least_gain: float, as_json: bool
) -> None:
    preference, room = Preference(Priority(priority), weight), RelocationConfig().most_clients
    with blaming(str(profile_dir)):
        chosen = choose_subscribers(
            WorkloadProfile(profile_dir), preference, room, least_gain / 100
        )
    documents = [
        profile_document(client, selection, "subscriber") for client, selection in chosen.items()
    ]
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
    for words in given.remarks:
        warn(f"{statistics_file}: {words}")
    preference = Preference(Priority(priority), weight)
    selection = select_broker(given.reports, given.publisher_at, given.ping_ms, preference)
    document = selection_document(selection)
    tell(
        {"file": str(statistics_file), **document},
        as_json,
        lambda: print_selection(document, f"{statistics_file}: {preference}"),
    )
