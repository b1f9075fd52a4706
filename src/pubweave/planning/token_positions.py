"""Numbers for where tokens can be and how they can slide, within T steps.

What both exact models are made of: the clauses of `token_model` (is there a plan of T steps?) and
the network flow of `flow_model` (which of them is cheapest?). Only positions that `reachability`
leaves alive get a number.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pubweave.planning._kernels_model import Ints, number_positions, slides
from pubweave.planning.corridor import token_walks
from pubweave.planning.indexed import IndexedProblem, NumberedSteps
from pubweave.planning.reachability import Reach, bit_matrix, dense

Place = frozenset[int]


class TokenPositions:
    """at[t, m, u, v] > 0 numbers token m's position on link (u, v) after t steps.

    slides[t][m] are token m's slides in step t + 1, rows (before, after, w, u, v): link (w, u)
    becomes (w, v) over the pivot (u, v), in the order of the pivots."""

    def __init__(self, indexed: IndexedProblem, at: Ints, slides: list[list[Ints]]) -> None:
        count = indexed.broker_count
        self.indexed = indexed
        self.steps = len(slides)
        self.kept = dense(bit_matrix(indexed.kept, count), count)
        self.goal = dense(bit_matrix(indexed.goals, count), count)
        self.at = at
        self.count = int(at.max(initial=0))
        self.slides = slides
        self.exclusions: Ints = np.zeros((0, 2), dtype=np.int32)
        """Pairs of positions of one instant that are known not to be on one plan."""

    @classmethod
    def of(cls, indexed: IndexedProblem, reach: Reach) -> TokenPositions:
        """All that `reachability` leaves alive."""
        count, tokens = indexed.broker_count, indexed.token_count
        goal = dense(bit_matrix(indexed.goals, count), count)
        at: Ints = np.zeros((reach.steps + 1, tokens, count, count), dtype=np.int32)
        first = 1
        for t in range(reach.steps + 1):
            for m in range(tokens):
                first = number_positions(dense(reach.alive[t][m], count), first, at[t, m])
        found = [
            [
                slides(at[t, m], at[t + 1, m], dense(bits, count), goal)
                for m, bits in enumerate(reach.pivots[t])
            ]
            for t in range(reach.steps)
        ]
        return cls(indexed, at, found)

    @classmethod
    def numbered(
        cls, indexed: IndexedProblem, links: list[list[Ints]], slides: list[list[Ints]]
    ) -> TokenPositions:
        """Only these links of each instant and token, and these slides, whose positions are given
        by their places among the links."""
        count, tokens = indexed.broker_count, indexed.token_count
        at: Ints = np.zeros((len(links), tokens, count, count), dtype=np.int32)
        first = np.ones((len(links), tokens), dtype=np.int32)
        number = 1
        for t, layer in enumerate(links):
            for m, pairs in enumerate(layer):
                u, v = pairs.T
                first[t, m] = number
                at[t, m, u, v] = at[t, m, v, u] = np.arange(number, number + len(pairs))
                number += len(pairs)
        found = []
        for t, step in enumerate(slides):
            moved = [rows.copy() for rows in step]
            for m, rows in enumerate(moved):
                rows[:, 0] += first[t, m]
                rows[:, 1] += first[t + 1, m]
            found.append(moved)
        return cls(indexed, at, found)

    def links(self, t: int, m: int) -> Ints:
        """Where token m can be after t steps, as rows (u, v) with u < v, in the order of their
        numbers."""
        u, v = np.nonzero(np.triu(self.at[t, m], 1))
        rows: Ints = np.stack([u, v], axis=1).astype(np.int32)
        return rows[np.argsort(self.at[t, m, u, v], kind="stable")]

    def stays(self, t: int, m: int) -> Ints:
        """Rows (position, the same one step on or 0, u, v) of token m after t steps."""
        here = np.triu(self.at[t, m], 1)
        u, v = np.nonzero(here)
        columns = [here[u, v], self.at[t + 1, m, u, v], u, v]
        rows: Ints = np.stack(columns, axis=1).astype(np.int32).reshape(-1, 4)
        return rows

    def like(self, plan: NumberedSteps) -> list[int]:
        """Each position's number, negative where the tokens of a plan, which may have more steps
        than there are here, are elsewhere at that instant."""
        holds = -np.arange(self.count + 1)
        walks = token_walks(self.indexed, plan)
        for t in range(self.steps + 1):
            for m, (u, v) in enumerate(walks[min(t, len(plan))]):
                holds[self.at[t, m, u, v]] = self.at[t, m, u, v]
        phases: list[int] = holds[1:].tolist()
        return phases

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
