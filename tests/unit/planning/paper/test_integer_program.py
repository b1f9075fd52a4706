"""The paper's program: its size as Table I prints it, and rows that mean what the equations say."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from pubweave.generate.topologies.trees import chain
from pubweave.model.topology import Topology
from pubweave.planning.paper.algorithm_1 import ip_problem
from pubweave.planning.paper.integer_program import (
    ADD,
    MAINTAIN,
    PREADD,
    PREDEL,
    STATE_CHANGES,
    ActionSet,
    IpModel,
    IpProblem,
    build_model,
    model_size,
    pair_index,
)
from pubweave.planning.problem.problem import PlanningProblem

TABLE_1 = {
    # actions, variables, constraints as printed, and the T that the variables give away.
    ActionSet.NAIVE: (205_320, 1_355_820, 3_810_515, 6),
    ActionSet.ALL_PATHS: (35_904, 392_928, 919_799, 7),
    ActionSet.EACH_PATH: (1_860, 154_620, None, 7),
}
TABLE_1_SURPLUS = 60 * 59
"""The printed constraints are one row per proposition above Appendix A, in both rows."""


def tree(text: str) -> Topology:
    return Topology.from_links([(pair[0], pair[1]) for pair in text.split()])


def sixty(*regions: int) -> PlanningProblem:
    """60 brokers: chains of the given lengths hang on b60, each closed by a goal link."""
    links: list[tuple[str, str]] = []
    changed: list[tuple[str, str]] = []
    used = 0
    for length in regions:
        names = [f"b{used + place}" for place in range(length)]
        used += length
        way = list(pairwise(names))
        links += [("root", names[0]), *way]
        changed += [("root", names[0]), *way[1:], (names[0], names[-1])]
    rest = [("root", f"b{number}") for number in range(used, 59)]
    return PlanningProblem(Topology.from_links(links + rest), Topology.from_links(changed + rest))


@pytest.mark.parametrize(
    ("kind", "regions"),
    [
        (ActionSet.NAIVE, (34,)),
        # 34 brokers on paths, and 33 links of the target among them: what Table I implies.
        (ActionSet.ALL_PATHS, (34,)),
        # 1320 + 504 + 24 + 6 + 6 = 1,860 triples.
        (ActionSet.EACH_PATH, (12, 9, 4, 3, 3)),
    ],
)
def test_sizes_at_60_brokers_are_those_of_table_1(
    kind: ActionSet, regions: tuple[int, ...]
) -> None:
    actions, variables, constraints, steps = TABLE_1[kind]
    size = model_size(ip_problem(sixty(*regions), kind), steps)
    assert (size.actions, size.variables) == (actions, variables)
    assert size.variables == size.actions * steps + 5 * 60 * 59 * (steps + 1)
    if constraints is not None:
        assert size.constraints == constraints - TABLE_1_SURPLUS


@pytest.mark.parametrize("extras", [{}, {"max_degree": 3}, {"disjoint_brokers": True}])
@pytest.mark.parametrize("kind", list(ActionSet))
def test_the_counted_size_is_the_built_size(kind: ActionSet, extras: dict[str, int]) -> None:
    problem = PlanningProblem(tree("12 23 34 45"), tree("23 34 14 15"), **extras)  # type: ignore[arg-type]
    numbers = ip_problem(problem, kind)
    size = model_size(numbers, 3)
    model = build_model(numbers, 3)
    assert model.size == (size.constraints, size.variables)
    assert sum(model.row_counts.values()) == size.constraints


def test_pairs_are_numbered_without_gaps() -> None:
    n = 7
    numbers = [
        int(pair_index(np.array([b]), np.array([a]), n)[0])
        for a in range(n)
        for b in range(a + 1, n)
    ]
    assert numbers == list(range(n * (n - 1) // 2))


FIGURE_1 = ip_problem(PlanningProblem(tree("12 13 24"), tree("12 13 34")), ActionSet.NAIVE)
ROW_OF = {tuple(row): place for place, row in enumerate(FIGURE_1.actions.tolist())}


def assignment(steps: list[list[tuple[int, int, int]]]) -> np.ndarray:
    """All variables of a run of the given shifts, by simulating what the y variables mean."""
    actions, facts, pairs = len(FIGURE_1.actions), 12, 6
    values = np.zeros(actions * len(steps) + STATE_CHANGES * facts * (len(steps) + 1))

    def y(kind: int, fact: int, t: int) -> int:
        return actions * len(steps) + (t * STATE_CHANGES + kind) * facts + fact

    def pair(a: int, b: int) -> int:
        return int(pair_index(np.array([a]), np.array([b]), 4)[0])

    goal = {pair(*link) for link in FIGURE_1.target_links}
    state = {pair(*link) for link in FIGURE_1.source_links}
    state |= {pairs + link for link in state - goal}
    for fact in state:
        values[y(ADD, fact, 0)] = 1
    for t, step in enumerate(steps, 1):
        added: set[int] = set()
        deleted: set[int] = set()
        needed: set[int] = set()
        for i, j, k in step:
            values[actions * (t - 1) + ROW_OF[i, j, k]] = 1
            deleted |= {pair(i, j), pairs + pair(i, j)}
            needed.add(pair(j, k))
            added |= {pair(i, k)} | ({pairs + pair(i, k)} if pair(i, k) not in goal else set())
        for kind, facts_of_kind in (
            (ADD, added),
            (PREDEL, deleted),
            (PREADD, needed),
            (MAINTAIN, state - added - deleted - needed),
        ):
            for fact in facts_of_kind:
                values[y(kind, fact, t)] = 1
        state = (state - deleted) | added
    return values


def is_satisfied(model: IpModel, values: np.ndarray) -> bool:
    sums = np.add.reduceat(np.append(model.value * values[model.column], 0.0), model.row_start[:-1])
    sums[np.diff(model.row_start) == 0] = 0.0
    return bool(np.all(sums >= model.row_lower - 1e-9) and np.all(sums <= model.row_upper + 1e-9))


def test_the_papers_plan_satisfies_every_row() -> None:
    # shift(4, 2, 1), then shift(4, 1, 3), with brokers numbered from 0.
    values = assignment([[(3, 1, 0)], [(3, 0, 2)]])
    model = build_model(FIGURE_1, 2)
    assert is_satisfied(model, values)
    assert model.costs @ values == 2


@pytest.mark.parametrize(
    "steps",
    [
        [[(3, 1, 0)], []],  # the goal is not reached
        [[(3, 0, 2)], []],  # the removed link is not there
        [[(3, 1, 2)], []],  # the pivot is not there
        [[(3, 1, 0), (3, 0, 2)], []],  # a link is used in the step that adds it
        [[(2, 0, 1)], [(3, 1, 2)]],  # a link of the target is removed
    ],
)
def test_what_is_no_plan_breaks_a_row(steps: list[list[tuple[int, int, int]]]) -> None:
    assert not is_satisfied(build_model(FIGURE_1, 2), assignment(steps))


def test_an_empty_step_is_feasible_in_the_program() -> None:
    values = assignment([[(3, 1, 0)], [], [(3, 0, 2)]])
    assert is_satisfied(build_model(FIGURE_1, 3), values)


def test_costs_of_actions_are_the_objective() -> None:
    costs = tuple(float(place) for place in range(len(FIGURE_1.actions)))
    priced = IpProblem(4, FIGURE_1.source_links, FIGURE_1.target_links, FIGURE_1.actions, costs)
    values = assignment([[(3, 1, 0)], [(3, 0, 2)]])
    expected = ROW_OF[3, 1, 0] + ROW_OF[3, 0, 2]
    assert build_model(priced, 2).costs @ values == expected


def test_a_chain_of_three_has_six_propositions() -> None:
    source = chain(3)
    target = Topology.from_links([("b1", "b3"), ("b2", "b3")])
    problem = ip_problem(PlanningProblem(source, target), ActionSet.NAIVE)
    assert problem.proposition_count == 6
    assert model_size(problem, 1).variables == 6 + 5 * 6 * 2
