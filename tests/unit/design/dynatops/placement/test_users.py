"""User placement against its definition, its bound on loads, and the changes it counts."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubweave.design.dynatops.placement import Clusters, PlacementRule, UserPlacement
from pubweave.design.tree.traffic import DesignError
from pubweave.generate.workloads.dynatops import Pattern, drawn_topics
from tests.naive import dynatops as naive


@settings(deadline=None, max_examples=150)
@given(
    st.integers(1, 7), st.integers(1, 4), st.sampled_from([0.0, 0.5, 1.0, 4.0]), st.integers(0, 99)
)
def test_users_join_the_broker_of_the_highest_utility(
    brokers: int, size: int, weight: float, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    topics = drawn_topics(40, 9, Pattern.UNIFORM, rng, each=4)
    clusters = Clusters.of(brokers, size)
    cluster_of = np.arange(40) % clusters.count
    placed = UserPlacement.joined(topics, cluster_of, clusters, 9, PlacementRule(weight))
    groups = [
        clusters.members[a:b].tolist()
        for a, b in zip(clusters.starts[:-1], clusters.starts[1:], strict=True)
    ]
    users = [set(row.tolist()) for row in topics]
    assert placed.broker_of.tolist() == naive.place_users(users, brokers, weight, groups)


@pytest.mark.parametrize("pattern", Pattern)
@pytest.mark.parametrize("weight", [20.0, 100.0])
def test_loads_stay_within_the_weight_of_each_other(pattern: Pattern, weight: float) -> None:
    topics = drawn_topics(4_000, 200, pattern, np.random.default_rng(1))
    everyone = np.zeros(len(topics), np.int64)
    placed = UserPlacement.joined(topics, everyone, Clusters.of(20, 20), 200, PlacementRule(weight))
    loads = placed.loads
    assert loads.sum() == pytest.approx(1.0)
    assert loads.max() - loads.min() <= 1 / weight + topics.shape[1] / topics.size


@settings(deadline=None, max_examples=40)
@given(st.sampled_from([-1.0, 0.0, 3.0]), st.integers(0, 99))
def test_changes_of_brokers_topics_are_counted_as_they_happen(weight: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    topics = drawn_topics(30, 12, Pattern.UNIFORM, rng, each=3)
    if weight < 0:
        placed = UserPlacement.static(topics, rng.integers(0, 4, 30), 4, 12)
    else:
        rule = PlacementRule(weight)
        placed = UserPlacement.joined(topics, np.arange(30) % 2, Clusters.of(4, 2), 12, rule)
    before, changes = placed.broker_of.copy(), 0
    for user in rng.permutation(30).tolist():
        wanted = [set(each.tolist()) for each in placed.wanted_topics()]
        new = drawn_topics(1, 12, Pattern.UNIFORM, rng, each=3)
        placed.change(np.array([user]), topics[[user]], new)
        topics[user] = new[0]
        now = [set(each.tolist()) for each in placed.wanted_topics()]
        changes += sum(len(a ^ b) for a, b in zip(wanted, now, strict=True))
        placed.tell()
    hosts = [set(topics[placed.broker_of == b].ravel().tolist()) for b in range(4)]
    assert [set(each.tolist()) for each in placed.wanted_topics()] == hosts
    assert placed.subscription_changes >= changes
    assert placed.hosting.load.tolist() == [
        int((placed.broker_of == b).sum()) * 3 for b in range(4)
    ]
    moved = int((placed.broker_of != before).sum())
    assert placed.handovers == moved
    if weight < 0:
        assert moved == 0


def test_a_user_who_keeps_its_topics_changes_nothing() -> None:
    topics = drawn_topics(50, 12, Pattern.UNIFORM, np.random.default_rng(2), each=3)
    placed = UserPlacement.static(topics, np.arange(50) % 5, 5, 12)
    placed.change(np.arange(50), topics, topics)
    assert (placed.subscription_changes, placed.handovers) == (0, 0)


def test_a_negative_weight_is_refused() -> None:
    with pytest.raises(DesignError, match="weight of load"):
        UserPlacement.joined(
            np.zeros((1, 1), np.int32), np.zeros(1, np.int64), Clusters.of(2, 2), 1,
            PlacementRule(-1.0),
        )  # fmt: skip


def test_a_careful_user_stays_where_it_is_the_last_to_want_its_topics() -> None:
    users = np.array([[0, 1, 2, 3], [4, 5, 6, 7], [0, 1, 2, 3]], np.int32)
    at = np.array([0, 1, 1], np.int64)
    old, new = users[[0]], np.array([[0, 1, 2, 4]], np.int32)
    for careful, expected in ((False, 1), (True, 0)):
        placed = UserPlacement.static(users, at, 2, 8, PlacementRule(0.0, 0.0, careful))
        placed.change(np.array([0]), old, new)
        # Broker 1 has all four topics, broker 0 three of them, which would end with the user.
        assert placed.broker_of[0] == expected


def test_a_broker_lingers_for_so_many_rounds() -> None:
    users = np.array([[0], [1]], np.int32)
    placed = UserPlacement.static(users, np.zeros(2, np.int64), 1, 3, PlacementRule(-1.0, linger=2))
    placed.change(np.array([0]), users[[0]], np.array([[2]], np.int32))
    assert placed.wanted_topics()[0].tolist() == [0, 1, 2]
    placed.end_round()
    assert placed.subscription_changes == 1
    placed.end_round()
    assert placed.wanted_topics()[0].tolist() == [1, 2]
    assert placed.subscription_changes == 2
    placed.change(np.array([0]), np.array([[2]], np.int32), np.array([[0]], np.int32))
    placed.change(np.array([0]), np.array([[0]], np.int32), np.array([[2]], np.int32))
    placed.end_round()
    placed.change(np.array([0]), np.array([[2]], np.int32), np.array([[0]], np.int32))
    # Topic 0 began once, and came back before it was given up.
    assert placed.subscription_changes == 3
    assert placed.take_changes().sum() == 3
    assert placed.take_changes().sum() == 0


def test_shorter_rows_are_filled_up() -> None:
    users = np.array([[0, 1, -1], [2, -1, -1]], np.int32)
    rule = PlacementRule(1.0)
    placed = UserPlacement.joined(users, np.zeros(2, np.int64), Clusters.of(2, 2), 3, rule)
    assert placed.hosting.load.tolist() == [2, 1]
    placed.host(np.array([1]), users[[1]], users[[0]], np.array([0]))
    assert placed.hosting.users[0].tolist() == [2, 2, 0]
    assert placed.hosting.load.tolist() == [4, 0]
