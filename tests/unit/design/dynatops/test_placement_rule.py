"""Users where their topics last: the rule against its definition, loads, and what it spares."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubweave.design.dynatops import placement_rule as lasting
from pubweave.design.dynatops.placement import (
    Clusters,
    LastingPlacement,
    LastingRule,
    PlacementRule,
    UserPlacement,
)
from pubweave.design.tree.traffic import DesignError
from pubweave.generate.workloads.dynatops import Pattern, drawn_topics
from tests.naive import dynatops as naive

ROUNDING = 1e-9


def users_of(placed: LastingPlacement) -> list[dict[int, int]]:
    return [
        {topic: int(row[topic]) for topic in np.flatnonzero(row).tolist()}
        for row in placed.hosting.users
    ]


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 6), st.sampled_from([0.0, 1.0, 3.0]), st.integers(0, 999))
def test_users_join_where_fewest_topics_begin_and_are_at_risk(
    brokers: int, weight: float, seed: int
) -> None:
    topics = drawn_topics(15, 9, Pattern.UNIFORM, np.random.default_rng(seed), each=3)
    everyone = np.zeros(15, np.int64)
    rule, clusters = LastingRule(weight), Clusters.of(brokers, brokers)
    placed = LastingPlacement.joined(topics, everyone, clusters, 9, rule)
    hosts: list[dict[int, int]] = [{} for _ in range(brokers)]
    loads = [0] * brokers
    for row, b in zip(topics.tolist(), placed.broker_of.tolist(), strict=True):
        mean = sum(loads) / brokers
        costs = naive.lasting_costs(hosts, None, set(), set(row), loads, mean, weight)
        assert costs[b] <= min(costs) + ROUNDING
        for topic in row:
            hosts[b][topic] = hosts[b].get(topic, 0) + 1
        loads[b] += len(row)
    assert users_of(placed) == hosts


@settings(deadline=None, max_examples=60)
@given(
    st.integers(2, 5),
    st.sampled_from([0.0, 1.0, 3.0]),
    st.sampled_from([0.0, 0.25]),
    st.booleans(),
    st.integers(0, 999),
)
def test_users_move_where_least_is_expected_to_change(
    brokers: int, weight: float, gain: float, whole: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    topics = drawn_topics(12, 8, Pattern.UNIFORM, rng, each=3)
    everyone = np.zeros(12, np.int64)
    rule, clusters = LastingRule(weight, gain), Clusters.of(brokers, brokers)
    placed = LastingPlacement.joined(topics, everyone, clusters, 8, rule)
    for user in rng.permutation(12).tolist():
        new = drawn_topics(1, 8, Pattern.UNIFORM, rng, each=3)
        if not whole and new[0, 0] not in topics[user]:
            new = np.array([[new[0, 0], *topics[user, 1:]]], np.int32)
        old, was, hosts = topics[[user]].copy(), int(placed.broker_of[user]), users_of(placed)
        loads = placed.hosting.load.tolist()
        mean = sum(loads) / brokers
        loads[was] -= 3
        costs = naive.lasting_costs(
            hosts, was, set(old[0].tolist()), set(new[0].tolist()), loads, mean, weight
        )
        placed.change(np.array([user]), old, new)
        placed.tell()
        topics[user] = new[0]
        b, others = int(placed.broker_of[user]), [c for n, c in enumerate(costs) if n != was]
        if b == was:
            assert costs[was] <= min(others) + gain + ROUNDING
        else:
            assert costs[b] <= min(others) + ROUNDING
            assert costs[b] < costs[was] - gain + ROUNDING


@pytest.mark.parametrize("pattern", Pattern)
def test_few_topics_of_brokers_change_when_users_do(pattern: Pattern) -> None:
    rng = np.random.default_rng(4)
    topics = drawn_topics(10_000, 400, pattern, rng)
    everyone, clusters = np.zeros(len(topics), np.int64), Clusters.of(40, 40)
    static = UserPlacement.static(topics, rng.integers(0, 40, len(topics)), 40, 400)
    by_paper = UserPlacement.joined(topics, everyone, clusters, 400, PlacementRule(40.0))
    placed = LastingPlacement.joined(topics, everyone, clusters, 400, LastingRule())
    for _ in range(12):
        who = rng.choice(len(topics), 500, replace=False)
        old, new = topics[who].copy(), drawn_topics(500, 400, pattern, rng)
        topics[who] = new
        for each in (static, by_paper, placed):
            each.change(who, old, new)
            each.tell()
            each.end_round()
        loads = placed.loads * 40
        assert loads.max() < 1.5
    assert placed.subscription_changes < 0.35 * static.subscription_changes
    assert placed.subscription_changes <= by_paper.subscription_changes + 10
    assert placed.hosting.load.sum() == topics.size
    for b in range(40):
        counted = np.bincount(topics[placed.broker_of == b].ravel(), minlength=400)
        assert (placed.hosting.users[b] == counted).all()


def test_loads_after_joins_are_bounded_by_the_weight() -> None:
    topics = drawn_topics(3_000, 200, Pattern.MULTIMODAL, np.random.default_rng(1))
    everyone, clusters = np.zeros(len(topics), np.int64), Clusters.of(20, 20)
    for weight in (2.0, 8.0):
        placed = LastingPlacement.joined(topics, everyone, clusters, 200, LastingRule(weight))
        loads = placed.loads * 20
        assert loads.max() - loads.min() <= lasting.MOST_DIFFERENCE / weight + 5 * 20 / topics.size


def test_a_user_whose_cluster_is_another_one_now_goes_there() -> None:
    users = np.array([[0, 1], [2, 3]], np.int32)
    cluster_of = np.array([0, 1], np.int64)
    placed = LastingPlacement.joined(users, cluster_of, Clusters.of(2, 1), 4, LastingRule())
    cluster_of[0] = 1
    placed.change(np.array([0]), users[[0]], users[[0]])
    assert placed.broker_of.tolist() == [1, 1]
    assert placed.handovers == 1


def test_a_broker_lingers_here_too() -> None:
    users = np.array([[0], [1]], np.int32)
    everyone = np.zeros(2, np.int64)
    placed = LastingPlacement.joined(users, everyone, Clusters.of(1, 1), 3, LastingRule(linger=1))
    placed.change(np.array([0]), users[[0]], np.array([[2]], np.int32))
    placed.tell()
    assert placed.wanted_topics()[0].tolist() == [0, 1, 2]
    assert placed.seen.users[0].tolist() == [1, 1, 1]
    placed.end_round()
    assert placed.wanted_topics()[0].tolist() == [1, 2]


def test_a_negative_weight_or_gain_is_refused() -> None:
    row, one = np.zeros((1, 1), np.int32), np.zeros(1, np.int64)
    for rule in (LastingRule(load_weight=-1.0), LastingRule(least_gain=-0.1)):
        with pytest.raises(DesignError, match="least gain"):
            LastingPlacement.joined(row, one, Clusters.of(2, 2), 1, rule)


def test_one_tells_all_with_two_messages_each() -> None:
    clusters = Clusters.of(7, 3)
    assert clusters.pairs == 4 * 3 + 3 * 2
    assert clusters.round_trips == 2 * (3 + 2)
