"""``pubweave design``: a better tree for measured traffic, by each of the ways we know.

Parsing, progress and exit codes only. The target is a topology file that ``pubweave plan make``
takes; Ctrl-C and the time limit end the search with the best tree so far.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from pubweave.cli.design.dynatops import dynatops
from pubweave.cli.errors import BadInput
from pubweave.cli.kinds import COUNT, COUNT_OR_ZERO, FILE, SHARE, together
from pubweave.cli.options.design_inputs import price_options, profile_option, read_inputs
from pubweave.cli.options.plan_rules import link_named
from pubweave.cli.options.time_limit import stopping, time_limit_option
from pubweave.cli.output import changing_line, json_option, print_json, remark, warn
from pubweave.design.ci.rules import Estimate
from pubweave.design.tree.problem import DesignLimits, DesignProgress, DesignResult, OnProgress
from pubweave.design.tree.profile_inputs import validate_choice
from pubweave.model.files.profile import WorkloadProfile
from pubweave.model.files.topology import write_topology
from pubweave.model.ids import BrokerId

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
@click.argument("method")
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
@click.option(
    "--set",
    "options",
    multiple=True,
    metavar="NAME=VALUE",
    help="An option of a design that another package adds; repeatable.",
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

    Installed packages add others (entry points of the group pubweave.designs).

    \b
    Example:
      pubweave design exact --profile profile --topology tree.json -o target.json
      pubweave plan make tree.json target.json -o plan.json
    """
    from pubweave.cli.design.design_view import design_document, print_design
    from pubweave.design.methods import Search, method_named, others_than, target_topology

    run = method_named(method, WorkloadProfile(profile_dir), _options(settings["options"]))
    problem = read_inputs(profile_dir, topology_file, latency, assume_latency)
    validate_choice(problem.prices, problem.source)
    problem = replace(problem, limits=_limits(problem.source.brokers, settings))
    how = Search(
        settings["seed"],
        eta=settings["eta"],
        estimate=Estimate(settings["estimate"]),
        least_gain=settings["least_gain"],
    )
    started_at = time.perf_counter()
    others: dict[str, DesignResult | str] = {}
    with stopping(time_limit * (OWN_SHARE if compare else 1.0)) as stop:
        with _shown_progress(as_json) as on_progress:
            result = run(problem, replace(how, stop=stop, on_progress=on_progress))
        seconds = time.perf_counter() - started_at
        is_cut = stop.was_asked
    target = target_topology(problem, result)
    if output is not None:
        write_topology(target, output)
    if compare and not stop.interrupted:
        with stopping(time_limit - seconds) as rest, _shown_progress(as_json) as on_progress:
            others = others_than(method, problem, replace(how, stop=rest, on_progress=on_progress))
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


def _limits(known: frozenset[BrokerId], settings: dict[str, Any]) -> DesignLimits:
    return DesignLimits(
        settings["max_degree"],
        frozenset(link_named("--pin", text, known) for text in settings["pins"]),
        frozenset(link_named("--forbid", text, known) for text in settings["bans"]),
        settings["max_changes"],
    )


def _options(texts: tuple[str, ...]) -> dict[str, str]:
    pairs = [text.partition("=") for text in texts]
    for text, (name, equals, _) in zip(texts, pairs, strict=True):
        if not name or not equals:
            raise BadInput(f"--set {text}: write it as NAME=VALUE")
    return {name: value for name, _, value in pairs}


@contextlib.contextmanager
def _shown_progress(as_json: bool) -> Iterator[OnProgress]:
    """What a design tells, on one changing line of standard error."""
    title = "designing (Ctrl-C ends with the best tree so far)"
    with changing_line(title, shown=not as_json) as say:

        def tell(progress: DesignProgress) -> None:
            say(f"{progress.message}: {progress.cost:,.0f} ms")

        yield tell
