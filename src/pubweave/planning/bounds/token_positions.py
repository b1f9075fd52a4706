"""Numbers for where tokens can be and how they can slide, within T steps.

What both exact models are made of: the clauses of `token_model` (is there a plan of T steps?) and
the network flow of `flow_model` (which of them is cheapest?). Only positions that `reachability`
leaves alive get a number.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from pubweave.planning.bounds._kernels_reach import Bits, Flags, Ints, slides
from pubweave.planning.bounds.reachability import Reach, Reachability, bit_matrix, dense
from pubweave.planning.problem.indexed import IndexedProblem, NumberedSteps, link_keys, walks

Place = frozenset[int]


class TokenPositions:
    """at[k, m, u, v] > 0 numbers token m's position on link (u, v) in layer k of `Reach`.

    slides[k][m] are token m's slides between the layers k and k + 1, rows (before, after, w, u, v):
    link (w, u) becomes (w, v) over the pivot (u, v), in the order of the pivots. Between the two
    layers of the meeting there are none: there each link has a token in both or in neither."""

    def __init__(
        self, indexed: IndexedProblem, meeting: int, at: Ints, slides: list[list[Ints]]
    ) -> None:
        count = indexed.broker_count
        self.indexed = indexed
        self.meeting = meeting
        self.kept = dense(bit_matrix(indexed.kept, count), count)
        self.goal = dense(bit_matrix(indexed.goals, count), count)
        self.at = at
        self.count = int(at.max(initial=0))
        self.slides = slides
        self.exclusions: Ints = np.zeros((0, 2), dtype=np.int32)
        """Pairs of positions of one instant that are known not to be on one plan."""

    @property
    def steps(self) -> list[int]:
        """The layers from which a step leads to the next."""
        return [k for k in range(len(self.slides)) if k != self.meeting]

    @classmethod
    def of(cls, indexed: IndexedProblem, reach: Reach) -> TokenPositions:
        """All that `reachability` leaves alive."""
        count = indexed.broker_count
        links = [[links_of(bits, count) for bits in layer] for layer in reach.alive]
        found = []
        for k, layer in enumerate(reach.pivots):
            pivots = [dense(bits, count) for bits in layer]
            found.append(slides_between(indexed, links[k], links[k + 1], pivots))
        found[reach.meeting] = none_of(found[reach.meeting])
        return cls.numbered(indexed, reach.meeting, links, found)

    @classmethod
    def numbered(
        cls,
        indexed: IndexedProblem,
        meeting: int,
        links: list[list[Ints]],
        slides: list[list[Ints]],
    ) -> TokenPositions:
        """Only these links of each layer and token, and these slides, whose positions are given
        by their places among the links."""
        count, tokens = indexed.broker_count, indexed.token_count
        at: Ints = np.zeros((len(links), tokens, count, count), dtype=np.int32)
        first = np.ones((len(links), tokens), dtype=np.int32)
        number = 1
        for k, layer in enumerate(links):
            for m, pairs in enumerate(layer):
                u, v = pairs.T
                first[k, m] = number
                at[k, m, u, v] = at[k, m, v, u] = np.arange(number, number + len(pairs))
                number += len(pairs)
        found = []
        for k, step in enumerate(slides):
            moved = [rows.copy() for rows in step]
            for m, rows in enumerate(moved):
                rows[:, 0] += first[k, m]
                rows[:, 1] += first[k + 1, m]
            found.append(moved)
        return cls(indexed, meeting, at, found)

    def stays(self, k: int, m: int) -> Ints:
        """Rows (position, the same one step on or 0, u, v) of token m in layer k."""
        here = np.triu(self.at[k, m], 1)
        u, v = np.nonzero(here)
        columns = [here[u, v], self.at[k + 1, m, u, v], u, v]
        rows: Ints = np.stack(columns, axis=1).astype(np.int32).reshape(-1, 4)
        return rows

    def walks(self, plan: NumberedSteps) -> list[list[int]]:
        """The positions of the tokens of a plan, layer after layer, 0 where there is none.

        In a plan of more steps than there are here, instants count from its start up to the
        meeting and from its end after it."""
        front, back = token_walks(self.indexed, plan)
        early = self.meeting + 1
        states = [*front[:early], *back[len(back) - len(self.at) + early :]]
        return [
            [int(self.at[k, m, u, v]) for m, (u, v) in enumerate(state.tolist())]
            for k, state in enumerate(states)
        ]

    def like(self, plan: NumberedSteps) -> list[int]:
        """Each position's number, negative where the tokens of a plan are elsewhere."""
        holds = -np.arange(self.count + 1)
        for layer in self.walks(plan):
            holds[layer] = layer
        phases: list[int] = holds[1:].tolist()
        return phases

    def decode(self, holds: npt.NDArray[np.bool_]) -> NumberedSteps:
        """The shifts between the positions that hold; ``holds[p]`` for each number p."""
        steps: NumberedSteps = []
        for k in self.steps:
            found = []
            for m in range(self.indexed.token_count):
                before, after = _place(self.at[k, m], holds), _place(self.at[k + 1, m], holds)
                if before != after:
                    (mover,) = before & after
                    (old,) = before - {mover}
                    (new,) = after - {mover}
                    found.append((mover, old, new))
            steps.append(found)
        return steps


