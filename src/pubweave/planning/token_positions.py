"""Numbers for where tokens can be and how they can slide, within T steps.

What both exact models are made of: the clauses of `token_model` (is there a plan of T steps?) and
the network flow of `flow_model` (which of them is cheapest?). Only positions that `reachability`
leaves alive get a number.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pubweave.planning._kernels_model import Ints, number_positions, slides
from pubweave.planning.indexed import IndexedProblem, NumberedSteps
from pubweave.planning.reachability import Reach, bit_matrix, dense

Place = frozenset[int]


class TokenPositions:
    """at[t, m, u, v] > 0 numbers token m's position on link (u, v) after t steps."""

    def __init__(self, indexed: IndexedProblem, reach: Reach) -> None:
        count, tokens = indexed.broker_count, indexed.token_count
        self.indexed = indexed
        self.steps = reach.steps
        self.kept = dense(bit_matrix(indexed.kept, count), count)
        self.goal = dense(bit_matrix(indexed.goals, count), count)
        self.at: Ints = np.zeros((self.steps + 1, tokens, count, count), dtype=np.int32)
        first = 1
        for t in range(self.steps + 1):
            for m in range(tokens):
                alive = dense(reach.alive[t][m], count)
                first = number_positions(alive, first, self.at[t, m])
        self.count = first - 1
        self.slides = [
            [
                slides(self.at[t, m], self.at[t + 1, m], dense(bits, count), self.goal)
                for m, bits in enumerate(reach.pivots[t])
            ]
            for t in range(self.steps)
        ]
        """slides[t][m]: token m's slides in step t + 1, rows (before, after, w, u, v)."""

    def stays(self, t: int, m: int) -> Ints:
        """Rows (position, the same one step on or 0, u, v) of token m after t steps."""
        here = np.triu(self.at[t, m], 1)
        u, v = np.nonzero(here)
        columns = [here[u, v], self.at[t + 1, m, u, v], u, v]
        rows: Ints = np.stack(columns, axis=1).astype(np.int32).reshape(-1, 4)
        return rows

    def decode(self, holds: npt.NDArray[np.bool_]) -> NumberedSteps:
        """The shifts between the positions that hold; ``holds[p]`` for each number p."""
        steps: NumberedSteps = [[] for _ in range(self.steps)]
        for m in range(self.indexed.token_count):
            places = [_place(self.at[t, m], holds) for t in range(self.steps + 1)]
            for t in range(self.steps):
                if places[t] != places[t + 1]:
                    (mover,) = places[t] & places[t + 1]
                    (old,) = places[t] - {mover}
                    (new,) = places[t + 1] - {mover}
                    steps[t].append((mover, old, new))
        return steps


def _place(at: Ints, holds: npt.NDArray[np.bool_]) -> Place:
    rows, columns = np.nonzero(holds[at] & (at > 0))
    return frozenset((int(rows[0]), int(columns[0])))
