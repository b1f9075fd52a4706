"""What one run of the scenario `transform` is like, drawn from its seed."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from pubweave.core.session_limits import SessionLimits
from pubweave.generate.latencies import LATENCY_RANGE_MS, Matrix, assign_latencies
from pubweave.generate.trees import hierarchical_tree, random_tree
from pubweave.model.topology import Topology
from pubweave.sim.faults import FaultRates
from pubweave.sim.nodes import HandlingTime
from pubweave.sim.routing_scenario import RoutingSetting
from pubweave.sim.world import World

FAULTS = ("none", "network", "control", "all", "crashes")
"""Nothing; connections, delays and pauses; executors and store sessions; both; brokers too."""
_WEIGHTS = (3, 3, 4, 5, 5)
LEAST_BROKERS = 10
QUIET = FaultRates(0.0, 0.0, (0.0, 0.0), 0.0, (0.0, 0.0), 0.0, (0.0, 0.0), 0.0, (0.0, 0.0))


@dataclass(frozen=True)
class TransformSetting:
    """What makes a run one of transformations, beside what `RoutingSetting` says."""

    fault: str
    plans: int
    steps: int
    actions: int
    disjoint: bool
    executors: int
    store_s: tuple[float, float]
    session_limit_s: float
    executor_crash_per_s: float
    line_break_per_s: float
    abort_after_s: float | None
    """An operator loses patience."""
    pauses: bool
    steady_clients: int
    spare_brokers: int = 0
    """How many brokers can join; with some, brokers leave, too."""

    @classmethod
    def draw(cls, world: World, fault: str) -> TransformSetting:
        has_control_faults = fault in ("control", "all", "crashes")
        return cls(
            fault=fault,
            plans=world.integer(1, 2),
            steps=world.integer(1, 5),
            actions=world.integer(1, 8),
            disjoint=world.chance(0.3),
            executors=world.integer(1, 2),
            store_s=(0.0005, world.uniform(0.001, 0.02)),
            session_limit_s=world.uniform(1.0, 3.0),
            executor_crash_per_s=world.uniform(0.05, 0.6) if has_control_faults else 0.0,
            line_break_per_s=world.uniform(0.2, 4.0) if has_control_faults else 0.0,
            abort_after_s=world.uniform(0.0, 4.0) if world.chance(0.1) else None,
            pauses=world.chance(0.15),
            steady_clients=world.integer(4, 14),
            spare_brokers=int(world.choice([0, 1, 3])),
        )


def draw_fault(world: World) -> str:
    weighted = [
        fault for fault, weight in zip(FAULTS, _WEIGHTS, strict=True) for _ in range(weight)
    ]
    return str(world.choice(weighted))


def fault_rates(world: World, fault: str) -> FaultRates:
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


def draw_topology(world: World, max_brokers: int, rtt: Matrix | None) -> Topology:
    count = world.integer(min(LEAST_BROKERS, max_brokers), max_brokers)
    if world.chance(0.5):
        topology = hierarchical_tree(count, world.integer(3, 7), world.chance(0.5), world.rng)
    else:
        topology = random_tree(count, world.rng)
    if rtt is not None:
        return assign_latencies(topology, rtt, world.rng)
    drawn = {link: world.uniform(*LATENCY_RANGE_MS) for link in sorted(topology.links)}
    return replace(topology, latency_ms=drawn)


def draw_routing(world: World, fault: str, max_brokers: int, rtt: Matrix | None) -> RoutingSetting:
    window_bytes = int(world.choice([1 << 20, 1 << 20, 1 << 14, 4000]))
    return RoutingSetting(
        topology=draw_topology(world, max_brokers, rtt),
        covering=world.chance(0.5),
        limits=SessionLimits(window_bytes, 5 * window_bytes, window_bytes),
        handling=HandlingTime(world.uniform(0, 0.0002), world.uniform(0, 0.0004)),
        faults=fault_rates(world, fault),
        clients=world.integer(4, 20),
        rounds=1,
        round_s=0.5,
        actions_per_round=world.integer(4, 20),
    )


def describe(setting: RoutingSetting, transform: TransformSetting) -> dict[str, Any]:
    return {
        **setting.describe(),
        "fault": transform.fault,
        "plans": transform.plans,
        "executors": transform.executors,
        "steady_clients": transform.steady_clients,
    }
