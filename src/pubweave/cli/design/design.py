"""``pubweave design``: a better tree for measured traffic, by each of the ways we know.

Parsing, progress and exit codes only. The target is a topology file that ``pubweave plan make``
takes; Ctrl-C and the time limit end the search with the best tree so far.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click

from pubweave.cli.design.dynatops import dynatops
from pubweave.cli.kinds import COUNT, COUNT_OR_ZERO, FILE, SHARE, together
from pubweave.cli.options.design_inputs import price_options, profile_option, read_inputs
from pubweave.cli.options.plan_rules import link_named
from pubweave.cli.options.time_limit import SearchStop, stopping, time_limit_option
from pubweave.cli.output import changing_line, json_option, print_json, remark, warn
from pubweave.design.ci.rules import Estimate, Heuristic
from pubweave.design.tree.problem import (
    DesignLimits,
    DesignProblem,
    DesignProgress,
    DesignResult,
    OnProgress,
)
from pubweave.design.tree.profile_inputs import validate_choice
from pubweave.model.files.topology import write_topology

METHODS = ("ci", "lmst", "lmit", "mst", "mit", "exact")
QUICKEST_FIRST = ("mst", "mit", "lmst", "lmit", "ci", "exact")
LIMIT_S = 30.0
OWN_SHARE = 0.6
"""Of the time limit; the rest is for the methods beside which the result is shown."""


_limit_options = together(
    click.option("--max-degree", type=COUNT, help="No broker gets more links than this."),
    click.option("--pin", "pins", multiple=True, metavar="A-B", help="The target has it."),
    click.option("--forbid", "bans", multiple=True, metavar="A-B", help="It has not."),
    click.option(
        "--max-changes",
        type=COUNT_OR_ZERO,
        metavar="K",
        help="At most this many links that the topology does not have.",
    ),
)


class DesignCommand(click.Command):
    """Trees are designed by one command; DYNATOPS' rings, which need other files, by their own."""

    def make_context(
        self,
        info_name: str | None,
        args: list[str],
        parent: click.Context | None = None,
        **extra: Any,
    ) -> click.Context:
        if args[:1] == ["dynatops"]:
            return dynatops.make_context(f"{info_name} dynatops", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)


@click.command(cls=DesignCommand)
@click.argument("method", type=click.Choice(METHODS))
@profile_option
@click.option(
    "--topology",
    "topology_file",
    type=FILE,
    help="The tree to improve. [default: the profile's own, at its window's end]",
)
@click.option("-o", "--output", type=FILE, help="Write the target topology to this file.")
@price_options
@_limit_options
@click.option("--eta", default=4, type=click.IntRange(min=2), help="ci, lmst, lmit: hops.")
@click.option(
    "--estimate",
    default="sides",
    type=click.Choice(["overlap", "conjunction", "sides"]),
    help="ci: by what clients share, as the paper has it (overlap), with triples counted "
    "(conjunction); or by all that passes, relayed or not (sides).",
)
@click.option(
    "--least-gain",
    default=0.0,
    type=SHARE,
    help="ci, lmst, lmit: the share that an exchange must save of its cycle's cost.",
)
@click.option(
    "--compare/--no-compare",
    default=True,
    show_default=False,
    help="Show what other methods reach.",
)
@time_limit_option(LIMIT_S, "tree")
@click.option("--seed", default=0, type=COUNT_OR_ZERO)
@json_option
def design(
    method: str,
    profile_dir: Path,
    topology_file: Path | None,
    output: Path | None,
    latency: Path | None,
    assume_latency: float | None,
    compare: bool,
    time_limit: float,
    as_json: bool,
    **settings: Any,
) -> None:
    """Find a tree that costs less for the traffic of a profile.

    \b
    ci          brokers exchange links by cost and common interest, knowing only their
                neighborhood: what self-organizing mode would come to
    lmst, lmit  the same by prices of links alone, by common interest alone
    mst, mit    the minimum spanning tree and the maximum interest tree, from global knowledge
    exact       the optimum, proven up to 10 brokers; else the best that a global search finds
    dynatops    no tree: positions on a ring; see pubweave design dynatops --help

    \b
    Example:
      pubweave design exact --profile profile --topology tree.json -o target.json
      pubweave plan make tree.json target.json -o plan.json
    """
    from pubweave.cli.design.design_view import design_document, print_design, target_topology

    inputs = read_inputs(profile_dir, topology_file, latency, assume_latency)
    validate_choice(inputs.prices, inputs.topology)
    problem = _problem(inputs, settings)
    started_at = time.perf_counter()
    others: dict[str, DesignResult | str] = {}
    with stopping(time_limit * (OWN_SHARE if compare else 1.0)) as stop:
        with _shown_progress(as_json) as on_progress:
            result = run_method(method, problem, settings, stop, on_progress)
        seconds = time.perf_counter() - started_at
        is_cut = stop.was_asked
    target = target_topology(problem, result)
    if output is not None:
        write_topology(target, output)
    if compare and not stop.interrupted:
        with stopping(time_limit - seconds) as rest, _shown_progress(as_json) as on_progress:
            others = _others(method, problem, settings, rest, on_progress)
    document = design_document(problem, result, others, target, seconds)
    document["output"] = None if output is None else str(output)
    if as_json:
        print_json(document)
        return
    print_design(document)
    if is_cut and method == "exact":
        why = "Ctrl-C" if stop.interrupted else f"the time limit of {time_limit:g} s"
        warn(f"the search was ended by {why}: this is the best tree by then")
    if output is not None:
        remark(f"wrote {output}")


