"""The demo's clients: they publish from its begin to its end, whatever happens to the overlay."""

from __future__ import annotations

import asyncio
import statistics
from contextlib import AsyncExitStack
from typing import Any

from pubweave.cli.demo.measures import Moment, moment
from pubweave.cli.output import LiveView
from pubweave.generate.workloads.stocks import StockWorkload
from pubweave.model.ids import BrokerId, ClientId
from pubweave.runtime.client.observer import wait_until_settled
from pubweave.runtime.observe.delivery_oracle import DeliveryVerdict, expected_deliveries, judge
from pubweave.runtime.observe.workload import (
    PublisherGroup,
    SubscriberGroup,
    wait_for_deliveries,
)
from pubweave.runtime.overlay.overlay import Overlay

LIVE_INTERVAL_S, LINE_INTERVAL_S = 1.0, 5.0


class DemoClients:
    """Publishers and subscribers of a workload, and a line that shows how they fare."""

    def __init__(self, overlay: Overlay, workload: StockWorkload, view: LiveView) -> None:
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
        self._view = view
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
        from rich.text import Text

        every_s = LIVE_INTERVAL_S if self._view.is_live else LINE_INTERVAL_S
        seen = 0
        while True:
            await asyncio.sleep(every_s)
            snapshot = await self._overlay.snapshot()
            latencies = self.subscribers.latencies_ms
            mean_ms = statistics.fmean(latencies[seen:]) if len(latencies) > seen else None
            seen = len(latencies)
            report: dict[str, Any] = {
                "event": "pulse",
                "stage": self.stage,
                "brokers_up": len(snapshot.up),
                "links_up": snapshot.links_up,
                "publications": len(self.publishers.published),
                "deliveries": seen,
                "latency_ms_mean": None if mean_ms is None else round(mean_ms, 3),
                "queue_bytes": snapshot.queue_bytes,
            }
            latency = "-" if mean_ms is None else f"{mean_ms:.1f} ms"
            line = (
                f"{self.stage}: {len(snapshot.up)} brokers, {snapshot.links_up} links, "
                f"{len(self.publishers.published):,} publications, {seen:,} deliveries, "
                f"latency {latency}"
            )
            self._view.show(report, line, lambda text=line: Text(text))  # type: ignore[misc]
