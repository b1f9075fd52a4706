"""What a crash takes along, told from what the living brokers have in their queues."""

from __future__ import annotations

from typing import Any

import pytest

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.session import SessionLimits
from pubweave.core.transformation.coordinator import ActionCoordinator
from pubweave.model.filters.filter import Filter
from pubweave.model.publications import Publication
from pubweave.model.topology import Topology
from pubweave.sim.kernel.nodes import HandlingTime
from pubweave.sim.kernel.world import World
from pubweave.sim.overlays.crash_losses import Holdings
from pubweave.sim.overlays.tree import TreeOverlay

CHAIN = Topology.from_links([("b1", "b2"), ("b2", "b3"), ("b3", "b4")])
HOP_S = 0.02
CLIENT_S = 0.001


@pytest.fixture
def overlay() -> TreeOverlay:
    """A publisher at b1, a subscriber at b4, links of 20 ms, acknowledgements after 10 ms."""
    overlay = TreeOverlay(
        World(1),
        CHAIN,
        make_config=lambda name: BrokerConfig(id=name),
        handling=HandlingTime(0.0, 0.0),
    )
    for name, home in (("pub", "b1"), ("sub", "b4")):
        overlay.join(name, home, latency_s=CLIENT_S, limits=SessionLimits())
    everything = Filter(())
    overlay.clients["pub"].core.advertise(everything)
    id_ = overlay.clients["sub"].core.subscribe(everything)
    overlay.checker.subscribed("sub", id_, everything)
    for client in overlay.clients.values():
        client.flush()
    assert overlay.run_until_quiet(30.0)
    return overlay


def published(overlay: TreeOverlay, later_s: float) -> Publication:
    """Publish, and let some time pass."""
    content: dict[str, Any] = {"x": 1}
    overlay.publish(
        overlay.clients["pub"], "t", content, is_quiet=True, may_be_lost=False, always_due=()
    )
    ((publication, client),) = overlay.checker.undelivered()
    assert client == "sub"
    overlay.world.run_until(overlay.world.now + later_s)
    return publication


@pytest.mark.parametrize(
    ("later_s", "crashed"),
    [
        # On its way from b1 to b2: b1 has it, whoever crashes.
        (CLIENT_S + 0.5 * HOP_S, "b2"),
        (CLIENT_S + 0.5 * HOP_S, "b3"),
        # b2 has just got it and b1 does not know that: b1 would send it again.
        (CLIENT_S + 1.2 * HOP_S, "b2"),
        # b3 has it, and b2, which it has not acknowledged it to, would send it again.
        (CLIENT_S + 2.2 * HOP_S, "b3"),
        # b1 is behind it already.
        (CLIENT_S + 2.2 * HOP_S, "b1"),
    ],
)
def test_a_publication_is_safe_as_long_as_a_living_broker_will_send_it(
    overlay: TreeOverlay, later_s: float, crashed: str
) -> None:
    publication = published(overlay, later_s)
    assert Holdings(overlay, overlay.brokers[crashed]).is_safe(publication, "sub")


def test_what_the_crashed_broker_has_acknowledged_and_nobody_else_has_is_lost(
    overlay: TreeOverlay,
) -> None:
    """The link from b2 to b3 is slow: b1 knows that b2 has it long before b3 does."""
    for link, path in overlay.links.items():
        if set(link) == {"b2", "b3"}:
            path.extra_s = 1.0
    publication = published(overlay, CLIENT_S + 3.0 * HOP_S)
    assert not Holdings(overlay, overlay.brokers["b2"]).is_safe(publication, "sub")
    assert Holdings(overlay, overlay.brokers["b3"]).is_safe(publication, "sub")
    assert Holdings(overlay, overlay.brokers["b1"]).is_safe(publication, "sub")


def test_an_unacknowledged_copy_behind_a_living_receiver_helps_nobody(
    overlay: TreeOverlay,
) -> None:
    """b1 has not heard from b2, which has passed it on to b3, which has acknowledged it."""
    for link, path in overlay.links.items():
        if set(link) == {"b3", "b4"}:
            path.extra_s = 1.0
    publication = published(overlay, CLIENT_S + HOP_S)
    overlay.links[next(link for link in overlay.links if set(link) == {"b1", "b2"})].extra_s = 5.0
    overlay.world.run_until(overlay.world.now + 3.5 * HOP_S)
    unacked = overlay.brokers["b1"].broker.sessions.links["b2"].unacked
    assert publication.key in {message.key for message in unacked}  # type: ignore[union-attr]
    assert not Holdings(overlay, overlay.brokers["b3"]).is_safe(publication, "sub")


def test_what_is_held_saves_only_deliveries_that_pass_from_its_holder_into_the_action(
    overlay: TreeOverlay, monkeypatch: pytest.MonkeyPatch
) -> None:
    """b1 knows that b2 has it, and b2 crashes: what b1 holds for b2 goes there again, what it
    holds for somebody else does not."""
    overlay.links[next(link for link in overlay.links if set(link) == {"b2", "b3"})].extra_s = 1.0
    publication = published(overlay, CLIENT_S + 3.0 * HOP_S)
    actions = overlay.brokers["b1"].broker.part(ActionCoordinator)
    assert actions is not None
    monkeypatch.setattr(actions, "held", lambda: [publication])
    for partners, is_safe in ((("b2", "b3"), True), (("c1", "c2"), False)):
        monkeypatch.setattr(actions, "partners", lambda partners=partners: partners)
        assert Holdings(overlay, overlay.brokers["b2"]).is_safe(publication, "sub") is is_safe
