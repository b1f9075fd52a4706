"""The surroundings of a known plan: where to look first for one of fewer steps.

A plan of T + 1 steps mostly differs little from some plan of T: each token is, at each instant, not
far from where the known plan has it then or one step later. Positions further away than a radius
are left out, which makes a hard question a small one. What is found is a plan like any other; that
nothing is found proves nothing.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pubweave.planning._kernels_reach import Bits
from pubweave.planning.indexed import IndexedProblem, NumberedSteps
from pubweave.planning.reachability import Reach, Reachability, bit_matrix

Walk = list[list[tuple[int, int]]]


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
    tokens = {frozenset(link): m for m, link in enumerate(indexed.tokens.tolist())}
    links = [(a, b) for a, b in indexed.tokens.tolist()]
    walks = [list(links)]
    for step in plan:
        for i, j, k in step:
            m = tokens.pop(frozenset((i, j)))
            links[m] = (i, k)
        tokens = {frozenset(link): m for m, link in enumerate(links)}
        walks.append(list(links))
    order = [tokens[frozenset(link)] for link in indexed.goals.tolist()]
    return walks, [[state[m] for m in order] for state in walks]


def _around(reachability: Reachability, walks: Walk, instants: range) -> Bits:
    """Each token's links in the plan at these instants."""
    count = reachability.indexed.broker_count
    states = np.array([walks[min(t, len(walks) - 1)] for t in instants])
    return np.stack([bit_matrix(states[:, m], count) for m in range(states.shape[1])])
