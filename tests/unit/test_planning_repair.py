"""Repairs: whatever a region's clauses allow is a plan, and a mended token is late no more."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pubweave.generate.mutation import change_links
from pubweave.generate.trees import ipitt_topologies
from pubweave.planning.greedy import Greedy
from pubweave.planning.indexed import IndexedProblem, NumberedSteps, indexed
from pubweave.planning.problem import PlanningProblem
from pubweave.planning.repair import Repair
from pubweave.planning.stop import never
from pubweave.planning.tracks import Tracks
from pubweave.planning.validate import validate_plan
from tests.naive.planning_instances import small_problem


def planned(problem: PlanningProblem) -> tuple[IndexedProblem, NumberedSteps]:
    numbered = indexed(problem)
    steps = Greedy(numbered, np.random.default_rng(0)).first()
    if steps is None:
        pytest.skip("the options leave the greedy no plan")
    return numbered, [step for step in steps if step]


def hundred(seed: int) -> PlanningProblem:
    source = ipitt_topologies(100, seed)["degree6-balanced-1"]
    return PlanningProblem(source, change_links(source, 0.2, np.random.default_rng(seed)))


@pytest.mark.parametrize("seed", range(4))
def test_a_mended_plan_is_valid_and_ends_no_later(seed: int) -> None:
    problem = hundred(seed)
    numbered, plan = planned(problem)
    mended = Repair(numbered, np.random.default_rng(seed)).mended(plan, never)
    validate_plan(problem, numbered.plan(mended))
    late, before = (len(Tracks.of(numbered, steps).late) for steps in (mended, plan))
    assert (len(mended), late) <= (len(plan), before)


def test_some_plans_lose_a_step() -> None:
    saved = 0
    for seed in range(4):
        numbered, plan = planned(hundred(seed))
        saved += len(plan) - len(Repair(numbered, np.random.default_rng(seed)).mended(plan, never))
    assert saved > 0


@pytest.mark.parametrize("number", range(60))
def test_an_attempt_mends_its_token_and_makes_no_other_late(number: int) -> None:
    problem = replace(small_problem(number, 14), max_degree=None, disjoint_brokers=False)
    numbered, plan = planned(problem)
    if len(plan) < 2:
        pytest.skip("too short a plan to end sooner")
    tracks = Tracks.of(numbered, plan)
    goals = {int(tracks.keys[-1, token]) for token in tracks.late}
    token = int(tracks.late[0])
    for size in (1, 3, 20):
        better = Repair(numbered, np.random.default_rng(number)).attempt(tracks, token, size)
        if better is None:
            continue
        validate_plan(problem, numbered.plan(better.plan()))
        left = set()
        if better.steps == tracks.steps:
            left = {int(better.keys[-1, other]) for other in better.late}
        assert left <= goals - {int(tracks.keys[-1, token])}


def test_the_same_seed_mends_alike() -> None:
    numbered, plan = planned(hundred(1))
    one, other = (Repair(numbered, np.random.default_rng(3)).mended(plan, never) for _ in range(2))
    assert one == other


def test_a_stop_leaves_the_plan_as_it_is() -> None:
    numbered, plan = planned(hundred(1))
    left = Repair(numbered, np.random.default_rng(3)).mended(plan, lambda: True)
    assert [sorted(step) for step in left] == [sorted(step) for step in plan]


def test_options_it_does_not_know_are_told() -> None:
    problem = hundred(1)
    assert Repair.knows(indexed(problem))
    assert not Repair.knows(indexed(replace(problem, disjoint_brokers=True)))
    assert not Repair.knows(indexed(replace(problem, max_degree=20)))
