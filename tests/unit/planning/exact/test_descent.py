"""Plans of the descent are valid, each shorter than the one before, and never below the bound."""

from __future__ import annotations

import numpy as np

from pubweave.generate.topologies.trees import change_links, ipitt_topologies
from pubweave.planning.bounds.reachability import Reachability
from pubweave.planning.check.validate import validate_plan
from pubweave.planning.exact.search import Descent
from pubweave.planning.greedy.greedy import Greedy
from pubweave.planning.problem.indexed import NumberedSteps, indexed
from pubweave.planning.problem.problem import PlanningProblem


def thirty_brokers(name: str, **options: int) -> PlanningProblem:
    source = ipitt_topologies(30, 1)[name]
    target = change_links(source, 0.2, np.random.default_rng(2))
    return PlanningProblem(source, target, **options)


def descended(problem: PlanningProblem) -> tuple[int, int, list[NumberedSteps]]:
    """The bound, the steps of the plan it starts from, and the plans it finds."""
    numbered = indexed(problem)
    reachability = Reachability(numbered, apart=True)
    at_least = reachability.fewest_steps()
    first = Greedy(numbered, np.random.default_rng(0)).first()
    assert at_least is not None
    assert first is not None
    plans = list(Descent(reachability, np.random.default_rng(0)).run(first, at_least))
    for plan in plans:
        validate_plan(problem, numbered.plan(plan))
    return at_least, len(first), plans


def test_each_plan_is_valid_and_shorter_than_the_one_before() -> None:
    at_least, first, plans = descended(thirty_brokers("degree5-balanced-2"))
    lengths = [len(plan) for plan in plans]
    assert lengths
    assert all(later < earlier for earlier, later in zip([first, *lengths], lengths, strict=False))
    assert lengths[-1] >= at_least


def test_a_degree_limit_leaves_only_the_surroundings_of_the_known_plan() -> None:
    problem = thirty_brokers("degree5-unbalanced-1", max_degree=8)
    _, first, plans = descended(problem)
    assert all(len(plan) < first for plan in plans)


def test_the_same_seed_gives_the_same_plans() -> None:
    problem = thirty_brokers("degree5-balanced-2")
    assert descended(problem) == descended(problem)
