"""The benchmark's verdicts: what is not proven, not found or too slow is never `met`."""

from __future__ import annotations

from dataclasses import replace

import pytest
from bench.bench_planner import PARTS, main
from bench.planner_bars import action_bar, rival_bars, size_bars, table
from bench.planner_problems import Run, paper_problems

PROVEN = Run(
    "degree5-balanced-1", "auto", 60, "optimal", 6, 20, 6, 20, 1.0, 0.01, 0.5, ((0.01, 6, 20),)
)


def verdicts(size: int, *runs: Run) -> list[str]:
    return [bar.verdict for bar in size_bars(size, runs)]


def test_proven_and_quick_meets_every_bar() -> None:
    for size in (40, 60, 100, 150, 1000, 10000):
        assert set(verdicts(size, PROVEN)) == {"met"}


def test_what_is_not_proven_has_no_time() -> None:
    found = replace(PROVEN, status="feasible", steps_at_least=5, steps_proven_s=None, limit_s=1)
    assert verdicts(40, found) == ["missed", "missed"]
    assert verdicts(60, found) == ["missed", "missed", "missed"]
    assert verdicts(100, found) == ["met"]


def test_a_gap_of_two_is_one_too_many() -> None:
    assert verdicts(150, PROVEN, replace(PROVEN, steps=8)) == ["missed"]


def test_no_plan_misses() -> None:
    nothing = replace(
        PROVEN, status="unknown", steps=None, actions=None, first_plan_s=None, steps_proven_s=None
    )
    for size in (40, 60, 100, 150, 1000):
        assert set(verdicts(size, nothing)) == {"missed"}


def test_only_balanced_trees_count_against_the_bound() -> None:
    deep = replace(PROVEN, name="degree5-unbalanced-1", steps=60)
    assert verdicts(1000, PROVEN, deep) == ["met", "met", "met"]
    assert verdicts(1000, replace(PROVEN, steps=9)) == ["met", "met", "missed"]


def test_a_rival_that_never_gets_there_counts_as_its_limit() -> None:
    rival = replace(PROVEN, method="bfs", limit_s=300, steps=8, trace=((0.2, 9, 30), (20, 8, 30)))
    bars = rival_bars([PROVEN], [rival])
    assert bars[1].figure.split(" ")[0] == "2000.0"
    assert [bar.verdict for bar in bars] == ["met", "met"]
    quick = replace(rival, trace=((0.2, 8, 30),))
    assert [bar.verdict for bar in rival_bars([PROVEN], [quick])] == ["met", "missed"]
    never = replace(rival, steps=None, actions=None, trace=())
    assert rival_bars([PROVEN], [never])[1].figure.split(" ")[0] == "30000.0"
    better = replace(rival, steps=5, trace=((20, 5, 30),))
    assert rival_bars([PROVEN], [better])[0].verdict == "missed"


def test_actions_are_compared_at_the_fewest_steps() -> None:
    assert action_bar([PROVEN], {PROVEN.name: (6, 19)}).verdict == "missed"
    assert action_bar([PROVEN], {PROVEN.name: (6, 20)}).verdict == "met"
    assert action_bar([PROVEN], {PROVEN.name: (5, 30)}).verdict == "missed"


def test_the_table_has_a_line_for_each_bar() -> None:
    bars = size_bars(60, [PROVEN])
    assert len(table(bars).splitlines()) == len(bars) + 2


def test_other_seeds_give_other_problems_and_fewer_are_spread() -> None:
    one, other = (dict(paper_problems(40, seed)) for seed in (1, 2))
    assert len(one) == 12
    assert one != other
    assert list(dict(paper_problems(40, 1, 2))) == ["degree5-balanced-1", "degree6-unbalanced-1"]


def test_an_unknown_part_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--only", "61"])
    assert f"there are {', '.join(PARTS)}" in capsys.readouterr().err


def test_one_part_runs_and_ends_with_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--sizes", "1000", "--topologies", "1", "--limit", "0.2", "--seed", "5"]) == 0
    out = capsys.readouterr().out
    assert "seed 5" in out
    assert "a valid plan in 50 ms" in out.splitlines()[-3]
