"""What a broker notes of what it routes: whole slices, with the ways, within bounds."""

from __future__ import annotations

import numpy as np
import pytest

from pubweave.core.config.session import SessionLimits
from pubweave.core.self_organizing.notification_cache import NotificationCache
from pubweave.core.self_organizing.traffic_sides import (
    SLICES,
    SLICES_KEPT,
    SPAN_SLICES,
    SliceRange,
    TrafficSides,
)
from pubweave.core.session.session import Session
from pubweave.model.publications import make_publication


def session(name: str, *, is_client: bool) -> Session:
    return Session(name, own_epoch=1, is_client=is_client, limits=SessionLimits())


CLIENT = session("c", is_client=True)
LEFT = session("left", is_client=False)
RIGHT = session("right", is_client=False)
UP = session("up", is_client=False)


class Noting:
    """A cache of a broker with three links, past its first slice; a slice takes a second."""

    def __init__(self, capacity: int = 100_000) -> None:
        self.links = [LEFT, RIGHT, UP]
        self.cache = TrafficSides(SLICES * capacity, SLICES * 1.0, 0.4, lambda: self.links)
        self.cache.turn(1.0)
        self.sequence = 0

    def note(self, origin: Session, *route: Session, count: int = 1) -> None:
        for _ in range(count):
            self.sequence += 1
            publication = make_publication("p", self.sequence, "t", {}, b"", 0.0)
            self.cache.routed(publication, origin, route)

    def side(self, *ring: str, last: int = 1, count: int = 1) -> int | None:
        """How many entries a side has."""
        found = self.cache.side(SliceRange(last, count), ring)
        return None if found is None else len(found)


def test_a_side_is_what_touched_a_client_or_a_link_outside_of_the_ring() -> None:
    noting = Noting()
    noting.note(LEFT, RIGHT, count=1)
    noting.note(LEFT, UP, count=10)
    noting.note(UP, RIGHT, LEFT, count=100)
    noting.note(LEFT, CLIENT, count=1000)
    noting.note(CLIENT, LEFT, RIGHT, count=5000)  # more than are made into arrays at once
    noting.note(LEFT, count=20_000)
    noting.cache.turn(2.0)
    assert noting.side("left", "right") == 6110
    assert noting.side("right", "left", "somebody") == 6110
    assert noting.side("left") == 6111  # at an end of the ring
    assert noting.side("up") == 26_111
    assert noting.side() == 26_111


def test_several_slices_are_taken_as_one() -> None:
    noting = Noting()
    for number, count in enumerate((1, 10, 100, 1000), start=1):
        noting.note(LEFT, UP, count=count)
        noting.cache.turn(1.0 + number)
    assert noting.cache.sound_span() == SliceRange(4, SPAN_SLICES)
    assert noting.side("left", last=4, count=3) == 1110
    assert noting.side("left", last=2, count=2) == 11
    assert noting.side("left", last=5, count=2) is None


def test_keys_are_those_of_the_other_cache() -> None:
    """Whoever compares notes with whomever: the same publication has the same key."""
    noting = Noting()
    other = NotificationCache(100, 1.0, 1.0)
    for cache in (noting.cache, other):
        for sequence in (1, 2, 2**70):
            publication = make_publication("p", sequence, "t", {}, b"", 0.0)
            cache.routed(publication, LEFT, (CLIENT,))
        cache.turn(2.0)
    side = noting.cache.side(SliceRange(1, 1), ("left",))
    assert side is not None
    assert np.array_equal(np.sort(side), other.last_window()[1])


def test_a_slice_that_a_broker_did_not_see_from_its_beginning_is_not_used() -> None:
    noting = Noting()
    assert noting.side(last=0) is None
    noting.cache.turn(2.0)
    assert noting.side(last=1) == 0
    noting.cache.turn(4.5)  # away for a while: two and a half slices in one
    noting.cache.turn(5.0)
    assert [noting.side(last=last) for last in (2, 3, 4)] == [None, None, None]
    noting.cache.turn(6.0)
    assert noting.side(last=5) == 0


def test_fewer_sound_slices_than_a_span_are_no_measure() -> None:
    noting = Noting()
    for number in range(1, SPAN_SLICES + 1):
        assert noting.cache.sound_span() is None
        wait_s = SPAN_SLICES + 1 - number
        assert noting.cache.sound_in_s(float(number)) == wait_s
        noting.cache.turn(1.0 + number)
    assert noting.cache.sound_span() == SliceRange(SPAN_SLICES, SPAN_SLICES)
    noting.cache.spoil()
    assert noting.cache.sound_in_s(SPAN_SLICES + 1.5) == 0.5 + SPAN_SLICES
    noting.cache.turn(2.0 + SPAN_SLICES)
    assert noting.cache.sound_span() is None


def test_idle_is_who_noted_nothing_for_an_interval() -> None:
    noting = Noting()
    noting.note(LEFT, RIGHT)
    assert not noting.cache.is_idle
    for number in range(SLICES + 2):
        assert not noting.cache.is_idle
        noting.cache.turn(2.0 + number)
    assert noting.cache.is_idle
    noting.note(LEFT, RIGHT)
    assert not noting.cache.is_idle


def test_a_slice_with_too_many_entries_is_not_used_and_counted() -> None:
    noting = Noting(capacity=100)
    for number, count in enumerate((100, 101, 9_000, 7), start=1):
        noting.note(LEFT, RIGHT, count=count)
        noting.cache.turn(1.0 + number)
    assert [noting.side(last=last) for last in (1, 2, 3, 4)] == [100, None, None, 7]
    assert noting.cache.overflows == 2
    assert noting.cache.has_overflowed(SliceRange(4, 2))
    assert not noting.cache.has_overflowed(SliceRange(4, 1))


@pytest.mark.parametrize("change", ["gone", "new", "stand-in", "anew", "told"])
def test_a_slice_in_which_links_changed_is_not_used(change: str) -> None:
    noting = Noting()
    noting.note(LEFT, RIGHT, count=3)
    match change:
        case "gone":
            noting.links.remove(UP)
        case "new":
            noting.links.append(session("b9", is_client=False))
        case "stand-in":
            noting.note(LEFT, session("held", is_client=False))
        case "anew":
            noting.links[2] = session("up", is_client=False)
        case "told":
            noting.cache.spoil()
    noting.cache.turn(2.0)
    assert noting.side() is None
    noting.note(LEFT, RIGHT)
    noting.cache.turn(3.0)
    assert noting.side(last=2) == 1


def test_only_the_last_slices_are_kept() -> None:
    noting = Noting(capacity=0)
    for number in range(1, 30):
        noting.note(LEFT, count=number % 2)
        noting.cache.turn(1.0 + number)
    kept = [n for n in range(40) if noting.side(last=n) is not None]
    assert noting.cache.last_number == 29
    assert kept == [n for n in range(30 - SLICES_KEPT, 30) if n % 2 == 0]
    assert not noting.cache.has_overflowed(SliceRange(29 - SLICES_KEPT, 2))


def test_a_slice_is_over_at_its_end_however_numbers_are_rounded() -> None:
    cache = TrafficSides(10, 0.7, 1000.1, lambda: [])
    for _ in range(500):
        before, due = cache.last_number, cache.turn_at
        cache.turn(due)
        assert cache.last_number == before + 1
        assert cache.turn_at > due
