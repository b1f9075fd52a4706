"""Overlays built in parts: connected by definition, whatever the parts, and not much worse."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubweave.design.tco.divided import build_attached, build_divided, dealt, representatives
from pubweave.design.tco.interests import Subscriptions
from pubweave.design.tco.low_oda import build_overlay
from pubweave.design.tco.verify import verify
from pubweave.generate.workloads.churn_rounds import Popularity, random_subscriptions
from tests.naive import topic_connected as naive

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BUILDERS = [build_divided, build_attached]
topic_sets = st.lists(st.sets(st.sampled_from("abcdefghij")), min_size=1, max_size=16)


def here(function: Any, tasks: Any) -> list[Any]:
    return [function(task) for task in tasks]


@settings(max_examples=80, deadline=None)
@given(topic_sets, st.integers(1, 6), st.sampled_from(BUILDERS))
def test_any_parts_make_every_topic_connected(
    sets: list[set[str]], part_size: int, build: Any
) -> None:
    topics = dict(enumerate(sets))
    wanted = Subscriptions.of({f"n{number}": each for number, each in topics.items()})
    links = [(int(a), int(b)) for a, b in build(wanted, part_size, here)]
    assert naive.is_topic_connected(topics, links)  # type: ignore[arg-type]
    assert len({frozenset(link) for link in links}) == len(links)


def test_one_part_is_low_oda_itself() -> None:
    wanted = random_subscriptions(60, 20, Popularity.ZIPF, np.random.default_rng(2))
    assert build_divided(wanted, 60, here).tolist() == build_overlay(wanted).tolist()


@pytest.mark.parametrize("popularity", list(Popularity))
@pytest.mark.parametrize("build", BUILDERS)
def test_degrees_stay_near_the_exact_ones(popularity: Popularity, build: Any) -> None:
    """The bars of 20,000 nodes, here with 2,000 in four parts (small parts lose more)."""
    wanted = random_subscriptions(2_000, 60, popularity, np.random.default_rng(4))
    exact, found = build_overlay(wanted), build(wanted, 500, here)
    assert verify(wanted, found).is_connected
    assert len(found) <= 1.25 * len(exact)
    assert np.bincount(found.ravel()).max() <= 2 * np.bincount(exact.ravel()).max()


def test_representatives_cover_every_topic_of_a_part_as_often_as_asked() -> None:
    wanted = random_subscriptions(200, 30, Popularity.ZIPF, np.random.default_rng(1))
    part = dealt(wanted.canonical_order(), 4)[1]
    chosen = representatives(wanted, part, np.zeros(200, np.int64), 3)
    assert len(set(chosen.tolist())) == len(chosen)
    assert set(chosen.tolist()) <= set(part.tolist())
    for topic in range(30):
        subscribers = sum(topic in wanted.topics_of(node) for node in part)
        assert sum(topic in wanted.topics_of(node) for node in chosen) >= min(3, subscribers)


@pytest.mark.slow
@pytest.mark.parametrize("build", BUILDERS)
def test_spark_builds_what_one_process_builds(spark: SparkSession, build: Any) -> None:
    from pubweave.pipeline.batch import on_spark

    wanted = random_subscriptions(600, 40, Popularity.UNIFORM, np.random.default_rng(3))
    shares: list[float] = []
    links = build(wanted, 150, on_spark(spark, shares.append))
    assert links.tolist() == build(wanted, 150, here).tolist()
    assert all(0 <= share <= 1 for share in shares)
