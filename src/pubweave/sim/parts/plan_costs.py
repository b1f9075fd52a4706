"""What a transformation cost, as IPITT section VI measures it: latency of the publications it
affected and of the others, what was held back, and how long it took.

A delivery is affected if, between its publication and its arrival, an action held a link on its
way; the way is that of the topology when it was published.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from pubweave.model.ids import BrokerId, Link
from pubweave.model.topology import Topology
from pubweave.sim.checkers.deployment import ActionHistory, DeploymentWatch

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
