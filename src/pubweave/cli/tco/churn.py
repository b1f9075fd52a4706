"""``pubweave tco churn``: joins, leaves and changes of topics, round by round.

What came of it is written when the rounds end, also by Ctrl-C: the overlay (``-o``) and who wants
what (``--subscriptions-out``) after the last whole round.
"""

from __future__ import annotations

import csv
import io
import os
import select
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pubweave.cli.errors import FAILED, INTERRUPTED, BadInput, blaming
from pubweave.cli.kinds import COUNT, COUNT_OR_ZERO, together
from pubweave.cli.options.time_limit import SearchStop, stopping
from pubweave.cli.output import json_option, print_json, progress_bar, remark, warn
from pubweave.cli.tco.view import print_round, print_summary, summary_of
from pubweave.model.files.atomic import replace_file
from pubweave.model.files.subscriptions import read_subscriptions
from pubweave.model.files.topology import read_topology, write_topology
from pubweave.model.topology import Topology

if TYPE_CHECKING:
    from pubweave.design.tco.changes import Change
    from pubweave.design.tco.churn import MaintainedOverlay
    from pubweave.design.tco.rounds import RoundRecord

    Named = tuple[str, Sequence[Change] | str]
    """A round, or the line of JSON that has one, and where it is from."""

FILE = click.Path(path_type=Path)
LOOK_S = 0.2
VERIFIED_EACH_ROUND = 5_000
"""Larger overlays are verified every 100 rounds unless one asks for more."""


_setting_options = together(
    click.option(
        "--rule",
        default="lean",
        type=click.Choice(["lean", "all", "shadows"]),
        help="The degree links keep to: ours, which also drops needless links; or the paper's "
        "maximum, over all nodes or over the shadow set.",
    ),
    click.option(
        "--method",
        default="shadow",
        type=click.Choice(["shadow", "naive"]),
        help="Links are sought among shadows, or among everybody.",
    ),
    click.option(
        "--backups",
        default="primal-dual",
        type=click.Choice(["primal-dual", "greedy"]),
        help="How backups are chosen.",
    ),
    click.option(
        "--coverage",
        default=3,
        type=COUNT,
        help="How often backups cover each topic (the paper's lambda).",
    ),
)


@click.command()
@click.argument("overlay", type=FILE)
@click.option("--subscriptions", type=FILE, required=True, help="Who wants what at the beginning.")
@click.option("--joins", type=COUNT_OR_ZERO, help="So many random nodes join.")
@click.option("--leaves", type=COUNT_OR_ZERO, help="So many random nodes leave.")
@click.option(
    "--per-round",
    default=1,
    type=COUNT,
    help="With --joins and --leaves: so many of them in each round.",
)
@click.option(
    "--churn",
    "churn_file",
    type=FILE,
    help="From a file: JSON lines, or CSV with round,change,client,topic.",
)
@click.option("--follow", is_flag=True, help="Rounds from standard input, a line of JSON each.")
@_setting_options
@click.option(
    "--verify-every",
    type=COUNT_OR_ZERO,
    metavar="ROUNDS",
    help="Ask the verifier so often; 0 is never. [default: 1, or 100 above 5,000 nodes]",
)
@click.option("--compare", is_flag=True, help="At the end, beside a new overlay by Low-ODA.")
@click.option("-o", "--output", type=FILE, help="Write the overlay as it is at the end.")
@click.option("--subscriptions-out", type=FILE, help="Write who wants what at the end, as CSV.")
@click.option("--seed", default=0, type=COUNT_OR_ZERO)
@json_option
def churn(
    overlay: Path,
    subscriptions: Path,
    output: Path | None,
    subscriptions_out: Path | None,
    compare: bool,
    follow: bool,
    verify_every: int | None,
    seed: int,
    as_json: bool,
    **options: Any,
) -> None:
    """Keep OVERLAY topic-connected while nodes join, leave and change their topics.

    A round is one change, or several at once. JSON lines:

    \b
      {"join": "n7", "topics": ["a", "b"]}
      [{"leave": "n3"}, {"change": "n4", "begin": ["c"], "end": ["a"]}]

    In CSV the rows of one number are a round; change is join, leave, begin or end. With --json
    each round is an object, the summary the last. Exit code 1 if a topic was ever not connected.

    \b
    Example:
      pubweave tco churn overlay.json --subscriptions s.csv --joins 500 --leaves 500 -o after.json
      pubweave tco churn overlay.json --subscriptions s.csv --churn changes.csv --json
      tail -f changes.jsonl | pubweave tco churn overlay.json --subscriptions s.csv --follow
    """
    from pubweave.design.tco.rounds import play
    from pubweave.design.warm_up import warm_up_tco

    warm_up_tco()
    maintained = _opened(overlay, subscriptions, seed, options)
    before = (maintained.average_degree, maintained.max_degree)
    every = _verify_every(verify_every, maintained.node_count)
    records: list[RoundRecord] = []
    is_live = follow and not as_json
    with stopping(None) as stop:
        source = _source(maintained, stop, follow, seed, options)
        total = None if follow else _count(options)
        with progress_bar("rounds", total, shown=not as_json and not follow) as bar:
            rounds = _sound(source, maintained, stop, is_stream=follow)
            for record in play(maintained, rounds, time.perf_counter, verify_every=every):
                records.append(record)
                bar.to(record.number)
                if as_json:
                    print_json({"round": record.as_json()})
                elif is_live:
                    print_round(record)
    _write(maintained, output, subscriptions_out)
    summary = summary_of(maintained, before, records, compare=compare)
    if as_json:
        print_json({"summary": summary})
    else:
        print_summary(summary)
        for path in (output, subscriptions_out):
            if path is not None:
                remark(f"wrote {path}")
    if not summary["is_connected"]:
        raise click.exceptions.Exit(FAILED)
    if stop.interrupted:
        raise click.exceptions.Exit(INTERRUPTED)


