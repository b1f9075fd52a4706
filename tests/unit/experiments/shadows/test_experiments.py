"""Shadows' figures on a small instance: the same churn for all, and statements that can fail."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from pubweave.cli import main
from pubweave.design.tco.churn import MaintainedOverlay
from pubweave.design.tco.interests import Subscriptions
from pubweave.design.tco.low_oda import build_overlay
from pubweave.design.tco.rounds import play
from pubweave.experiments.shadows.figures import (
    FIGURES,
    LOW_ODA,
    ShadowsTask,
    chosen,
    gaps,
    run_task,
    statements,
)
from pubweave.experiments.shadows.real import real_subscriptions, run_real
from pubweave.experiments.shadows.setting import VARIANTS, ShadowsSetting, make_world, rebuilt
from pubweave.generate.workloads.churn_rounds import Popularity
from tests.shared_data import shared_data

SMALL = ShadowsSetting(Popularity.UNIFORM, 1, nodes=60, topics=25, rounds=20, low_oda_every=5)


def ticking() -> float:
    return next(_ticks) / 1000


_ticks = itertools.count()


def test_every_variant_sees_the_same_churn() -> None:
    world = make_world(SMALL)
    assert world.churn == make_world(SMALL).churn
    runs = [world.play(variant, ticking) for variant in ("lean", "shadow", "naive")]
    for one, other in itertools.pairwise(runs):
        assert [record.nodes for record in one] == [record.nodes for record in other]
        assert [record.topics for record in one] == [record.topics for record in other]
    assert all(record.is_verified and record.gap is None for run in runs for record in run)


def test_a_broken_overlay_is_seen_by_the_rounds() -> None:
    world = make_world(SMALL)
    broken = MaintainedOverlay(
        world.wanted, world.links[:-1], VARIANTS["naive"], np.random.default_rng(1)
    )
    [record] = play(broken, [[]], ticking)
    assert record.gap is not None
    assert record.as_json()["is_connected"] is False


def test_low_oda_is_rebuilt_for_those_who_are_there() -> None:
    world = make_world(SMALL)
    found = list(rebuilt(world, ticking))
    assert [each.number for each in found] == [5, 10, 15, 20]
    overlay = world.maintained("naive")
    for change in world.churn:
        overlay.apply([change])
    held = overlay.topics()
    again = build_overlay(Subscriptions.of({name: held[name] for name in sorted(held)}))
    assert found[-1].average_degree == pytest.approx(2 * len(again) / len(held), rel=0.05)


@pytest.mark.parametrize("figure", FIGURES)
def test_a_figure_has_rows_statements_and_a_picture(
    figure: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    sizes = ["--nodes", "60", "--topics", "25", "--rounds", "20", "--low-oda-every", "10"]
    code = main.run(["reproduce", figure, *sizes, "--out", str(tmp_path), "--json"])
    document = json.loads(capsys.readouterr().out)
    assert code == 0
    assert document["statements"]
    rows = json.loads((tmp_path / f"{figure}.json").read_text())
    assert len(rows) == document["rows"] > 0
    assert (tmp_path / f"{figure}.png").stat().st_size > 1_000
    code = main.run(["reproduce", figure, "--nodes", "40", "--rounds", "8", "--out", str(tmp_path)])
    assert code == 0
    assert "what was found" in capsys.readouterr().out


def test_gaps_compare_round_by_round() -> None:
    rows = run_task(ShadowsTask("shadows-fig6", SMALL), ticking)
    low = {row["number"]: row["max_degree"] for row in chosen(rows, variant=LOW_ODA)}
    lean = {row["number"]: row["max_degree"] for row in chosen(rows, variant="lean")}
    assert gaps(rows, "lean", "max_degree") == [lean[n] - low[n] for n in sorted(low)]


def test_one_round_that_is_not_connected_is_not_met() -> None:
    rows = run_task(ShadowsTask("shadows-fig5", SMALL), ticking)
    assert statements("shadows-fig5", rows)[0].is_met
    rows[7]["is_connected"] = False
    assert not statements("shadows-fig5", rows)[0].is_met


@pytest.mark.data
@pytest.mark.parametrize("kind", ["twitter", "lastfm", "facebook"])
def test_real_subscriptions_are_read_whole(kind: str) -> None:
    data = shared_data("subscriptions").parent
    wanted = real_subscriptions(kind, data)
    counts = {"twitter": (28_459, 100), "lastfm": (1_892, 17_632), "facebook": (4_039, 4_039)}
    assert (wanted.node_count, wanted.topic_count) == counts[kind]


@pytest.mark.data
@pytest.mark.slow
def test_real_overlays_stay_connected() -> None:
    run = run_real("lastfm", shared_data("subscriptions").parent, 40, 1, ticking)
    assert all(built["is_connected"] for built in run.built.values())
    assert all(record.gap is None for records in run.rounds.values() for record in records)
