"""The mirror: what counts as known, and when it asks again."""

from __future__ import annotations

import math

import pytest

from pubweave.deploy.documents import ExecutorDocument, encode
from pubweave.deploy.mirror import Mirror
from pubweave.deploy.store import (
    Create,
    Delete,
    List,
    NodeChanged,
    Outcome,
    Read,
    SessionChanged,
    StoreAnswer,
    StoreSessionState,
    TimerFired,
    Write,
)

NODE = "/n"
DOCUMENT = ExecutorDocument(name="e1")
CONNECTED = SessionChanged(StoreSessionState.CONNECTED)


@pytest.fixture
def mirror() -> Mirror:
    """It watches NODE and its children and has read both."""
    mirror = Mirror(retry_s=0.5)
    mirror.watch([NODE], [NODE])
    mirror.handle(CONNECTED, 0.0)
    assert mirror.flush(0.0) == [Read(NODE, watch=True), List(NODE, watch=True)]
    answer(mirror, Read(NODE, watch=True), Outcome.OK, encode(DOCUMENT), 3)
    mirror.handle(StoreAnswer(List(NODE, watch=True), Outcome.OK, children=("a",)), 0.0)
    return mirror


def answer(
    mirror: Mirror,
    request: Read | Write | Create | Delete,
    outcome: Outcome,
    data: bytes = b"",
    version: int = 0,
) -> None:
    mirror.handle(StoreAnswer(request, outcome, data, version), 0.0)


def test_nothing_is_asked_before_the_session_stands() -> None:
    mirror = Mirror(retry_s=0.5)
    mirror.watch([NODE])
    assert mirror.flush(0.0) == []
    assert not mirror.is_settled(NODE)
    assert mirror.next_deadline() == math.inf


def test_what_was_read_is_known(mirror: Mirror) -> None:
    assert mirror.is_settled(NODE)
    assert mirror.document(NODE, ExecutorDocument) == DOCUMENT
    assert mirror.version(NODE) == 3
    assert mirror.children(NODE) == ("a",)
    assert mirror.flush(1.0) == []


def test_a_node_that_is_only_the_way_to_others_is_not_there(mirror: Mirror) -> None:
    """A late report makes anew the nodes above it that were swept with its plan."""
    mirror.handle(NodeChanged(NODE), 1.0)
    mirror.flush(1.0)
    answer(mirror, Read(NODE, watch=True), Outcome.OK, b"", 0)
    assert mirror.is_settled(NODE)
    assert not mirror.is_there(NODE)
    assert mirror.document(NODE, ExecutorDocument) is None


def test_a_notice_makes_it_read_again(mirror: Mirror) -> None:
    mirror.handle(NodeChanged(NODE), 1.0)
    assert not mirror.is_settled(NODE)
    assert mirror.children(NODE) is None
    assert mirror.document(NODE, ExecutorDocument) == DOCUMENT, "the last known is still told"
    assert mirror.flush(1.0) == [Read(NODE, watch=True), List(NODE, watch=True)]
    answer(mirror, Read(NODE, watch=True), Outcome.MISSING)
    assert mirror.is_settled(NODE)
    assert mirror.document(NODE, ExecutorDocument) is None


def test_a_notice_during_a_read_makes_it_read_once_more(mirror: Mirror) -> None:
    mirror.handle(NodeChanged(NODE), 1.0)
    mirror.flush(1.0)
    mirror.handle(NodeChanged(NODE), 1.0)
    assert mirror.flush(1.0) == []
    answer(mirror, Read(NODE, watch=True), Outcome.OK, encode(DOCUMENT), 4)
    assert not mirror.is_settled(NODE)
    assert mirror.flush(1.0) == [Read(NODE, watch=True)]


def test_a_node_with_a_change_under_way_is_not_settled(mirror: Mirror) -> None:
    change = Write(NODE, b"{}", 3)
    mirror.send(change)
    assert mirror.flush(1.0) == [change]
    assert not mirror.is_settled(NODE)
    with pytest.raises(AssertionError):
        mirror.send(change)


def test_an_accepted_write_is_known_without_reading(mirror: Mirror) -> None:
    other = ExecutorDocument(name="e2")
    change = Write(NODE, encode(other), 3)
    mirror.send(change)
    mirror.flush(1.0)
    answer(mirror, change, Outcome.OK, version=4)
    assert mirror.is_settled(NODE)
    assert (mirror.document(NODE, ExecutorDocument), mirror.version(NODE)) == (other, 4)
    mirror.send(Delete(NODE, 4))
    mirror.flush(1.0)
    answer(mirror, Delete(NODE, 4), Outcome.OK)
    assert not mirror.is_there(NODE)


@pytest.mark.parametrize("outcome", [Outcome.BAD_VERSION, Outcome.MISSING, Outcome.EXISTS])
def test_a_lost_race_makes_it_read_again_at_once(mirror: Mirror, outcome: Outcome) -> None:
    change = Write(NODE, b"{}", 3)
    mirror.send(change)
    mirror.flush(1.0)
    answer(mirror, change, outcome)
    assert not mirror.is_settled(NODE)
    assert mirror.flush(1.0) == [Read(NODE, watch=True)]


def test_an_unsure_answer_makes_it_read_again_after_a_while(mirror: Mirror) -> None:
    change = Write(NODE, b"{}", 3)
    mirror.send(change)
    mirror.flush(1.0)
    mirror.handle(StoreAnswer(change, Outcome.UNSURE), 1.0)
    assert mirror.flush(1.0) == []
    assert mirror.next_deadline() == 1.5
    mirror.handle(TimerFired(), 1.5)
    assert mirror.flush(1.5) == [Read(NODE, watch=True)]
    assert mirror.next_deadline() == math.inf


def test_a_denied_request_is_a_problem_in_words(mirror: Mirror) -> None:
    mirror.send(Create("/x"))
    mirror.flush(0.0)
    answer(mirror, Create("/x"), Outcome.DENIED)
    assert mirror.problem == "the store denies create of /x: check its login"


def test_nothing_is_settled_while_suspended_and_all_is_read_again_after(mirror: Mirror) -> None:
    mirror.handle(SessionChanged(StoreSessionState.SUSPENDED), 1.0)
    assert not mirror.is_settled(NODE)
    assert mirror.children(NODE) is None
    mirror.send(Create("/x"))
    assert mirror.flush(1.0) == []
    mirror.handle(CONNECTED, 2.0)
    assert mirror.flush(2.0) == [Read(NODE, watch=True), List(NODE, watch=True)]
    assert mirror.sessions == 0


def test_only_a_lost_session_is_counted_as_another(mirror: Mirror) -> None:
    mirror.handle(SessionChanged(StoreSessionState.SUSPENDED), 1.0)
    mirror.handle(SessionChanged(StoreSessionState.LOST), 2.0)
    mirror.handle(CONNECTED, 2.0)
    assert mirror.sessions == 1


def test_what_is_not_watched_any_more_is_forgotten(mirror: Mirror) -> None:
    mirror.watch(["/other"])
    assert mirror.flush(1.0) == [Read("/other", watch=True)]
    mirror.handle(NodeChanged(NODE), 1.0)
    assert mirror.flush(1.0) == []
