"""A planning problem that contradicts itself is refused with the reason."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pubweave.model.ids import Link
from pubweave.model.topology import Topology
from pubweave.planning.problem.problem import PlanningError, PlanningProblem, validate_problem


def tree(text: str) -> Topology:
    return Topology.from_links([(pair[0], pair[1]) for pair in text.split()])


PROBLEM = PlanningProblem(tree("12 13 24"), tree("12 13 34"))


def test_a_sound_problem_is_let_through() -> None:
    validate_problem(PROBLEM)
    validate_problem(
        replace(
            PROBLEM,
            pinned=frozenset({Link("1", "2")}),
            # It is there now and must go: forbidden means that it may not come again.
            forbidden=frozenset({Link("2", "4")}),
            max_degree=2,
        )
    )


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"source": tree("12 13 23")}, "the source topology: not a tree"),
        ({"target": tree("12 34")}, "the target topology: not a tree"),
        ({"target": tree("56 67")}, "no broker in common"),
        ({"pinned": frozenset({Link("1", "9")})}, "pinned link 1-9 names the unknown broker '9'"),
        ({"forbidden": frozenset({Link("0", "1")})}, "forbidden link 0-1 names the unknown"),
        ({"pinned": frozenset({Link("2", "4")})}, "pinned link 2-4 is not in the target"),
        ({"pinned": frozenset({Link("3", "4")})}, "pinned link 3-4 is not in the source"),
        ({"forbidden": frozenset({Link("3", "4")})}, "forbidden link 3-4 is in the target"),
        ({"max_degree": 0}, "a degree limit of 0 leaves no links"),
        ({"max_degree": 1}, "broker '1' has 2 links in the target"),
    ],
)
def test_a_contradiction_is_named(wrong: dict[str, object], complaint: str) -> None:
    with pytest.raises(PlanningError) as caught:
        validate_problem(replace(PROBLEM, **wrong))  # type: ignore[arg-type]
    assert complaint in str(caught.value)
