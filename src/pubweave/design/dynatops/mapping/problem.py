"""What is to be mapped: brokers with their topics, publications, a ring; and what a mapping costs.

A topic's tree is the union of the greedy routes from its rendezvous to all positions whose brokers
subscribe to it. Rendezvous duty stays with the position; subscriptions travel with the broker.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from pubweave.design.dynatops._kernels import trees as kernels
from pubweave.design.dynatops._kernels.trees import Flags, Floats, Indices, Integers
from pubweave.design.dynatops.mapping.ring import Ring
from pubweave.design.tco.interests import Subscriptions
from pubweave.design.tree.traffic import DesignError

DELAY_WEIGHT = 1.0
"""w_d; the paper names none."""

BrokerMapping = Integers
"""Position by broker: a permutation. What the paper calls a configuration, X."""


@dataclass(frozen=True, eq=False)
class MappingProblem:
    """Brokers of `wanted` (its nodes), publications N_p by topic, and as many positions.

    >>> wanted = Subscriptions.of({"a": ["x"], "b": ["x", "y"], "c": ["y"]})
    >>> problem = MappingProblem.of(wanted, {"x": 10, "y": 5})
    >>> problem.ring.size, problem.publications.tolist()
    (3, [10.0, 5.0])
    """

    wanted: Subscriptions
    publications: Floats
    ring: Ring
    delay_weight: float = DELAY_WEIGHT
    roots: Integers = field(init=False, repr=False)
    """The rendezvous of each topic."""

    def __post_init__(self) -> None:
        if self.ring.size != self.wanted.node_count:
            raise DesignError(
                f"{self.wanted.node_count} brokers need as many positions, not {self.ring.size}"
            )
        if not (np.isfinite(self.publications).all() and (self.publications >= 0).all()):
            raise DesignError("publications of a topic are a number, 0 or more")
        if not 0 <= self.delay_weight < np.inf:
            raise DesignError("the weight of delay is a number, 0 or more")
        roots = [self.ring.rendezvous(topic) for topic in self.wanted.topic_names]
        object.__setattr__(self, "roots", np.array(roots, np.int64))

    @classmethod
    def of(
        cls,
        wanted: Subscriptions,
        publications: Mapping[str, float],
        ring: Ring | None = None,
        delay_weight: float = DELAY_WEIGHT,
    ) -> MappingProblem:
        """With equidistant positions unless a ring is given; a topic without a count has 0."""
        counts = [float(publications.get(topic, 0.0)) for topic in wanted.topic_names]
        placed = ring or Ring.equidistant(wanted.node_count)
        return cls(wanted, np.array(counts, np.float64), placed, delay_weight)

    @property
    def broker_count(self) -> int:
        return self.wanted.node_count

    @cached_property
    def trees(self) -> Trees:
        return Trees.of(self)

    @property
    def is_exact(self) -> bool:
        """Whether sums of costs carry no rounding: counts and weight are multiples of 1/1024."""
        scaled = np.append(self.publications, self.delay_weight) * 1024
        return bool((scaled == np.floor(scaled)).all())

    def in_order(self) -> BrokerMapping:
        """The mapping in order of appearance: broker i at position i."""
        return np.arange(self.broker_count, dtype=np.int64)

    def hashed_order(self, keys: Sequence[int]) -> BrokerMapping:
        """Consistent hashing: brokers take the positions in the order of their keys."""
        mapping = np.empty(self.broker_count, np.int64)
        mapping[np.argsort(np.array(keys, np.int64), kind="stable")] = self.in_order()
        return mapping


@dataclass(frozen=True, eq=False)
class Trees:
    """Routes from every rendezvous; topics with the same one share a row."""

    roots: Integers
    """The rendezvous by row."""
    row_of: Integers
    """The row by topic."""
    parents: Indices
    depths: Indices

    @classmethod
    def of(cls, problem: MappingProblem) -> Trees:
        """O(rendezvous * n log n) time, 8 bytes for each rendezvous and position."""
        roots, row_of = np.unique(problem.roots, return_inverse=True)
        shape = (len(roots), problem.broker_count)
        parents, depths = np.zeros(shape, np.int32), np.zeros(shape, np.int32)
        kernels.grow_trees(problem.ring.fingers, roots, parents, depths)
        return cls(roots, row_of.reshape(-1), parents, depths)


@dataclass(frozen=True, eq=False)
class Spread:
    """Under one mapping, by topic and position: a subscriber is here, so many are here or below."""

    here: Flags
    below: Indices

    @classmethod
    def of(cls, problem: MappingProblem, mapping: BrokerMapping) -> Spread:
        """O(|P| n) time and memory."""
        trees, wanted = problem.trees, problem.wanted
        shape = (wanted.topic_count, problem.broker_count)
        spread = cls(np.zeros(shape, np.uint8), np.zeros(shape, np.int32))
        kernels.count_below(
            trees.parents, trees.roots, trees.row_of, wanted.starts, wanted.topics, mapping,
            spread.here, spread.below,
        )  # fmt: skip
        return spread

    def relay_changes(self, problem: MappingProblem) -> Floats:
        """By topic and position: what a subscriber more there would change of the relay overhead.

        O(|P| n)."""
        trees, changes = problem.trees, np.zeros(self.here.shape)
        kernels.relay_changes(
            trees.parents, trees.roots, trees.row_of, problem.publications, self.here, self.below,
            changes,
        )  # fmt: skip
        return changes


def validate_mapping(problem: MappingProblem, mapping: BrokerMapping) -> None:
    """Raises unless every position has one broker."""
    if not np.array_equal(np.sort(mapping), problem.in_order()):
        raise DesignError("a mapping gives each broker a position of its own")


RATE_SMOOTHING = 0.3
"""alpha_pub of Eq. 8."""


@dataclass(frozen=True)
class MappingCost:
    """Eqs. 3 to 5; Eqs. 1 and 2 are the sums of such costs over time slots.

    >>> MappingCost(2.0, 3.0, 0.5).notification_cost
    3.5
    >>> MappingCost(2.0, 3.0, 0.5) + MappingCost(1.0, 1.0, 0.5)
    MappingCost(relay_overhead=3.0, delay=4.0, delay_weight=0.5)
    """

    relay_overhead: float
    """Messages to relays: positions in a tree that are neither its root nor subscribers."""
    delay: float
    """Hops from the rendezvous, summed over all subscribing brokers and publications."""
    delay_weight: float

    @property
    def notification_cost(self) -> float:
        return self.relay_overhead + self.delay_weight * self.delay

    def __add__(self, other: MappingCost) -> MappingCost:
        if other.delay_weight != self.delay_weight:
            raise ValueError("costs with different weights of delay have no sum")
        return MappingCost(
            self.relay_overhead + other.relay_overhead, self.delay + other.delay, self.delay_weight
        )


@dataclass(frozen=True, eq=False)
class BrokerCosts:
    """Eqs. 10 and 11 by broker."""

    overhead: Floats
    delay: Floats
    delay_weight: float

    @property
    def total(self) -> Floats:
        """c_b of Eq. 12."""
        return self.overhead + self.delay_weight * self.delay


def broker_costs(problem: MappingProblem, mapping: BrokerMapping) -> BrokerCosts:
    """What each broker contributes. O(|P| n)."""
    trees, spread = problem.trees, Spread.of(problem, mapping)
    relayed, delayed = np.zeros(problem.broker_count), np.zeros(problem.broker_count)
    kernels.charge(
        trees.roots, trees.row_of, trees.depths, problem.publications, spread.here, spread.below,
        relayed, delayed,
    )  # fmt: skip
    return BrokerCosts(relayed[mapping], delayed[mapping], problem.delay_weight)


def mapping_cost(problem: MappingProblem, mapping: BrokerMapping) -> MappingCost:
    """Eqs. 3 to 5. O(|P| n).

    >>> from pubweave.design.tco.interests import Subscriptions
    >>> wanted = Subscriptions.of({"a": ["x"], "b": ["x", "y"], "c": ["y"]})
    >>> problem = MappingProblem.of(wanted, {"x": 10, "y": 5})
    >>> mapping_cost(problem, problem.in_order()).delay
    15.0
    """
    costs = broker_costs(problem, mapping)
    return MappingCost(float(costs.overhead.sum()), float(costs.delay.sum()), problem.delay_weight)


def event_overhead(problem: MappingProblem, mapping: BrokerMapping) -> float:
    """Messages from the rendezvous on, those to subscribers among them: the sum of N_p o_p."""
    trees, here = problem.trees, Spread.of(problem, mapping).here
    received = here.sum(axis=1) - here[np.arange(len(here)), trees.roots[trees.row_of]]
    to_subscribers = float((problem.publications * received).sum())
    return to_subscribers + mapping_cost(problem, mapping).relay_overhead


def expected_rates(
    expected: Mapping[str, float], measured: Mapping[str, float], alpha: float = RATE_SMOOTHING
) -> dict[str, float]:
    """Eq. 8: publications per topic in the next period; a topic that is new starts as measured.

    >>> expected_rates({"x": 10.0}, {"x": 20.0, "y": 4.0})
    {'x': 13.0, 'y': 4.0}
    """
    topics = [*expected, *(topic for topic in measured if topic not in expected)]
    return {
        topic: (1 - alpha) * expected[topic] + alpha * measured.get(topic, 0.0)
        if topic in expected
        else measured[topic]
        for topic in topics
    }
