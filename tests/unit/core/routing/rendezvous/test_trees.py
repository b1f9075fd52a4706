"""Topics' trees against their definition: the union of the greedy routes from the rendezvous."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st

from pubweave.design.dynatops.mapping.ring import key_of
from tests.naive import dynatops as naive
from tests.rendezvous_ring import Planes

TOPICS = ("x", "y", "news")


def ring_of(count: int, successors: int = 4) -> Planes:
    planes = Planes(successors)
    for number in range(count):
        contact = f"b{number - 1}" if number else None
        planes.join(f"b{number}", naive.RING // count * number + number % 3, contact)
        planes.run(1)
    planes.run(8)
    return planes


def expected_trees(planes: Planes) -> dict[str, dict[str, str | None]]:
    """By topic: whom each broker of the tree has above it."""
    ids, order = planes.ids(), planes.order()
    trees: dict[str, dict[str, str | None]] = {topic: {} for topic in TOPICS}
    for topic, tree in trees.items():
        root = min(range(len(ids)), key=lambda v: (ids[v] - key_of(topic)) % naive.RING)
        for place, name in enumerate(order):
            if topic in planes.subscribed[name]:
                way = naive.route(ids, root, place)
                tree[order[root]] = None
                tree.update({order[below]: order[above] for above, below in pairwise(way)})
    return trees


def found_trees(planes: Planes) -> dict[str, dict[str, str | None]]:
    return {
        topic: {
            name: plane.trees.places[topic].above
            for name, plane in planes.planes.items()
            if topic in plane.trees.places and plane.trees.places[topic].targets
        }
        for topic in TOPICS
    }


def draw_interests(planes: Planes, data: st.DataObject) -> None:
    for name in planes.planes:
        planes.subscribed[name] = data.draw(st.sets(st.sampled_from(TOPICS)))
        planes.offered[name] = data.draw(st.sets(st.sampled_from(TOPICS)))


def check_offers(planes: Planes) -> None:
    """From everybody who offers a topic somebody wants it, and so on up to its rendezvous."""
    for name, topics in planes.offered.items():
        for topic in topics if name in planes.planes else ():
            here = name
            for _ in planes.planes:
                plane = planes.planes[here]
                if plane.table.is_responsible(key_of(topic)):
                    break
                wanting = plane.trees.places[topic].offered_to
                assert wanting is not None
                assert here in planes.planes[wanting].trees.wanted_from(topic)
                here = wanting
            else:
                raise AssertionError(f"{topic} of {name} does not reach its rendezvous")


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 12), st.data())
def test_trees_are_the_union_of_the_routes_whatever_joins_and_leaves(
    count: int, data: st.DataObject
) -> None:
    planes = ring_of(count)
    for _ in range(2):
        draw_interests(planes, data)
        planes.run(3)
        assert found_trees(planes) == expected_trees(planes)
        check_offers(planes)


@settings(max_examples=10, deadline=None)
@given(st.integers(4, 10), st.data())
def test_trees_are_mended_after_crashes(count: int, data: st.DataObject) -> None:
    planes = ring_of(count)
    draw_interests(planes, data)
    planes.run(4)
    for _ in range(data.draw(st.integers(1, 2))):
        planes.crash(data.draw(st.sampled_from(sorted(planes.planes))))
    planes.run(20)
    assert found_trees(planes) == expected_trees(planes)
    check_offers(planes)


def test_a_broken_tree_is_mended_before_it_would_be_refreshed() -> None:
    planes = ring_of(12)
    for name in planes.planes:
        planes.subscribed[name] = {"x"}
    planes.run(8)
    root = next(n for n, above in found_trees(planes)["x"].items() if above is None)
    planes.crash(root)
    planes.run(2)  # less than a refresh
    below = {name: set(plane.trees.wanted_from("x")) for name, plane in planes.planes.items()}
    assert sum(not wanted for wanted in below.values()) == 1, "all but the new rendezvous have one"
    assert not any(root in wanted for wanted in below.values())


def test_joining_costs_a_few_messages() -> None:
    """O(log n) to the rendezvous and O(log n) back, beside what the ring needs anyway."""
    planes = ring_of(32)
    for plane in planes.planes.values():
        plane.chord._stabilize_at = planes.now + 100.0
    before = planes.messages
    planes.subscribed["b7"] = {"x"}
    planes.run(1)
    assert found_trees(planes) == expected_trees(planes)
    assert planes.messages - before <= 2 * 5 + 2
