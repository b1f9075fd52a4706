"""Windows on the common clock: the same for everybody, none forgotten, none twice."""

from __future__ import annotations

import pytest

from pubweave.core.self_organizing.traffic_sides import Windows


def test_windows_are_the_same_whenever_a_broker_started() -> None:
    early, late = Windows(5.0, 100.1), Windows(5.0, 104.9)
    assert early.number == late.number == 20
    assert early.ends_at == late.ends_at == 105.0


def test_a_turn_tells_how_many_windows_ended() -> None:
    windows = Windows(5.0, 3.0)
    assert [windows.turn(now) for now in (3.5, 4.99, 5.0, 5.0, 22.0)] == [0, 0, 1, 0, 3]
    assert windows.number == 4


@pytest.mark.parametrize("interval_s", [0.1, 0.7, 1 / 3, 5 / 3])
def test_at_its_end_a_window_is_over_however_numbers_are_rounded(interval_s: float) -> None:
    windows = Windows(interval_s, 1_700_000_000.3)
    for _ in range(1_000):
        before = windows.number
        assert windows.turn(windows.ends_at) == 1
        assert windows.number == before + 1
