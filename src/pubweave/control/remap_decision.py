"""Whether brokers of a ring should be remapped, and how (DYNATOPS, Algorithm 2).

Once per reconfiguration free period: rates are estimated from what was measured (Eq. 8), the cost
of the mapping that is there is held against a threshold, a new mapping is computed only if that
is passed, and it is chosen only if its benefit is greater than what it takes to get there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial

import numpy as np

from pubweave.design.dynatops.mapping.best import best_mapping
from pubweave.design.dynatops.mapping.problem import MappingProblem, expected_rates, mapping_cost
from pubweave.design.dynatops.mapping.reconfigure import candidates, chosen, has_demand
from pubweave.design.dynatops.mapping.ring import Ring
from pubweave.design.tco.interests import Subscriptions
from pubweave.model.ids import BrokerId, natural_order


@dataclass(frozen=True)
class ObservedRing:
    """What was measured in one period."""

    positions: Mapping[BrokerId, int]
    topics: Mapping[BrokerId, tuple[str, ...]]
    """Those that each broker's clients subscribe to."""
    rates: Mapping[str, float]
    """Publications per second by topic."""


@dataclass(frozen=True)
class RemapDecision:
    """What to do, and why. ``positions`` is None if brokers are to stay."""

    reason: str
    cost_now: float
    """Notification cost of one period as it is (Eq. 5)."""
    cost_then: float | None = None
    benefit: float | None = None
    reconfiguration_cost: float | None = None
    moved: int = 0
    positions: Mapping[BrokerId, int] | None = None


@dataclass
class RemapDecider:
    """Remembers the rates it expects, nothing else.

    >>> ring = ObservedRing({"a": 0, "b": 1 << 31}, {"a": ("x",), "b": ("x",)}, {"x": 0.001})
    >>> RemapDecider(period_s=60.0).decide(ring).reason
    'the cost is too low for any change to pay'
    """

    period_s: float
    """T_free: how long a mapping is to stay."""
    delay_weight: float = 1.0
    _expected: dict[str, float] = field(default_factory=dict)

    def decide(self, ring: ObservedRing) -> RemapDecision:
        """Steps 1 to 3 of Algorithm 2. As expensive as `best_mapping`."""
        self._expected = expected_rates(self._expected, ring.rates)
        brokers = sorted(ring.positions, key=natural_order)
        wanted = Subscriptions.of({broker: ring.topics.get(broker, ()) for broker in brokers})
        ids = sorted(ring.positions.values())
        problem = MappingProblem.of(
            wanted,
            {topic: rate * self.period_s for topic, rate in self._expected.items()},
            Ring(np.array(ids, np.int64)),
            self.delay_weight,
        )
        now = problem.hashed_order([ring.positions[broker] for broker in brokers])
        cost = mapping_cost(problem, now)
        if not has_demand(problem, cost):
            return RemapDecision(
                "the cost is too low for any change to pay", cost.notification_cost
            )
        found = best_mapping(problem, now)
        choice = chosen(candidates(problem, found.paths, now))
        priced = partial(
            RemapDecision,
            cost_now=cost.notification_cost,
            cost_then=choice.cost.notification_cost,
            benefit=choice.benefit,
            reconfiguration_cost=choice.reconfiguration_cost,
            moved=choice.changed,
        )
        if choice.net <= 0 or not choice.changed:
            return priced("no change pays within a period")
        mapping = found.paths[choice.path].mapping_at(choice.place)
        places = dict(zip(brokers, [ids[place] for place in mapping.tolist()], strict=True))
        return priced("it pays", positions=places)
