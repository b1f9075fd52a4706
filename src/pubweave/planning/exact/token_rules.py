"""Clauses besides the plain token model: the options of a problem, and what may be left out.

`add_options` adds what a plan must obey: disjoint brokers, the degree limit. `add_exclusions` adds
what every plan obeys anyway, and which follows from the rest only at length. `add_order` adds what
a plan may be asked to obey without losing the fewest steps or the fewest actions:

- A token that slides and slides straight back could have rested. Nobody can lean on a link that
  is there between two consecutive moves of its token, so nothing else changes.
- Two consecutive slides of the two ends of one token, both along kept links, may swap places for
  the same reason, unless the link in between would then be a goal link (never left) or forbidden.
  So their pivots are asked to come in order; swapping out-of-order neighbors ends, as in a sort.

Neither holds where actions cost differently or where steps have further limits.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from pubweave.planning.bounds._kernels_slides import unordered
from pubweave.planning.exact.token_model import TokenModel


def add_moves(model: TokenModel) -> list[int]:
    """A literal for each token and step that holds if the token moves in it."""
    return [literal for k in model.positions.steps for literal in _moves(model, k)]


def add_options(model: TokenModel) -> None:
    """What the problem demands beyond the rules of a step."""
    if model.indexed.problem.disjoint_brokers:
        for k in model.positions.steps:
            _disjoint(model, k)
    limit = model.indexed.problem.max_degree
    if limit is not None:
        for k in model.positions.steps:
            _degrees(model, k + 1, limit)


def add_exclusions(model: TokenModel) -> None:
    """What `bounds/pair_reachability` knows of pairs: a solver would have to find it out again and
    again."""
    model.clauses.add_rows(*-model.positions.exclusions.T)


def add_order(model: TokenModel) -> None:
    """Leave out plans that others of the same steps and at most the same actions stand for."""
    blocked = model.positions.goal.copy()
    for a, b in model.indexed.forbidden.tolist():
        blocked[a, b] = blocked[b, a] = True
    for k, after in pairwise(model.positions.steps):
        if after != k + 1:
            continue  # tokens have other names after the meeting
        for m in range(model.indexed.token_count):
            found = model.positions.slides[k][m]
            simple = found[model.positions.kept[found[:, 3], found[:, 4]]]
            rows = unordered(simple, model.positions.at[k + 2, m], model.positions.kept, blocked)
            model.clauses.add_rows(*rows.T)


def allows_order(model: TokenModel) -> bool:
    """Whether `add_order` keeps an optimal plan of this problem."""
    problem = model.indexed.problem
    return (
        not problem.disjoint_brokers and problem.max_degree is None and problem.action_cost is None
    )


def _moves(model: TokenModel, k: int) -> list[int]:
    moves = model.clauses.new_ones(model.indexed.token_count)
    for m, moving in enumerate(moves):
        stays = model.positions.stays(k, m)
        leaves = stays[stays[:, 1] == 0]
        model.clauses.add_rows(-leaves[:, 0], np.full(len(leaves), moving))
        stays = stays[stays[:, 1] > 0]
        always = np.full(len(stays), moving)
        model.clauses.add_rows(-stays[:, 0], stays[:, 1], always)
        model.clauses.add_rows(-stays[:, 0], -stays[:, 1], -always)
    return [int(literal) for literal in moves]


def _disjoint(model: TokenModel, k: int) -> None:
    """A moving token uses the ends of its link before and after the step; nobody else may."""
    clauses = model.clauses
    moves = _moves(model, k)
    users: dict[int, list[int]] = {}
    for m in range(model.indexed.token_count):
        moving = moves[m]
        used: dict[int, int] = {}
        for at in (model.positions.at[k, m], model.positions.at[k + 1, m]):
            for u, v in zip(*np.nonzero(np.triu(at)), strict=True):
                for broker in (int(u), int(v)):
                    if broker not in used:
                        used[broker] = clauses.new()
                    clauses.add(-moving, -int(at[u, v]), used[broker])
        for broker, literal in used.items():
            users.setdefault(broker, []).append(literal)
    for literals in users.values():
        clauses.at_most_one(np.array(literals, dtype=np.int32))


def _degrees(model: TokenModel, k: int, limit: int) -> None:
    """No broker has more links than the limit in layer k."""
    clauses = model.clauses
    fixed = model.positions.kept.sum(axis=1)
    touching: dict[int, list[int]] = {}
    for m in range(model.indexed.token_count):
        at = model.positions.at[k, m]
        for broker in np.flatnonzero(at.any(axis=1)).tolist():
            literal = clauses.new()
            for position in at[broker][at[broker] > 0].tolist():
                clauses.add(-position, literal)
            touching.setdefault(broker, []).append(literal)
    for broker, literals in touching.items():
        _at_most(model, literals, limit - int(fixed[broker]))


def _at_most(model: TokenModel, literals: list[int], most: int) -> None:
    """A sequential counter."""
    clauses = model.clauses
    if most >= len(literals):
        return
    if most <= 0:
        for literal in literals:
            clauses.add(-literal)
        return
    counted: list[int] = []
    for index, literal in enumerate(literals):
        row = [clauses.new() for _ in range(min(index + 1, most))]
        clauses.add(-literal, row[0])
        for place, before in enumerate(counted):
            clauses.add(-before, row[place])
            if place + 1 < len(row):
                clauses.add(-before, -literal, row[place + 1])
        if len(counted) == most:
            clauses.add(-literal, -counted[-1])
        counted = row
