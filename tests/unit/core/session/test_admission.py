"""Limits at the door: by address, by rate, all together."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubweave.core.config.entry_limits import EntryLimits
from pubweave.core.session import admission
from pubweave.core.session.admission import Admission, Refusal
from tests.naive.admission import NaiveAdmission

LIMITS = EntryLimits(
    connections=5, connections_per_address=3, connections_per_s=0.5, connection_burst=4
)
STEPS = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from([0.0, 0.5, 1.0, 4.0]), st.booleans()),
    max_size=60,
)


@settings(max_examples=50)
@given(STEPS)
def test_the_door_agrees_with_the_whole_history(steps: list[tuple[str, float, bool]]) -> None:
    door, naive = Admission(LIMITS), NaiveAdmission(LIMITS)
    inside: list[str] = []
    now = 0.0
    for host, pause_s, leaves in steps:
        now += pause_s
        if leaves and host in inside:
            inside.remove(host)
            door.left(host)
            naive.left(host)
            continue
        is_in = door.knocked(host, now) is None
        assert is_in == naive.knocked(host, now)
        inside += [host] * is_in
        assert door.connections == len(inside)


def test_whoever_is_turned_away_is_told_which_limit() -> None:
    door = Admission(LIMITS)
    assert [door.knocked("a", 0.0) for _ in range(3)] == [None] * 3
    found = door.knocked("a", 0.0)
    assert found is not None
    assert found.refusal is Refusal.CONNECTIONS_PER_ADDRESS
    assert "3 connections" in found.reason
    door.left("a")
    assert door.knocked("a", 0.0) is None
    door.left("a")
    too_quick = door.knocked("a", 0.0)
    assert too_quick is not None
    assert too_quick.refusal is Refusal.CONNECTION_RATE
    assert [door.knocked(host, 0.0) for host in "bcd"] == [None] * 3
    full = door.knocked("e", 0.0)
    assert full is not None
    assert full.refusal is Refusal.CONNECTIONS


def test_addresses_without_connections_are_forgotten_when_there_are_too_many(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admission, "ADDRESSES_MAX", 10)
    door = Admission(EntryLimits())
    assert door.knocked("stays", 0.0) is None
    for number in range(100):
        assert door.knocked(f"10.0.0.{number}", 0.0) is None
        door.left(f"10.0.0.{number}")
    assert len(door._addresses) <= 11
    assert "stays" in door._addresses


def test_limits_must_be_positive() -> None:
    with pytest.raises(ValueError, match="'connections' must be more than 0"):
        EntryLimits(connections=0)
