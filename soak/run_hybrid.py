"""Clusters around a ring, over sockets: their gateways are killed under traffic. Is anything lost?

Each broker is a process with a client that subscribes to topics all over the network; one publisher
per topic publishes at a steady rate, anywhere. Then, in one cluster after the other, the gateway in
charge is killed (SIGKILL) and stays dead. What is published is held against what arrives, and the
others of the cluster are asked until all of them name another gateway.

    python -m soak.run_hybrid --brokers 20 --clusters 3
"""

from __future__ import annotations

import argparse
import asyncio
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import uvloop

from pubweave.generate.topologies.real_networks import hybrid_network
from pubweave.model.records.status import TOPICS_SUBJECT, TopicsStatus
from pubweave.runtime.overlay.clusters import cluster_of
from pubweave.runtime.overlay.overlay import Overlay
from pubweave.runtime.overlay.run_directory import RunDirectory
from pubweave.runtime.overlay.spec import make_spec
from soak.topic_traffic import TopicTraffic, verdict

TOPICS_PER_BROKER = 4
GATEWAYS = 2
TAKE_OVER_LIMIT_S = 20.0
LOOK_EVERY_S = 0.05
_status = msgspec.json.Decoder(TopicsStatus)


class HybridRun:
    """One run."""

    def __init__(self, overlay: Overlay, traffic: TopicTraffic) -> None:
        self._overlay = overlay
        self._traffic = traffic
        self._clusters: dict[str, list[str]] = {}
        for broker in overlay.spec.brokers:
            cluster = cluster_of(overlay.spec.topology, broker)
            if cluster is not None:
                self._clusters.setdefault(cluster, []).append(broker)
        self.take_overs: list[dict[str, Any]] = []
        self.events: list[float] = []

    async def _gateways(self, cluster: str) -> set[str | None]:
        """Whom the living brokers of a cluster take for their gateway."""
        found = set()
        for broker in self._clusters[cluster]:
            answer = await self._overlay.observer.query(broker, TOPICS_SUBJECT)
            if answer is not None:
                found.add(_status.decode(answer).gateway)
        return found

    async def _agreed(self, cluster: str, other_than: str | None) -> str:
        """The gateway that a cluster has agreed on."""
        async with asyncio.timeout(TAKE_OVER_LIMIT_S):
            while True:
                found = await self._gateways(cluster)
                if len(found) == 1 and found.isdisjoint({None, other_than}):
                    return str(found.pop())
                await asyncio.sleep(LOOK_EVERY_S)

    async def kill_gateways(self, between_s: float) -> None:
        for cluster in self._clusters:
            gateway = await self._agreed(cluster, None)
            pid = self._overlay.pid(gateway)
            assert pid is not None
            self._traffic.broker_dies(gateway)
            self.events.append(time.time())
            os.kill(pid, signal.SIGKILL)
            self._clusters[cluster].remove(gateway)
            following = await self._agreed(cluster, gateway)
            seconds = round(time.time() - self.events[-1], 2)
            told = {"cluster": cluster, "killed": gateway, "then": following, "agreed_s": seconds}
            self.take_overs.append(told)
            print(told, file=sys.stderr)
            await asyncio.sleep(between_s)


async def run(given: argparse.Namespace) -> dict[str, Any]:
    """The figures of one run."""
    rng = np.random.default_rng(given.seed)
    network = hybrid_network(given.brokers, given.clusters, GATEWAYS, rng)
    with tempfile.TemporaryDirectory(prefix="pubweave-hybrid-") as scratch:
        spec = make_spec(network, name="hybrid", base_port=0, strategy="rendezvous")
        names = [f"t{number}" for number in range(given.topics)]
        drawn = {b: rng.choice(names, TOPICS_PER_BROKER, False) for b in spec.brokers}
        topics = {broker: sorted(map(str, some)) for broker, some in drawn.items()}
        async with Overlay(spec, RunDirectory(Path(scratch) / "run"), restart=False) as overlay:
            traffic = TopicTraffic(overlay, topics, given.rate, rng)
            bench = HybridRun(overlay, traffic)
            try:
                await traffic.attach()
                await asyncio.sleep(given.seconds)
                quiet = (await overlay.snapshot()).up
                await bench.kill_gateways(given.seconds)
                traffic.receipts.is_over = True
                await asyncio.sleep(5.0)
                figures = traffic.receipts.figures(bench.events)
            finally:
                await traffic.close()
    return {
        "brokers": given.brokers,
        "clusters": given.clusters,
        "seed": given.seed,
        "lost_at_most_before": sum(s.counters.publications_lost_at_most for s in quiet),
        "take_overs": bench.take_overs,
        **figures,
    }


def main() -> int:
    """The command line; exit code 1 if anything is missing, doubled or out of order."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--brokers", type=int, default=20)
    parser.add_argument("--clusters", type=int, default=3)
    parser.add_argument("--topics", type=int, default=20)
    parser.add_argument("--rate", type=float, default=4.0, help="publications/s per topic")
    parser.add_argument("--seconds", type=float, default=6.0, help="of traffic between the kills")
    parser.add_argument("--seed", type=int, default=1)
    return verdict(uvloop.run(run(parser.parse_args())))


if __name__ == "__main__":
    sys.exit(main())
