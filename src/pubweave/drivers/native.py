"""Native clients by the public API: ``connect``, ``publish``, ``async for``, slow and fast ones."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

from pubweave.core.config.session import SessionLimits
from pubweave.drivers.history import Attempt, NativeHistory, Wish
from pubweave.drivers.machine import VirtualClock
from pubweave.drivers.run import DriverRun
from pubweave.model.filters.filter import Filter
from pubweave.runtime.client.client import Client, ClientError
from pubweave.runtime.client.connect import connect
from pubweave.runtime.client.subscription import Subscription
from pubweave.sim.eventloop.process import SimProcess
from pubweave.sim.kernel.random_content import random_content, random_filter

SIZES = (0, 10, 200, 2_000, 20_000)
SLOW_S = 0.3
MAX_QUEUED = 8


@dataclass
class DrivenClient:
    """One client in a process of its own."""

    name: str
    process: SimProcess
    addresses: str
    is_slow: bool
    limits: SessionLimits
    client: Client | None = None
    leaving: asyncio.Future[None] | None = None
    offered: list[Filter] = field(default_factory=list)
    wishes: list[tuple[Wish, Subscription]] = field(default_factory=list)
    published: int = 0
    told_before: int = 0
    """How much it had been told to have missed when it was judged last."""


class NativeClients:
    """All native clients of a run."""

    def __init__(self, run: DriverRun) -> None:
        self.history = NativeHistory()
        self._run = run
        self._world = run.world
        self._loop = run.loop
        self._busy = 0
        self._clients: list[DrivenClient] = []
        brokers = list(run.overlay.brokers.values())
        for number in range(run.setting.clients):
            home = self._world.choice(brokers)
            window = self._world.choice([1 << 12, 1 << 16, 1 << 20])
            self._clients.append(
                DrivenClient(
                    f"c{number}",
                    self._loop.spawn(f"c{number}", f"10.0.1.{number + 1}"),
                    str(home.address),
                    is_slow=self._world.chance(0.2),
                    limits=SessionLimits(window, window, window // 4),
                )
            )

    @property
    def processes(self) -> Sequence[SimProcess]:
        return [client.process for client in self._clients]

    @property
    def violations(self) -> Sequence[str]:
        return self.history.violations

    @property
    def seen(self) -> int:
        return self.history.deliveries

    def counts(self) -> dict[str, int]:
        history = self.history
        return {
            "publications": len(history.attempts),
            "deliveries": history.deliveries,
            "due": history.due,
            "excused": history.excused,
            "told_missed": history.told_missed,
        }

    # --- phases ----------------------------------------------------------------------------

    def start(self) -> None:
        for client in self._clients:
            self._begin(client, self._live(client))

    def settle(self) -> None:
        for client in self._clients:
            if self._world.chance(0.7):
                self._begin(client, self._advertise(client, random_filter(self._world)))
            if self._world.chance(0.7):
                self._begin(client, self._subscribe(client, random_filter(self._world)))

    def act_until(self, end: float) -> None:
        world = self._world
        for wish in self.history.wishes:
            if wish.settled_at is None and wish.withdrawn_at is None:
                wish.settled_at = world.now
        for _ in range(self._run.setting.actions):
            world.at(world.uniform(world.now, end), self._act)

    def is_quiet(self) -> bool:
        queued = sum(s.queued for client in self._clients for _, s in client.wishes)
        return not self._busy and not queued

    def judge(self, *, memory_was_lost: bool) -> None:
        told = {}
        for driven in self._clients:
            count = 0 if driven.client is None else driven.client.missed_count
            told[driven.name] = count - driven.told_before
            driven.told_before = count
        self.history.judge(self._world.now, told, memory_was_lost=memory_was_lost)

    def leave(self) -> None:
        for client in self._clients:
            if client.leaving is not None and not client.process.is_dead:
                self._loop.call_soon(
                    client.leaving.set_result, None, context=client.process.context
                )

    # --- what clients do -------------------------------------------------------------------

    def _begin(self, client: DrivenClient, work: Coroutine[Any, Any, None]) -> None:
        async def done() -> None:
            try:
                await work
            except ClientError as error:
                self._world.note(client.name, f"client error: {error}")
                if client.leaving is None or not client.leaving.done():
                    self.history.violations.append(
                        f"{self._world.now:.3f} {client.name}: {error!r}"
                    )
            finally:
                self._busy -= 1

        self._busy += 1
        self._loop.begin(client.process, done())

    async def _live(self, client: DrivenClient) -> None:
        connecting = connect(
            client.addresses,
            client_id=client.name,
            limits=client.limits,
            max_queued=MAX_QUEUED,
            clock=VirtualClock(self._world),
        )
        async with connecting as client.client:
            client.leaving = self._loop.create_future()
            self._busy -= 1
            await client.leaving
            self._busy += 1

    def _act(self) -> None:
        world = self._world
        client = world.choice(self._clients)
        if client.client is None:
            return
        match world.integer(0, 19):
            case 0:
                self._begin(client, self._subscribe(client, random_filter(world)))
            case 1 if client.wishes:
                wish = client.wishes.pop(world.integer(0, len(client.wishes) - 1))
                self._begin(client, self._unsubscribe(client, *wish))
            case 2:
                self._begin(client, self._ask(client))
            case _:
                self._publish_some(client)

    def _publish_some(self, client: DrivenClient) -> None:
        if client.offered:
            offered = self._world.choice(client.offered)
            count = self._world.choice([1, 1, 1, 5, 30])
            self._begin(client, self._publish(client, offered, count))

    async def _advertise(self, client: DrivenClient, filter_: Filter) -> None:
        assert client.client is not None
        await client.client.advertise(filter_)
        client.offered.append(filter_)

    async def _subscribe(self, client: DrivenClient, filter_: Filter) -> None:
        assert client.client is not None
        subscription = await client.client.subscribe(filter_)
        wish = Wish(client.name, filter_)
        self.history.wishes.append(wish)
        client.wishes.append((wish, subscription))
        self._world.note(client.name, f"subscribed {subscription.id}")
        self._loop.create_task(self._consume(client, wish, subscription))

    async def _consume(self, client: DrivenClient, wish: Wish, subscription: Subscription) -> None:
        async for notification in subscription:
            self.history.delivered(wish, notification, self._world.now)
            name = notification.payload[:40].decode()
            self._world.note(client.name, f"{subscription.id} gets {name}")
            if client.is_slow and self._world.chance(0.1):
                await asyncio.sleep(self._world.uniform(0.0, SLOW_S))

    async def _unsubscribe(
        self, client: DrivenClient, wish: Wish, subscription: Subscription
    ) -> None:
        assert client.client is not None
        wish.withdrawn_at = self._world.now
        await client.client.unsubscribe(subscription)

    async def _ask(self, client: DrivenClient) -> None:
        assert client.client is not None
        await client.client.query("status")

    async def _publish(self, client: DrivenClient, offered: Filter, count: int) -> None:
        assert client.client is not None
        attempts = []
        for _ in range(count):
            content = random_content(self._world, offered)
            if content is None:
                break
            client.published += 1
            payload = f"{client.name}/{client.published} ".encode()
            payload = payload.ljust(self._world.choice(list(SIZES)), b".")
            attempt = Attempt(client.name, payload, self._world.now)
            self.history.attempts[payload] = attempt
            attempts.append(attempt)
            attempt.publication = await client.client.publish(*content, payload)
        await client.client.flush()
        for attempt in attempts:
            attempt.is_acknowledged = True
