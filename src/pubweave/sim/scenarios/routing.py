"""The scenario `routing`: random trees, random clients, random faults, and rest in between.

Each run draws its setting from its seed: the tree, covering or not, session windows from ample
to tiny, which faults strike. It goes through rounds: a stretch of random activity under faults;
then everything heals and comes to rest; then tables must equal the truth, everything due must
have come, and a burst of publications, whose receivers the truth alone names, must arrive.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.session import SessionLimits
from pubweave.generate.topologies.latencies import Matrix, assign_latencies
from pubweave.generate.topologies.trees import hierarchical_tree, random_tree
from pubweave.model.filters.filter import Filter
from pubweave.model.ids import BrokerId, Link
from pubweave.model.topology import Topology
from pubweave.sim.kernel.disk import DiskSetting
from pubweave.sim.kernel.faults import FaultRates, Faults
from pubweave.sim.kernel.nodes import HandlingTime, SimBroker, SimClient
from pubweave.sim.kernel.random_content import random_content, random_filter
from pubweave.sim.kernel.results import RunResult
from pubweave.sim.kernel.trace import Trace
from pubweave.sim.kernel.world import World
from pubweave.sim.overlays.base import DEFAULT_LATENCY_MS, SimOverlay
from pubweave.sim.overlays.tree import TreeOverlay
from pubweave.sim.scenarios.crash_losses import check_sessions, journal_counts, with_disk_faults

TelemetrySink = Callable[[str, Any, float], None]
REST_LIMIT_S = 180.0
BURST = 20


def draw_tree(world: World, count: int) -> Topology:
    """A hierarchy, or a tree of any shape."""
    if world.chance(0.5):
        return hierarchical_tree(count, world.integer(3, 7), world.chance(0.5), world.rng)
    return random_tree(count, world.rng)


@dataclass(frozen=True)
class RoutingSetting:
    """What one run is like, drawn from its seed."""

    topology: Topology
    covering: bool
    limits: SessionLimits
    handling: HandlingTime
    faults: FaultRates
    clients: int
    rounds: int
    round_s: float
    actions_per_round: int

    @classmethod
    def draw(cls, world: World, max_brokers: int, rtt: Matrix | None) -> RoutingSetting:
        # Small trees are where brokers answer each other most.
        largest = max_brokers if world.chance(0.7) else min(max_brokers, 6)
        count = world.integer(1, largest)
        topology = draw_tree(world, count)
        if rtt is not None:
            topology = assign_latencies(topology, rtt, world.rng)
        window_bytes = int(world.choice([1 << 20, 1 << 13, 1000]))
        return cls(
            topology=topology,
            covering=world.chance(0.5),
            limits=SessionLimits(window_bytes, 5 * window_bytes, window_bytes),
            handling=HandlingTime(world.uniform(0, 0.0005), world.uniform(0, 0.002)),
            faults=FaultRates(
                connection_drop_per_s=world.uniform(0.0, 2.0),
                broker_crash_per_s=0.1 if world.chance(0.25) else 0.0,
            ),
            clients=world.integer(3, 25),
            rounds=2,
            round_s=world.uniform(4.0, 8.0),
            actions_per_round=world.integer(80, 250),
        )

    def describe(self) -> dict[str, Any]:
        return {
            "brokers": len(self.topology.brokers),
            "covering": self.covering,
            "window_bytes": self.limits.window_bytes,
            "connection_drop_per_s": round(self.faults.connection_drop_per_s, 3),
            "broker_crash_per_s": self.faults.broker_crash_per_s,
            "clients": self.clients,
        }


class RoutingScenario:
    """One run. Another strategy's scenario has the same life: override `overlay_type` (what its
    tables promise) and `strategy_name`."""

    name = "routing"
    overlay_type: type[SimOverlay] = TreeOverlay

    def __init__(
        self,
        seed: int,
        *,
        max_brokers: int = 30,
        rtt: Matrix | None = None,
        trace: Trace | None = None,
        on_telemetry: TelemetrySink | None = None,
        durability: str = "memory",
    ) -> None:
        """``durability``: with ``journal``, brokers come back from their disks, and crashes
        excuse nothing."""
        self.world = world = World(seed, trace)
        self.setting = setting = self.draw_setting(max_brokers, rtt)
        self.is_durable = durability == "journal"
        if self.is_durable:
            self.setting = setting = replace(setting, faults=with_disk_faults(setting.faults))
        self.violations: list[str] = []
        self.overlay = self.overlay_type(
            world,
            setting.topology,
            make_config=self._config,
            handling=setting.handling,
            on_telemetry=on_telemetry,
            latency_s=self.latency_s,
            spare=self.spare_brokers(),
            disk=DiskSetting.draw(world) if self.is_durable else None,
        )
        self.faults = Faults(
            world,
            setting.faults,
            list(self.overlay.brokers.values()),
            self.overlay.paths,
            on_crash=lambda broker: self._on_crash(broker),
        )
        self._is_shaken = False
        """A broker crashed since the last rest: what is under way may be lost."""
        self._client_numbers = 0

    def draw_setting(self, max_brokers: int, rtt: Matrix | None) -> RoutingSetting:
        return RoutingSetting.draw(self.world, max_brokers, rtt)

    def spare_brokers(self) -> Collection[BrokerId]:
        """Brokers beside those of the topology."""
        return ()

    def homes(self) -> list[BrokerId]:
        """Where clients may attach."""
        return list(self.overlay.brokers)

    def latency_s(self, link: Link) -> float:
        """Of links that the topology did not have when the run began."""
        return DEFAULT_LATENCY_MS / 1000.0

    def _config(self, broker: BrokerId) -> BrokerConfig:
        return BrokerConfig(
            id=broker,
            strategy=self.strategy_name(),
            limits=self.setting.limits,
            stale_grace_s=3.0,
            ping_every_s=2.0,
            silence_limit_s=5.0,
        )

    def draw_filter(self) -> Filter:
        """What a client subscribes to, or advertises."""
        return random_filter(self.world)

    def draw_content(self, offered: Filter) -> tuple[str, dict[str, Any]] | None:
        """Topic and attributes of a publication that matches an advertisement."""
        return random_content(self.world, offered)

    def strategy_name(self) -> str:
        return "tree_covering" if self.setting.covering else "tree"

    def run(self) -> RunResult:
        for _ in range(self.setting.clients):
            self._join()
        for _ in range(self.setting.rounds):
            self._be_active()
            if not self._come_to_rest():
                break
            self._burst()
        return self._result()

    # --- phases ----------------------------------------------------------------------------

    def _be_active(self) -> None:
        world = self.world
        end = world.now + self.setting.round_s
        self.faults.strike_until(end)
        for _ in range(self.setting.actions_per_round):
            world.at(world.uniform(world.now, end), self._act)
        world.run_until(end)

    def _come_to_rest(self) -> bool:
        self.faults.heal()
        for client in self.overlay.clients.values():
            client.carry_out(client.core.release(), client.incarnation)
        if not self.overlay.run_until_quiet(REST_LIMIT_S):
            self._violate("the overlay does not come to rest")
            return False
        self.overlay.checker.check_all_delivered(self.world.now)
        for difference in self.overlay.check_tables():
            self._violate(difference)
        self._is_shaken = False
        return True

    def _burst(self) -> None:
        """Publications at rest: who must get them is known without looking at any table."""
        for _ in range(BURST):
            self._publish(is_quiet=True)
        if not self.overlay.run_until_quiet(REST_LIMIT_S):
            self._violate("the overlay does not come to rest")
        self.overlay.checker.check_all_delivered(self.world.now)

    def _on_crash(self, broker: SimBroker) -> None:
        if self.is_durable:
            return
        self._is_shaken = True
        self.overlay.checker.excuse()

    # --- actions ---------------------------------------------------------------------------

    def _act(self) -> None:
        """One random action of one random client."""
        dice = float(self.world.rng.random())
        for share, action in (
            (0.51, self._publish),
            (0.04, self._publish_many),
            (0.15, self._subscribe),
            (0.08, self._unsubscribe),
            (0.06, self._advertise),
            (0.03, self._unadvertise),
            (0.04, self._join),
            (0.02, self._leave),
            (0.03, self._drop_client),
            (0.04, self._lag),
        ):
            if dice < share:
                action()
                return
            dice -= share

    def _client(self) -> SimClient | None:
        names = list(self.overlay.clients)
        return self.overlay.clients[self.world.choice(names)] if names else None

    def _join(self) -> None:
        world = self.world
        self._client_numbers += 1
        name = f"k{self._client_numbers}"
        home = world.choice(self.homes())
        latency_s = world.uniform(0.0005, 0.005)
        client = self.overlay.join(name, home, latency_s=latency_s, limits=self.setting.limits)
        if world.chance(0.7):
            client.core.advertise(self.draw_filter())
        if world.chance(0.7):
            self.overlay.subscribe(client, self.draw_filter())
        client.flush()

    def _leave(self) -> None:
        client = self._client()
        # As the client library does: first everything it sent is acknowledged, then goodbye.
        if (
            client is not None
            and client.core.session.is_established
            and not client.core.session.queue_messages
        ):
            self.overlay.leave(client.name)

    def _subscribe(self) -> None:
        client = self._client()
        if client is not None:
            self.overlay.subscribe(client, self.draw_filter())
            client.flush()

    def _unsubscribe(self) -> None:
        client = self._client()
        if client is None or not client.core.subscriptions:
            return
        id_ = self.world.choice(list(client.core.subscriptions))
        client.core.unsubscribe(id_)
        client.flush()
        # From here on nothing is due for it; what comes before the broker knows is tolerated.
        session = client.core.session
        self._await_withdrawal(client, id_, session.acked + session.queue_messages)

    def _await_withdrawal(self, client: SimClient, id_: str, number: int) -> None:
        self.overlay.checker.withdrawing(client.name, id_)
        session = client.core.session

        def look() -> None:
            if session.acked >= number or not session.queue_messages:
                self.overlay.checker.unsubscribed(client.name, id_, self.world.now)
            elif client.name in self.overlay.clients:
                self.world.after(0.05, look)

        look()

    def _advertise(self) -> None:
        client = self._client()
        if client is not None:
            client.core.advertise(self.draw_filter())
            client.flush()

    def _unadvertise(self) -> None:
        client = self._client()
        if client is not None and client.core.advertisements:
            client.core.unadvertise(self.world.choice(list(client.core.advertisements)))
            client.flush()

    def _drop_client(self) -> None:
        client = self._client()
        if client is not None and client.link.connection is not None:
            self.overlay.network.drop(client.link.connection)

    def _lag(self) -> None:
        """An application falls behind for a while: its client withholds acknowledgements."""
        client = self._client()
        if client is not None:
            client.core.hold()
            self.world.after(self.world.uniform(0.1, 3.0), self._catch_up, client)

    def _catch_up(self, client: SimClient) -> None:
        client.carry_out(client.core.release(), client.incarnation)

    def _publish(self, *, is_quiet: bool = False, clients: Collection[SimClient] = ()) -> None:
        """One of these publishes, or any at all."""
        clients = clients or self.overlay.clients.values()
        advertisers = [client for client in clients if client.core.advertisements]
        if not advertisers:
            return
        client = self.world.choice(advertisers)
        offered = self.world.choice(list(client.core.advertisements.values()))
        content = self.draw_content(offered)
        if content is None or client.core.session.is_congested:
            return
        self.overlay.publish(
            client,
            *content,
            is_quiet=is_quiet,
            may_be_lost=self._is_shaken,
            always_due=self.always_due(client),
        )

    def always_due(self, publisher: SimClient) -> Collection[str]:
        """Who gets what a client publishes and they want, whatever the tables say."""
        return ()

    def _publish_many(self) -> None:
        """A publisher with a lot to say at once: queues fill, and back-pressure has to work."""
        for _ in range(self.world.integer(20, 60)):
            self._publish()

    # --- outcome ---------------------------------------------------------------------------

    def _result(self) -> RunResult:
        checker = self.overlay.checker
        counters = [n.broker.counters for n in self.overlay.brokers.values() if n.is_up()]
        dropped = sum(c.duplicates_dropped for c in counters)
        crashed = 0 if self.is_durable else self.faults.counts.get("broker_crash", 0)
        violations = [*self.violations, *checker.violations]
        if self.is_durable:
            violations += check_sessions(self.overlay)
        if dropped and not crashed and not self.overlay.sessions_lost:
            violations.append(f"brokers saw {dropped} publications twice though none crashed")
        if self.overlay.refusals and not crashed and not self.overlay.sessions_lost:
            violations += [f"refused: {text}" for text in self.overlay.refusals]
        counts = {
            "sessions_lost": self.overlay.sessions_lost,
            "duplicates_dropped": dropped,
            "holds": sum(c.holds for c in counters),
            **journal_counts(self.overlay),
        }
        return self.result_of(violations, counts)

    def _violate(self, text: str) -> None:
        self.violations.append(f"{self.world.now:.3f} {text}")

    def result_of(
        self,
        violations: list[str],
        counts: dict[str, int],
        measures: dict[str, float] | None = None,
    ) -> RunResult:
        """What a run says, with what is counted in every run."""
        checker = self.overlay.checker
        return RunResult(
            scenario=self.name,
            seed=self.world.seed,
            violations=tuple(violations),
            setting=self.setting.describe(),
            counts={
                "publications": checker.publications,
                "deliveries": checker.deliveries,
                "due": checker.due,
                "excused": checker.excused,
                "told_missed": checker.told_missed,
                **counts,
                "events": self.world.steps,
                **self.faults.counts,
            },
            measures=measures or {},
            virtual_s=round(self.world.now, 3),
            trace_digest=self.world.trace.digest() if self.world.trace is not None else None,
        )
