"""Lines to the store: order, latency, and what a break does."""

from __future__ import annotations

import pytest

from pubweave.deploy.store import (
    Create,
    NodeChanged,
    Outcome,
    Read,
    SessionChanged,
    StoreAnswer,
    StoreSessionState,
    Write,
)
from pubweave.sim.kernel.store_links import SimStore
from pubweave.sim.kernel.world import World

CONNECTED = SessionChanged(StoreSessionState.CONNECTED)


@pytest.fixture
def world() -> World:
    return World(1)


@pytest.fixture
def store(world: World) -> SimStore:
    return SimStore(world, latency_s=(0.01, 0.01), session_limit_s=1.0)


def test_an_answer_takes_the_way_there_and_back(world: World, store: SimStore) -> None:
    heard: list[tuple[float, object]] = []
    line = store.connect("u", lambda event: heard.append((world.now, event)))
    world.run_until(1.0)
    line.ask(Create("/a", b"x"))
    world.run_until(2.0)
    assert heard == [
        (0.01, CONNECTED),
        (pytest.approx(1.02), StoreAnswer(Create("/a", b"x"), Outcome.OK)),
    ]


def test_a_notice_comes_before_any_later_answer(world: World, store: SimStore) -> None:
    heard: list[object] = []
    watcher = store.connect("w", heard.append)
    writer = store.connect("u", lambda event: None)
    world.run_until(0.5)
    watcher.ask(Read("/a", watch=True))
    world.run_until(1.0)
    writer.ask(Create("/a", b"x"))
    world.run_until(1.0 + 1e-9)
    watcher.ask(Read("/a"))
    world.run_until(2.0)
    assert heard[1:] == [
        StoreAnswer(Read("/a", watch=True), Outcome.MISSING),
        NodeChanged("/a"),
        StoreAnswer(Read("/a"), Outcome.OK, b"x", 0),
    ]


@pytest.mark.parametrize("arrives", [True, False])
def test_what_is_under_way_in_a_break_is_unsure(
    world: World, store: SimStore, arrives: bool
) -> None:
    heard: list[object] = []
    line = store.connect("u", heard.append)
    world.run_until(0.5)
    line.ask(Create("/a"))
    line.interrupt(0.2, arrives=arrives)
    line.ask(Create("/b"))
    world.run_until(2.0)
    assert heard[1:] == [
        SessionChanged(StoreSessionState.SUSPENDED),
        StoreAnswer(Create("/a"), Outcome.UNSURE),
        StoreAnswer(Create("/b"), Outcome.UNSURE),
        CONNECTED,
    ]
    assert ("/a" in store.memory.paths()) == arrives
    assert "/b" not in store.memory.paths()


def test_a_long_break_ends_the_session_before_its_owner_knows(
    world: World, store: SimStore
) -> None:
    heard: list[object] = []
    line = store.connect("u", heard.append)
    world.run_until(0.5)
    line.ask(Create("/a", ephemeral=True))
    world.run_until(1.0)
    line.interrupt(3.0, arrives=True)
    world.run_until(2.1)
    assert "/a" not in store.memory.paths()
    assert SessionChanged(StoreSessionState.LOST) not in heard
    world.run_until(5.0)
    assert heard[-2:] == [SessionChanged(StoreSessionState.LOST), CONNECTED]


def test_a_dead_user_hears_nothing_and_its_session_ends_later(
    world: World, store: SimStore
) -> None:
    heard: list[object] = []
    line = store.connect("u", heard.append)
    world.run_until(0.5)
    line.ask(Create("/a", ephemeral=True))
    world.run_until(0.515)
    line.die()
    world.run_until(1.0)
    assert "/a" in store.memory.paths()
    world.run_until(2.0)
    assert "/a" not in store.memory.paths()
    assert heard == [CONNECTED]


def test_accepted_changes_are_heard_in_the_order_of_the_store(
    world: World, store: SimStore
) -> None:
    changes: list[object] = []
    store.on_change = changes.append
    line = store.connect("u", lambda event: None)
    world.run_until(0.5)
    for request in (Create("/a"), Create("/a"), Write("/a", b"1", 7), Write("/a", b"1", 0)):
        line.ask(request)
    world.run_until(1.0)
    assert changes == [Create("/a"), Write("/a", b"1", 0)]
