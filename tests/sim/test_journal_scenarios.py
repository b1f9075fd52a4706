"""Runs with journals: brokers crash in each, disks fail, and nothing acknowledged is lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from pubweave.core.journal.engine import EffectOrder
from pubweave.sim.kernel.disk import SimDisk
from pubweave.sim.kernel.results import RunResult
from pubweave.sim.simulate import DURABLE, run_seed

SMALL = 6


def run(scenario: str, seed: int, max_brokers: int = SMALL) -> RunResult:
    return run_seed(scenario, seed, durability="journal", max_brokers=max_brokers)


def test_a_run_loses_nothing() -> None:
    results = [run("routing", 1, 4)]
    assert not [violation for result in results for violation in result.violations]
    assert sum(result.counts["recoveries"] for result in results) > 0
    assert sum(result.counts["replayed"] for result in results) > 0


def test_a_subscription_that_was_not_on_disk_yet_is_owed_nothing_by_those_who_left() -> None:
    assert not run("routing", 715001, 30).violations


def test_remembered_routes_know_who_has_not_answered_yet() -> None:
    """They did not, so a neighbor that gets everything got less than after a replay."""
    assert not run("routing", 710108, 30).violations


@pytest.mark.parametrize(("scenario", "seed"), [("churn", 5), ("rendezvous", 2)])
def test_brokers_that_route_by_topic_come_back_to_an_overlay_that_was_mended(
    scenario: str, seed: int
) -> None:
    """Some stay away for good, the others come back, and some clients do not wait for them."""
    result = run(scenario, seed, 4)
    assert not result.violations
    assert result.counts["recoveries"] > 0
    assert result.counts["due"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("scenario", DURABLE)
def test_more_seeds_lose_nothing(scenario: str) -> None:
    failed = {
        seed: result.violations[:3]
        for seed in range(12)
        if (result := run(scenario, seed, 12)).violations
    }
    assert not failed


@pytest.mark.slow
def test_effects_that_do_not_wait_are_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """If acknowledgements left before their event is on disk, runs would show it."""
    monkeypatch.setattr(EffectOrder, "_has_to_wait", lambda self, effect: False)
    assert any(run("routing", seed).violations for seed in range(4))


@pytest.mark.slow
@pytest.mark.parametrize("scenario", ["churn", "rendezvous"])
def test_topic_brokers_whose_effects_do_not_wait_are_caught(
    scenario: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(EffectOrder, "_has_to_wait", lambda self, effect: False)
    assert any(run(scenario, seed, 8).violations for seed in range(8))


@pytest.mark.slow
def test_a_disk_that_forgets_what_was_synced_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SimDisk, "_sync", lambda self, name: None)
    assert any(run("routing", seed).violations for seed in range(4))


@pytest.mark.slow
def test_a_journal_is_replayed_alike_in_a_process_with_another_hash_seed(tmp_path: Path) -> None:
    """Sets of names have another order there: none of it may reach what a broker does."""
    for hash_seed, verb in (("1", "write"), ("2", "check")):
        done = subprocess.run(
            [sys.executable, "-m", "tests.sim.journal_files", verb, str(tmp_path)],
            env={"PYTHONHASHSEED": hash_seed, "PATH": "/usr/bin:/bin"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
