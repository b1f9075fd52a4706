from __future__ import annotations

import math

from pubweave.deploy.executor import StepClock


def test_no_time_runs_between_steps() -> None:
    clock = StepClock(10.0, 3.0)
    assert not clock.is_late(1e9)
    assert list(clock.deadlines()) == [math.inf]


def test_a_step_is_late_after_its_time_and_each_step_has_its_own() -> None:
    clock = StepClock(10.0, 3.0)
    clock.run("1-a", 0, 5.0)
    clock.run("1-a", 0, 9.0)
    assert not clock.is_late(14.9)
    assert clock.is_late(15.0)
    clock.run("1-a", 1, 15.0)
    assert not clock.is_late(24.0)
    clock.stop()
    assert not clock.is_late(100.0)


def test_a_broker_is_gone_after_its_grace_and_forgiven_when_it_is_back() -> None:
    clock = StepClock(10.0, 3.0)
    clock.run("1-a", 0, 0.0)
    clock.check(["b1", "b2"], ["b2"], 1.0)
    clock.check(["b1", "b2"], [], 2.0)
    assert clock.missing == ("b1", "b2")
    assert sorted(clock.deadlines()) == [4.0, 5.0, 10.0]
    assert clock.gone(4.0) == ["b1"]
    clock.check(["b1", "b2"], ["b1"], 4.5)
    assert clock.gone(4.5) == []
    assert clock.gone(5.0) == ["b2"]
