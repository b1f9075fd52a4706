"""Fifty broker processes, a thousand subscribers: does anything get lost, does memory grow?

    python -m soak.run_fifty [--seconds 120] [--json]

The IPITT workload on a hierarchical tree: publishers at the root, subscribers at the leaves. The
subscribers live in processes of their own; every publication is held against every subscription
to know what should have come. Memory is that of the broker processes, sampled from /proc:
proportional (PSS, shared pages counted once) and resident (RSS, counted in each).
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import sys
import tempfile
import time
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import uvloop

from pubweave.generate.topologies.trees import hierarchical_tree
from pubweave.generate.workloads.clients import WorkloadSubscriber
from pubweave.generate.workloads.ipitt import ipitt_workload, publications
from pubweave.model.ids import BrokerId
from pubweave.runtime.client.observer import wait_until_settled
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.observe.delivery_oracle import PublicationKey, expected_deliveries, judge
from pubweave.runtime.observe.workload import (
    PublisherGroup,
    SubscriberGroup,
    percentile,
    wait_for_deliveries,
)
from pubweave.runtime.overlay.overlay import Overlay
from pubweave.runtime.overlay.run_directory import RunDirectory
from pubweave.runtime.overlay.spec import make_spec

SUBSCRIBER_PROCESSES = 2
SAMPLE_EVERY_S = 2.0
MAX_DEGREE = 5
READY_LIMIT_S = 120.0


@dataclass(frozen=True)
class MemorySample:
    """The memory of all broker processes at one instant, and the processor time they have had."""

    at_s: float
    pss_mb: float
    rss_mb: float
    cpu_s: float


@dataclass(frozen=True)
class Receipts:
    """What one process of subscribers got."""

    received: dict[str, list[PublicationKey]]
    latencies_ms: array[float]
    duplicates_dropped: int


def run(
    seconds: float = 120.0,
    brokers: int = 50,
    subscribers: int = 1000,
    publishers: int = 20,
    rate: float = 5.0,
    *,
    seed: int = 1,
    telemetry: bool = True,
) -> dict[str, Any]:
    """Run it and return the figures; ``verdict.lost`` and ``verdict.duplicated`` should be 0."""
    with tempfile.TemporaryDirectory(prefix="pubweave-fifty-") as scratch:
        return uvloop.run(
            _run(Path(scratch), seconds, brokers, subscribers, publishers, rate, seed, telemetry)
        )


async def _run(
    scratch: Path,
    seconds: float,
    broker_count: int,
    subscriber_count: int,
    publisher_count: int,
    rate: float,
    seed: int,
    telemetry: bool,
) -> dict[str, Any]:
    rng = np.random.default_rng(seed)
    topology = hierarchical_tree(broker_count, MAX_DEGREE, True, rng)
    workload = ipitt_workload(topology, rng, publisher_count, subscriber_count)
    publishers = [replace(publisher, rate_per_s=rate) for publisher in workload.publishers]
    directory = RunDirectory(scratch / "run")
    spec = make_spec(
        topology,
        name="fifty",
        base_port=0,
        telemetry_directory=directory.telemetry if telemetry else None,
    )
    overlay = Overlay(spec, directory)
    began = time.monotonic()
    async with overlay:
        start_s = time.monotonic() - began
        addresses = overlay.spec.addresses
        contents = {
            p.client: publications(np.random.default_rng([seed, number]))
            for number, p in enumerate(publishers)
        }
        with SubscriberProcesses(workload.subscribers, addresses) as receivers:
            await receivers.wait_until_ready()
            async with PublisherGroup(publishers, contents, addresses, payload=b"x" * 100) as group:
                settled = await wait_until_settled(overlay.observer)
                samples, deepest_queue = await _publish_and_sample(overlay, group, seconds)
                wanted = {s.client: s.filter for s in workload.subscribers}
                expected = expected_deliveries(group.published, wanted)
                total = sum(len(due) for due in expected.values())
                await wait_for_deliveries(receivers.count, total)
                ended = await overlay.snapshot()
                receipts = receivers.finish()
    received = {client: keys for r in receipts for client, keys in r.received.items()}
    verdict = judge(group.published, wanted, received)
    latencies = sorted(ms for r in receipts for ms in r.latencies_ms)
    messages = sum(s.counters.messages_out for s in ended.up) - sum(
        s.counters.messages_out for s in settled.up
    )
    return {
        "brokers": broker_count,
        "subscribers": subscriber_count,
        "publishers": publisher_count,
        "rate_per_s": rate,
        "seconds": seconds,
        "telemetry": telemetry,
        "start_s": round(start_s, 2),
        "verdict": asdict(verdict),
        "is_clean": verdict.is_clean,
        "duplicates_dropped_by_clients": sum(r.duplicates_dropped for r in receipts),
        "deliveries_per_s": round(verdict.delivered / seconds, 1),
        "messages_per_delivery": round(messages / max(verdict.delivered, 1), 3),
        "latency_ms_median": percentile(latencies, 0.5),
        "latency_ms_p99": percentile(latencies, 0.99),
        "latency_ms_max": latencies[-1] if latencies else None,
        "broker_deaths": overlay.deaths,
        "notifications_lost": sum(s.counters.notifications_lost for s in ended.up),
        "records_dropped": sum(s.counters.records_dropped for s in ended.up),
        "queue_bytes_max": deepest_queue,
        "memory": memory_summary(samples),
    }


async def _publish_and_sample(
    overlay: Overlay, group: PublisherGroup, seconds: float
) -> tuple[list[MemorySample], int]:
    publishing = asyncio.create_task(group.publish(seconds))
    began = time.monotonic()
    samples: list[MemorySample] = []
    deepest_queue = 0
    while not publishing.done():
        pids = [pid for broker in overlay.spec.brokers if (pid := overlay.pid(broker))]
        samples.append(await asyncio.to_thread(sample_memory, pids, time.monotonic() - began))
        deepest_queue = max(deepest_queue, (await overlay.snapshot()).queue_bytes)
        await asyncio.wait({publishing}, timeout=SAMPLE_EVERY_S)
    publishing.result()
    return samples, deepest_queue


class SubscriberProcesses:
    """Subscribers in processes of their own, asked over pipes."""

    def __init__(
        self, subscribers: Sequence[WorkloadSubscriber], addresses: Mapping[BrokerId, Address]
    ) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipes: list[Connection] = []
        self._processes = []
        for place in range(SUBSCRIBER_PROCESSES):
            ours, theirs = context.Pipe()
            share = list(subscribers[place::SUBSCRIBER_PROCESSES])
            process = context.Process(
                target=_receive, args=(theirs, share, dict(addresses)), daemon=True
            )
            self._pipes.append(ours)
            self._processes.append(process)

    def __enter__(self) -> SubscriberProcesses:
        for process in self._processes:
            process.start()
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in self._pipes:
            pipe.close()
        for process in self._processes:
            process.join(5.0)
            if process.is_alive():
                process.kill()

    async def wait_until_ready(self) -> None:
        for pipe in self._pipes:
            if not await asyncio.to_thread(pipe.poll, READY_LIMIT_S):
                raise TimeoutError("the subscribers did not get ready")
            assert pipe.recv() == "ready"

    def count(self) -> int:
        return sum(self.counts())

    def counts(self) -> list[int]:
        """What each process has got so far."""
        for pipe in self._pipes:
            pipe.send("count")
        return [pipe.recv() for pipe in self._pipes]

    def finish(self) -> list[Receipts]:
        for pipe in self._pipes:
            pipe.send("finish")
        return [pipe.recv() for pipe in self._pipes]


def _receive(
    pipe: Connection, subscribers: list[WorkloadSubscriber], addresses: dict[BrokerId, Address]
) -> None:
    uvloop.run(_receive_until_asked(pipe, subscribers, addresses))


async def _receive_until_asked(
    pipe: Connection, subscribers: list[WorkloadSubscriber], addresses: dict[BrokerId, Address]
) -> None:
    async with SubscriberGroup(subscribers, addresses) as group:
        pipe.send("ready")
        while True:
            try:
                asked = await asyncio.to_thread(pipe.recv)
            except EOFError:
                return
            if asked == "count":
                pipe.send(group.received_count)
            else:
                pipe.send(Receipts(group.received, group.latencies_ms, group.duplicates_dropped))


def sample_memory(pids: Sequence[int], at_s: float) -> MemorySample:
    """The memory and processor time of some processes, from /proc; those that ended count 0."""
    pss = rss = ticks = 0
    for pid in pids:
        try:
            rollup = Path(f"/proc/{pid}/smaps_rollup").read_text()
            stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        fields = dict(line.split()[:2] for line in rollup.splitlines()[1:])
        pss += int(fields["Pss:"])
        rss += int(fields["Rss:"])
        ticks += int(stat[11]) + int(stat[12])
    cpu_s = ticks / os.sysconf("SC_CLK_TCK")
    return MemorySample(at_s, pss / 1024, rss / 1024, cpu_s)


def memory_summary(samples: Sequence[MemorySample]) -> dict[str, Any]:
    """The mean of the last quarter of a run against that of the first, and of the second.

    In the first, processes still stop sharing pages with the one they were forked from."""
    quarter = max(1, len(samples) // 4)
    first, second, last = samples[:quarter], samples[quarter : 2 * quarter], samples[-quarter:]
    told: dict[str, Any] = {"samples": len(samples)}
    for name in ("pss_mb", "rss_mb"):
        means = [
            sum(getattr(sample, name) for sample in part) / len(part)
            for part in (first, second or first, last)
        ]
        told[f"{name}_first_quarter"] = round(means[0], 1)
        told[f"{name}_last_quarter"] = round(means[2], 1)
        told[f"{name[:3]}_growth"] = round(means[2] / means[0] - 1, 4)
        told[f"{name[:3]}_growth_after_warm_up"] = round(means[2] / means[1] - 1, 4)
    busy_s = samples[-1].cpu_s - samples[0].cpu_s
    told["broker_cores_busy"] = round(busy_s / max(samples[-1].at_s - samples[0].at_s, 1e-9), 3)
    told["pss_mb_over_time"] = [round(sample.pss_mb, 1) for sample in samples]
    return told


def main() -> int:
    """The command line; exit code 1 if anything was lost, duplicated or out of order."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--brokers", type=int, default=50)
    parser.add_argument("--subscribers", type=int, default=1000)
    parser.add_argument("--publishers", type=int, default=20)
    parser.add_argument("--rate", type=float, default=5.0)
    parser.add_argument("--no-telemetry", action="store_true")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    figures = run(
        given.seconds,
        given.brokers,
        given.subscribers,
        given.publishers,
        given.rate,
        telemetry=not given.no_telemetry,
    )
    if given.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:32} {value}")
    return 0 if figures["is_clean"] else 1


if __name__ == "__main__":
    sys.exit(main())
