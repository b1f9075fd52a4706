"""The evaluation's subscriptions: sizes, popularity, and the same for the same seed."""

from __future__ import annotations

import numpy as np
import pytest

from pubweave.design.tco.changes import Join, Leave
from pubweave.generate.workloads.churn_rounds import Popularity, random_rounds, random_subscriptions


@pytest.mark.parametrize("popularity", list(Popularity))
def test_sizes_follow_the_power_law(popularity: Popularity) -> None:
    wanted = random_subscriptions(4_000, 200, popularity, np.random.default_rng(1))
    assert wanted.sizes.min() >= 10
    assert wanted.sizes.max() <= 90
    # Twice the size, a quarter as often; the sum of 1/k over that of 1/k^2 is the mean.
    ten, twenty = (np.isin(wanted.sizes, (size, size + 1)).sum() for size in (10, 20))
    assert 3 < ten / twenty < 5.2
    assert wanted.sizes.mean() == pytest.approx(23.7, abs=1.0)
    for node in range(0, 4_000, 500):
        topics = wanted.topics_of(node)
        assert (np.diff(topics) > 0).all()


def test_popular_topics_are_wanted_more() -> None:
    rng = np.random.default_rng(1)
    counts = {
        popularity: np.bincount(
            random_subscriptions(2_000, 200, popularity, rng).topics, minlength=200
        )
        for popularity in Popularity
    }
    assert counts[Popularity.ZIPF][0] > 1_900
    assert counts[Popularity.ZIPF][150] < counts[Popularity.EXPONENTIAL][20]
    uniform = counts[Popularity.UNIFORM]
    assert uniform.min() > 0.6 * uniform.mean()
    assert Popularity.ZIPF.shares(2).tolist() == [0.8, 0.2]


def test_the_same_seed_gives_the_same_subscriptions() -> None:
    one, other = (
        random_subscriptions(50, 30, Popularity.ZIPF, np.random.default_rng(7)) for _ in range(2)
    )
    assert one.topics.tolist() == other.topics.tolist()


def test_random_churn_is_of_nodes_that_are_there() -> None:
    wanted = random_subscriptions(20, 30, Popularity.ZIPF, np.random.default_rng(7))
    present = set(wanted.nodes)
    kinds = []
    for change in random_rounds(wanted, 30, 45, np.random.default_rng(1)):
        kinds.append(type(change))
        if isinstance(change, Join):
            assert change.node not in present
            assert 10 <= len(set(change.topics)) == len(change.topics) <= 30
            present.add(change.node)
        else:
            assert isinstance(change, Leave)
            present.remove(change.node)
    assert kinds.count(Join) == 30
    assert len(present) == 50 - kinds.count(Leave)
