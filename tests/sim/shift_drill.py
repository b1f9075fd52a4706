"""One shift on six brokers, with everybody publishing to everybody, to be disturbed at will.

i1 - i - j - k - k1        shift(i, j, k)        i1 - i - k - k1
         |                    becomes                     |
         j1                                               j - j1
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.session import SessionLimits
from pubweave.model.filters.text import parse_filter
from pubweave.model.ids import Link
from pubweave.model.plans import Shift
from pubweave.model.topology import Topology
from pubweave.sim.kernel.nodes import HandlingTime, SimClient
from pubweave.sim.kernel.world import World
from pubweave.sim.overlays.tree import TreeOverlay
from tests.sim.action_arbiter import ActionArbiter, ActionRecord

LINKS = {("i1", "i"): 7.0, ("i", "j"): 20.0, ("j", "j1"): 9.0, ("j", "k"): 25.0, ("k", "k1"): 5.0}
ADDED_MS = 15.0
SHIFT = Shift("i", "j", "k")
LIMITS = SessionLimits()
BEGIN_AT = 1.2
STORE_S = 0.01


class Drill:
    """The overlay at rest with one steady client per broker; `run` begins the shift."""

    def __init__(self, *, covering: bool = False, seed: int = 1, **config: float) -> None:
        self.world = World(seed)
        latencies = {Link.between(*pair): ms for pair, ms in LINKS.items()}
        base = BrokerConfig(
            "", strategy="tree_covering" if covering else "tree", stale_grace_s=1.0, **config
        )
        self.overlay = TreeOverlay(
            self.world,
            Topology.from_links(LINKS, latency_ms=latencies),
            make_config=lambda name: replace(base, id=name),
            handling=HandlingTime(0.0, 0.0),
            latency_s=lambda link: ADDED_MS / 1000,
        )
        self.arbiter = ActionArbiter(self.overlay, lambda: STORE_S)
        self.steady = [self._join(f"c-{name}", name) for name in self.overlay.brokers]
        for client in self.steady:
            client.core.advertise(parse_filter(f"class = 't-{client.home.name}'"))
            self.overlay.subscribe(client, parse_filter("class prefix 't'"))
            client.flush()
        assert self.overlay.run_until_quiet(60.0)
        self.world.run_until(1.0)
        self.record: ActionRecord | None = None

    def _join(self, name: str, home: str) -> SimClient:
        self.overlay.join(name, home, latency_s=0.001, limits=LIMITS)
        return self.overlay.clients[name]

    # --- activity --------------------------------------------------------------------------

    def _publish(self, client: SimClient) -> None:
        self.overlay.publish(client, f"t-{client.home.name}", {"n": 1})

    def _change_tables(self, number: int) -> None:
        """A passing client asks for something, offers something, and is gone again soon."""
        home = list(self.overlay.brokers)[number % 6]
        client = self._join(f"passing{number}", home)
        wanted = "class prefix 't' and n > 0" if number % 2 else "class = 't-j'"
        self.overlay.subscribe(client, parse_filter(wanted))
        client.core.advertise(parse_filter(f"class = 't-{home}' and n < 9"))
        client.flush()
        self.world.after(0.04 + 0.013 * (number % 5), self._leave, client)

    def _leave(self, client: SimClient) -> None:
        if client.core.session.is_established and not client.core.session.queue_messages:
            self.overlay.leave(client.name)
        else:
            self.world.after(0.05, self._leave, client)

    # --- the run ---------------------------------------------------------------------------

    def begin(self) -> None:
        self.record = self.arbiter.begin(SHIFT)

    def run(self, disturb: Callable[[Drill], None] | None = None, offset_s: float = 0.0) -> None:
        """Everything goes on for 0.7 s; the shift begins in it, and the disturbance after it."""
        world = self.world
        for tick in range(70):
            for client in self.steady:
                world.at(1.0 + 0.01 * tick, self._publish, client)
        for number in range(24):
            world.at(1.1 + 0.02 * number, self._change_tables, number)
        world.at(BEGIN_AT, self.begin)
        if disturb is not None:
            world.at(BEGIN_AT + offset_s, disturb, self)
        world.run_until(2.0)
        assert self.overlay.run_until_quiet(60.0), "no rest"
        world.run_until(world.now + 1.0)

    def crash(self, name: str, down_s: float = 0.3) -> None:
        node = self.overlay.brokers[name]
        node.crash()
        self.world.after(down_s, node.start)

    def drop(self, link: Link) -> None:
        path = self.overlay.links.get(link)
        if path is not None and path.connection is not None:
            self.overlay.network.drop(path.connection)

    # --- what must hold --------------------------------------------------------------------

    def problems(self) -> list[str]:
        """Everything that is not as it should be."""
        self.overlay.check_deliveries()
        found = [*self.overlay.judge.violations, *self.arbiter.violations]
        found += self.overlay.check_tables()
        found += [f"{record} never ends" for record in self.arbiter.running()]
        for name, neighbors in self.overlay.topology.neighbors.items():
            links = sorted(self.overlay.brokers[name].broker.sessions.links)
            if links != sorted(neighbors):
                found.append(f"{name} has links to {links} instead of {neighbors}")
        return found

    @property
    def is_committed(self) -> bool:
        assert self.record is not None
        return bool(self.record.committed)
