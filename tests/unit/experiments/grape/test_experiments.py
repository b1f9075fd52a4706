"""POP's and GRAPE's evaluation, small enough to run in seconds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from pubweave.cli import main
from pubweave.core.config.relocation import RelocationMode
from pubweave.design.relocation.rules import Preference, Priority
from pubweave.experiments.grape import figures as grape_figures
from pubweave.experiments.grape.figures import (
    GrapeTask,
    best_reduction,
    headlines,
    reduction,
    run_task,
    statements,
    tasks,
    waits_by_hops,
)
from pubweave.experiments.grape.run import BASELINE, Figures, RunOutcome, relocation_of
from pubweave.experiments.grape.setting import GrapeSetting, make_stock_world, read_data
from pubweave.generate.workloads.stocks import Distribution
from tests.shared_data import shared_data

SETTING = GrapeSetting(
    brokers=15,
    publishers=2,
    subscribers=20,
    rate_per_s=10.0,
    pop_window_s=5.0,
    rest_s=5.0,
    duration_s=40.0,
    measured_s=15.0,
)
CLUSTERED = Distribution.CLUSTERED


def outcome(variant: str, spread: int = 4, **changes: object) -> RunOutcome:
    task = GrapeTask(SETTING, variant, CLUSTERED, spread, 40, 3, None)
    return run_task(replace(task, **changes))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def played() -> dict[str, RunOutcome]:
    names = (BASELINE, "pop", "load100", "delay100", "load100+subscribers")
    return {name: outcome(name) for name in names}


def test_nothing_is_lost_or_doubled_whoever_moves(played: dict[str, RunOutcome]) -> None:
    for name, found in played.items():
        assert (found.lost, found.doubled) == (0, 0), name
        assert (found.moves > 0) == (name != BASELINE), name


def test_load_falls_most_with_load100(played: dict[str, RunOutcome]) -> None:
    rates = {name: found.end.message_rate for name, found in played.items()}
    assert rates["load100"] < 0.8 * rates[BASELINE]
    assert rates["load100"] <= rates["delay100"]
    assert rates["load100+subscribers"] < rates["load100"]


def test_the_baseline_has_no_overhead_and_pop_more_than_grape(
    played: dict[str, RunOutcome],
) -> None:
    assert played[BASELINE].overhead == 0
    assert played[BASELINE].memory_bytes == 0
    assert played["pop"].overhead > played["load100"].overhead > 0
    assert played["load100"].memory_bytes > 0
    assert played["load100"].selection_s > 0


def test_the_same_seed_gives_the_same_outcome(played: dict[str, RunOutcome]) -> None:
    assert outcome("load100") == played["load100"]


def test_subscribers_at_one_broker_leave_no_choice() -> None:
    for name in ("pop", "load100"):
        assert outcome(name, spread=1).end.hops == 1


def test_a_variant_names_its_setting() -> None:
    assert relocation_of(BASELINE).mode is RelocationMode.OFF
    assert relocation_of("pop", 20).pop_most_traced == 10
    assert relocation_of("load75").preference == Preference(Priority.LOAD, 75)
    assert relocation_of("delay1+subscribers").preference == Preference(Priority.DELAY, 1)
    assert relocation_of("delay1+subscribers").subscribers
    assert not relocation_of("delay1").subscribers


def test_worlds_of_a_seed_differ_only_in_where_subscribers_are() -> None:
    one = make_stock_world(SETTING, CLUSTERED, 4, 5)
    again = make_stock_world(SETTING, CLUSTERED, 4, 5)
    assert one.topology.latency_ms == again.topology.latency_ms
    assert one.workload.subscribers == again.workload.subscribers
    publisher = one.workload.publishers[0]
    assert one.machine_of(publisher.symbol) == publisher.broker
    assert one.client_ms("b1", "b2") == one.client_ms("b2", "b1") > one.client_ms("b1", "b1")


@pytest.mark.data
def test_real_quotes_and_round_trips_are_used_where_they_are() -> None:
    shared_data("stocks/padres_stockquotes.csv.gz")
    quotes, rtt_ms = read_data(shared_data("latency").parent)
    assert quotes is not None
    assert rtt_ms is not None
    world = make_stock_world(SETTING, CLUSTERED, 4, 5, quotes, rtt_ms)
    assert {p.symbol for p in world.workload.publishers} <= set(quotes)
    assert np.isfinite(world.one_way_ms).all()


def made(variant: str, rate: float, spread: int = 1, **changes: object) -> RunOutcome:
    end = Figures(rate, rate / 10, 100 * rate, 2.0)
    base = RunOutcome(
        variant, "clustered", spread, 100, 1, end, 0.1, 90, 5, 5, 0.0, 1, ((2, 1.0),), 1, 0.5, 0, 0
    )
    return replace(base, **changes)  # type: ignore[arg-type]


def test_reductions_are_of_the_same_world_and_the_best_is_named() -> None:
    found = [made(BASELINE, 10.0), made("load100", 2.0), made(BASELINE, 10.0, 4),
             made("load100", 5.0, 4)]  # fmt: skip
    assert reduction(found, "load100", "message_rate", CLUSTERED, 4) == pytest.approx(0.5)
    best = best_reduction(found, "load100", "message_rate", CLUSTERED)
    assert best == (pytest.approx(0.8), 1)
    assert reduction(found, "pop", "message_rate", CLUSTERED, 4) is None
    told = {each.about: each.found for each in headlines(found)}
    assert told["load100: average message rate"] == "80% (subscribers at 1)"


def test_a_lost_delivery_is_told() -> None:
    (said, *_) = statements("grape-fig6", [made("load100", 1.0, lost=1)])
    assert not said.is_met
    assert waits_by_hops([made("load100", 1.0), made("pop", 1.0, waits=((2, 3.0),))]) == {2: 2.0}


def test_figures_have_their_runs() -> None:
    listed = tasks("grape-fig5", seed=1, seeds=2, full=False, data=None, setting=None)
    assert len(listed) == 2 * (4 * 3 + 4 + 4 + 2)
    full = tasks("grape-fig5", seed=1, seeds=1, full=True, data=None, setting=None)
    assert {task.spread for task in full} == set(grape_figures.FULL_SPREADS)
    assert full[0].setting.duration_s == 18 * 60
    thresholds = {t.threshold for t in tasks("grape-fig6", seed=1, seeds=1, full=False, data=None,
                                             setting=SETTING)}  # fmt: skip
    assert thresholds == set(grape_figures.THRESHOLDS)


def test_the_commands_draw_and_judge(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    quick = replace(SETTING, brokers=7, publishers=1, duration_s=12.0, measured_s=4.0)
    monkeypatch.setattr("pubweave.experiments.grape.setting.GrapeSetting", lambda: quick)
    monkeypatch.setattr(grape_figures, "SPREADS", (1, 4))
    for figure in grape_figures.FIGURES:
        assert main.run(["reproduce", figure, "--out", str(tmp_path)]) == 0
        out = capsys.readouterr().out
        assert "migrations are lossless" in out
        assert (tmp_path / f"{figure}.png").read_bytes().startswith(b"\x89PNG")
        runs = json.loads((tmp_path / f"{figure}.json").read_text())
        assert all(run["lost"] == 0 for run in runs)
    assert main.run(["reproduce", "grape-fig5", "-n", "490", "--data", str(tmp_path)]) == 2
    assert "padres_stockquotes" in capsys.readouterr().err
