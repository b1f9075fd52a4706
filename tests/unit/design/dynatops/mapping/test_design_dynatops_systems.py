"""Comparison systems against their definitions: routes, trees, delays, links, decisions."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubweave.design.dynatops.mapping.best import best_mapping
from pubweave.design.dynatops.mapping.problem import event_overhead, mapping_cost
from pubweave.design.dynatops.mapping.reconfigure import (
    decide,
    protocol_messages,
    reconfiguration_cost,
)
from pubweave.design.dynatops.mapping.ring import key_of
from pubweave.design.dynatops.mapping.routed_overlay import Publications, RingRoutes, RoutedOverlay
from pubweave.design.dynatops.rivals import (
    ConnectedBrokers,
    Places,
    RepairPolicy,
    area_clusters,
    hierarchy_overlay,
    leaf_places,
    prefix_overlay,
    round_trips,
    subscriptions_of,
    surrogate,
)
from pubweave.design.tco.verify import verify
from pubweave.design.tree.traffic import DesignError
from tests.dynatops_problems import problems
from tests.naive import dynatops_systems as naive

SEEDS = st.integers(0, 10_000)


def route_of(overlay: RoutedOverlay, a: int, b: int) -> list[int]:
    way = [b]
    while way[-1] != a:
        way.append(int(overlay.parents[a, way[-1]]))
    return way[::-1]


@settings(deadline=None, max_examples=20)
@given(problems())
def test_a_mapped_ring_costs_what_the_equations_say(given_problem: tuple) -> None:
    problem, mapping = given_problem
    overlay = RoutedOverlay.on_ring(RingRoutes.of(problem.ring), problem.roots, mapping)
    wanted = np.zeros((problem.broker_count, problem.wanted.topic_count), np.uint8)
    for broker in range(problem.broker_count):
        wanted[broker, problem.wanted.topics_of(broker)] = 1
    # As many publications as the problem has, at the rendezvous itself, and a user at each broker.
    counts = np.ceil(problem.publications).astype(int)
    topics = np.repeat(np.arange(problem.wanted.topic_count), counts)
    outcome = overlay.notify(
        wanted, wanted.astype(np.int32), Publications.of(overlay.roots[topics], topics)
    )
    exact = type(problem)(problem.wanted, counts.astype(float), problem.ring, problem.delay_weight)
    cost = mapping_cost(exact, mapping)
    assert outcome.relayed == cost.relay_overhead
    assert outcome.delay == outcome.tree_delay == cost.delay
    assert outcome.messages == event_overhead(exact, mapping)


@settings(deadline=None, max_examples=12)
@given(st.integers(2, 20), st.sampled_from([1, 4]), SEEDS)
def test_routes_by_prefix_make_a_digit_right_at_each_hop(count: int, bits: int, seed: int) -> None:
    names = [f"{seed}/{k}" for k in range(count)]
    rng = np.random.default_rng(seed)
    rtt = rng.random((count, count))
    overlay = prefix_overlay(names, ["x", "y"], digit_bits=bits, rtt=rtt, by_rtt=True)
    form = "032b" if bits == 1 else "08x"
    ids = [format(key_of(name), form) for name in names]
    table = {}
    for a in range(count):
        for prefix in {text[:k] for text in ids for k in range(1, len(text) + 1)}:
            fitting = [b for b in range(count) if ids[b].startswith(prefix)]
            table[a, prefix] = a if a in fitting else min(fitting, key=lambda b: rtt[a, b])
    for a in range(count):
        for b in range(count):
            way = naive.prefix_route(ids, table, a, b)
            assert route_of(overlay, a, b) == way
            assert overlay.hops[a, b] == len(way) - 1
            taken = sum(rtt[u, v] for u, v in itertools.pairwise(way))
            assert overlay.delays[a, b] == pytest.approx(taken)
    for place, topic in enumerate(("x", "y")):
        assert overlay.roots[place] == naive.surrogate(ids, format(key_of(topic), form))


def test_a_missing_digit_is_the_next_higher_one() -> None:
    digits = np.array([[0, 1], [2, 0], [2, 3]], np.int32)
    assert surrogate(digits, np.array([1, 0])) == 1
    assert surrogate(digits, np.array([3, 0])) == 0
    assert surrogate(digits, np.array([2, 1])) == 2
    with pytest.raises(DesignError, match="bits"):
        prefix_overlay(["a"], [], digit_bits=5)


@pytest.mark.parametrize("side", [1, 2, 4, 8])
def test_routes_by_squares_go_up_and_down_once(side: int) -> None:
    overlay = hierarchy_overlay(side, np.zeros(1, np.int64))
    for a in range(side * side):
        for b in range(side * side):
            expected = naive.square_route(side, lambda k, leaf: naive.head(side, k, leaf), a, b)
            assert route_of(overlay, a, b) == expected


@settings(deadline=None, max_examples=20)
@given(SEEDS)
def test_trees_are_unions_of_routes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    overlay = hierarchy_overlay(4, rng.integers(0, 16, 3))
    wanted = (rng.random((16, 3)) < 0.3).astype(np.uint8)
    outcome = overlay.notify(wanted, wanted.astype(np.int32), Publications.of(
        overlay.roots, np.arange(3)
    ))  # fmt: skip
    trees = [
        naive.tree(lambda a, b: route_of(overlay, a, b), int(root), np.flatnonzero(column).tolist())
        for root, column in zip(overlay.roots, wanted.T, strict=True)
    ]
    assert outcome.messages == sum(len(each) - 1 for each in trees)
    relays = [
        broker
        for topic, each in enumerate(trees)
        for broker in each
        if broker != overlay.roots[topic] and not wanted[broker, topic]
    ]
    assert outcome.relayed == len(relays)


def test_areas_are_as_large_as_asked_and_near() -> None:
    rng = np.random.default_rng(1)
    places = Places(40 + rng.random(95), -74 + rng.random(95))
    clusters, cluster_of = area_clusters(places, 10)
    sizes = np.diff(clusters.starts)
    assert sizes.sum() == 95
    assert sizes.min() >= 9
    assert sizes.max() <= 11
    distances = places.distances_km(places)
    same = cluster_of[:, None] == cluster_of
    assert distances[same].mean() < 0.5 * distances.mean()
    rtt = round_trips(distances, rng)
    assert ((rtt >= 0.5 * distances) & (rtt <= 1.5 * distances)).all()
    with pytest.raises(DesignError, match="power of two"):
        leaf_places(places, 3)


@pytest.mark.parametrize("upkeep", RepairPolicy)
def test_a_connected_overlay_stays_so_and_counts_its_links(upkeep: RepairPolicy) -> None:
    rng = np.random.default_rng(4)
    wanted = (rng.random((12, 8)) < 0.4).astype(np.uint8)
    brokers = ConnectedBrokers(wanted, upkeep)
    for _ in range(6):
        before = {tuple(sorted(pair)) for pair in brokers.links.tolist()}
        flips = rng.random(wanted.shape) < 0.1
        wanted = np.where(flips, 1 - wanted, wanted).astype(np.uint8)
        changed = brokers.follow(wanted)
        after = {tuple(sorted(pair)) for pair in brokers.links.tolist()}
        assert verify(subscriptions_of(wanted), brokers.links).is_connected
        assert changed >= len(before ^ after)
        if upkeep is RepairPolicy.REBUILT:
            assert changed == len(before ^ after)
    _check_spreading(brokers, wanted, after)


def _check_spreading(
    brokers: ConnectedBrokers, wanted: np.ndarray, links: set[tuple[int, int]]
) -> None:
    users = 2 * wanted.astype(np.int32)
    for topic in range(wanted.shape[1]):
        members = set(np.flatnonzero(wanted[:, topic]).tolist())
        for start in members:
            hops = naive.hops_within(links, members, start)
            one = Publications.of(np.array([start]), np.array([topic]))
            found = brokers.notify(users, one)
            assert found.messages == len(members) - 1
            assert found.delay == 2 * sum(hops.values())
            assert found.deliveries == 2 * len(members)
        outside = sorted(set(range(len(wanted))) - members)
        if outside and members:
            one = Publications.of(np.array(outside[:1]), np.array([topic]))
            assert brokers.notify(users, one).messages == len(members)


@settings(deadline=None, max_examples=20)
@given(problems())
def test_the_manager_acts_only_if_it_pays(given_problem: tuple) -> None:
    problem, mapping = given_problem
    routes = RingRoutes.of(problem.ring)
    for thorough in (False, True):
        decision = decide(problem, mapping, routes, thorough=thorough)
        changed = int((decision.mapping != mapping).sum())
        assert decision.changed == changed
        assert decision.has_changed == (decision.messages > 0)
        if decision.has_changed:
            cost = reconfiguration_cost(problem.broker_count, problem.wanted.topic_count, changed)
            before, after = (mapping_cost(problem, each) for each in (mapping, decision.mapping))
            assert before.notification_cost - after.notification_cost > cost
            assert decision.reconfiguration_cost == cost
    hops = routes.hops.astype(float)
    assert protocol_messages(problem, mapping, mapping, hops) == 0
    best = best_mapping(problem, mapping).path.last
    if (best != mapping).any():
        moved, count = int((best != mapping).sum()), problem.broker_count
        least = 6 * count + moved * (np.log2(count) ** 2 + 2)
        assert protocol_messages(problem, mapping, best, hops) >= least
