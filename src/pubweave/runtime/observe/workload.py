"""Publishers and subscribers of a workload as real clients of a running overlay.

Everything they publish and receive is written down, for `observe/delivery_oracle` to judge. A group
is one event loop's share of the clients: a large workload can be spread over several processes.
"""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence

from pubweave.generate.workloads.clients import Content, WorkloadPublisher, WorkloadSubscriber
from pubweave.model.ids import BrokerId, ClientId
from pubweave.model.publications import Publication
from pubweave.runtime.client.client import Client
from pubweave.runtime.client.connect import connect
from pubweave.runtime.client.subscription import Subscription
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.net.clock import UnixClock
from pubweave.runtime.observe.delivery_oracle import PublicationKey

CONNECTING_AT_ONCE = 32
CONNECT_LIMIT_S = 30.0


class SubscriberGroup:
    """Subscribers that note what they get: ``received`` per client in order, and latencies."""

    def __init__(
        self, subscribers: Sequence[WorkloadSubscriber], addresses: Mapping[BrokerId, Address]
    ) -> None:
        self.received: dict[ClientId, list[PublicationKey]] = {s.client: [] for s in subscribers}
        self.latencies_ms = array("d")
        self.clients: list[Client] = []
        self._subscribers = subscribers
        self._addresses = addresses
        self._clock = UnixClock()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def received_count(self) -> int:
        return len(self.latencies_ms)

    @property
    def duplicates_dropped(self) -> int:
        """What came twice over the wire and was kept from the application."""
        return sum(client.duplicates_dropped for client in self.clients)

    async def __aenter__(self) -> SubscriberGroup:
        """Connect and subscribe all."""
        gate = asyncio.Semaphore(CONNECTING_AT_ONCE)
        try:
            async with asyncio.TaskGroup() as group:
                for subscriber in self._subscribers:
                    group.create_task(self._join(subscriber, gate))
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await asyncio.gather(*(client.close() for client in self.clients))

    async def _join(self, subscriber: WorkloadSubscriber, gate: asyncio.Semaphore) -> None:
        async with gate:
            opening = connect(
                self._addresses[subscriber.broker],
                client_id=subscriber.client,
                timeout_s=CONNECT_LIMIT_S,
            )
            client = await opening.__aenter__()
            self.clients.append(client)
            subscription = await client.subscribe(subscriber.filter)
        self._tasks.append(asyncio.create_task(self._listen(subscriber.client, subscription)))

    async def _listen(self, client: ClientId, subscription: Subscription) -> None:
        received = self.received[client]
        async for publication in subscription:
            self.latencies_ms.append((self._clock.now() - publication.published_at) * 1000.0)
            received.append(publication.key)


class PublisherGroup:
    """Publishers that note what they publish, each at its own steady rate."""

    def __init__(
        self,
        publishers: Sequence[WorkloadPublisher],
        contents: Mapping[ClientId, Iterator[Content]],
        addresses: Mapping[BrokerId, Address],
        *,
        payload: bytes = b"",
    ) -> None:
        self.published: list[Publication] = []
        self._publishers = publishers
        self._contents = contents
        self._addresses = addresses
        self._payload = payload
        self._clients: dict[ClientId, Client] = {}

    async def __aenter__(self) -> PublisherGroup:
        """Connect and advertise all."""
        try:
            async with asyncio.TaskGroup() as group:
                for publisher in self._publishers:
                    group.create_task(self._join(publisher))
        except BaseException:
            await self._close()
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._close()

    async def _close(self) -> None:
        await asyncio.gather(*(client.close() for client in self._clients.values()))

    async def _join(self, publisher: WorkloadPublisher) -> None:
        address = self._addresses[publisher.broker]
        opening = connect(address, client_id=publisher.client, timeout_s=CONNECT_LIMIT_S)
        client = await opening.__aenter__()
        self._clients[publisher.client] = client
        for filter_ in publisher.advertisements:
            await client.advertise(filter_)

    @property
    def clients(self) -> list[Client]:
        """The connected publishers."""
        return list(self._clients.values())

    async def publish(self, seconds: float) -> None:
        """Publish for this long; returns when the brokers have taken everything in."""
        await self._publish_all(lambda number, rate: number < int(seconds * rate))

    async def publish_until(self, is_over: Callable[[], bool]) -> None:
        """Publish until it is over; returns when the brokers have taken everything in."""
        await self._publish_all(lambda number, rate: not is_over())

    async def _publish_all(self, goes_on: Callable[[int, float], bool]) -> None:
        async with asyncio.TaskGroup() as group:
            for place, publisher in enumerate(self._publishers):
                # Spread over the first interval: publishers in step would come in bursts.
                offset_s = place / len(self._publishers) / publisher.rate_per_s
                group.create_task(self._run(publisher, offset_s, goes_on))

    async def _run(
        self, publisher: WorkloadPublisher, offset_s: float, goes_on: Callable[[int, float], bool]
    ) -> None:
        loop = asyncio.get_running_loop()
        client = self._clients[publisher.client]
        contents = self._contents[publisher.client]
        began = loop.time()
        number = 0
        while goes_on(number, publisher.rate_per_s):
            due = began + offset_s + number / publisher.rate_per_s
            await asyncio.sleep(max(0.0, due - loop.time()))
            topic, attributes = next(contents)
            self.published.append(await client.publish(topic, attributes, self._payload))
            number += 1
        await client.flush()


async def wait_for_deliveries(
    received_count: Callable[[], int], expected: int, *, patience_s: float = 10.0
) -> None:
    """Wait until this many have come, or nothing came any more for ``patience_s``.

    Then a little longer, so that what comes too often is seen, too."""
    loop = asyncio.get_running_loop()
    count, changed_at = -1, loop.time()
    while received_count() < expected and loop.time() - changed_at < patience_s:
        if received_count() != count:
            count, changed_at = received_count(), loop.time()
        await asyncio.sleep(0.05)
    await asyncio.sleep(0.5)


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """The value below which this share of an ordered sequence lies; None of nothing."""
    if not ordered:
        return None
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
