"""A plan as the walks of its tokens: where each token is after each number of steps.

For whoever changes a part of a plan: cut it at an instant, go on otherwise, read the shifts again.
"""

from __future__ import annotations

from functools import cached_property
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from pubweave.planning.indexed import IndexedProblem, NumberedShift, NumberedSteps, Pairs


class Tracks:
    """``links[t, m]`` is token m's link, two numbers in order, after t steps."""

    def __init__(self, indexed: IndexedProblem, links: npt.NDArray[np.int64]) -> None:
        self.links = links
        self.indexed = indexed

    @classmethod
    def of(cls, indexed: IndexedProblem, plan: NumberedSteps) -> Tracks:
        """The walks of a plan's tokens."""
        return cls(indexed, walks(indexed.tokens, plan))

    @property
    def steps(self) -> int:
        return len(self.links) - 1

    @cached_property
    def keys(self) -> npt.NDArray[np.int64]:
        """Each link as one number, low * brokers + high."""
        return link_keys(self.links, self.indexed.broker_count)

    def state(self, t: int) -> Pairs:
        """All links after t steps, the tokens' first."""
        state: Pairs = np.concatenate([self.links[t], self.indexed.kept])
        return state

    def followed_by(self, t: int, plan: NumberedSteps) -> Tracks:
        """These walks for t steps, then a plan that starts there."""
        rest = walks(self.links[t], plan)
        return Tracks(self.indexed, np.concatenate([self.links[:t], rest]))

    def reversed(self, indexed: IndexedProblem) -> Tracks:
        """The same walks from the target to the source, for the problem that asks for that."""
        return Tracks(indexed, self.links[::-1])

    def plan(self) -> NumberedSteps:
        """The shifts; steps without shifts are left out."""
        found: NumberedSteps = []
        for before, after in pairwise(self.links):
            moved = (before != after).any(axis=1)
            ends = zip(before[moved].tolist(), after[moved].tolist(), strict=True)
            found.append([_shift(old, new) for old, new in ends])
        return [step for step in found if step]

    def done_at(self) -> npt.NDArray[np.int64]:
        """For each goal link the step that brought it."""
        keys = self.keys
        moves = np.arange(1, self.steps + 1)[:, None] * (keys[1:] != keys[:-1])
        last = moves.max(axis=0, initial=0)
        goals = link_keys(self.indexed.goals, self.indexed.broker_count)
        done: npt.NDArray[np.int64] = last[np.argsort(keys[-1])][np.argsort(np.argsort(goals))]
        return done


def link_keys(links: Pairs, count: int) -> npt.NDArray[np.int64]:
    """One number for each link, of which the lower end comes first."""
    keys: npt.NDArray[np.int64] = links[..., 0] * count + links[..., 1]
    return keys


def walks(tokens: Pairs, plan: NumberedSteps) -> npt.NDArray[np.int64]:
    """Each token's link at each instant of a plan that starts with these."""
    links = [(a, b) if a < b else (b, a) for a, b in tokens.tolist()]
    token = {link: m for m, link in enumerate(links)}
    found = np.empty((len(plan) + 1, len(links), 2), dtype=np.int64)
    found[0] = np.array(links, dtype=np.int64).reshape(-1, 2)
    for t, step in enumerate(plan, 1):
        # No link is added in a step that is there before it, so the order does not matter.
        for i, j, k in step:
            m = token.pop((i, j) if i < j else (j, i))
            link = (i, k) if i < k else (k, i)
            token[link] = m
            links[m] = link
        found[t] = links
    return found


def _shift(old: list[int], new: list[int]) -> NumberedShift:
    mover = old[0] if old[0] in new else old[1]
    return mover, sum(old) - mover, sum(new) - mover
