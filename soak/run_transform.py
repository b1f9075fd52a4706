"""A plan carried out on real processes under load and under attack: does anything get lost?

    python -m soak.run_transform [--ensemble] [--json]

Thirty broker processes, clients spread over all of them, a real ZooKeeper, and a plan that changes
a fifth of the links. While it is carried out by ``pubweave apply``, that process is killed with
SIGKILL and another goes on with ``pubweave plan resume``; twice every connection that others hold
to a broker of the plan is cut. With ``--ensemble`` there are three ZooKeeper servers, and the
leader of them is killed, too. Every publication is held against every subscription.
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
from collections.abc import AsyncIterator, Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import uvloop

from pubweave.generate.topologies.trees import change_links, hierarchical_tree
from pubweave.generate.workloads.clients import Content
from pubweave.generate.workloads.ipitt import IpittWorkload, ipitt_workload, publications
from pubweave.model.files.plan import PlanRecord, topology_hash, write_plan
from pubweave.model.ids import BrokerId
from pubweave.model.plans import Plan
from pubweave.model.topology import Topology
from pubweave.planning.problem.problem import PlanningProblem
from pubweave.planning.solver import solve_problem
from pubweave.runtime.client.observer import wait_until_settled
from pubweave.runtime.observe.delivery_oracle import expected_deliveries, judge
from pubweave.runtime.observe.workload import PublisherGroup, percentile, wait_for_deliveries
from pubweave.runtime.overlay.events import StoreChoice
from pubweave.runtime.overlay.overlay import Overlay
from pubweave.runtime.overlay.run_directory import RunDirectory
from pubweave.runtime.overlay.spec import make_spec
from pubweave.runtime.settings.tree import BrokerTable, Settings
from pubweave.runtime.store.zookeeper_target import parse_target
from soak.cutting_proxy import CuttingProxy
from soak.run_fifty import SubscriberProcesses
from soak.zookeeper_ensemble import ZooKeeperEnsemble

MAX_DEGREE = 5
CHANGED_SHARE = 0.2
PLANNING_LIMIT_S = 5.0
QUIET_BEFORE_S = 2.0
QUIET_AFTER_S = 2.0
APPLY_LIMIT_S = 90.0


@dataclass
class Attack:
    """What was done to the overlay while it was transformed."""

    executor_killed_at_step: int | None = None
    connections_cut: list[int] = field(default_factory=list)
    server_killed: str | None = None
    lines: list[dict[str, Any]] = field(default_factory=list)


def run(
    brokers: int = 30,
    subscribers: int = 300,
    publishers: int = 20,
    rate: float = 20.0,
    *,
    changed_share: float = CHANGED_SHARE,
    ensemble: bool = False,
    attacked: bool = True,
    seed: int = 1,
) -> dict[str, Any]:
    """Run it and return the figures; ``is_clean`` and ``reached_target`` should be true."""
    with tempfile.TemporaryDirectory(prefix="pubweave-transform-") as scratch:
        bench = _Transformation(
            Path(scratch),
            brokers,
            subscribers,
            publishers,
            rate,
            changed_share,
            ensemble,
            attacked,
            seed,
        )
        return uvloop.run(bench.run())


@dataclass
class _Transformation:
    scratch: Path
    brokers: int
    subscribers: int
    publishers: int
    rate: float
    changed_share: float
    ensemble: bool
    attacked: bool
    seed: int

    async def run(self) -> dict[str, Any]:
        rng = np.random.default_rng(self.seed)
        source = hierarchical_tree(self.brokers, MAX_DEGREE, True, rng)
        target = change_links(source, self.changed_share, rng)
        plan = make_plan(source, target)
        plan_file = self.scratch / "plan.json"
        write_plan(
            PlanRecord(plan, source_hash=topology_hash(source), target_hash=topology_hash(target)),
            plan_file,
        )
        workload = spread_workload(source, rng, self.publishers, self.subscribers, self.rate)
        attacked = most_dialed(source, target, plan)
        async with contextlib.AsyncExitStack() as stack:
            servers = await self._servers(stack)
            overlay, proxy = await self._overlay(stack, source, attacked, servers)
            self._kill_at_step = 1 + self.seed % max(1, plan.step_count - 1)
            figures = await self._transform(overlay, proxy, workload, plan_file, servers)
        return {
            "brokers": self.brokers,
            "subscribers": self.subscribers,
            "publishers": self.publishers,
            "rate_per_s": self.rate,
            "links_changed": len(source.links - target.links),
            "steps": plan.step_count,
            "actions": plan.action_count,
            "zookeeper_servers": 3 if self.ensemble else 1,
            "attacked_broker": attacked,
            **figures,
            "reached_target": overlay.topology.links == target.links,
        }

    async def _servers(self, stack: contextlib.AsyncExitStack) -> ZooKeeperEnsemble | None:
        if not self.ensemble:
            return None
        return await stack.enter_async_context(ZooKeeperEnsemble(self.scratch / "servers"))

    async def _overlay(
        self,
        stack: contextlib.AsyncExitStack,
        source: Topology,
        attacked: BrokerId,
        servers: ZooKeeperEnsemble | None,
    ) -> tuple[Overlay, CuttingProxy]:
        overlay: Overlay | None = None

        def real_address() -> Any:
            assert overlay is not None
            return overlay.spec.addresses[attacked]

        proxy = await stack.enter_async_context(CuttingProxy(real_address))
        settings = Settings(brokers={attacked: BrokerTable(advertise=proxy.address)})
        spec = make_spec(source, settings, name="transform", base_port=0)
        hosts = None if servers is None else ",".join(str(a) for a in servers.addresses)
        choice = StoreChoice(None if hosts is None else parse_target(hosts))
        overlay = Overlay(spec, RunDirectory(self.scratch / "run"), store=choice)
        return await stack.enter_async_context(overlay), proxy

    async def _transform(
        self,
        overlay: Overlay,
        proxy: CuttingProxy,
        workload: IpittWorkload,
        plan_file: Path,
        servers: ZooKeeperEnsemble | None,
    ) -> dict[str, Any]:
        addresses = overlay.spec.addresses
        contents = contents_of(workload, self.seed)
        attack = Attack()
        with SubscriberProcesses(workload.subscribers, addresses) as receivers:
            await receivers.wait_until_ready()
            async with PublisherGroup(
                workload.publishers, contents, addresses, payload=b"x" * 100
            ) as group:
                await wait_until_settled(overlay.observer)
                began = time.monotonic()
                publishing = asyncio.create_task(group.publish_until(self._is_over))
                await asyncio.sleep(QUIET_BEFORE_S)
                apply_began = time.monotonic()
                await self._attack(overlay, proxy, plan_file, servers, attack)
                apply_s = time.monotonic() - apply_began
                await asyncio.sleep(QUIET_AFTER_S)
                self._over = True
                await publishing
                seconds = time.monotonic() - began
                wanted = {s.client: s.filter for s in workload.subscribers}
                expected = expected_deliveries(group.published, wanted)
                total = sum(len(due) for due in expected.values())
                await wait_for_deliveries(receivers.count, total)
                settled = await wait_until_settled(overlay.observer)
                receipts = receivers.finish()
        received = {client: keys for r in receipts for client, keys in r.received.items()}
        verdict = judge(group.published, wanted, received)
        latencies = sorted(ms for r in receipts for ms in r.latencies_ms)
        last = attack.lines[-1] if attack.lines else {}
        return {
            "seconds": round(seconds, 1),
            "verdict": asdict(verdict),
            "is_clean": verdict.is_clean,
            "duplicates_dropped_by_clients": sum(r.duplicates_dropped for r in receipts),
            "deliveries_per_s": round(verdict.delivered / seconds, 1),
            "latency_ms_median": percentile(latencies, 0.5),
            "latency_ms_p99": percentile(latencies, 0.99),
            "latency_ms_max": latencies[-1] if latencies else None,
            "plan_state": last.get("state"),
            "plan_reason": last.get("reason"),
            "apply_s": round(apply_s, 2),
            "messages_held": last.get("held_messages"),
            "longest_hold_s": last.get("held_s_max"),
            "executor_killed_at_step": attack.executor_killed_at_step,
            "connections_cut": attack.connections_cut,
            "server_killed": attack.server_killed,
            "broker_deaths": overlay.deaths,
            "notifications_lost": sum(s.counters.notifications_lost for s in settled.up),
            "links_up": settled.links_up,
            "memory_pss_mb_per_broker": round(_pss_mb(overlay) / self.brokers, 1),
        }

    _over: bool = False
    _kill_at_step: int = 1

    def _is_over(self) -> bool:
        return self._over

    async def _attack(
        self,
        overlay: Overlay,
        proxy: CuttingProxy,
        plan_file: Path,
        servers: ZooKeeperEnsemble | None,
        attack: Attack,
    ) -> None:
        """Apply the plan, kill who does it, cut connections, kill a server, and see it through."""
        run_directory = ["--run-dir", str(self.scratch / "run"), "--json"]
        async with _executor("apply", str(plan_file), *run_directory) as (process, lines):
            async for line in lines:
                attack.lines.append(line)
                if not self.attacked or attack.executor_killed_at_step is not None:
                    continue  # what it said before it was killed may come after
                if _is_running(line) and line["steps_done"] + 1 >= self._kill_at_step:
                    attack.executor_killed_at_step = line["steps_done"] + 1
                    process.send_signal(signal.SIGKILL)
                    attack.connections_cut.append(proxy.cut())
        if not self.attacked:
            return
        if attack.lines[-1].get("state") != "done":  # else it was quicker than the signal
            await self._resume(run_directory, proxy, servers, attack)
        if len(attack.connections_cut) < 2:
            attack.connections_cut.append(proxy.cut())

    async def _resume(
        self,
        run_directory: list[str],
        proxy: CuttingProxy,
        servers: ZooKeeperEnsemble | None,
        attack: Attack,
    ) -> None:
        if servers is not None:
            attack.server_killed = await kill_leader(servers)
        async with _executor("plan", "resume", *run_directory) as (_, lines):
            async for line in lines:
                attack.lines.append(line)
                if len(attack.connections_cut) < 2 and line.get("role") == "executing":
                    attack.connections_cut.append(proxy.cut())


def contents_of(workload: IpittWorkload, seed: int) -> dict[str, Iterator[Content]]:
    """What each publisher publishes, without end."""
    return {
        publisher.client: publications(np.random.default_rng([seed, number]))
        for number, publisher in enumerate(workload.publishers)
    }


def make_plan(source: Topology, target: Topology) -> Plan:
    """The plan of a few seconds' search."""
    limit = time.monotonic() + PLANNING_LIMIT_S
    result = solve_problem(
        PlanningProblem(source, target),
        stop=lambda: time.monotonic() > limit,
        clock=time.monotonic,
    )
    if result.plan is None:
        raise RuntimeError("no plan was found in time")
    return result.plan


