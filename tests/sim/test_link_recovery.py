"""A broker in the middle that crashes: what living brokers accepted still arrives."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from pubweave.core.broker_config import BrokerConfig
from pubweave.core.link_sync import LinkSync
from pubweave.core.session import SessionLimits
from pubweave.model.filter_text import parse_filter
from pubweave.model.topology import Topology
from pubweave.sim.nodes import HandlingTime
from pubweave.sim.tree_overlay import TreeOverlay
from pubweave.sim.world import World


def got_through_a_crash(names: list[str], crashed: list[str]) -> tuple[list[int], list[int]]:
    """Sequences that a publisher at one end of a chain sent while the middle was down and soon
    after, and those that the other end got of them."""
    world = World(1)
    base = BrokerConfig("", stale_grace_s=3.0)
    overlay = TreeOverlay(
        world,
        Topology.from_links(pairwise(names)),
        make_config=lambda name: replace(base, id=name),
        handling=HandlingTime(0.0, 0.0),
    )
    got: list[int] = []
    for name, home in (("pub", names[0]), ("sub", names[-1])):
        overlay.join(name, home, latency_s=0.001, limits=SessionLimits())
    publisher, subscriber = overlay.clients["pub"], overlay.clients["sub"]
    filter_ = parse_filter("class = 't'")
    publisher.core.advertise(filter_)
    overlay.checker.subscribed("sub", subscriber.core.subscribe(filter_), filter_)
    publisher.flush()
    subscriber.flush()
    assert overlay.run_until_quiet(60.0)
    sent: list[int] = []
    subscriber._on_notification = lambda client, p: got.append(p.sequence)

    def publish() -> None:
        sent.append(publisher.core.publish("t", {}, b"", world.now).sequence)
        publisher.flush()

    for name in crashed:
        overlay.brokers[name].crash()
    for number in range(100):
        world.after(0.01 * number, publish)
    for number, name in enumerate(crashed):
        world.after(0.3 + 0.05 * number, overlay.brokers[name].start)
    world.run_until(world.now + 2.0)
    assert overlay.run_until_quiet(60.0)
    return sent, got


@pytest.mark.parametrize("crashed", [["b2"], ["b3"], ["b2", "b3"], ["b3", "b2"]])
def test_what_a_living_broker_accepted_arrives_once_and_in_order(crashed: list[str]) -> None:
    sent, got = got_through_a_crash(["b1", "b2", "b3", "b4"], crashed)
    assert got == sent


def test_without_gates_it_would_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def began(self: LinkSync, link: object) -> None:
        original(self, link)  # type: ignore[arg-type]
        self.gates.clear()

    original = LinkSync.began
    monkeypatch.setattr(LinkSync, "began", began)
    sent, got = got_through_a_crash(["b1", "b2", "b3", "b4"], ["b2"])
    assert len(got) < len(sent)
