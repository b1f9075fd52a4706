"""Brokers with journals, killed at random under load while plans are carried out: is anything lost?

    python -m soak.run_journal --kills 500 [--seed 1] [--json]
    python -m soak.run_journal --kills 20 --strategy topic_connected   # without plans

Ten broker processes, clients at all of them, a real ZooKeeper, journals on an ordinary file
system. Plans are applied one after the other, there and back again, while every moment some
broker is killed with SIGKILL and started again from its journal. Publications are held against
subscriptions: each has to come once, in the order of its publisher. Clients never ask for
anything again: their sessions go on, so nothing may come twice over the wire either.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import uvloop

from pubweave.core.strategies import find_strategy, strategy_names
from pubweave.generate.topologies.trees import change_links, hierarchical_tree
from pubweave.generate.workloads.ipitt import IpittWorkload
from pubweave.model.files.plan import PlanRecord, topology_hash, write_plan
from pubweave.model.topology import Topology
from pubweave.runtime.client.observer import OverlayStatuses, wait_until_settled
from pubweave.runtime.observe.delivery_oracle import expected_deliveries, judge
from pubweave.runtime.observe.workload import PublisherGroup, percentile, wait_for_deliveries
from pubweave.runtime.overlay import overlay as overlay_module
from pubweave.runtime.overlay.events import StoreChoice
from pubweave.runtime.overlay.overlay import Overlay
from pubweave.runtime.overlay.run_directory import RunDirectory
from pubweave.runtime.overlay.spec import make_spec
from pubweave.runtime.settings.tree import BrokerTable, JournalTable, Settings
from soak.run_fifty import SubscriberProcesses
from soak.run_transform import contents_of, make_plan, spread_workload

MAX_DEGREE = 4
CHANGED_SHARE = 0.4
APPLY_LIMIT_S = 90.0
SETTLE_S = 5.0


@dataclass
class JournalRun:
    """One run; `run` gives its figures."""

    scratch: Path
    brokers: int
    kills: int
    every_s: float
    subscribers: int
    publishers: int
    rate: float
    durability: str
    seed: int
    strategy: str = "tree"
    plans: Counter[str] = field(default_factory=Counter)
    killed: Counter[str] = field(default_factory=Counter)
    is_over: bool = False

    async def run(self) -> dict[str, Any]:
        self.scratch.mkdir(parents=True, exist_ok=True)
        rng = np.random.default_rng(self.seed)
        source = hierarchical_tree(self.brokers, MAX_DEGREE, True, rng)
        target = change_links(source, CHANGED_SHARE, rng)
        files = [self._plan(source, target, "there"), self._plan(target, source, "back")]
        workload = spread_workload(source, rng, self.publishers, self.subscribers, self.rate)
        journal = JournalTable(directory=self.scratch / "journal")
        settings = Settings(BrokerTable(durability=self.durability, journal=journal))
        spec = make_spec(source, settings, name="journal", base_port=0, strategy=self.strategy)
        # Brokers are killed on purpose here: each is started again as after its first death.
        overlay_module.STEADY_S = 0.0
        overlay = Overlay(spec, RunDirectory(self.scratch / "run"), store=StoreChoice(None))
        async with overlay:
            return await self._under_fire(overlay, workload, (source, target), files, rng)

    def _plan(self, source: Topology, target: Topology, name: str) -> Path:
        path = self.scratch / f"{name}.json"
        record = PlanRecord(
            make_plan(source, target),
            source_hash=topology_hash(source),
            target_hash=topology_hash(target),
        )
        write_plan(record, path)
        return path

    async def _under_fire(
        self,
        overlay: Overlay,
        workload: IpittWorkload,
        ends: tuple[Topology, Topology],
        files: list[Path],
        rng: np.random.Generator,
    ) -> dict[str, Any]:
        addresses = overlay.spec.addresses
        contents = contents_of(workload, self.seed)
        group = PublisherGroup(workload.publishers, contents, addresses, payload=b"x" * 100)
        with SubscriberProcesses(workload.subscribers, addresses) as receivers:
            await receivers.wait_until_ready()
            async with group:
                await self._settle(overlay)
                began = time.monotonic()
                publishing = asyncio.create_task(group.publish_until(lambda: self.is_over))
                applying = asyncio.create_task(self._apply(overlay, ends, files))
                await self._kill(overlay, rng)
                self.is_over = True
                await publishing
                seconds = time.monotonic() - began
                await applying
                wanted = {s.client: s.filter for s in workload.subscribers}
                due = expected_deliveries(group.published, wanted)
                total = sum(len(keys) for keys in due.values())
                await wait_for_deliveries(receivers.count, total, patience_s=30.0)
                settled = await self._settle(overlay)
                receipts = receivers.finish()
        received = {client: keys for r in receipts for client, keys in r.received.items()}
        verdict = judge(group.published, wanted, received)
        latencies = sorted(ms for r in receipts for ms in r.latencies_ms)
        journals = [s.journal for s in settled.up if s.journal is not None]
        return {
            "brokers": self.brokers,
            "durability": self.durability,
            "strategy": self.strategy,
            "seconds": round(seconds, 1),
            "kills": sum(self.killed.values()),
            "broker_deaths": overlay.deaths,
            "plans": dict(self.plans),
            "verdict": asdict(verdict),
            "is_clean": verdict.is_clean,
            "duplicates_over_the_wire": sum(r.duplicates_dropped for r in receipts),
            "duplicates_dropped_by_brokers": sum(s.counters.duplicates_dropped for s in settled.up),
            "notifications_lost": sum(s.counters.notifications_lost for s in settled.up),
            "clients_expired": sum(s.counters.clients_expired for s in settled.up),
            "protocol_errors": sum(s.counters.protocol_errors for s in settled.up),
            "latency_ms_median": percentile(latencies, 0.5),
            "latency_ms_p99": percentile(latencies, 0.99),
            "recovery_s_max_of_last": max((j.recovery_s for j in journals), default=None),
            "links_up": settled.links_up,
        }

    async def _settle(self, overlay: Overlay) -> OverlayStatuses:
        """Until all is quiet, and what it is like then; a ring never is."""
        if find_strategy(self.strategy).needs_tree:
            return await wait_until_settled(overlay.observer)
        await asyncio.sleep(SETTLE_S)
        return await overlay.snapshot()

    async def _kill(self, overlay: Overlay, rng: np.random.Generator) -> None:
        """Kill brokers at random moments, also while they come back."""
        names = list(overlay.spec.brokers)
        while sum(self.killed.values()) < self.kills:
            await asyncio.sleep(float(rng.exponential(self.every_s)))
            broker = str(rng.choice(names))
            pid = overlay.pid(broker)
            if pid is None:
                continue
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                self.killed[broker] += 1
            if sum(self.killed.values()) % 50 == 0:
                print(f"{sum(self.killed.values())} kills", file=sys.stderr)

    async def _apply(
        self, overlay: Overlay, ends: tuple[Topology, Topology], files: list[Path]
    ) -> None:
        """Carry plans out, there and back, until it is over; an aborted one leaves the topology
        in between, and is followed by a plan from there. Only trees have plans."""
        if not find_strategy(self.strategy).needs_tree:
            return
        number = 0
        while not self.is_over:
            number += 1
            current = overlay.topology
            target = ends[1] if current.links == ends[0].links else ends[0]
            path = files[0] if current.links == ends[0].links else files[1]
            if current.links not in (ends[0].links, ends[1].links):
                path = await asyncio.to_thread(self._plan, current, target, f"again-{number}")
            code = await self._run("apply", str(path), "--json")
            self.plans["done" if code == 0 else f"exit code {code}"] += 1
            await asyncio.sleep(0.5)

    async def _run(self, *arguments: str) -> int:
        """A ``pubweave`` process to its end; its exit code."""
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "pubweave", *arguments, "--run-dir", str(self.scratch / "run")),
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
        )
        try:
            async with asyncio.timeout(APPLY_LIMIT_S):
                return await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
            return -1


def main() -> int:
    """The command line; exit code 1 if anything was lost or came twice."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--brokers", type=int, default=10)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--every", type=float, default=0.6, help="mean seconds between kills")
    parser.add_argument("--subscribers", type=int, default=60)
    parser.add_argument("--publishers", type=int, default=10)
    parser.add_argument("--rate", type=float, default=10.0)
    parser.add_argument("--durability", choices=("memory", "journal"), default="journal")
    parser.add_argument("--strategy", choices=strategy_names(), default="tree")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="leave everything in this directory")
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="pubweave-journal-", dir=".") as scratch:
        bench = JournalRun(
            given.keep or Path(scratch),
            given.brokers,
            given.kills,
            given.every,
            given.subscribers,
            given.publishers,
            given.rate,
            given.durability,
            given.seed,
            given.strategy,
        )
        figures = uvloop.run(bench.run())
    lines = [json.dumps(figures)] if given.json else [f"{k:32} {v}" for k, v in figures.items()]
    print("\n".join(lines))
    is_clean: bool = figures["is_clean"] and not figures["duplicates_over_the_wire"]
    return int(not is_clean)


if __name__ == "__main__":
    sys.exit(main())
