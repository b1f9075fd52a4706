"""A client migrates: nothing lost, doubled or out of order, whatever happens meanwhile."""

from __future__ import annotations

import pytest

from pubweave.core.vocabulary.events import MigrationRequested
from tests.sim.migration_drill import HOPS, MigrationDrill

KINDS = [(True, False), (False, True), (True, True)]
MESSAGES_PER_HOP = 5
"""reserve, reserved, update, moved, complete; the client's entries aside."""


@pytest.mark.parametrize("covering", [False, True])
@pytest.mark.parametrize(("publishes", "subscribes"), KINDS)
def test_a_client_of_any_kind_moves_and_nobody_notices(
    publishes: bool, subscribes: bool, covering: bool
) -> None:
    drill = MigrationDrill(publishes=publishes, subscribes=subscribes, covering=covering)
    drill.run()
    assert drill.problems() == []
    assert drill.m.home.name == "d"
    assert drill.overlay.judge.sessions_lost == 0
    assert drill.status("a").done == 1
    [move] = drill.overlay.moves
    assert move.hops == HOPS
    assert 0.08 < move.wait_s < 0.2  # twice the 40 ms of the way, and the client's own


@pytest.mark.parametrize(("publishes", "subscribes"), KINDS)
def test_tables_are_those_of_a_fresh_overlay_with_the_client_there(
    publishes: bool, subscribes: bool
) -> None:
    moved = MigrationDrill(publishes=publishes, subscribes=subscribes)
    moved.run()
    fresh = MigrationDrill(home="d", publishes=publishes, subscribes=subscribes)
    assert moved.entries() == fresh.entries()


def test_a_migration_says_so_much_on_each_link_of_its_path_and_nothing_elsewhere() -> None:
    drill = MigrationDrill()
    drill.run()
    said = {name: drill.status(name).messages_out for name in drill.overlay.brokers}
    entries = 2  # one message for the advertisement, one for the subscription
    assert sum(said.values()) == (MESSAGES_PER_HOP + entries) * HOPS
    assert said["x"] == said["y"] == 0


MOMENTS_S = [0.06, 0.135, 0.16, 0.185, 0.21, 0.235]
"""Instants after the beginning: asking, updating, moving, completing."""


def crash_at(offset_s: float, *brokers: str, covering: bool = False) -> list[str]:
    drill = MigrationDrill(covering=covering, seed=int(1000 * offset_s))

    def crash() -> None:
        for broker in brokers:
            drill.crash(broker)

    drill.run(crash, offset_s)
    return drill.problems()


@pytest.mark.parametrize("offset_s", MOMENTS_S)
@pytest.mark.parametrize("broker", ["a", "b", "c", "d"])
def test_a_broker_crashes(broker: str, offset_s: float) -> None:
    assert crash_at(offset_s, broker, covering=offset_s > 0.18) == []


@pytest.mark.parametrize("offset_s", MOMENTS_S[2:])
def test_two_neighbors_crash_together(offset_s: float) -> None:
    assert crash_at(offset_s, "a", "b") == []


def crash_before_moved_is_heard(
    broker: str, before: str, after: str, *, later_s: float = 0.0, cut_s: float = 0.0
) -> list[str]:
    """It has sent publications to the destination already: what comes after its restart must not
    go to the source and overtake them, even if the neighbor behind it is away."""
    drill = MigrationDrill()
    drill.run_until_moved(broker, not_yet=before)
    drill.world.run_until(drill.world.now + later_s)
    drill.crash(broker, down_s=0.05)
    if cut_s:
        drill.cut(broker, after, lasts_s=cut_s)
    drill.world.run_until(2.0)
    assert drill.overlay.run_until_quiet(90.0), "no rest"
    assert drill.m.home.name == "d"
    return drill.problems()


def test_a_broker_crashes_before_its_moved_is_heard() -> None:
    assert crash_before_moved_is_heard("c", "b", "d") == []


@pytest.mark.slow
@pytest.mark.parametrize("cut_s", [0.0, 3.0])
@pytest.mark.parametrize(("broker", "before", "after"), [("b", "a", "c"), ("c", "b", "d")])
def test_whoever_crashes_before_its_moved_is_heard_and_whoever_is_away(
    broker: str, before: str, after: str, cut_s: float
) -> None:
    for later_s in (0.0, 0.004):
        found = crash_before_moved_is_heard(broker, before, after, later_s=later_s, cut_s=cut_s)
        assert found == []


