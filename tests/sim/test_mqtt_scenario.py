"""The scenario `mqtt`: a few seeds of each kind, and the checker that knows the truth."""

from __future__ import annotations

import pytest

from pubweave.core.mqtt.session.deduplicator import SessionDeduplicator
from pubweave.core.mqtt.session.inflight import Delivery
from pubweave.core.mqtt.session.session import MqttSession
from pubweave.core.mqtt.session.table import MqttSessionTable
from pubweave.sim.kernel.trace import Trace
from pubweave.sim.simulate import run_seed


def failed(seeds: range, **options: str) -> dict[int, str]:
    results = {seed: run_seed("mqtt", seed, max_brokers=4, **options) for seed in seeds}  # type: ignore[arg-type]
    return {seed: r.violations[0] for seed, r in results.items() if r.violations}


def test_mqtt_keeps_its_promises_under_faults() -> None:
    assert not failed(range(2)), "again: pubweave simulate mqtt --max-brokers 4 --seed N"


@pytest.mark.slow
def test_mqtt_keeps_its_promises_in_more_runs() -> None:
    assert not failed(range(2, 14)), "again: pubweave simulate mqtt --max-brokers 4 --seed N"


@pytest.mark.slow
def test_nothing_acknowledged_is_lost_with_journals() -> None:
    again = "again: pubweave simulate mqtt --max-brokers 4 --durability journal --seed N"
    assert not failed(range(8), durability="journal"), again


@pytest.mark.slow
def test_sessions_that_get_too_much_are_never_just_short_of_something(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Many of these seeds have clients that stay away for longer than their sessions have room."""
    seeds = range(1045, 1053)
    runs = [run_seed("mqtt", seed, max_brokers=4) for seed in seeds]
    assert not [run.violations for run in runs if run.violations]
    assert sum(run.counts["overrun"] for run in runs) > 0
    monkeypatch.setattr(MqttSession, "send", dropping_in_secret)
    assert failed(seeds), "a queue that drops the newest would not be noticed"


def dropping_in_secret(session: MqttSession, delivery: Delivery, now: float) -> None:
    if not delivery.qos or session.inflight.has_room_for([delivery]):
        SENT(session, delivery, now)


SENT = MqttSession.send


@pytest.mark.slow
def test_clients_that_are_sent_elsewhere_lose_nothing() -> None:
    runs = [run_seed("mqtt", seed, max_brokers=4) for seed in range(1024, 1032)]
    assert not [run.violations for run in runs if run.violations]
    assert sum(run.counts["redirected"] for run in runs) > 0


TOPICAL = pytest.mark.parametrize("strategy", ["topic_connected", "rendezvous"])
AGAIN = "again: pubweave simulate mqtt --max-brokers 4 --strategy S --seed N"


@TOPICAL
def test_wildcards_hold_where_brokers_route_by_topics(strategy: str) -> None:
    assert not failed(range(2), strategy=strategy), AGAIN


@pytest.mark.slow
@TOPICAL
@pytest.mark.parametrize("durability", ["memory", "journal"])
def test_wildcards_hold_in_more_runs(strategy: str, durability: str) -> None:
    assert not failed(range(3, 9), strategy=strategy, durability=durability), AGAIN


@pytest.mark.slow
def test_sessions_that_move_get_what_only_their_new_broker_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What was on its way to the old gateway did not come to the new one in these runs."""
    options = {"max_brokers": 8, "strategy": "rendezvous"}
    for seed in (85, 112):
        assert not run_seed("mqtt", seed, **options).violations  # type: ignore[arg-type]
    monkeypatch.setattr(MqttSessionTable, "begin", without_returning)
    assert run_seed("mqtt", 112, **options).violations, "it would not be noticed"  # type: ignore[arg-type]


BEGIN = MqttSessionTable.begin


def without_returning(sessions: MqttSessionTable, *args: object, **options: object) -> MqttSession:
    return BEGIN(sessions, *args, **{**options, "returns": False})  # type: ignore[arg-type]


@pytest.mark.slow
@TOPICAL
def test_what_comes_on_several_ways_would_be_noticed(
    strategy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SessionDeduplicator, "_note", lambda ways, key, sequence: True)
    assert failed(range(3), strategy=strategy)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_run() -> None:
    runs = [run_seed("mqtt", 3, max_brokers=3, trace=Trace()) for _ in range(2)]
    assert runs[0].trace_digest == runs[1].trace_digest
