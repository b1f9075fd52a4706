"""The world of CI's evaluation and its figures, small enough to run in seconds."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest

from pubweave.cli import main
from pubweave.design.ci.cycle_traffic import exact_unions
from pubweave.design.ci.rules import Estimate
from pubweave.design.tree.cost import total_cost
from pubweave.experiments.ci import figures as ci_figures
from pubweave.experiments.ci.figures import (
    CiTask,
    Mean,
    Run,
    less,
    mean,
    percent,
    ratio,
    run_task,
    statements,
)
from pubweave.experiments.ci.run import (
    ALL,
    BEST,
    STATIC,
    FilterInterest,
    filter_unions,
    run_variant,
)
from pubweave.experiments.ci.setting import CiSetting, CiWorld, make_world
from pubweave.generate.topologies.underlay import Geometry
from tests.naive.traffic import groups_of

SETTING = CiSetting(
    brokers=30,
    types=15,
    ticks=6_000,
    links_change_at=2_000,
    brokers_change_at=4_000,
    domains=4,
    routers_per_domain=15,
)


@pytest.fixture(scope="module")
def world() -> CiWorld:
    return make_world(3, SETTING)


def test_the_same_seed_gives_the_same_world(world: CiWorld) -> None:
    again = make_world(3, SETTING)
    assert (again.start == world.start).all()
    for one, other in zip(again.traffic, world.traffic, strict=True):
        assert groups_of(one) == groups_of(other)


def test_notifications_come_at_the_rate_and_reach_nine_subscribing_brokers(world: CiWorld) -> None:
    total = sum(traffic.notifications for traffic in world.traffic)
    expected = SETTING.types * SETTING.rate_per_tick * SETTING.ticks
    assert total == pytest.approx(expected, rel=0.05)
    for traffic in world.traffic:
        assert set(traffic.sizes.tolist()) <= {9, 10}


def test_a_tenth_of_the_subscriptions_changes_in_an_interval(world: CiWorld) -> None:
    """Each type begins a new set whenever one of its nine subscribers leaves."""
    sets = sum(traffic.set_count for traffic in world.traffic)
    changes = sets - SETTING.types * SETTING.intervals
    expected = SETTING.types * SETTING.subscribers * SETTING.ticks / SETTING.duration_ticks
    assert changes == pytest.approx(expected, rel=0.15)


def test_links_change_first_and_brokers_later(world: CiWorld) -> None:
    first, second, third = (world.prices(k) for k in (0, 8, 16))
    assert (first.processing == second.processing).all()
    assert not np.allclose(first.communication, second.communication)
    assert (second.communication == third.communication).all()
    assert not np.allclose(second.processing, third.processing)
    finite = first.communication[np.isfinite(first.communication)]
    assert (finite.min(), finite.max()) == (0.0, 10.0)


def test_scaled_prices_trade_links_for_brokers(world: CiWorld) -> None:
    scaled = world.scaled(0.0, 20.0).prices(0)
    assert scaled.communication[0, 1] == 0.0
    assert np.isinf(scaled.communication[0, 0])
    assert scaled.processing == pytest.approx(2 * world.prices(0).processing)


def test_the_static_tree_pays_what_the_cost_model_says(world: CiWorld) -> None:
    series = run_variant(world, STATIC)
    assert series.notifications[5] == total_cost(world.traffic[5], world.prices(5), world.start)
    assert sum(series.broadcasts) == sum(series.reconfigurations) == 0.0


def test_heuristics_lie_between_the_static_tree_and_the_best(world: CiWorld) -> None:
    costs = {name: run_variant(world, name).total.sum() for name in ALL}
    assert costs[BEST] < min(cost for name, cost in costs.items() if name != BEST)
    assert max(costs["ci"], costs["ci-conjunction"], costs["ci-damped"]) < costs[STATIC]
    assert costs["ci-sides"] < min(costs["ci"], costs["lmst"], costs["lmit"])
    assert costs["ci"] < min(costs["ci-once"], costs["lmst"])
    assert costs["ci-sides"] < costs["ci-sides-once"]


def test_control_messages_are_paid_for(world: CiWorld) -> None:
    near, far = (run_variant(world, "ci", eta=eta, until=2_000) for eta in (2, 4))
    assert 0 < sum(near.broadcasts) < sum(far.broadcasts)
    assert sum(far.reconfigurations) > 0
    assert far.exchanges > 0


def test_bloom_filters_of_this_size_hardly_err_and_crowded_ones_do(world: CiWorld) -> None:
    common = world.common(0)
    own = np.diag(common)
    busy = int(np.argmax(own))
    other = int(np.argmin(np.where(own > 0, common[busy], np.inf)))
    rng = np.random.default_rng(0)
    quiet = FilterInterest(common, world.traffic[0], Estimate.OVERLAP, rng)
    assert quiet.common(busy) == pytest.approx(common[busy].tolist(), rel=1e-4, abs=0.01)
    crowded = FilterInterest(common * 1000, world.traffic[0], Estimate.OVERLAP, rng)
    assert crowded.common(busy)[other] > common[busy, other] * 1000


def test_bits_count_unions_within_the_error_of_linear_counting(world: CiWorld) -> None:
    traffic = world.traffic[0]
    patterns = np.random.default_rng(3).integers(1, 8, size=traffic.set_count)
    exact = exact_unions(traffic.weights)(patterns, 3)
    bits = 20_000
    load = traffic.notifications / bits
    deviation = math.sqrt(bits * (math.exp(load) - load - 1))
    counted = [
        filter_unions(traffic, np.random.default_rng(seed), bits)(patterns, 3)(0, 3)
        for seed in range(20)
    ]
    assert len(set(counted)) > 1
    assert max(abs(count - exact(0, 3)) for count in counted) < 4 * deviation


@pytest.mark.parametrize("figure", ci_figures.FIGURES)
def test_a_figure_is_run_and_judged(figure: str) -> None:
    points = {"ci-fig4": (), "ci-fig5": (2.0, 4.0), "ci-fig6": (0.0, 1.0)}[figure]
    runs = [run for seed in (1, 2) for run in run_task(CiTask(figure, seed, SETTING, points))]
    said = statements(figure, runs)
    assert said
    for each in said:
        assert each.wanted
        assert "%" in each.found or "hops" in each.found
        assert each.verdict in ("met", "not met", "undecided")
    if figure == "ci-fig4":
        by_words = {each.wanted: each.found for each in said}
        assert by_words["CI as printed costs less than static"].startswith("-")


def run_of(variant: str, seed: int, cost: float) -> Run:
    return Run("ci-fig4", seed, variant, None, cost, 0.0, 0.0, 0.0, 0)


def test_differences_are_taken_underlay_by_underlay() -> None:
    """CI is always a tenth cheaper though underlays differ by far more than that."""
    runs = [run_of("ci", seed, 90.0 * seed) for seed in (1, 2, 3)]
    runs += [run_of("lmst", seed, 100.0 * seed) for seed in (3, 2, 1)]
    gain = ratio(runs, ("ci", None), ("lmst", None))
    assert gain.value == pytest.approx(-0.1)
    assert gain.is_below()


def test_an_interval_is_student_s() -> None:
    found = mean([1.0, 2.0, 3.0])
    assert found.value == 2.0
    assert found.half == pytest.approx(4.303 / 3**0.5)
    assert mean([1.0]).half == np.inf
    assert percent(Mean(-0.25, 0.03)) == "-25.0% ± 3.0"


@pytest.mark.parametrize(
    ("value", "half", "verdict"),
    [(-0.2, 0.1, "met"), (0.2, 0.1, "not met"), (-0.05, 0.1, "undecided"), (0.1, 0.1, "not met")],
)
def test_what_an_interval_crosses_is_undecided(value: float, half: float, verdict: str) -> None:
    assert less("less", Mean(value, half)).verdict == verdict


def test_where_routers_are_is_a_choice() -> None:
    """The same routers and brokers: three geometries, three matrices of prices."""
    worlds = [make_world(3, replace(SETTING, geometry=geometry)) for geometry in Geometry]
    prices = [world.prices(0).communication for world in worlds]
    assert not any(np.allclose(one, other) for one, other in combinations(prices, 2))
    assert CiSetting().geometry is Geometry.BRITE


def test_the_verb_draws_and_writes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ci_figures, "SMALL", SETTING)
    monkeypatch.setattr(ci_figures, "SWEEP_TICKS", 2_000)
    for figure in ci_figures.FIGURES:
        arguments = ["reproduce", figure, "--underlays", "2", "--master", "none"]
        assert main.run([*arguments, "--out", str(tmp_path)]) == 0
        assert "what the paper says" in capsys.readouterr().out
        assert (tmp_path / f"{figure}.png").read_bytes().startswith(b"\x89PNG")
        runs = json.loads((tmp_path / f"{figure}.json").read_text())
        assert {run["seed"] for run in runs} == {1, 2}
