"""The world of CI's evaluation (section 5): underlay, brokers, clients that come and go, prices.

Everything that does not depend on the heuristic is drawn here once from a seed, so all heuristics
meet the same notifications at the same prices. Notifications are grouped by interval and set of
brokers (flow level): cost depends on nothing else.

Where the paper is silent: at the first change the brokers are placed anew in the same underlay,
which changes every link's cost; a subscriber that leaves is replaced at a broker that has none of
its type.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from pubweave.design.tree.cost import common_interest, edges_of
from pubweave.design.tree.traffic import Floats, Integers, Prices, Traffic
from pubweave.generate.topologies.underlay import (
    Geometry,
    UnderlayParameters,
    make_underlay,
    place_brokers,
)


@dataclass(frozen=True)
class CiSetting:
    """The paper's parameters; its names in the comments."""

    brokers: int = 100
    types: int = 50
    subscribers: int = 9
    rate_per_tick: float = 0.2
    duration_ticks: float = 2_500.0
    interval_ticks: int = 250
    ticks: int = 75_000
    links_change_at: int = 25_000
    brokers_change_at: int = 50_000
    link_cost_max: float = 10.0
    processing_max: float = 10.0
    domains: int = 100
    routers_per_domain: int = 101
    geometry: Geometry = Geometry.BRITE

    @property
    def intervals(self) -> int:
        return self.ticks // self.interval_ticks


@dataclass(eq=False)
class CiWorld:
    """One underlay with its brokers and the notifications of every interval."""

    setting: CiSetting
    start: Integers
    """The random tree that everybody starts from, as pairs of indices."""
    traffic: list[Traffic]
    phases: list[tuple[int, Prices]]
    """From which interval on which prices hold."""
    _common: dict[int, Floats] = field(default_factory=dict)

    def prices(self, interval: int) -> Prices:
        return next(prices for first, prices in reversed(self.phases) if first <= interval)

    def common(self, interval: int) -> Floats:
        """I_ij of an interval, I_i on the diagonal."""
        if interval not in self._common:
            self._common[interval] = common_interest(self.traffic[interval])
        return self._common[interval]

    def scaled(self, link_cost_max: float, processing_max: float) -> CiWorld:
        """The same world with other maxima of its prices (CI 5.3)."""
        links = link_cost_max / self.setting.link_cost_max
        brokers = processing_max / self.setting.processing_max
        phases = [(first, _scaled(prices, links, brokers)) for first, prices in self.phases]
        return CiWorld(self.setting, self.start, self.traffic, phases, self._common)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return self.phases[0][1].brokers


def _scaled(prices: Prices, links: float, brokers: float) -> Prices:
    # The diagonal is infinite, and infinity times zero is nothing anybody wants.
    known = np.isfinite(prices.communication)
    scaled = np.full_like(prices.communication, np.inf)
    scaled[known] = prices.communication[known] * links
    return Prices(prices.brokers, prices.processing * brokers, scaled)


def make_world(seed: int, setting: CiSetting) -> CiWorld:
    """The same seed, the same world; prices scale with the setting's maxima."""
    rng = np.random.default_rng([seed, 2007])
    parameters = UnderlayParameters(
        domains=setting.domains,
        routers_per_domain=setting.routers_per_domain,
        geometry=setting.geometry,
    )
    underlay = make_underlay(rng, parameters)
    first, second = (place_brokers(underlay, setting.brokers, rng) for _ in range(2))
    start = edges_of(first.random_overlay(rng), first.brokers)
    processing = [rng.uniform(0, 1, setting.brokers) for _ in range(2)]
    load = rng.uniform(0, 1, setting.brokers)
    traffic = list(clients_traffic(setting, first.brokers, load / load.sum(), rng))

    def prices(link_costs: Floats, shares: Floats) -> Prices:
        scaled = shares * setting.processing_max
        return Prices.from_matrix(first.brokers, scaled, link_costs)

    costs = [placed.link_costs(0.0, setting.link_cost_max) for placed in (first, second)]
    phases = [
        (0, prices(costs[0], processing[0])),
        (setting.links_change_at // setting.interval_ticks, prices(costs[1], processing[0])),
        (setting.brokers_change_at // setting.interval_ticks, prices(costs[1], processing[1])),
    ]
    return CiWorld(setting, start, traffic, phases)


def clients_traffic(
    setting: CiSetting, brokers: tuple[str, ...], load: Floats, rng: np.random.Generator
) -> Iterator[Traffic]:
    """The notifications of each interval, as sets of brokers with counts."""
    sets: list[list[list[int]]] = [[] for _ in range(setting.intervals)]
    counts: list[list[int]] = [[] for _ in range(setting.intervals)]
    for _ in range(setting.types):
        for begin, end, members in _periods(setting, load, rng):
            for interval in range(begin // setting.interval_ticks, setting.intervals):
                low = interval * setting.interval_ticks
                if low >= end:
                    break
                length = min(end, low + setting.interval_ticks) - max(begin, low)
                count = int(rng.poisson(setting.rate_per_tick * length))
                if count:
                    sets[interval].append(members)
                    counts[interval].append(count)
    for groups, weights in zip(sets, counts, strict=True):
        owner = [number for number, group in enumerate(groups) for _ in group]
        members = [member for group in groups for member in group]
        deliveries = sum(
            count * (len(group) - 1) for group, count in zip(groups, weights, strict=True)
        )
        yield Traffic.from_pairs(brokers, owner, members, weights, deliveries)


def _periods(
    setting: CiSetting, load: Floats, rng: np.random.Generator
) -> Iterator[tuple[int, int, list[int]]]:
    """For one type: from when to when it has which brokers, the publisher's first."""
    count = setting.subscribers
    publisher = int(rng.choice(len(load), p=load))
    places = rng.choice(len(load), size=count, replace=False, p=load).tolist()
    ends = rng.exponential(setting.duration_ticks, size=count)
    begin = 0
    while begin < setting.ticks:
        leaving = int(np.argmin(ends))
        end = int(min(ends[leaving], setting.ticks))
        if end > begin:
            yield begin, end, [publisher, *places]
        begin = end
        free = load.copy()
        free[places] = 0.0
        places[leaving] = int(rng.choice(len(load), p=free / free.sum()))
        ends[leaving] += rng.exponential(setting.duration_ticks)