def _opened(
    overlay: Path, subscriptions: Path, seed: int, options: dict[str, Any]
) -> MaintainedOverlay:
    """The overlay, once it is known to be topic-connected."""
    import numpy as np

    from pubweave.design.tco.changes import Backups, ChurnSettings, DegreeRule, Method
    from pubweave.design.tco.churn import MaintainedOverlay
    from pubweave.design.tco.interests import Subscriptions
    from pubweave.design.tco.verify import verify

    wanted = Subscriptions.from_pairs(*read_subscriptions(subscriptions))
    links = wanted.links_of(read_topology(overlay))
    gaps = verify(wanted, links).gaps
    if gaps:
        raise BadInput(
            f"{overlay}: is not topic-connected for {subscriptions}: {gaps[0]}; "
            f"build it anew: pubweave tco build {subscriptions} -o {overlay}"
        )
    settings = ChurnSettings(
        method=Method(options["method"]),
        backups=Backups(options["backups"]),
        rule=DegreeRule(options["rule"]),
        coverage=options["coverage"],
    )
    return MaintainedOverlay(wanted, links, settings, np.random.default_rng(seed))


def _verify_every(asked: int | None, nodes: int) -> int:
    if asked is not None:
        return asked
    return 1 if nodes <= VERIFIED_EACH_ROUND else 100


def _source(
    maintained: MaintainedOverlay,
    stop: SearchStop,
    follow: bool,
    seed: int,
    options: dict[str, Any],
) -> Iterator[Named]:
    """The rounds, from wherever they are asked for; exactly one place."""
    is_random = options["joins"] is not None or options["leaves"] is not None
    if is_random + follow + (options["churn_file"] is not None) != 1:
        raise click.UsageError("give either --joins and --leaves, or --churn FILE, or --follow")
    if follow:
        return _json_rounds(_standard_input(stop), "standard input")
    if options["churn_file"] is not None:
        return _file_rounds(options["churn_file"])
    return _random_rounds(maintained, seed, options)


def _random_rounds(
    maintained: MaintainedOverlay, seed: int, options: dict[str, Any]
) -> Iterator[Named]:
    import numpy as np

    from pubweave.generate.workloads.churn_rounds import random_rounds

    wanted, _ = maintained.snapshot()
    joins, leaves = options["joins"] or 0, options["leaves"] or 0
    some: list[Change] = []
    for change in random_rounds(wanted, joins, leaves, np.random.default_rng([seed, 1])):
        if len(some) == options["per_round"] or change.node in {each.node for each in some}:
            yield "random churn", some
            some = []
        some.append(change)
    if some:
        yield "random churn", some


def _count(options: dict[str, Any]) -> int | None:
    if options["churn_file"] is not None:
        return None
    changes = (options["joins"] or 0) + (options["leaves"] or 0)
    return -(-changes // int(options["per_round"]))


def _file_rounds(path: Path) -> Iterator[Named]:
    from pubweave.design.tco.changes import parse_rows

    with path.open(encoding="utf-8-sig", newline="") as file:
        if path.suffix.lower() != ".csv":
            yield from _json_rounds(file, str(path))
            return
        rounds = parse_rows(file)
        number = 0
        while True:
            number += 1
            with blaming(str(path)):
                changes = next(rounds, None)
            if changes is None:
                return
            yield f"{path}: the {number}. round", changes


def _json_rounds(lines: Iterable[str], name: str) -> Iterator[Named]:
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield f"{name}: line {number}", line


def _standard_input(stop: SearchStop) -> Iterator[str]:
    """Lines as they come; Ctrl-C is not kept waiting for the next one."""
    try:
        source = sys.stdin.fileno()
    except (OSError, ValueError):  # somebody put a text in its place
        yield from sys.stdin
        return
    held = b""
    while not stop():
        if not select.select([source], [], [], LOOK_S)[0]:
            continue
        read = os.read(source, 1 << 16)
        *lines, held = (held + read).split(b"\n")
        for line in lines if read else [held]:
            yield line.decode(errors="replace")
        if not read:
            return


def _sound(
    rounds: Iterator[Named], maintained: MaintainedOverlay, stop: SearchStop, is_stream: bool
) -> Iterator[Sequence[Change]]:
    """Rounds that can be applied, until Ctrl-C, which waits for the round under way.

    A bad round in a file ends with an error; in a stream it is left out with a warning.
    """
    from pubweave.design.tco.changes import ChurnError, check_changes, parse_round

    for where, found in rounds:
        if stop():
            return
        try:
            changes = parse_round(found) if isinstance(found, str) else found
            check_changes(changes, maintained.state.number_of, maintained.topics_of)
        except ChurnError as error:
            if not is_stream:
                raise BadInput(f"{where}: {error}") from error
            warn(f"{where}: {error}; left out")
            continue
        yield changes


def _write(maintained: MaintainedOverlay, output: Path | None, subscriptions: Path | None) -> None:
    topics = maintained.topics()
    if output is not None:
        write_topology(Topology.from_links(maintained.links(), brokers=topics), output)
    if subscriptions is not None:
        text = io.StringIO()
        rows = csv.writer(text, lineterminator="\n")
        rows.writerow(["client", "topic"])
        rows.writerows((client, topic) for client in topics for topic in topics[client])
        replace_file(subscriptions, text.getvalue().encode())
