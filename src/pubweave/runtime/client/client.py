"""The client library: publish and subscribe from asyncio, reconnecting by itself.

    async with pubweave.connect("127.0.0.1:7001") as client:
        await client.advertise("class = 'STOCK'")
        quotes = await client.subscribe("class = 'STOCK' and volume > 1000")
        await client.publish("STOCK", {"volume": 2000}, b"...")
        async for notification in quotes:
            ...

The protocol is `core.client`; here are only connections, waiting and queues. While a connection
is down, calls wait or queue within bounds; nothing acknowledged is lost, nothing comes twice.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Coroutine, Mapping, Sequence
from typing import Any

from pubweave.core.client import ClientCore
from pubweave.core.config.session import SessionLimits
from pubweave.core.matching.index import MatchIndex
from pubweave.core.vocabulary.effects import (
    CloseConnection,
    Effect,
    FollowRedirect,
    MoveEffect,
    Notify,
    ProbeBrokers,
    ReportGap,
    ReportMissed,
    ReportMove,
    ReportRefusal,
    ReportSession,
    Transmit,
    TryBroker,
)
from pubweave.core.vocabulary.events import (
    ConnectionClosed,
    ConnectionOpened,
    DeadlineReached,
    Event,
    LocalPauseEnded,
    MessagesReceived,
)
from pubweave.model.filters.filter import Filter
from pubweave.model.filters.text import parse_filter
from pubweave.model.messages.session import Message, Ping, Query
from pubweave.model.publications import Publication, Value
from pubweave.runtime.client.subscription import GapError, OnGap, Subscription
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.net.clock import DeadlineTimer, UnixClock
from pubweave.runtime.net.connection import Connection
from pubweave.runtime.net.dialer import Dialer, reach
from pubweave.runtime.net.rtt_probe import round_trips_ms
from pubweave.runtime.security.credentials import Credentials
from pubweave.wire.codec import encode

log = logging.getLogger(__name__)

CONFIRM_WAIT_S = 5.0
"""How long a subscription waits for its confirmation."""
MOVES_REMEMBERED = 100
MISSED_REMEMBERED = 100
CLIENT_LIMITS = SessionLimits(window_bytes=4 << 20)
"""As much as a broker with a journal lets be under way; one without grants less."""


class ClientError(Exception):
    """Something the broker refused, or a client that is closed."""


class NoConnectionError(ClientError):
    """No broker answers at that address."""


class Client:
    """A connected client; make one with `connect`."""

    def __init__(
        self,
        addresses: Sequence[Address],
        client_id: str,
        *,
        limits: SessionLimits,
        max_frame_bytes: int,
        max_queued: int,
        credentials: Credentials,
        on_gap: OnGap = "warn",
        clock: UnixClock | None = None,
    ) -> None:
        self.id = client_id
        self._gap_action = on_gap
        self._credentials = credentials
        self._clock = clock or UnixClock()
        self._max_frame_bytes = max_frame_bytes
        self._max_queued = max_queued
        epoch = self._clock.epoch()
        self._core = ClientCore(
            client_id, epoch=epoch, now=self._clock.now(), first_sequence=epoch, limits=limits
        )
        self._timer = DeadlineTimer(self._clock, lambda: self._handle(DeadlineReached()))
        self._addresses = tuple(addresses)
        self.moves: list[ReportMove] = []
        """The latest moves to other brokers, with the pause that each took."""
        self.missed: list[ReportMissed] = []
        """The latest losses that the broker told of: topic, publisher, count, at_most."""
        self.missed_count = 0
        """How many publications were lost to this client, at most, as far as it was told."""
        self.gaps: list[ReportGap] = []
        """The latest gaps that this client saw by itself: topic, publisher, and the sequences that
        it got after and before which something is missing."""
        self.gap_count = 0
        context = credentials.context(addresses)
        self._dialer = Dialer(
            "broker", addresses, self, max_frame_bytes=max_frame_bytes, context=context
        )
        self._dialer.on_distrust = self._on_distrust
        self._connection: Connection | None = None
        self._index: MatchIndex[Subscription] = MatchIndex()
        self._subscriptions: dict[str, Subscription] = {}
        self.refused = 0
        """How much of what this client sent the broker did not accept; `last_refusal` says why."""
        self.last_refusal: str | None = None
        self._unconfirmed: dict[str, str | None] = {}
        self._flush_scheduled = False
        self._is_held = False
        self._sessions = 0
        self._closed = False
        self._waiting: list[asyncio.Future[None]] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._query_numbers = itertools.count(1)

    # --- what an application calls ---------------------------------------------------------

    async def advertise(self, filter_: str | Filter) -> str:
        """Announce what this client will publish; the id is for `unadvertise`.

        Returns once the broker has taken it in. ClientError if it refuses."""
        return await self._confirmed(self._core.advertise(_filter(filter_)))

    async def unadvertise(self, advertisement: str) -> None:
        self._core.unadvertise(advertisement)
        await self.flush()

    async def subscribe(
        self, filter_: str | Filter, *, confirm: bool = True, timeout_s: float = CONFIRM_WAIT_S
    ) -> Subscription:
        """Ask for publications; iterate over what comes back with ``async for``.

        Returns once it is confirmed: from now on everything comes that is published anywhere. If a
        part of the overlay does not answer for ``timeout_s``, a warning is logged and the
        subscription comes all the same, with ``is_confirmed`` False; `Subscription.confirmation`
        waits on. With ``confirm=False`` it is returned once the broker has taken it in.
        ClientError if the broker refuses."""
        wanted = _filter(filter_)
        id_ = self._core.subscribe(wanted)
        subscription = Subscription(id_, wanted, self)
        self._subscriptions[id_] = subscription
        self._index.add(id_, wanted, subscription)
        try:
            await self._confirmed(id_)
        except ClientError:
            del self._subscriptions[id_]
            self._index.remove(id_)
            raise
        if confirm:
            try:
                async with asyncio.timeout(timeout_s):
                    await self.confirmation(id_)
            except TimeoutError:
                log.warning(
                    "the subscription to %s is not confirmed after %g s: publications from parts "
                    "of the overlay that do not answer may be missing until it is",
                    wanted,
                    timeout_s,
                )
        return subscription

    async def confirmation(self, id_: str) -> None:
        """Wait until a subscription is confirmed. ClientError if it or the client ends before."""
        while id_ not in self._core.confirmed:
            if id_ not in self._subscriptions:
                raise ClientError("this subscription has ended")
            await self._wait_for_change()

    def is_confirmed(self, id_: str) -> bool:
        """Whether everything comes now that a subscription wants."""
        return id_ in self._core.confirmed

    async def unsubscribe(self, subscription: Subscription) -> None:
        """Take a subscription back; its iteration ends after what has already come."""
        if self._subscriptions.pop(subscription.id, None) is None:
            return
        self._index.remove(subscription.id)
        self._core.unsubscribe(subscription.id)
        subscription.end()
        self.consumed()  # its queue holds nobody up any more
        await self.flush()

    async def publish(
        self, topic: str, attributes: Mapping[str, Value] | None = None, payload: bytes = b""
    ) -> Publication:
        """Publish; waits only while the broker asks this client to slow down.

        ValueError for what was not advertised or cannot be addressed. Use `flush` to know that
        the broker has taken everything in."""
        self._check_open()
        publication = self._core.publish(
            topic, dict(attributes) if attributes else {}, payload, self._clock.now()
        )
        size = len(encode(publication))
        if size > self._max_frame_bytes:
            self._core.take_back(publication)
            raise ValueError(f"a publication of {size} bytes; allowed are {self._max_frame_bytes}")
        self._schedule_flush()
        session = self._core.session
        if session.is_congested or len(session.pending) >= 1024:
            self._flush_now()
            # Let the loop write and read, whether or not we must wait.
            await asyncio.sleep(0)
            await self._wait_until_relieved()
        return publication

    async def flush(self) -> None:
        """Wait until the broker has taken in all that was sent so far."""
        self._check_open()
        self._flush_now()
        session = self._core.session
        began = self._sessions
        target = session.acked + session.queue_messages
        self._ping()
        while session.acked < target:
            await self._wait_for_change()
            if self._sessions != began:
                began = self._sessions
                target = session.acked + session.queue_messages
                self._ping()

    async def query(self, subject: str) -> bytes:
        """Ask the broker about itself; a JSON document."""
        number = next(self._query_numbers)
        while True:
            self._write((Query(number, subject),))
            began = self._sessions
            while number not in self._core.answers and began == self._sessions:
                await self._wait_for_change()
            if number in self._core.answers:
                return self._core.answers.pop(number)

    @property
    def is_connected(self) -> bool:
        return self._core.session.is_established

    @property
    def broker(self) -> str:
        """The broker this client is attached to."""
        return self._core.session.remote

    @property
    def duplicates_dropped(self) -> int:
        return self._core.duplicates_dropped

    # --- opening and closing ---------------------------------------------------------------

    async def open(self, timeout_s: float) -> None:
        """Dial and wait for the session; ClientError if that takes too long."""
        self._dialer.start()
        try:
            async with asyncio.timeout(timeout_s):
                while not self._sessions and self.last_refusal is None:
                    await self._wait_for_change()
        except TimeoutError:
            reason = self._credentials.fault() or self._dialer.last_error or "no answer"
            await self.close()
            raise NoConnectionError(f"cannot connect: {reason}") from None
        if not self._sessions:
            await self.close()
            raise ClientError(f"the broker refused the {self.last_refusal}")

    async def close(self) -> None:
        """Say goodbye: the broker forgets this client. Does not wait for unsent publications."""
        if self._closed:
            return
        self._closed = True
        self._timer.cancel()
        await self._dialer.stop()
        for task in list(self._tasks):
            task.cancel()
        self._carry_out(self._core.goodbye("the client closed"))
        for subscription in self._subscriptions.values():
            subscription.end()
        self._wake()

    # --- from the connection ---------------------------------------------------------------

    def connection_opened(self, connection: Connection) -> None:
        self._connection = connection
        if problem := self._credentials.introduce(connection):
            self._on_distrust(problem)
            connection.abort()
            return
        self._handle(ConnectionOpened(connection.number))

    def messages_received(self, connection: Connection, messages: list[Message]) -> None:
        self._handle(MessagesReceived(connection.number, messages, self._clock.now()))

    def connection_closed(self, connection: Connection) -> None:
        if self._connection is connection:
            self._connection = None
        self._handle(ConnectionClosed(connection.number))

    def _on_distrust(self, reason: str) -> None:
        """One side does not trust the other: whoever waits for a connection is told."""
        self.last_refusal = f"connection: {reason}"
        self._wake()

    # --- inside ----------------------------------------------------------------------------

    def _handle(self, event: Event) -> None:
        if self._closed:
            return
        now = self._clock.now()
        if paused_s := self._timer.take_pause(now):
            self._core.handle(LocalPauseEnded(paused_s), now)
        self._carry_out(self._core.handle(event, now))
        self._timer.arm(self._core.next_deadline())
        self._wake()

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case Transmit(_, messages):
                    self._write(messages)
                case Notify(publications):
                    self._deliver(publications)
                case CloseConnection(_, reason):
                    if self._connection is not None:
                        self._connection.close(reason)
                case ProbeBrokers(number, brokers):
                    self._begin(self._probe(number, dict(brokers)))
                case TryBroker() | FollowRedirect() | ReportMove():
                    self._carry_out_move(effect)
                case ReportSession() | ReportMissed() | ReportGap() | ReportRefusal():
                    self._note(effect)

    def _note(self, report: ReportSession | ReportMissed | ReportGap | ReportRefusal) -> None:
        match report:
            case ReportSession(resumed):
                if self._sessions and not resumed and self._subscriptions:
                    log.warning("broker %s has lost this session", self.broker)
                self._sessions += 1
            case ReportMissed():
                self.missed_count += report.count
                self.missed = [*self.missed[1 - MISSED_REMEMBERED :], report]
            case ReportGap():
                self._on_gap(report)
            case ReportRefusal(subject, reason):
                self.refused += 1
                self.last_refusal = f"{subject}: {reason}"
                if subject in self._unconfirmed:
                    self._unconfirmed[subject] = reason

    def _on_gap(self, gap: ReportGap) -> None:
        self.gap_count += 1
        self.gaps = [*self.gaps[1 - MISSED_REMEMBERED :], gap]
        if callable(self._gap_action):
            self._gap_action(gap)
        elif self._gap_action == "raise":
            for subscription in self._subscriptions.values():
                subscription.put_gap(gap)
        else:
            log.warning("%s", GapError(gap))

    async def _probe(self, number: int, addresses: dict[str, str]) -> None:
        """Tell the broker how far others are."""
        rtt_ms = await round_trips_ms(addresses)
        if not self._closed:
            self._carry_out(self._core.probed(number, rtt_ms))

    def _carry_out_move(self, effect: MoveEffect) -> None:
        match effect:
            case TryBroker(token, _, address):
                self._begin(self._try(token, address))
            case FollowRedirect(_, address):
                # Should that broker be gone, the others know where the client belongs.
                self._dialer.redirect([Address.parse(address), *self._addresses])
            case ReportMove():
                self.moves = [*self.moves[-MOVES_REMEMBERED:], effect]

    async def _try(self, token: str, address: str) -> None:
        """Find out whether a broker that this client is to move to can be reached from here."""
        problem = await reach(address)
        if not self._closed:
            self._carry_out(self._core.tried(token, problem))

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _write(self, messages: Sequence[Message]) -> None:
        if self._connection is not None:
            self._connection.write(messages)

    def _ping(self) -> None:
        self._write((Ping(self._clock.now()),))

    def _schedule_flush(self) -> None:
        """One write for everything that is published in one turn of the loop."""
        if not self._flush_scheduled:
            self._flush_scheduled = True
            asyncio.get_running_loop().call_soon(self._flush_now)

    def _flush_now(self) -> None:
        self._flush_scheduled = False
        self._carry_out(self._core.flush())

    def _deliver(self, publications: Sequence[Publication]) -> None:
        match_ = self._index.match
        for publication in publications:
            for subscription in match_(publication):
                subscription.put(publication)
        if not self._is_held and self._longest_queue() > self._max_queued:
            self._is_held = True
            self._core.hold()

    def _longest_queue(self) -> int:
        """Of the subscriptions that the application has got: nobody can iterate over one that is
        still being asked for, and the broker's answer may be behind what waits there."""
        unread = self._subscriptions.values()
        return max((s.queued for s in unread if s.id not in self._unconfirmed), default=0)

    def consumed(self) -> None:
        """A subscription's queue has gone down; let the broker go on if it had to wait."""
        if self._is_held and self._longest_queue() <= self._max_queued // 2:
            self._is_held = False
            self._carry_out(self._core.release())

    async def _confirmed(self, id_: str) -> str:
        self._unconfirmed[id_] = None
        try:
            await self.flush()
        finally:
            refusal = self._unconfirmed.pop(id_)
        if refusal is not None:
            self._core.discard(id_)
            raise ClientError(refusal)
        return id_

    async def _wait_until_relieved(self) -> None:
        while self._core.session.is_congested:
            await self._wait_for_change()

    async def _wait_for_change(self) -> None:
        """Until anything happens to this client; whoever waits looks again."""
        self._check_open()
        changed = asyncio.get_running_loop().create_future()
        self._waiting.append(changed)
        await changed
        self._check_open()

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, []
        for changed in waiting:
            if not changed.done():
                changed.set_result(None)

    def _check_open(self) -> None:
        if self._closed:
            raise ClientError("this client is closed")


def _filter(filter_: str | Filter) -> Filter:
    return parse_filter(filter_) if isinstance(filter_, str) else filter_
