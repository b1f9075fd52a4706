"""No run of the simulator has changed: the oracle for changes that only move or rename code."""

from __future__ import annotations

import json
import os
import subprocess
import sys
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


@pytest.mark.slow
@pytest.mark.parametrize(("scenario", "durability"), runs())
def test_no_run_depends_on_the_hash_seed_or_on_how_many_run_at_once(
    scenario: str, durability: str
) -> None:
    code = f"from soak.trace_digests import digests; print(digests({scenario!r}, {durability!r}, 2,"
    found = {
        subprocess.run(
            [sys.executable, "-c", f"{code} jobs={jobs}))"],
            env={**os.environ, "PYTHONHASHSEED": hash_seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for hash_seed, jobs in (("1", 1), ("2", 2))
    }
    assert len(found) == 1
