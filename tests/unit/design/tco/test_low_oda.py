"""Low-ODA against the printed algorithm, link by link."""

from __future__ import annotations

import numpy as np
import pytest
from bench.bench_tco import matrix_low_oda
from hypothesis import example, given, settings
from hypothesis import strategies as st

from pubweave.design.tco.interests import Subscriptions
from pubweave.design.tco.low_oda import Mode, Start, build_overlay, construct, indexed
from pubweave.generate.workloads.churn_rounds import Popularity, random_subscriptions
from tests.naive import topic_connected as naive

MANY = 150
"""More topics than are added up by bits."""


def as_subscriptions(sets: list[set[int]]) -> Subscriptions:
    topics = 1 + max((topic for each in sets for topic in each), default=0)
    owners = [node for node, each in enumerate(sets) for _ in each]
    flat = [topic for each in sets for topic in sorted(each)]
    names = [f"n{node}" for node in range(len(sets))]
    return Subscriptions.from_pairs(
        names, [f"t{topic}" for topic in range(topics)], np.array(owners, int), np.array(flat, int)
    )


def pairs(links: np.ndarray) -> list[tuple[int, int]]:
    return [(int(a), int(b)) for a, b in links]


topic_sets = st.lists(st.sets(st.integers(0, 11), max_size=9), min_size=1, max_size=14)


@settings(max_examples=100, deadline=None)
@given(topic_sets, st.sampled_from([1.0, 2.0, 3.0, 5.5]))
@example([set(), {1}, set()], 3.0)
def test_every_link_is_the_printed_algorithms(sets: list[set[int]], rho: float) -> None:
    topics = dict(enumerate(sets))
    found = pairs(build_overlay(as_subscriptions(sets), rho=rho))
    assert found == naive.low_oda(topics, rho)
    assert naive.is_topic_connected(topics, found)


@settings(max_examples=50, deadline=None)
@given(topic_sets)
def test_the_rival_is_the_printed_algorithm(sets: list[set[int]]) -> None:
    """What the benchmarks and the larger tests here compare with."""
    found = [tuple(pair) for pair in matrix_low_oda(as_subscriptions(sets))]
    assert found == naive.low_oda(dict(enumerate(sets)))


@settings(max_examples=80, deadline=None)
@given(topic_sets)
def test_gm_always_takes_the_link_that_joins_most(sets: list[set[int]]) -> None:
    topics = dict(enumerate(sets))
    assert pairs(build_overlay(as_subscriptions(sets), Mode.GM)) == naive.low_oda(topics, None)


@pytest.mark.parametrize("popularity", list(Popularity))
def test_large_parts_have_the_same_links(popularity: Popularity) -> None:
    """140 nodes: rows of three words, and parts that have bit sets of their own."""
    wanted = random_subscriptions(140, 14, popularity, np.random.default_rng(5))
    assert build_overlay(wanted).tolist() == matrix_low_oda(wanted)


@pytest.mark.parametrize("size", [MANY, 40])
def test_rows_of_many_topics_are_counted(size: int) -> None:
    rng = np.random.default_rng(3)
    sets = [set(rng.choice(180, size=size, replace=False).tolist()) for _ in range(30)]
    wanted = as_subscriptions(sets)
    assert build_overlay(wanted).tolist() == matrix_low_oda(wanted)


@settings(max_examples=60, deadline=None)
@given(topic_sets, st.data())
def test_it_goes_on_from_an_overlay_that_is_there(
    sets: list[set[int]], data: st.DataObject
) -> None:
    topics = dict(enumerate(sets))
    every = naive.canonical_pairs(topics)
    current = data.draw(st.lists(st.sampled_from(every), unique=True)) if every else []
    order = sorted(topics, key=lambda node: (-len(topics[node]), node))
    rows = [sorted(topics[node]) for node in order]
    starts = np.cumsum([0, *map(len, rows)])
    flat = np.array([topic for row in rows for topic in row], np.int32)
    degrees = [sum(node in link for link in current) for node in order]
    start = Start(labels_of(order, topics, current, starts, flat), np.array(degrees), max(degrees))
    found = [(order[a], order[b]) for a, b in pairs(construct(starts, flat, 12, start=start))]
    rest = [pair for pair in every if pair not in current]
    assert found == naive.construct_low_edges(topics, current, rest)


def labels_of(order, topics, links, starts, flat):  # type: ignore[no-untyped-def]
    """For each place the first place of its component."""
    place_of = {
        (order[row], int(flat[place])): place
        for row in range(len(order))
        for place in range(starts[row], starts[row + 1])
    }
    labels = np.zeros(len(flat), np.int32)
    for (node, topic), place in place_of.items():
        nodes = [n for n in topics if topic in topics[n]]
        part = naive.components(nodes, links)
        labels[place] = place_of[part[node], topic]
    return labels


def test_places_are_indexed_by_topic() -> None:
    interests = indexed(np.array([0, 2, 3]), np.array([0, 1, 1], np.int32), 2)
    assert interests.topic_starts.tolist() == [0, 1, 3]
    assert interests.topic_places.tolist() == [0, 1, 2]
    assert interests.owners.tolist() == [0, 0, 1]
