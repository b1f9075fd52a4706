"""The fast planner: a parallel greedy, run again and again with what the last run taught.

One run takes about a millisecond for a thousand brokers (see `_kernels_greedy`). Each new run has
a deadline one or a few steps below the best plan, raises the priority of the goal links that came
last in the run before, and adds noise; every other run goes from the target to the source, which
is a plan too when read backwards. A plan found is valid for every option of the problem except
``allow_move`` and ``action_cost``, of which it knows nothing. It never proves anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pubweave.planning._kernels_greedy import greedy_plan
from pubweave.planning.indexed import IndexedProblem, NumberedSteps, Pairs
from pubweave.planning.stop import Stop

_HASTES = (2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
_FALLS = (1.3, 1.5, 2.0, 3.0)
_NOISES = (0.0, 0.1, 0.3)
_NOISE_LENGTH = 1021
_FIRST_TRIES = 64
_ACTIONS_PER_TOKEN_MAX = 100


@dataclass
class _Way:
    """One direction of travel: arrays for the kernel, and priorities learnt so far."""

    links: Pairs
    goals: Pairs
    forbidden: npt.NDArray[np.int64]
    backwards: bool
    priority: npt.NDArray[np.float64]

    def steps(self, rows: Pairs, count: int) -> NumberedSteps:
        found: NumberedSteps = [[] for _ in range(count)]
        for step, i, j, k in rows.tolist():
            if self.backwards:
                # Undone, the link (i, k) becomes (i, j) again along the same pivot.
                found[count - 1 - step].append((i, k, j))
            else:
                found[step].append((i, j, k))
        return found


class Greedy:
    """Valid plans for one problem, better and better."""

    def __init__(self, indexed: IndexedProblem, rng: np.random.Generator) -> None:
        self._count = indexed.broker_count
        self._tokens = indexed.token_count
        self._rng = rng
        self._room = np.empty((self._tokens * _ACTIONS_PER_TOKEN_MAX + 1, 4), dtype=np.int64)
        problem = indexed.problem
        self._max_degree = problem.max_degree or 0
        self._disjoint = int(problem.disjoint_brokers)
        self._ways = [self._way(indexed, backwards=False), self._way(indexed, backwards=True)]
        # Backwards, the limit would have to hold before each step: the source may lie above it.
        if problem.max_degree is not None:
            self._ways.pop()

    def first(self) -> NumberedSteps | None:
        """A plan at once, or None where the options leave the greedy no way."""
        if not self._tokens:
            return []
        flat = np.ones(1)
        steps, actions, _ = self._run(self._ways[0], self._tokens * 40, 12, (5.0, 1.5), flat)
        if steps >= 0:
            return self._ways[0].steps(self._room[:actions], steps)
        for number in range(_FIRST_TRIES):
            way = self._ways[number % len(self._ways)]
            noise = self._noise(0.5)
            steps, actions, _ = self._run(way, self._tokens * 40, 12, (5.0, 1.5), noise)
            if steps >= 0:
                return way.steps(self._room[:actions], steps)
        return None

    def improve(
        self, best: NumberedSteps, stop: Stop, at_least: int = 0
    ) -> Iterator[NumberedSteps]:
        """Each plan better than all before (steps, then actions), until stopped.

        Ends by itself only when a plan has ``at_least`` steps."""
        record = len(best), sum(len(step) for step in best)
        turn = 0
        while not stop() and record[0] > at_least:
            way = self._ways[turn % len(self._ways)]
            turn += 1
            deadline = max(1, record[0] - 1 - int(self._rng.integers(0, 3)))
            haste = float(self._rng.choice(_HASTES)), float(self._rng.choice(_FALLS))
            noise = self._noise(float(self._rng.choice(_NOISES)))
            steps, actions, done_at = self._run(way, record[0] + 2, deadline, haste, noise)
            if steps < 0:
                way.priority[:] = np.where(done_at < 0, way.priority * 1.3, way.priority) ** 0.95
                continue
            late = done_at >= steps - 1
            if (steps, actions) < record:
                record = steps, actions
                yield way.steps(self._room[:actions], steps)
            way.priority[:] = np.where(late, way.priority * 1.3, way.priority) ** 0.95

    def _run(
        self,
        way: _Way,
        most: int,
        deadline: int,
        haste: tuple[float, float],
        noise: npt.NDArray[np.float64],
    ) -> tuple[int, int, npt.NDArray[np.int64]]:
        limits = np.array([most, self._max_degree, self._disjoint], dtype=np.int64)
        steps, actions, done_at = greedy_plan(
            way.links,
            way.goals,
            self._count,
            way.priority,
            deadline,
            np.array(haste),
            noise,
            limits,
            way.forbidden,
            self._room,
        )
        return int(steps), int(actions), done_at

    def _noise(self, scale: float) -> npt.NDArray[np.float64]:
        noise: npt.NDArray[np.float64] = np.exp(scale * self._rng.standard_normal(_NOISE_LENGTH))
        return noise

    def _way(self, indexed: IndexedProblem, backwards: bool) -> _Way:
        start, end = indexed.tokens, indexed.goals
        forbidden = indexed.forbidden
        if backwards:
            start, end = end, start
            # Read backwards, a goal link is left for good when it is first left: none may return.
            forbidden = np.concatenate([forbidden, indexed.goals])
        keys = np.sort(forbidden[:, 0] * self._count + forbidden[:, 1])
        links = np.concatenate([start, indexed.kept])
        return _Way(links, end, keys, backwards, np.ones(self._tokens))