def _problem(inputs: Any, settings: dict[str, Any]) -> DesignProblem:
    known = inputs.topology.brokers
    limits = DesignLimits(
        settings["max_degree"],
        frozenset(link_named("--pin", text, known) for text in settings["pins"]),
        frozenset(link_named("--forbid", text, known) for text in settings["bans"]),
        settings["max_changes"],
    )
    return DesignProblem(inputs.topology, inputs.traffic, inputs.prices, limits)


def run_method(
    method: str,
    problem: DesignProblem,
    settings: dict[str, Any],
    stop: Callable[[], bool],
    on_progress: OnProgress,
) -> DesignResult:
    """One method on a problem; the same seed gives the same tree unless it is stopped."""
    import numpy as np

    from pubweave.design.ci.offline import reorganized
    from pubweave.design.ci.rounds import LIVE_PATIENCE, LIVE_REQUESTS, LocalSettings
    from pubweave.design.tree.exact import cheapest_tree
    from pubweave.design.tree.spanning import maximum_interest_tree, minimum_spanning_tree

    rng = np.random.default_rng(settings["seed"])
    if method == "exact":
        return cheapest_tree(problem, stop=stop, rng=rng, on_progress=on_progress)
    if method == "mst":
        return minimum_spanning_tree(problem)
    if method == "mit":
        return maximum_interest_tree(problem)
    estimate = Estimate(settings["estimate"])
    local = LocalSettings(
        Heuristic(method.removeprefix("l")),
        settings["eta"],
        settings["least_gain"],
        requests=LIVE_REQUESTS if estimate is Estimate.SIDES else None,
        patience=LIVE_PATIENCE if estimate is Estimate.SIDES else 0,
        estimate=estimate,
    )
    return reorganized(problem, local, stop=stop, rng=rng, on_progress=on_progress)


def _others(
    method: str,
    problem: DesignProblem,
    settings: dict[str, Any],
    stop: SearchStop,
    on_progress: OnProgress,
) -> dict[str, DesignResult | str]:
    """What the other methods come to, or why they come to nothing."""
    found: dict[str, DesignResult | str] = {}
    for other in QUICKEST_FIRST:
        if other == method:
            continue
        if stop():
            found[other] = "no time was left"
            continue
        try:
            found[other] = run_method(other, problem, settings, stop, on_progress)
        except ValueError as error:
            found[other] = str(error)
    return {other: found[other] for other in METHODS if other in found}


@contextlib.contextmanager
def _shown_progress(as_json: bool) -> Iterator[OnProgress]:
    """What a design tells, on one changing line of standard error."""
    title = "designing (Ctrl-C ends with the best tree so far)"
    with changing_line(title, shown=not as_json) as say:

        def tell(progress: DesignProgress) -> None:
            say(f"{progress.message}: {progress.cost:,.0f} ms")

        yield tell
