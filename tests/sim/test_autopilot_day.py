"""A virtual day: the accounts are right, the loop keeps its word, and it pays."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest

from pubweave.control.settings import ControlSettings
from pubweave.model.decisions import ControlMode, DecisionState
from pubweave.model.ids import Link
from pubweave.model.topology import validate_tree
from pubweave.sim.autopilot.day import Change, DayCost, DayOverlay, Policy, run_day, starting_tree
from pubweave.sim.autopilot.drifting_traffic import SLOT_S, DaySetting, DriftingWorld
from tests.naive.control import naive_cost
from tests.naive.traffic import groups_of

SMALL = DaySetting(brokers=8, regions=2, topics=10, sets_per_topic=2, hours=3.0, hot_s=3600.0)
DEAR = replace(SMALL, rate_per_s=5.0, entries_per_broker=3000.0)
"""Little traffic and large tables: a change costs as much as many notifications."""
SETTINGS = ControlSettings(mode=ControlMode.AUTO, few_links=(1, 3), keep_records=1000)


def test_traffic_costs_what_the_slow_twin_says() -> None:
    world = DriftingWorld(SMALL, 3)
    tree = starting_tree(world)
    validate_tree(tree)
    overlay = DayOverlay(world, tree, SETTINGS)
    overlay.advance(2.5 * SLOT_S)
    slow = 0.0
    for start, length in ((0.0, SLOT_S), (SLOT_S, SLOT_S), (2 * SLOT_S, SLOT_S / 2)):
        truth = world.truth(tree, start)
        prices = truth.prices
        processing = dict(zip(prices.brokers, prices.processing.tolist(), strict=True))
        latency = {link: prices.of_link(link) for link in tree.links}
        slow += naive_cost(tree, groups_of(truth.traffic), processing, latency) / SLOT_S * length
    assert overlay.account.traffic_ms == pytest.approx(slow)


def test_a_profile_shows_the_truth_with_an_error_that_shrinks_with_its_window() -> None:
    world = DriftingWorld(replace(SMALL, price_error=0.0), 1)
    tree = starting_tree(world)
    rng = np.random.default_rng(0)
    errors = []
    for window_s in (30.0, SLOT_S):
        offs = []
        for _ in range(20):
            seen = world.measured(tree, 0.0, window_s, rng)
            true = world.truth(tree, 0.0)
            offs.append(seen.notifications_per_s / true.notifications_per_s - 1.0)
        errors.append(float(np.std(offs)))
    assert errors[1] < errors[0] < 0.2


def test_every_policy_lives_through_the_same_day() -> None:
    static, _ = run_day(Policy.STATIC, SMALL, SETTINGS, 5)
    again, _ = run_day(Policy.STATIC, SMALL, SETTINGS, 5)
    other, _ = run_day(Policy.STATIC, SMALL, SETTINGS, 6)
    assert static.total_ms == again.total_ms != other.total_ms
    assert static.changes == []


@pytest.mark.parametrize("seed", [11, 12, 13])
def test_where_changes_are_dear_the_autopilot_costs_less_than_its_rivals(seed: int) -> None:
    auto, records = run_day(Policy.AUTOPILOT, DEAR, SETTINGS, seed)
    static, _ = run_day(Policy.STATIC, DEAR, SETTINGS, seed)
    follow, _ = run_day(Policy.FOLLOW, DEAR, SETTINGS, seed)
    assert auto.total_ms < static.total_ms
    assert auto.total_ms < follow.total_ms
    assert auto.undone_within(SETTINGS.free_period_s) == 0
    assert 0 < len(auto.changes) < len(follow.changes)
    done = [each for each in records if each.state is DecisionState.DEPLOYED]
    assert len(done) == len(auto.changes)
    gaps = np.diff([change.at for change in auto.changes])
    assert (gaps >= SETTINGS.free_period_s).all()


def test_flapping_is_counted() -> None:
    a, b = frozenset({Link("b1", "b2")}), frozenset({Link("b1", "b3")})
    account = DayCost(changes=[Change(0.0, a, b, 1.0), Change(50.0, b, a, 1.0)])
    assert account.undone_within(100.0) == 2
    assert account.undone_within(50.0) == 0
    assert account.links_changed == 2


def test_a_day_is_the_same_under_another_hash_seed() -> None:
    code = (
        "from tests.sim.test_autopilot_day import *\n"
        "account, records = run_day(Policy.AUTOPILOT, SMALL, SETTINGS, 4)\n"
        "print(repr(account.total_ms), [(r.id, r.verdict.value, r.plan_hash) for r in records])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", code],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1
