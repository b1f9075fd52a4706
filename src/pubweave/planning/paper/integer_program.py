"""OptiPlan's integer program for shifts: IPITT's Eqs. 1-15 (Appendix A) and section V.

Only arrays are made here; no solver is imported. Propositions are conn and rem of every unordered
pair of brokers, conn first, so F = n(n-1). Columns are the x of all actions step by step, then the
five y of all propositions for t = 0..T, then the degrees D where there is a limit.

Eqs. 7 and 8 are empty sums for shifts: whatever a shift deletes it also requires. Eqs. 5 and 6 do
not forbid adding one link twice, but two shifts that add one link would need a cycle. Eq. 14 lets
true facts be forgotten, which would fool a degree counted from facts: D is counted from actions.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from pubweave.model.ids import BrokerId, Link
from pubweave.model.topology import Topology

# Which shifts an integer program may use: all of them, or IPITT's two smaller sets.
#
# Broker numbers are positions in the sorted list of ids. An action is a row (i, j, k) of distinct
# numbers, as in the paper's equations: permutations, though its text once says subsets. Rows come
# in lexicographic order, each once, so a model built on them is the same on every run.


Triples = npt.NDArray[np.int32]


class ActionSet(enum.Enum):
    """IPITT IV-B: naive, Algorithm 2, Algorithm 3."""

    NAIVE = "naive"
    ALL_PATHS = "all-paths"
    EACH_PATH = "each-path"


def transformation_paths(source: Topology, target: Topology) -> dict[Link, tuple[BrokerId, ...]]:
    """For each goal link, the brokers on the way between its ends in the source."""
    return {link: source.path(*link) for link in sorted(target.links - source.links)}


def generate_actions(kind: ActionSet, source: Topology, target: Topology) -> Triples:
    """The shifts of one of the three sets, as rows of broker numbers."""
    number = {broker: place for place, broker in enumerate(sorted(source.brokers))}
    if kind is ActionSet.NAIVE:
        return permuted(list(number.values()))
    paths = [
        [number[broker] for broker in way] for way in transformation_paths(source, target).values()
    ]
    if kind is ActionSet.ALL_PATHS:
        return permuted(sorted({broker for way in paths for broker in way}))
    found = {triple for way in paths for triple in permutations(way, 3)}
    return np.array(sorted(found), dtype=np.int32).reshape(-1, 3)


def permuted(brokers: list[int]) -> Triples:
    """All ordered triples of distinct numbers."""
    values = np.array(brokers, dtype=np.int32)
    i, j, k = np.meshgrid(values, values, values, indexing="ij")
    distinct = (i != j) & (j != k) & (i != k)
    return np.stack([i[distinct], j[distinct], k[distinct]], axis=1)


Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

ADD, DEL, PREADD, PREDEL, MAINTAIN = range(5)
STATE_CHANGES = 5
INFINITY = np.inf


@dataclass(frozen=True)
class IpProblem:
    """What the program is made from: broker numbers, links as pairs of them, rows of actions."""

    broker_count: int
    source_links: tuple[tuple[int, int], ...]
    target_links: tuple[tuple[int, int], ...]
    actions: Triples
    costs: tuple[float, ...] | None = None
    """Section V's C_a, in the order of the actions; None: 1 each."""
    max_degree: int | None = None
    disjoint_brokers: bool = False

    @property
    def pair_count(self) -> int:
        return self.broker_count * (self.broker_count - 1) // 2

    @property
    def proposition_count(self) -> int:
        """F."""
        return 2 * self.pair_count


class IpSize(NamedTuple):
    """How large a program is, by counting alone."""

    actions: int
    variables: int
    constraints: int


@dataclass(frozen=True)
class IpModel:
    """A program in the form solvers take: rows of a sparse matrix with bounds on each side."""

    costs: Floats
    upper: Floats
    """Upper bounds of the columns; the lower ones are 0, and all columns are integer."""
    row_start: Ints
    column: Ints
    value: Floats
    row_lower: Floats
    row_upper: Floats
    row_counts: Mapping[str, int]
    """How many rows each equation has, by its number in the paper."""

    @property
    def size(self) -> tuple[int, int]:
        return len(self.row_lower), len(self.costs)


