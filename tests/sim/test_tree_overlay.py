"""Which deliveries the tables of an instant promise, while table messages are under way."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.session import SessionLimits
from pubweave.model.filters.text import parse_filter
from pubweave.model.topology import Topology
from pubweave.sim.kernel.nodes import HandlingTime, SimClient
from pubweave.sim.kernel.world import World
from pubweave.sim.overlays.tree import TreeOverlay

HOP_S = 0.02
WIDE, NARROW = "class prefix 't'", "class = 't'"
PATH = ("b1", "b2", "b3")
"""From the subscriber's broker to the publisher's."""


class Chain:
    """b1 - b2 - b3 at rest: subscribers at b1, a publisher at b3, links of 20 ms."""

    def __init__(self, *, covering: bool) -> None:
        self.overlay = TreeOverlay(
            World(1),
            Topology.from_links([("b1", "b2"), ("b2", "b3")]),
            make_config=lambda name: BrokerConfig(
                name, strategy="tree_covering" if covering else "tree"
            ),
            handling=HandlingTime(0.0, 0.0),
        )
        for name, home in (("narrow", "b1"), ("wide", "b1"), ("pub", "b3")):
            self.overlay.join(name, home, latency_s=0.001, limits=SessionLimits())
        self.offered = self.ask("pub", lambda client: client.core.advertise(parse_filter(NARROW)))
        self.wanted = self.ask("narrow", lambda client: client.core.subscribe(parse_filter(NARROW)))
        assert self.overlay.run_until_quiet(30.0)

    def ask(self, name: str, change: Callable[[SimClient], str | None]) -> str:
        client = self.overlay.clients[name]
        id_ = change(client)
        client.flush()
        return id_ or ""

    def promises(self, hops: float) -> list[bool]:
        """Whether a publication of this instant is due, every half hop."""
        found = []
        for _ in range(int(2 * hops)):
            found.append(self.overlay.is_due(self.wanted, [self.offered], PATH))
            self.overlay.world.run_until(self.overlay.world.now + HOP_S / 2)
        return found


@pytest.mark.parametrize("covering", [False, True])
def test_it_is_due_as_long_as_the_subscription_stands(covering: bool) -> None:
    chain = Chain(covering=covering)
    assert chain.promises(4) == [True] * 8
    chain.ask("narrow", lambda client: client.core.unsubscribe(chain.wanted))
    chain.overlay.world.run_until(chain.overlay.world.now + 0.002)
    assert chain.promises(4) == [False] * 8


@pytest.mark.parametrize("covering", [False, True])
def test_a_wider_one_that_comes_and_goes_never_makes_it_less_due(covering: bool) -> None:
    """With covering the narrow one is withdrawn, and passed on again when the wide one goes:
    there is always one of the two at every broker."""
    chain = Chain(covering=covering)
    wide = chain.ask("wide", lambda client: client.core.subscribe(parse_filter(WIDE)))
    assert chain.promises(1.5) == [True] * 3
    chain.ask("wide", lambda client: client.core.unsubscribe(wide))
    assert chain.promises(10) == [True] * 20


def test_a_gap_that_is_on_its_way_ends_it_until_the_far_end_has_seen_its_end() -> None:
    """The publisher's advertisement goes and another of the same comes right behind it: b2 and b1
    withdraw the subscription and pass it on again. What b3 has before that is the old one."""
    chain = Chain(covering=False)
    chain.ask("pub", lambda client: client.core.unadvertise(chain.offered))
    chain.offered = chain.ask("pub", lambda client: client.core.advertise(parse_filter(NARROW)))
    promised = chain.promises(8)
    # Two hops to b1 and two back to b3, and the clients' moment: seen from four and a half on. That
    # b3 has yet to acknowledge it does not matter.
    assert promised == [False] * 9 + [True] * 7
