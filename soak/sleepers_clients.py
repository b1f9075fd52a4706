"""The clients of `run_sleepers`, in a process of their own, who number by themselves.

    python -m soak.sleepers_clients    # a plan on standard input, then orders, a line each

It says ``routed`` when every subscriber has got a probe of every publisher that it should hear,
publishes from the order ``begin`` to the order ``end``, says ``settled`` when everything has come
or nothing more is waited for, and ends when its input does.
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

import msgspec
import uvloop

import pubweave
from soak.sleepers_plan import (
    MIDDLE,
    VALUES,
    ClientsPlan,
    ClientsResult,
    ClientTold,
    Gap,
    Published,
    PublisherPlan,
    SubscriberPlan,
)
from soak.sleepers_verdict import judge

CONNECT_S = 20.0
PROBE_EVERY_S = 0.5
PROBE_LIMIT_S = 60.0
QUIET_S = 3.0
PROBE = 0
"""The number of every probe: what counts is numbered from 1 on."""


class NumberingPublisher:
    """Publishes at a steady rate and keeps the list of what it has published."""

    def __init__(self, plan: PublisherPlan, every_s: float, payload_bytes: int, seed: int) -> None:
        self.plan = plan
        self.published: list[Published] = []
        self.uncertain: Published | None = None
        self.longest_wait_s = 0.0
        self.client: pubweave.Client
        self._every_s = every_s
        self._payload_bytes = payload_bytes
        self._rng = Random(f"{plan.name} {seed}")

    async def start(self, client: pubweave.Client) -> None:
        self.client = client
        for topic in self.plan.topics:
            await client.advertise(f"class = '{topic}'")

    async def probe(self) -> None:
        for topic in self.plan.topics:
            await self._publish(topic, MIDDLE, PROBE)

    async def publish_until(self, over: asyncio.Event) -> None:
        """Whoever has to wait goes on at the same rate afterwards, and makes up for nothing."""
        due = time.monotonic() + self._rng.random() * self._every_s
        while True:
            await asyncio.sleep(due - time.monotonic())
            if over.is_set():
                return
            self.uncertain = self._rng.choice(self.plan.topics), self._rng.randrange(VALUES)
            began = time.monotonic()
            await self._publish(*self.uncertain, len(self.published) + 1)
            self.published.append(self.uncertain)
            self.uncertain = None
            waited_s = time.monotonic() - began
            self.longest_wait_s = max(self.longest_wait_s, waited_s)
            due = max(due + self._every_s, time.monotonic())

    async def _publish(self, topic: str, value: int, number: int) -> None:
        text = f"{self.plan.name} {topic} {number} ".encode()
        payload = text.ljust(self._payload_bytes, b".")
        await self.client.publish(topic, {"value": value}, payload)


class RecordingSubscriber:
    """Writes down what comes, by subscription and publisher."""

    def __init__(self, plan: SubscriberPlan) -> None:
        self.plan = plan
        self.received: list[dict[str, list[int]]] = [{} for _ in plan.wanted]
        self.probed: list[set[tuple[str, str]]] = [set() for _ in plan.wanted]
        self.count = 0
        self.last_at = 0.0
        self.client: pubweave.Client

    async def start(self, client: pubweave.Client) -> list[asyncio.Task[None]]:
        self.client = client
        subscriptions = [await client.subscribe(wanted.filter) for wanted in self.plan.wanted]
        return [asyncio.create_task(self._take(n, s)) for n, s in enumerate(subscriptions)]

    async def _take(self, place: int, subscription: pubweave.Subscription) -> None:
        received, probed = self.received[place], self.probed[place]
        async for notification in subscription:
            publisher, topic, number, _ = notification.payload.decode().split(" ", 3)
            if int(number) == PROBE:
                probed.add((publisher, topic))
                continue
            received.setdefault(publisher, []).append(int(number))
            self.count += 1
            self.last_at = time.monotonic()

    def unheard(self, publishers: list[NumberingPublisher]) -> int:
        """Of how many publishers' topics no probe has come yet."""
        return sum(
            (publisher.plan.name, topic) not in probed
            for wanted, probed in zip(self.plan.wanted, self.probed, strict=True)
            for publisher in publishers
            for topic in publisher.plan.topics
            if wanted.matches((topic, MIDDLE))
        )


