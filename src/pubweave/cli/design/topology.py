"""``pubweave topology``: make topologies, change them, look at them.

Parsing and printing only: what is made is made in `pubweave.generate`. A topology goes to the
file named by ``-o`` or else to standard output, so that one command can feed another; whatever
is said about it then goes to standard error.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np

from pubweave.cli.errors import BadInput
from pubweave.cli.kinds import COUNT, COUNT_OR_ZERO, FILE, SHARE, together
from pubweave.cli.output import new_table, output_console, print_json, tell
from pubweave.generate.topologies import real_networks as networks
from pubweave.generate.topologies import trees, underlay
from pubweave.generate.topologies.latencies import assign_latencies, read_rtt_matrix
from pubweave.generate.topologies.real_networks import hybrid_network
from pubweave.generate.topologies.trees import change_links
from pubweave.model.files.topology import read_topology, to_json, write_topology
from pubweave.model.ids import Link
from pubweave.model.topology import Topology
from pubweave.plots.topology_text import TopologySummary, draw_tree, summarize


class _ReportsBadInput(click.Command):
    """A command whose ValueErrors are the user's to mend."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except ValueError as error:
            raise BadInput(str(error)) from error


class _Group(click.Group):
    command_class = _ReportsBadInput
    group_class = type  # click's word for "the class of this group"

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.commands and not args[0].startswith("-"):
            ctx.fail(f"no such command {args[0]!r}; there are {', '.join(self.commands)}")
        return super().resolve_command(ctx, args)


_BAR_WIDTH = 40
seed_option = click.option("--seed", default=0, type=COUNT_OR_ZERO, help="Same seed, same tree.")
json_option = click.option("--json", "as_json", is_flag=True, help="Report as JSON.")
output_option = click.option(
    "-o",
    "--output",
    type=FILE,
    help="Where to write: JSON, or GraphML if it ends in .graphml. [default: standard output]",
)
brokers_option = click.option("-n", "--brokers", default=20, type=COUNT, help="How many brokers.")
rtt_option = click.option(
    "--rtt",
    type=FILE,
    help="Take latencies from this matrix of round-trip times (CSV, may be gzipped).",
)


_making_options = together(seed_option, rtt_option, output_option, json_option)


@click.group(cls=_Group)
def topology() -> None:
    """Make, change and show topologies.

    \b
    Example:
      pubweave topology generate hierarchical -n 60 --max-degree 5 -o before.json
      pubweave topology mutate before.json --ratio 0.2 -o after.json
      pubweave topology show after.json
    """


@topology.group()
def generate() -> None:
    """Make a topology of brokers b1, b2, ... from a seed.

    \b
    Example:
      pubweave topology generate fanout -n 63 --seed 7 -o tree.json
    """


@generate.command()
@brokers_option
@click.option("--max-degree", default=5, type=COUNT, help="No broker gets more links than this.")
@click.option(
    "--balanced/--unbalanced",
    default=True,
    help="Filled level by level, or grown at random places.",
)
@_making_options
def hierarchical(brokers: int, max_degree: int, balanced: bool, seed: int, **rest: Any) -> None:
    """A tree with random degrees, as in the evaluation of IPITT.

    \b
    Example:
      pubweave topology generate hierarchical -n 60 --max-degree 7 --unbalanced -o tree.json
    """
    rng = np.random.default_rng(seed)
    _deliver(trees.hierarchical_tree(brokers, max_degree, balanced, rng), rng, **rest)


@generate.command()
@brokers_option
@click.option("--fanout", default=2, type=COUNT, help="How many children each broker has.")
@_making_options
def fanout(brokers: int, fanout: int, seed: int, **rest: Any) -> None:
    """A balanced tree of equal fan-out, as in the evaluation of POP and GRAPE.

    \b
    Example:
      pubweave topology generate fanout -n 63 -o tree.json
    """
    rng = np.random.default_rng(seed)
    _deliver(trees.fanout_tree(brokers, fanout, rng), rng, **rest)