def pair_index(a: Ints, b: Ints, broker_count: int) -> Ints:
    """The number of an unordered pair: (0,1), (0,2), ..., (1,2), ..."""
    low, high = np.minimum(a, b), np.maximum(a, b)
    index: Ints = low * broker_count - low * (low + 1) // 2 + high - low - 1
    return index


def model_size(problem: IpProblem, step_count: int) -> IpSize:
    """Variables |A|T + 5F(T+1) and the rows of Eqs. 2-14, without building anything.

    Degrees and disjoint brokers (section V) come on top of the paper's program."""
    effects = _Effects(problem)
    a, f, t, n = len(problem.actions), problem.proposition_count, step_count, problem.broker_count
    variables = a * t + STATE_CHANGES * f * (t + 1)
    # (2) and (3) together: F; (4): goal links; per step (5) (7) (9) (11) (12) (13) (14): F each,
    # (6): one for each added proposition, (10): one for each pivot.
    constraints = f + len(problem.target_links)
    constraints += t * (7 * f + len(effects.added_by) + a)
    if problem.max_degree is not None:
        variables += n * t
        constraints += n * t
    if problem.disjoint_brokers:
        constraints += n * t
    return IpSize(a, variables, constraints)


def build_model(problem: IpProblem, step_count: int) -> IpModel:
    """The program for plans of at most ``step_count`` steps."""
    return _Builder(problem, step_count).build()


class _Effects:
    """Preconditions and effects of every shift(i, j, k), as proposition numbers."""

    def __init__(self, problem: IpProblem) -> None:
        n, pairs = problem.broker_count, problem.pair_count
        i, j, k = (problem.actions[:, place].astype(np.int64) for place in range(3))
        self.removed = pair_index(i, j, n)
        self.pivot = pair_index(j, k, n)
        self.added = pair_index(i, k, n)
        goal = np.zeros(pairs, dtype=bool)
        goal[_pairs(problem.target_links, n)] = True
        number = np.arange(len(problem.actions), dtype=np.int64)
        removable = ~goal[self.added]
        # conn(i, k) by every action, rem(i, k) by those whose link is not in the target.
        self.added_by = np.concatenate([number, number[removable]])
        self.added_fact = np.concatenate([self.added, pairs + self.added[removable]])
        self.deleted_by = np.concatenate([number, number])
        self.deleted_fact = np.concatenate([self.removed, pairs + self.removed])


