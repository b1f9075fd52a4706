"""A day of drifting traffic at flow level: rates of delivery sets and prices as functions of time.

No single notification is simulated. What counts for a tree is which sets of brokers share how many
notifications per second (CI Eq. 1), so a world is a list of such sets whose rates change: by the
hour of the day at the topic's home, by topics that become hot and cool down, and by brokers that
slow down for a while. `measured` is what a profile of a stretch of time would show of it: counted
publications and prices with an error. The truth is for those who keep the accounts.

Everything is drawn when the world is made; the same seed gives the same day.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pubweave.control.evidence import Evidence
from pubweave.control.settings import DAY_S
from pubweave.design.tree.traffic import Floats, Integers, Prices, Traffic
from pubweave.model.ids import BrokerId
from pubweave.model.topology import Topology

SLOT_S = 300.0
"""Rates and prices are constant for this long."""


@dataclass(frozen=True)
class DaySetting:
    """What kind of day it is."""

    brokers: int = 30
    regions: int = 4
    topics: int = 60
    sets_per_topic: int = 4
    """A topic's content splits its receivers into so many sets."""
    rate_per_s: float = 30.0
    """Publications per second over the day, all topics together, while none is hot."""
    entries_per_broker: float = 1000.0
    """Subscriptions and advertisements of a broker's clients."""
    rhythm: float = 0.9
    """How far a topic's rate falls at night, of its mean."""
    spread_ms: float = 6.0
    """How far regions are from the middle of them all."""
    hot_topics: int = 4
    """At any time."""
    hot_factor: float = 40.0
    hot_s: float = 3 * 3600.0
    """How long a topic stays hot, on average."""
    slow_brokers_per_day: float = 8.0
    slow_ms: tuple[float, float] = (20.0, 80.0)
    slow_s: tuple[float, float] = (1800.0, 3 * 3600.0)
    price_error: float = 0.05
    """Of what a profile says of a price: the standard deviation of its logarithm."""
    hours: float = 24.0


