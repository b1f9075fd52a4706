"""DYNATOPS's figures on small settings: what they claim to measure is what happened."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import numpy as np
import pytest

from pubweave.cli import main
from pubweave.experiments.dynatops import mapping as dynatops_mapping
from pubweave.experiments.dynatops.poisson import PoissonSetting, changed_topics
from pubweave.generate.workloads.dynatops import Pattern, broker_subscriptions, drawn_topics


def test_savings_lie_between_nothing_and_what_is_possible() -> None:
    ticks = itertools.count()
    rows = [
        dynatops_mapping.measure(task, lambda: float(next(ticks)))
        for task in dynatops_mapping.tasks([(60, 40)], [1, 2])
    ]
    assert [(row.pattern, row.seed) for row in rows] == [
        ("uniform", 1), ("uniform", 2), ("multimodal", 1), ("multimodal", 2),
    ]  # fmt: skip
    for row in rows:
        assert 0 < row.greedy_saved <= row.best_saved <= row.most_saved < 1
        assert (row.greedy_s, row.best_s) == (1.0, 1.0)
    mean = dynatops_mapping.mean_of(rows, (60, 40), "uniform", "best_saved")
    assert mean == pytest.approx((rows[0].best_saved + rows[1].best_saved) / 2)


@pytest.mark.parametrize("pattern", Pattern)
@pytest.mark.parametrize("whole", [True, False])
def test_changed_topics_are_different_and_within_the_pattern(pattern: Pattern, whole: bool) -> None:
    rng = np.random.default_rng(1)
    setting = PoissonSetting(topics=100, pattern=pattern, whole=whole)
    old = drawn_topics(300, 100, pattern, rng)
    new = changed_topics(old, setting, rng)
    assert all(len(set(row.tolist())) == 5 for row in new)
    assert (new != old).any()
    if not whole:
        assert ((new != old).sum(axis=1) <= 1).all()
    if pattern is Pattern.MULTIMODAL:
        assert all(len({topic // 10 for topic in row.tolist()}) == 1 for row in new)


def test_patterns_are_as_skewed_as_they_say() -> None:
    rng = np.random.default_rng(2)
    uniform = np.bincount(drawn_topics(5_000, 50, Pattern.UNIFORM, rng).ravel(), minlength=50)
    zipf = np.bincount(drawn_topics(5_000, 50, Pattern.ZIPF, rng).ravel(), minlength=50)
    assert uniform.max() < 1.3 * uniform.min()
    assert zipf[0] > 4 * zipf[-1]
    wanted = broker_subscriptions(30, 20, Pattern.UNIFORM, rng)
    assert wanted.sizes.tolist() == [5] * 30


def test_figures_are_drawn_written_and_told(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    sizes = ((10, 20), (12, 20), (14, 20), (10, 30), (10, 40), (10, 50))
    monkeypatch.setattr(dynatops_mapping, "SIZES", sizes)
    monkeypatch.setattr(dynatops_mapping, "PAPER_SECONDS", dict.fromkeys(sizes, 1.0))
    for name in ("dynatops-fig10", "dynatops-table1"):
        code = main.run(["reproduce", name, "--seeds", "1", "--out", str(tmp_path)])
        assert code == 0
        assert "multimodal" in capsys.readouterr().out
        assert (tmp_path / f"{name}.png").stat().st_size > 1_000
        assert len(json.loads((tmp_path / f"{name}.json").read_text())) == 12
