"""The self-organizing mode in its variants, on the same simulated overlays: which one saves most?

    python -m bench.compare_organizing [--seeds 6] [--first-seed 0] [--only sides,sides-once]

Every variant organizes the same overlays message by message, with no faults: 20 brokers, links of
10 to 50 ms, priced by their latency, topics of skewed rates (`soak.run_reorganize`) whose
subscribers move to other brokers every 40 s. For each variant: what the tree cost on average of
what the tree at the start cost for the same first traffic, with a 95% confidence interval over the
seeds; how that differs from the first variant on the same seeds; what share of requests was
refused as busy; exchanges; bytes spent, and those of 20 s in which nothing is published any more.
"""

from __future__ import annotations

import argparse
import heapq
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from soak.run_reorganize import SkewedTraffic

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.self_organizing import OrganizeConfig
from pubweave.core.config.session import SessionLimits
from pubweave.core.self_organizing.organizer import Organizer
from pubweave.design.ci.rules import Estimate, Heuristic
from pubweave.experiments.ci.figures import mean, percent
from pubweave.generate.topologies.trees import random_tree
from pubweave.model.ids import BrokerId
from pubweave.model.topology import Topology
from pubweave.sim.hosts.organizer import SimOrganizerHost
from pubweave.sim.kernel.nodes import HandlingTime
from pubweave.sim.kernel.world import World
from pubweave.sim.overlays.tree import TreeOverlay
from pubweave.sim.parts.deployments import SimDeployments
from pubweave.sim.parts.organizing import DeliveryCosts

BROKERS, TOPICS, PLACES, RATE_PER_S = 20, 20, 4, 100.0
LATENCY_MS = (10.0, 50.0)
STAY_S = 40.0
"""How long a subscriber stays at a broker on average."""
IDLE_S = 20.0
BROKER_PRICE = 10.0
PAPER = OrganizeConfig(interval_s=3.0, broker_price=BROKER_PRICE, estimate=Estimate.OVERLAP)
SIDES = replace(PAPER, estimate=Estimate.SIDES)
VARIANTS = {
    "sides": SIDES,
    "sides-once": replace(SIDES, exchanges=1, requests=3),
    "sides+adapt_bloom": replace(SIDES, adapt_bloom=True),
    "sides+damping": replace(SIDES, damping=True),
    "overlap": PAPER,
    "overlap-once": replace(PAPER, exchanges=1, requests=3),
    "conjunction": replace(PAPER, estimate=Estimate.CONJUNCTION),
    "mst": replace(PAPER, heuristic=Heuristic.MST),
    "mit": replace(PAPER, heuristic=Heuristic.MIT),
}


@dataclass(frozen=True)
class Outcome:
    """One overlay organized by one variant."""

    cost_left: float
    counts: Counter[str]
    idle_bytes: int


