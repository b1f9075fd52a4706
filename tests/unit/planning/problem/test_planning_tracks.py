"""Walks of tokens: a plan is read from them as it went in, and can be cut and gone on with."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from pubweave.planning.greedy.greedy import Greedy, Tracks
from pubweave.planning.problem.indexed import IndexedProblem, NumberedSteps, indexed
from tests.naive.planning_instances import small_problem


def planned(number: int) -> tuple[IndexedProblem, NumberedSteps]:
    numbered = indexed(small_problem(number, 12))
    steps = Greedy(numbered, np.random.default_rng(0)).first()
    if steps is None:
        pytest.skip("the options leave the greedy no plan")
    return numbered, [step for step in steps if step]


def links_after(numbered: IndexedProblem, plan: NumberedSteps, t: int) -> set[frozenset[int]]:
    """The obvious replay on a set of links."""
    there = {frozenset(link) for link in [*numbered.tokens.tolist(), *numbered.kept.tolist()]}
    for step in plan[:t]:
        for i, j, k in step:
            there.remove(frozenset((i, j)))
            there.add(frozenset((i, k)))
    return there


@pytest.mark.parametrize("number", range(40))
def test_a_plan_survives_becoming_walks(number: int) -> None:
    numbered, plan = planned(number)
    tracks = Tracks.of(numbered, plan)
    assert tracks.steps == len(plan)
    assert [sorted(step) for step in tracks.plan()] == [sorted(step) for step in plan]


@pytest.mark.parametrize("number", range(40))
def test_states_and_arrivals_are_those_of_the_replay(number: int) -> None:
    numbered, plan = planned(number)
    tracks = Tracks.of(numbered, plan)
    states = [links_after(numbered, plan, t) for t in range(len(plan) + 1)]
    for t, there in enumerate(states):
        assert {frozenset(link) for link in tracks.state(t).tolist()} == there
    for goal, step in zip(numbered.goals.tolist(), tracks.done_at().tolist(), strict=True):
        came = [t for t, (a, b) in enumerate(pairwise(states), 1) if frozenset(goal) in b - a]
        assert came == [step]


@pytest.mark.parametrize("number", range(20))
def test_a_plan_cut_and_followed_by_its_own_rest_is_itself(number: int) -> None:
    numbered, plan = planned(number)
    tracks = Tracks.of(numbered, plan)
    for t in range(len(plan) + 1):
        assert (tracks.followed_by(t, plan[t:]).links == tracks.links).all()
