"""Native clients of a trial, in a process of their own: they number by themselves and write down.

    python -m soak.jepsen.native_clients CONFIG.json OUT.history

They publish from the line ``begin`` to the line ``end`` on standard input, go on listening, and end
with it. They say ``ready`` when all have connected and subscribed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import uvloop

import pubweave
from pubweave.runtime.client.client import ClientError
from soak.jepsen.history import HistoryWriter
from soak.jepsen.settings import VALUES

CONNECT_S = 60.0
LOOK_EVERY_S = 0.1
ACKNOWLEDGE_EVERY_S = 0.1


def filter_text(wanted: dict[str, Any]) -> str:
    """The filter that means what `history.matches` does."""
    parts = []
    if "topic" in wanted:
        parts.append(f"class = '{wanted['topic']}'")
    if "under" in wanted:
        parts.append(f"class prefix '{wanted['under']}'")
    if "low" in wanted:
        parts += [f"value >= {wanted['low']}", f"value <= {wanted['high']}"]
    return " and ".join(parts)


class Publisher:
    """Publishes at a steady rate; makes up for nothing when it had to wait."""

    def __init__(self, plan: dict[str, Any], every_s: float, config: dict[str, Any]) -> None:
        self.plan = plan
        self.name: str = plan["name"]
        self._every_s = every_s
        self._payload_bytes: int = config["payload_bytes"]
        self._rng = Random(f"{self.name} {config['seed']}")
        self._called = 0
        """All up to here have been taken by the library."""
        self._acknowledged = 0
        self.client: pubweave.Client

    async def start(self, client: pubweave.Client) -> None:
        self.client = client
        for topic in self.plan["topics"]:
            await client.advertise(f"class = '{topic}'")

    async def publish_until(self, over: asyncio.Event, history: HistoryWriter) -> None:
        due = time.monotonic() + self._rng.random() * self._every_s
        number = 0
        while True:
            await asyncio.sleep(due - time.monotonic())
            if over.is_set():
                return
            number += 1
            topic, value = self._rng.choice(self.plan["topics"]), self._rng.randrange(VALUES)
            now = time.monotonic()
            history.write("pub", self.name, number, topic, value, 1, at=now)
            text = f"{self.name} {number} {topic} {value} {now:.6f} ".encode()
            payload = text.ljust(self._payload_bytes, b".")
            await self.client.publish(topic, {"value": value}, payload)
            self._called = number
            due = max(due + self._every_s, time.monotonic())

    async def acknowledge(self, history: HistoryWriter) -> None:
        """Write down what the broker has taken in."""
        while True:
            await asyncio.sleep(ACKNOWLEDGE_EVERY_S)
            called = self._called
            if called == self._acknowledged:
                continue
            await self.client.flush()
            history.write("ack", self.name, self._acknowledged + 1, called)
            self._acknowledged = called


class Subscriber:
    """Writes down what comes; some change what they want now and then."""

    def __init__(self, plan: dict[str, Any], config: dict[str, Any]) -> None:
        self.plan = plan
        self.name: str = plan["name"]
        self._rng = Random(f"{self.name} {config['seed']}")
        self._number = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._held: dict[str, tuple[pubweave.Subscription, dict[str, Any]]] = {}
        self._confirmed: set[str] = set()
        self.client: pubweave.Client

    async def start(self, client: pubweave.Client, history: HistoryWriter) -> None:
        self.client = client
        for wanted in self.plan["wanted"]:
            await self._subscribe(wanted, history)

    async def _subscribe(self, wanted: dict[str, Any], history: HistoryWriter) -> None:
        self._number += 1
        sid = f"{self.name}#{self._number}"
        history.write("sub", self.name, sid, wanted, 1)
        subscription = await self.client.subscribe(filter_text(wanted))
        if getattr(subscription, "is_confirmed", True):
            self._confirmed.add(sid)
            history.write("subok", self.name, sid)
        task = asyncio.create_task(self._take(sid, subscription, history))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        self._held[sid] = subscription, wanted

    async def _take(
        self, sid: str, subscription: pubweave.Subscription, history: HistoryWriter
    ) -> None:
        async for notification in subscription:
            publisher, number, topic, value, sent_at, _ = notification.payload.decode().split(
                " ", 5
            )
            history.write(
                "got",
                *(self.name, sid, publisher, int(number), topic, int(value), float(sent_at), 1, 0),
            )

    def write_confirmations(self, history: HistoryWriter) -> None:
        """What was confirmed since, or is not confirmed any more."""
        for sid, (subscription, _) in self._held.items():
            is_confirmed = getattr(subscription, "is_confirmed", True)
            if is_confirmed and sid not in self._confirmed:
                self._confirmed.add(sid)
                history.write("subok", self.name, sid)
            elif not is_confirmed and sid in self._confirmed:
                self._confirmed.remove(sid)
                history.write("unsure", self.name, sid)

    async def change(self, history: HistoryWriter) -> None:
        """Take one subscription back, and make one like it a moment later."""
        every_s = float(self.plan["changes_every_s"])
        while every_s:
            await asyncio.sleep(every_s * (0.5 + self._rng.random()))
            sid = self._rng.choice(sorted(self._held))
            subscription, wanted = self._held.pop(sid)
            history.write("unsub", self.name, sid)
            await self.client.unsubscribe(subscription)
            history.write("unsubok", self.name, sid)
            await asyncio.sleep(self._rng.random() * 3.0)
            await self._subscribe(wanted, history)


async def write_what_is_told(
    clients: dict[str, pubweave.Client], subscribers: list[Subscriber], history: HistoryWriter
) -> None:
    """What the library tells an application: publications that were missed, gaps, refusals, and
    whether subscriptions are confirmed."""
    known: dict[str, list[Any]] = {name: [] for name in clients}
    gaps: dict[str, list[Any]] = {name: [] for name in clients}
    refused = dict.fromkeys(clients, 0)
    while True:
        await asyncio.sleep(LOOK_EVERY_S)
        for subscriber in subscribers:
            subscriber.write_confirmations(history)
        for name, client in clients.items():
            for each in _new(client.missed, known[name]):
                history.write("told", name, each.count, str(each.publisher), each.topic)
            for gap in _new(getattr(client, "gaps", []), gaps[name]):
                # Numbers are of all topics of the publisher, so these are as many at most.
                count = max(1, gap.before - gap.after - 1)
                history.write("told", name, count, str(gap.publisher), gap.topic)
            if client.refused != refused[name]:
                refused[name] = client.refused
                history.write("note", f"{name} was refused: {client.last_refusal}")
        history.flush()


def _new(told: list[Any], known: list[Any]) -> list[Any]:
    """What was appended to a list of the latest since."""
    fresh = [each for each in told if not any(each is old for old in known)]
    known[:] = told
    return fresh


class Clients:
    """All of them, over one loop."""

    def __init__(self, config: dict[str, Any], history: HistoryWriter) -> None:
        self._config = config
        self._history = history
        every_s = len(config["publishers"]) / config["rate"]
        self._publishers = [Publisher(p, every_s, config) for p in config["publishers"]]
        self._subscribers = [Subscriber(s, config) for s in config["subscribers"]]
        self.over = asyncio.Event()

    async def run(self, begun: asyncio.Event) -> None:
        async with contextlib.AsyncExitStack() as stack, asyncio.TaskGroup() as group:
            clients = {}
            everybody: list[Publisher | Subscriber] = [*self._publishers, *self._subscribers]
            for each in everybody:
                self._history.write("client", each.name, "native", each.plan["broker"])
                opening = pubweave.connect(
                    each.plan["addresses"], client_id=each.name, timeout_s=CONNECT_S
                )
                clients[each.name] = await opening.__aenter__()
                stack.push_async_callback(clients[each.name].close)
            for subscriber in self._subscribers:
                await subscriber.start(clients[subscriber.name], self._history)
            for publisher in self._publishers:
                await publisher.start(clients[publisher.name])
            print("ready", flush=True)
            told = write_what_is_told(clients, self._subscribers, self._history)
            group.create_task(told)
            await begun.wait()
            for publisher in self._publishers:
                group.create_task(publisher.publish_until(self.over, self._history))
                group.create_task(publisher.acknowledge(self._history))
            for subscriber in self._subscribers:
                group.create_task(subscriber.change(self._history))


async def run(config_file: Path, out: Path) -> None:
    config = await asyncio.to_thread(lambda: json.loads(config_file.read_text()))
    history = HistoryWriter(out)
    orders = asyncio.StreamReader()
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    clients = Clients(config, history)
    begun = asyncio.Event()
    running = asyncio.create_task(clients.run(begun))
    running.add_done_callback(lambda _: orders.feed_eof())  # it ends before its time if it fails
    while order := await orders.readline():
        (begun if order.strip() == b"begin" else clients.over).set()
    running.cancel()
    try:
        with contextlib.suppress(asyncio.CancelledError):
            await running
    except* ClientError as errors:
        history.write("finding", f"native clients ended: {errors.exceptions[0]}")
        raise
    finally:
        history.flush()


if __name__ == "__main__":
    uvloop.run(run(Path(sys.argv[1]), Path(sys.argv[2])))
