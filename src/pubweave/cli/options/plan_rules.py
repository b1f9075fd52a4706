"""The rules of a planning problem as options of the command line, shared by make and validate."""

from __future__ import annotations

import csv
import math
from collections.abc import Mapping
from pathlib import Path

import click

from pubweave.cli.errors import BadInput, blaming
from pubweave.cli.kinds import COUNT, FILE, together
from pubweave.model.files.topology import read_topology
from pubweave.model.ids import BrokerId, Link
from pubweave.model.plans import Action, Shift
from pubweave.model.topology import Topology
from pubweave.planning.problem.problem import (
    BrokerActionCosts,
    LatencyCosts,
    PlanningProblem,
    traffic_costs,
    validate_problem,
)

source_argument = click.argument("source", type=FILE)
target_argument = click.argument("target", type=FILE)


rule_options = together(
    click.option("--disjoint-brokers", is_flag=True, help="Actions of a step share no broker."),
    click.option(
        "--max-degree", type=COUNT, help="No broker has more links than this after any step."
    ),
    click.option("--pin", "pins", multiple=True, metavar="A-B", help="This link must stay."),
    click.option(
        "--forbid",
        "bans",
        multiple=True,
        metavar="A-B",
        help="This link must never come to be.",
    ),
    click.option(
        "--allow",
        "allowed",
        multiple=True,
        type=click.Choice(["move"]),
        help="Allow composite actions: a move puts a goal link in place at once.",
    ),
)
"""The options that `problem_from` understands."""


def problem_from(
    source_file: Path,
    target_file: Path,
    *,
    disjoint_brokers: bool,
    max_degree: int | None,
    pins: tuple[str, ...],
    bans: tuple[str, ...],
    allowed: tuple[str, ...],
) -> PlanningProblem:
    """Read both topologies and check that the problem makes sense."""
    source, target = read_topology(source_file), read_topology(target_file)
    problem = PlanningProblem(
        source,
        target,
        disjoint_brokers=disjoint_brokers,
        max_degree=max_degree,
        pinned=_links("--pin", pins, source, target),
        forbidden=_links("--forbid", bans, source, target),
        allow_move="move" in allowed,
    )
    validate_problem(problem)
    return problem


def _links(
    option: str, texts: tuple[str, ...], source: Topology, target: Topology
) -> frozenset[Link]:
    known = source.brokers | target.brokers
    return frozenset(link_named(option, text, known) for text in texts)


def link_named(option: str, text: str, known: frozenset[BrokerId]) -> Link:
    """The link named by A-B; ids may have dashes themselves, so every dash is tried."""
    halves = [(text[:place], text[place + 1 :]) for place, sign in enumerate(text) if sign == "-"]
    found = [(a, b) for a, b in halves if a in known and b in known and a != b]
    if len(found) == 1:
        return Link.between(*found[0])
    if len(found) > 1:
        raise BadInput(f"{option} {text}: several pairs of brokers are written so")
    for a, b in halves:
        for broker in (a, b):
            if broker and broker not in known:
                raise BadInput(f"{option} {text}: there is no broker {broker!r}")
    raise BadInput(f"{option} {text}: expected two different brokers as A-B")


def costs_from(text: str, source: Topology, target: Topology) -> Mapping[Action, float] | None:
    """What --action-cost says: uniform, latency, traffic, or a CSV file."""
    if text == "uniform":
        return None
    with blaming(f"--action-cost {text}"):
        if text == "latency":
            return LatencyCosts(source, target)
        if text == "traffic":
            return traffic_costs(source, target)
        return read_costs(Path(text), source.brokers | target.brokers)


def read_costs(path: Path, brokers: frozenset[BrokerId]) -> Mapping[Action, float]:
    """Costs in a CSV file: ``broker,cost`` or ``mover,old_peer,new_peer,cost``."""
    try:
        with path.open(newline="") as file:
            rows = list(csv.DictReader(file))
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = getattr(error, "strerror", None) or error
        raise BadInput(
            f"--action-cost {path}: {reason}; give uniform, latency, traffic or a CSV file"
        ) from error
    columns = set(rows[0]) if rows else set()
    if columns == {"broker", "cost"}:
        named = {
            _known(row["broker"], brokers, line): _cost(row["cost"], line)
            for line, row in enumerate(rows, 2)
        }
        return BrokerActionCosts({broker: named.get(broker, 1.0) for broker in sorted(brokers)})
    if columns == {"mover", "old_peer", "new_peer", "cost"}:
        return {
            Shift(
                _known(row["mover"], brokers, line),
                _known(row["old_peer"], brokers, line),
                _known(row["new_peer"], brokers, line),
            ): _cost(row["cost"], line)
            for line, row in enumerate(rows, 2)
        }
    raise ValueError("expected the columns broker,cost or mover,old_peer,new_peer,cost")


def _known(broker: str | None, brokers: frozenset[BrokerId], line: int) -> BrokerId:
    if broker is None or broker not in brokers:
        raise ValueError(f"line {line}: there is no broker {broker!r}")
    return broker


def _cost(text: str | None, line: int) -> float:
    try:
        cost = float(text or "")
    except ValueError:
        cost = math.nan
    if not 0 <= cost < math.inf:
        raise ValueError(f"line {line}: a cost is a number of 0 or more, got {text!r}")
    return cost
