"""Scenarios on trees: `routing`, `transform`, `relocate` and `reorganize`.

Each run draws its setting from its seed: the tree, covering or not, session windows from ample
to tiny, which faults strike.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.session import SessionLimits
from pubweave.core.strategies import STRATEGIES, strategy_names
from pubweave.generate.topologies.latencies import LATENCY_RANGE_MS, Matrix, assign_latencies
from pubweave.generate.topologies.trees import hierarchical_tree, random_tree
from pubweave.model.ids import BrokerId
from pubweave.model.topology import Topology
from pubweave.sim.kernel.faults import QUIET, FaultRates
from pubweave.sim.kernel.nodes import HandlingTime
from pubweave.sim.kernel.rare_faults import RARE
from pubweave.sim.kernel.world import World
from pubweave.sim.overlays.tree import TreeOverlay
from pubweave.sim.overlays.unknown import UnknownOverlay
from pubweave.sim.parts.clients import RandomClients, SteadyClients, TreeCounters
from pubweave.sim.parts.migrations import RELOCATIONS, Migrations
from pubweave.sim.parts.organizing import Organizing, ReorganizeSetting
from pubweave.sim.parts.plans import PlanSetting, PlansUnderFaults
from pubweave.sim.parts.run import Options, Setting, SimPart, SimRun
from pubweave.sim.scenarios.scenario import DeliveryBounds, Scenario

TREE_TABLES = ("tree", "tree_covering")
"""Strategies whose tables are known to `TreeOverlay`."""
FAULTS = ("none", "network", "control", "all", "crashes")
"""Nothing; connections, delays and pauses; executors and store sessions; both; brokers too."""
_WEIGHTS = (3, 3, 4, 5, 5)
LEAST_BROKERS = 10


@dataclass(frozen=True)
class TreeSetting(Setting):
    """What one run on a tree is like."""

    covering: bool

    def describe(self) -> dict[str, Any]:
        return {
            **super().describe(),
            "covering": self.covering,
            "window_bytes": self.limits.window_bytes,
            "connection_drop_per_s": round(self.faults.connection_drop_per_s, 3),
            "broker_crash_per_s": self.faults.broker_crash_per_s,
        }


def tree_strategies() -> list[str]:
    """Those that brokers on a tree can be started with: also any that another package adds."""
    graphs = {name for name, strategy in STRATEGIES.items() if not strategy.needs_tree}
    return sorted(name for name in strategy_names() if name not in graphs)


def draw_tree(world: World, count: int) -> Topology:
    """A hierarchy, or a tree of any shape."""
    if world.chance(0.5):
        return hierarchical_tree(count, world.integer(3, 7), world.chance(0.5), world.rng)
    return random_tree(count, world.rng)


def tree_config(broker: BrokerId, *, setting: TreeSetting, strategy: str | None) -> BrokerConfig:
    return BrokerConfig(
        id=broker,
        strategy=strategy or TREE_TABLES[setting.covering],
        limits=setting.limits,
        stale_grace_s=3.0,
        ping_every_s=2.0,
        silence_limit_s=5.0,
    )


# --- routing: random clients, random faults, and rest in between -----------------------------


def routing(world: World, options: Options) -> SimRun:
    setting, strategy = _draw_routing(world, options.max_brokers, options.rtt), options.strategy
    kind = TreeOverlay if strategy in (None, *TREE_TABLES) else UnknownOverlay
    config = partial(tree_config, setting=setting, strategy=strategy)
    run = SimRun("routing", world, options, setting, kind, config)
    clients = RandomClients(run)
    run.compose(clients, TreeCounters(run))
    return run


def _draw_routing(world: World, max_brokers: int, rtt: Matrix | None) -> TreeSetting:
    # Small trees are where brokers answer each other most.
    largest = max_brokers if world.chance(0.7) else min(max_brokers, 6)
    topology = draw_tree(world, world.integer(1, largest))
    if rtt is not None:
        topology = assign_latencies(topology, rtt, world.rng)
    window_bytes = int(world.choice([1 << 20, 1 << 13, 1000]))
    return TreeSetting(
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


# --- plans are carried out while everything fails --------------------------------------------


@dataclass(frozen=True)
class PlannedRun:
    """A run with plans, whose parts are not composed yet."""

    run: SimRun
    clients: RandomClients
    plans: PlansUnderFaults

    def compose(self, first: tuple[SimPart, ...] = (), last: tuple[SimPart, ...] = ()) -> SimRun:
        counters = TreeCounters(self.run)
        parts = (*first, counters, self.plans.steady, self.plans, *last)
        self.run.compose(self.clients, *parts)
        return self.run


def draw_planned(world: World, options: Options) -> tuple[TreeSetting, PlanSetting]:
    """What a run with plans is like."""
    fault = draw_fault(world)
    if options.fault in RARE:
        fault = "network" if fault in ("none", "control") else fault
    elif options.fault is not None:
        fault = options.fault
    plans = PlanSetting.draw(world, fault)
    window_bytes = int(world.choice([1 << 20, 1 << 20, 1 << 14, 4000]))
    setting = TreeSetting(
        topology=_draw_latent_tree(world, options.max_brokers, options.rtt),
        covering=world.chance(0.5),
        limits=SessionLimits(window_bytes, 5 * window_bytes, window_bytes),
        handling=HandlingTime(world.uniform(0, 0.0002), world.uniform(0, 0.0004)),
        faults=_fault_rates(world, fault),
        clients=world.integer(4, 20),
        rounds=1,
        round_s=0.5,
        actions_per_round=world.integer(4, 20),
    )
    return setting, plans


def plan_run(
    name: str,
    world: World,
    options: Options,
    settings: tuple[TreeSetting, PlanSetting],
    *,
    is_serial: bool = False,
    **changed: Any,
) -> PlannedRun:
    """``changed``: fields of the brokers' configuration."""
    setting, plan_setting = settings

    def config(broker: BrokerId) -> BrokerConfig:
        usual = tree_config(broker, setting=setting, strategy=None)
        planned = replace(usual, hold_limit_s=3.0, action_limit_s=8.0, clients_leave_s=3.0)
        return replace(planned, **changed)

    run = SimRun(
        name,
        world,
        options,
        setting,
        TreeOverlay,
        config,
        latency_s=lambda link: world.uniform(*LATENCY_RANGE_MS) / 1000.0,
        spare=plan_setting.spare,
    )
    clients = RandomClients(run)
    steady = SteadyClients(run, clients, plan_setting.steady_clients)
    plans = PlansUnderFaults(run, steady, plan_setting, is_serial=is_serial)
    run.rounds = [plans.carry_out] * plan_setting.plans
    return PlannedRun(run, clients, plans)


