"""What an action costs (IPITT section V's C_a), as mappings that count on demand.

A topology of 1,000 brokers has nearly 1,000,000,000 shifts, so none of these is ever written out:
``get`` works for every action, and iterating is for small topologies only.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import permutations

from pubweave.model.ids import BrokerId, Link
from pubweave.model.plans import Action, Shift
from pubweave.model.topology import Topology
from pubweave.planning.problem.problem import PlanningError


class _CountedCosts(Mapping[Action, float]):
    """Costs by a rule: every shift among the brokers is a key."""

    def __init__(self, brokers: Iterable[BrokerId]) -> None:
        self._brokers = sorted(brokers)

    def __getitem__(self, action: Action) -> float:
        raise KeyError(action)

    def __iter__(self) -> Iterator[Action]:
        return (Shift(*triple) for triple in permutations(self._brokers, 3))

    def __len__(self) -> int:
        n = len(self._brokers)
        return n * (n - 1) * (n - 2)


class BrokerActionCosts(_CountedCosts):
    """An action costs what its brokers cost together: they all buffer while it runs."""

    def __init__(self, cost_of: Mapping[BrokerId, float]) -> None:
        super().__init__(cost_of)
        self._cost_of = cost_of

    def __getitem__(self, action: Action) -> float:
        return sum(self._cost_of[broker] for broker in action.brokers)


class LatencyCosts(_CountedCosts):
    """An action costs the milliseconds its brokers are apart, from one to the next.

    Where a latency is in neither topology the mean of the known ones stands in."""

    def __init__(self, source: Topology, target: Topology) -> None:
        super().__init__(source.brokers | target.brokers)
        self._known = {**target.latency_ms, **source.latency_ms}
        if not self._known:
            raise PlanningError(
                "neither topology has latencies: add latency_ms to the links, or use other costs"
            )
        self._mean_ms = sum(self._known.values()) / len(self._known)

    def __getitem__(self, action: Action) -> float:
        ends = action.brokers
        hops = ((ends[place], ends[place + 1]) for place in range(len(ends) - 1))
        return sum(self._known.get(Link.between(a, b), self._mean_ms) for a, b in hops if a != b)


def traffic_costs(source: Topology, target: Topology) -> BrokerActionCosts:
    """Costs by the brokers' ``rate_per_s``, an attribute of the topologies' brokers."""
    cost_of: dict[BrokerId, float] = {}
    for broker in sorted(source.brokers | target.brokers):
        rate = source.broker_attributes.get(broker, {}).get("rate_per_s")
        if rate is None:
            rate = target.broker_attributes.get(broker, {}).get("rate_per_s")
        if isinstance(rate, bool) or not isinstance(rate, int | float) or rate < 0:
            raise PlanningError(
                f"broker {broker!r} has no rate_per_s of 0 or more: costs by traffic need that "
                "attribute on every broker of the topology file"
            )
        # One more than the rate, so that an action at idle brokers is not free.
        cost_of[broker] = 1.0 + float(rate)
    return BrokerActionCosts(cost_of)