def _add_plain(
    name: str, make: Callable[[int, np.random.Generator], Topology], about: str, example: str
) -> None:
    """A kind of tree of which only the number of brokers can be chosen."""

    @generate.command(name, help=f"{about}\n\n\b\nExample:\n  {example}")
    @brokers_option
    @_making_options
    def command(brokers: int, seed: int, **rest: Any) -> None:
        rng = np.random.default_rng(seed)
        _deliver(make(brokers, rng), rng, **rest)


for _name, _make, _about, _rest in (
    ("chain", trees.chain, "Brokers in a row.", "-n 3"),
    ("star", trees.star, "All brokers around b1.", "-n 5"),
    ("random", trees.random_tree, "A tree drawn uniformly from all trees.",
     "-n 30 --seed 4 -o tree.json"),
):  # fmt: skip
    _add_plain(_name, _make, _about, f"pubweave topology generate {_name} {_rest}")


@generate.command()
@brokers_option
@click.option("--clusters", default=3, type=COUNT)
@click.option(
    "--gateways", default=2, type=COUNT, help="Of each cluster, so many have a link with the ring."
)
@_making_options
def hybrid(brokers: int, clusters: int, gateways: int, seed: int, **rest: Any) -> None:
    """Clusters around a ring, for 'pubweave up --strategy rendezvous' (DYNATOPS, section 7).

    \b
    Example:
      pubweave topology generate hybrid -n 20 --clusters 3 -o hybrid.json
    """
    rng = np.random.default_rng(seed)
    _deliver(hybrid_network(brokers, clusters, gateways, rng), rng, **rest)


@generate.command()
@click.argument("graphml", type=FILE)
@click.option(
    "--tree",
    "kind",
    default="minimum",
    type=click.Choice([kind.value for kind in networks.SpanningTree]),
    help="The tree of least distance, or one drawn uniformly.",
)
@_making_options
def network(graphml: Path, kind: str, seed: int, **rest: Any) -> None:
    """A spanning tree of a real network, from a GraphML map.

    \b
    Example:
      pubweave topology generate network Geant2012.graphml --tree uniform -o tree.json
    """
    rng = np.random.default_rng(seed)
    found = networks.read_network(graphml)
    _deliver(networks.spanning_tree(found, networks.SpanningTree(kind), rng), rng, **rest)


@generate.command(name="underlay")
@brokers_option
@click.option("--domains", default=100, type=COUNT, help="How many domains the internet has.")
@click.option(
    "--routers-per-domain", default=101, type=COUNT, help="How many routers each domain has."
)
@click.option(
    "--tree",
    "kind",
    default="random",
    type=click.Choice(["random", "minimum"]),
    help="Any tree, or the one of least distance.",
)
@click.option(
    "--geometry",
    default=underlay.Geometry.PLANAR.value,
    type=click.Choice([geometry.value for geometry in underlay.Geometry]),
    help="One plane for all domains, one for each as BRITE has it, or hops alone.",
)
@_making_options
def underlay_command(
    brokers: int,
    domains: int,
    routers_per_domain: int,
    kind: str,
    geometry: str,
    seed: int,
    **rest: Any,
) -> None:
    """A tree of brokers at random routers of a generated internet, as in the evaluation of CI.

    \b
    Example:
      pubweave topology generate underlay -n 100 --tree minimum -o tree.json
    """
    rng = np.random.default_rng(seed)
    parameters = underlay.UnderlayParameters(
        domains=domains,
        routers_per_domain=routers_per_domain,
        geometry=underlay.Geometry(geometry),
    )
    placed = underlay.place_brokers(underlay.make_underlay(rng, parameters), brokers, rng)
    made = placed.minimum_overlay() if kind == "minimum" else placed.random_overlay(rng)
    _deliver(made, rng, **rest)