def draw_fault(world: World) -> str:
    weighted = [
        fault for fault, weight in zip(FAULTS, _WEIGHTS, strict=True) for _ in range(weight)
    ]
    return str(world.choice(weighted))


def _fault_rates(world: World, fault: str) -> FaultRates:
    """Those of brokers and links."""
    if fault in ("none", "control"):
        return QUIET
    rates = FaultRates(
        connection_drop_per_s=world.uniform(0.2, 4.0),
        delay_spike_per_s=world.uniform(0.0, 1.0),
        partition_per_s=world.uniform(0.0, 0.2),
        partition_s=(0.2, 5.0),
        broker_pause_per_s=world.uniform(0.0, 0.5),
        broker_pause_s=(0.1, 2.0),
    )
    if fault != "crashes":
        return rates
    return replace(rates, broker_crash_per_s=world.uniform(0.05, 0.4), broker_down_s=(0.05, 4.0))


def _draw_latent_tree(world: World, max_brokers: int, rtt: Matrix | None) -> Topology:
    topology = draw_tree(world, world.integer(min(LEAST_BROKERS, max_brokers), max_brokers))
    if rtt is not None:
        return assign_latencies(topology, rtt, world.rng)
    drawn = {link: world.uniform(*LATENCY_RANGE_MS) for link in sorted(topology.links)}
    return replace(topology, latency_ms=drawn)


def transform(world: World, options: Options) -> SimRun:
    planned = plan_run("transform", world, options, draw_planned(world, options))
    return planned.compose(first=(FirstPlan(planned.plans, options),))


