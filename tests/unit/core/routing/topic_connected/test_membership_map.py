"""The map of a topic-connected overlay: who is there, who is gone, what is in pieces."""

from __future__ import annotations

from msgspec.structs import replace

from pubweave.core.routing.topic_connected.absent_brokers import AbsentBrokers
from pubweave.core.routing.topic_connected.link_choice import (
    choose_backups,
    links_among,
    shadow_set,
)
from pubweave.core.routing.topic_connected.membership_map import MAP_TOPIC, MembershipMap
from pubweave.model.messages.topic_connected import BrokerRecord


def record(
    broker: str,
    links: str = "",
    *,
    topics: str = "x",
    lost: str = "",
    backups: str = "",
    version: int = 1,
    incarnation: int = 1,
) -> BrokerRecord:
    gone = tuple((name, 1, 1) for name in lost.split())
    return BrokerRecord(
        broker,
        f"{broker}:1",
        incarnation,
        version,
        tuple(topics.split()),
        tuple(links.split()),
        gone,
        tuple(backups.split()),
    )


def map_of(own: str, *records: BrokerRecord) -> MembershipMap:
    map_ = MembershipMap(own)
    for each in records:
        map_.receive(each, 0.0)
    return map_


def test_only_newer_records_are_news() -> None:
    map_ = map_of("a", record("b", version=2))
    assert not map_.receive(record("b", version=1), 0.0)
    assert not map_.receive(record("b", version=2), 0.0)
    assert map_.receive(record("b", version=1, incarnation=2), 0.0)


def test_a_forgotten_broker_comes_back_only_with_news() -> None:
    map_ = map_of("a", record("a"), record("b", version=5))
    assert map_.forget_silent(100.0, 50.0)
    assert list(map_.records) == ["a"]
    assert not map_.receive(record("b", version=5), 100.0)
    assert map_.receive(record("b", version=6), 100.0)


def test_who_slept_is_told_of_a_broker_that_others_have_forgotten() -> None:
    """Otherwise it waits for the dead as long again."""
    awake, slept = (map_of(name, record("b", version=5)) for name in "ac")
    [said] = awake.forget_silent(100.0, 50.0)
    assert map_of("d", record("b", version=5)).discard(said)
    told = slept.record_of("b", 1.0)
    assert awake.has_forgotten(told)
    assert not awake.has_forgotten(record("b", version=6)), "it has spoken since"
    assert not map_of("c", record("b", version=6)).discard(told)
    assert slept.discard(told)
    assert not slept.discard(told)
    assert slept.has_forgotten(told)
    assert "b" not in slept.records


def test_one_end_of_a_link_is_enough_unless_the_other_has_lost_it() -> None:
    assert map_of("a", record("a", "b"), record("b")).view().is_connected
    view = map_of("a", record("a", "b"), record("b", lost="a")).view()
    assert MAP_TOPIC in view.pieces


def test_a_lost_broker_is_gone_and_those_behind_it_are_not() -> None:
    """a - w - b, and w died: a knows that w is gone, and that it has to find b."""
    map_ = map_of("a", record("a", lost="w"), record("w", "a b"), record("b", "w"))
    view = map_.view()
    assert view.gone == {"w"}
    assert view.pieces["x"] == {"a": 0, "b": 1}
    assert links_among(view, shadow_set(view, map_.records), 3.0) == [("a", "b")]


def test_a_lost_broker_that_tells_of_itself_is_not_gone() -> None:
    """w has lost nobody and b is linked with it; a has lost it, and w hears that."""
    map_ = map_of("a", record("a", "b", lost="w"), record("b", "w"))
    map_.receive(record("w", "b", version=2), 0.0)
    view = map_.view()
    assert not view.gone
    assert view.is_connected


def test_a_lost_broker_is_gone_before_all_its_neighbors_have_lost_it() -> None:
    """b and c still believe to be linked with w: no link is sought to it, and none through it."""
    map_ = map_of("a", record("a", "b", lost="w"), record("b", "a w"), record("c", "w"))
    map_.receive(record("w", "a b c"), 0.0)
    view = map_.view()
    assert view.gone == {"w"}
    assert view.pieces["x"] == {"a": 0, "b": 0, "c": 1}
    # That c has not said that it lost it does not make c gone, too.
    assert "w" not in shadow_set(view, map_.records)


def test_a_broker_does_not_count_itself_as_gone() -> None:
    map_ = map_of("w", record("w", "b"), record("b", "w a"), record("a", "b", lost="w"))
    assert not map_.view().gone


def test_a_new_incarnation_is_not_lost() -> None:
    map_ = map_of("a", record("a", lost="w"), record("w", incarnation=2))
    assert not map_.view().gone


