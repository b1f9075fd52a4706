"""``pubweave reproduce``: small runs end with pictures, numbers and the paper's words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from pubweave.cli import main

PNG = b"\x89PNG"


def test_figure_5_is_measured_and_drawn(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["--sizes", "8,10", "--ratios", "0.2", "--topologies", "1", "--time-limit", "20"]
    arguments += ["--methods", "auto,ip-each-path,bfs", "--out", str(tmp_path)]
    assert main.run(["reproduce", "ipitt-fig5", *arguments]) == 0
    out = capsys.readouterr().out
    assert "the paper says" in out
    assert "each-path: under 45 s up to 70 brokers" in out
    runs = json.loads((tmp_path / "ipitt-fig5.json").read_text())
    assert {run["brokers"] for run in runs} == {8, 10, 20}
    assert len(runs) == 9
    for run in runs:
        assert run["steps"] is not None
    assert (tmp_path / "ipitt-fig5.png").read_bytes().startswith(PNG)


def test_table_1_stands_beside_ours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["-n", "10", "--topologies", "1", "--time-limit", "20", "--out", str(tmp_path)]
    assert main.run(["reproduce", "ipitt-table1", *arguments]) == 0
    out = capsys.readouterr().out
    assert "1,355,820" in out
    sizes = json.loads((tmp_path / "ipitt-table1.json").read_text())
    naive = next(size for size in sizes if size["method"] == "ip-naive")
    assert naive["actions"] == 10 * 9 * 8
    assert naive["variables"] == 720 * naive["step_count"] + 450 * (naive["step_count"] + 1)
    assert (tmp_path / "ipitt-table1.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--sizes", "ten"], "--sizes ten: expected whole numbers"),
        (["--sizes", "1"], "--sizes 1: expected numbers from 3"),
        (["--ratios", "20"], "--ratios 20: expected numbers above 0 and at most 1"),
        (["--methods", "magic"], "--methods magic: there are auto"),
    ],
)
def test_bad_options_are_named(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["reproduce", "ipitt-fig5", *arguments]) == 2
    assert complaint in capsys.readouterr().err


def test_figure_6_is_measured_judged_and_drawn(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ["-n", "8", "--sizes", "8", "--ratios", "0.2", "--subscribers", "10,20"]
    arguments += ["--topologies", "1", "--out", str(tmp_path)]
    assert main.run(["reproduce", "ipitt-fig6", *arguments]) == 0
    out = capsys.readouterr().out
    assert "up to 55% shorter than BFS" in out
    assert "nothing lost, doubled or out of order" in out
    runs = json.loads((tmp_path / "ipitt-fig6.json").read_text())
    # Every way at 20 subscribers, the two that are drawn at 10.
    assert [run["subscribers"] for run in runs] == [20] * 5 + [10] * 2
    assert all(run["violations"] == [] for run in runs)
    assert (tmp_path / "ipitt-fig6.png").read_bytes().startswith(PNG)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--sizes", "five"], "--sizes five: expected whole numbers"),
        (["--sizes", "2"], "--sizes 2: expected numbers from 6"),
        (["--ratios", "0.9"], "above 0 and at most 0.5"),
        (["--ratios", "much"], "--ratios much: expected numbers"),
    ],
)
def test_bad_options_of_figure_6_are_named(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.run(["reproduce", "ipitt-fig6", *arguments]) == 2
    assert complaint in capsys.readouterr().err