class DriftingWorld:
    """One day: ``rates(now)``, ``prices(now)``, and what a profile shows of them."""

    def __init__(self, setting: DaySetting, seed: int) -> None:
        self.setting = setting
        self.brokers: tuple[BrokerId, ...] = tuple(f"b{n}" for n in range(1, setting.brokers + 1))
        rng = np.random.default_rng([seed, 1])
        self._region = np.arange(setting.brokers) * setting.regions // setting.brokers
        self._communication = self._draw_latencies(rng)
        self._processing = rng.uniform(0.5, 2.0, setting.brokers)
        self._home = rng.integers(setting.regions, size=setting.topics)
        self._topic_rate = rng.pareto(1.5, setting.topics) + 0.2
        self._topic_rate *= setting.rate_per_s / self._topic_rate.sum()
        self._topic_of, self._starts, self._members = self._draw_sets(rng)
        self._slots = math.ceil((setting.hours * 3600.0 + DAY_S) / SLOT_S)
        self._heat = self._draw_heat(rng)
        self._slowness = self._draw_slowness(rng)
        self.entries = {
            broker: float(count)
            for broker, count in zip(
                self.brokers,
                rng.uniform(0.3, 1.7, setting.brokers) * setting.entries_per_broker,
                strict=True,
            )
        }

    # --- the truth ---------------------------------------------------------------------------

    def rates(self, now: float) -> Floats:
        """Notifications per second of each set."""
        setting, slot = self.setting, self._slot(now)
        hour = (slot + 0.5) * SLOT_S / DAY_S + self._home / setting.regions
        rhythm = 1.0 + setting.rhythm * np.sin(2 * np.pi * hour)
        by_topic = self._topic_rate * rhythm * self._heat[slot]
        rates: Floats = by_topic[self._topic_of] / setting.sets_per_topic
        return rates

    def prices(self, now: float) -> Prices:
        processing = self._processing + self._slowness[self._slot(now)]
        return Prices(self.brokers, processing, self._communication)

    def truth(self, topology: Topology, now: float) -> Evidence:
        """What somebody who knows everything would see of one slot at this instant."""
        traffic = self._traffic(self.rates(now) * SLOT_S)
        return self._evidence("truth", now, now + SLOT_S, topology, traffic, self.prices(now))

    # --- what a profile shows ----------------------------------------------------------------

    def measured(
        self, topology: Topology, since: float, now: float, rng: np.random.Generator
    ) -> Evidence:
        """A profile of the time between two instants."""
        expected = np.zeros(len(self._topic_of))
        at = since
        while at < now:
            until = min(now, (self._slot(at) + 1) * SLOT_S)
            expected += self.rates(at) * (until - at)
            at = until
        traffic = self._traffic(rng.poisson(expected).astype(np.float64))
        true = self.prices(max(since, now - SLOT_S))
        error = self.setting.price_error
        count = len(self.brokers)
        noise = np.triu(rng.normal(0.0, error, (count, count)), 1)
        communication = true.communication * np.exp(noise + noise.T)
        processing = true.processing * np.exp(rng.normal(0.0, error, count))
        prices = Prices(self.brokers, processing, communication)
        return self._evidence(f"{since:.0f}-{now:.0f}", since, now, topology, traffic, prices)

    def _evidence(
        self,
        profile_id: str,
        started_at: float,
        ended_at: float,
        topology: Topology,
        traffic: Traffic,
        prices: Prices,
    ) -> Evidence:
        return Evidence(
            profile_id=profile_id,
            window_started_at=started_at,
            window_ended_at=ended_at,
            topology=topology,
            traffic=traffic,
            prices=prices,
            entries=self.entries,
        )

    def _traffic(self, weights: Floats) -> Traffic:
        sizes = np.diff(self._starts)
        owner = np.repeat(np.arange(len(sizes)), sizes)
        deliveries = float((weights * (sizes - 1)).sum())
        return Traffic.from_pairs(self.brokers, owner, self._members, weights, deliveries)

    def _slot(self, now: float) -> int:
        return min(int(now // SLOT_S), self._slots - 1)

    # --- drawing -----------------------------------------------------------------------------

    def _draw_latencies(self, rng: np.random.Generator) -> Floats:
        """Regions around the earth, brokers around their region's centre; ms one way."""
        angle = 2 * np.pi * self._region / self.setting.regions
        place = self.setting.spread_ms * np.stack((np.cos(angle), np.sin(angle)), axis=1)
        place += rng.normal(0.0, 4.0, place.shape)
        apart = np.sqrt(((place[:, None, :] - place[None, :, :]) ** 2).sum(axis=2))
        latency: Floats = 5.0 + apart * np.exp(_symmetric(rng.normal(0.0, 0.15, apart.shape)))
        np.fill_diagonal(latency, np.inf)
        return latency

    def _draw_sets(self, rng: np.random.Generator) -> tuple[Integers, Integers, Integers]:
        """Each topic has publishers at home and receivers in one or two regions; its content
        splits those into sets."""
        setting = self.setting
        topic_of: list[int] = []
        sets: list[list[int]] = []
        for topic in range(setting.topics):
            home = np.flatnonzero(self._region == self._home[topic])
            chosen = rng.permutation(setting.regions)[: int(rng.integers(1, 3))]
            audience = np.flatnonzero(np.isin(self._region, chosen))
            audience = rng.permutation(audience)[: int(rng.integers(3, 9))]
            for _ in range(setting.sets_per_topic):
                publisher = int(rng.choice(home))
                size = int(rng.integers(2, len(audience) + 1))
                receivers = rng.permutation(audience)[:size].tolist()
                topic_of.append(topic)
                sets.append(sorted({publisher, *receivers}))
        starts = np.concatenate(([0], np.cumsum([len(each) for each in sets]))).astype(np.int64)
        members = np.concatenate([np.array(each, dtype=np.int64) for each in sets])
        return np.array(topic_of, dtype=np.int64), starts, members

    def _draw_heat(self, rng: np.random.Generator) -> Floats:
        """How many times its usual rate each topic has in each slot."""
        setting = self.setting
        heat = np.ones((self._slots, setting.topics))
        for _ in range(setting.hot_topics):
            slot = 0
            while slot < self._slots:
                length = max(1, round(rng.exponential(setting.hot_s) / SLOT_S))
                topic = int(rng.integers(setting.topics))
                heat[slot : slot + length, topic] = setting.hot_factor
                slot += length
        return heat

    def _draw_slowness(self, rng: np.random.Generator) -> Floats:
        """Milliseconds that each broker takes longer in each slot."""
        setting = self.setting
        slowness = np.zeros((self._slots, setting.brokers))
        days = self._slots * SLOT_S / DAY_S
        for _ in range(int(rng.poisson(setting.slow_brokers_per_day * days))):
            broker = int(rng.integers(setting.brokers))
            begins = int(rng.integers(self._slots))
            length = max(1, round(rng.uniform(*setting.slow_s) / SLOT_S))
            slowness[begins : begins + length, broker] += rng.uniform(*setting.slow_ms)
        return slowness


def _symmetric(values: Floats) -> Floats:
    upper: Floats = np.triu(values, 1)
    return upper + upper.T
