"""The loop while everything around it fails; and a checker that would notice."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import Any

import pytest

from pubweave.control.settings import ControlSettings, OperatorLimits, QuietHours
from pubweave.model.decisions import ControlMode, DecisionInputs, DecisionState
from pubweave.model.ids import Link
from pubweave.model.topology import Topology
from pubweave.sim.autopilot.checker import AutopilotChecker, Deployed
from pubweave.sim.autopilot.scenario import FAULTS, AutopilotScenario
from pubweave.sim.kernel.trace import Trace
from tests.unit.control.world import record

BEFORE = Topology.from_links([("b1", "b2"), ("b2", "b3"), ("b3", "b4")])
AFTER = Topology.from_links([("b1", "b3"), ("b2", "b3"), ("b3", "b4")])
INPUTS = DecisionInputs(
    profile_id="p",
    window_started_at=0.0,
    window_ended_at=60.0,
    topology_hash="",
    notifications_per_s=1.0,
    cost_ms_per_s=1.0,
    cost_ms_per_notification=1.0,
)


@pytest.mark.parametrize("fault", FAULTS)
def test_under_every_kind_of_fault_the_loop_keeps_its_word(fault: str) -> None:
    result = AutopilotScenario(21, max_brokers=7, fault=fault).run()
    assert result.violations == (), result.setting
    assert result.counts["decisions"] > 0


@pytest.mark.slow
def test_many_seeds_keep_their_word() -> None:
    for seed in range(100, 140):
        result = AutopilotScenario(seed).run()
        assert result.violations == (), (seed, result.setting)


def test_a_change_that_begins_just_before_the_end_is_recorded() -> None:
    assert AutopilotScenario(27900001).run().violations == ()


def test_the_same_seed_gives_the_same_run() -> None:
    digests = set()
    for _ in range(2):
        trace = Trace(io.StringIO())
        digests.add(
            AutopilotScenario(9, max_brokers=6, fault="all", trace=trace).run().trace_digest
        )
    assert len(digests) == 1


def change(**changed: Any) -> Deployed:
    decision = record("000001", DecisionState.DEPLOYING, inputs=INPUTS, decided_at=1000.0)
    made = Deployed(decision, 1000.0, 1010.0, BEFORE, AFTER, is_whole=True)
    return replace(made, **changed)


def judged(settings: ControlSettings, *changes: Deployed) -> list[str]:
    checker = AutopilotChecker(settings)
    for each in changes:
        checker.handed_over(each)
    return checker.violations


AUTO = ControlSettings(mode=ControlMode.AUTO, free_period_s=0.0, period_s=1.0, stand_down_s=60.0)


def test_the_checker_lets_a_good_change_pass() -> None:
    assert judged(AUTO, change()) == []


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (replace(AUTO, mode=ControlMode.OBSERVE), "in mode observe"),
        (replace(AUTO, mode=ControlMode.APPROVE), "without anybody's consent"),
        (
            replace(AUTO, limits=OperatorLimits(pinned=frozenset({Link("b1", "b2")}))),
            "removed the pinned link b1-b2",
        ),
        (
            replace(AUTO, limits=OperatorLimits(forbidden=frozenset({Link("b1", "b3")}))),
            "brought the forbidden link b1-b3",
        ),
        (replace(AUTO, limits=OperatorLimits(max_degree=2)), "gave b3 more than 2 links"),
        (replace(AUTO, limits=OperatorLimits(links_per_change=0)), "changed 1 links at once"),
        (replace(AUTO, limits=OperatorLimits(links_per_day=0)), "1 changed links within a day"),
        (
            replace(AUTO, limits=OperatorLimits(quiet_hours=(QuietHours.parse("00:00-01:00"),))),
            "quiet hours 00:00-01:00",
        ),
    ],
)
def test_the_checker_notices_what_the_operator_forbade(
    settings: ControlSettings, words: str
) -> None:
    (said,) = judged(settings, change())
    assert words in said


def test_the_checker_notices_haste_and_repetition() -> None:
    later = record("000002", DecisionState.DEPLOYING, inputs=INPUTS, decided_at=1020.0)
    second = change(decision=later, before=AFTER, after=BEFORE, began_at=1020.0, ended_at=1030.0)
    assert judged(AUTO, change(), second) == []
    hasty = judged(replace(AUTO, free_period_s=50.0), change(), second)
    assert "within the free period of 000001" in hasty[0]
    failed = judged(AUTO, change(is_whole=False), second)
    assert "right after the failure of 000001" in failed[0]
    twice = judged(AUTO, change(), change(before=AFTER))
    assert any("handed over twice" in said for said in twice)


def test_the_checker_notices_records_that_contradict_each_other() -> None:
    checker = AutopilotChecker(AUTO)
    waiting = record("000001", DecisionState.WAITING)
    checker.check_records([waiting, record("000002", DecisionState.APPROVED)], 1.0)
    assert "more than one decision is open" in checker.violations[0]
    ended = AutopilotChecker(AUTO)
    ended.check_end([record("000001", DecisionState.DEPLOYING, decided_at=99.0)], 100.0)
    assert "is still deploying" in ended.violations[0]
    asleep = AutopilotChecker(AUTO)
    asleep.check_end([record("000001", DecisionState.CLOSED, decided_at=1.0)], 1000.0)
    assert "the loop sleeps" in asleep.violations[0]
