"""A broker in the middle that crashes: what living brokers accepted still arrives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.session import SessionLimits
from pubweave.core.routing.tree.link_sync import LinkSync
from pubweave.core.session.session import Session
from pubweave.model.filters.text import parse_filter
from pubweave.model.ids import Link
from pubweave.model.messages.session import SequencedMessage
from pubweave.model.topology import Topology
from pubweave.sim.kernel.nodes import HandlingTime
from pubweave.sim.kernel.world import World
from pubweave.sim.overlays.tree import TreeOverlay

GRACE_S = 3.0


def got_through_a_crash(
    names: list[str],
    crashed: list[str],
    *,
    withdraws: bool = False,
    again_s: float | None = None,
    cut: Link | None = None,
    for_s: float = 1.0,
) -> tuple[list[int], list[int]]:
    """Sequences that a publisher at one end of a chain sent while the middle was down and soon
    after, and those that the other end got of them.

    ``withdraws``: it stops and takes its advertisement back while the middle is still down.
    ``again_s``: how long after it is up again the middle crashes once more, for a moment.
    ``cut``: a link that nothing passes for longer than a broker waits for its neighbors.
    ``for_s``: how long it publishes, unless it withdraws."""
    world = World(1)
    base = BrokerConfig("", stale_grace_s=GRACE_S)
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
    advertisement = publisher.core.advertise(filter_)
    overlay.subscribe(subscriber, filter_)
    publisher.flush()
    subscriber.flush()
    assert overlay.run_until_quiet(60.0)
    sent: list[int] = []
    subscriber._on_notification = lambda client, p: got.append(p.sequence)

    def publish() -> None:
        sent.append(publisher.core.publish("t", {}, b"", world.now).sequence)
        publisher.flush()

    if cut is not None:
        overlay.links[cut].cut_until = world.now + 3 * GRACE_S
    for name in crashed:
        overlay.brokers[name].crash()
    for number in range(20 if withdraws else 100):
        world.after(0.01 * number * for_s, publish)
    if withdraws:
        world.after(0.25, lambda: publisher.core.unadvertise(advertisement))
        world.after(0.25, publisher.flush)
    for number, name in enumerate(crashed):
        world.after(0.3 + 0.05 * number, overlay.brokers[name].start)
        if again_s is not None:
            world.after(0.3 + again_s, overlay.brokers[name].crash)
            world.after(0.35 + again_s, overlay.brokers[name].start)
    world.run_until(world.now + for_s + 1.0)
    assert overlay.run_until_quiet(60.0)
    assert overlay.check_tables() == []
    return sent, got


@pytest.mark.parametrize("crashed", [["b2"], ["b3"], ["b2", "b3"], ["b3", "b2"]])
def test_what_a_living_broker_accepted_arrives_once_and_in_order(crashed: list[str]) -> None:
    sent, got = got_through_a_crash(["b1", "b2", "b3", "b4"], crashed)
    assert got == sent


@pytest.mark.parametrize("crashed", [["b2"], ["b3"], ["b2", "b3"], ["b3", "b2"]])
def test_also_when_their_advertisement_was_withdrawn_meanwhile(crashed: list[str]) -> None:
    sent, got = got_through_a_crash(["b1", "b2", "b3", "b4"], crashed, withdraws=True)
    assert len(sent) == 20
    assert got == sent


@pytest.mark.parametrize("again_ms", range(0, 100, 5))
def test_also_when_the_broker_crashes_again_before_it_has_heard_all(again_ms: int) -> None:
    """What waited at the gate the first time, withdrawal included, goes again the second time."""
    sent, got = got_through_a_crash(
        ["b1", "b2", "b3"], ["b2"], withdraws=True, again_s=again_ms / 1000
    )
    lost = [sequence for sequence in sent if sequence not in got]
    assert got in (sent, sent[len(lost) :])
    assert not lost or again_ms > 20  # the middle had taken them in by then


@pytest.mark.parametrize("withdraws", [False, True])
def test_also_when_another_neighbor_cannot_be_reached_for_long(withdraws: bool) -> None:
    """b2 gives b3 up for a while and takes publications in; b3 gets them when it is back."""
    names = ["b1", "b2", "b3", "b4"]
    sent, got = got_through_a_crash(names, ["b2"], withdraws=withdraws, cut=Link("b2", "b3"))
    assert got == sent


def test_also_when_it_goes_on_publishing_until_the_others_forget_what_was_not_told_again() -> None:
    """b2 answers in part while b3 is away; b1 knew before that somebody behind b2 wants it."""
    names = ["b1", "b2", "b3", "b4"]
    sent, got = got_through_a_crash(names, ["b2"], cut=Link("b2", "b3"), for_s=4 * GRACE_S)
    assert got == sent


def test_without_gates_it_would_not(monkeypatch: pytest.MonkeyPatch) -> None:
    def put_at_gate(self: LinkSync, link: Session, messages: Sequence[SequencedMessage]) -> None:
        original(self, link, messages)
        self.open_gate(link)

    original = LinkSync.put_at_gate
    monkeypatch.setattr(LinkSync, "put_at_gate", put_at_gate)
    # Nor if what comes meanwhile did not go to all whose answer its sender waits for.
    monkeypatch.setattr(LinkSync, "awaited_by", lambda self, hop: [])
    sent, got = got_through_a_crash(["b1", "b2", "b3", "b4"], ["b2"])
    assert len(got) < len(sent)
