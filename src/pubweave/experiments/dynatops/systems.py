"""The systems that DYNATOPS' evaluation compares (section 6.2), as designs that are played hourly.

A system is an overlay of brokers that may adapt to what they want. Users are placed apart from it:
`design.dynatops.placement`. All are priced by the same counts: `Notified`, control messages of
brokers that come and go, and what adapting costs.

- *bayeux*: routing by prefixes, nothing adapts. `bayeux-16` has Tapestry's digits of 4 bits, and
  with them more neighbors than a Chord ring gives a broker; `bayeux` has 1 bit, and as many.
- *geops*: squares within squares, nothing adapts.
- *tco*: topic-connected, built anew in each hour after which it no longer is; *tco-mended* repairs
  instead, *tco-each* does so after every single change.
- *ring*: Chord with consistent hashing; with a free period the manager decides once in each.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import astuple, dataclass, field
from operator import add
from statistics import mean
from typing import Any, Protocol

import numpy as np

from pubweave.design.dynatops.mapping.problem import BrokerMapping, MappingProblem
from pubweave.design.dynatops.mapping.reconfigure import decide
from pubweave.design.dynatops.mapping.ring import Ring, key_of
from pubweave.design.dynatops.mapping.routed_overlay import (
    NOTHING,
    Notified,
    Publications,
    RingRoutes,
    RoutedOverlay,
)
from pubweave.design.dynatops.placement import HostedUsers
from pubweave.design.dynatops.rivals import ConnectedBrokers, RepairPolicy, subscriptions_of
from pubweave.design.tree.traffic import Floats

# The rows of DYNATOPS' figures 6 to 9: what one system has cost in one setting.


@dataclass(frozen=True)
class SystemRun:
    """Rates are per hour. Delay is in hops in the Poisson model, in ms in the location model."""

    model: str
    system: str
    pattern: str
    rate: float
    cluster_size: int
    load_weight: float
    free_period_h: int
    seed: int
    subscription_changes: float
    management_messages: float
    handovers: float
    most_loaded_over_mean: float
    """At the end."""
    highest_load_over_mean: float
    """In any hour."""
    load_deviation: float
    delay: float
    """From publishers to users."""
    tree_delay: float
    """From the rendezvous on, as in Eq. 4; with TCO it is the same."""
    messages_per_publication: float
    relays_per_publication: float
    reconfigurations: int
    reconfiguration_cost: float
    """DYNATOPS: Eq. 7, by which it decides; TCO: links changed."""
    reconfiguration_messages: float
    """DYNATOPS: counted step by step."""


def mean_over_seeds(rows: Sequence[SystemRun], metric: str, **setting: Any) -> float | None:
    """The mean of a metric over the rows with these values; None if there are none.

    >>> mean_over_seeds([], "delay", system="tco") is None
    True
    """
    values = [
        float(getattr(row, metric))
        for row in rows
        if all(getattr(row, name) == value for name, value in setting.items())
    ]
    return mean(values) if values else None


def saved(ours: float | None, theirs: float | None) -> float | None:
    """The share by which ours is below theirs.

    >>> saved(3.0, 4.0)
    0.25
    """
    if ours is None or not theirs:
        return None
    return 1 - ours / theirs


class SystemOverlay(Protocol):
    """Brokers and the ways between them."""

    def adapt(self, placed: HostedUsers, expected: Floats | None) -> Adapted:
        """Brokers want what they want now; ``expected`` publications by topic ask the manager."""

    def notify(
        self, placed: HostedUsers, publications: Publications, access: Floats | None
    ) -> Notified: ...

    def control_hops(self) -> Floats:
        """By topic and broker: messages of one change."""


@dataclass(frozen=True)
class Adapted:
    """What adapting has cost: whether anything moved, by the formula, and counted."""

    times: int
    cost: float
    messages: float

    def __add__(self, other: Adapted) -> Adapted:
        return Adapted(*map(add, astuple(self), astuple(other)))


NOT_ADAPTED = Adapted(0, 0.0, 0.0)


class FixedOverlay:
    """Bayeux and GeoPS: whatever brokers want, their ways stay."""

    def __init__(self, routed: RoutedOverlay) -> None:
        self._routed = routed

    def adapt(self, placed: HostedUsers, expected: Floats | None) -> Adapted:
        return NOT_ADAPTED

    def notify(
        self, placed: HostedUsers, publications: Publications, access: Floats | None
    ) -> Notified:
        hosting = placed.hosting
        return self._routed.notify(hosting.wanted, hosting.users, publications, access)

    def control_hops(self) -> Floats:
        return self._routed.hops_to_roots


class RingOverlay(FixedOverlay):
    """Chord; the manager may give brokers other positions."""

    def __init__(
        self, topics: int, keys: Sequence[int], rtt: Floats | None, *, thorough: bool = False
    ) -> None:
        self._ring, self._rtt, self._thorough = Ring.equidistant(len(keys)), rtt, thorough
        self._routes = RingRoutes.of(self._ring)
        self._roots = np.array([self._ring.rendezvous(f"t{number}") for number in range(topics)])
        self._mapping = np.argsort(np.argsort(np.array(keys, np.int64)))
        self._lay()

    def _lay(self) -> None:
        super().__init__(RoutedOverlay.on_ring(self._routes, self._roots, self._mapping, self._rtt))

    @property
    def mapping(self) -> BrokerMapping:
        return self._mapping.copy()

    def adapt(self, placed: HostedUsers, expected: Floats | None) -> Adapted:
        if expected is None:
            return NOT_ADAPTED
        wanted = subscriptions_of(placed.hosting.wanted)
        problem = MappingProblem(wanted, expected, self._ring)
        decision = decide(problem, self._mapping, self._routes, thorough=self._thorough)
        if not decision.has_changed:
            return NOT_ADAPTED
        self._mapping = decision.mapping
        self._lay()
        return Adapted(1, decision.reconfiguration_cost, decision.messages)


class ConnectedOverlay:
    """TCO: reconfigured with every change that needs it; costs the links that change."""

    def __init__(self, placed: HostedUsers, upkeep: RepairPolicy, seed: int) -> None:
        self._brokers = ConnectedBrokers(placed.hosting.wanted, upkeep, seed)
        self._shape = placed.hosting.wanted.shape

    def adapt(self, placed: HostedUsers, expected: Floats | None) -> Adapted:
        changed = self._brokers.follow(placed.hosting.wanted)
        return Adapted(int(changed > 0), float(changed), float(changed))

    def notify(
        self, placed: HostedUsers, publications: Publications, access: Floats | None
    ) -> Notified:
        return self._brokers.notify(placed.hosting.users, publications)

    def control_hops(self) -> Floats:
        """A broker tells its neighbors what it wants."""
        degrees = np.bincount(self._brokers.links.ravel(), minlength=self._shape[0])
        return np.tile(degrees.astype(np.float64), (self._shape[1], 1))


@dataclass
class Account:
    """A system at work: its overlay, its users, and everything that it has cost so far."""

    name: str
    overlay: SystemOverlay
    placed: HostedUsers
    is_managed: bool = False
    told: int = 0
    """Messages within clusters whenever brokers tell each other."""
    own_setting: dict[str, Any] = field(default_factory=dict)
    """Where it differs from the setting of the run."""
    notified: Notified = NOTHING
    adapted: Adapted = NOT_ADAPTED
    control: float = 0.0
    highest_load: float = 0.0
    """Of a broker over the mean, in any hour."""

    def adapt(self, expected: Floats | None) -> None:
        self.adapted += self.overlay.adapt(self.placed, expected if self.is_managed else None)

    def settle(self, changes: np.ndarray, *, times_told: int) -> None:
        self.control += float((changes * self.overlay.control_hops().T).sum())
        self.control += self.told * times_told
        loads = self.placed.loads
        self.highest_load = max(self.highest_load, float(loads.max()) * len(loads))

    def notify(self, publications: Publications, access: Floats | None = None) -> None:
        self.notified += self.overlay.notify(self.placed, publications, access)

    def row(self, hours: float, **setting: Any) -> SystemRun:
        placed, notified = self.placed, self.notified
        loads = placed.loads * len(placed.loads)
        return SystemRun(
            system=self.name,
            subscription_changes=placed.subscription_changes / hours,
            management_messages=self.control / hours,
            handovers=placed.handovers / hours,
            most_loaded_over_mean=float(loads.max()),
            highest_load_over_mean=self.highest_load,
            load_deviation=float(loads.std()),
            delay=notified.mean_delay,
            tree_delay=notified.mean_tree_delay,
            messages_per_publication=notified.messages_each,
            relays_per_publication=notified.relayed / max(1, notified.publications),
            reconfigurations=self.adapted.times,
            reconfiguration_cost=self.adapted.cost / hours,
            reconfiguration_messages=self.adapted.messages / hours,
            **{**setting, **self.own_setting},
        )


def broker_keys(count: int, seed: int) -> list[int]:
    """Where consistent hashing puts brokers."""
    return [key_of(f"{seed}/b{number}") for number in range(count)]
