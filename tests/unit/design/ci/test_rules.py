"""The CI heuristic's arithmetic, against the paper's examples and its equations taken literally."""

from __future__ import annotations

import numpy as np
import pytest

from pubweave.design.ci.rules import (
    Heuristic,
    add_costs,
    choose_removal,
    link_weight,
    neighborhood_overlap,
    path_costs,
    removal_costs,
    removal_weights,
    triple_by_overlap,
    wants_lighter_link,
    wants_link,
)
from tests.naive import design as naive


def test_overlap_is_the_mean_of_what_others_share_beyond_the_own_number() -> None:
    assert neighborhood_overlap(10, [8, 6, 4]) == 4.0


def test_overlap_is_never_negative() -> None:
    assert neighborhood_overlap(100, [1, 2, 3]) == 0.0


@pytest.mark.parametrize("common", [[], [5.0]])
def test_overlap_needs_two_brokers(common: list[float]) -> None:
    assert neighborhood_overlap(10, common) is None


def test_a_triple_is_no_more_common_than_its_pairs_and_the_overlap() -> None:
    estimate = triple_by_overlap(5.0, [20.0, 7.0, 3.0])
    assert estimate(1, 2) == 3.0
    assert estimate(0, 1) == 5.0


def test_equation_5_decides_the_basic_case() -> None:
    """I_ij = 10, I_ikj = 4: the way over k costs 0.6 * (c_ik + p_k) + c_kj."""
    costs = path_costs([1.0, 3.0, 1.0], [2.0, 5.0], [0.0, 4.0, 10.0], lambda via, far: 4.0)
    assert costs == pytest.approx([0.0, 2.0, 0.6 * (2.0 + 3.0) + 5.0])
    assert wants_link(7.9, costs[2], 10.0)
    assert not wants_link(8.0, costs[2], 10.0)


def test_without_common_interest_no_link_is_wanted() -> None:
    assert not wants_link(0.0, 100.0, 0.0)


def test_a_member_without_common_interest_saves_nothing_on_the_way() -> None:
    costs = path_costs([1.0] * 4, [2.0] * 3, [9.0, 0.0, 0.0, 5.0], lambda via, far: 0.0)
    assert costs == pytest.approx([0.0, 2.0, 5.0, 8.0])


@pytest.mark.parametrize("seed", range(20))
def test_removal_costs_are_equation_8_for_every_link(seed: int) -> None:
    rng = np.random.default_rng(seed)
    size = int(rng.integers(3, 8))
    member = int(rng.integers(size))
    processing = rng.uniform(0, 10, size).tolist()
    link_costs = rng.uniform(0, 10, size).tolist()
    common = rng.integers(0, 6, size).astype(float).tolist()
    triple = triple_by_overlap(float(rng.uniform(0, 4)), common)
    expected = [
        naive.removal_cost(member, removed, processing, link_costs, common, triple)
        for removed in range(size)
    ]
    assert removal_costs(member, processing, link_costs, common, triple) == pytest.approx(expected)


def test_the_link_goes_whose_removal_costs_the_ring_least() -> None:
    total = add_costs([[5.0, 1.0, 4.0], [5.0, 2.0, 4.0]])
    assert total == [10.0, 3.0, 8.0]
    assert choose_removal(total) == 1


def test_nothing_changes_without_a_strict_gain() -> None:
    assert choose_removal([3.0, 3.0, 3.0]) is None
    assert choose_removal([3.0, 3.0 - 1e-15, 3.0]) is None
    assert choose_removal([4.0, 5.0, 3.0]) is None


def test_of_equal_links_the_first_along_the_ring_goes() -> None:
    assert choose_removal([2.0, 1.0, 1.0, 3.0]) == 1


def test_a_least_gain_damps_small_improvements() -> None:
    assert choose_removal([95.0, 96.0, 100.0], least_gain=0.05) is None
    assert choose_removal([94.0, 96.0, 100.0], least_gain=0.05) == 0


def removed(heuristic: Heuristic, prices: list[float], common: list[float]) -> int | None:
    """What the members of a ring decide together, each knowing its own ring link."""
    size = len(prices)
    weights = [link_weight(heuristic, prices[m], common[m]) for m in range(size)]
    return choose_removal(add_costs(removal_weights(m, weights[m], size) for m in range(size)))


def test_lmst_drops_the_dearest_link_if_the_new_one_is_cheaper() -> None:
    assert removed(Heuristic.MST, [2.0, 7.0, 3.0, 6.0], [0.0] * 4) == 1
    assert removed(Heuristic.MST, [2.0, 7.0, 3.0, 7.0], [0.0] * 4) is None
    assert removed(Heuristic.MST, [2.0, 7.0, 3.0, 8.0], [0.0] * 4) is None


def test_lmit_drops_the_link_of_least_common_interest_if_the_new_one_shares_more() -> None:
    assert removed(Heuristic.MIT, [0.0] * 4, [5.0, 1.0, 3.0, 2.0]) == 1
    assert removed(Heuristic.MIT, [0.0] * 4, [5.0, 1.0, 3.0, 1.0]) is None
    assert removed(Heuristic.MIT, [0.0] * 4, [5.0, 2.0, 3.0, 0.0]) is None


def test_a_lighter_link_is_asked_for_if_it_could_replace_one_of_the_path() -> None:
    assert wants_lighter_link(3.0, [1.0, 4.0])
    assert not wants_lighter_link(4.0, [1.0, 4.0])