class _Builder:
    def __init__(self, problem: IpProblem, step_count: int) -> None:
        self._problem = problem
        self._steps = step_count
        self._effects = _Effects(problem)
        self._facts = problem.proposition_count
        self._actions = len(problem.actions)
        self._rows: list[Ints] = []
        self._columns: list[Ints] = []
        self._values: list[Floats] = []
        self._lower: list[Floats] = []
        self._upper: list[Floats] = []
        self._row_counts: dict[str, int] = {}
        self._row_count = 0

    def build(self) -> IpModel:
        self._initial_state()
        self._goal_state()
        for t in range(1, self._steps + 1):
            self._link_actions_to_facts(t)
            self._exclude_parallel_changes(t)
            self._chain_backwards(t)
            if self._problem.max_degree is not None:
                self._count_degrees(t)
            if self._problem.disjoint_brokers:
                self._keep_brokers_apart(t)
        return self._assembled()

    def _x(self, t: int) -> int:
        return (t - 1) * self._actions

    def _y(self, kind: int, t: int) -> int:
        offset = self._steps * self._actions
        return offset + (t * STATE_CHANGES + kind) * self._facts

    def _d(self, t: int) -> int:
        offset = self._y(0, self._steps + 1)
        return offset + (t - 1) * self._problem.broker_count

    def _initial_state(self) -> None:
        """Eqs. 2 and 3."""
        problem, pairs = self._problem, self._problem.pair_count
        present = _pairs(problem.source_links, problem.broker_count)
        removable = np.setdiff1d(present, _pairs(problem.target_links, problem.broker_count))
        true = np.sort(np.concatenate([present, pairs + removable]))
        false = np.setdiff1d(np.arange(self._facts, dtype=np.int64), true)
        self._add_rows("2", len(true), [(None, self._y(ADD, 0) + true, 1.0)], 1.0, 1.0)
        terms: list[_Term] = [
            (None, self._y(kind, 0) + false, 1.0) for kind in (ADD, MAINTAIN, PREADD)
        ]
        self._add_rows("3", len(false), terms, 0.0, 0.0)

    def _goal_state(self) -> None:
        """Eq. 4: the links of the target; nothing is asked of rem."""
        goal = np.sort(_pairs(self._problem.target_links, self._problem.broker_count))
        terms: list[_Term] = [
            (None, self._y(kind, self._steps) + goal, 1.0) for kind in (ADD, MAINTAIN, PREADD)
        ]
        self._add_rows("4", len(goal), terms, 1.0, INFINITY)

    def _link_actions_to_facts(self, t: int) -> None:
        """Eqs. 5-11."""
        effects, facts, x = self._effects, np.arange(self._facts, dtype=np.int64), self._x(t)
        add, pre = self._y(ADD, t), self._y(PREADD, t)
        adds = (effects.added_fact, x + effects.added_by, 1.0)
        self._add_rows("5", self._facts, [adds, (None, add + facts, -1.0)], 0.0, INFINITY)
        each = [(None, x + effects.added_by, 1.0), (None, add + effects.added_fact, -1.0)]
        self._add_rows("6", len(effects.added_by), each, -INFINITY, 0.0)
        none_deleted = [(None, self._y(DEL, t) + facts, -1.0)]
        self._add_rows("7", self._facts, none_deleted, 0.0, INFINITY)
        every = np.arange(self._actions, dtype=np.int64)
        pivots = (effects.pivot, x + every, 1.0)
        self._add_rows("9", self._facts, [pivots, (None, pre + facts, -1.0)], 0.0, INFINITY)
        each = [(None, x + every, 1.0), (None, pre + effects.pivot, -1.0)]
        self._add_rows("10", self._actions, each, -INFINITY, 0.0)
        deletes = (effects.deleted_fact, x + effects.deleted_by, 1.0)
        gone = (None, self._y(PREDEL, t) + facts, -1.0)
        self._add_rows("11", self._facts, [deletes, gone], 0.0, 0.0)

    def _exclude_parallel_changes(self, t: int) -> None:
        """Eqs. 12 and 13."""
        facts = np.arange(self._facts, dtype=np.int64)
        for name, first in (("12", ADD), ("13", PREADD)):
            terms: list[_Term] = [
                (None, self._y(kind, t) + facts, 1.0) for kind in (first, MAINTAIN, DEL, PREDEL)
            ]
            self._add_rows(name, self._facts, terms, -INFINITY, 1.0)

    def _chain_backwards(self, t: int) -> None:
        """Eq. 14."""
        facts = np.arange(self._facts, dtype=np.int64)
        terms: list[_Term] = [
            (None, self._y(kind, t) + facts, 1.0) for kind in (PREADD, MAINTAIN, PREDEL)
        ]
        terms += [(None, self._y(kind, t - 1) + facts, -1.0) for kind in (PREADD, ADD, MAINTAIN)]
        self._add_rows("14", self._facts, terms, -INFINITY, 0.0)

    def _count_degrees(self, t: int) -> None:
        """Section V: D_{b,t} = D_{b,t-1} - links lost by shifts + links won; its bound is D_max."""
        brokers = np.arange(self._problem.broker_count, dtype=np.int64)
        every = np.arange(self._actions, dtype=np.int64)
        _, j, k = (self._problem.actions[:, place].astype(np.int64) for place in range(3))
        terms: list[_Term] = [
            (None, self._d(t) + brokers, 1.0),
            (k, self._x(t) + every, -1.0),
            (j, self._x(t) + every, 1.0),
        ]
        start = np.zeros(len(brokers))
        if t == 1:
            ends = np.array(self._problem.source_links, dtype=np.int64).ravel()
            start = np.bincount(ends, minlength=len(brokers)).astype(np.float64)
        else:
            terms.append((None, self._d(t - 1) + brokers, -1.0))
        self._add_rows("V degree", len(brokers), terms, start, start)

    def _keep_brokers_apart(self, t: int) -> None:
        """The reading of the evaluation: actions of a step share no broker."""
        every = np.arange(self._actions, dtype=np.int64)
        terms: list[_Term] = [
            (self._problem.actions[:, place].astype(np.int64), self._x(t) + every, 1.0)
            for place in range(3)
        ]
        self._add_rows("disjoint", self._problem.broker_count, terms, -INFINITY, 1.0)

    def _add_rows(
        self,
        name: str,
        count: int,
        terms: Sequence[_Term],
        lower: float | Floats,
        upper: float | Floats,
    ) -> None:
        """Rows of one equation; a term's entry goes to its row, or entry after entry if None."""
        for rows, columns, value in terms:
            local = np.arange(count, dtype=np.int64) if rows is None else rows
            self._rows.append(self._row_count + local)
            self._columns.append(columns)
            self._values.append(np.full(len(columns), value))
        self._lower.append(np.broadcast_to(np.asarray(lower, dtype=np.float64), (count,)))
        self._upper.append(np.broadcast_to(np.asarray(upper, dtype=np.float64), (count,)))
        self._row_counts[name] = self._row_counts.get(name, 0) + count
        self._row_count += count

    def _assembled(self) -> IpModel:
        rows = np.concatenate(self._rows)
        order = np.argsort(rows, kind="stable")
        row_start = np.zeros(self._row_count + 1, dtype=np.int64)
        np.cumsum(np.bincount(rows, minlength=self._row_count), out=row_start[1:])
        binary = self._y(0, self._steps + 1)
        limit = self._problem.max_degree
        degrees = 0 if limit is None else self._steps * self._problem.broker_count
        costs = np.zeros(binary + degrees)
        of_action = self._problem.costs
        costs[: self._steps * self._actions] = (
            1.0 if of_action is None else np.tile(np.array(of_action), self._steps)
        )
        upper = np.ones(binary + degrees)
        upper[binary:] = 0.0 if limit is None else float(limit)
        return IpModel(
            costs,
            upper,
            row_start,
            np.concatenate(self._columns)[order],
            np.concatenate(self._values)[order],
            np.concatenate(self._lower),
            np.concatenate(self._upper),
            self._row_counts,
        )


_Term = tuple[Ints | None, Ints, float]


def _pairs(links: tuple[tuple[int, int], ...], broker_count: int) -> Ints:
    ends = np.array(links, dtype=np.int64).reshape(-1, 2)
    return pair_index(ends[:, 0], ends[:, 1], broker_count)


# What a solver says about one integer program.


ChosenActions = tuple[tuple[int, ...], ...]
"""For each step, positions in the problem's action rows."""


class IpStatus(enum.Enum):
    OPTIMAL = "optimal"
    INFEASIBLE = "infeasible"
    STOPPED = "stopped"
    """The caller's stop came first; ``steps`` may hold the best found so far."""
    FAILED = "failed"
    """The solver gave up; ``detail`` has its own words."""


@dataclass(frozen=True)
class Incumbent:
    """A better solution, while the solver goes on."""

    steps: ChosenActions


@dataclass(frozen=True)
class IpOutcome:
    """The end of one program."""

    status: IpStatus
    steps: ChosenActions | None = None
    variables: int = 0
    constraints: int = 0
    memory_mb: float = 0.0
    """The most the solving process has ever held."""
    detail: str = ""
