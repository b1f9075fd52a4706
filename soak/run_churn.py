"""Brokers over sockets that are killed and join under traffic: is every topic connected again?

Each broker is a process. Every few seconds one is killed (SIGKILL) or one joins, at random. One
client at each broker subscribes to that broker's topics, one publisher per topic publishes at a
steady rate; a client whose broker dies goes on at one of two others. After each event the map of
a living broker is asked for until it shows every topic connected among the living alone; and what
is published is held against what arrives.

    python -m soak.run_churn --brokers 50 --kills 20 --joins 20
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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import uvloop

from pubweave.core.routing.topic_connected.membership_map import pieces_of
from pubweave.design.tco.interests import Subscriptions
from pubweave.design.tco.low_oda import build_overlay
from pubweave.model.records.status import TOPICS_SUBJECT, TopicsStatus
from pubweave.runtime.client.client import Client
from pubweave.runtime.client.connect import connect
from pubweave.runtime.client.observer import OverlayObserver
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.net.reserved_ports import ReservedPorts
from pubweave.runtime.overlay.broker_process import StartBroker
from pubweave.runtime.overlay.fork_server import Listening, Started
from pubweave.runtime.overlay.processes import ProcessRunner, RunnerEvent
from pubweave.runtime.settings.tree import BrokerTable, Settings
from soak.churn_receipts import Receipts

LOOK_EVERY_S = 0.05
START_LIMIT_S = 60.0
STOP_LIMIT_S = 10.0
TOPICS_OF_BROKER = (4, 8)
_status = msgspec.json.Decoder(TopicsStatus)


@dataclass
class Churned:
    """An event and how long it took until every topic was connected again."""

    kind: str
    broker: str
    at: float
    connected_s: float | None = None


class ChurnRun:
    """One run: brokers, clients, events."""

    def __init__(self, brokers: int, kills: int, joins: int, topics: int, seed: int) -> None:
        self._rng = np.random.default_rng(seed)
        self._kinds = ["kill"] * kills + ["join"] * joins
        self._rng.shuffle(self._kinds)
        names = [f"b{number}" for number in range(1, brokers + joins + 1)]
        self._topics = [f"t{number}" for number in range(topics)]
        self._interests = {name: self._some_topics() for name in names}
        self._first = names[:brokers]
        self._spare = names[brokers:]
        self._ports = ReservedPorts({name: Address("127.0.0.1", 0) for name in names})
        self._pids: dict[str, int] = {}
        self._listening: dict[str, asyncio.Event] = {name: asyncio.Event() for name in names}
        self._runner = ProcessRunner(self._on_event)
        self._living: list[str] = []
        self._clients: list[Client] = []
        self._tasks: list[asyncio.Task[None]] = []
        self.receipts = Receipts()
        self.events: list[Churned] = []
        self.acknowledged_s: list[float] = []
        """How long the subscriptions of each client took to be acknowledged."""
        self._directory = tempfile.TemporaryDirectory()
        self._observer = OverlayObserver(self._ports.addresses, ())

    def _some_topics(self) -> tuple[str, ...]:
        count = min(int(self._rng.integers(*TOPICS_OF_BROKER)), len(self._topics))
        return tuple(sorted(self._rng.choice(self._topics, count, False)))

    def _on_event(self, event: RunnerEvent) -> None:
        if isinstance(event, Started):
            self._pids[event.broker] = event.pid
        elif isinstance(event, Listening):
            self._listening[event.broker].set()

    # --- brokers and clients -----------------------------------------------------------------

    async def start(self) -> None:
        """All brokers of a topic-connected overlay by Low-ODA, and their clients."""
        wanted = Subscriptions.of({name: self._interests[name] for name in self._first})
        pairs = [(wanted.nodes[a], wanted.nodes[b]) for a, b in build_overlay(wanted).tolist()]
        await self._runner.open()
        for name in self._first:
            others = {b if a == name else a for a, b in pairs if name in (a, b)}
            await self._start_broker(name, sorted(others))
        async with asyncio.timeout(START_LIMIT_S):
            for name in self._first:
                await self._listening[name].wait()
            print(f"{len(self._first)} brokers listen", file=sys.stderr)
            await asyncio.gather(*(self._add_subscriber(name) for name in self._first))
        print("all clients subscribed", file=sys.stderr)

    async def _start_broker(self, name: str, neighbors: list[str]) -> None:
        table = BrokerTable(
            id=name,
            listen=self._ports.addresses[name],
            neighbors={other: self._ports.addresses[other] for other in neighbors},
            strategy="topic_connected",
        )
        order = StartBroker(Settings(table), str(Path(self._directory.name) / f"{name}.log"))
        self._living.append(name)
        await self._runner.start(order)

    def _addresses(self, home: str) -> str:
        """A broker, and where to go when it is gone: any others may be, too."""
        others = [str(name) for name in self._rng.permutation(self._living) if name != home]
        return ",".join(str(self._ports.addresses[name]) for name in (home, *others[:8]))

    async def _add_subscriber(self, home: str) -> None:
        client = await self._connect(f"s-{home}", home)
        began = time.time()
        await asyncio.gather(*(self._subscribe(client, topic) for topic in self._interests[home]))
        self.acknowledged_s.append(time.time() - began)

    async def _subscribe(self, client: Client, topic: str) -> None:
        subscription = await client.subscribe(f"class = '{topic}'")
        self.receipts.subscribed(client.id, topic, time.time())
        task = self.receipts.receive(client.id, topic, subscription)
        self._tasks.append(asyncio.create_task(task))

    async def _connect(self, client_id: str, home: str) -> Client:
        opening = connect(self._addresses(home), client_id=client_id, timeout_s=20.0)
        client = await opening.__aenter__()
        self._clients.append(client)
        return client

    async def publish(self, rate: float) -> None:
        """One publisher per topic, at a broker that takes part in it."""
        for topic in self._topics:
            homes = [name for name in self._living if topic in self._interests[name]]
            home = str(self._rng.choice(homes or self._living))
            client = await self._connect(f"p-{topic}", home)
            await client.advertise(f"class = '{topic}'")
            self._tasks.append(asyncio.create_task(self._publish_on(client, topic, rate)))

    async def _publish_on(self, client: Client, topic: str, rate: float) -> None:
        await asyncio.sleep(float(self._rng.random()) / rate)
        while not self.receipts.is_over:
            self.receipts.published(await client.publish(topic, {}, b"x" * 64))
            await asyncio.sleep(1.0 / rate)

    # --- events ------------------------------------------------------------------------------

    async def churn(self, every_s: float) -> None:
        """All events, one after the other."""
        for kind in self._kinds:
            began = time.time()
            await (self._kill() if kind == "kill" else self._join())
            event = self.events[-1]
            event.connected_s = await self._last_connected_s(event.at, began + every_s)
            print(f"{event.kind} {event.broker}: {event.connected_s}", file=sys.stderr)

    async def _kill(self) -> None:
        name = str(self._rng.choice(self._living))
        self._living.remove(name)
        homeless = {client.id for client in self._clients if client.broker == name}
        self.receipts.broker_died(homeless, time.time())
        self.events.append(Churned("kill", name, time.time()))
        os.kill(self._pids[name], signal.SIGKILL)

    async def _join(self) -> None:
        name = self._spare.pop(0)
        contacts = [str(c) for c in self._rng.choice(self._living, 2, replace=False)]
        await self._start_broker(name, contacts)
        await self._listening[name].wait()
        # It takes part in topics, and so may break something, as soon as it has a client.
        self.events.append(Churned("join", name, time.time()))
        await self._add_subscriber(name)

    async def _last_connected_s(self, since: float, until: float) -> float | None:
        """When all topics became connected for the last time before ``until``; clients without
        a broker bring new topics elsewhere, so that may be after a while. None: they are not."""
        connected_s: float | None = None
        while time.time() < until:
            asked = str(self._rng.choice(self._living))
            answer = await self._observer.query(asked, TOPICS_SUBJECT)
            if answer is None or not self._is_connected(_status.decode(answer)):
                connected_s = None
            elif connected_s is None:
                connected_s = time.time() - since
            await asyncio.sleep(LOOK_EVERY_S)
        return connected_s

    def _is_connected(self, status: TopicsStatus) -> bool:
        """Whether each topic's living brokers are connected by links that both ends name."""
        records = {r.broker: r for r in status.records if r.broker in self._living}
        if len(records) < len(self._living):
            return False
        members: dict[str, list[str]] = {}
        for record in records.values():
            for topic in record.topics:
                members.setdefault(topic, []).append(record.broker)
        ways = {
            name: [o for o in record.links if o in records and name in records[o].links]
            for name, record in records.items()
        }
        return not any(any(pieces_of(m, ways).values()) for m in members.values())

    async def counted_as_lost(self) -> int:
        """What the living brokers counted, an upper bound."""
        snapshot = await self._observer.snapshot()
        return sum(status.counters.publications_lost_at_most for status in snapshot.up)

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(STOP_LIMIT_S):
                await self._observer.close()
                await asyncio.gather(*(client.close() for client in self._clients))
        await self._runner.close()
        self._ports.close()
        self._directory.cleanup()


