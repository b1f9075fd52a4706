"""Chord against the sorted ring: tables, routes, and the protocol under joins, leaves, crashes."""

from __future__ import annotations

import math

from hypothesis import given, settings
from hypothesis import strategies as st

from pubweave.core.routing.rendezvous.chord import ChordTable
from pubweave.model.messages.rendezvous import Occupant
from tests.naive import dynatops as naive
from tests.rendezvous_ring import Planes

POSITIONS = st.lists(
    st.one_of(st.integers(0, naive.RING - 1), st.integers(0, 40)),
    min_size=1,
    max_size=24,
    unique=True,
).map(sorted)


def tables(ids: list[int]) -> list[ChordTable]:
    """Everybody knows everybody."""
    made = [ChordTable(Occupant(id_, f"b{id_}"), successors=3) for id_ in ids]
    for table in made:
        for id_ in ids:
            table.know(Occupant(id_, f"b{id_}"))
    return made


def responsible(ids: list[int], key: int) -> int:
    """The position that a key belongs to, by definition."""
    return min(range(len(ids)), key=lambda v: (ids[v] - key) % naive.RING)


@settings(max_examples=50, deadline=None)
@given(POSITIONS)
def test_fingers_successors_and_predecessor_are_those_of_the_sorted_ring(ids: list[int]) -> None:
    for place, table in enumerate(tables(ids)):
        expected = {ids[v] for v in naive.fingers(ids, place)} - {ids[place]}
        assert {finger.position for finger in table.fingers()} == expected
        others = ids[place + 1 :] + ids[:place]
        assert [each.position for each in table.successors()] == others[:3]
        predecessor = table.predecessor()
        assert (predecessor.position if predecessor else None) == (others[-1] if others else None)


@settings(max_examples=50, deadline=None)
@given(POSITIONS, st.data())
def test_down_the_fingers_the_way_is_the_greedy_route(ids: list[int], data: st.DataObject) -> None:
    start, end = (data.draw(st.integers(0, len(ids) - 1)) for _ in range(2))
    made = tables(ids)
    way = [start]
    while (hop := made[way[-1]].next_towards(ids[end])) is not None:
        way.append(ids.index(hop.position))
    assert way == naive.route(ids, start, end)


@settings(max_examples=50, deadline=None)
@given(POSITIONS, st.integers(0, naive.RING - 1), st.data())
def test_a_key_is_routed_to_the_one_responsible(
    ids: list[int], key: int, data: st.DataObject
) -> None:
    """With no more in a table than Chord needs."""
    made = tables(ids)
    for table in made:
        needed = table.needed()
        for occupant in list(table.known):
            if occupant.broker not in needed:
                table.discard(occupant.broker)
    place, hops = data.draw(st.integers(0, len(ids) - 1)), 0
    while (hop := made[place].next_hop(key)) is not None:
        place, hops = ids.index(hop.position), hops + 1
    assert place == responsible(ids, key)
    assert hops <= 33


def test_who_leaves_is_responsible_for_nothing_unless_it_is_alone() -> None:
    table = ChordTable(Occupant(100, "b"), successors=2)
    table.is_leaving = True
    assert table.is_responsible(50)
    table.know(Occupant(200, "c"))
    assert table.next_hop(50) == table.next_hop(100) == Occupant(200, "c")


def check_ring(planes: Planes) -> None:
    ids, order = planes.ids(), planes.order()
    for place, name in enumerate(order):
        table = planes.planes[name].table
        expected = {order[v] for v in naive.fingers(ids, place)} - {name}
        assert {finger.broker for finger in table.fingers()} == expected, name
        others = order[place + 1 :] + order[:place]
        assert [each.broker for each in table.successors()] == others[:4]


@settings(max_examples=12, deadline=None)
@given(st.data())
def test_the_ring_is_in_order_again_after_joins_leaves_and_crashes(data: st.DataObject) -> None:
    planes = Planes()
    planes.join("b0", data.draw(st.integers(0, naive.RING - 1)))
    for number in range(1, data.draw(st.integers(2, 14))):
        contact = data.draw(st.sampled_from(sorted(planes.planes)))
        planes.join(f"b{number}", naive.RING * number // 14 + number, contact)
        planes.run(data.draw(st.integers(0, 2)))
    planes.run(10)
    check_ring(planes)
    for _ in range(data.draw(st.integers(1, 3))):
        if len(planes.planes) > 3:  # fewer at once than a broker has successors
            name = data.draw(st.sampled_from(sorted(planes.planes)))
            (planes.leave if data.draw(st.booleans()) else planes.crash)(name)
    planes.run(10)
    check_ring(planes)


def test_two_rings_become_one_when_a_link_joins_them() -> None:
    planes = Planes()
    for number in range(12):
        contact = f"b{number % 2}" if number > 1 else None
        planes.join(f"b{number}", naive.RING // 12 * number, contact)
    planes.run(8)
    assert not planes.links["b0"] & {f"b{n}" for n in range(1, 12, 2)}
    planes._link("b4", "b7")
    planes.run(16)
    check_ring(planes)


def test_of_two_at_one_position_the_larger_id_gives_way() -> None:
    planes = Planes()
    planes.join("b0", 77)
    planes.join("b1", 77, "b0")
    planes.run(3)
    assert planes.ids() == [77, 78]
    check_ring(planes)


def test_one_that_takes_another_position_is_known_there_by_all_neighbors() -> None:
    planes = Planes()
    for number in range(6):
        planes.join(f"b{number}", 100 * number, "b0" if number else None)
    planes.run(8)
    planes.planes["b1"].chord.move(299)
    planes.run(8)
    check_ring(planes)
    places = [plane.table.get("b1") for name, plane in planes.planes.items() if name != "b1"]
    assert {place.position for place in places if place is not None} == {299}


def test_a_broker_has_links_with_log_many_others() -> None:
    planes = Planes()
    for number in range(32):
        planes.join(f"b{number}", naive.RING // 32 * number)
        if number:
            planes._link(f"b{number}", f"b{number - 1}")
    planes.run(14)
    check_ring(planes)
    needed = [len(plane.table.needed()) for plane in planes.planes.values()]
    assert max(needed) <= 5 + math.log2(32)