def test_who_was_gone_stays_gone_when_its_witness_dies_but_is_probed() -> None:
    """a - b - w, w died, then b: nobody in reach has lost w any more."""
    map_ = map_of("a", record("a", "b c"), record("b", "a", lost="w"), record("w", "b"))
    map_.receive(record("c", "a b"), 0.0)
    assert map_.view().gone == {"w"}
    map_.receive(record("a", "c", lost="b", version=2), 1.0)
    map_.receive(record("c", "a", lost="b", version=2), 1.0)
    view = map_.view()
    assert (view.gone, view.doubtful, view.prober) == ({"b", "w"}, {"w"}, "a")
    assert view.is_connected
    map_.receive(record("a", "c", lost="b w", version=3), 2.0)
    assert (map_.view().gone, map_.view().doubtful) == ({"b", "w"}, frozenset())


def test_who_was_gone_and_says_something_new_is_there() -> None:
    map_ = map_of("a", record("a", lost="w"), record("w"))
    assert map_.view().gone == {"w"}
    map_.receive(record("a", "w", version=2), 1.0)
    assert not map_.view().gone
    map_.receive(record("a", "", lost="w", version=3), 2.0)
    assert map_.view().gone == {"w"}
    map_.receive(record("a", "", version=4), 3.0)
    assert map_.view().doubtful == {"w"}
    map_.receive(record("w", version=2), 4.0)
    assert not map_.view().gone


def test_a_topic_is_connected_by_its_own_brokers_only() -> None:
    """a and c want x and are linked through b, which does not: a relay is no connection."""
    map_ = map_of("a", record("a", "b"), record("b", "a c", topics="y"), record("c", "b"))
    assert map_.view().pieces == {"x": {"a": 0, "c": 1}}


def test_a_broker_that_leaves_does_not_count() -> None:
    leaving = BrokerRecord("b", "", 1, 1, ("x",), ("a", "c"), is_leaving=True)
    map_ = map_of("a", record("a"), leaving, record("c"))
    assert map_.view().pieces["x"] == {"a": 0, "c": 1}


def test_a_joining_broker_seeks_its_links_among_its_backups() -> None:
    joining = record("j", "a", topics="y", backups="b")
    map_ = map_of("j", joining, record("a", "b"), record("b", "a", topics="y"))
    view = map_.view()
    assert shadow_set(view, map_.records) == ["b", "j"]
    assert links_among(view, ["b", "j"], 3.0) == [("b", "j")]


def test_backups_cover_every_topic_as_often_as_can_be() -> None:
    map_ = map_of(
        "a",
        record("a", topics="x y z"),
        record("b", topics="x"),
        record("c", topics="x y"),
        record("d", topics="y"),
        record("e", topics="q"),
    )
    backups = choose_backups(map_.view(), map_.records["a"], 2)
    for topic in ("x", "y"):
        assert sum(topic in map_.records[b].topics for b in backups) == 2
    assert "a" not in backups


def test_who_is_told_of_one_that_is_silent_hears_for_how_long() -> None:
    """Otherwise each broker that joins would remember the dead anew."""
    map_ = map_of("a", record("a"), record("b"))
    told = map_.record_of("b", 40.0)
    assert told.silent_s == 40.0
    joined = map_of("c", record("c"))
    joined.receive(told, 1000.0)
    assert joined.records["b"] == record("b")
    assert not joined.forget_silent(1009.0, 50.0)
    assert joined.forget_silent(1011.0, 50.0)


def test_topics_of_those_who_are_gone_and_those_in_pieces_are_missed() -> None:
    map_ = map_of(
        "a",
        record("a", "b", topics="x y", lost="c"),
        record("b", "a", topics="x"),
        record("c", topics="z"),
        record("d", topics="y"),
    )
    absences = AbsentBrokers(map_, map_.view, grace_s=30.0)
    absences.check(10.0)
    assert absences.missed == {"z", "y", MAP_TOPIC}
    map_.receive(record("c", "a", topics="z", incarnation=2), 20.0)
    map_.receive(record("d", "a", topics="y", version=2), 20.0)
    absences.check(39.0)
    assert "z" in absences.missed, "it is back, but may have no link yet that brings it"
    absences.excuse(100.0)
    absences.check(139.0)
    assert {"y", "z"} <= absences.missed
    absences.check(141.0)
    assert not absences.missed


def test_one_that_leaves_on_purpose_is_not_waited_for() -> None:
    map_ = map_of("a", record("a", "b", lost="c"), record("b", "a"))
    map_.receive(replace(record("c", topics="z"), is_leaving=True), 0.0)
    absences = AbsentBrokers(map_, map_.view, grace_s=30.0)
    absences.check(10.0)
    assert not absences.missed
