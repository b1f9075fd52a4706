"""Clients of a running overlay that routes by topic, and what arrives at them."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from pubweave.runtime.client.client import Client
from pubweave.runtime.client.connect import connect
from pubweave.runtime.overlay.overlay import Overlay
from soak.churn_receipts import Receipts

FAULTS = ("missing", "duplicates", "out_of_order")


def verdict(figures: dict[str, Any]) -> int:
    """Print the figures of a run; exit code 1 if anything is missing, doubled or out of order."""
    print(json.dumps(figures, indent=2))
    return 1 if any(figures[name] for name in FAULTS) else 0


@dataclass
class TopicTraffic:
    """A subscriber at each broker, and a publisher for each topic at a steady rate."""

    overlay: Overlay
    topics: dict[str, list[str]]
    """By broker."""
    rate: float
    rng: np.random.Generator
    receipts: Receipts = field(default_factory=Receipts)
    clients: list[Client] = field(default_factory=list)
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    async def attach(self) -> None:
        """Connect everybody, and begin to publish."""
        for broker, topics in self.topics.items():
            client = await self.connect(f"s-{broker}", broker)
            for topic in topics:
                await self.subscribe(client, topic)
        await self.publish_on({topic for topics in self.topics.values() for topic in topics})

    async def publish_on(self, topics: Iterable[str]) -> None:
        """A publisher for each topic, at any broker."""
        for topic in sorted(topics):
            client = await self.connect(f"p-{topic}", str(self.rng.choice(list(self.topics))))
            await client.advertise(f"class = '{topic}'")
            self.tasks.append(asyncio.create_task(self._publish(client, topic)))

    async def subscribe(self, client: Client, topic: str) -> None:
        subscription = await client.subscribe(f"class = '{topic}'")
        self.receipts.subscribed(client.id, topic, time.time())
        receiving = self.receipts.receive(client.id, topic, subscription)
        self.tasks.append(asyncio.create_task(receiving))

    async def connect(self, client_id: str, broker: str) -> Client:
        """A client of a broker, that goes to one of three others if it is gone."""
        others = [str(name) for name in self.rng.permutation(list(self.topics)) if name != broker]
        places = ",".join(str(self.overlay.spec.addresses[b]) for b in (broker, *others[:3]))
        client = await connect(places, client_id=client_id, timeout_s=20.0).__aenter__()
        self.clients.append(client)
        return client

    async def _publish(self, client: Client, topic: str) -> None:
        await asyncio.sleep(float(self.rng.random()) / self.rate)
        while not self.receipts.is_over:
            self.receipts.published(await client.publish(topic, {}, b"x" * 64))
            await asyncio.sleep(1.0 / self.rate)

    def broker_dies(self, broker: str) -> None:
        """Called just before a broker is killed: its clients are without one for a moment."""
        homeless = [client.id for client in self.clients if client.broker == broker]
        self.receipts.broker_died(homeless, time.time())

    async def close(self) -> None:
        for task in self.tasks:
            task.cancel()
        await asyncio.gather(*(client.close() for client in self.clients))
