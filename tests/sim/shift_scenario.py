"""The scenario `shift`: random shifts on a random tree while clients do everything they can do.

As `routing`, with shifts begun at random all the time, alone and several at once, also such as
share brokers. Some clients are steady (`SteadyClients`). After each round the overlay
must be a tree again, that of the decisions taken, with tables that equal the truth.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from itertools import combinations

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.session import SessionLimits
from pubweave.generate.topologies.trees import random_tree
from pubweave.model.ids import BrokerId, Link
from pubweave.model.plans import Action, Append, Detach, Shift
from pubweave.sim.kernel.faults import QUIET, FaultRates
from pubweave.sim.kernel.nodes import HandlingTime, SimBroker
from pubweave.sim.kernel.results import RunResult
from pubweave.sim.kernel.world import World
from pubweave.sim.overlays.tree import TreeOverlay
from pubweave.sim.parts.clients import RandomClients, SteadyClients, TreeCounters
from pubweave.sim.parts.run import REST_LIMIT_S, Options, SimPart, SimRun
from pubweave.sim.scenarios.trees import TreeSetting, tree_config
from tests.sim.action_arbiter import ActionArbiter, ActionRecord

LATENCY_S = (0.01, 0.05)
FAULTS = ("none", "drops", "delays", "crashes", "overflow", "haste", "any")
"""What a run may be about; `any` draws one of the others from the seed."""


@dataclass(frozen=True)
class ShiftSetting:
    """What makes a run one of shifts, beside what `TreeSetting` says."""

    fault: str
    shifts_at_once: int
    shares_brokers: bool
    spare_brokers: int
    """How many brokers can join; with some, brokers leave, too."""
    hold_limit_bytes: int
    hold_limit_s: float
    action_limit_s: float
    store_s: tuple[float, float]

    @classmethod
    def draw(cls, world: World, fault: str) -> ShiftSetting:
        return cls(
            fault=fault,
            shifts_at_once=world.integer(1, 3),
            shares_brokers=world.chance(0.3),
            spare_brokers=world.choice([0, 1, 3]),
            hold_limit_bytes=world.integer(50, 1500) if fault == "overflow" else 4 << 20,
            hold_limit_s=world.uniform(0.02, 0.4) if fault == "haste" else 3.0,
            action_limit_s=world.uniform(0.1, 1.0) if fault == "haste" else 10.0,
            store_s=(0.001, world.uniform(0.002, 0.05)),
        )


def fault_rates(world: World, fault: str) -> FaultRates:
    match fault:
        case "drops":
            return replace(QUIET, connection_drop_per_s=world.uniform(1.0, 8.0))
        case "delays":
            return replace(
                FaultRates(connection_drop_per_s=world.uniform(0.0, 2.0)),
                delay_spike_per_s=1.0,
                partition_per_s=0.3,
                broker_pause_per_s=0.5,
            )
        case "crashes":
            return replace(
                FaultRates(connection_drop_per_s=world.uniform(0.0, 2.0)),
                broker_crash_per_s=world.uniform(0.2, 0.8),
                broker_down_s=(0.05, 2.0),
            )
    return QUIET


def run_shifts(seed: int, *, fault: str = "any", max_brokers: int = 12) -> RunResult:
    """One run. ``fault`` is one of FAULTS."""
    world = World(seed)
    if fault == "any":
        fault = world.choice([name for name in FAULTS if name != "any"])
    shifting = ShiftSetting.draw(world, fault)
    setting = draw_tree_setting(world, fault, max_brokers)

    def config(broker: BrokerId) -> BrokerConfig:
        return replace(
            tree_config(broker, setting=setting, strategy=None),
            hold_limit_bytes=shifting.hold_limit_bytes,
            hold_limit_s=shifting.hold_limit_s,
            action_limit_s=shifting.action_limit_s,
            stale_grace_s=4.0,
        )

    run = SimRun(
        "shift",
        world,
        Options(max_brokers, fault=fault),
        setting,
        TreeOverlay,
        config,
        latency_s=lambda link: world.uniform(*LATENCY_S),
        spare=[f"x{number}" for number in range(shifting.spare_brokers)],
    )
    clients = RandomClients(run)
    steady = SteadyClients(run, clients, 0)
    shifts = Shifts(run, clients, steady, shifting)
    run.compose(clients, TreeCounters(run), steady, shifts)
    return run.run()


def draw_tree_setting(world: World, fault: str, max_brokers: int) -> TreeSetting:
    topology = random_tree(world.integer(3, max_brokers), world.rng)
    topology = replace(
        topology,
        latency_ms={link: 1000 * world.uniform(*LATENCY_S) for link in sorted(topology.links)},
    )
    window_bytes = int(world.choice([1 << 20, 1 << 20, 1 << 13, 2000]))
    return TreeSetting(
        topology=topology,
        covering=world.chance(0.5),
        limits=SessionLimits(window_bytes, 5 * window_bytes, window_bytes),
        handling=HandlingTime(world.uniform(0, 0.0003), world.uniform(0, 0.0005)),
        faults=fault_rates(world, fault),
        clients=world.integer(4, 20),
        rounds=2,
        round_s=world.uniform(4.0, 8.0),
        actions_per_round=world.integer(200, 600),
    )


class Shifts(SimPart):
    """Begins shifts, and strikes at the brokers and links of their actions."""

    def __init__(
        self, run: SimRun, clients: RandomClients, steady: SteadyClients, setting: ShiftSetting
    ) -> None:
        self.run = run
        self.world = run.world
        self.overlay = run.overlay
        self.setting = setting
        self._clients = clients
        self._steady = steady
        self._shift_until = 0.0
        low_s, high_s = setting.store_s
        self.arbiter = ActionArbiter(self.overlay, lambda: self.world.uniform(low_s, high_s))
        self.arbiter.on_decided = self._on_decided
        run.homes = self._homes

    def _homes(self) -> list[BrokerId]:
        leaving = {
            record.action.broker
            for record in self.arbiter.running()
            if isinstance(record.action, Detach)
        }
        return [name for name in self.overlay.topology.neighbors if name not in leaving]

    def start(self) -> None:
        for number in range(self.world.integer(3, 8)):
            self._steady.join(f"steady{number}")
        self.run.becomes_quiet()

    # --- faults ----------------------------------------------------------------------------

    def _strike_at(self, action: Action) -> None:
        """Faults at the very brokers and links of an action, in every phase of it."""
        world, fault = self.world, self.setting.fault
        if fault == "crashes" and world.chance(0.1):
            name = world.choice(list(action.brokers))
            world.after(world.uniform(0.0, 0.8), self._crash, self.overlay.brokers[name])
        elif fault == "drops":
            for one, other in combinations(action.brokers, 2):
                link = Link.between(one, other)
                if world.chance(0.3):
                    world.after(world.uniform(0.0, 0.8), self._drop, link)

    def _on_decided(self, record: ActionRecord) -> None:
        """Right after a commit, when some know of it and others do not."""
        if self.setting.fault == "crashes" and record.committed and self.world.chance(0.3):
            name = self.world.choice(list(record.action.brokers))
            delay_s = self.world.uniform(0.0, 0.15)
            self.world.after(delay_s, self._crash, self.overlay.brokers[name])

    def _crash(self, broker: SimBroker) -> None:
        if self.world.now < self._shift_until and broker.is_up():
            is_decided = any(
                broker.name in record.action.brokers and record.committed
                for record in self.arbiter.running()
            )
            self._count("crash_after_decision" if is_decided else "crash_before_decision")
            self._count("broker_crash")
            self.run.crashed(broker)
            broker.crash()
            self.world.after(self.world.uniform(0.02, 1.5), self._restart, broker)

    def _restart(self, broker: SimBroker) -> None:
        if not broker.is_up():
            broker.start()

    def _drop(self, link: Link) -> None:
        path = self.overlay.links.get(link)
        if path is not None and path.connection is not None and not path.connection.is_dropped:
            self._count("drop_in_shift")
            self.overlay.network.drop(path.connection)

    def _count(self, name: str) -> None:
        self.run.faults.counts[name] = self.run.faults.counts.get(name, 0) + 1

    # --- shifts ----------------------------------------------------------------------------

    def begin(self, end: float) -> None:
        self._shift_until = end
        for _ in range(self.setting.shifts_at_once):
            self.world.after(self.world.uniform(0.0, 0.3), self._begin_shift)

    def _begin_shift(self) -> None:
        """Begin one, and another one when it is over."""
        if self.world.now >= self._shift_until:
            return
        busy = {b for record in self.arbiter.running() for b in record.action.brokers}
        if self.setting.shares_brokers:
            busy = set()
        action: Action | None = None
        if self.setting.spare_brokers and self.world.chance(0.3):
            action = self._draw_membership(busy)
        if action is None:
            action = self._draw_shift(busy)
        if action is None:
            self.world.after(0.1, self._begin_shift)
        else:
            self._strike_at(action)
            self._await_end(self.arbiter.begin(action))

    def _await_end(self, record: ActionRecord) -> None:
        if not record.is_over:
            self.world.after(0.02, self._await_end, record)
        else:
            self.world.after(self.world.uniform(0.0, 0.3), self._begin_shift)

    def _draw_shift(self, busy: set[BrokerId]) -> Shift | None:
        topology = self.overlay.topology
        for _ in range(10):
            mover = self.world.choice(list(topology.neighbors))
            old_peer = self.world.choice(list(topology.neighbors[mover]))
            others = [broker for broker in topology.neighbors[old_peer] if broker != mover]
            if others:
                shift = Shift(mover, old_peer, self.world.choice(others))
                if not busy & set(shift.brokers) and self._may_begin(shift):
                    return shift
        return None

    def _draw_membership(self, busy: set[BrokerId]) -> Append | Detach | None:
        """A spare broker joins, or a leaf without steady clients leaves."""
        topology = self.overlay.topology
        homes = {self.overlay.clients[name].home.name for name in self._steady.names}
        taken = {b for record in self.arbiter.running() for b in record.action.brokers}
        spare = [b for b in self.overlay.brokers if b not in topology.neighbors and b not in taken]
        leaves = [b for b in topology.leaves if b not in homes | taken]
        if spare and self.world.chance(0.5):
            neighbor = self.world.choice(list(topology.neighbors))
            return None if neighbor in busy else Append(self.world.choice(spare), neighbor)
        if not leaves or len(topology.brokers) < 4:
            return None
        leaf = self.world.choice(leaves)
        neighbor = topology.neighbors[leaf][0]
        return None if neighbor in busy else Detach(leaf, neighbor)

    def _may_begin(self, shift: Shift) -> bool:
        """Its leader is there to be asked."""
        return self.overlay.brokers[shift.mover].is_up()

    # --- rest and outcome ------------------------------------------------------------------

    def stop(self) -> bool:
        until = self.world.now + REST_LIMIT_S
        while self.arbiter.running() and self.world.now < until:
            self.run.faults.heal()
            self.world.run_until(self.world.now + 0.25)
        return True

    def at_rest(self) -> Iterable[str]:
        for record in self.arbiter.running():
            yield f"{record.id} {record.action} never ends: {record}"
        if not self.overlay.topology.is_tree:
            yield "the topology is no tree any more"
        for name, node in self.overlay.brokers.items():
            neighbors = self.overlay.topology.neighbors.get(name, ())
            linked = tuple(sorted(node.broker.sessions.links))
            if linked != tuple(sorted(neighbors)):
                yield f"{name} has links to {linked}, not {neighbors}"

    def violations(self) -> Iterable[str]:
        return self.arbiter.violations

    def counts(self) -> dict[str, int]:
        records = list(self.arbiter.records.values())
        committed = [record for record in records if record.committed]
        return {
            "shifts": sum(isinstance(record.action, Shift) for record in committed),
            "appends": sum(isinstance(record.action, Append) for record in committed),
            "detaches": sum(isinstance(record.action, Detach) for record in committed),
            "aborted": len(records) - len(committed),
            "publications_held": sum(sum(r.held_messages.values()) for r in records),
        }
