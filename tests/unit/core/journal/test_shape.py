"""Old journals are read by later code: their classes and fields go by name."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pubweave.core.broker import Broker
from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.self_organizing import Estimate, Heuristic
from pubweave.core.journal import shape
from pubweave.core.journal.recovery import come_back
from pubweave.core.journal.snapshot import SnapshotError, restore_broker, take_snapshot
from pubweave.core.vocabulary.events import DeadlineReached
from pubweave.model.records.journal_records import AppendBytes, Sync
from pubweave.sim.kernel.disk import SimDisk
from pubweave.sim.kernel.world import World
from pubweave.sim.simulate import SCENARIOS
from pubweave.wire.journal_files import SnapshotHead, find_journal
from tests.unit.core.journal.golden import RUNS, Golden, had, read

NOW = 1000.0
GOLDEN = [scenario for scenario, _ in RUNS]


def config_of(golden: Golden) -> BrokerConfig:
    run: Any = SCENARIOS[golden.scenario].begin(golden.seed, durability="journal", max_brokers=8)
    node = next(iter(run.overlay.brokers.values()))
    config: BrokerConfig = replace(node.config, id=golden.broker)
    if config.organize is not None:  # what a seed draws may change; those who wrote it did this
        by_sides = replace(config.organize, heuristic=Heuristic.CI, estimate=Estimate.SIDES)
        config = replace(config, organize=by_sides)
    return config


def state_of(golden: Golden) -> bytes:
    """The state in an old journal, found by a later version."""
    disk = SimDisk(World(0))
    disk.carry_out([AppendBytes("1.snapshot", golden.snapshot), Sync("1.snapshot")])
    found = find_journal(disk, SnapshotHead(golden.broker, "later"))
    assert found is not None
    return found.snapshot


def recovered(golden: Golden, state: bytes) -> Broker:
    return restore_broker(state, config_of(golden), epoch=1, now=NOW)


@pytest.mark.parametrize("scenario", GOLDEN)
def test_an_old_journal_is_recovered(scenario: str) -> None:
    """If this names a class or a field, say in core/journal/shape.py what became of it."""
    golden = read(scenario)
    broker = recovered(golden, state_of(golden))
    assert had(broker) == (golden.clients, golden.links, golden.subscriptions)
    come_back(broker, epoch=1 << 40, now=NOW)
    broker.handle(DeadlineReached(), NOW + 1.0)
    again = restore_broker(take_snapshot(broker), broker.config, epoch=1, now=NOW)
    assert had(again) == had(broker)


def renamed(state: bytes, written: bytes, now: bytes) -> bytes:
    """The journal of a version in which something had another name, of the same length."""
    assert len(written) == len(now)
    assert written in state
    return state.replace(written, now)


@pytest.mark.parametrize(
    ("scenario", "was", "is_"),
    [
        ("churn", "core.session.session.Channel", "core.session.session.Session"),
        ("churn", "model.publications.Declaration", "model.publications.Publication"),
        ("mqtt", "core.elsewhere.by.session.MqttSession", "core.mqtt.session.session.MqttSession"),
    ],
)
def test_a_class_may_be_renamed_and_moved(
    scenario: str, was: str, is_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    golden = read(scenario)
    old = renamed(state_of(golden), is_.encode(), was.encode())
    with pytest.raises(SnapshotError, match=f"has a {was}, which this version does not know"):
        recovered(golden, old)
    monkeypatch.setitem(shape.CLASSES, was, is_)
    broker = recovered(golden, old)
    assert had(broker) == (golden.clients, golden.links, golden.subscriptions)


@pytest.mark.parametrize(
    ("class_", "was", "is_"),
    [
        ("Session", "gone_since", "down_since"),
        ("SessionTable", "closed_saying", "closed_reason"),
        ("BrokerRecord", "reincarnate", "incarnation"),
    ],
    ids=["a session", "what a constructor makes", "a message"],
)
def test_a_field_may_be_renamed(
    class_: str, was: str, is_: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    golden = read("churn")
    state = state_of(golden)
    old = renamed(state, is_.encode(), was.encode())
    with pytest.raises(SnapshotError, match=f"a field '{was}' of {class_}"):
        recovered(golden, old)
    monkeypatch.setitem(shape.FIELDS, f"{class_}.{was}", is_)
    expected = take_snapshot(recovered(golden, state))
    assert take_snapshot(recovered(golden, old)) == expected


def test_a_field_may_be_dropped_and_another_be_new(monkeypatch: pytest.MonkeyPatch) -> None:
    golden = read("churn")
    old = renamed(state_of(golden), b"down_since", b"gone_since")
    monkeypatch.setitem(shape.FIELDS, "Session.gone_since", None)
    with pytest.raises(SnapshotError, match="lacks the field 'down_since' of Session"):
        recovered(golden, old)
    monkeypatch.setitem(shape.DEFAULTS, "Session.down_since", lambda: 17.0)
    broker = recovered(golden, old)
    assert {session.down_since for session in broker.sessions} == {17.0}


def test_a_part_that_is_gone_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """With all that it had."""
    golden = read("churn")
    old = renamed(state_of(golden), b"sessions.clients", b"sessions.visitor")
    with pytest.raises(SnapshotError, match="a field 'visitor' of SessionTable"):
        recovered(golden, old)
    monkeypatch.setitem(shape.FIELDS, "SessionTable.visitor", None)
    assert not recovered(golden, old).sessions.clients


def test_what_a_class_has_is_what_it_declares() -> None:
    class Base:
        __slots__ = ("first",)

    class Plain(Base):
        def __init__(self) -> None:
            self.second = 2

    assert shape.fields_of(Plain) == ("second", "first")
    assert shape.fields_of(Golden)[:2] == ("scenario", "seed")
