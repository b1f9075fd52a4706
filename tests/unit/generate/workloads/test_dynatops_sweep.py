"""DYNATOPS' Figures 6 to 9 on small settings, here and on Spark, and the location model's files."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from pyspark.sql import SparkSession

from pubweave.cli import main
from pubweave.experiments.dynatops import statements as dynatops_statements
from pubweave.experiments.dynatops import sweep as dynatops_sweep
from pubweave.experiments.dynatops.location import LocationSetting, run_location
from pubweave.experiments.dynatops.poisson import SYSTEMS, PoissonSetting, run_poisson
from pubweave.experiments.dynatops.sweep import SweepScale, run_task
from pubweave.generate.workloads.dynatops import CheckInError, Travels, drawn_travels, read_travels
from pubweave.pipeline.batch import on_spark
from tests.shared_data import shared_data

SMALL = SweepScale(users=1_500, brokers=20, topics=200, hours=2)


def test_poisson_systems_share_their_users_and_differ_as_they_should() -> None:
    setting = PoissonSetting(
        users=2_500, brokers=20, topics=200, hours=4, load_weight=20.0, rate=0.2, free_period_h=2,
        publications_per_h=1_000.0, systems=tuple(each for each in SYSTEMS if each != "tco-each"),
    )  # fmt: skip
    rows = {row.system: row for row in run_poisson(setting)}
    static, placed = rows["bayeux"], rows["dynatops"]
    assert rows["tco"].subscription_changes == static.subscription_changes
    assert placed.subscription_changes < 0.2 * static.subscription_changes
    assert static.handovers == 0 < placed.handovers
    assert placed.most_loaded_over_mean < 2.0
    assert rows["tco"].relays_per_publication == 0
    assert rows["tco-mended"].reconfiguration_cost <= rows["tco"].reconfiguration_cost
    assert placed.reconfigurations > 0 < placed.reconfiguration_messages
    assert rows["dynatops-up"].reconfigurations == 0
    assert placed.tree_delay < rows["dynatops-up"].tree_delay
    assert placed.messages_per_publication < 0.7 * static.messages_per_publication
    assert rows["bayeux-16"].delay < static.delay
    ours, wide = rows["dynatops-plus"], rows["dynatops-wide"]
    assert ours.subscription_changes < 0.2 * static.subscription_changes
    assert ours.management_messages < 0.6 * static.management_messages
    assert ours.highest_load_over_mean < 1.5
    assert ours.cluster_size == wide.cluster_size > placed.cluster_size


def small_travels() -> Travels:
    return drawn_travels(300, 8, 24 * 4, np.random.default_rng(1))


def test_location_systems_follow_their_users() -> None:
    setting = LocationSetting(brokers=16, cluster_size=4, free_period_h=24)
    rows = {row.system: row for row in run_location(small_travels(), setting)}
    assert rows["bayeux-static"].handovers == 0
    assert rows["bayeux-loc"].handovers == rows["bayeux-pns"].handovers > 0
    assert rows["dynatops-current"].handovers > rows["dynatops-plus"].handovers
    assert rows["bayeux-pns"].delay < rows["bayeux-loc"].delay
    assert rows["geops"].messages_per_publication > 0
    assert rows["dynatops"].management_messages > 0
    assert rows["dynatops-lasting"].subscription_changes < rows["dynatops"].subscription_changes


def test_wanted_cells_are_the_own_one_and_friends_once() -> None:
    travels = small_travels()
    at = np.random.default_rng(2).integers(0, 5, travels.user_count)
    users = np.arange(travels.user_count)
    for user, row in zip(users, travels.wanted_cells(users, at), strict=True):
        friends = [f for f in travels.friends[user].tolist() if f >= 0]
        expected = {int(at[user]), *(int(at[friend]) for friend in friends)}
        assert row[0] == at[user]
        assert sorted(row[row >= 0].tolist()) == sorted(expected)


@pytest.mark.parametrize("figure", ["figure_6", "figure_8", "figure_9"])
def test_figures_have_tasks_for_every_seed(figure: str) -> None:
    tasks = getattr(dynatops_sweep, figure)(SweepScale(hours=20), [1, 2])
    assert {task["seed"] for task in tasks} == {1, 2}
    assert json.loads(json.dumps(tasks)) is not None


@pytest.mark.slow
def test_figure_8_is_drawn_written_and_told(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    size = ["--users", "400", "--brokers", "8", "--topics", "60", "--hours", "1"]
    code = main.run(["reproduce", "dynatops-fig8", *size, "--out", str(tmp_path)])
    assert code == 0
    told = capsys.readouterr().out
    assert "zipf: messages below tco" in told
    assert (tmp_path / "dynatops-fig8.png").stat().st_size > 1_000
    assert len(json.loads((tmp_path / "dynatops-fig8.json").read_text())) == 21


@pytest.mark.slow
@pytest.mark.parametrize("name", ["dynatops-fig6", "dynatops-fig7", "dynatops-fig9"])
def test_other_figures_as_json(
    name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PUBWEAVE_DATA", raising=False)
    size = ["--days", "3"] if name == "dynatops-fig6" else ["--users", "400", "--hours", "5"]
    size += ["--days", "3"] if name == "dynatops-fig9" else []
    assert main.run(["reproduce", name, *size, "--json", "--out", str(tmp_path)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["runs"]
    assert document["statements"]
    assert {"words", "theirs", "by_paper", "by_plus", "holds"} == set(document["statements"][0])


@pytest.mark.slow
def test_spark_runs_the_same_tasks(spark: SparkSession) -> None:
    tasks = dynatops_sweep.figure_7(SMALL, [1], ["zipf"], rates=(0.1, 0.2))
    here = [run_task(task) for task in tasks]
    assert on_spark(spark, lambda share: None)(run_task, tasks) == here
    assert here[0][0].system == "bayeux"


def test_statements_say_whether_they_hold() -> None:
    rows = run_task(dynatops_sweep.figure_7(SMALL, [1], ["multimodal"], rates=(0.2,))[0])
    by_words = {each.about: each for each in dynatops_statements.figure_7(rows)}
    fewer = next(each for words, each in by_words.items() if words.startswith("changes of"))
    assert fewer.is_met
    assert fewer.verdict in ("met", "met with our rules")
    assert fewer.numbers["by_paper"] is not None
    assert dynatops_statements.figure_7(rows[:1])[0].verdict == "not met"
    assert dynatops_statements.figure_8(rows)[0].about == "multimodal: delay below bayeux"


WINDOW = {
    "since": datetime(2010, 8, 1, tzinfo=UTC),
    "until": datetime(2010, 8, 3, tzinfo=UTC),
}


def test_checkins_are_read_by_window(tmp_path: Path) -> None:
    checkins, friends = tmp_path / "c.csv", tmp_path / "f.csv"
    checkins.write_text(
        "user,time,lat,lon,venue\n"
        "a,2010-07-01T00:00:00Z,40.005,-74.005,1\na,2010-08-01T02:00:00Z,40.015,-74.005,2\n"
        "b,2010-08-02T00:00:00Z,40.005,-74.005,1\nc,2010-09-01T00:00:00Z,40.005,-74.005,1\n"
    )
    friends.write_text("user,friend\na,b\nb,c\n")
    travels = read_travels(checkins, friends, np.random.default_rng(1), **WINDOW)
    assert travels.user_count == 2
    assert len(travels.cells) == 2
    assert travels.first_cells.tolist() == [0, 0]
    assert (travels.hours.tolist(), travels.visited.tolist()) == ([2, 24], [1, 0])
    assert travels.friends[:, 0].tolist() == [1, 0]
    assert travels.cells.latitudes == pytest.approx([40.005, 40.015])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("user,time,lat\n", "no column 'lon'"),
        ("user,time,lat,lon\na,soon,1,2\n", "line 2"),
        ("user,time,lat,lon\na,2009-01-01T00:00:00Z,1,2\n", "no check-in from 2010-08-01"),
        ("user,time,lat,lon\na,2010-08-01T00:00:00Z\n", "fields are missing"),
    ],
)
def test_bad_checkins_are_named(text: str, words: str, tmp_path: Path) -> None:
    checkins = tmp_path / "c.csv"
    checkins.write_text(text)
    friends = tmp_path / "f.csv"
    friends.write_text("user,friend\n")
    with pytest.raises(CheckInError, match=words):
        read_travels(checkins, friends, np.random.default_rng(1), **WINDOW)


@pytest.mark.slow
@pytest.mark.data
def test_real_checkins_have_the_cells_and_friends_they_should() -> None:
    folder = shared_data("checkins").parent
    travels = dynatops_sweep.travels_of(str(folder), 83, 1)
    assert 1_100 < len(travels.cells) < 1_300
    assert travels.user_count > 3_000
    assert (travels.friends >= 0).all()
