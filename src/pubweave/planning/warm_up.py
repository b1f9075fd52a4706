"""Compiles every kernel that a plan needs into numba's cache on disk.

``python -m pubweave.planning.warm_up``, a step of ``make setup``: the first plan of a new
installation would otherwise compile for tens of seconds. It plans a small problem by each of our
methods with the code that plans every problem, so that each kernel is compiled for the very
types it is called with. The cache lies beside the sources, or in the user's cache directory where
that place is read-only; a kernel that changes is compiled again when it is next called.
"""

from __future__ import annotations

import sys
from itertools import pairwise

import numpy as np

from pubweave.model.topology import Topology
from pubweave.planning.bounds.reachability import Reachability
from pubweave.planning.bounds.token_positions import TokenPositions
from pubweave.planning.check.fast_validate import accepts
from pubweave.planning.exact.search import SearchDirection, search
from pubweave.planning.greedy.fewer_rounds import quieter_plan
from pubweave.planning.greedy.greedy import Greedy
from pubweave.planning.problem.indexed import indexed
from pubweave.planning.problem.problem import PlanningProblem, never

_BROKERS = 9
_STRIDE = 4
_ATTEMPTS = 20


def warm_up() -> None:
    """Plan a chain into a chain of another order: greedily, both bounds, and exactly."""
    names = [f"b{number}" for number in range(1, _BROKERS + 1)]
    source = Topology.from_links(list(pairwise(names)))
    # Prime to each other, so that every broker is met once; no plan for it is best at once.
    order = [names[_STRIDE * place % _BROKERS] for place in range(_BROKERS)]
    target = Topology.from_links(list(pairwise(order)))
    numbered = indexed(PlanningProblem(source, target))
    greedy = Greedy(numbered, np.random.default_rng(0))
    first = greedy.first()
    assert first is not None, "without options there is always a plan"
    left = iter(range(_ATTEMPTS))
    for _ in greedy.improve(first, lambda: next(left, None) is None):
        pass
    # The others get the first plan: one that cannot be bettered would leave them nothing to do.
    accepts(numbered.problem, numbered.plan(first))
    quieter_plan(numbered, numbered.plan(first), 0, never)
    Reachability(numbered, apart=False).fewest_steps()
    reach = Reachability(numbered, apart=True).within(len(first))
    assert reach is not None, "a plan of this many steps exists"
    TokenPositions.of(numbered, reach)  # of single tokens: what huge problems are left with
    for way in SearchDirection:
        search(numbered, 1, first, way, 0, lambda _: None)


def main() -> None:
    warm_up()
    sys.stdout.write("the planner's kernels are compiled\n")


if __name__ == "__main__":
    main()
