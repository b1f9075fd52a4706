"""Brokers of a rendezvous overlay over sockets that are remapped under traffic: is anything lost?

Each broker is a process with a client that subscribes to the broker's topics; one publisher per
topic publishes at a steady rate. After a while brokers get the positions that DYNATOPS' mapping
gives them, by ``pubweave remap``. What is published is held against what arrives, and the cost of
the trees that brokers say they have, before and after, against what the mapping promised.

    python -m soak.run_rendezvous --brokers 30
    python -m soak.run_rendezvous --brokers 30 --kill   # whoever sees it through dies
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
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import uvloop

from pubweave.deploy.documents import ExecutorDocument, Layout, decode
from pubweave.deploy.store import Read
from pubweave.design.dynatops.mapping.best import best_mapping
from pubweave.design.dynatops.mapping.problem import (
    BrokerMapping,
    MappingCost,
    MappingProblem,
    mapping_cost,
)
from pubweave.design.tco.interests import Subscriptions
from pubweave.generate.topologies.trees import random_tree
from pubweave.model.files.ring_mapping import write_mapping
from pubweave.model.messages.rendezvous import RendezvousStatus, TreeStatus
from pubweave.model.records.status import TOPICS_SUBJECT
from pubweave.runtime.overlay.events import StoreChoice
from pubweave.runtime.overlay.overlay import Overlay
from pubweave.runtime.overlay.run_directory import RunDirectory
from pubweave.runtime.overlay.spec import make_spec
from pubweave.runtime.store.session import opened_store
from soak.topic_traffic import TopicTraffic, verdict

NAME = "ring"
TOPICS_PER_MODE = 5
SETTLE_LIMIT_S = 60.0
KILLED_SETTLE_S = 8.0
LOOK_EVERY_S = 0.5
_status = msgspec.json.Decoder(RendezvousStatus)


@dataclass
class Look:
    """What the overlay is like at one instant."""

    cost: MappingCost
    crossings: int
    """Publications that came from a neighbor so far, over all brokers."""
    published: int


@dataclass
class RemapRun(TopicTraffic):
    """One run."""

    directory: Path = field(kw_only=True)
    killed: str | None = None

    @property
    def problem(self) -> MappingProblem:
        """With one publication on each topic: all have the same rate."""
        wanted = Subscriptions.of(self.topics)
        return MappingProblem.of(wanted, dict.fromkeys(wanted.topic_names, 1.0))

    # --- looking -----------------------------------------------------------------------------

    async def look(self) -> Look:
        """The trees as the brokers say they are, and what they have counted."""
        trees: dict[str, dict[str, TreeStatus]] = {}
        for broker in self.topics:
            answer = await self.overlay.observer.query(broker, TOPICS_SUBJECT)
            if answer is not None:
                for tree in _status.decode(answer).trees:
                    trees.setdefault(tree.topic, {})[broker] = tree
        costs = [_cost_of(places) for places in trees.values()]
        snapshot = await self.overlay.snapshot()
        counted = [status.counters for status in snapshot.up]
        return Look(
            sum(costs, MappingCost(0.0, 0.0, 1.0)),
            sum(c.publications_in - c.publications_accepted for c in counted),
            sum(c.publications_accepted for c in counted),
        )

    async def wait_for(self, mapping: BrokerMapping) -> tuple[Look, float]:
        """Until the trees cost what a mapping promises, or too long; how long that took. If a
        broker was killed, its clients are elsewhere, and no promise was made for that."""
        began = time.monotonic()
        promised = mapping_cost(self.problem, mapping)
        while True:
            look = await self.look()
            seconds = time.monotonic() - began
            limit_s = SETTLE_LIMIT_S if self.killed is None else KILLED_SETTLE_S
            if (look.cost == promised and self.killed is None) or seconds > limit_s:
                return look, seconds
            await asyncio.sleep(LOOK_EVERY_S)

    # --- remapping ---------------------------------------------------------------------------

    async def remap(
        self, mapping: BrokerMapping, *, kill: bool
    ) -> tuple[list[dict[str, Any]], int]:
        """Have it done by the command; what that said, and its exit code."""
        file = self.directory / "mapping.csv"
        write_mapping(file, dict(zip(self.problem.wanted.nodes, mapping.tolist(), strict=True)))
        command = [sys.executable, "-m", "pubweave", "remap", str(file), "--json"]
        process = await asyncio.create_subprocess_exec(
            *command, "--run-dir", str(self.directory / "run"), stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        lines: list[dict[str, Any]] = []
        began = time.monotonic()
        async for line in process.stdout:
            lines.append({**json.loads(line), "at_s": round(time.monotonic() - began, 2)})
            if kill and self.killed is None and lines[-1].get("step") in ("overlay", "tables"):
                await self._kill_leader()
        return lines, await process.wait()

    async def _kill_leader(self) -> None:
        """The broker that sees the remapping through dies, and is started again."""
        target = self.overlay.zookeeper
        assert target is not None
        path = Layout(NAME).remapper
        async with opened_store(target) as store:
            answer = await store.ask(Read(path))
        leader = decode(answer.data, ExecutorDocument, path).name.partition(":")[0]
        pid = self.overlay.pid(leader)
        assert pid is not None
        self.killed = leader
        self.broker_dies(leader)
        os.kill(pid, signal.SIGKILL)


def _cost_of(places: dict[str, TreeStatus]) -> MappingCost:
    """What one topic's tree costs for one publication (Eqs. 3 to 5, with a weight of 1)."""
    relays = delay = 0
    for broker, place in places.items():
        if not place.is_in_tree:
            continue
        relays += not place.is_subscribed and place.above is not None
        hops, here = 0, broker
        while (above := places[here].above if here in places else None) is not None:
            hops, here = hops + 1, above
            if hops > len(places):
                break  # it is being rebuilt
        delay += hops if place.is_subscribed else 0
    return MappingCost(float(relays), float(delay), 1.0)


