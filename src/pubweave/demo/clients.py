"""The demo's clients: they publish from its begin to its end, whatever happens to the overlay."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from typing import Any

from pubweave.demo.measures import Moment, moment
from pubweave.generate.workloads.stocks import StockWorkload
from pubweave.model.ids import BrokerId, ClientId
from pubweave.runtime.client.observer import wait_until_settled
from pubweave.runtime.observe.delivery_oracle import DeliveryVerdict, expected_deliveries, judge
from pubweave.runtime.observe.workload import PublisherGroup, SubscriberGroup, wait_for_deliveries
from pubweave.runtime.overlay.overlay import Overlay


@dataclass(frozen=True)
class DemoPulse:
    """How overlay and clients fare at one instant."""

    stage: str
    brokers_up: int
    links_up: int
    publications: int
    deliveries: int
    latency_ms_mean: float | None
    """Of the deliveries since the pulse before."""
    queue_bytes: int

    def document(self) -> dict[str, Any]:
        mean_ms = self.latency_ms_mean
        rounded = None if mean_ms is None else round(mean_ms, 3)
        return {"event": "pulse", **asdict(self), "latency_ms_mean": rounded}

    def __str__(self) -> str:
        mean_ms = self.latency_ms_mean
        latency = "-" if mean_ms is None else f"{mean_ms:.1f} ms"
        return (
            f"{self.stage}: {self.brokers_up} brokers, {self.links_up} links, "
            f"{self.publications:,} publications, {self.deliveries:,} deliveries, "
            f"latency {latency}"
        )


OnPulse = Callable[[DemoPulse], None]


class DemoClients:
    """Publishers and subscribers of a workload, with a pulse that says how they fare."""

    def __init__(
        self, overlay: Overlay, workload: StockWorkload, on_pulse: OnPulse, every_s: float
    ) -> None:
        addresses = overlay.spec.addresses
        contents = {p.client: workload.publications(p) for p in workload.publishers}
        self.stage = "warming up"
        self.subscribers = SubscriberGroup(workload.subscribers, addresses)
        self.publishers = PublisherGroup(workload.publishers, contents, addresses)
        self.homes: dict[ClientId, BrokerId] = {
            **{publisher.client: publisher.broker for publisher in workload.publishers},
            **{subscriber.client: subscriber.broker for subscriber in workload.subscribers},
        }
        self._overlay = overlay
        self._workload = workload
        self._on_pulse = on_pulse
        self._every_s = every_s
        self._stack = AsyncExitStack()
        self._is_over = False
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> DemoClients:
        await self._stack.enter_async_context(self.subscribers)
        await self._stack.enter_async_context(self.publishers)
        await wait_until_settled(self._overlay.observer)
        self._tasks = [
            asyncio.create_task(self.publishers.publish_until(lambda: self._is_over)),
            asyncio.create_task(self._show()),
        ]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._is_over = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._stack.aclose()

    async def now(self) -> Moment:
        """How far everything has come."""
        snapshot = await self._overlay.snapshot()
        return moment(snapshot, self.subscribers.latencies_ms, self.subscribers.received)

    async def end(self) -> DeliveryVerdict:
        """Stop publishing, wait for the last delivery, and hold everything against the truth."""
        self._is_over = True
        publishing, showing = self._tasks
        await publishing
        wanted = {s.client: s.filter for s in self._workload.subscribers}
        expected = expected_deliveries(self.publishers.published, wanted)
        total = sum(len(due) for due in expected.values())
        await wait_for_deliveries(lambda: self.subscribers.received_count, total)
        showing.cancel()
        return judge(self.publishers.published, wanted, self.subscribers.received)

    async def _show(self) -> None:
        seen = 0
        while True:
            await asyncio.sleep(self._every_s)
            snapshot = await self._overlay.snapshot()
            latencies = self.subscribers.latencies_ms
            mean_ms = statistics.fmean(latencies[seen:]) if len(latencies) > seen else None
            seen = len(latencies)
            published = len(self.publishers.published)
            pulse = DemoPulse(
                self.stage,
                len(snapshot.up),
                snapshot.links_up,
                published,
                seen,
                mean_ms,
                snapshot.queue_bytes,
            )
            self._on_pulse(pulse)
