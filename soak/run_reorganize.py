"""Twenty broker processes that organize themselves under skewed traffic: what is gained, what lost?

    python -m soak.run_reorganize [--heuristic ci|mst|mit] [--estimate E] [--seed N] [--json]

Brokers start as a random tree. Each topic has one publisher and a few subscribing brokers, all at
random, and topics differ in rate by Zipf's law: some brokers have much to do with each other and
sit far apart. Nobody plans anything: ``--self-organize`` is on from the start. Every
publication is held against every subscription.

The cost is measured at the brokers, at a price of 1 for each broker that handles a publication
and each link that it crosses (CI Eqs. 1 and 2), per publication, in the first seconds, before
anything has changed, and in the last ones; it is also worked out for both trees and all that was
published, which no moment of measuring can flatter.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import uvloop

from pubweave.core.config.self_organizing import LinkPrice
from pubweave.design.ci.rules import Estimate, Heuristic
from pubweave.generate.topologies.trees import random_tree
from pubweave.generate.workloads.clients import Content, WorkloadPublisher, WorkloadSubscriber
from pubweave.model.filters.filter import Filter, Operator, Predicate
from pubweave.model.ids import BrokerId
from pubweave.model.publications import TOPIC_ATTRIBUTE, Publication
from pubweave.model.topology import Topology
from pubweave.runtime.client.observer import OverlayStatuses, wait_until_settled
from pubweave.runtime.observe.delivery_oracle import expected_deliveries, judge
from pubweave.runtime.observe.workload import PublisherGroup, percentile, wait_for_deliveries
from pubweave.runtime.overlay.events import StoreChoice
from pubweave.runtime.overlay.overlay import Overlay
from pubweave.runtime.overlay.run_directory import RunDirectory
from pubweave.runtime.overlay.spec import make_spec
from pubweave.runtime.settings.tree import SelfOrganizingTable, Settings
from pubweave.sim.parts.organizing import DeliveryCosts
from soak.run_fifty import SubscriberProcesses

BEFORE_S = 2.0
"""How long the cost is measured for at first: hardly a broker asks for a link so early."""
AFTER_S = 10.0
"""How long it is measured for at the end."""
PRICE = 1.0
SKEW = 1.5
"""Zipf's exponent: the rate of the topic of rank r is proportional to 1 / r ** SKEW."""
SNAPSHOT_LIMIT_S = 5.0
SNAPSHOT_TRIES = 5


@dataclass(frozen=True)
class SkewedTraffic:
    """One publisher per topic, each topic wanted at a few brokers."""

    publishers: tuple[WorkloadPublisher, ...]
    subscribers: tuple[WorkloadSubscriber, ...]

    @classmethod
    def draw(
        cls,
        topology: Topology,
        rng: np.random.Generator,
        *,
        topics: int,
        places: int,
        rate_per_s: float,
    ) -> SkewedTraffic:
        """``rate_per_s`` is of all publishers together."""
        brokers = sorted(topology.brokers)
        weights = 1.0 / np.arange(1, topics + 1) ** SKEW
        rates = rate_per_s * weights / weights.sum()
        publishers, subscribers = [], []
        for topic, rate in enumerate(rates.tolist()):
            wanted = Filter((Predicate(TOPIC_ATTRIBUTE, Operator.EQ, f"topic{topic}"),))
            home, *others = rng.choice(len(brokers), size=places + 1, replace=False).tolist()
            publishers.append(WorkloadPublisher(f"p{topic}", brokers[home], (wanted,), rate))
            subscribers += [
                WorkloadSubscriber(f"s{topic}.{place}", brokers[other], wanted)
                for place, other in enumerate(others)
            ]
        return cls(tuple(publishers), tuple(subscribers))

    def contents(self) -> dict[str, Iterator[Content]]:
        def forever(topic: str) -> Iterator[Content]:
            while True:
                yield topic, {}

        return {p.client: forever(f"topic{n}") for n, p in enumerate(self.publishers)}

    def interests(self, published: list[Publication]) -> dict[tuple[BrokerId, ...], int]:
        """How many publications were made for each V(n), the publisher's broker first."""
        places: dict[str, list[BrokerId]] = {}
        for subscriber in self.subscribers:
            places.setdefault(subscriber.filter.predicates[0].value, []).append(subscriber.broker)
        homes = {p.client: p.broker for p in self.publishers}
        counted = Counter((p.publisher, p.topic) for p in published)
        return {
            (homes[publisher], *places[topic]): count
            for (publisher, topic), count in sorted(counted.items())
        }