def draw_topics(brokers: int, topics: int, rng: np.random.Generator) -> dict[str, list[str]]:
    """Multimodal: each broker wants topics of one mode, in no order of position."""
    names = [f"t{number}" for number in range(topics)]
    modes = [names[i : i + TOPICS_PER_MODE] for i in range(0, topics, TOPICS_PER_MODE)]
    return {
        f"b{number}": sorted(str(t) for t in rng.choice(modes[rng.integers(len(modes))], 3, False))
        for number in range(1, brokers + 1)
    }


@contextlib.asynccontextmanager
async def _started(given: argparse.Namespace) -> AsyncIterator[RemapRun]:
    rng = np.random.default_rng(given.seed)
    with tempfile.TemporaryDirectory(prefix="pubweave-rendezvous-") as scratch:
        spec = make_spec(
            random_tree(given.brokers, rng), name=NAME, base_port=0, strategy="rendezvous"
        )
        directory = RunDirectory(Path(scratch) / "run")
        async with Overlay(spec, directory, store=StoreChoice(None)) as overlay:
            drawn = draw_topics(given.brokers, given.topics, rng)
            topics = {broker: drawn[broker] for broker in spec.brokers}
            run = RemapRun(overlay, topics, given.rate, rng, directory=Path(scratch))
            try:
                yield run
            finally:
                await run.close()


async def run(given: argparse.Namespace) -> dict[str, Any]:
    """The figures of one run."""
    async with _started(given) as bench:
        await bench.attach()
        first = bench.problem.in_order()
        before, settled_s = await bench.wait_for(first)
        await asyncio.sleep(given.seconds)
        end_of_first = await bench.look()
        mapping = best_mapping(bench.problem, first).path.last
        event_at = time.time()
        lines, code = await bench.remap(mapping, kill=given.kill)
        after, again_s = await bench.wait_for(mapping)
        await asyncio.sleep(given.seconds)
        end_of_second = await bench.look()
        bench.receipts.is_over = True
        await asyncio.sleep(3.0)
        figures = bench.receipts.figures([event_at])
        promised = [mapping_cost(bench.problem, m) for m in (first, mapping)]
        return {
            "brokers": given.brokers,
            "brokers_moved": int((mapping != first).sum()),
            "killed": bench.killed,
            "exit_code": code,
            "remap_s": lines[-1].get("seconds") if lines else None,
            "last_step": lines[-1].get("step") if lines else None,
            "steps_at_s": {line["step"]: line["at_s"] for line in lines},
            "trees_right_after_start_s": round(settled_s, 1),
            "trees_right_after_remap_s": round(again_s, 1),
            "cost_before_predicted": promised[0].notification_cost,
            "cost_before": before.cost.notification_cost,
            "cost_after_predicted": promised[1].notification_cost,
            "cost_after": after.cost.notification_cost,
            "crossings_per_publication_before": _per_publication(before, end_of_first),
            "crossings_per_publication_after": _per_publication(after, end_of_second),
            **figures,
        }


def _per_publication(start: Look, end: Look) -> float:
    """Publications between brokers for each one published, the way to the rendezvous included."""
    published = max(1, end.published - start.published)
    return round((end.crossings - start.crossings) / published, 2)


def main() -> int:
    """The command line; exit code 1 if anything is missing, doubled or out of order, or if the
    trees do not cost what the mapping promised."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--brokers", type=int, default=30)
    parser.add_argument("--topics", type=int, default=40)
    parser.add_argument("--rate", type=float, default=2.0, help="publications/s per topic")
    parser.add_argument("--seconds", type=float, default=8.0, help="of traffic before and after")
    parser.add_argument("--kill", action="store_true", help="kill whoever sees it through")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    figures = uvloop.run(run(given))
    is_priced = given.kill or figures["cost_after"] == figures["cost_after_predicted"]
    return verdict(figures) or int(not is_priced)


if __name__ == "__main__":
    sys.exit(main())
