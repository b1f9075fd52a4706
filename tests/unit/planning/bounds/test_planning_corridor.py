"""The surroundings of a plan hold the plan, and grow to all that can be reached."""

from __future__ import annotations

import numpy as np
import pytest

from pubweave.planning.bounds.reachability import Reach, Reachability
from pubweave.planning.bounds.token_positions import corridor, token_walks
from pubweave.planning.greedy.greedy import Greedy
from pubweave.planning.problem.indexed import IndexedProblem, NumberedSteps, indexed
from tests.naive.planning_instances import small_problem


def planned(number: int) -> tuple[IndexedProblem, NumberedSteps, Reachability, Reach]:
    numbered = indexed(small_problem(number))
    plan = Greedy(numbered, np.random.default_rng(0)).first()
    if not plan or numbered.problem.max_degree is not None:
        pytest.skip("nothing to plan, or a limit that the greedy may miss")
    reachability = Reachability(numbered, apart=True)
    reach = reachability.within(len(plan))
    assert reach is not None
    return numbered, plan, reachability, reach


def size(reach: Reach) -> int:
    return sum(int(np.bitwise_count(bits).sum()) for bits in reach.alive)


@pytest.mark.parametrize("number", range(0, 60, 3))
def test_a_plan_lies_in_its_own_surroundings(number: int) -> None:
    numbered, plan, reachability, reach = planned(number)
    narrow = corridor(reachability, reach, plan, 0)
    assert narrow is not None
    front, back = token_walks(numbered, plan)
    for k, links in enumerate([*front[: narrow.meeting + 1], *back[narrow.meeting :]]):
        for m, (a, b) in enumerate(links):
            word = int(narrow.alive[k][m][a, b >> 6])
            assert word >> (b & 63) & 1


@pytest.mark.parametrize("number", range(0, 60, 6))
def test_surroundings_grow_with_the_radius_up_to_all_that_can_be_reached(number: int) -> None:
    _, plan, reachability, reach = planned(number)
    sizes = []
    for radius in (0, 1, 2, 20):
        narrow = corridor(reachability, reach, plan, radius)
        assert narrow is not None
        sizes.append(size(narrow))
    assert sizes == sorted(sizes)
    assert sizes[-1] <= size(reach)


@pytest.mark.parametrize("number", range(0, 60, 6))
def test_surroundings_grow_with_how_far_ahead_tokens_may_be(number: int) -> None:
    _, plan, reachability, reach = planned(number)
    sizes = []
    for ahead in (0, 1, 2):
        narrow = corridor(reachability, reach, plan, 1, ahead)
        assert narrow is not None
        sizes.append(size(narrow))
    assert sizes == sorted(sizes)
