"""The scenario `relocate`: clients of all kinds migrate at random while everything fails.

As `transform`: the same life and faults, plans carried out in some rounds. Besides, clients are
sent to other brokers all the time, the steady ones too, to random ones, to some that do not
exist, and while they publish, subscribe, lag and lose their connections. In some runs brokers move
publishers and subscribers by GRAPE as well. At rest each client is
where it was sent, every migration has ended, and tables are what a fresh overlay with the clients
there would have.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import replace
from itertools import product
from typing import Any

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.relocation import RelocationConfig, RelocationMode
from pubweave.core.migration.source import MigrationSource
from pubweave.core.routing.tree.routing import TreeRouting
from pubweave.core.vocabulary.effects import FollowRedirect, ReportMove
from pubweave.core.vocabulary.events import MigrationRequested
from pubweave.generate.topologies.latencies import Matrix
from pubweave.model.ids import BrokerId, publisher_of
from pubweave.model.publications import Publication
from pubweave.model.records.status import MigrationStatus
from pubweave.sim.kernel.nodes import SimBroker, SimClient
from pubweave.sim.kernel.results import RunResult
from pubweave.sim.scenarios.crash_losses import Ends
from pubweave.sim.scenarios.routing import RoutingSetting
from pubweave.sim.scenarios.transform import TransformScenario, _MeasuredOverlay

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


class _MovingOverlay(_MeasuredOverlay):
    """Knows where clients were, and how long they waited."""

    def __init__(self, *args: object, **options: object) -> None:
        self.places: dict[str, list[tuple[BrokerId, float]]] = defaultdict(list)
        """Where clients went, and when they left for there."""
        self.moves: list[ReportMove] = []
        super().__init__(*args, **options)  # type: ignore[arg-type]

    def is_due(
        self, subscription: str, advertisements: list[str], path: tuple[BrokerId, ...]
    ) -> bool:
        """What a client says while it is paused is taken in at its destination: to subscribers
        beside it, too, that is due only if its advertisement is known there and on the way. A
        destination that crashed is told it anew right before the publication."""
        core = self.brokers[path[-1]].core
        if core is not None and core.migrations is not None and advertisements:
            publisher = publisher_of(advertisements[0])
            part = core.migrations.parts.by_client.get(publisher)
            informed: tuple[BrokerId, ...] = ()
            if isinstance(part, MigrationSource):
                informed = part.migration.path
            elif publisher not in core.sessions.clients:
                informed = path[-1:]
            if not all(self._knows(broker, advertisements) for broker in informed):
                return False
        return super().is_due(subscription, advertisements, path)

    def _knows(self, broker: BrokerId, advertisements: list[str]) -> bool:
        core = self.brokers[broker].core
        if core is None:
            return False
        assert isinstance(core.routing, TreeRouting)
        return any(id_ in core.routing.advertisements for id_ in advertisements)

    def _on_move(self, client: SimClient, effect: FollowRedirect | ReportMove) -> None:
        super()._on_move(client, effect)
        if isinstance(effect, ReportMove):
            self.moves.append(effect)
        else:
            self.places[client.name].append((client.home.name, self.world.now))

    def join(self, name: str, home: BrokerId, **options: Any) -> SimClient:
        self.places[name].append((home, self.world.now))
        return super().join(name, home, **options)

    def places_since(self, client: str, instant: float) -> set[BrokerId]:
        """Where a client was at an instant, and everywhere it has been afterwards."""
        before = [place for place, at in self.places[client] if at <= instant]
        return {*before[-1:], *(place for place, at in self.places[client] if at > instant)}


class RelocateScenario(TransformScenario):
    """One run. ``fault`` is one of FAULTS or None (drawn from the seed)."""

    name = "relocate"
    overlay_type = _MovingOverlay
    overlay: _MovingOverlay

    def __init__(self, seed: int, *, max_brokers: int = 20, **options: Any) -> None:
        self._relocation = RELOCATIONS.get(seed % 8)
        self._struck: set[str] = set()
        """Clients of which a crashed broker had a session, since the last rest."""
        super().__init__(seed, max_brokers=max_brokers, **options)

    def draw_setting(self, max_brokers: int, rtt: Matrix | None) -> RoutingSetting:
        setting = super().draw_setting(max_brokers, rtt)
        self._has_plans = self.world.chance(0.6)
        self._rounds = self.world.integer(1, 3)
        self._round_s = self.world.uniform(3.0, 8.0)
        return setting

    def _config(self, broker: BrokerId) -> BrokerConfig:
        config = replace(super()._config(broker), client_expiry_s=20.0, migration_limit_s=3.0)
        return config if self._relocation is None else replace(config, relocation=self._relocation)

    # --- life ------------------------------------------------------------------------------

    def run(self) -> RunResult:
        for number in range(self.transform.steady_clients):
            self._join_steady(f"steady{number}")
        if self._relocation is SETTLING:
            self._join_settled()
        for _ in range(self.setting.clients):
            self._join()
        if self._come_to_rest():
            for number in range(self._rounds):
                if self._has_plans and number < self.transform.plans:
                    self._carry_out(self._draw_plan())
                else:
                    self._wander()
                if not self._come_to_rest():
                    break
                self._burst()
        return self._result()

    def _join_settled(self) -> None:
        """Publishers that cannot move, and subscribers who move in their place."""
        for name in SETTLED[: self.world.integer(1, len(SETTLED))]:
            self._join_steady(name, subscribes=False, can_move=False)
        for number in range(self.world.integer(3, 6)):
            self._join_steady(f"seeker{number}", publishes=False)

    def _wander(self) -> None:
        """A stretch of time in which the overlay stays as it is, but for faults and clients."""
        end = self.world.now + self._round_s
        while self.world.now < end:
            self._be_active()

    def _act(self) -> None:
        if self._relocation is SETTLING and self.world.chance(SETTLED_SHARE):
            self._publish_settled()
        elif self.world.chance(MIGRATION_SHARE):
            self._migrate()
        else:
            super()._act()

    def _publish_settled(self) -> None:
        clients = [c for name, c in self.overlay.clients.items() if name in SETTLED]
        for _ in range(self.world.integer(1, RESTLESS.grape_threshold)):
            self._publish(clients=clients)

    def _migrate(self) -> None:
        """Ask the broker of any client, steady or not, to move it."""
        world = self.world
        client = self.overlay.clients[world.choice(list(self.overlay.clients))]
        destination = "nowhere" if world.chance(STRAY_SHARE) else world.choice(self.homes())
        self.tally["migrations_asked"] += 1
        client.home.handle(MigrationRequested(client.name, destination))

    # --- crashes ---------------------------------------------------------------------------

    def _on_broker_crash(self, node: SimBroker) -> None:
        if node.core is not None and not self.is_durable:
            self._struck.update(node.core.sessions.clients)
            if node.core.migrations is not None:
                self._count_status(node.core.migrations.status())
        super()._on_broker_crash(node)

    def ends(self) -> Ends:
        """A publication was taken in where its publisher was when it made it, or where it went
        later: what a broker has not taken in by then goes along. It is for where the client has
        a session. A broker on the way to which the client is has one already, and the one it
        leaves as long as something is there for it."""
        overlay = self.overlay
        at: dict[str, set[BrokerId]] = defaultdict(set)
        for name, node in overlay.brokers.items():
            for client in node.core.sessions.clients if node.core is not None else ():
                at[client].add(name)

        def ends(publication: Publication, client: str) -> Iterable[tuple[BrokerId, BrokerId]]:
            publisher = publication.publisher
            made_at = overlay.places_since(publisher, publication.published_at)
            return product(made_at | at[publisher], at[client] | {overlay.homes[client]})

        return ends

    def always_due(self, publisher: SimClient) -> Collection[str]:
        """The broker of a steady client is not enough here: a crash may have struck another one
        that had a session for it. And one that comes to a broker that crashed before is whole."""
        if publisher.name not in self._steady or publisher.name in self._struck:
            return ()
        return [name for name in self._steady if name not in self._struck]

    # --- outcome ---------------------------------------------------------------------------

    def _come_to_rest(self) -> bool:
        if not super()._come_to_rest():
            for name, node in self.overlay.brokers.items():
                if node.core is not None and node.core.migrations is not None:
                    for part in node.core.migrations.parts.by_client.values():
                        self._violate(f"{name}: a migration never ends: {part.migration}")
            return False
        self._struck.clear()
        return True

    def _count_relocations(self) -> None:
        for node in self.overlay.brokers.values():
            if node.core is not None and node.core.relocator is not None:
                told = node.core.relocator.status()
                self.tally["publishers_moved"] += told.moves
                self.tally["subscribers_moved"] += told.subscriber_moves

    def _count_status(self, status: MigrationStatus) -> None:
        for field in ("begun", "done", "refused", "busy", "failed", "messages_out", "seeks_out"):
            self.tally[f"migrations_{field}"] += getattr(status, field)

    def _result(self) -> RunResult:
        for node in self.overlay.brokers.values():
            if node.core is not None and node.core.migrations is not None:
                self._count_status(node.core.migrations.status())
        self._count_relocations()
        result = super()._result()
        moves = self.overlay.moves
        hops = sum(move.hops for move in moves)
        self.tally["migration_hops"] = hops
        waits_s = sorted(move.wait_s for move in moves)
        measures = {
            **result.measures,
            "migration_wait_s": waits_s[len(waits_s) // 2] if waits_s else 0.0,
            "migration_wait_max_s": waits_s[-1] if waits_s else 0.0,
            "migration_wait_per_hop_s": sum(waits_s) / hops if hops else 0.0,
        }
        return replace(result, measures=measures)

    def _compared(self) -> dict[str, float]:
        return {}
