"""Links that mend topics, by names: the printed algorithm's and the kernel's choices."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from pubweave.design.tco._kernels.mending import NOT_SUBSCRIBED, mend
from pubweave.design.tco.mending_by_name import canonical, mending_links
from tests.naive.topic_connected import components, construct_low_edges, shadow_pairs

Topics = dict[int, frozenset[int]]


@st.composite
def broken_overlays(draw: st.DrawFn) -> tuple[Topics, list[tuple[int, int]], list[int]]:
    """Nodes with topics, some links, and the nodes among which links are sought."""
    count = draw(st.integers(2, 9))
    topic_sets = st.frozensets(st.integers(0, 4), min_size=1)
    topics = {node: draw(topic_sets) for node in range(count)}
    pairs = [(a, b) for a in range(count) for b in range(a + 1, count)]
    links = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=8))
    shadows = draw(st.lists(st.sampled_from(range(count)), unique=True, min_size=1))
    return topics, links, shadows


def _name(node: int) -> str:
    return f"n{node}"


def _labels(
    topics: Topics, links: list[tuple[int, int]], shadows: list[int]
) -> dict[int, dict[int, int]]:
    wanted = {topic for node in topics for topic in topics[node]}
    found = {}
    for topic in sorted(wanted):
        label = components([n for n in topics if topic in topics[n]], links)
        found[topic] = {node: label[node] for node in shadows if node in label}
    return found


@given(broken_overlays())
@settings(max_examples=150, deadline=None)
def test_the_links_are_those_of_the_printed_algorithm(
    overlay: tuple[Topics, list[tuple[int, int]], list[int]],
) -> None:
    topics, links, shadows = overlay
    expected = construct_low_edges(
        topics, links, shadow_pairs(topics, shadows), max_degree_of=shadows
    )
    order = canonical({_name(node): len(topics[node]) for node in shadows})
    pieces = {
        str(topic): {_name(node): label for node, label in members.items()}
        for topic, members in _labels(topics, links, shadows).items()
    }
    degrees = {_name(node): sum(node in link for link in links) for node in shadows}
    found = mending_links(pieces, order, degrees)
    assert found == [(_name(a), _name(b)) for a, b in expected]


@given(broken_overlays())
@settings(max_examples=60, deadline=None)
def test_the_links_are_those_of_the_kernel(
    overlay: tuple[Topics, list[tuple[int, int]], list[int]],
) -> None:
    topics, links, shadows = overlay
    order = canonical({_name(node): len(topics[node]) for node in shadows})
    labels = _labels(topics, links, shadows)
    nodes = [int(name[1:]) for name in order]
    matrix = np.array(
        [[labels[t].get(node, NOT_SUBSCRIBED) for t in sorted(labels)] for node in nodes], np.int32
    )
    degrees = np.array([sum(node in link for link in links) for node in nodes], np.int32)
    room = np.empty((matrix.size, 2), np.int32)
    count = mend(matrix, degrees.copy(), int(degrees.max()), False, 3.0, room)
    pieces = {
        str(topic): {_name(node): label for node, label in members.items()}
        for topic, members in labels.items()
    }
    found = mending_links(pieces, order, dict(zip(order, degrees.tolist(), strict=True)))
    assert found == [(order[a], order[b]) for a, b in room[:count].tolist()]


def test_pairs_that_are_not_allowed_are_left_out() -> None:
    pieces = {"x": {"a": 0, "b": 1, "c": 2}}
    degrees = dict.fromkeys("abc", 0)
    found = mending_links(
        pieces, ["a", "b", "c"], degrees, is_allowed=lambda a, b: {a, b} != {"a", "b"}
    )
    assert sorted(found) == [("a", "c"), ("b", "c")]
