"""``pubweave autopilot`` and ``pubweave decisions``: options, windows and words; no server."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from pubweave.autopilot.telemetry_window import link_window
from pubweave.cli import main
from pubweave.cli.autopilot.autopilot import _KEYS, _configured, _settings, autopilot
from pubweave.cli.autopilot.decisions_view import (
    autopilot_in_words,
    decision_lines,
    print_decision,
    print_decisions,
)
from pubweave.control.gate import History, decide
from pubweave.control.settings import ControlSettings
from pubweave.model.decisions import (
    AutopilotPhase,
    AutopilotStatus,
    ControlMode,
    DecisionRecord,
    DecisionState,
    Measurement,
)
from pubweave.model.ids import Link
from pubweave.telemetry.run_description import (
    RunClock,
    RunDescription,
    TelemetryError,
    write_run_description,
)
from tests.unit.control.world import CHAIN, evidence, options_for, record

GIVEN: dict[str, Any] = {
    "mode": "approve", "period": 60.0, "free_period": 120.0, "least_saving": 0.05, "review": 30.0,
    "max_degree": 4, "pins": ("b1-b2",), "bans": ("b1-b3",), "budget_per_change": 3,
    "budget_per_day": 9, "quiet_hours": ("22:00-06:00",), "window": 20.0, "change_weight": 2.0,
}  # fmt: skip
STATUS = AutopilotStatus(
    name="host:1",
    mode=ControlMode.AUTO,
    started_at=0.0,
    phase=AutopilotPhase.STANDING_DOWN,
    phase_since=0.0,
    next_look_at=200.0,
    stands_down_until=300.0,
    notice="no profile: Java is gone",
)


def a_change() -> DecisionRecord:
    settings = ControlSettings(mode=ControlMode.APPROVE, few_links=(1,))
    made = decide(
        "demo", evidence(), options_for(evidence(), settings), History(), settings, 1000.0
    )
    return DecisionRecord(**{**{f: getattr(made, f) for f in made.__struct_fields__}, "id": "7"})


def test_options_become_settings() -> None:
    settings = _settings(GIVEN, CHAIN)
    assert settings.mode is ControlMode.APPROVE
    assert (settings.period_s, settings.free_period_s, settings.horizon_s) == (60.0, 120.0, 120.0)
    limits = settings.limits
    assert limits.pinned == {Link("b1", "b2")}
    assert limits.forbidden == {Link("b1", "b3")}
    assert (limits.links_per_change, limits.links_per_day) == (3, 9)
    assert [str(span) for span in limits.quiet_hours] == ["22:00-06:00"]
    assert limits.utc_offset_s == time.localtime().tm_gmtoff
    assert settings.demands.window_s == 20.0
    assert settings.prices.weight == 2.0


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"quiet_hours": ("late",)}, "--quiet-hours"),
        ({"pins": ("b1-b99",)}, "b99"),
        ({"pins": ("b1-b2",), "bans": ("b1-b2",)}, "both pinned and forbidden"),
    ],
)
def test_options_that_cannot_be_are_named(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(Exception, match=words):
        _settings({**GIVEN, **changed}, CHAIN)


@pytest.mark.parametrize(
    "verb", [("autopilot",), ("decisions", "list"), ("decisions", "show", "1")]
)
def test_without_an_overlay_the_verbs_say_so(
    verb: tuple[str, ...], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run([*verb, "--run-dir", str(tmp_path)]) == 2
    assert "no overlay in" in capsys.readouterr().err


# --- the window ----------------------------------------------------------------------------------


def telemetry(folder: Path, ages_s: dict[str, list[float]], now: float) -> Path:
    """A run's directory whose files were written so long ago."""
    write_run_description(folder, RunDescription("run", RunClock.UNIX, now - 1000.0, 1.0))
    for table, ages in ages_s.items():
        (folder / table).mkdir()
        for number, age_s in enumerate(ages):
            file = folder / table / f"{number}.parquet"
            file.write_bytes(b"")
            os.utime(file, (now - age_s, now - age_s))
        (folder / table / ".half.parquet").write_bytes(b"")
    return folder


