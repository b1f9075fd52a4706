from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from pubweave.cli.lab.simulate import simulate
from pubweave.core.session.session import Session
from pubweave.sim.kernel.marks import MARKS
from pubweave.sim.kernel.results import RunResult
from pubweave.telemetry.parquet import read_table


def test_a_clean_run_exits_with_0_and_counts_what_happened() -> None:
    arguments = ["routing", "--seeds", "2", "--max-brokers", "5", "--jobs", "1", "--json"]
    result = CliRunner().invoke(simulate, arguments)
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["runs"] == 2
    assert document["violations"] == 0
    assert document["counts"]["deliveries"] > 0
    assert document["marks"]["RESUMED_IN_WINDOW"] <= 2
    assert document["marks"].keys() == MARKS.keys()


def test_the_rare_branches_that_runs_have_reached_are_counted_and_listed() -> None:
    arguments = ["routing", "--seeds", "2", "--max-brokers", "5", "--jobs", "1"]
    short = CliRunner().invoke(simulate, arguments).stdout
    long = CliRunner().invoke(simulate, [*arguments, "--marks"]).stdout
    assert f" of {len(MARKS)} rare branches reached" in short
    assert MARKS["FULL_GATE"] not in short
    assert all(f" {name} " in long for name in MARKS)


def test_a_violation_exits_with_1_and_says_how_to_see_it_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Session, "retransmit", Session.pump)
    arguments = ["routing", "--seed", "1", "--max-brokers", "5"]
    result = CliRunner().invoke(simulate, arguments)
    assert result.exit_code == 1
    assert f"again: pubweave simulate {' '.join(arguments)} --trace" in result.stdout


def test_a_bug_in_a_run_is_a_violation_of_its_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Session, "take_ack", lambda *_: 1 / 0)
    result = CliRunner().invoke(simulate, ["routing", "--seed", "1", "--json"])
    assert result.exit_code == 1
    assert "ZeroDivisionError at" in json.loads(result.stdout)["failed"][0]["violations"][0]


def test_a_trace_is_printed_for_one_seed_only() -> None:
    runner = CliRunner()
    refused = runner.invoke(simulate, ["routing", "--trace"])
    assert refused.exit_code == 2
    assert "--seed N" in refused.stderr
    shown = runner.invoke(simulate, ["routing", "--seed", "3", "--max-brokers", "4", "--trace"])
    assert shown.exit_code == 0
    assert "transmit c1 Hello(" in shown.stdout


def test_an_unknown_scenario_is_refused_with_those_there_are() -> None:
    result = CliRunner().invoke(simulate, ["weather"])
    assert result.exit_code == 2
    assert "routing" in result.stderr


def test_several_seeds_write_their_telemetry_apart(tmp_path: Path) -> None:
    arguments = ["routing", "--seeds", "2", "--max-brokers", "5", "--telemetry", str(tmp_path)]
    assert CliRunner().invoke(simulate, arguments).exit_code == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["seed-0", "seed-1"]
    assert len(read_table(tmp_path / "seed-0", "publications")) > 0


def test_a_violation_is_replayed_with_every_option_that_changes_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    matrix = tmp_path / "my rtt.csv"
    matrix.write_text("0,8\n8,0\n")
    monkeypatch.setattr(Session, "take_ack", lambda *_: 1 / 0)
    arguments = ["routing", "--seed", "1", "--max-brokers", "2", "--rtt", str(matrix)]
    result = CliRunner().invoke(simulate, arguments)
    assert result.exit_code == 1
    told = next(line for line in result.stdout.splitlines() if "again:" in line)
    assert shlex.split(told) == ["again:", "pubweave", "simulate", *arguments, "--trace"]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("round trips", "rtt.csv: not a matrix of numbers"),
        ("0,8\n", "rtt.csv: 1 rows of 2 columns, not square"),
        ("", "rtt.csv: the file is empty; give a square CSV of round-trip times in ms"),
        ("0,8\n8,0\n", "rtt.csv: 2 rows are too few for 3 brokers: give a larger matrix, or"),
        ("0,0,0\n0,0,0\n0,0,0\n", "rtt.csv: the RTT matrix holds no measurement at all"),
    ],
)
def test_a_matrix_that_cannot_be_used_is_bad_input_not_a_violation(
    tmp_path: Path, text: str, told: str
) -> None:
    matrix = tmp_path / "rtt.csv"
    matrix.write_text(text)
    arguments = ["routing", "--seeds", "2", "--max-brokers", "3", "--rtt", str(matrix)]
    result = CliRunner().invoke(simulate, arguments)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert told in result.stderr


