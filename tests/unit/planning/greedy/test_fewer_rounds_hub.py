"""Quiet steps around a broker that takes part in everything."""

from __future__ import annotations

import numpy as np
import pytest

from pubweave.model.topology import Topology
from pubweave.planning.check.validate import validate_plan
from pubweave.planning.greedy.fewer_rounds import quieter
from pubweave.planning.greedy.greedy import Greedy
from pubweave.planning.problem.indexed import indexed
from pubweave.planning.problem.problem import PlanningProblem


@pytest.mark.parametrize("count", [14, 18, 26])
def test_a_way_that_is_dearer_than_any_limit_stays_as_it_was(count: int) -> None:
    """From one star to another all shifts of a step share two brokers: beside a dozen others the
    company alone costs more than a shift, and no way is found within the limit."""
    brokers = [f"b{number}" for number in range(count)]
    one, other = brokers[:2]
    source = Topology.from_links((one, b) for b in brokers if b != one)
    target = Topology.from_links((other, b) for b in brokers if b != other)
    problem = PlanningProblem(source, target)
    numbered = indexed(problem)
    steps = Greedy(numbered, np.random.default_rng(0)).first()
    assert steps is not None
    found = quieter(numbered, steps, np.random.default_rng(0), lambda: False, tries_per_token=20)
    validate_plan(problem, numbered.plan(found))
    assert len(found) == len(steps)
