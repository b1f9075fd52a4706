"""Days under each policy: measured alike, judged by the worst, and shown."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from pubweave.cli import main
from pubweave.experiments import autopilot_days
from pubweave.experiments.autopilot_days import (
    Day,
    PolicyDay,
    bars,
    day_settings,
    measure_day,
)
from pubweave.sim.autopilot.day import Policy
from pubweave.sim.autopilot.drifting_traffic import DaySetting

SETTINGS = day_settings(300.0, 900.0)
TINY = DaySetting(brokers=5, regions=1, topics=4, sets_per_topic=2, hours=1.0)


def day(seed: int, auto: float, static: float, follow: float, undone: int = 0) -> Day:
    made = {
        policy: PolicyDay(total, total, 0.0, 3, 5, 0)
        for policy, total in (
            (Policy.STATIC, static),
            (Policy.ONCE, static),
            (Policy.FOLLOW, follow),
            (Policy.AUTOPILOT, auto),
        )
    }
    made[Policy.AUTOPILOT] = replace(made[Policy.AUTOPILOT], undone=undone)
    return Day(seed, made, looks=10, decided=3, prediction_error=0.02)


def test_good_days_meet_every_bar() -> None:
    assert all(bar.is_met for bar in bars([day(1, 60.0, 100.0, 70.0)], SETTINGS))


@pytest.mark.parametrize(
    ("bad", "missed"),
    [
        (day(2, 71.0, 100.0, 90.0), 0),
        (day(2, 60.0, 100.0, 60.0), 1),
        (day(2, 60.0, 100.0, 70.0, undone=1), 2),
    ],
)
def test_one_bad_day_misses_a_bar_however_good_the_others_are(bad: Day, missed: int) -> None:
    judged = bars([day(1, 10.0, 100.0, 70.0), bad], SETTINGS)
    assert [number for number, bar in enumerate(judged) if not bar.is_met] == [missed]


def test_more_changes_than_free_periods_are_noticed() -> None:
    busy = day(1, 60.0, 100.0, 70.0)
    auto = replace(busy.by_policy[Policy.AUTOPILOT], changes=97)
    judged = bars([replace(busy, by_policy={**busy.by_policy, Policy.AUTOPILOT: auto})], SETTINGS)
    assert [bar.is_met for bar in judged] == [True, True, True, False]


def test_a_day_is_measured_under_every_policy_and_its_parts_add_up() -> None:
    measured = measure_day(3, TINY, SETTINGS)
    assert set(measured.by_policy) == set(Policy)
    for each in measured.by_policy.values():
        assert each.total_ms == pytest.approx(each.traffic_ms + each.change_ms)
    assert measured.by_policy[Policy.STATIC].changes == 0
    assert measured.looks > 5
    assert measured.as_json()["below"]["static"] == pytest.approx(
        measured.below(Policy.STATIC), abs=1e-4
    )


@pytest.mark.parametrize(("auto", "code", "word"), [(60.0, 0, "met"), (80.0, 1, "not met")])
def test_the_verb_shows_days_and_bars(
    auto: float,
    code: int,
    word: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(
        autopilot_days, "measure_day", lambda seed, *_: day(seed, auto, 100.0, 90.0)
    )
    arguments = ["reproduce", "autopilot-day", "--seeds", "2", "--first-seed", "7", "--jobs", "1"]
    arguments += ["--out", str(tmp_path)]
    assert main.run(arguments) == code
    assert word in capsys.readouterr().out
    assert main.run([*arguments, "--json"]) == code
    told = json.loads(capsys.readouterr().out)
    assert [each["seed"] for each in told["days"]] == [7, 8]
    assert told == {**told, "days": json.loads((tmp_path / "autopilot-day.json").read_text())}
