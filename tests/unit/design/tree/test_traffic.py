"""Traffic: equal sets are one row, whatever order and however often they come."""

from __future__ import annotations

import numpy as np
import pytest

from pubweave.design.tree.traffic import DesignError, Traffic
from tests.naive.traffic import groups_of


def test_equal_sets_are_merged_and_members_are_sorted() -> None:
    traffic = Traffic.of(["b10", "b2", "b1"], [(["b10", "b2"], 1.0), (["b2", "b10"], 2.0)])
    assert traffic.brokers == ("b1", "b2", "b10")
    assert groups_of(traffic) == [(("b2", "b10"), 3.0)]


def test_sets_keep_the_order_of_their_first_appearance() -> None:
    traffic = Traffic.of("abc", [("cb", 1.0), ("a", 1.0), ("bc", 1.0), ("abc", 4.0)])
    assert groups_of(traffic) == [(("b", "c"), 2.0), (("a",), 1.0), (("a", "b", "c"), 4.0)]


def test_weightless_sets_are_dropped() -> None:
    assert Traffic.of("ab", [("ab", 0.0)]).set_count == 0
    assert Traffic.of("ab", []).set_count == 0


def test_deliveries_do_not_count_the_publisher() -> None:
    assert Traffic.of("abc", [("abc", 2.0), ("a", 5.0)]).deliveries == 4.0


def test_an_unknown_broker_is_named() -> None:
    with pytest.raises(DesignError, match="'z'"):
        Traffic.of("ab", [("az", 1.0)])


def test_merging_many_sets_is_what_a_dictionary_does() -> None:
    rng = np.random.default_rng(4)
    names = [f"b{number}" for number in range(1, 9)]
    listed = []
    expected: dict[tuple[str, ...], float] = {}
    for _ in range(500):
        members = sorted(rng.choice(names, size=int(rng.integers(1, 5)), replace=False).tolist())
        listed.append((members, 1.0))
        expected[tuple(members)] = expected.get(tuple(members), 0.0) + 1.0
    assert dict(groups_of(Traffic.of(names, listed))) == expected


def test_sets_by_broker_are_all_sets_that_have_it() -> None:
    traffic = Traffic.of("abc", [("ab", 1.0), ("bc", 1.0), ("b", 1.0)])
    first, sets = traffic.by_broker
    assert [sets[first[b] : first[b + 1]].tolist() for b in range(3)] == [[0], [0, 1, 2], [1]]
