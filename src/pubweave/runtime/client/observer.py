"""Watching an overlay from outside: what all brokers say of themselves, at one instant.

Each broker is asked over an ordinary client connection, so this works for any overlay whose
addresses are known. Observers are not counted as clients. A broker that does not answer in time
is down, which is an answer, not an error.
"""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from pubweave.model.ids import BrokerId, Link
from pubweave.model.records.status import STATUS_SUBJECT, BrokerStatus, CounterStatus, SessionStatus
from pubweave.runtime.client.client import Client, ClientError
from pubweave.runtime.client.connect import connect
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.net.clock import UnixClock
from pubweave.runtime.security.credentials import Credentials

OBSERVER_PREFIX = "$observer-"
"""Client ids that begin so are observers. Statuses list few clients: it sorts before most names."""
ANSWER_LIMIT_S = 2.0
ESTABLISHED = "established"

_status = msgspec.json.Decoder(BrokerStatus)


@dataclass(frozen=True)
class OverlayStatuses:
    """The statuses of all brokers, None for those that are down."""

    taken_at: float
    statuses: Mapping[BrokerId, BrokerStatus | None]
    links: tuple[Link, ...]

    @property
    def up(self) -> list[BrokerStatus]:
        return [status for status in self.statuses.values() if status is not None]

    @property
    def down(self) -> list[BrokerId]:
        return [broker for broker, status in self.statuses.items() if status is None]

    @property
    def queue_bytes(self) -> int:
        return sum(status.queue_bytes for status in self.up)

    @property
    def links_up(self) -> int:
        return sum(self.is_up(link) for link in self.links)

    def is_up(self, link: Link) -> bool:
        """Whether both ends say that the link's session stands."""
        ends = [self.link_session(link.a, link.b), self.link_session(link.b, link.a)]
        return all(end is not None and end.state == ESTABLISHED for end in ends)

    def link_session(self, broker: BrokerId, neighbor: BrokerId) -> SessionStatus | None:
        """What a broker says of its session with a neighbor."""
        status = self.statuses.get(broker)
        sessions = () if status is None else status.links
        return next((session for session in sessions if session.remote == neighbor), None)


def client_count(status: BrokerStatus) -> int:
    """The clients of a broker without its observers."""
    observers = sum(session.remote.startswith(OBSERVER_PREFIX) for session in status.clients)
    return status.client_count - observers


class OverlayObserver:
    """Asks all brokers of an overlay for their status, over connections that it keeps."""

    def __init__(
        self,
        addresses: Mapping[BrokerId, Address],
        links: Iterable[Link],
        credentials: Credentials | None = None,
    ) -> None:
        """``credentials``: of an operator, for a secured overlay."""
        self.credentials = credentials
        self.addresses: Mapping[BrokerId, Address] = dict(addresses)
        self._links = tuple(sorted(links))
        self._clients: dict[BrokerId, Client] = {}
        self._clock = UnixClock()

    def look_at(self, addresses: Mapping[BrokerId, Address], links: Iterable[Link]) -> None:
        """From now on ask these brokers and expect these links."""
        self.addresses = dict(addresses)
        self._links = tuple(sorted(links))

    async def snapshot(self, limit_s: float = ANSWER_LIMIT_S) -> OverlayStatuses:
        """Ask every broker at once; takes at most about twice ``limit_s``."""
        brokers, links = tuple(self.addresses), self._links
        statuses = await asyncio.gather(*(self._ask(broker, limit_s) for broker in brokers))
        answered = dict(zip(brokers, statuses, strict=True))
        return OverlayStatuses(self._clock.now(), answered, links)

    async def _ask(self, broker: BrokerId, limit_s: float) -> BrokerStatus | None:
        answer = await self.query(broker, STATUS_SUBJECT, limit_s)
        return None if answer is None else _status.decode(answer)

    async def query(
        self, broker: BrokerId, subject: str, limit_s: float = ANSWER_LIMIT_S
    ) -> bytes | None:
        """A broker's answer to a query, as JSON; None if it is down."""
        try:
            client = self._clients.get(broker) or await self._connect(broker, limit_s)
            async with asyncio.timeout(limit_s):
                return await client.query(subject)
        except (ClientError, TimeoutError):
            return None

    async def _connect(self, broker: BrokerId, limit_s: float) -> Client:
        client_id = OBSERVER_PREFIX + secrets.token_hex(6)
        opening = connect(
            self.addresses[broker],
            client_id=client_id,
            timeout_s=limit_s,
            credentials=self.credentials,
        )
        client = await opening.__aenter__()
        self._clients[broker] = client
        return client

    async def close(self) -> None:
        await asyncio.gather(*(client.close() for client in self._clients.values()))
        self._clients.clear()

    async def __aenter__(self) -> OverlayObserver:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


async def wait_until_settled(
    observer: OverlayObserver, *, quiet_s: float = 0.6, limit_s: float = 60.0
) -> OverlayStatuses:
    """Wait until all links stand with nothing queued and no broker's tables change any more.

    TimeoutError if that takes longer than ``limit_s``. Only sensible while nobody publishes.
    What brokers say to organize themselves never ends, and does not count.
    """
    async with asyncio.timeout(limit_s):
        before, since = None, 0.0
        while True:
            seen = await observer.snapshot()
            tables = [
                (s.broker, s.subscriptions, s.advertisements, s.forwarded, _messages_out(s))
                for s in seen.up
            ]
            is_whole = not seen.down and seen.links_up == len(seen.links)
            is_quiet = not any(
                link.queue_messages
                for status in seen.up
                if status.organizing is None
                for link in status.links
            )
            if tables != before or not is_quiet or not is_whole:
                before, since = tables, seen.taken_at
            elif seen.taken_at - since >= quiet_s:
                return seen
            await asyncio.sleep(quiet_s / 3)


def _messages_out(status: BrokerStatus) -> int:
    organizing = status.organizing
    return status.counters.messages_out - (organizing.messages_out if organizing else 0)


@dataclass
class RunningTotals:
    """What all brokers counted since this began, over restarts that set their counters back."""

    last: dict[BrokerId, BrokerStatus] = field(default_factory=dict)
    ended: CounterStatus = field(default_factory=CounterStatus)

    def add(self, snapshot: OverlayStatuses) -> None:
        for status in snapshot.up:
            before = self.last.get(status.broker)
            if before is not None and status.uptime_s < before.uptime_s:
                self.ended += before.counters
            self.last[status.broker] = status

    def counters(self) -> CounterStatus:
        return sum((status.counters for status in self.last.values()), self.ended)
