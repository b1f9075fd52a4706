"""No run of the simulator has changed: the oracle for changes that only move or rename code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from soak.trace_digests import digests, runs

DIGESTS = json.loads(Path(__file__).with_name("trace_digests.json").read_text())
FAST_SEEDS = 1


def test_every_run_is_written_down() -> None:
    assert list(DIGESTS) == [f"{scenario} {durability}" for scenario, durability in runs()]


@pytest.mark.parametrize(("scenario", "durability"), runs())
def test_the_first_runs_are_as_they_were(scenario: str, durability: str) -> None:
    expected = DIGESTS[f"{scenario} {durability}"][:FAST_SEEDS]
    assert digests(scenario, durability, FAST_SEEDS, jobs=1) == expected, (
        "a run has changed: if that is meant, python -m soak.trace_digests "
        "--write tests/sim/trace_digests.json"
    )


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize(("scenario", "durability"), runs())
def test_all_runs_are_as_they_were(scenario: str, durability: str) -> None:
    expected = DIGESTS[f"{scenario} {durability}"]
    assert digests(scenario, durability, len(expected), jobs=2) == expected
