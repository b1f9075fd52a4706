"""The scenario `hybrid`: seeds hold, gateways are replaced, and a broken border is caught."""

from __future__ import annotations

import pytest

from pubweave.core.routing.rendezvous.clusters import AttachedClusters
from pubweave.core.routing.topic_connected.gateway import RingGateway
from pubweave.sim.simulate import run_seed, run_seeds


def _failed(seeds: range) -> dict[int, tuple[str, ...]]:
    runs = run_seeds("hybrid", seeds, jobs=1, max_brokers=8)
    return {run.seed: run.violations[:3] for run in runs if run.violations}


def test_nothing_is_lost_across_borders() -> None:
    assert not _failed(range(2)), "again: pubweave simulate hybrid --max-brokers 8 --seed N"


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 160, 20))
def test_nothing_is_lost_in_many_runs(first: int) -> None:
    assert not _failed(range(first, first + 20))


@pytest.mark.slow
def test_gateways_in_charge_are_lost_and_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: set[tuple[int, str, str]] = set()
    look = RingGateway.check

    def watched(self: RingGateway, *args: object, **named: object) -> None:
        look(self, *args, **named)  # type: ignore[arg-type]
        if self.in_charge is not None:
            seen.add((seed, self.in_charge.partition("b")[0], self.in_charge))

    monkeypatch.setattr(RingGateway, "check", watched)
    for seed in range(20, 30):
        assert not run_seed("hybrid", seed, max_brokers=10).violations
    clusters = {(seed, cluster) for seed, cluster, _ in seen}
    assert len(seen) > 1.5 * len(clusters)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    monkeypatch.setattr("pubweave.sim.parts.run.REST_LIMIT_S", 8.0)
    return monkeypatch


@pytest.mark.slow
def test_a_gateway_that_does_not_take_over_is_caught(impatient: pytest.MonkeyPatch) -> None:
    hold = RingGateway._hold

    def only_once(self: RingGateway, topics: set[str]) -> None:
        if self._id.endswith(("1", "3", "5")) or not topics:
            hold(self, topics)

    impatient.setattr(RingGateway, "_hold", only_once)
    assert _failed(range(6))


@pytest.mark.slow
def test_a_ring_that_does_not_hold_the_clusters_topics_is_caught(
    impatient: pytest.MonkeyPatch,
) -> None:
    impatient.setattr(AttachedClusters, "check", lambda self, now: None)
    assert _failed(range(3))


def test_what_a_rendezvous_that_slept_and_was_killed_had_got_goes_to_the_next_one() -> None:
    result = run_seed("hybrid", 7040042, max_brokers=14, pause_s=(35.0, 60.0))
    assert result.counts["broker_pause"] == 2
    assert result.counts["broker_crash"] > 0
    assert not result.violations
