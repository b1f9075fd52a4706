"""One subscription of a client: a queue that an application iterates over."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Protocol

from pubweave.core.mqtt.protocol.topics import is_reserved, names_reserved
from pubweave.model.filters.filter import Filter
from pubweave.model.publications import Publication


class _Consumer(Protocol):
    def consumed(self) -> None: ...


class Subscription:
    """Notifications of one filter, in order: ``async for notification in subscription``.

    Bounded without loss: a client whose queues are long makes the broker wait.
    """

    def __init__(self, id_: str, filter_: Filter, client: _Consumer) -> None:
        self.id = id_
        self.filter = filter_
        self.put_count = 0
        self._names_reserved = names_reserved(filter_)
        self._client = client
        self._queue: deque[Publication] = deque()
        self._waiting: asyncio.Future[None] | None = None
        self._ended = False

    @property
    def queued(self) -> int:
        return len(self._queue)

    def put(self, publication: Publication) -> None:
        """Reserved topics are for those who ask for them by name."""
        if is_reserved(publication.topic) and not self._names_reserved:
            return
        self._queue.append(publication)
        self.put_count += 1
        self._wake()

    def end(self) -> None:
        self._ended = True
        self._wake()

    def take_all(self) -> list[Publication]:
        """Everything that has come and was not yet iterated over; never waits."""
        taken = list(self._queue)
        self._queue.clear()
        self._client.consumed()
        return taken

    def __aiter__(self) -> Subscription:
        return self

    async def __anext__(self) -> Publication:
        while not self._queue:
            if self._ended:
                raise StopAsyncIteration
            self._client.consumed()
            self._waiting = asyncio.get_running_loop().create_future()
            try:
                await self._waiting
            finally:
                self._waiting = None
        publication = self._queue.popleft()
        if not len(self._queue) & 1023:
            self._client.consumed()
        return publication

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