@topology.command()
@click.argument("file", type=FILE)
@click.option(
    "--ratio", required=True, type=SHARE, help="The share of the links that change, such as 0.2."
)
@seed_option
@output_option
@json_option
def mutate(file: Path, ratio: float, seed: int, output: Path | None, as_json: bool) -> None:
    """Replace a share of a tree's links by random others, and say which.

    \b
    Example:
      pubweave topology mutate before.json --ratio 0.2 --seed 3 -o after.json
    """
    before = read_topology(file)
    try:
        after = change_links(before, ratio, np.random.default_rng(seed))
    except ValueError as error:
        raise BadInput(f"{file}: {error}") from error
    removed = sorted(before.links - after.links)
    added = sorted(after.links - before.links)
    if output is None:
        click.echo(to_json(after), nl=False)
    else:
        write_topology(after, output)
    to_stderr = output is None
    if as_json:
        report = {
            "file": None if output is None else str(output),
            "removed": [list(link) for link in removed],
            "added": [list(link) for link in added],
        }
        click.echo(json.dumps(report), err=to_stderr)
        return
    click.echo(f"removed {_listed(removed)}\nadded   {_listed(added)}", err=to_stderr)
    if output is not None:
        click.echo(f"wrote   {output}")


@topology.command()
@click.argument("file", type=FILE)
@click.option("--root", help="The broker to draw the tree from. [default: b1, or the first]")
@click.option("--all", "whole", is_flag=True, help="Draw large trees to the last broker.")
@json_option
def show(file: Path, root: str | None, whole: bool, as_json: bool) -> None:
    """Describe a topology: size, shape, degrees, distances, and a drawing if it is a tree.

    \b
    Example:
      pubweave topology show tree.json
    """
    found = read_topology(file)
    summary = summarize(found, root)
    if as_json:
        print_json({"file": str(file), **summary.as_json()})
        return
    _print_summary(str(file), summary)
    if summary.is_tree and summary.root is not None:
        click.echo()
        for line in draw_tree(found, summary.root, whole=whole):
            click.echo(line)


def _deliver(
    made: Topology, rng: np.random.Generator, rtt: Path | None, output: Path | None, as_json: bool
) -> None:
    if rtt is not None:
        made = assign_latencies(made, read_rtt_matrix(rtt), rng)
    if output is None:
        click.echo(to_json(made), nl=False)
        return
    write_topology(made, output)
    tell(
        {"file": str(output), **summarize(made).as_json()},
        as_json,
        lambda: click.echo(f"wrote {output}: {_in_words(summarize(made))}"),
    )


def _in_words(summary: TopologySummary) -> str:
    hops = "" if summary.diameter_hops is None else f", {summary.diameter_hops} hops across"
    return f"{summary.broker_count} brokers, {summary.link_count} links{hops}"


def _listed(links: list[Link]) -> str:
    return " ".join(str(link) for link in links) or "nothing"


def _print_summary(name: str, summary: TopologySummary) -> None:
    """The summary in words, and the degrees as a table with bars."""
    console = output_console()
    if summary.is_tree:
        shape = "a tree"
    elif summary.component_count > 1:
        shape = f"not a tree: {summary.component_count} parts without a link between them"
    else:
        extra = summary.link_count - summary.broker_count + 1
        shape = f"not a tree: {extra} link(s) too many close a cycle"
    lines = [
        f"{name}: {shape}" if summary.broker_count else f"{name}: no brokers",
        f"brokers   {summary.broker_count} ({summary.leaf_count} leaves)",
        f"links     {summary.link_count}",
        f"diameter  {_distance(summary.diameter_hops, summary.diameter_ms)}",
        f"depth     {_distance(summary.depth_hops, None)} from {summary.root}",
    ]
    for line in lines:
        console.print(line, markup=False, soft_wrap=True)
    columns = ("links", "brokers", "")
    table = new_table(*columns, left=[""], title="degrees", title_justify="left", box=None)
    most = max((count for _, count in summary.degrees), default=1)
    for degree, count in summary.degrees:
        bar = "#" * max(1, round(_BAR_WIDTH * count / most))
        table.add_row(str(degree), str(count), bar)
    console.print(table)


def _distance(hops: int | None, ms: float | None) -> str:
    if hops is None:
        return "not known"
    return f"{hops} hops" if ms is None else f"{hops} hops, {ms:.1f} ms"
