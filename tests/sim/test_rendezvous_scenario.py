"""The scenario `rendezvous`: seeds hold, a run is its seed, and a broken core is caught."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pubweave.core.routing.rendezvous.chord import ChordMaintenance
from pubweave.core.routing.rendezvous.trees import TopicTrees
from pubweave.core.routing.topic_connected.topic_log import TopicLog
from pubweave.sim.kernel.trace import Trace
from pubweave.sim.simulate import run_seed, run_seeds


def _failed(seeds: range) -> dict[int, tuple[str, ...]]:
    runs = run_seeds("rendezvous", seeds, jobs=1, max_brokers=7)
    return {run.seed: run.violations[:3] for run in runs if run.violations}


def test_nothing_is_lost_and_both_planes_converge() -> None:
    assert not _failed(range(3)), "again: pubweave simulate rendezvous --max-brokers 7 --seed N"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 160, 20))
def test_nothing_is_lost_in_many_runs(first: int) -> None:
    assert not _failed(range(first, first + 20))


@pytest.mark.slow
def test_the_runs_exercise_what_they_are_for() -> None:
    counts: dict[str, int] = {}
    for result in run_seeds("rendezvous", range(20, 40), jobs=1, max_brokers=8):
        for name, count in result.counts.items():
            counts[name] = counts.get(name, 0) + count
    for name in ("broker_join", "broker_leave", "broker_crash", "remaps_done", "remapper_crash"):
        assert counts[name], name
    assert counts["wanted"] > 200 * counts["excused"]


def test_a_publisher_that_leaves_right_after_its_broker_crashed_offers_nothing_again() -> None:
    """It has not noticed yet; what only that broker had is lost with it."""
    result = run_seed("rendezvous", 400752, max_brokers=14)
    assert result.violations == ()
    assert result.counts["broker_crash"] > 0


@pytest.mark.slow
def test_a_broker_that_came_and_went_between_two_looks_is_not_counted_on() -> None:
    """It was lost, said that it is there, and was gone before the link was seen to stand: nobody
    forgot it, and joins went nowhere for a minute."""
    result = run_seed("rendezvous", 1050143, durability="journal", max_brokers=14)
    assert result.violations == ()


def test_a_newcomer_goes_over_to_the_version_of_those_who_leave() -> None:
    """Everybody else was leaving: nobody told it in time, and what they had found no heir."""
    result = run_seed("rendezvous", 516014, durability="journal", max_brokers=14)
    assert (result.violations, result.counts["publications_lost_at_most"]) == ((), 0)


def test_a_run_does_not_rest_while_a_wish_is_under_way() -> None:
    """The checker asked for what was kept for a wish 70 ms before that had arrived."""
    result = run_seed("rendezvous", 2050366, durability="journal", max_brokers=14)
    assert result.violations == ()


def test_the_same_seed_is_the_same_run() -> None:
    digests = {run_seed("rendezvous", 5, max_brokers=4, trace=Trace()).trace_digest for _ in "ab"}
    assert len(digests) == 1


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr("pubweave.sim.parts.run.REST_LIMIT_S", 8.0)
    return monkeypatch


@pytest.mark.slow
def test_a_ring_that_is_not_kept_is_caught(impatient: pytest.MonkeyPatch) -> None:
    impatient.setattr(ChordMaintenance, "_find_others", lambda self: None)
    impatient.setattr(ChordMaintenance, "look_up", lambda self, key, through=None: None)
    assert _failed(range(4))


@pytest.mark.slow
def test_trees_that_are_not_joined_again_are_caught(impatient: pytest.MonkeyPatch) -> None:
    make = TopicTrees.__init__

    def make_lazy(self: TopicTrees, *args: Any, **options: Any) -> None:
        make(self, *args, **options)
        self._config = replace(self._config, refresh_s=1e9)

    impatient.setattr(TopicTrees, "_break", lambda self, topics, now: None)
    impatient.setattr(TopicTrees, "__init__", make_lazy)
    assert _failed(range(4))


@pytest.mark.slow
def test_publications_that_are_not_sent_again_are_caught(impatient: pytest.MonkeyPatch) -> None:
    impatient.setattr(TopicLog, "beyond", lambda self, marks: [])
    found = [text for texts in _failed(range(4)).values() for text in texts]
    assert any("never got" in text for text in found)
