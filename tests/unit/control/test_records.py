"""Decisions in the store: found again, answered once, bounded in number."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pubweave.control.records import (
    ControlError,
    GoneError,
    append_decision,
    approve,
    change_decision,
    decision_ids,
    drop_decisions,
    encode_decision,
    encode_status,
    list_decisions,
    read_autopilot,
    read_decision,
    reject,
)
from pubweave.deploy.documents import DocumentError
from pubweave.deploy.store import Create, Outcome, StoreAnswer, Write
from pubweave.model.decisions import (
    DECISION_CHANGES,
    AutopilotPhase,
    AutopilotStatus,
    ControlMode,
    DecisionRecord,
    DecisionState,
)
from tests.unit.control.world import LAYOUT, Store, record

WAITING = record("", DecisionState.WAITING, expires_at=500.0)


@pytest.fixture
def store() -> Store:
    return Store()


def test_ids_count_on_and_the_newest_is_last(store: Store) -> None:
    for n in range(12):
        store.run(append_decision(LAYOUT, record("", DecisionState.CLOSED, decided_at=float(n))))
    ids = store.run(decision_ids(LAYOUT))
    assert ids[0] == "000001"
    assert ids[-1] == "000012"
    last = store.run(list_decisions(LAYOUT, 2))
    assert [each.decided_at for each in last] == [10.0, 11.0]
    assert len(store.run(list_decisions(LAYOUT))) == 12


def test_what_is_read_back_is_what_was_stored(store: Store) -> None:
    kept = store.run(append_decision(LAYOUT, WAITING))
    assert store.run(read_decision(LAYOUT, "1")) == kept
    assert kept == msgspec.structs.replace(WAITING, id="000001")


def test_an_answer_counts_once_and_only_while_it_is_waited_for(store: Store) -> None:
    store.run(append_decision(LAYOUT, WAITING))
    agreed = store.run(approve(LAYOUT, "1", "ann", 200.0))
    assert (agreed.state, agreed.reviewed_by) == (DecisionState.APPROVED, "ann")
    assert store.run(approve(LAYOUT, "1", "ann", 201.0)) == agreed
    with pytest.raises(ControlError, match="000001 is approved: only waiting ones"):
        store.run(reject(LAYOUT, "1", "bob", 202.0))


def test_a_rejection_keeps_its_reason(store: Store) -> None:
    store.run(append_decision(LAYOUT, WAITING))
    declined = store.run(reject(LAYOUT, "1", "bob", 200.0, "not today"))
    assert (declined.state, declined.outcome_reason) == (DecisionState.REJECTED, "not today")
    assert declined.ended_at == 200.0


def test_an_answer_that_comes_too_late_is_refused(store: Store) -> None:
    store.run(append_decision(LAYOUT, WAITING))
    with pytest.raises(ControlError, match="waited too long"):
        store.run(approve(LAYOUT, "1", "ann", 500.0))


@pytest.mark.parametrize("id_", ["99", "seven", "", "-1"])
def test_a_decision_that_is_not_there_is_named(store: Store, id_: str) -> None:
    with pytest.raises(ControlError, match=r"no decision 99|is no id of a decision"):
        store.run(read_decision(LAYOUT, id_))


def test_a_change_of_a_record_that_somebody_cleared_says_so(store: Store) -> None:
    with pytest.raises(GoneError):
        store.run(change_decision(LAYOUT, "000004", lambda current: current))


def test_dropped_records_are_gone_and_their_ids_not_given_again(store: Store) -> None:
    for _ in range(3):
        store.run(append_decision(LAYOUT, WAITING))
    assert store.run(drop_decisions(LAYOUT, ["000001", "000002", "000009"])) == 2
    assert store.run(append_decision(LAYOUT, WAITING)).id == "000004"


def test_somebody_who_comes_between_reading_and_writing_is_not_overwritten(store: Store) -> None:
    store.run(append_decision(LAYOUT, WAITING))
    calls = []

    def change(current: DecisionRecord) -> DecisionRecord:
        if not calls:
            calls.append(current)
            store.run(approve(LAYOUT, "1", "ann", 200.0))
        return msgspec.structs.replace(current, outcome_reason="seen")

    changed = store.run(change_decision(LAYOUT, "000001", change))
    assert changed.state is DecisionState.APPROVED
    assert changed.outcome_reason == "seen"


@pytest.mark.parametrize("was_done", [True, False])
def test_a_create_of_which_nobody_knows_is_not_done_twice(store: Store, was_done: bool) -> None:
    script = append_decision(LAYOUT, WAITING)
    request: Any = next(script)
    answer: StoreAnswer | None = None
    while not isinstance(request, Create):
        request = script.send(store.memory.handle(store.session, request))
    if was_done:
        store.memory.handle(store.session, request)
    try:
        request = script.send(StoreAnswer(request, Outcome.UNSURE))
        while True:
            answer = store.memory.handle(store.session, request)
            request = script.send(answer)
    except StopIteration as finished:
        kept: DecisionRecord = finished.value
    assert kept.id == "000001"
    assert store.run(decision_ids(LAYOUT)) == ("000001",)


def test_a_store_that_never_answers_is_given_up_with_a_sentence(store: Store) -> None:
    for script in (read_decision(LAYOUT, "1"), list_decisions(LAYOUT), read_autopilot(LAYOUT)):
        with pytest.raises(ControlError, match="try again when it is reachable"):
            _drive_in_vain(script)


def test_a_foreign_document_is_named(store: Store) -> None:
    store.memory.handle(store.session, Create(LAYOUT.decision("000001"), b"[1]"))
    with pytest.raises(DocumentError, match="decisions/000001: not a DecisionRecord"):
        store.run(read_decision(LAYOUT, "1"))
    newer = encode_decision(msgspec.structs.replace(WAITING, decision_version=9))
    store.memory.handle(store.session, Write(LAYOUT.decision("000001"), newer))
    with pytest.raises(DocumentError, match="decision_version 9"):
        store.run(read_decision(LAYOUT, "1"))


def test_a_running_loop_is_seen_and_a_missing_one_too(store: Store) -> None:
    assert store.run(read_autopilot(LAYOUT)) is None
    status = AutopilotStatus(
        name="host:1",
        mode=ControlMode.AUTO,
        started_at=1.0,
        phase=AutopilotPhase.RESTING,
        phase_since=2.0,
    )
    made = Create(LAYOUT.autopilot, encode_status(status), ephemeral=True)
    store.memory.handle(store.session, made)
    assert store.run(read_autopilot(LAYOUT)) == status


@pytest.mark.parametrize("state", list(DecisionState))
def test_a_decision_moves_only_along_its_table(state: DecisionState) -> None:
    for wanted in DecisionState:
        made = record("000001", state)
        if wanted in DECISION_CHANGES[state]:
            assert made.moved_to(wanted).state is wanted
        else:
            with pytest.raises(AssertionError):
                made.moved_to(wanted)


def _drive_in_vain(script: Any) -> None:
    request = next(script)
    while True:
        request = script.send(StoreAnswer(request, Outcome.UNSURE))
