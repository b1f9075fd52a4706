"""Faults planted into the gateway: runs of `mqtt` fail by them, each for the right reason."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest

from pubweave.core.mqtt.cluster.retained import RetainedStore
from pubweave.core.mqtt.connect import ConnectHandler
from pubweave.core.mqtt.session import session as session_module
from pubweave.core.mqtt.session.inflight import Delivery, InflightQueue
from pubweave.core.mqtt.session.session import MqttSession
from pubweave.core.mqtt.session.subscriptions import SessionSubscriptions
from pubweave.model.mqtt_packets import ConnAck
from pubweave.sim.simulate import run_seed

SEEDS = range(6)
SEND, PUT, ANSWER, MATCHING = (
    MqttSession.send,
    InflightQueue.put,
    ConnectHandler._answer,
    RetainedStore.matching,
)
CALLS: Counter[str] = Counter()


def every(name: str, count: int) -> bool:
    CALLS[name] += 1
    return CALLS[name] % count == 0


def forget_wills(session: MqttSession, now: float) -> None:
    session.will = session.will_at = None


def drop(session: MqttSession, delivery: Delivery, now: float) -> None:
    if not every("drop", 40):
        SEND(session, delivery, now)


def double(session: MqttSession, delivery: Delivery, now: float) -> None:
    SEND(session, delivery, now)
    if every("double", 40):
        SEND(session, delivery, now)


def reorder(queue: InflightQueue, delivery: Delivery) -> bool:
    has_room = PUT(queue, delivery)
    if has_room and every("reorder", 3):
        queue.waiting.rotate(1)
    return has_room


def lie_of_sessions(handler: ConnectHandler, *args: Any) -> ConnAck:
    return msgspec.structs.replace(ANSWER(handler, *args), session_present=True)


def deny_sessions(handler: ConnectHandler, *args: Any) -> ConnAck:
    return msgspec.structs.replace(ANSWER(handler, *args), session_present=False)


def retain_nothing(store: RetainedStore, pattern: str, now: float) -> list[Any]:
    return [] if every("retained", 3) else MATCHING(store, pattern, now)


PLANTS = {
    "wills": (MqttSession, "publish_will", forget_wills, "b'will/"),
    "drop": (MqttSession, "send", drop, "never came to"),
    "double": (MqttSession, "send", double, "2 times, at QoS 2"),
    "reorder": (InflightQueue, "put", reorder, "after a later one"),
    "expired": (session_module, "is_expired", lambda *_: False, "which had expired"),
    "present": (ConnectHandler, "_answer", lie_of_sessions, "told that its session is present"),
    "absent": (ConnectHandler, "_answer", deny_sessions, "lost its session"),
    "retained": (RetainedStore, "matching", retain_nothing, "retained on"),
    "unsubscribe": (SessionSubscriptions, "remove", lambda *_: None, "unsubscribed"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTS)
def test_a_planted_fault_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    where, what, planted, text = PLANTS[name]
    CALLS.clear()
    monkeypatch.setattr(where, what, planted)
    found: list[str] = []
    for seed in SEEDS:
        found += run_seed("mqtt", seed, max_brokers=3).violations
        if any(text in violation for violation in found):
            return
    pytest.fail(f"not found in {len(SEEDS)} seeds: {found[:3]}")


HAPPENS = (
    *("wills", "wills_withheld", "due_wills", "retained", "retained_due", "retained_deleted"),
    *("expired", "expiring_delivered", "unsubscribed", "shared", "ids_checked", "due_qos0"),
    *("own_beside_no_local", "doubled", "redirected", "overrun", "overruns_told"),
    *("sessions_lost", "sessions_expired", "sessions_resumed", "due"),
)


@pytest.mark.slow
def test_everything_that_is_checked_happens() -> None:
    totals: Counter[str] = Counter()
    for seed in range(30):
        result = run_seed("mqtt", seed, max_brokers=4)
        assert not result.violations, seed
        totals.update(result.counts)
    assert [name for name in HAPPENS if not totals[name]] == []
    assert totals["missing"] == 0
