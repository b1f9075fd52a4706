"""One client that migrates along a chain, everybody publishing to everybody, disturbed at will.

a - b - c - d        the client `m` moves from a to d
    |   |
    x   y
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.session import SessionLimits
from pubweave.core.migration.coordinator import MigrationCoordinator
from pubweave.core.migration.states import Stage
from pubweave.core.routing.tree.routing import TreeRouting
from pubweave.core.vocabulary.events import MigrationRequested
from pubweave.model.filters.text import parse_filter
from pubweave.model.ids import BrokerId, Link
from pubweave.model.records.status import MigrationStatus
from pubweave.model.topology import Topology
from pubweave.sim.kernel.nodes import HandlingTime, SimClient
from pubweave.sim.kernel.world import World
from pubweave.sim.overlays.tree import TreeOverlay

LINK_MS = {("a", "b"): 10.0, ("b", "c"): 20.0, ("c", "d"): 10.0, ("b", "x"): 15.0, ("c", "y"): 5.0}
BEGIN_AT = 1.1
HOPS = 3


class MigrationDrill:
    """The overlay at rest with one client per broker, and `m` at ``home``."""

    def __init__(
        self,
        *,
        home: BrokerId = "a",
        publishes: bool = True,
        subscribes: bool = True,
        covering: bool = False,
        seed: int = 1,
    ) -> None:
        self.world = World(seed)
        latencies = {Link.between(*pair): ms for pair, ms in LINK_MS.items()}
        strategy = "tree_covering" if covering else "tree"
        base = BrokerConfig("", strategy=strategy, stale_grace_s=1.0, client_expiry_s=5.0)
        self.overlay = TreeOverlay(
            self.world,
            Topology.from_links(LINK_MS, latency_ms=latencies),
            make_config=lambda name: replace(base, id=name),
            handling=HandlingTime(0.0, 0.0),
        )
        self.m = self._join("m", home, "class = 't-m'" if publishes else "", subscribes=subscribes)
        for name in self.overlay.brokers:
            self._join(f"c-{name}", name, f"class = 't-{name}'", subscribes=True)
        assert self.overlay.run_until_quiet(60.0)
        self.world.run_until(1.0)

    def _join(self, name: str, home: BrokerId, offer: str, *, subscribes: bool) -> SimClient:
        self.overlay.join(name, home, latency_s=0.001, limits=SessionLimits())
        client = self.overlay.clients[name]
        if offer:
            client.core.advertise(parse_filter(offer))
        if subscribes:
            # That of `m` covers the others', and each covers what passing clients ask for.
            wanted = parse_filter("class prefix 't'" if name == "m" else "class prefix 't-'")
            self.overlay.subscribe(client, wanted)
        client.flush()
        return client

    # --- the run ---------------------------------------------------------------------------

    def _publish(self, client: SimClient) -> None:
        if not client.core.advertisements or client.core.session.is_congested:
            return
        self.overlay.publish(client, f"t-{client.name.removeprefix('c-')}", {"n": 1})

    def ask(self, destination: BrokerId = "d") -> None:
        self.m.home.handle(MigrationRequested("m", destination))

    def run(self, disturb: Callable[[], None] | None = None, offset_s: float = 0.0) -> None:
        """Everybody publishes for 0.6 s; the migration begins in it, the disturbance after it."""
        for tick in range(60):
            for client in list(self.overlay.clients.values()):
                self.world.at(1.0 + 0.01 * tick, self._publish, client)
        self.world.at(BEGIN_AT, self.ask)
        if disturb is not None:
            self.world.at(BEGIN_AT + offset_s, disturb)
        self.world.run_until(2.0)
        assert self.overlay.run_until_quiet(90.0), "no rest"

    def crash(self, name: BrokerId, down_s: float = 0.3) -> None:
        node = self.overlay.brokers[name]
        node.crash()
        self.world.after(down_s, node.start)

    def stage(self, broker: BrokerId) -> Stage | None:
        """How far the migration of `m` has come at a broker; None where it takes no part."""
        core = self.overlay.brokers[broker].core
        assert core is not None
        assert core.part(MigrationCoordinator) is not None
        part = core.part(MigrationCoordinator).parts.by_client.get("m")
        return None if part is None else part.stage

    def run_until_moved(self, broker: BrokerId, not_yet: BrokerId) -> None:
        """Everybody publishes; stop where `moved` has passed one broker and not the next."""
        for tick in range(60):
            for client in list(self.overlay.clients.values()):
                self.world.at(1.0 + 0.01 * tick, self._publish, client)
        self.world.at(BEGIN_AT, self.ask)
        while self.stage(broker) is not Stage.MOVED:
            self.world.run_until(self.world.now + 0.0005)
        assert self.stage(not_yet) is Stage.PASSED

    def cut(self, one: BrokerId, other: BrokerId, lasts_s: float = 0.0) -> None:
        path = self.overlay.links[Link.between(one, other)]
        path.cut_until = self.world.now + lasts_s
        if path.connection is not None:
            self.overlay.network.drop(path.connection)

    # --- what must hold --------------------------------------------------------------------

    def problems(self) -> list[str]:
        self.overlay.check_deliveries()
        found = [*self.overlay.judge.violations, *self.overlay.check_tables()]
        found += [
            f"{name} still takes part"
            for name, node in self.overlay.brokers.items()
            if node.broker.part(MigrationCoordinator) is None
            or not node.broker.part(MigrationCoordinator).is_idle
        ]
        return found

    def status(self, broker: BrokerId) -> MigrationStatus:
        migrations = self.overlay.brokers[broker].broker.part(MigrationCoordinator)
        assert migrations is not None
        return migrations.counted()

    def entries(self) -> dict[BrokerId, dict[str, str]]:
        """What each broker holds, and the neighbor or client that it came from."""
        found: dict[BrokerId, dict[str, str]] = {}
        for name, node in self.overlay.brokers.items():
            routing = node.broker.routing
            assert isinstance(routing, TreeRouting)
            found[name] = {
                id_: entry.hop.remote
                for id_, entry in [*routing.advertisements.items(), *routing.subscriptions.items()]
            }
        return found