def test_a_transformation_is_counted_and_measured() -> None:
    arguments = ["transform", "--seeds", "1", "--fault", "none", "--max-brokers", "8"]
    result = CliRunner().invoke(simulate, [*arguments, "--jobs", "1", "--json"])
    assert result.exit_code == 0
    document = json.loads(result.stdout)
    assert document["counts"]["actions_committed"] > 0
    assert document["measures"]["hold_ms_max"]["max"] > 0
    shown = CliRunner().invoke(simulate, [*arguments, "--jobs", "1"])
    assert "hold_ms_max: median" in shown.stdout


def test_a_fault_is_chosen_where_there_are_kinds_of_faults_and_is_part_of_the_replay(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refused = CliRunner().invoke(simulate, ["routing", "--fault", "none"])
    assert refused.exit_code == 2
    assert "routing: unknown fault 'none': choose long_pauses" in refused.stderr
    monkeypatch.setattr(Session, "take_ack", lambda *_: 1 / 0)
    result = CliRunner().invoke(simulate, ["transform", "--seed", "1", "--fault", "control"])
    assert result.exit_code == 1
    assert "again: pubweave simulate transform --seed 1 --fault control --trace" in result.stdout


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_with_the_runs_it_has(
    monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    def interrupted_seeds(*args: Any, **options: Any) -> Iterator[RunResult]:
        yield RunResult("routing", 0, ())
        os.kill(os.getpid(), number)
        yield RunResult("routing", 1, ())

    monkeypatch.setattr("pubweave.sim.simulate.run_seeds", interrupted_seeds)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as a shell starts a background job
    try:
        result = CliRunner().invoke(simulate, ["routing", "--seeds", "9"])
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.exit_code == 1
    assert "stopped after 1 of 9 runs" in result.stderr
    assert "1 runs, 0 failed" in result.stdout


def test_brokers_can_be_stopped_for_long_where_there_are_brokers() -> None:
    arguments = ["routing", "--seed", "3", "--max-brokers", "4", "--pause", "35", "60", "--json"]
    result = CliRunner().invoke(simulate, arguments)
    assert result.exit_code == 0
    assert json.loads(result.stdout)["counts"]["broker_pause"] >= 2
    refused = CliRunner().invoke(simulate, ["autopilot", "--pause", "35", "60"])
    assert refused.exit_code == 2
    assert "autopilot: pause_s is not an option of this scenario" in refused.stderr


OWN_SCENARIO = Path(__file__).parents[4] / "examples" / "own_scenario.py"


@pytest.fixture
def storms(tmp_path: Path) -> dict[str, str]:
    """An environment with a package that adds scenarios, installed beside pubweave."""
    info = tmp_path / "storms-1.0.dist-info"
    info.mkdir()
    (tmp_path / "storms.py").write_text(OWN_SCENARIO.read_text() + "\n\nNONE = 1\n")
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: storms\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[pubweave.scenarios]\nstorm = storms:STORM\nnone = storms:NONE\n"
    )
    paths = [str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def pubweave(environment: dict[str, str], *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pubweave", "simulate", *arguments],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_scenario_of_an_installed_package_is_listed_and_run(storms: dict[str, str]) -> None:
    done = pubweave(storms, "storm", "--seeds", "2", "--jobs", "2", "--json")
    assert done.returncode == 0, done.stderr
    document = json.loads(done.stdout)
    assert (document["scenario"], document["runs"], document["violations"]) == ("storm", 2, 0)
    assert document["counts"]["lightning"] == 4
    assert document["counts"]["deliveries"] > 0
    listed = pubweave(storms, "--list")
    assert listed.returncode == 0, listed.stderr
    assert "storm       a chain of brokers that lightning strikes" in listed.stdout
    assert "routing     random trees" in listed.stdout
    assert (
        "none        the entry point 'none' of pubweave.scenarios names no Scenario"
        in listed.stdout
    )


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["gale"], "no 'gale' in scenarios: choose autopilot, churn"),
        (["none"], "'none' of pubweave.scenarios names no Scenario"),
        (["storm", "--durability", "journal"], "storm: durability is not an option"),
    ],
)
def test_a_scenario_that_cannot_be_run_is_refused(
    storms: dict[str, str], arguments: list[str], told: str
) -> None:
    refused = pubweave(storms, *arguments)
    assert refused.returncode == 2
    assert told in refused.stderr
