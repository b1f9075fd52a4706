"""A shift beside a neighbor that has not said what it wants: two restarts and a long cut."""

from __future__ import annotations

import pytest

from pubweave.core.session.session import Session
from pubweave.core.transformation import shift as shift_roles
from pubweave.core.transformation.coordinator import ActionCoordinator
from pubweave.model.ids import Link
from pubweave.model.publications import Publication
from pubweave.sim.kernel.nodes import SimClient
from tests.sim.shift_drill import Drill

CUT_S = 6.0
RESTARTS = (
    (("j", 0.2), ("i", 0.6)),
    (("j", 0.2), ("i", 1.7)),
    (("j", 0.2), ("k", 0.6)),
    (("i", 0.2), ("j", 0.6)),
    (("j", 0.2), ("j", 0.6)),
    (("j", 0.2), ("i", 0.6), ("k", 0.9)),
    (("j", 0.2), ("i", 2.0)),
)
FIRST, LAST = 2.0, 9.0


Restarts = tuple[tuple[str, float], ...]


def missing_after(covering: bool, shift_at: float, restarts: Restarts) -> dict[str, int]:
    """Brokers are restarted while the link of j and j1 is cut for long, and a shift of i from j to
    k is asked for. How many publications of the clients at i1 and k1, which nothing happens to,
    the client at j1 never gets."""
    drill = Drill(covering=covering)
    world, overlay = drill.world, drill.overlay
    got: list[tuple[str, int]] = []
    watching = overlay.clients["c-j1"]

    def take(client: SimClient, publication: Publication) -> None:
        got.append(publication.key)

    watching._on_notification = take
    sent: dict[str, list[int]] = {"c-i1": [], "c-k1": []}

    def publish(name: str) -> None:
        client = overlay.clients[name]
        content = f"t-{client.home.name}", {"n": 1}, b"", world.now
        sent[name].append(client.core.publish(*content).sequence)
        client.flush()

    overlay.links[Link.between("j", "j1")].cut_until = world.now + CUT_S
    for broker, at in restarts:
        world.after(at, overlay.brokers[broker].crash)
        world.after(at + 0.1, overlay.brokers[broker].start)
    for name in sent:
        at = FIRST
        while at < LAST:
            world.after(at, publish, name)
            at += 0.05
    world.after(shift_at, drill.begin)
    world.run_until(world.now + LAST + 1.0)
    assert overlay.run_until_quiet(120.0)
    return {
        name: sum((name, number) not in got for number in numbers) for name, numbers in sent.items()
    }


@pytest.mark.parametrize("covering", [False, True])
@pytest.mark.parametrize("shift_at", [3.0, 4.5, 6.05])
@pytest.mark.parametrize("restarts", RESTARTS)
def test_nothing_is_lost_to_whoever_is_behind_the_cut(
    covering: bool, shift_at: float, restarts: Restarts
) -> None:
    assert missing_after(covering, shift_at, restarts) == {"c-i1": 0, "c-k1": 0}


def test_the_busy_broker_names_the_neighbor() -> None:
    drill = Drill()
    broker = drill.overlay.brokers["j"].broker
    link: Session = broker.sessions.links["j1"]
    assert broker.part(ActionCoordinator) is not None
    inside = broker.part(ActionCoordinator)._inside
    assert shift_roles.why_not_now(inside, ("i", "k"), 1) == ""
    inside.routing.sync.partial[link] = None
    assert "what j1 wants" in shift_roles.why_not_now(inside, ("i", "k"), 1)
