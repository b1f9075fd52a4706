"""The cheapest plan of T steps as a network flow: an integer program, no solver imported here.

Each token is one unit of flow from its link through the positions of `token_positions` to a goal
link; a stay costs nothing, a slide what its shift costs. Tokens meet in the rows: a slide along a
link that is not kept needs a unit of another token that stays there, and the problem's options
limit who may do what at once. The linear relaxation of this program is far tighter than that of
clauses, which is why it, and not the satisfiability solver, proves the fewest actions.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from pubweave.model.plans import Shift
from pubweave.planning.bounds.token_positions import TokenPositions
from pubweave.planning.problem.indexed import NumberedSteps

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int32]


@dataclass
class _Rows:
    """Rows by key, made when first asked for."""

    number: dict[tuple[int, ...], int] = field(default_factory=dict)
    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)

    def get(self, key: tuple[int, ...], lower: float, upper: float) -> int:
        found = self.number.get(key)
        if found is None:
            found = self.number[key] = len(self.lower)
            self.lower.append(lower)
            self.upper.append(upper)
        return found


_FLOW, _LEAN, _MEET, _BUSY, _DEGREE = range(5)
_FREE = -1e30


class FlowModel:
    """Columns (all between 0 and 1, whole) and rows of the program."""

    def __init__(self, positions: TokenPositions) -> None:
        self.positions = positions
        self._problem = positions.indexed.problem
        self._rows = _Rows()
        self._columns: list[list[tuple[int, float]]] = []
        self._leaves: list[int] = []
        self._arrives: list[int] = []
        self.cost: list[float] = []
        self._stay_columns: dict[tuple[int, int, int], list[tuple[int, int]]] = {}
        for k in positions.steps:
            for m in range(positions.indexed.token_count):
                self._add_stays(k, m)
                self._add_slides(k, m)
        self._meet()
        self._lean_on_stays()
        self._add_ends()

    @property
    def lower(self) -> list[float]:
        return self._rows.lower

    @property
    def upper(self) -> list[float]:
        return self._rows.upper

    def matrix(self) -> tuple[Numbers, Numbers, Floats]:
        """Starts, row numbers and values, column by column."""
        starts = np.cumsum([0] + [len(column) for column in self._columns], dtype=np.int32)
        index = np.array([row for column in self._columns for row, _ in column], dtype=np.int32)
        value = np.array([value for column in self._columns for _, value in column], dtype=float)
        return starts, index, value

    def decode(self, values: Sequence[float]) -> NumberedSteps:
        """The shifts of a solution."""
        holds = np.zeros(self.positions.count + 1, dtype=np.bool_)
        for arrives, value in zip(self._arrives, values, strict=True):
            if value > 0.5 and arrives:
                holds[arrives] = True
        for m, (a, b) in enumerate(self.positions.indexed.tokens.tolist()):
            holds[self.positions.at[0, m, a, b]] = True
        return self.positions.decode(holds)

    def values(self, steps: NumberedSteps) -> list[float]:
        """A plan as a solution: where to start from."""
        walks = self.positions.walks(steps)
        holds = {
            pair for k in self.positions.steps for pair in zip(walks[k], walks[k + 1], strict=True)
        }
        meeting = self.positions.meeting
        holds.update((place, 0) for place in walks[meeting])
        holds.update((0, place) for place in walks[meeting + 1])
        pairs = zip(self._leaves, self._arrives, strict=True)
        return [1.0 if pair in holds else 0.0 for pair in pairs]

    def _add(self, leaves: int, arrives: int, cost: float) -> list[tuple[int, float]]:
        column = []
        if leaves:
            column.append((self._rows.get((_FLOW, leaves), 0.0, 0.0), -1.0))
        if arrives:
            column.append((self._rows.get((_FLOW, arrives), 0.0, 0.0), 1.0))
        self._columns.append(column)
        self._leaves.append(leaves)
        self._arrives.append(arrives)
        self.cost.append(cost)
        return column

    def _add_stays(self, t: int, m: int) -> None:
        for before, after, u, v in self.positions.stays(t, m).tolist():
            if after:
                column = self._add(before, after, 0.0)
                self._stay_columns.setdefault((t, u, v), []).append((m, len(self._columns) - 1))
                self._limit_degree(t, column, (u, v))

    def _add_slides(self, t: int, m: int) -> None:
        kept = self.positions.kept
        for before, after, w, u, v in self.positions.slides[t][m].tolist():
            column = self._add(before, after, self._cost_of(w, u, v))
            if not kept[u, v]:
                row = self._rows.get((_LEAN, t, min(u, v), max(u, v), m), _FREE, 0.0)
                column.append((row, 1.0))
            if self._problem.disjoint_brokers:
                for broker in (w, u, v):
                    column.append((self._rows.get((_BUSY, t, broker), _FREE, 1.0), 1.0))
            self._limit_degree(t, column, (w, v))

    def _cost_of(self, w: int, u: int, v: int) -> float:
        costs = self._problem.action_cost
        if costs is None:
            return 1.0
        names = self.positions.indexed.brokers
        return float(costs.get(Shift(names[w], names[u], names[v]), 1.0))

    def _limit_degree(self, t: int, column: list[tuple[int, float]], link: tuple[int, int]) -> None:
        limit = self._problem.max_degree
        if limit is None:
            return
        for broker in link:
            free = float(limit - int(self.positions.kept[broker].sum()))
            column.append((self._rows.get((_DEGREE, t, broker), _FREE, free), 1.0))

    def _lean_on_stays(self) -> None:
        """Another token that stays on the pivot carries the slides along it."""
        for key, row in list(self._rows.number.items()):
            if key[0] == _LEAN:
                _, t, u, v, slider = key
                for m, column in self._stay_columns.get((t, u, v), ()):
                    if m != slider:
                        self._columns[column].append((row, -1.0))

    def _meet(self) -> None:
        """At the meeting tokens change their names: what arrives on a link leaves it."""
        meeting = self.positions.meeting
        for k, sign in ((meeting, 1.0), (meeting + 1, -1.0)):
            for m, u, v in np.argwhere(np.triu(self.positions.at[k])).tolist():
                position = int(self.positions.at[k, m, u, v])
                ends = (position, 0) if k == meeting else (0, position)
                self._add(*ends, 0.0).append((self._rows.get((_MEET, u, v), 0.0, 0.0), sign))

    def _add_ends(self) -> None:
        """A unit of each token leaves the first layer, and one arrives in the last."""
        for layer, unit in ((self.positions.at[0], -1.0), (self.positions.at[-1], 1.0)):
            for position in layer.max(axis=(1, 2)).tolist():
                row = self._rows.number[(_FLOW, position)]
                self._rows.lower[row] = self._rows.upper[row] = unit
