"""A step less for a plan of about a thousand brokers: its late tokens are mended one by one.

Only a few goal links come in the last step of a plan that the greedy cannot make any shorter. For
one of them, the tokens around its path are freed (`region`) and a satisfiability solver looks for
walks on which it comes a step earlier while no other link that was on time gets late. When none is
late any more, the plan has a step less. Small regions are tried first: they take hundredths of a
second. The solver is given few conflicts and so needs no process of its own.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pubweave.planning._kernels_greedy import adjacency, root, walk
from pubweave.planning.indexed import IndexedProblem, NumberedSteps
from pubweave.planning.region import Region, Regions
from pubweave.planning.stop import Stop
from pubweave.planning.tracks import Tracks

# How many tokens are freed at the first, second, ... attempt for one late token.
_SIZES = (20, 40, 80, 120)
_CONFLICTS = 2000
_ON_THE_PATH = 10.0
_NOISE = 2.0
_SOLVER = "glucose4"


class Repair:
    """Mends plans of one problem."""

    def __init__(self, indexed: IndexedProblem, rng: np.random.Generator) -> None:
        self._indexed = indexed
        self._rng = rng
        self._regions = Regions(indexed)

    @staticmethod
    def knows(indexed: IndexedProblem) -> bool:
        """Whether it understands all options of the problem."""
        problem = indexed.problem
        return problem.max_degree is None and not problem.disjoint_brokers

    def mended(self, plan: NumberedSteps, stop: Stop) -> NumberedSteps:
        """The plan with a step less, or, where that fails, with fewer late tokens or as it was."""
        tracks = Tracks.of(self._indexed, plan)
        steps = tracks.steps
        fails = np.zeros(self._indexed.token_count, dtype=np.int64)
        while tracks.steps == steps and steps > 1 and not stop():
            late = self._rng.permutation(tracks.late)
            token = int(late[np.argmin(fails[late])])
            if fails[token] == len(_SIZES):
                break
            better = self.attempt(tracks, token, _SIZES[fails[token]])
            if better is None:
                fails[token] += 1
            else:
                tracks = better
        return tracks.plan()

    def attempt(self, tracks: Tracks, token: int, size: int) -> Tracks | None:
        """Walks on which the token is in time, with so many tokens free; None if none is found."""
        near = self._nearness(tracks, token) + _NOISE * self._rng.random(tracks.links.shape[1])
        near[token] = np.inf
        free = np.sort(np.argsort(-near, kind="stable")[:size])
        region = self._regions.around(tracks, free)
        return None if region is None else _solved(region, token)

    def _nearness(self, tracks: Tracks, token: int) -> npt.NDArray[np.float64]:
        """How often each token is on or at the path between the ends of the token's goal link."""
        count, tokens = self._indexed.broker_count, tracks.links.shape[1]
        start, to, by = (np.zeros(2 * count, dtype=np.int64) for _ in range(3))
        start = start[: count + 1]
        parent, over, depth, queue, way, rest = np.empty((6, count), dtype=np.int64)
        near = np.zeros(tokens)
        a, b = tracks.links[-1, token].tolist()
        for t in range(tracks.steps):
            links = tracks.state(t)
            adjacency(links, start, to, by)
            root(start, to, by, parent, over, depth, queue)
            path = way[: walk(a, b, parent, over, depth, way, rest)]
            is_there = np.zeros(count, dtype=np.bool_)
            is_there[links[path]] = True
            near += is_there[tracks.links[t]].any(axis=1)
            near[path[path < tokens]] += _ON_THE_PATH
        return near


def _solved(region: Region, token: int) -> Tracks | None:
    from pysat.solvers import Solver  # type: ignore[import-untyped]

    on_time = region.on_time(np.array([token]))
    if not all(on_time):
        return None
    with Solver(name=_SOLVER, bootstrap_with=region.clauses() + on_time) as solver:
        solver.set_phases(region.phases())
        solver.conf_budget(_CONFLICTS)
        return region.mended(solver.get_model()) if solver.solve_limited() else None
