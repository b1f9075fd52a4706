"""What a client of a topic-connected overlay offers again when its broker is gone."""

from __future__ import annotations

from pubweave.core.client import KEEP_BYTES, KEEP_S, ResendBuffer
from pubweave.core.config.session import SessionLimits
from pubweave.core.session.session import Session
from pubweave.model.filters.text import parse_filter
from pubweave.model.publications import make_publication

ALL = [parse_filter("class = 'x'")]


def _session(*sequences: int, size: int = 1) -> Session:
    session = Session("b", own_epoch=1, is_client=False, limits=SessionLimits())
    for sequence in sequences:
        session.unacked.append(make_publication("p", sequence, "x", {}, b"." * size, 0.0))
    return session


def _kept(kept: ResendBuffer) -> list[int]:
    return [publication.sequence for publication in kept.again(ALL)]


def test_what_was_acknowledged_is_kept_in_order() -> None:
    kept = ResendBuffer()
    kept.acknowledging(_session(1, 2, 3), 2, 0.0)
    assert _kept(kept) == [1, 2]


def test_what_is_old_is_forgotten() -> None:
    kept = ResendBuffer()
    kept.acknowledging(_session(1), 1, 0.0)
    kept.acknowledging(_session(2), 1, KEEP_S + 1.0)
    assert _kept(kept) == [2]


def test_no_more_is_kept_than_there_is_room_for() -> None:
    kept = ResendBuffer()
    for sequence in range(1, 6):
        kept.acknowledging(_session(sequence, size=KEEP_BYTES // 3), 1, 0.0)
    assert _kept(kept) == [4, 5]


def test_what_is_no_longer_advertised_is_not_offered() -> None:
    kept = ResendBuffer()
    kept.acknowledging(_session(1), 1, 0.0)
    assert kept.again([parse_filter("class = 'y'")]) == []


def test_what_is_acknowledged_again_is_kept_once_and_not_for_longer() -> None:
    kept = ResendBuffer()
    kept.acknowledging(_session(1, 2), 2, 0.0)
    kept.acknowledging(_session(1, 2, 3), 3, KEEP_S - 1.0)
    assert _kept(kept) == [1, 2, 3]
    kept.acknowledging(_session(), 0, KEEP_S + 1.0)
    assert _kept(kept) == [3]


def test_what_is_held_anyway_is_not_offered_twice() -> None:
    kept = ResendBuffer()
    kept.acknowledging(_session(1, 2, 3), 3, 0.0)
    held = list(_session(3, 4).unacked)
    assert [publication.sequence for publication in kept.again(ALL, held)] == [1, 2]