def run(
    brokers: int = 20,
    topics: int = 20,
    places: int = 4,
    rate: float = 200.0,
    *,
    heuristic: Heuristic = Heuristic.CI,
    seconds: float = 150.0,
    interval_s: float = 3.0,
    estimate: Estimate = Estimate.SIDES,
    adapt_bloom: bool = False,
    damping: bool = False,
    seed: int = 1,
) -> dict[str, Any]:
    """Run it and return the figures; ``is_clean`` should be true."""
    rng = np.random.default_rng(seed)
    topology = random_tree(brokers, rng)
    traffic = SkewedTraffic.draw(topology, rng, topics=topics, places=places, rate_per_s=rate)
    organize = SelfOrganizingTable(
        enabled=True,
        heuristic=heuristic,
        interval_s=interval_s,
        link_price=LinkPrice.HOPS,
        estimate=estimate,
        adapt_bloom=adapt_bloom,
        damping=damping,
    )
    with tempfile.TemporaryDirectory(prefix="pubweave-reorganize-") as scratch:
        figures = uvloop.run(_organize(Path(scratch), topology, traffic, organize, seconds))
    return {
        "brokers": brokers,
        "topics": topics,
        "rate_per_s": rate,
        "heuristic": heuristic.value,
        "estimate": estimate.value,
        "interval_s": interval_s,
        "seed": seed,
        "load_average": os.getloadavg()[0],
        **figures,
    }


async def _organize(
    scratch: Path,
    topology: Topology,
    traffic: SkewedTraffic,
    organize: SelfOrganizingTable,
    seconds: float,
) -> dict[str, Any]:
    settings = Settings(self_organizing=organize)
    spec = make_spec(topology, settings, name="reorganize", base_port=0)
    directory = RunDirectory(scratch / "run")
    async with contextlib.AsyncExitStack() as stack:
        overlay = await stack.enter_async_context(Overlay(spec, directory, store=StoreChoice(None)))
        receivers = stack.enter_context(
            SubscriberProcesses(traffic.subscribers, overlay.spec.addresses)
        )
        await receivers.wait_until_ready()
        group = await stack.enter_async_context(
            PublisherGroup(traffic.publishers, traffic.contents(), overlay.spec.addresses)
        )
        await wait_until_settled(overlay.observer)
        wanted = {s.client: s.filter for s in traffic.subscribers}

        async def publish(lasts_s: float) -> float:
            """Publish, wait until everything has come, and return what it has cost."""
            first = await _whole_snapshot(overlay)
            await group.publish(lasts_s)
            expected = expected_deliveries(group.published, wanted)
            await wait_for_deliveries(receivers.count, sum(len(due) for due in expected.values()))
            return _measured_cost(first, await _whole_snapshot(overlay))

        before = await publish(BEFORE_S)
        source_is_intact = overlay.topology.links == topology.links
        await publish(max(1.0, seconds - BEFORE_S - AFTER_S))
        after = await publish(AFTER_S)
        settled = await wait_until_settled(overlay.observer)
        receipts = receivers.finish()
        received = {client: keys for r in receipts for client, keys in r.received.items()}
        verdict = judge(group.published, wanted, received)
        latencies = sorted(ms for r in receipts for ms in r.latencies_ms)
        return {
            "is_clean": verdict.is_clean,
            "verdict": asdict(verdict),
            "is_tree": overlay.topology.is_tree,
            "links_changed": len(topology.links - overlay.topology.links),
            "source_was_measured": source_is_intact,
            "cost_before": round(before, 3),
            "cost_after": round(after, 3),
            "cost_saved": round(1 - after / before, 3),
            "worked_out_saved": round(
                _worked_out_saving(topology, overlay.topology, traffic, group.published), 3
            ),
            **_organizing(settled, sum(r.counters.bytes_out for r in settled.up)),
            "duplicates_dropped_by_clients": sum(r.duplicates_dropped for r in receipts),
            "notifications_lost": sum(s.counters.notifications_lost for s in settled.up),
            "broker_deaths": overlay.deaths,
            "latency_ms_median": percentile(latencies, 0.5),
            "latency_ms_p99": percentile(latencies, 0.99),
            "latency_ms_max": latencies[-1] if latencies else None,
        }