def test_a_window_has_all_state_and_only_the_traffic_since(tmp_path: Path) -> None:
    now = time.time()
    ages = {"subscription_changes": [900.0, 5.0], "publications": [200.0, 97.0, 50.0],
            "deliveries": [200.0, 97.0, 50.0]}  # fmt: skip
    run = telemetry(tmp_path / "telemetry", ages, now)
    assert link_window(run, tmp_path / "window", now - 100.0) == 2 + 1 + 2
    assert sorted(os.listdir(tmp_path / "window" / "publications")) == ["2.parquet"]
    assert sorted(os.listdir(tmp_path / "window" / "deliveries")) == ["1.parquet", "2.parquet"]
    assert (tmp_path / "window" / "run.json").is_file()


def test_a_window_takes_the_place_of_the_last_one(tmp_path: Path) -> None:
    now = time.time()
    run = telemetry(tmp_path / "telemetry", {"publications": [50.0, 10.0]}, now)
    assert link_window(run, tmp_path / "window", now - 100.0) == 2
    assert link_window(run, tmp_path / "window", now - 30.0) == 1
    assert sorted(os.listdir(tmp_path / "window" / "publications")) == ["1.parquet"]


def test_a_directory_that_is_no_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TelemetryError, match=r"has no run\.json"):
        link_window(tmp_path, tmp_path / "window", 0.0)


# --- words ---------------------------------------------------------------------------------------


def test_the_loop_is_told_in_one_sentence() -> None:
    words = autopilot_in_words(STATUS, 100.0)
    assert words.startswith("the autopilot (host:1, mode auto) is standing down; next look at ")
    assert "last trouble: no profile: Java is gone" in words
    assert "next look" not in autopilot_in_words(STATUS, 1000.0)
    assert autopilot_in_words(None, 0.0).startswith("no autopilot is running")


def test_a_list_shows_each_decision_and_how_to_answer(capsys: pytest.CaptureFixture[str]) -> None:
    waiting = record("000012", DecisionState.WAITING, expires_at=5.0)
    print_decisions([record("000011", DecisionState.CLOSED), waiting], None, 0.0)
    out = capsys.readouterr().out
    assert "pubweave decisions approve 12" in out
    assert "approve 11" not in out
    print_decisions([], None, 0.0)
    assert "no decisions yet" in capsys.readouterr().out


def test_a_decision_is_shown_from_what_was_known_to_how_it_turned_out(
    capsys: pytest.CaptureFixture[str],
) -> None:
    measured = Measurement(
        profile_id="p", measured_at=9.0, cost_ms_per_s=1.0,
        cost_ms_per_notification=2.0, prediction_error=0.031,
    )  # fmt: skip
    made = a_change()
    done = (
        made.moved_to(DecisionState.APPROVED, reviewed_by="ann", reviewed_at=5.0)
        .moved_to(DecisionState.DEPLOYING)
        .moved_to(DecisionState.DEPLOYED, deployment="3-ab", measured=measured)
    )
    labels = [label for label, _ in decision_lines(done)]
    assert labels == [
        "decision", "verdict", "profile", "prediction", "state", "reviewed", "deployment",
        "measured",
    ]  # fmt: skip
    print_decision(done)
    out = capsys.readouterr().out
    assert "+3.1% off the prediction" in out
    assert "chosen" in out
    assert "shift(" in out


def test_the_table_of_a_file_holds_unless_a_flag_was_given(tmp_path: Path) -> None:
    (tmp_path / "o.toml").write_text("[autopilot]\nperiod_s = 7\nseed = 3\npins = ['b1-b2']\n")
    arguments = ["--seed", "5", "--set", "autopilot.links_per_day=9"]
    context = autopilot.make_context("autopilot", arguments)
    found = _configured(context, tmp_path / "o.toml", context.params["sets"])
    assert (found["period"], found["pins"], found["budget_per_day"]) == (7.0, ("b1-b2",), 9)
    assert "seed" not in found


def test_options_and_the_table_have_the_same_defaults() -> None:
    context = autopilot.make_context("autopilot", [])
    given = context.params
    assert {name: given[name] for name in _KEYS} == _configured(context, None, ())
