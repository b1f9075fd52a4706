"""What goes again to a far end that has forgotten everything, and what is told before it."""

from __future__ import annotations

from pubweave.core.config.session import SessionLimits
from pubweave.core.routing.tree.routing import TreeRouting
from pubweave.core.routing.tree.withdrawals import REMEMBERED, Withdrawals
from pubweave.core.session.session import Session
from pubweave.model.filters.text import parse_filter
from pubweave.model.messages.session import (
    Advertise,
    SequencedMessage,
    Synced,
    SyncStage,
    Unadvertise,
)
from pubweave.model.publications import Publication, make_publication

FILTER = parse_filter("class = 'T'")


def publication(publisher: str, sequence: int) -> Publication:
    return make_publication(publisher, sequence, "T", {}, b"", 0.0)


def with_notes(*ids: str) -> Withdrawals:
    withdrawals = Withdrawals()
    for id_ in ids:
        withdrawals.note(id_, FILTER)
    return withdrawals


def test_a_withdrawal_keeps_its_place_behind_publications_of_its_publisher() -> None:
    one, two = publication("ann", 1), publication("bob", 1)
    under_way = [one, Unadvertise("ann:1"), two]
    again, gone = with_notes("ann:1").sort_out(under_way, known=())
    assert again == under_way
    assert gone == {"ann:1": FILTER}


def test_a_withdrawal_on_which_nothing_under_way_rests_is_dropped() -> None:
    one = publication("bob", 1)
    under_way = [Unadvertise("bob:1"), one, Unadvertise("ann:1")]
    assert with_notes("ann:1", "bob:1").sort_out(under_way, known=()) == ([one], {})


def test_a_withdrawal_of_what_is_advertised_again_is_void() -> None:
    one, two = publication("ann", 1), publication("ann", 2)
    under_way = [one, Unadvertise("ann:1"), Advertise("ann:1", FILTER), two]
    again, gone = with_notes("ann:1").sort_out(under_way, known={"ann:1"})
    assert (again, gone) == ([one, two], {})
    twice = [*under_way, Unadvertise("ann:1")]
    again, gone = with_notes("ann:1").sort_out(twice, known=())
    assert (again, gone) == ([one, two, Unadvertise("ann:1")], {"ann:1": FILTER})


def test_only_what_is_still_queued_is_remembered_for_long() -> None:
    routing = TreeRouting(lambda session, message: session.pending.append(message))
    client = Session("ann", own_epoch=1, is_client=True, limits=SessionLimits())
    link = Session("north", own_epoch=1, is_client=False, limits=SessionLimits())
    routing.link_added(link)
    for number in range(3 * REMEMBERED):
        routing.receive(client, Advertise(f"ann:{number}", FILTER))
        routing.receive(client, Unadvertise(f"ann:{number}"))
        if number < 2 * REMEMBERED:
            link.restart()
    under_way = [publication("ann", 1), *link.restart()]
    routing.link_began(link, under_way)
    told = [m.id for m in link.pending if isinstance(m, Advertise)]
    assert told == [f"ann:{number}" for number in range(2 * REMEMBERED, 3 * REMEMBERED)]
    assert len(routing._withdrawals) <= 2 * REMEMBERED


def test_a_held_link_that_begins_anew_is_told_the_gone_before_what_was_held() -> None:
    sent: list[tuple[str, SequencedMessage]] = []
    routing = TreeRouting(lambda session, message: sent.append((session.remote, message)))
    client = Session("ann", own_epoch=1, is_client=True, limits=SessionLimits())
    link = Session("north", own_epoch=1, is_client=False, limits=SessionLimits())
    stand_in = Session("held", own_epoch=1, is_client=False, limits=SessionLimits())
    routing.link_added(link)
    for id_ in ("ann:1", "ann:2"):
        routing.receive(client, Advertise(id_, FILTER))
    routing.receive(client, Unadvertise("ann:1"))
    routing.hold([link], stand_in)
    routing.receive(client, Unadvertise("ann:2"))
    for _ in range(2):  # even if it happens twice
        sent.clear()
        routing.link_began(link, [publication("ann", 1), Unadvertise("ann:1")])
        assert sent == []
    routing.let_go()
    gone = routing.catch_up(link)
    assert sorted(gone) == ["ann:1", "ann:2"]
    assert {m.id for _, m in sent[:2] if isinstance(m, Advertise)} == {"ann:1", "ann:2"}
    assert sent[2:] == [("north", Synced(SyncStage.ADVERTISEMENTS))]