class FirstPlan(SimPart):
    """How long the first plan took, and how long one action at a time: only where nothing
    disturbed it."""

    def __init__(self, plans: PlansUnderFaults, options: Options) -> None:
        self._plans = plans
        self._options = options

    def measures(self) -> dict[str, float]:
        setting, seed = self._plans.setting, self._plans.world.seed
        if not self._plans.is_calm or setting.pauses or setting.abort_after_s is not None:
            return {}
        options = Options(self._options.max_brokers, self._options.rtt, fault="none")
        tree, plans = draw_planned(world := World(seed), options)
        settings = tree, replace(plans, plans=1)
        twin = plan_run("transform", world, options, settings, is_serial=True)
        twin.compose().run()
        return {
            "first_plan_s": self._plans.watch.first_plan_s(),
            "first_plan_serial_s": twin.plans.watch.first_plan_s(),
        }


def relocate(world: World, options: Options) -> SimRun:
    settings = draw_planned(world, options)
    has_plans, rounds = world.chance(0.6), world.integer(1, 3)
    round_s = world.uniform(3.0, 8.0)
    relocation = RELOCATIONS.get(world.seed % 8)
    changed: dict[str, Any] = {} if relocation is None else {"relocation": relocation}
    planned = plan_run(
        "relocate",
        world,
        options,
        settings,
        client_expiry_s=20.0,
        migration_limit_s=3.0,
        **changed,
    )
    run, plans = planned.run, planned.plans

    def wander() -> None:
        """A stretch of time in which the overlay stays as it is, but for faults and clients."""
        end = world.now + round_s
        while world.now < end:
            run.be_active()

    with_plans = min(rounds, plans.setting.plans) if has_plans else 0
    run.rounds = [*[plans.carry_out] * with_plans, *[wander] * (rounds - with_plans)]
    return planned.compose(last=(Migrations(run, planned.clients, plans, relocation),))


def reorganize(
    world: World, options: Options, *, organizing: ReorganizeSetting | None = None
) -> SimRun:
    """``organizing``: how brokers organize themselves; None: drawn from the seed."""
    setting, plans = draw_planned(world, options)
    # Brokers that come and go are the business of `transform`.
    settings = setting, replace(plans, spare_brokers=0)
    drawn = ReorganizeSetting.draw(world)
    chosen = organizing or drawn
    planned = plan_run("reorganize", world, options, settings, organize=chosen.organize)
    part = Organizing(planned.run, planned.plans, chosen)
    planned.run.rounds = [part.organize] * chosen.rounds
    return planned.compose(first=(part,))


FLOODED_DELIVERIES = DeliveryBounds(due=0.95, due_with_journals=0.8, excused=0.03)
"""Its brokers confirm at once; and they have long queues, which a crash takes along with the
sessions."""
FAULTY = frozenset(("durability", "pause_s", "fault"))
TREE_DELIVERIES = DeliveryBounds(due=0.75, due_with_journals=0.5, excused=0.005)
"""A subscription takes half a second to be confirmed in the median, 1.5 s on average: a question
goes to every broker that publishers are behind, and some are cut off or down meanwhile. With
journals one crash follows the other, and it takes 3.5 s. Clients here live for about 6 s."""
ROUTING = Scenario(
    "random trees, random clients, random faults, and rest in between",
    routing,
    max_brokers=30,
    takes=frozenset(("durability", "fault", "pause_s", "strategy")),
    faults=RARE,
    strategies=tree_strategies,
    deliveries=TREE_DELIVERIES,
    deliveries_by={"flooding": FLOODED_DELIVERIES},
)
TRANSFORM = Scenario(
    "plans are carried out on a random tree while everything fails",
    transform,
    max_brokers=60,
    takes=FAULTY,
    faults=(*FAULTS, *RARE),
    deliveries=TREE_DELIVERIES,
)
RELOCATE = Scenario(
    "clients migrate at random, and plans are carried out, while everything fails",
    relocate,
    max_brokers=20,
    takes=FAULTY,
    faults=(*FAULTS, *RARE),
    deliveries=replace(TREE_DELIVERIES, excused=0.02, excused_with_journals=0.01),
)
REORGANIZE = Scenario(
    "brokers exchange links by themselves while everything fails",
    reorganize,
    max_brokers=14,
    takes=FAULTY,
    faults=(*FAULTS, *RARE),
    deliveries=TREE_DELIVERIES,
)