def links_of(bits: Bits, count: int) -> Ints:
    """The links (u, v), u < v, of a bit matrix."""
    u, v = np.nonzero(np.triu(dense(bits, count), 1))
    rows: Ints = np.stack([u, v], axis=1).astype(np.int32)
    return rows


def slides_between(
    indexed: IndexedProblem, here: list[Ints], then: list[Ints], pivots: list[Flags]
) -> list[Ints]:
    """Each token's slides between these links, by their places among them."""
    count = indexed.broker_count
    goal = dense(bit_matrix(indexed.goals, count), count)
    found = []
    for m, along in enumerate(pivots):
        at = [np.zeros((count, count), dtype=np.int32) for _ in range(2)]
        for numbers, links in zip(at, (here[m], then[m]), strict=True):
            u, v = links.T
            numbers[u, v] = numbers[v, u] = np.arange(1, len(links) + 1)
        rows = slides(at[0], at[1], along, goal)
        rows[:, :2] -= 1
        found.append(rows)
    return found


def none_of(slides: list[Ints]) -> list[Ints]:
    """As many tokens, no slides."""
    return [rows[:0] for rows in slides]


def _place(at: Ints, holds: npt.NDArray[np.bool_]) -> Place:
    rows, columns = np.nonzero(holds[at] & (at > 0))
    return frozenset((int(rows[0]), int(columns[0])))


# The surroundings of a known plan: where to look first for one of fewer steps.
#
# A plan of T + 1 steps mostly differs little from some plan of T: each token is, at each instant,
# not far from where the known plan has it then or one step later. Positions further away than a
# radius are left out, which makes a hard question a small one. What is found is a plan like any
# other; that nothing is found proves nothing.


Walk = npt.NDArray[np.int64]


def corridor(
    reachability: Reachability, reach: Reach, near: NumberedSteps, radius: int, ahead: int = 1
) -> Reach | None:
    """``reach`` within so many slides of where the tokens of a plan are at the same instant or up
    to ``ahead`` steps later; None where that leaves no plan."""
    front, back = token_walks(reachability.indexed, near)
    alive = []
    for k, everywhere in enumerate(reach.alive):
        walk, t = (front, k) if k <= reach.meeting else (back, k - 1)
        # Of the step that follows or, where none does, of the one before.
        pivots = reach.pivots[max(0, k - 1) if k in (reach.meeting, reach.steps + 1) else k]
        around = _around(reachability, walk, range(t, t + ahead + 1))
        for _ in range(radius):
            around = around | reachability.spread(around, pivots)
        alive.append(everywhere & around)
    return reachability.settle(replace(reach, alive=alive))


def token_walks(indexed: IndexedProblem, plan: NumberedSteps) -> tuple[Walk, Walk]:
    """Where each token of a plan is after each number of steps: with tokens in the order of the
    removable links they come from, and in the order of the goal links they end on."""
    front = walks(indexed.tokens, plan)
    count = indexed.broker_count
    ends = {key: m for m, key in enumerate(link_keys(front[-1], count).tolist())}
    return front, front[:, [ends[key] for key in link_keys(indexed.goals, count).tolist()]]


def _around(reachability: Reachability, walk: Walk, instants: range) -> Bits:
    """Each token's links in the plan at these instants."""
    count = reachability.indexed.broker_count
    states = walk[[min(t, len(walk) - 1) for t in instants]]
    return np.stack([bit_matrix(states[:, m], count) for m in range(states.shape[1])])