def _measured_cost(first: OverlayStatuses, last: OverlayStatuses) -> float:
    """Brokers that handle a publication and links that it crosses, per publication accepted."""
    came = _total(last, "publications_in") - _total(first, "publications_in")
    accepted = _total(last, "publications_accepted") - _total(first, "publications_accepted")
    # Whatever did not come from a client came over a link.
    return PRICE * (came + (came - accepted)) / max(1, accepted)


async def _whole_snapshot(overlay: Overlay) -> OverlayStatuses:
    """What all brokers count; on a busy machine one may not answer at once."""
    for _ in range(SNAPSHOT_TRIES):
        snapshot = await overlay.observer.snapshot(SNAPSHOT_LIMIT_S)
        if not snapshot.down:
            return snapshot
    raise RuntimeError(f"no answer from {snapshot.down}")


def _total(snapshot: OverlayStatuses, name: str) -> int:
    return sum(getattr(status.counters, name) for status in snapshot.up)


def _worked_out_saving(
    source: Topology, now: Topology, traffic: SkewedTraffic, published: list[Publication]
) -> float:
    costs = DeliveryCosts(lambda broker: PRICE, lambda link: PRICE)
    interests = traffic.interests(published)
    priced = [
        sum(count * costs.of_one(tree, brokers) for brokers, count in interests.items())
        for tree in (source, now)
    ]
    return 1 - priced[1] / priced[0]


def _organizing(settled: OverlayStatuses, bytes_out: int) -> dict[str, Any]:
    parts = [status.organizing for status in settled.up if status.organizing is not None]
    names = ("proposed", "busy", "declined", "agreed", "done", "failed")
    sums = {name: sum(getattr(part, name) for part in parts) for name in names}
    spent = sum(part.bytes_out for part in parts)
    return {**sums, "organize_bytes": spent, "organize_share_of_bytes": spent / max(1, bytes_out)}


def main() -> int:
    """The command line; exit code 1 if anything was lost or doubled, or too little gained."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--brokers", type=int, default=20)
    parser.add_argument("--topics", type=int, default=20)
    parser.add_argument("--rate", type=float, default=200.0)
    parser.add_argument("--seconds", type=float, default=150.0)
    parser.add_argument("--interval", type=float, default=3.0)
    parser.add_argument("--heuristic", choices=[h.value for h in Heuristic], default="ci")
    parser.add_argument("--estimate", choices=[e.value for e in Estimate], default="sides")
    parser.add_argument("--adapt-bloom", action="store_true")
    parser.add_argument("--damping", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    figures = run(
        given.brokers,
        given.topics,
        rate=given.rate,
        heuristic=Heuristic(given.heuristic),
        seconds=given.seconds,
        interval_s=given.interval,
        estimate=Estimate(given.estimate),
        adapt_bloom=given.adapt_bloom,
        damping=given.damping,
        seed=given.seed,
    )
    if given.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:32} {value}")
    return 0 if figures["is_clean"] and figures["cost_saved"] >= 0.2 else 1


if __name__ == "__main__":
    sys.exit(main())
