"""The verbs around profiles: what they print, and what they refuse."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

import pytest

from pubweave.cli import main
from pubweave.cli.data.profile import refresh_line
from pubweave.model.files.profile import WorkloadProfile
from pubweave.model.profile import RefreshSummary
from pubweave.pipeline.frames.settings import ProfileSettings
from pubweave.plots.profile_summary import most_at_once, summary_lines
from tests.naive.telemetry_world import make_world, write_world

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="module")
def profile(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from pubweave.pipeline.batch import run_profile

    directory = tmp_path_factory.mktemp("cli_profile")
    write_world(make_world(41), directory / "run")
    output = directory / "profile"
    run_profile(spark, str(directory / "run"), str(output), ProfileSettings(), now=0.0)
    return output


def test_the_summary_has_the_ten_things(profile: Path) -> None:
    lines = dict(summary_lines(WorkloadProfile(profile)))
    assert len(lines) == 10
    assert "due deliveries" in lines["nothing lost"]
    assert "publications/s" in lines["traffic"]
    assert "p99" in lines["latency"]


def test_a_refresh_says_how_old_its_news_is() -> None:
    told = refresh_line(7, RefreshSummary(12.34, 52_636, 45_743))
    assert told == "batch 7: its records waited at most 12.3 s; 52,636 read, 45,743 closed before"
    assert refresh_line(7, RefreshSummary(1.0, 9, 0, "a late record")).endswith(
        "; all counted anew: a late record"
    )


def test_subscriptions_that_stand_together_are_counted_at_their_most() -> None:
    spans = [(0.0, 5.0), (1.0, 5.0), (5.0, None), (6.0, 7.0)]
    assert most_at_once([{"added_at": a, "removed_at": r} for a, r in spans]) == 2
    assert most_at_once([]) == 0


def test_the_report_is_one_page_with_six_pictures(
    profile: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.html"
    assert main.run(["report", str(profile), "-o", str(page)]) == 0
    assert str(page) in capsys.readouterr().out
    text = page.read_text()
    assert text.count("<svg") == 6
    assert "src=" not in text
    assert "<link" not in text
    start = text.index("<svg")
    picture = text[start : text.index("</svg>", start) + len("</svg>")]
    assert ElementTree.fromstring(picture).tag.endswith("svg")


def test_a_report_of_nothing_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["report", str(tmp_path)]) == 2
    assert "make a profile with" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["profile", "nowhere", "-o", "out"], "does not exist"),
        (["profile", ".", "-o", "out", "--conf", "oops"], "KEY=VALUE"),
        (["profile", ".", "-o", "out", "--slot", "0"], "--slot"),
        (["import", "weather", "x.csv", "-o", "out"], "weather"),
    ],
)
def test_bad_input_is_one_message(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str],
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    assert main.run(arguments) == 2
    assert told in capsys.readouterr().err


@pytest.mark.slow
def test_the_command_profiles_a_simulated_run(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pubweave"]
    run, output = str(tmp_path / "run"), str(tmp_path / "profile")
    simulated = [*command, "simulate", "routing", "--seed", "3", "--telemetry", run]
    subprocess.run(simulated, check=True, capture_output=True, timeout=120)
    done = subprocess.run(
        [*command, "profile", run, "-o", output, "--master", "local[2]", "--memory", "1g",
         "--json"],
        check=True, capture_output=True, text=True, timeout=280,
    )  # fmt: skip
    about = json.loads(done.stdout)
    assert about["tables"]["audit"]["rows"] == 1
    [verdict] = WorkloadProfile(tmp_path / "profile").rows("audit")
    assert verdict["lost"] == verdict["unexpected"] == verdict["duplicated"] == 0
    assert done.stderr == ""
