"""The scenario `placement`: users are sent elsewhere and keep their messages."""

from __future__ import annotations

import pytest

from pubweave.core.routing.topic_connected.routing import TopicRouting
from pubweave.sim.simulate import run_seeds


def _run(seeds: range) -> tuple[dict[int, tuple[str, ...]], int]:
    runs = list(run_seeds("placement", seeds, jobs=1, max_brokers=6))
    failed = {run.seed: run.violations[:3] for run in runs if run.violations}
    return failed, sum(run.counts.get("users_sent", 0) for run in runs)


def test_users_keep_their_messages_when_they_are_sent_elsewhere() -> None:
    failed, sent = _run(range(2))
    assert not failed, "again: pubweave simulate placement --max-brokers 6 --seed N"
    assert sent


@pytest.mark.slow
@pytest.mark.parametrize("first", range(100, 140, 20))
def test_nothing_is_lost_in_many_runs(first: int) -> None:
    failed, sent = _run(range(first, first + 20))
    assert not failed
    assert sent > 20


@pytest.mark.slow
def test_a_broker_that_gives_nothing_to_who_comes_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("pubweave.sim.parts.run.REST_LIMIT_S", 8.0)
    monkeypatch.setattr(TopicRouting, "_send_kept", lambda self, client, claim: None)
    failed, _ = _run(range(12))
    assert failed