class Clients:
    """All of them."""

    def __init__(self, plan: ClientsPlan, stack: contextlib.AsyncExitStack) -> None:
        self._plan = plan
        self._stack = stack
        every_s = len(plan.publishers) / plan.rate
        self._publishers = [
            NumberingPublisher(each, every_s, plan.payload_bytes, plan.seed)
            for each in plan.publishers
        ]
        self._subscribers = [RecordingSubscriber(each) for each in plan.subscribers]
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        for subscriber in self._subscribers:
            client = await self._connect(subscriber.plan)
            self._tasks += await subscriber.start(client)
        for publisher in self._publishers:
            await publisher.start(await self._connect(publisher.plan))

    async def _connect(self, plan: PublisherPlan | SubscriberPlan) -> pubweave.Client:
        opening = pubweave.connect(plan.addresses, client_id=plan.name, timeout_s=CONNECT_S)
        client = await opening.__aenter__()
        self._stack.push_async_callback(client.close)  # which waits for nothing
        return client

    async def wait_for_routes(self) -> int:
        """Send probes until all have come; how many have not within the limit."""
        deadline = time.monotonic() + PROBE_LIMIT_S
        while True:
            for publisher in self._publishers:
                await publisher.probe()
            await asyncio.sleep(PROBE_EVERY_S)
            unheard = sum(each.unheard(self._publishers) for each in self._subscribers)
            if not unheard or time.monotonic() > deadline:
                return unheard

    async def publish_until(self, over: asyncio.Event) -> None:
        """The traffic; whoever is still held up after the patience is left behind."""
        tasks = [asyncio.create_task(each.publish_until(over)) for each in self._publishers]
        await over.wait()
        done, stuck = await asyncio.wait(tasks, timeout=self._plan.patience_s)
        for task in stuck:
            task.cancel()
        await asyncio.gather(*stuck, return_exceptions=True)
        for task in done:
            task.result()

    async def settle(self) -> ClientsResult:
        """Until everything has come and nothing more does, or the patience is at its end."""
        deadline = time.monotonic() + self._plan.patience_s
        expected = judge(self._plan, self._result(), {}).expected
        while time.monotonic() < deadline:
            await asyncio.sleep(0.5)
            result = self._result()
            if result.quiet_s < QUIET_S or sum(s.count for s in self._subscribers) < expected:
                continue
            if not judge(self._plan, result, {}).missing:
                break
        return self._result()

    def _result(self) -> ClientsResult:
        everybody: list[NumberingPublisher | RecordingSubscriber]
        everybody = [*self._publishers, *self._subscribers]
        last_at = max((each.last_at for each in self._subscribers), default=0.0)
        return ClientsResult(
            published={each.plan.name: each.published for each in self._publishers},
            uncertain={
                each.plan.name: each.uncertain
                for each in self._publishers
                if each.uncertain is not None
            },
            received={each.plan.name: each.received for each in self._subscribers},
            told={each.plan.name: what_was_told(each.client) for each in everybody},
            longest_wait_s=max(each.longest_wait_s for each in self._publishers),
            quiet_s=time.monotonic() - last_at,
        )


def what_was_told(client: pubweave.Client) -> ClientTold:
    """What an application can know through the library."""
    return ClientTold(
        client.broker,
        client.is_connected,
        client.refused,
        client.last_refusal,
        client.duplicates_dropped,
        tuple(_gap(each) for each in getattr(client, "missed", None) or ()),
    )


def _gap(told: Any) -> Gap:
    """`at_most` says whether the count is a bound, or is the bound itself."""
    count = int(told.count or 0)
    bound = told.at_most
    at_most = count if bound is None or isinstance(bound, bool) else int(bound)
    # A count that is only a bound is no count.
    return Gap(
        str(told.topic or ""), str(told.publisher or ""), 0 if bound is True else count, at_most
    )


def say(event: str, **more: Any) -> None:
    print(json.dumps({"event": event, **more}), flush=True)


async def run() -> None:
    """From the plan to the end of the input, whenever that comes."""
    orders = asyncio.StreamReader(limit=1 << 24)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(orders), sys.stdin)
    plan = msgspec.json.decode(await orders.readline(), type=ClientsPlan)
    over = asyncio.Event()
    begun = asyncio.Event()

    async def play() -> None:
        async with contextlib.AsyncExitStack() as stack:
            clients = Clients(plan, stack)
            await clients.start()
            say("routed", unheard=await clients.wait_for_routes())
            await begun.wait()
            await clients.publish_until(over)
            result = await clients.settle()
            await asyncio.to_thread(Path(plan.result_file).write_bytes, msgspec.json.encode(result))
            say("settled")
            await loop.create_future()  # brokers are asked how they are while clients are there

    playing = asyncio.create_task(play())
    playing.add_done_callback(lambda _: orders.feed_eof())  # it ends before its time if it fails
    while order := await orders.readline():
        (begun if order.strip() == b"begin" else over).set()
    playing.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await playing


if __name__ == "__main__":
    uvloop.run(run())