class OrganizedOverlay:
    """Brokers, clients and the store, all simulated."""

    def __init__(self, organize: OrganizeConfig, seed: int) -> None:
        rng = np.random.default_rng(seed)
        tree = random_tree(BROKERS, rng)
        tree = replace(tree, latency_ms={link: _latency(rng) for link in sorted(tree.links)})
        self.traffic = SkewedTraffic.draw(
            tree, rng, topics=TOPICS, places=PLACES, rate_per_s=RATE_PER_S
        )
        self.world = world = World(seed)
        self.overlay = TreeOverlay(
            world,
            tree,
            make_config=lambda name: BrokerConfig(name, organize=organize),
            handling=HandlingTime(0.0001, 0.0001),
            latency_s=lambda link: world.uniform(*LATENCY_MS) / 1000.0,
        )
        self.deployments = SimDeployments(self.overlay, store_s=(0.002, 0.01), session_limit_s=3.0)
        for node in self.overlay.brokers.values():
            SimOrganizerHost(
                self.deployments.store,
                node,
                self.deployments.layout,
                organize,
                self._rtt_s,
                lambda executor: None,
            )
        self._costs = DeliveryCosts(
            lambda broker: BROKER_PRICE, lambda link: 500.0 * self._rtt_s(*link)
        )
        self._rng = rng
        self._moved = 0
        self.places = [[s.broker for s in self._of(topic)] for topic in range(TOPICS)]
        self._names = [[s.client for s in self._of(topic)] for topic in range(TOPICS)]
        for topic in range(TOPICS):
            for subscriber in self._of(topic):
                self._subscribe(subscriber.client, subscriber.broker, topic)
        for publisher in self.traffic.publishers:
            client = self.overlay.join(
                publisher.client, publisher.broker, latency_s=0.001, limits=SessionLimits()
            )
            client.core.advertise(publisher.advertisements[0])
            client.flush()
        world.run_until(1.0)

    def _of(self, topic: int):  # type: ignore[no-untyped-def]
        return self.traffic.subscribers[topic * PLACES : (topic + 1) * PLACES]

    def _subscribe(self, name: str, broker: BrokerId, topic: int) -> None:
        client = self.overlay.join(name, broker, latency_s=0.001, limits=SessionLimits())
        self.overlay.subscribe(client, self._of(topic)[0].filter)
        client.flush()

    def _rtt_s(self, one: BrokerId, other: BrokerId) -> float:
        find_path = self.overlay.brokers[one].find_path
        assert find_path is not None
        return 2 * find_path(one, other)[0].latency_s

    def cost(self, tree: Topology | None = None) -> float:
        """What the traffic of a second costs now."""
        now = tree or self.deployments.watch.topology
        return sum(
            publisher.rate_per_s * self._costs.of_one(now, (publisher.broker, *places))
            for publisher, places in zip(self.traffic.publishers, self.places, strict=True)
        )

    def move_subscribers(self) -> None:
        """Those of one second."""
        for _ in range(int(self._rng.poisson(TOPICS * PLACES / STAY_S))):
            topic, place = (int(self._rng.integers(count)) for count in (TOPICS, PLACES))
            taken = {*self.places[topic], self.traffic.publishers[topic].broker}
            free = sorted(self.overlay.topology.brokers - taken)
            broker = free[int(self._rng.integers(len(free)))]
            self.overlay.leave(self._names[topic][place])
            self._moved += 1
            name = f"moved{self._moved}"
            self._subscribe(name, broker, topic)
            self._names[topic][place], self.places[topic][place] = name, broker

    def publish(self, seconds: float) -> float:
        """Publish for so long; the mean of what each second cost, by the tree at its end."""
        rng, world, paid = self._rng, self.world, []
        rates = [publisher.rate_per_s for publisher in self.traffic.publishers]
        due = [(world.now + rng.exponential(1 / rate), n) for n, rate in enumerate(rates)]
        heapq.heapify(due)
        end, next_second = world.now + seconds, world.now + 1.0
        while due[0][0] < end:
            at, topic = heapq.heappop(due)
            while next_second < at:
                world.run_until(next_second)
                self.move_subscribers()
                paid.append(self.cost())
                next_second += 1.0
            world.run_until(at)
            client = self.overlay.clients[self.traffic.publishers[topic].client]
            client.core.publish(f"topic{topic}", {}, b"", world.now)
            client.flush()
            heapq.heappush(due, (at + rng.exponential(1 / rates[topic]), topic))
        return float(np.mean(paid))

    def counts(self) -> Counter[str]:
        total: Counter[str] = Counter()
        for node in self.overlay.brokers.values():
            part = node.broker.part(Organizer)
            assert part is not None
            status = part.counted()
            for name in ("proposed", "busy", "agreed", "done", "failed", "bytes_out"):
                total[name] += getattr(status, name)
        return total


def _latency(rng: np.random.Generator) -> float:
    return float(rng.uniform(*LATENCY_MS))


def run(organize: OrganizeConfig, seed: int, seconds: float) -> Outcome:
    """One overlay organized by one variant."""
    organized = OrganizedOverlay(organize, seed)
    start = organized.cost()
    left = organized.publish(seconds) / start
    counts, world = organized.counts(), organized.world
    # What is under way comes to its end first.
    world.run_until(world.now + 2 * organize.interval_s)
    before = organized.counts()["bytes_out"]
    world.run_until(world.now + IDLE_S)
    return Outcome(left, counts, organized.counts()["bytes_out"] - before)


def line(name: str, runs: Sequence[Outcome], first: Sequence[Outcome]) -> str:
    """A variant's figures in a line."""
    left = mean([run.cost_left - 1 for run in runs])
    against = mean(
        [mine.cost_left / its.cost_left - 1 for mine, its in zip(runs, first, strict=True)]
    )
    total = sum((run.counts for run in runs), Counter[str]())
    return (
        f"{name:20}{percent(left):>18}{percent(against):>18}"
        f"{total['busy'] / max(1, total['proposed']):8.0%}{total['done'] / len(runs):11.1f}"
        f"{total['failed'] / len(runs):8.1f}{total['bytes_out'] / len(runs) / 1000:8.0f}"
        f"{sum(run.idle_bytes for run in runs) / len(runs) / 1000:9.1f}"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=6)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--only", default=",".join(VARIANTS))
    given = parser.parse_args()
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    print(f"{'variant':20}{'cost':>18}{'against first':>18}{'busy':>8}{'exchanges':>11}"
          f"{'failed':>8}{'kB':>8}{'idle kB':>9}")  # fmt: skip
    first: list[Outcome] = []
    for name in given.only.split(","):
        runs = [run(VARIANTS[name], seed, given.seconds) for seed in seeds]
        first = first or runs
        print(line(name, runs, first), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
