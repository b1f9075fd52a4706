"""Clients of all kinds that are sent to other brokers at random, while everything fails.

To random brokers and to some that do not exist, while they publish, subscribe, lag and lose their
connections. In some runs brokers move publishers and subscribers by GRAPE as well.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace

from pubweave.core.config.relocation import RelocationConfig, RelocationMode
from pubweave.core.migration.coordinator import MigrationCoordinator
from pubweave.core.relocation.relocator import Relocator
from pubweave.core.vocabulary.events import MigrationRequested
from pubweave.sim.kernel.nodes import SimBroker
from pubweave.sim.parts.clients import RandomClients
from pubweave.sim.parts.plans import PlansUnderFaults
from pubweave.sim.parts.run import SimPart, SimRun

MIGRATION_SHARE = 0.25
"""Of what clients do in a run."""
STRAY_SHARE = 0.05
"""Of the migrations: to a broker that does not exist."""
RESTLESS = RelocationConfig(
    RelocationMode.GRAPE,
    grape_threshold=10,
    grape_every_s=0.0,
    least_gain=0.0,
    rest_s=0.5,
    subscribers=True,
    answer_limit_s=3.0,
)
SETTLED = ("settled0", "settled1", "settled2")
SETTLING = replace(
    RESTLESS,
    mode=RelocationMode.OFF,
    publishers=dict.fromkeys(SETTLED, RelocationMode.GRAPE),
    rest_s=0.1,
)
RELOCATIONS = {1: RESTLESS, 5: SETTLING}
"""Two runs of eight, by the seed: brokers trace and move publishers by themselves, too; or only
the subscribers of some publishers that cannot move."""
SETTLED_SHARE = 0.3
"""Of what clients do in such a run: these publishers publish."""


class Migrations(SimPart):
    """At rest each client is where it was sent, and every migration has ended."""

    def __init__(
        self,
        run: SimRun,
        clients: RandomClients,
        plans: PlansUnderFaults,
        relocation: RelocationConfig | None,
    ) -> None:
        self.run = run
        self.world = run.world
        self._clients = clients
        self._plans = plans
        self._tally: Counter[str] = Counter()
        self._relocation = relocation
        clients.take_turn = self._take_turn

    def start(self) -> None:
        """Publishers that cannot move, and subscribers who move in their place."""
        if self._relocation is not SETTLING:
            return
        for name in SETTLED[: self.world.integer(1, len(SETTLED))]:
            self._plans.steady.join(name, subscribes=False, can_move=False)
        for number in range(self.world.integer(3, 6)):
            self._plans.steady.join(f"seeker{number}", publishes=False)

    def _take_turn(self) -> bool:
        if self._relocation is SETTLING and self.world.chance(SETTLED_SHARE):
            settled = [c for name, c in self.run.overlay.clients.items() if name in SETTLED]
            for _ in range(self.world.integer(1, RESTLESS.grape_threshold)):
                self._clients.publish(clients=settled)
            return True
        if not self.world.chance(MIGRATION_SHARE):
            return False
        self._migrate()
        return True

    def _migrate(self) -> None:
        """Ask the broker of any client, steady or not, to move it."""
        world, clients = self.world, self.run.overlay.clients
        client = clients[world.choice(list(clients))]
        destination = "nowhere" if world.chance(STRAY_SHARE) else world.choice(self.run.homes())
        self._tally["migrations_asked"] += 1
        client.home.handle(MigrationRequested(client.name, destination))

    # --- crashes ---------------------------------------------------------------------------

    def crashed(self, broker: SimBroker) -> None:
        if broker.core is not None and not self.run.is_durable:
            self._count(broker)

    # --- rest and outcome ------------------------------------------------------------------

    def stuck(self) -> Iterable[str]:
        for name, node in self.run.overlay.brokers.items():
            migrations = None if node.core is None else node.core.part(MigrationCoordinator)
            if migrations is not None:
                for part in migrations.parts.by_client.values():
                    yield f"{name}: a migration never ends: {part.migration}"

    def _count(self, node: SimBroker) -> None:
        migrations = None if node.core is None else node.core.part(MigrationCoordinator)
        if migrations is None:
            return
        status = migrations.counted()
        for field in ("begun", "done", "refused", "busy", "failed", "messages_out", "seeks_out"):
            self._tally[f"migrations_{field}"] += getattr(status, field)

    def counts(self) -> dict[str, int]:
        """Those of brokers that crashed were counted then."""
        for node in self.run.overlay.brokers.values():
            self._count(node)
            relocator = None if node.core is None else node.core.part(Relocator)
            if relocator is not None:
                told = relocator.counted()
                self._tally["publishers_moved"] += told.moves
                self._tally["subscribers_moved"] += told.subscriber_moves
        return dict(self._tally)

    def measures(self) -> dict[str, float]:
        moves = self.run.overlay.moves
        waits_s, hops = sorted(move.wait_s for move in moves), sum(move.hops for move in moves)
        return {
            "migration_wait_s": waits_s[len(waits_s) // 2] if waits_s else 0.0,
            "migration_wait_max_s": waits_s[-1] if waits_s else 0.0,
            "migration_wait_per_hop_s": sum(waits_s) / hops if hops else 0.0,
        }