def most_dialed(source: Topology, target: Topology, plan: Plan) -> BrokerId:
    """The broker of the plan with the most connections that can be cut on the way to it.

    Of a link the broker with the smaller id dials, so only links to smaller ids come in here."""
    parts = Counter(broker for action in plan.actions() for broker in action.brokers)

    def score(broker: BrokerId) -> tuple[int, int]:
        dialed = [
            sum(neighbor < broker for neighbor in topology.neighbors[broker])
            for topology in (source, target)
        ]
        return min(dialed), parts[broker]

    return max(sorted(parts), key=score)


def spread_workload(
    topology: Topology,
    rng: np.random.Generator,
    publishers: int,
    subscribers: int,
    rate: float,
) -> IpittWorkload:
    """The clients of IPITT, at random brokers: so publications cross every link both ways."""
    brokers = sorted(topology.brokers)
    made = ipitt_workload(topology, rng, publishers, subscribers)
    places = rng.integers(len(brokers), size=publishers + subscribers).tolist()
    return IpittWorkload(
        tuple(
            replace(client, broker=brokers[place], rate_per_s=rate)
            for client, place in zip(made.publishers, places[:publishers], strict=True)
        ),
        tuple(
            replace(client, broker=brokers[place])
            for client, place in zip(made.subscribers, places[publishers:], strict=True)
        ),
    )


