"""The fast planner: a parallel greedy, run again and again with what the last run taught.

One run takes about a millisecond for a thousand brokers (see `greedy/_kernels`). Whole runs have a
deadline one or a few steps below the best plan, raise the priority of the goal links that came last
in the run before, and add noise. Between them, runs start at some instant of the plan at hand
(`Tracks`) with more weight on the goal links that come late in it. Both go from the source to the
target or back, which is a plan too when read backwards: what holds a plan up may lie at its end,
where few tokens are left to move, or at its beginning, where few are free to.

A plan found is valid for every option of the problem except ``allow_move`` and ``action_cost``, of
which it knows nothing. It never proves anything.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count, pairwise

import numpy as np
import numpy.typing as npt

from pubweave.planning.greedy._kernels import greedy_plan
from pubweave.planning.problem.indexed import (
    IndexedProblem,
    NumberedShift,
    NumberedSteps,
    Pairs,
    link_keys,
    walks,
)
from pubweave.planning.problem.problem import Stop

_HASTES = (2.0, 5.0, 10.0, 20.0, 50.0, 100.0)
_FALLS = (1.3, 1.5, 2.0, 3.0)
_HOPES = (0.0, 0.5, 1.0, 1.5)
_NOISES = (0.0, 0.1, 0.3)
_NOISE_LENGTH = 1021
_RESTART_HASTES = (1.0, 2.0, 5.0, 20.0)
_RESTART_FALLS = (1.1, 1.3, 1.5)
_RESTART_NOISES = (0.1, 0.3, 0.6)
_FAVORS = (1.0, 2.0, 5.0)
# A restart may make the plan at hand a little worse, so that it goes on from another one.
_WORSE = 1.15
# One run in so many makes a whole plan, the others restart within the plan at hand.
_TURNS = 5
# A way that failed so often in a row is left alone, but for every so manyth turn.
_MISSES_MAX = 8
_SECOND_CHANCE = 16
_FIRST_TRIES = 64
_ACTIONS_PER_TOKEN_MAX = 100


@dataclass
class _Way:
    """One direction of travel: the problem as seen on it, and priorities learnt so far."""

    indexed: IndexedProblem
    links: Pairs
    forbidden: npt.NDArray[np.int64]
    backwards: bool
    priority: npt.NDArray[np.float64]
    misses: int = 0

    def turned(self, tracks: Tracks, indexed: IndexedProblem) -> Tracks:
        """Walks of the problem as walks on this way, or these again as walks of the problem."""
        return tracks.reversed(indexed) if self.backwards else tracks

    def plan(self, rows: Pairs, steps: int) -> NumberedSteps:
        """What was found on this way, as steps of the problem."""
        if not self.backwards:
            return _steps(rows, steps)
        # Undone, the link (i, k) becomes (i, j) again along the same pivot.
        return _steps(rows[:, [0, 1, 3, 2]], steps)[::-1]


def _steps(rows: Pairs, steps: int) -> NumberedSteps:
    """Rows (step, i, j, k), in the order of their steps, as steps of shifts."""
    shifts = rows[:, 1:].tolist()
    cuts = np.searchsorted(rows[:, 0], np.arange(steps + 1)).tolist()
    return [[(i, j, k) for i, j, k in shifts[a:b]] for a, b in pairwise(cuts)]


def _lateness(done_at: npt.NDArray[np.int64]) -> float:
    """How many goal links come in the last step, in which half of those a step before count."""
    return float((2.0 ** (done_at - done_at.max(initial=0))).sum())


def _size(plan: NumberedSteps) -> tuple[int, int]:
    return len(plan), sum(len(step) for step in plan)


def _without_pauses(plan: NumberedSteps) -> NumberedSteps:
    return [step for step in plan if step]


class Greedy:
    """Valid plans for one problem, better and better."""

    def __init__(self, indexed: IndexedProblem, rng: np.random.Generator) -> None:
        self._count = indexed.broker_count
        self._tokens = indexed.token_count
        self._rng = rng
        self._indexed = indexed
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
        steps, actions, _ = self._run(self._ways[0], self._tokens * 40, 12, (5.0, 1.5, 0.0), flat)
        if steps >= 0:
            return self._ways[0].plan(self._room[:actions], steps)
        for number in range(_FIRST_TRIES):
            way = self._ways[number % len(self._ways)]
            noise = self._noise(0.5)
            steps, actions, _ = self._run(way, self._tokens * 40, 12, (5.0, 1.5, 0.0), noise)
            if steps >= 0:
                return way.plan(self._room[:actions], steps)
        return None

    def improve(
        self, best: NumberedSteps, stop: Stop, at_least: int = 0
    ) -> Iterator[NumberedSteps]:
        """Each plan better than all before (steps, then actions), until stopped.

        Ends by itself only when a plan has ``at_least`` steps."""
        record = _size(best)
        course = Tracks.of(self._indexed, best)
        for turn in count():
            if stop() or record[0] <= at_least:
                return
            is_whole = turn % _TURNS == 0
            if is_whole:
                found = self._whole(turn // _TURNS, record)
            else:
                found = self._restarted(course, self._ways[turn % len(self._ways)])
            if found is None:
                continue
            if not is_whole or _size(found) < record:
                course = Tracks.of(self._indexed, found)
            if _size(found) < record:
                record = _size(found)
                yield found

    def _whole(self, turn: int, record: tuple[int, int]) -> NumberedSteps | None:
        """A plan made anew, if it is better than the record."""
        way = self._ways[turn % len(self._ways)]
        if way.misses > _MISSES_MAX and turn % _SECOND_CHANCE > 1:
            way = self._ways[0]
        deadline = max(1, record[0] - 1 - int(self._rng.integers(0, 3)))
        haste = self._haste(_HASTES, _FALLS)
        noise = self._noise(float(self._rng.choice(_NOISES)))
        steps, actions, done_at = self._run(way, record[0] + 2, deadline, haste, noise)
        late = done_at < 0 if steps < 0 else done_at >= steps - 1
        way.priority[:] = np.where(late, way.priority * 1.3, way.priority) ** 0.95
        way.misses = way.misses + 1 if steps < 0 else 0
        if steps < 0 or (steps, actions) >= record:
            return None
        return _without_pauses(way.plan(self._room[:actions], steps))

    def _restarted(self, course: Tracks, way: _Way) -> NumberedSteps | None:
        """The course up to some instant and another way on, if it is hardly worse or better."""
        rng, tracks = self._rng, way.turned(course, way.indexed)
        start = int(rng.integers(0, max(1, tracks.steps - 2)))
        done_before = tracks.done_at()
        late = done_before >= tracks.steps - int(rng.integers(0, 4))
        chosen = late & (rng.random(len(late)) < rng.choice((0.3, 1.0)))
        favored = np.where(chosen, rng.choice(_FAVORS), 1.0)
        most = tracks.steps - start
        deadline = max(1, most - 1 - int(rng.integers(0, 3)))
        haste = self._haste(_RESTART_HASTES, _RESTART_FALLS)
        noise = self._noise(float(rng.choice(_RESTART_NOISES)))
        there = replace(way, links=tracks.state(start), priority=favored)
        steps, actions, done_at = self._run(there, most, deadline, haste, noise)
        if steps < 0:
            return None
        done_at = np.where(done_at == 0, np.minimum(done_before, start), done_at + start)
        is_shorter = start + steps < tracks.steps
        if not is_shorter and _lateness(done_at) > _WORSE * _lateness(done_before):
            return None
        rest = _steps(self._room[:actions], steps)
        return way.turned(tracks.followed_by(start, rest), self._indexed).plan()

    def _haste(
        self, hastes: tuple[float, ...], falls: tuple[float, ...]
    ) -> tuple[float, float, float]:
        rng = self._rng
        return float(rng.choice(hastes)), float(rng.choice(falls)), float(rng.choice(_HOPES))

    def _run(
        self,
        way: _Way,
        most: int,
        deadline: int,
        haste: tuple[float, float, float],
        noise: npt.NDArray[np.float64],
    ) -> tuple[int, int, npt.NDArray[np.int64]]:
        limits = np.array([most, self._max_degree, self._disjoint], dtype=np.int64)
        steps, actions, done_at = greedy_plan(
            way.links,
            way.indexed.goals,
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
        if backwards:
            # Read backwards, a goal link is left for good when it is first left: none may return.
            forbidden = np.concatenate([indexed.forbidden, indexed.goals])
            indexed = replace(
                indexed, tokens=indexed.goals, goals=indexed.tokens, forbidden=forbidden
            )
        keys = np.sort(indexed.forbidden[:, 0] * self._count + indexed.forbidden[:, 1])
        links = np.concatenate([indexed.tokens, indexed.kept])
        return _Way(indexed, links, keys, backwards, np.ones(self._tokens))


# A plan as the walks of its tokens: where each token is after each number of steps.
#
# For whoever changes a part of a plan: cut it at an instant, go on otherwise, read the shifts
# again.


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


def _shift(old: list[int], new: list[int]) -> NumberedShift:
    mover = old[0] if old[0] in new else old[1]
    return mover, sum(old) - mover, sum(new) - mover
