"""The notification cache: own interest only, window by window, within its bounds."""

from __future__ import annotations

import numpy as np

from pubweave.core.config.session import SessionLimits
from pubweave.core.self_organizing.notification_cache import NotificationCache
from pubweave.core.session.session import Session
from pubweave.model.publications import make_publication


def session(name: str, *, is_client: bool) -> Session:
    return Session(name, own_epoch=1, is_client=is_client, limits=SessionLimits())


CLIENT = session("c", is_client=True)
LINK = session("b2", is_client=False)
OTHER_LINK = session("b3", is_client=False)


def note(cache: NotificationCache, sequence: int, *, publisher: str = "p") -> None:
    """A publication comes over a link and goes to a client."""
    cache.routed(make_publication(publisher, sequence, "t", {}, b"", 0.0), LINK, (CLIENT,))


def test_what_own_clients_publish_or_consume_is_cached_and_what_is_relayed_is_not() -> None:
    cache = NotificationCache(100, 5.0, now=0.0)
    publication = make_publication("p", 1, "t", {}, b"", 0.0)
    cache.routed(publication, LINK, (OTHER_LINK,))
    cache.turn(5.0)
    assert len(cache.last_window()[1]) == 0
    for number, (origin, route) in enumerate(
        [(CLIENT, (LINK,)), (LINK, (CLIENT,)), (LINK, (OTHER_LINK, CLIENT)), (CLIENT, ())]
    ):
        cache.routed(make_publication("p", number + 2, "t", {}, b"", 0.0), origin, route)
    cache.turn(10.0)
    assert len(cache.last_window()[1]) == 4


def test_two_brokers_make_the_same_keys_of_the_same_publications() -> None:
    one, other = NotificationCache(100, 5.0, now=0.0), NotificationCache(100, 5.0, now=0.0)
    for sequence in range(1, 11):
        note(one, sequence)
        note(other, 11 - sequence)
    note(other, 1, publisher="q")
    one.turn(5.0)
    other.turn(5.0)
    shared = np.intersect1d(one.last_window()[1], other.last_window()[1])
    assert (len(one.last_window()[1]), len(other.last_window()[1]), len(shared)) == (10, 11, 10)


def test_windows_are_cut_on_the_common_clock_whenever_a_broker_started() -> None:
    cache = NotificationCache(100, 5.0, now=3.0)
    note(cache, 1)
    cache.turn(4.9)
    assert cache.keys(0) is None
    cache.turn(5.0)
    note(cache, 2)
    note(cache, 3)
    cache.turn(10.2)
    first, second = cache.keys(0), cache.keys(1)
    assert first is not None
    assert second is not None
    assert (len(first), len(second)) == (1, 2)
    assert cache.last_window()[0] == 1


def test_a_publication_that_came_twice_counts_once() -> None:
    cache = NotificationCache(100, 5.0, now=0.0)
    note(cache, 1)
    note(cache, 1)
    cache.turn(5.0)
    assert len(cache.last_window()[1]) == 1


def test_no_more_than_the_capacity_is_kept_and_the_last_window_goes_before() -> None:
    cache = NotificationCache(10, 5.0, now=0.0)
    for sequence in range(1, 100):
        note(cache, sequence)
    cache.turn(5.0)
    newest = NotificationCache(10, 5.0, now=0.0)
    for sequence in range(90, 100):
        note(newest, sequence)
    newest.turn(5.0)
    assert np.array_equal(cache.last_window()[1], newest.last_window()[1])
    note(cache, 100)
    cache.turn(10.0)
    assert len(cache.last_window()[1]) == 1
    assert cache.keys(0) is None


def test_a_huge_sequence_number_is_no_trouble() -> None:
    cache = NotificationCache(10, 5.0, now=0.0)
    note(cache, 2**70 + 3)
    cache.turn(5.0)
    assert len(cache.last_window()[1]) == 1
