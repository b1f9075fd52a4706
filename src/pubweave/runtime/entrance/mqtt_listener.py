"""Where MQTT clients come in: the second listening socket of a broker, beside its `gatekeeper`.

The limits on connections, the certificates and the passwords are the gatekeeper's. All of the
protocol is in `core.mqtt`; this module only carries events to the broker and effects away.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection

from pubweave.core.config.mqtt import MqttConfig
from pubweave.core.vocabulary.effects import CloseConnection, PauseReading, TransmitPackets
from pubweave.core.vocabulary.events import (
    ConnectionClosed,
    ConnectionId,
    Event,
    LoginReceived,
    MqttOpened,
    PacketsReceived,
    WritingPaused,
)
from pubweave.model.mqtt_packets import Connect, FromClient
from pubweave.runtime.entrance.gatekeeper import Gatekeeper
from pubweave.runtime.entrance.listener import Listener
from pubweave.runtime.entrance.mqtt_authentication import MqttAuthentication
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.net.mqtt_connection import MqttSocket, Withheld

log = logging.getLogger(__name__)


class MqttListener:
    """Listens for MQTT clients of one broker; ``handle`` gives its core an event, and says whether
    that went well."""

    def __init__(
        self, config: MqttConfig, doorway: Gatekeeper, handle: Callable[[Event], bool]
    ) -> None:
        self._config = config
        self._doorway = doorway
        self._handle = handle
        self._authentication = MqttAuthentication(doorway, handle)
        self._sockets: dict[ConnectionId, MqttSocket] = {}
        self._is_empty = asyncio.Event()
        self._listener: Listener | None = None
        self._sweep: asyncio.TimerHandle | None = None

    @property
    def address(self) -> Address:
        assert self._listener is not None, "start() first"
        return self._listener.address

    async def start(self, address: Address) -> None:
        """Listen; OSError if the address cannot be had."""
        self._listener = self._doorway.listener(self._make, lambda reason: b"")
        await self._listener.start(address)
        self._look()

    def _make(self, on_lost: Callable[[], None]) -> MqttSocket:
        return MqttSocket(
            self,
            max_packet_bytes=self._config.max_packet_bytes,
            unread_bytes=self._config.unread_bytes,
            on_lost=on_lost,
        )

    def close(self) -> None:
        """Let nobody in any more, and let go who is inside."""
        if self._sweep is not None:
            self._sweep.cancel()
        if self._listener is not None:
            self._listener.close()
        self._is_empty.clear()
        for connection in list(self._sockets.values()):
            connection.shut_down()
        if not self._sockets:
            self._is_empty.set()

    async def wait_closed(self) -> None:
        """After `close`: until nobody is inside any more."""
        await self._is_empty.wait()

    def _look(self) -> None:
        limit_s = self._doorway.stalled_frame_s
        for connection in list(self._sockets.values()):
            connection.check_progress(limit_s)
        self._sweep = asyncio.get_running_loop().call_later(limit_s, self._look)

    def end_revoked(self, serials: Collection[int]) -> None:
        """Let go whoever came with one of these certificates."""
        for connection in list(self._sockets.values()):
            if connection.serial in serials:
                log.info("closing an MQTT connection: its certificate was revoked")
                connection.close()

    # --- from the connections --------------------------------------------------------------

    def mqtt_opened(self, connection: MqttSocket) -> None:
        self._sockets[connection.number] = connection
        self._handle(MqttOpened(connection.number, connection.certified))

    def packets_received(
        self, connection: MqttSocket, packets: list[FromClient], withheld: Withheld
    ) -> None:
        if withheld.data:
            if isinstance(packets[0], Connect):
                self._log_in(connection, packets[0], withheld)
            packets = self._authentication.take_out(connection, packets, withheld)
        if packets and not self._handle(PacketsReceived(connection.number, packets)):
            connection.abort()

    def _log_in(self, connection: MqttSocket, connect: Connect, withheld: Withheld) -> None:
        """The core never sees what proves a name: what it sees is written down."""
        if connect.authentication_method is not None:
            self._authentication.begin(connection, connect, withheld.data[0])
        elif connect.username is not None and withheld.password is not None:
            password = withheld.password.decode(errors="replace")
            self._doorway.keep_password(connection.number, password)
            self._handle(LoginReceived(connection.number, connect.username))

    def writing_paused(self, connection: MqttSocket, is_paused: bool) -> None:
        self._handle(WritingPaused(connection.number, is_paused))

    def mqtt_closed(self, connection: MqttSocket) -> None:
        self._sockets.pop(connection.number, None)
        self._doorway.forget_password(connection.number)
        self._authentication.forget(connection)
        if connection.fault is not None:
            log.info("closed an MQTT connection: %s", connection.fault)
            self._doorway.count(connection.refusal)
        self._handle(ConnectionClosed(connection.number))
        if not self._sockets:
            self._is_empty.set()

    # --- to the connections ----------------------------------------------------------------

    def carry_out(self, effect: TransmitPackets | PauseReading | CloseConnection) -> None:
        connection = self._sockets.get(effect.connection)
        if connection is None:
            return
        if isinstance(effect, TransmitPackets):
            connection.write(effect.packets)
        elif isinstance(effect, PauseReading):
            connection.pause_reading(effect.is_paused)
        else:
            log.info("closing an MQTT connection: %s", effect.reason)
            connection.close()
