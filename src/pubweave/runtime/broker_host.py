"""A broker on this machine: its core between a listening socket, dialed neighbors and a timer.

All of the protocol is in `core.broker`; this module only carries events to it and effects away.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from pubweave.core.broker import Broker
from pubweave.core.broker_config import BrokerConfig
from pubweave.core.effects import CloseConnection, Effect, EmitTelemetry, Transmit
from pubweave.core.events import (
    ConnectionClosed,
    ConnectionId,
    ConnectionOpened,
    DeadlineReached,
    Event,
    LinkAdded,
    MessagesReceived,
)
from pubweave.core.metering import Metering
from pubweave.model.ids import BrokerId
from pubweave.model.messages import Message
from pubweave.runtime.addresses import Address
from pubweave.runtime.clock import UnixClock
from pubweave.runtime.connection import Connection
from pubweave.runtime.dialer import Dialer
from pubweave.runtime.telemetry_feed import TelemetryFeed
from pubweave.runtime.telemetry_files import TelemetryWriter
from pubweave.runtime.timer import DeadlineTimer
from pubweave.wire.codec import DEFAULT_MAX_FRAME_BYTES

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class HostConfig:
    """A broker, where it listens, and where its neighbors do."""

    broker: BrokerConfig
    listen: Address
    neighbors: Mapping[BrokerId, Address] = field(default_factory=dict)
    max_frame_bytes: int = DEFAULT_MAX_FRAME_BYTES
    telemetry_directory: Path | None = None
    sample_ratio: float = 1.0
    owns_process: bool = True
    """Whether this broker is alone in its process."""


class BrokerHost:
    """Runs one broker until `stop`. Of each link, the broker with the smaller id dials."""

    def __init__(self, config: HostConfig) -> None:
        self.config = config
        self._clock = UnixClock()
        self._timer = DeadlineTimer(self._clock, self._on_deadline)
        self._connections: dict[ConnectionId, Connection] = {}
        self._dialers: list[Dialer] = []
        self._server: asyncio.Server | None = None
        self._handling_s = 0.0
        self._all_closed = asyncio.Event()
        epoch = self._clock.epoch()
        metered = config.telemetry_directory is not None
        self.broker = Broker(
            config.broker,
            epoch=epoch,
            now=self._clock.now(),
            metering=Metering(config.broker.id, config.sample_ratio, epoch=epoch)
            if metered
            else None,
        )
        self._feed = self._make_feed()

    def _make_feed(self) -> TelemetryFeed | None:
        config = self.config
        if config.telemetry_directory is None:
            return None
        writer = TelemetryWriter(config.telemetry_directory, config.broker.id)
        return TelemetryFeed(writer, self.broker, owns_process=config.owns_process)

    @property
    def address(self) -> Address:
        """Where the broker listens, with the port it really got."""
        assert self._server is not None, "start() first"
        host, port = self._server.sockets[0].getsockname()[:2]
        return Address(host, port)

    async def start(self) -> None:
        """Listen and dial. OSError if the address cannot be had."""
        loop = asyncio.get_running_loop()
        listen = self.config.listen
        self._server = await loop.create_server(
            Connection.factory(self, max_frame_bytes=self.config.max_frame_bytes),
            listen.host,
            listen.port,
            backlog=1024,
        )
        for neighbor, address in sorted(self.config.neighbors.items()):
            self.handle(LinkAdded(neighbor))
            if self.config.broker.id < neighbor:
                self._dial(neighbor, address)
        self._arm()

    def _dial(self, neighbor: BrokerId, address: Address) -> None:
        dialer = Dialer(neighbor, (address,), self, max_frame_bytes=self.config.max_frame_bytes)
        self._dialers.append(dialer)
        dialer.start()

    async def stop(self) -> None:
        """Close every connection and write out all telemetry."""
        self._timer.cancel()
        for dialer in self._dialers:
            await dialer.stop()
        if self._server is not None:
            self._server.close()
        for connection in list(self._connections.values()):
            connection.close("the broker stops")
        if self._connections:
            self._all_closed.clear()
        else:
            self._all_closed.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(2.0):
                await self._all_closed.wait()
        if self._feed is not None:
            await asyncio.to_thread(self._feed.close)

    # --- from the connections --------------------------------------------------------------

    def connection_opened(self, connection: Connection) -> None:
        self._connections[connection.number] = connection
        neighbor = next((d.remote for d in self._dialers if d.connection is connection), None)
        self.handle(ConnectionOpened(connection.number, neighbor))

    def messages_received(self, connection: Connection, messages: list[Message]) -> None:
        now = self._clock.now()
        try:
            effects = self.broker.handle(MessagesReceived(connection.number, messages, now), now)
        except Exception:
            # A bug of ours: whoever triggered it is cut off, everybody else is served on.
            log.exception("handling messages failed; closing the connection they came from")
            self.broker.counters.protocol_errors += 1
            connection.abort()
            return
        if self._feed is not None:
            self._handling_s = (self._clock.now() - now) / len(messages)
        self._carry_out(effects)
        self._arm()

    def connection_closed(self, connection: Connection) -> None:
        self._connections.pop(connection.number, None)
        if not self._connections:
            self._all_closed.set()
        if connection.frame_error is not None:
            log.warning("closed a connection: %s", connection.frame_error)
            self.broker.counters.protocol_errors += 1
        self.handle(ConnectionClosed(connection.number))

    # --- to and from the core --------------------------------------------------------------

    def handle(self, event: Event) -> None:
        """Give the core an event and carry out what it wants."""
        self._carry_out(self.broker.handle(event, self._clock.now()))
        self._arm()

    def _on_deadline(self) -> None:
        self.handle(DeadlineReached())

    def _arm(self) -> None:
        self._timer.arm(self.broker.next_deadline())

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            if type(effect) is Transmit:
                connection = self._connections.get(effect.connection)
                if connection is not None:
                    connection.write(effect.messages)
            elif isinstance(effect, CloseConnection):
                connection = self._connections.get(effect.connection)
                if connection is not None:
                    log.info("closing a connection: %s", effect.reason)
                    connection.close(effect.reason)
            elif isinstance(effect, EmitTelemetry) and self._feed is not None:
                self._feed.submit(effect.records, self._handling_s)
