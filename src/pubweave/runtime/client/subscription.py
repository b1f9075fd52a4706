"""One subscription of a client: a queue that an application iterates over."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Literal, Protocol

from pubweave.core.mqtt.protocol.topics import is_reserved, names_reserved
from pubweave.core.vocabulary.effects import ReportGap
from pubweave.model.filters.filter import Filter, topic_of
from pubweave.model.publications import Publication

OnGap = Literal["warn", "raise"] | Callable[[ReportGap], None]
"""What happens when a client sees that a publication is missing, which no broker has told of: a
warning is logged, the iteration raises GapError at that place, or a function is called with it."""


class GapError(Exception):
    """Something is missing between two publications of a publisher on a topic."""

    def __init__(self, gap: ReportGap) -> None:
        super().__init__(
            f"publications of {gap.publisher!r} on {gap.topic!r} are missing between numbers "
            f"{gap.after} and {gap.before}"
        )
        self.gap = gap


class _Consumer(Protocol):
    def consumed(self) -> None: ...

    def is_confirmed(self, id_: str) -> bool: ...

    async def confirmation(self, id_: str) -> None: ...


class Subscription:
    """Notifications of one filter, in order: ``async for notification in subscription``.

    Bounded without loss: a client whose queues are long makes the broker wait. With
    ``on_gap="raise"`` (`connect`) the iteration raises `GapError` where something is missing, and
    can be gone on with.
    """

    def __init__(self, id_: str, filter_: Filter, client: _Consumer) -> None:
        self.id = id_
        self.filter = filter_
        self.put_count = 0
        self._names_reserved = names_reserved(filter_)
        self._client = client
        self._queue: deque[Publication | GapError] = deque()
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

    def put_gap(self, gap: ReportGap) -> None:
        """Let the iteration raise, if the missing publication may have been for this one."""
        if topic_of(self.filter) in (None, gap.topic):
            self._queue.append(GapError(gap))
            self._wake()

    @property
    def is_confirmed(self) -> bool:
        """Whether everything that is published anywhere comes now. A broker that loses the session
        has to confirm again."""
        return self._client.is_confirmed(self.id)

    async def confirmation(self) -> None:
        """Wait until it is confirmed."""
        await self._client.confirmation(self.id)

    def end(self) -> None:
        self._ended = True
        self._wake()

    def take_all(self) -> list[Publication]:
        """Everything that has come and was not yet iterated over; never waits, never raises."""
        taken = [item for item in self._queue if not isinstance(item, GapError)]
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
        item = self._queue.popleft()
        if not len(self._queue) & 1023:
            self._client.consumed()
        if isinstance(item, GapError):
            raise item
        return item

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
