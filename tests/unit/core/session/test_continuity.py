"""Publishers name the previous publication on a topic; subscribers see by it what is missing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubweave.core.session import continuity
from pubweave.core.session.continuity import GapDetector, PublishedBefore
from pubweave.core.session.session import Session
from pubweave.model.filters.filter import Filter
from pubweave.model.filters.text import parse_filter
from pubweave.model.publications import Publication, make_publication
from tests.broker_tree import BrokerTree

WHOLE = parse_filter("class = 'T'")
PART = parse_filter("class = 'T' and n > 3")


def published(sequence: int, previous: int, topic: str = "T") -> Publication:
    return make_publication("p", sequence, topic, {}, b"", 0.0, previous)


def detector(filter_: Filter = WHOLE) -> GapDetector:
    found = GapDetector()
    found.confirmed("s:1", filter_)
    return found


@given(st.lists(st.tuples(st.sampled_from("TUV"), st.booleans()), max_size=40))
def test_a_gap_is_seen_where_something_is_missing_and_nowhere_else(
    life: list[tuple[str, bool]],
) -> None:
    before, gaps = PublishedBefore(), detector(Filter(()))
    naive: dict[str, list[tuple[int, bool]]] = {}
    for sequence, (topic, arrives) in enumerate(life, 1):
        publication = published(sequence, before.turn(topic, sequence), topic)
        earlier = naive.setdefault(topic, [])
        if arrives:
            got = [number for number, has_come in earlier if has_come]
            is_missing = bool(earlier) and not earlier[-1][1] and bool(got)
            assert gaps.check(publication) == (got[-1] if is_missing else 0)
        earlier.append((sequence, arrives))


@pytest.mark.parametrize("filter_", [PART, parse_filter("class = 'U'")])
def test_a_filter_on_content_and_another_topic_prove_nothing(filter_: Filter) -> None:
    gaps = detector(filter_)
    assert gaps.check(published(1, 0)) == 0
    assert gaps.check(published(3, 2)) == 0


def test_nothing_is_judged_before_the_confirmation_or_across_an_unsubscription() -> None:
    gaps = GapDetector()
    assert [gaps.check(published(1, 0)), gaps.check(published(3, 2))] == [0, 0]
    gaps.confirmed("s:1", WHOLE)
    assert [gaps.check(published(5, 4)), gaps.check(published(7, 6))] == [0, 5]
    gaps.unsubscribed("s:1", WHOLE)
    gaps.confirmed("s:2", WHOLE)
    assert gaps.check(published(9, 8)) == 0


def test_another_subscription_to_the_topic_keeps_it_judged() -> None:
    gaps = detector()
    gaps.confirmed("s:2", Filter(()))
    gaps.check(published(1, 0))
    gaps.unsubscribed("s:1", WHOLE)
    assert gaps.check(published(3, 2)) == 1
    gaps.unsubscribed("s:2", Filter(()))
    assert gaps.check(published(5, 4)) == 0


def test_what_a_broker_told_of_is_no_gap() -> None:
    gaps = detector()
    gaps.check(published(1, 0))
    gaps.missed("T", "p")
    assert gaps.check(published(3, 2)) == 0
    assert gaps.check(published(5, 4)) == 3


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(continuity, "TOPICS_REMEMBERED", 3)
    monkeypatch.setattr(continuity, "PAIRS_REMEMBERED", 3)
    before, gaps = PublishedBefore(), detector(Filter(()))
    for sequence in range(1, 8):
        topic = f"t{sequence}"
        gaps.check(published(sequence, before.turn(topic, sequence), topic))
    assert len(before._last) == 3
    assert before.turn("t1", 8) == 0, "it was forgotten: nothing is said"
    assert before.turn("t7", 9) == 7
    assert len(gaps._last) <= 3


# --- from end to end -------------------------------------------------------------------------


def tree_of_two(**config: Any) -> BrokerTree:
    tree = BrokerTree([("b1", "b2")], {"pub": "b1", "sub": "b2"}, **config)
    tree.clients["sub"].core.subscribe(WHOLE)
    tree.clients["pub"].core.advertise(WHOLE)
    for name in tree.clients:
        tree.flush(name)
    tree.settle()
    return tree


def publish(tree: BrokerTree, count: int = 1) -> None:
    for _ in range(count):
        tree.clients["pub"].core.publish("T", {}, b"", tree.now)
    tree.flush("pub")
    tree.settle()


STRATEGIES = pytest.mark.parametrize("strategy", ["tree", "tree_covering", "flooding"])


@STRATEGIES
def test_a_broker_that_drops_a_publication_is_found_out(
    strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    tree = tree_of_two(strategy=strategy)
    publish(tree, 2)
    routing = tree.brokers["b2"].routing

    def nowhere(publication: Publication, origin: Session) -> tuple[Session, ...]:
        return ()

    with monkeypatch.context() as patch:
        patch.setattr(routing, "route", nowhere)
        tree.brokers["b2"]._services.routes.clear()
        publish(tree)
    tree.brokers["b2"]._services.routes.clear()
    publish(tree, 2)
    subscriber = tree.clients["sub"]
    assert [number for _, number in subscriber.got] == [1, 2, 4, 5]
    assert [(gap.after, gap.before) for gap in subscriber.gaps] == [(2, 4)]


@STRATEGIES
def test_what_the_publishers_broker_refuses_is_no_gap(strategy: str) -> None:
    tree = tree_of_two(strategy=strategy)
    publish(tree)
    core = tree.clients["pub"].core
    routing = tree.brokers["b1"].routing
    allowed = routing.may_publish
    refused = {2, 3}

    def may_publish(publication: Publication, client: Session) -> bool:
        return publication.sequence not in refused and allowed(publication, client)

    routing.may_publish = may_publish  # type: ignore[method-assign]
    routing.may_publish_topic = lambda topic, client: False  # type: ignore[method-assign]
    tree.brokers["b1"]._services.routes.clear()
    publish(tree, 4)  # at once: the client hears of the refusal too late
    assert [number for _, number in tree.clients["sub"].got] == [1, 4, 5]
    assert not tree.clients["sub"].gaps
    refused.add(6)
    publish(tree)
    assert core.publish("T", {}, b"", tree.now).previous == 0, "it has heard of it"
    tree.flush("pub")
    tree.settle()
    assert [number for _, number in tree.clients["sub"].got] == [1, 4, 5, 7]
    assert not tree.clients["sub"].gaps


def test_a_session_that_began_anew_shows_what_it_lost() -> None:
    """The broker in the middle of it loses what it had acknowledged."""
    tree = tree_of_two(strategy="tree")
    publish(tree)
    tree.cut("b2", "sub")
    publish(tree)
    tree.restart("b2")
    tree.connect("sub", "b2")
    tree.settle(15)
    publish(tree)
    subscriber = tree.clients["sub"]
    assert [number for _, number in subscriber.got] == [1, 3]
    assert [(gap.after, gap.before) for gap in subscriber.gaps] == [(1, 3)]
    assert len(subscriber.core.confirmed) == 1


def test_a_publication_that_is_taken_back_was_never_there() -> None:
    tree = tree_of_two(strategy="tree")
    publish(tree)
    core = tree.clients["pub"].core
    core.take_back(core.publish("T", {}, bytes(10), tree.now))
    publish(tree)
    assert [number for _, number in tree.clients["sub"].got] == [1, 3]
    assert not tree.clients["sub"].gaps
