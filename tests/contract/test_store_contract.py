"""What every store has to do; see the contract in `pubweave.deploy.store`."""

from __future__ import annotations

import pytest

from pubweave.deploy.store import (
    Create,
    Delete,
    List,
    NodeChanged,
    Outcome,
    Read,
    SessionChanged,
    StoreSessionState,
    Write,
)
from tests.contract.conftest import StoreFactory, StoreUser, assert_ok

TOP = "/pubweave/demo"
NODE = f"{TOP}/node"


@pytest.fixture
def user(store_factory: StoreFactory) -> StoreUser:
    return _connected(store_factory)


@pytest.fixture
def other(store_factory: StoreFactory, user: StoreUser) -> StoreUser:
    return _connected(store_factory)


def _connected(store_factory: StoreFactory) -> StoreUser:
    user = store_factory()
    assert user.next_notice() == SessionChanged(StoreSessionState.CONNECTED)
    return user


# --- nodes and versions ----------------------------------------------------------------------


def test_a_node_holds_what_it_was_created_with(user: StoreUser, other: StoreUser) -> None:
    created = user.ask(Create(NODE, b"x"))
    assert (created.outcome, created.version) == (Outcome.OK, 0)
    read = other.ask(Read(NODE))
    assert (read.outcome, read.data, read.version) == (Outcome.OK, b"x", 0)


def test_a_node_may_hold_nothing(user: StoreUser) -> None:
    assert_ok(user.ask(Create(NODE)))
    assert user.ask(Read(NODE)).data == b""


def test_an_answer_repeats_its_request(user: StoreUser) -> None:
    for request in (Create(NODE, b"x"), Read(NODE), Write(NODE, b"y", 0), List(NODE), Delete(NODE)):
        assert user.ask(request).request == request


def test_parents_are_made_on_the_way(user: StoreUser) -> None:
    assert_ok(user.ask(Create(f"{TOP}/a/b/c", b"x")))
    assert user.ask(Read(f"{TOP}/a/b")).data == b""
    assert user.ask(List(f"{TOP}/a")).children == ("b",)


def test_what_exists_is_not_created_again(user: StoreUser, other: StoreUser) -> None:
    assert_ok(user.ask(Create(NODE, b"x")))
    assert other.ask(Create(NODE, b"y")).outcome is Outcome.EXISTS
    assert other.ask(Create(TOP)).outcome is Outcome.EXISTS
    assert user.ask(Read(NODE)).data == b"x"


def test_what_is_missing_is_said_to_be(user: StoreUser) -> None:
    for request in (Read(NODE), Write(NODE, b"x"), Delete(NODE), List(NODE)):
        assert user.ask(request).outcome is Outcome.MISSING


def test_every_write_counts(user: StoreUser) -> None:
    user.ask(Create(NODE, b"0"))
    assert user.ask(Write(NODE, b"1", 0)).version == 1
    assert user.ask(Write(NODE, b"2")).version == 2
    read = user.ask(Read(NODE))
    assert (read.data, read.version) == (b"2", 2)


def test_of_two_who_saw_the_same_version_one_writes(user: StoreUser, other: StoreUser) -> None:
    user.ask(Create(NODE, b"0"))
    assert_ok(other.ask(Write(NODE, b"theirs", 0)))
    assert user.ask(Write(NODE, b"ours", 0)).outcome is Outcome.BAD_VERSION
    assert user.ask(Delete(NODE, 0)).outcome is Outcome.BAD_VERSION
    assert user.ask(Read(NODE)).data == b"theirs"


def test_a_node_with_children_is_not_deleted(user: StoreUser) -> None:
    user.ask(Create(f"{NODE}/child"))
    assert user.ask(Delete(NODE)).outcome is Outcome.NOT_EMPTY
    assert_ok(user.ask(Delete(f"{NODE}/child", 0)))
    assert_ok(user.ask(Delete(NODE)))
    assert user.ask(Read(NODE)).outcome is Outcome.MISSING


def test_a_node_made_again_counts_from_the_beginning(user: StoreUser) -> None:
    user.ask(Create(NODE))
    user.ask(Write(NODE, b"1"))
    user.ask(Delete(NODE))
    user.ask(Create(NODE))
    assert user.ask(Read(NODE)).version == 0


def test_children_are_named_in_order(user: StoreUser) -> None:
    for name in ("c", "a", "b"):
        user.ask(Create(f"{NODE}/{name}"))
    assert user.ask(List(NODE)).children == ("a", "b", "c")
    assert user.ask(List(f"{NODE}/a")).children == ()


def test_requests_are_carried_out_and_answered_in_order(user: StoreUser) -> None:
    writes = [Write(NODE, b"%d" % number, number) for number in range(50)]
    answers = user.ask_all([Create(NODE, b"new"), *writes, Read(NODE)])
    assert [answer.outcome for answer in answers] == [Outcome.OK] * 52
    assert [answer.version for answer in answers[1:-1]] == list(range(1, 51))
    assert answers[-1].data == b"49"


# --- sessions --------------------------------------------------------------------------------


def test_an_ephemeral_node_goes_with_its_user(user: StoreUser, other: StoreUser) -> None:
    assert_ok(user.ask(Create(NODE, b"here", ephemeral=True)))
    assert other.ask(Read(NODE, watch=True)).data == b"here"
    user.close()
    assert other.next_notice() == NodeChanged(NODE)
    assert other.ask(Read(NODE)).outcome is Outcome.MISSING


