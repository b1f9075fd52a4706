"""``pubweave design dynatops``: which broker takes which position on a Chord ring."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pubweave.cli.errors import BadInput, blaming
from pubweave.cli.kinds import EXISTING_FILE, FILE, POSITIVE
from pubweave.cli.options.time_limit import SearchStop, stopping, time_limit_option
from pubweave.cli.output import changing_line, json_option, print_json, remark, warn
from pubweave.model.amounts import counted
from pubweave.model.files.profile import WorkloadProfile
from pubweave.model.files.ring_mapping import (
    read_broker_topics,
    read_mapping,
    read_publications,
    write_mapping,
)
from pubweave.model.files.topology import read_topology

if TYPE_CHECKING:
    from pubweave.design.dynatops.mapping.best import BestMapping
    from pubweave.design.dynatops.mapping.inputs import MappingInputs
    from pubweave.design.dynatops.mapping.problem import MappingCost
    from pubweave.design.dynatops.mapping.swaps import OnSwaps

LIMIT_S = 60.0


@click.command("dynatops")
@click.option("--subscriptions", type=EXISTING_FILE, help="CSV with the columns broker,topic.")
@click.option("--publications", type=EXISTING_FILE, help="CSV with the columns topic,publications.")
@click.option(
    "--mapping",
    "mapping_file",
    type=EXISTING_FILE,
    help="CSV with the columns broker,position: who is where now. [default: as they appear]",
)
@click.option(
    "--profile",
    "profile_dir",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    help="A workload profile, instead of the files.",
)
@click.option(
    "--topology",
    "topology_file",
    type=EXISTING_FILE,
    help="--profile: brokers, with ring_id if known.",
)
@click.option(
    "--free-period",
    type=POSITIVE,
    metavar="SECONDS",
    help="--profile: how long the mapping will stay. [default: the profile's window]",
)
@click.option(
    "--method",
    default="best",
    type=click.Choice(["greedy", "best"]),
    help="The paper's Algorithm 3; or the least delay first, then everybody's best swaps.",
)
@click.option(
    "--wd",
    "delay_weight",
    default=1.0,
    type=click.FloatRange(min=0, max=1e9),
    help="What a hop of delay weighs against a relayed message.",
)
@click.option(
    "-o", "--output", type=FILE, help="Write the new mapping to this file, as --mapping reads it."
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Show the improvement path, the Pareto front and the choice; write nothing.",
)
@time_limit_option(LIMIT_S, "mapping")
@json_option
def dynatops(
    subscriptions: Path | None,
    publications: Path | None,
    mapping_file: Path | None,
    profile_dir: Path | None,
    topology_file: Path | None,
    free_period: float | None,
    method: str,
    delay_weight: float,
    output: Path | None,
    dry_run: bool,
    time_limit: float,
    as_json: bool,
) -> None:
    """Map brokers to positions of a ring so that publications cost least.

    Topics have their rendezvous on a Chord ring; publications go from there along fingers to all
    brokers that want them. Cost is messages to brokers that only relay, plus --wd times hops.
    Every definition is in docs/papers/dynatops.md.

    \b
    Example:
      pubweave design dynatops --subscriptions broker_topic.csv --publications topic_count.csv
      pubweave design dynatops --subscriptions s.csv --publications p.csv --method greedy --dry-run
      pubweave design dynatops --profile profile --topology ring.json --json
    """
    from pubweave.cli.design.dynatops_view import mapping_document, print_mapping
    from pubweave.design.warm_up import warm_up_mappings

    if subscriptions is not None and publications is not None and profile_dir is None:
        given = _from_files(subscriptions, publications, mapping_file, delay_weight)
    elif profile_dir is not None and topology_file is not None and subscriptions is None:
        given = _from_profile(profile_dir, topology_file, free_period, delay_weight)
    else:
        raise BadInput(
            "give either --subscriptions and --publications, or --profile and --topology"
        )
    warm_up_mappings()
    title = "mapping (Ctrl-C ends with the best so far)"
    with stopping(time_limit) as stop, changing_line(title, shown=not as_json) as say:

        def tell(count: int, cost: MappingCost) -> None:
            say(f"{count:,} swaps: cost {cost.notification_cost:,.0f}")

        found, seconds = _found(given, method, stop, tell)
    document = mapping_document(given, method, found, seconds, with_path=dry_run)
    if output is not None and not dry_run:
        write_mapping(output, document["mapping"])
    if as_json:
        print_json(document)
        return
    print_mapping(document)
    if stop.was_asked:
        why = "Ctrl-C" if stop.interrupted else f"the time limit of {time_limit:g} s"
        warn(f"the search was ended by {why}: this is the best mapping by then")
    if output is not None:
        remark(f"would write {output}" if dry_run else f"wrote {output}")


def _from_files(
    subscriptions: Path, publications: Path, mapping: Path | None, delay_weight: float
) -> MappingInputs:
    from pubweave.design.dynatops.mapping.inputs import inputs_from_counts

    counts, topics = read_publications(publications), read_broker_topics(subscriptions)
    placed = None if mapping is None else read_mapping(mapping, topics)
    given = inputs_from_counts(topics, counts, placed, delay_weight)
    if given.silent:
        warn(
            f"{counted(len(given.silent), 'topic')} without a line in {publications}, for example "
            f"{given.silent[0]!r}: taken as 0 publications"
        )
    if given.unwanted:
        warn(f"{counted(given.unwanted, 'topic')} of {publications} without a subscriber: no cost")
    return given


def _from_profile(
    directory: Path, topology_file: Path, period_s: float | None, delay_weight: float
) -> MappingInputs:
    from pubweave.design.dynatops.mapping.inputs import RING_ID, inputs_from_profile

    profile, topology = WorkloadProfile(directory), read_topology(topology_file)
    seconds = profile.description.window_s if period_s is None else period_s
    with blaming(f"{directory} with {topology_file}"):
        given = inputs_from_profile(profile, topology, seconds, delay_weight)
    if not given.has_ring:
        warn(f"{topology_file}: brokers have no {RING_ID}; taken as equidistant, in their order")
    return given


def _found(
    given: MappingInputs, method: str, stop: SearchStop, on_progress: OnSwaps
) -> tuple[BestMapping, float]:
    """What a method comes to, and how many seconds it took; greedy needs no bound, we show one."""
    from pubweave.design.dynatops.mapping.best import (
        BestMapping,
        best_mapping,
        least_delay,
        lower_bound,
    )
    from pubweave.design.dynatops.mapping.swaps import ssbr_greedy

    problem, mapping = given.problem, given.mapping
    began = time.perf_counter()
    if method == "best":
        found = best_mapping(problem, mapping, stop=stop, on_progress=on_progress)
        return found, time.perf_counter() - began
    path = ssbr_greedy(problem, mapping, stop=stop, on_progress=on_progress)
    seconds = time.perf_counter() - began
    return BestMapping(path, (path,), lower_bound(problem, least_delay(problem))), seconds