def crash_in_turn(first: str, second: str, offset_s: float, later_s: float) -> list[str]:
    """The second one as soon as the first one is back, or a little later."""
    drill = MigrationDrill(covering=later_s > 0.06, seed=int(1000 * later_s))

    def crash() -> None:
        drill.crash(first)
        drill.world.after(0.3 + later_s, drill.crash, second)

    drill.run(crash, offset_s)
    return drill.problems()


@pytest.mark.parametrize("later_s", [0.08, 0.1, 0.12])
def test_the_update_is_lost_with_two_brokers(later_s: float) -> None:
    """The source has told that it is decided, and crashes before it tells the update again."""
    assert crash_in_turn("b", "a", 0.17, later_s) == []


@pytest.mark.slow
@pytest.mark.parametrize(("first", "second"), ["ba", "ab", "bc", "cb", "cd", "dc"])
def test_two_neighbors_crash_in_turn_at_any_moment(first: str, second: str) -> None:
    for step in range(12):
        for later_s in (0.0, 0.02, 0.04, 0.06, 0.1):
            offset_s = 0.02 + 0.025 * step
            found = crash_in_turn(first, second, offset_s, later_s)
            assert found == [], f"{offset_s:.4f} s, {later_s} s later"


@pytest.mark.slow
@pytest.mark.parametrize("covering", [False, True])
@pytest.mark.parametrize("brokers", ["a", "b", "c", "d", "ab", "bc", "cd", "ad"])
def test_brokers_crash_at_any_moment(brokers: str, covering: bool) -> None:
    for step in range(30):
        offset_s = 0.01 + 0.0125 * step
        assert crash_at(offset_s, *brokers, covering=covering) == [], f"{offset_s:.4f} s"


@pytest.mark.parametrize("link", [("a", "b"), ("b", "c"), ("c", "d")])
def test_a_link_is_cut_for_a_while_at_any_moment(link: tuple[str, str]) -> None:
    for step in range(4):
        drill = MigrationDrill(covering=bool(step % 2), seed=step)
        drill.run(lambda drill=drill: drill.cut(*link, lasts_s=1.0), 0.08 * step)  # type: ignore[misc]
        assert drill.problems() == [], f"cut {0.08 * step:.3f} s after the beginning"
        assert drill.overlay.judge.sessions_lost == 0


def test_a_client_that_drops_its_connection_and_comes_back_goes_on() -> None:
    for step in range(4):
        drill = MigrationDrill(seed=step)

        def drop(drill: MigrationDrill = drill) -> None:
            if drill.m.link.connection is not None:
                drill.overlay.network.drop(drill.m.link.connection)

        drill.run(drop, 0.08 * step)
        assert drill.problems() == []
        assert drill.overlay.judge.sessions_lost == 0


def test_a_client_that_leaves_on_the_way_leaves_nothing_behind() -> None:
    for step in range(4):
        drill = MigrationDrill(publishes=False, seed=step)
        drill.run(lambda drill=drill: drill.overlay.leave("m"), 0.08 * step)  # type: ignore[misc]
        assert drill.problems() == []


def test_migrations_on_the_same_and_on_crossing_paths() -> None:
    for step in range(4):
        drill = MigrationDrill(covering=bool(step % 2), seed=step)

        def more(drill: MigrationDrill = drill) -> None:
            for client, destination in [("c-x", "y"), ("c-d", "a"), ("c-a", "d"), ("m", "y")]:
                home = drill.overlay.clients[client].home
                home.handle(MigrationRequested(client, destination))

        drill.run(more, 0.08 * step)
        assert drill.problems() == []
        assert drill.overlay.judge.sessions_lost == 0
        assert drill.overlay.clients["c-x"].home.name == "y"


@pytest.mark.parametrize(
    ("destination", "reason"), [("a", "is at a already"), ("nowhere", "no answer from nowhere")]
)
def test_what_is_not_possible_ends_and_says_why(destination: str, reason: str) -> None:
    drill = MigrationDrill()
    drill.ask(destination)
    drill.world.run_until(20.0)
    status = drill.status("a")
    assert (status.done, status.refused + status.failed) == (0, 1)
    assert reason in status.last
    assert drill.problems() == []