async def kill_leader(servers: ZooKeeperEnsemble) -> str:
    """Kill the server that leads the others, the worst to lose; its address."""
    for server in servers.servers:
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(b"srvr")
        told = await reader.read(4096)
        writer.close()
        if b"Mode: leader" in told:
            server.kill()
            return str(server.address)
    raise RuntimeError("no server leads")


@contextlib.asynccontextmanager
async def _executor(
    *arguments: str,
) -> AsyncIterator[tuple[asyncio.subprocess.Process, AsyncIterator[dict[str, Any]]]]:
    """A ``pubweave`` process and the JSON lines it prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "pubweave",
        *arguments,
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )
    assert process.stdout is not None

    async def lines(stream: asyncio.StreamReader) -> AsyncIterator[dict[str, Any]]:
        while (line := await stream.readline()).endswith(b"\n"):  # whole, if it was killed
            yield json.loads(line)

    try:
        async with asyncio.timeout(APPLY_LIMIT_S):
            yield process, lines(process.stdout)
            await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


def _is_running(line: dict[str, Any]) -> bool:
    return any(action["state"] == "running" for action in line.get("actions", ()))


def _pss_mb(overlay: Overlay) -> float:
    total = 0
    for broker in overlay.spec.brokers:
        with contextlib.suppress(OSError):
            rollup = Path(f"/proc/{overlay.pid(broker)}/smaps_rollup").read_text()
            fields = dict(line.split()[:2] for line in rollup.splitlines()[1:])
            total += int(fields["Pss:"])
    return total / 1024


def main() -> int:
    """The command line; exit code 1 if anything was lost, duplicated or not transformed."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--brokers", type=int, default=30)
    parser.add_argument("--subscribers", type=int, default=300)
    parser.add_argument("--publishers", type=int, default=20)
    parser.add_argument("--rate", type=float, default=20.0)
    parser.add_argument("--ensemble", action="store_true")
    parser.add_argument("--in-peace", action="store_true", help="kill and cut nothing")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    figures = run(
        given.brokers,
        given.subscribers,
        given.publishers,
        given.rate,
        ensemble=given.ensemble,
        attacked=not given.in_peace,
        seed=given.seed,
    )
    if given.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:32} {value}")
    return 0 if figures["is_clean"] and figures["reached_target"] else 1


if __name__ == "__main__":
    sys.exit(main())
