"""What a transformation cost, as IPITT section VI measures it: latency of the publications it
affected and of the others, what was held back, and how long it took.

A delivery is affected if, between its publication and its arrival, an action held a link on its
way; the way is that of the topology when it was published.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from pubweave.core.config.session import SessionLimits
from pubweave.generate.topologies.latencies import LATENCY_RANGE_MS, Matrix, assign_latencies
from pubweave.model.ids import BrokerId, Link
from pubweave.model.topology import Topology
from pubweave.sim.checkers.deployment import ActionHistory, DeploymentWatch
from pubweave.sim.kernel.faults import FaultRates
from pubweave.sim.kernel.nodes import HandlingTime
from pubweave.sim.kernel.world import World
from pubweave.sim.scenarios.routing import RoutingSetting, draw_tree

Delivery = tuple[float, float, BrokerId, BrokerId]
"""Published at, delivered at, from, to."""


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that at least this share of them does not exceed; 0 if there is none.

    >>> percentile([3.0, 1.0, 2.0], 0.99)
    3.0
    """
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


@dataclass(frozen=True)
class JudgedDelivery:
    """A delivery as a plan left it. ``is_during``: under way while a plan was carried out."""

    latency_ms: float
    way: frozenset[Link]
    is_during: bool
    is_affected: bool


class Deliveries:
    """All deliveries of a run, and which of them were affected."""

    def __init__(self) -> None:
        self._all: list[Delivery] = []

    def add(self, delivery: Delivery) -> None:
        self._all.append(delivery)

    def judged(self, watch: DeploymentWatch) -> Iterator[JudgedDelivery]:
        """Each delivery, with its way and what plans did to it, in the order of arrival."""
        ways = _Ways(watch.topologies)
        holds = [action for action in watch.actions.values() if action.hold_ended_at]
        spans = [(began, watch.over_at.get(name)) for name, began in watch.running_at.items()]
        for published_at, delivered_at, start, end in self._all:
            way = ways.at(published_at, start, end)
            is_during = any(
                began <= delivered_at and (over is None or published_at <= over)
                for began, over in spans
            )
            met = [
                action
                for action in holds
                if action.hold_began_at <= delivered_at and published_at <= action.hold_ended_at
            ]
            yield JudgedDelivery(
                1000 * (delivered_at - published_at),
                way,
                is_during,
                is_during and _is_held(way, met),
            )

    def latencies_ms(self, watch: DeploymentWatch) -> tuple[list[float], list[float]]:
        """Of the affected and of the unaffected ones, while plans were carried out."""
        affected: list[float] = []
        unaffected: list[float] = []
        for delivery in self.judged(watch):
            if delivery.is_during:
                (affected if delivery.is_affected else unaffected).append(delivery.latency_ms)
        return affected, unaffected


def _is_held(way: frozenset[Link], met: list[ActionHistory]) -> bool:
    return any(link in way for action in met for link in action.held_links)


class _Ways:
    """The links between two brokers in the topology of an instant."""

    def __init__(self, topologies: list[tuple[float, Topology]]) -> None:
        self._since = [instant for instant, _ in topologies]
        self._topologies = [topology for _, topology in topologies]
        self._known: dict[tuple[int, BrokerId, BrokerId], frozenset[Link]] = {}

    def at(self, instant: float, start: BrokerId, end: BrokerId) -> frozenset[Link]:
        index = bisect_right(self._since, instant) - 1
        key = (index, start, end)
        if key not in self._known:
            topology = self._topologies[index]
            is_there = start in topology.brokers and end in topology.brokers
            way = topology.path(start, end) if is_there else ()
            self._known[key] = frozenset(Link.between(a, b) for a, b in pairwise(way))
        return self._known[key]


def measure(watch: DeploymentWatch, deliveries: Deliveries) -> dict[str, float]:
    """The measures of a run by name."""
    affected, unaffected = deliveries.latencies_ms(watch)
    committed = [action for action in watch.actions.values() if action.committed_at is not None]
    held_ms = [1000 * action.held_s for action in committed]
    measures = {
        "plan_s": sum(watch.over_at[name] - watch.running_at[name] for name in watch.over_at),
        "action_ms_median": percentile(
            [
                1000 * (action.over_at - action.running_at)
                for action in committed
                if action.over_at is not None
            ],
            0.5,
        ),
        "hold_ms_median": percentile(held_ms, 0.5),
        "hold_ms_max": max(held_ms, default=0.0),
        "held_messages_max": float(max((a.held_messages for a in committed), default=0)),
        "affected_ms_p99": percentile(affected, 0.99),
        "unaffected_ms_p99": percentile(unaffected, 0.99),
        "affected_share": len(affected) / max(1, len(affected) + len(unaffected)),
    }
    return {name: round(value, 4) for name, value in measures.items()}


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
    executor_crash_per_s: float = 0.0
    line_break_per_s: float = 0.0
    abort_after_s: float | None = None
    """An operator loses patience."""
    pauses: bool = False
    steady_clients: int = 0
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
    topology = draw_tree(world, count)
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
