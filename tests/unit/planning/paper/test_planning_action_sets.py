"""The three action sets of IPITT IV-B."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from pubweave.generate.topologies.trees import change_links, random_tree
from pubweave.model.topology import Topology
from pubweave.planning.paper.integer_program import (
    ActionSet,
    generate_actions,
    transformation_paths,
)


def tree(text: str) -> Topology:
    return Topology.from_links([(pair[0], pair[1]) for pair in text.split()])


# Two regions: 1-3 becomes 4-7 ... in the manner of the paper's Figure 3.
SOURCE = tree("12 23 34 45 56 67")
TARGET = tree("13 23 34 45 56 57")


def triples(kind: ActionSet) -> list[tuple[int, ...]]:
    return [tuple(row) for row in generate_actions(kind, SOURCE, TARGET).tolist()]


def test_a_transformation_path_joins_the_ends_of_a_goal_link_in_the_source() -> None:
    paths = transformation_paths(SOURCE, TARGET)
    assert list(paths.values()) == [("1", "2", "3"), ("5", "6", "7")]


def test_naive_has_every_ordered_triple_once() -> None:
    assert triples(ActionSet.NAIVE) == list(permutations(range(7), 3))


def test_all_paths_permutes_the_brokers_of_all_paths_together() -> None:
    assert triples(ActionSet.ALL_PATHS) == list(permutations([0, 1, 2, 4, 5, 6], 3))


def test_each_path_permutes_each_path_alone() -> None:
    expected = [*permutations([0, 1, 2], 3), *permutations([4, 5, 6], 3)]
    assert triples(ActionSet.EACH_PATH) == expected


def test_a_triple_on_two_paths_comes_once() -> None:
    found = generate_actions(ActionSet.EACH_PATH, tree("12 23 34 45"), tree("23 34 14 15")).tolist()
    assert len(found) == len({tuple(row) for row in found}) == 60


def test_without_a_change_the_path_sets_are_empty() -> None:
    for kind in (ActionSet.ALL_PATHS, ActionSet.EACH_PATH):
        assert generate_actions(kind, SOURCE, SOURCE).shape == (0, 3)


@pytest.mark.parametrize("seed", range(10))
def test_each_set_is_part_of_the_next(seed: int) -> None:
    rng = np.random.default_rng(seed)
    source = random_tree(9, rng)
    target = change_links(source, 0.4, rng)
    sets = [
        {tuple(row) for row in generate_actions(kind, source, target).tolist()}
        for kind in (ActionSet.EACH_PATH, ActionSet.ALL_PATHS, ActionSet.NAIVE)
    ]
    assert sets[0] <= sets[1] <= sets[2]
    assert len(sets[2]) == 9 * 8 * 7