async def run(given: argparse.Namespace) -> dict[str, Any]:
    """The figures of one run."""
    churned = ChurnRun(given.brokers, given.kills, given.joins, given.topics, given.seed)
    try:
        await churned.start()
        await asyncio.sleep(given.settle)
        await churned.publish(given.rate)
        await asyncio.sleep(2.0)
        began = time.time()
        await churned.churn(given.every)
        seconds = time.time() - began
        churned.receipts.is_over = True
        await asyncio.sleep(5.0)
        lost = await churned.counted_as_lost()
        figures = churned.receipts.figures([event.at for event in churned.events])
    finally:
        await churned.stop()
    times = {
        kind: sorted(e.connected_s or float("inf") for e in churned.events if e.kind == kind)
        for kind in ("kill", "join")
    }
    return {
        "brokers": given.brokers,
        "kills": len(times["kill"]),
        "joins": len(times["join"]),
        "seconds": round(seconds, 1),
        **{
            f"connected_again_s_{name}_{kind}": round(pick(values), 2)
            for kind, values in times.items()
            if values
            for name, pick in (("median", lambda v: v[len(v) // 2]), ("max", lambda v: v[-1]))
        },
        "events_not_connected_in_time": sum(
            e.connected_s is None or e.connected_s > given.limit for e in churned.events
        ),
        "acknowledged_s_max_of_joined": round(
            max(churned.acknowledged_s[given.brokers :], default=0.0), 2
        ),
        **figures,
        "counted_at_most_by_brokers": lost,
    }


def main() -> int:
    """The command line; exit code 1 if a topic stayed in pieces or a delivery is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--brokers", type=int, default=50)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--joins", type=int, default=20)
    parser.add_argument("--topics", type=int, default=30)
    parser.add_argument("--rate", type=float, default=1.0, help="publications/s per topic")
    parser.add_argument("--every", type=float, default=3.0, help="seconds between events")
    parser.add_argument("--limit", type=float, default=2.0, help="the bar, in seconds")
    parser.add_argument("--settle", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    figures = uvloop.run(run(given))
    if given.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:40} {value}")
    faults = ("events_not_connected_in_time", "missing", "missing_of_homeless_clients")
    return 1 if any(figures[name] for name in faults) else 0


if __name__ == "__main__":
    sys.exit(main())
