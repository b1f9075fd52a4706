"""The hold of an action by itself."""

from __future__ import annotations

from pubweave.core.config.session import SessionLimits
from pubweave.core.session.session import Session
from pubweave.core.transformation.participant import HeldPublications
from pubweave.model.publications import Publication, make_publication


def publication(sequence: int) -> Publication:
    return make_publication("p", sequence, "t", {}, b"x" * 50, 0.0)


def session(name: str) -> Session:
    return Session(name, own_epoch=1, is_client=False, limits=SessionLimits())


def test_what_was_queued_for_the_stand_in_is_held_in_order_with_its_origin() -> None:
    hold = HeldPublications(10_000, 0.0)
    north, south = session("north"), session("south")
    hold.stand_in.pending += [publication(1), publication(2)]
    hold.gather(north)
    hold.stand_in.pending.append(publication(3))
    hold.gather(south)
    assert hold.stand_in.pending == []
    items = hold.take_all()
    assert [(item.publication.sequence, item.origin) for item in items] == [
        (1, north),
        (2, north),
        (3, south),
    ]
    assert hold.take_all() == []
    assert hold.size_bytes == 0


def test_what_goes_again_comes_before_all_else_and_only_to_its_link() -> None:
    hold = HeldPublications(10_000, 0.0)
    link = session("north")
    hold.stand_in.pending.append(publication(3))
    hold.gather(None)
    hold.put_first([publication(1), publication(2)], link)
    items = hold.take_all()
    assert [item.publication.sequence for item in items] == [1, 2, 3]
    assert [item.target for item in items] == [link, link, None]


def test_a_hold_says_when_it_is_over_its_limit() -> None:
    size = publication(1).size_bytes
    hold = HeldPublications(2 * size, 0.0)
    hold.stand_in.pending += [publication(1), publication(2)]
    hold.gather(None)
    assert not hold.is_over_limit
    hold.put_first([publication(0)], session("north"))
    assert hold.is_over_limit