def test_an_ephemeral_node_has_no_children(user: StoreUser) -> None:
    user.ask(Create(NODE, ephemeral=True))
    assert user.ask(Create(f"{NODE}/child")).outcome is Outcome.DENIED


def test_a_suspended_session_keeps_its_ephemeral_nodes(user: StoreUser, other: StoreUser) -> None:
    user.ask(Create(NODE, b"here", ephemeral=True))
    user.interrupt()
    assert user.next_notice() == SessionChanged(StoreSessionState.SUSPENDED)
    assert user.next_notice() == SessionChanged(StoreSessionState.CONNECTED)
    assert other.ask(Read(NODE)).data == b"here"
    assert_ok(user.ask(Write(NODE, b"still", 0)))


def test_a_lost_session_has_lost_its_ephemeral_nodes(user: StoreUser, other: StoreUser) -> None:
    user.ask(Create(NODE, ephemeral=True))
    user.ask(Create(f"{TOP}/stays"))
    user.expire()
    while (notice := user.next_notice()) != SessionChanged(StoreSessionState.LOST):
        assert notice == SessionChanged(StoreSessionState.SUSPENDED)
    assert user.next_notice() == SessionChanged(StoreSessionState.CONNECTED)
    assert other.ask(Read(NODE)).outcome is Outcome.MISSING
    assert_ok(other.ask(Read(f"{TOP}/stays")))
    assert_ok(user.ask(Create(NODE, ephemeral=True)))


# --- watches ---------------------------------------------------------------------------------


def test_a_watch_on_a_node_fires_once_for_a_write(user: StoreUser, other: StoreUser) -> None:
    user.ask(Create(NODE))
    user.ask(Read(NODE, watch=True))
    other.ask(Write(NODE, b"1"))
    other.ask(Write(NODE, b"2"))
    assert user.next_notice() == NodeChanged(NODE)
    assert user.hears_nothing()


def test_a_watch_on_a_missing_node_fires_when_it_comes(user: StoreUser, other: StoreUser) -> None:
    assert user.ask(Read(NODE, watch=True)).outcome is Outcome.MISSING
    other.ask(Create(NODE))
    assert user.next_notice() == NodeChanged(NODE)


def test_a_watch_on_a_node_fires_when_it_goes(user: StoreUser, other: StoreUser) -> None:
    user.ask(Create(NODE))
    user.ask(Read(NODE, watch=True))
    other.ask(Delete(NODE))
    assert user.next_notice() == NodeChanged(NODE)


def test_a_watch_on_children_fires_when_one_comes_or_goes(
    user: StoreUser, other: StoreUser
) -> None:
    user.ask(Create(NODE))
    assert user.ask(List(NODE, watch=True)).children == ()
    other.ask(Create(f"{NODE}/child", ephemeral=True))
    assert user.next_notice() == NodeChanged(NODE)
    assert user.ask(List(NODE, watch=True)).children == ("child",)
    other.close()
    assert user.next_notice() == NodeChanged(NODE)
    assert user.ask(List(NODE)).children == ()


def test_a_watch_on_the_children_of_a_missing_node_fires_when_they_come(
    user: StoreUser, other: StoreUser
) -> None:
    """The node may come first and its child after: whoever reads again at each notice sees it."""
    assert user.ask(List(NODE, watch=True)).outcome is Outcome.MISSING
    other.ask(Create(f"{NODE}/child"))
    for _ in range(2):
        assert user.next_notice() == NodeChanged(NODE)
        if user.ask(List(NODE, watch=True)).children == ("child",):
            return
    raise AssertionError("the child was never seen")


def test_no_write_is_missed_between_a_read_and_its_watch(user: StoreUser, other: StoreUser) -> None:
    """Whoever reads again at each notice ends up with the last write."""
    user.ask(Create(NODE, b"start"))
    seen = user.ask(Read(NODE, watch=True)).data
    for number in range(20):
        other.ask(Write(NODE, b"%d" % number))
    while seen != b"19":
        assert user.next_notice() == NodeChanged(NODE)
        seen = user.ask(Read(NODE, watch=True)).data


def test_a_read_without_watch_arms_nothing(user: StoreUser, other: StoreUser) -> None:
    user.ask(Create(NODE))
    user.ask(Read(NODE))
    user.ask(List(NODE))
    other.ask(Write(NODE, b"x"))
    other.ask(Create(f"{NODE}/child"))
    assert user.hears_nothing()


def test_ones_own_write_fires_ones_own_watch(user: StoreUser) -> None:
    user.ask(Create(NODE))
    user.ask(Read(NODE, watch=True))
    user.ask(Write(NODE, b"x"))
    assert user.next_notice() == NodeChanged(NODE)


def test_watches_armed_again_after_a_new_session_work(user: StoreUser, other: StoreUser) -> None:
    user.ask(Create(NODE))
    user.ask(Read(NODE, watch=True))
    user.expire()
    while user.next_notice() != SessionChanged(StoreSessionState.CONNECTED):
        pass
    user.ask(Read(NODE, watch=True))
    other.ask(Write(NODE, b"x"))
    assert user.next_notice() == NodeChanged(NODE)
