"""The exact model: is there a plan of T steps? As clauses over positions of tokens.

Variables: ``at(m, e, k)``, token m lies on link e in layer k of
`reachability`, only for the positions left alive; ``joins(m, A, B, k)``, it lies between parts A
and B of the kept forest; ``rest(e, k)``, some token stays on e through the step after layer k, so
that others may slide along e.

Why this is complete. An action deletes one link outside the target and adds one link, so the
links outside the target and the goal links reached form as many tokens as there are removable
links, each with one position at a time; target links once present are never deleted, so the kept
links are constant pivots and a token on a goal link stays. A plan is thus a family of token walks,
and a family of walks is a plan if every slide's pivot is kept or under a token that rests in that
step: this is the rule that a pivot is present before the step and not deleted in it. Nothing else
must be said. A deleted link (i, j) with pivot (j, k) and new link (i, k) leaves i and j joined
over k, so every step keeps the overlay connected; it has n - 1 links at most, hence it stays a
tree, no two tokens ever share a link, and no link is added that is present. Shifts have no names,
so it does not matter that tokens change theirs at the meeting, as long as the same links are taken.

That no two tokens join the same two parts follows from the rest, but a solver finds it out only at
length.

`plan_around` and `solver_of` ask the satisfiability solvers of python-sat, in the child process
only (`exact/process`): a call may last, and only ending the process ends it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np

from pubweave.planning.bounds._kernels_reach import Ints, unordered
from pubweave.planning.bounds.pair_reachability import prune
from pubweave.planning.bounds.reachability import Reach, Reachability
from pubweave.planning.bounds.token_positions import TokenPositions, corridor
from pubweave.planning.problem.indexed import NumberedSteps

Clause = list[int]
_PAIRWISE_MAX = 5


@dataclass
class Clauses:
    """Clauses over variables 1..count, as DIMACS has them."""

    count: int = 0
    rows: list[Clause] = field(default_factory=list)

    def new(self) -> int:
        self.count += 1
        return self.count

    def new_ones(self, size: int) -> Ints:
        """So many variables."""
        first = self.count + 1
        self.count += size
        return np.arange(first, first + size, dtype=np.int32)

    def add(self, *literals: int) -> None:
        self.rows.append(list(literals))

    def add_rows(self, *columns: Ints) -> None:
        """A clause for each row of these columns."""
        self.rows.extend(np.stack(columns, axis=1).tolist())

    def add_grouped(self, heads: Ints, literals: Ints, of: Ints) -> None:
        """For each head a clause of it and all literals that are of it; each is of one head."""
        order = np.argsort(of, kind="stable")
        ends = np.searchsorted(of[order], heads, side="right").tolist()
        starts = np.searchsorted(of[order], heads, side="left").tolist()
        flat = literals[order].tolist()
        self.rows.extend(
            [-head, *flat[start:end]]
            for head, start, end in zip(heads.tolist(), starts, ends, strict=True)
        )

    def at_most_one(self, literals: Ints) -> None:
        """Pairwise for a few, else on a grid: row and column of the true literal are unique."""
        if len(literals) <= _PAIRWISE_MAX:
            a, b = np.triu_indices(len(literals), 1)
            self.add_rows(-literals[a], -literals[b])
            return
        width = int(np.ceil(np.sqrt(len(literals))))
        columns = self.new_ones(width)
        lines = self.new_ones(-(-len(literals) // width))
        places = np.arange(len(literals))
        self.add_rows(-literals, columns[places % width])
        self.add_rows(-literals, lines[places // width])
        self.at_most_one(columns)
        self.at_most_one(lines)


class TokenModel:
    """Clauses that hold exactly for the plans of T steps (some steps may be empty)."""

    def __init__(self, positions: TokenPositions) -> None:
        self.positions = positions
        self.indexed = positions.indexed
        self.clauses = Clauses(positions.count)
        self._rows = [[_rows(np.triu(at, 1)) for at in layer] for layer in positions.at]
        for layer in self._rows:
            self._join([self._place(rows) for rows in layer])
        for k in positions.steps:
            self._step(k)
        self._meet()

    def decode(self, true: Iterable[int]) -> NumberedSteps:
        """The shifts of a satisfying assignment."""
        holds = np.zeros(self.positions.count + 1, dtype=np.bool_)
        literals = np.fromiter(true, dtype=np.int64)
        holds[literals[(literals > 0) & (literals <= self.positions.count)]] = True
        return self.positions.decode(holds)

    def _place(self, rows: Ints) -> dict[int, int]:
        """A token is somewhere, once; a literal for each two parts of the kept forest that it may
        join."""
        parts = self.indexed.parts
        low, high = np.sort(parts[rows[:, :2]], axis=1).T
        codes, which = np.unique(low * len(parts) + high, return_inverse=True)
        joins = self.clauses.new_ones(len(codes))
        self.clauses.add(*joins.tolist())
        self.clauses.at_most_one(joins)
        self.clauses.add_rows(-rows[:, 2], joins[which])
        self.clauses.add_grouped(joins, rows[:, 2], joins[which])
        for code in range(len(codes)):
            self.clauses.at_most_one(rows[which == code, 2])
        return dict(zip(codes.tolist(), joins.tolist(), strict=True))

    def _join(self, joined: list[dict[int, int]]) -> None:
        """No two tokens join the same two parts."""
        literals: dict[int, list[int]] = {}
        for token in joined:
            for code, literal in token.items():
                literals.setdefault(code, []).append(literal)
        for same in literals.values():
            self.clauses.at_most_one(np.array(same, dtype=np.int32))

    def _meet(self) -> None:
        """At the meeting, a token from the source is where one to the target is, and vice versa."""
        sides = [self._by_link(self.positions.meeting), self._by_link(self.positions.meeting + 1)]
        for one, other in (sides, sides[::-1]):
            for link, literals in one.items():
                for literal in literals:
                    self.clauses.add(-literal, *other.get(link, ()))

    def _by_link(self, k: int) -> dict[tuple[int, int], list[int]]:
        """The literals of a layer, whichever tokens they are of."""
        found: dict[tuple[int, int], list[int]] = {}
        for u, v, literal in np.concatenate(self._rows[k]).tolist():
            found.setdefault((u, v), []).append(literal)
        return found

    def _step(self, k: int) -> None:
        """A token is after the step where it was or one slide away, and was likewise before."""
        leaning = []
        for m, found in enumerate(self.positions.slides[k]):
            here, then = self._rows[k][m], self._rows[k + 1][m]
            stays = self.positions.stays(k, m)
            stays = stays[stays[:, 1] > 0]
            before = np.concatenate([stays[:, 0], found[:, 0]])
            after = np.concatenate([stays[:, 1], found[:, 1]])
            self.clauses.add_grouped(here[:, 2], after, before)
            self.clauses.add_grouped(then[:, 2], before, after)
            leaning.append(found[~self.positions.kept[found[:, 3], found[:, 4]]])
        self._lean(k, np.concatenate(leaning))

    def _lean(self, k: int, found: Ints) -> None:
        """A slide along a link that is not kept needs a token that rests there."""
        count = self.indexed.broker_count
        low, high = np.sort(found[:, 3:], axis=1).T
        pivots, which = np.unique(low.astype(np.int64) * count + high, return_inverse=True)
        resting = self.clauses.new_ones(len(pivots))
        self.clauses.add_rows(-found[:, 0], -found[:, 1], resting[which])
        u, v = pivots // count, pivots % count
        here, then = self.positions.at[k][:, u, v], self.positions.at[k + 1][:, u, v]
        m, pivot = np.nonzero((here > 0) & (then > 0))
        stays = self.clauses.new_ones(len(m))
        self.clauses.add_rows(-stays, here[m, pivot])
        self.clauses.add_rows(-stays, then[m, pivot])
        self.clauses.add_grouped(resting, stays, resting[pivot])


def _rows(at: Ints) -> Ints:
    """The positions of a token in a layer: rows (u, v, number)."""
    u, v = np.nonzero(at)
    rows: Ints = np.stack([u, v, at[u, v]], axis=1).astype(np.int32)
    return rows


# Clauses besides the plain token model: the options of a problem, and what may be left out.
#
# `add_options` adds what a plan must obey: disjoint brokers, the degree limit. `add_exclusions`
# adds what every plan obeys anyway, and which follows from the rest only at length. `add_order`
# adds what a plan may be asked to obey without losing the fewest steps or the fewest actions:
#
# - A token that slides and slides straight back could have rested. Nobody can lean on a link that
#   is there between two consecutive moves of its token, so nothing else changes.
# - Two consecutive slides of the two ends of one token, both along kept links, may swap places for
#   the same reason, unless the link in between would then be a goal link (never left) or forbidden.
#   So their pivots are asked to come in order; swapping out-of-order neighbors ends, as in a sort.
#
# Neither holds where actions cost differently or where steps have further limits.


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


# Of the solvers that python-sat brings one of the quickest on these clauses; single runs differ by
# more than the versions of Glucose do.
SOLVER = "glucose42"
# Follows given phases better, and finds plans that the other one misses for long.
_NEAR_SOLVER = "cadical153"


def plan_within(
    reachability: Reachability, reach: Reach | None, near: NumberedSteps | None = None
) -> NumberedSteps | None:
    """A plan of so many steps, or None if it is proven that there is none.

    ``near`` is a plan of more steps; a plan like it is tried first."""
    model = model_of(reachability, reach)
    if model is None:
        return None
    with solver_of(model, SOLVER if near is None else _NEAR_SOLVER) as solver:
        if near is not None:
            solver.set_phases(model.positions.like(near))
        return model.decode(solver.get_model()) if solver.solve() else None


@dataclass(frozen=True)
class SearchRadius:
    """How far from a plan to look for one of a step less, and how long."""

    radius: int
    ahead: int
    """How many steps earlier than in the plan a token may be where it goes."""
    conflicts: int


def plan_around(
    reachability: Reachability, reach: Reach, plan: NumberedSteps, where: SearchRadius
) -> NumberedSteps | None:
    """A plan near one of a step more; None says nothing."""
    near = corridor(reachability, reach, plan, where.radius, where.ahead)
    model = model_of(reachability, near)
    if model is None:
        return None
    with solver_of(model) as solver:
        solver.conf_budget(where.conflicts)
        return model.decode(solver.get_model()) if solver.solve_limited() else None


def model_of(reachability: Reachability, reach: Reach | None) -> TokenModel | None:
    """The clauses of all plans within these positions; None where pairs of tokens rule them out."""
    positions = None if reach is None else prune(reachability, reach)
    if positions is None:
        return None
    model = TokenModel(positions)
    add_options(model)
    add_exclusions(model)
    if allows_order(model):
        add_order(model)
    return model


def solver_of(model: TokenModel, name: str = SOLVER) -> Any:
    """A solver with the clauses of a model in it; use it in a with."""
    from pysat.solvers import Solver  # type: ignore[import-untyped]

    return Solver(name=name, bootstrap_with=model.clauses.rows)
