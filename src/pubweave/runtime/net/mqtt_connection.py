"""One TCP connection of an MQTT client, with or without TLS: bytes to packets and back.

Everything that one read brings is one event of the broker; everything that one event causes is one
write. A client that does not read is sent no more publications (the core is told, and drops what it
may drop, and keeps the others within its queue); one that lets answers pile up is cut off.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import mqtt5
import msgspec

from pubweave.core.session.admission import Refusal
from pubweave.model.mqtt_packets import ConnAck, Disconnect, FromClient, Publish, Reason, ToClient
from pubweave.runtime.net.connection import LINGER_S, NumberedSocket
from pubweave.runtime.net.mqtt_packets import received, to_send
from pubweave.wire.mqtt.codec import V5, MqttDecoder, MqttProtocolError, encode

UNREAD_FACTOR = 16
"""A client that lets so many times more answers pile up than what pauses writing to it is cut off.
Publications do not count: a session that is resumed is sent all that was in flight at once."""


class Withheld(NamedTuple):
    """What of a client's packets the core does not see: what it sees is written down."""

    password: bytes | None
    data: tuple[bytes | None, ...]
    """Authentication data, packet by packet; none if there is none at all."""


_NOTHING = Withheld(None, ())


class MqttOwner(Protocol):
    """Who a connection tells what happens to it."""

    def mqtt_opened(self, connection: MqttSocket) -> None: ...

    def packets_received(
        self, connection: MqttSocket, packets: list[FromClient], withheld: Withheld
    ) -> None: ...

    def writing_paused(self, connection: MqttSocket, is_paused: bool) -> None: ...

    def mqtt_closed(self, connection: MqttSocket) -> None: ...


class MqttSocket(NumberedSocket):
    """One connection, numbered like those of native clients."""

    def __init__(
        self,
        owner: MqttOwner,
        *,
        max_packet_bytes: int,
        unread_bytes: int,
        on_lost: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(unread_bytes, on_lost)
        self.fault: str | None = None
        """What was wrong with what the client sent, if anything."""
        self.proof: bytes | None = None
        """What the client is told when it is let in, if it wanted the server to prove itself."""
        self._limit: int | None = None
        """The longest packet that the client takes."""
        self._owner = owner
        self._decoder = MqttDecoder(max_packet_bytes)
        self._is_inside = False
        """The client was told that it is in."""
        self._is_full = False
        """As much is unread as may be."""
        self._answer_bytes = 0
        """Written since then, beside publications."""
        self._packets_seen = 0
        self._unread_seen: int | None = None
        """How much the client had not read yet when it was last looked at, after a hang-up."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._owner.mqtt_opened(self)

    def data_received(self, data: bytes) -> None:
        decoder = self._decoder
        try:
            packets = decoder.feed(data)
        except MqttProtocolError as error:
            if error.packets:
                self._hand_over(error.packets)
            self._refuse(error.reason_code, str(error))
            return
        if packets:
            self._hand_over(packets)

    def _hand_over(self, packets: Sequence[object]) -> None:
        decoder = self._decoder
        values = [received(p, decoder.version, is_bridge=decoder.is_bridge) for p in packets]
        withheld = _NOTHING
        if type(packets[0]) is mqtt5.ConnectPacket:
            self._limit = packets[0].max_packet_size
        if type(packets[0]) is mqtt5.ConnectPacket or mqtt5.AuthPacket in map(type, packets):
            data = tuple(getattr(packet, "authentication_data", None) for packet in packets)
            withheld = Withheld(getattr(packets[0], "password", None), data)
        self._owner.packets_received(self, values, withheld)

    def pause_writing(self) -> None:
        self._is_full = True
        self._owner.writing_paused(self, True)

    def resume_writing(self) -> None:
        self._is_full = False
        self._answer_bytes = 0
        self._owner.writing_paused(self, False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._on_lost()
        self._owner.mqtt_closed(self)

    def check_progress(self, limit_s: float) -> None:
        """Called every ``limit_s``: a packet that was under way already must be complete by now,
        and who is being hung up on must have read some more."""
        transport = self._transport
        if transport is not None and transport.is_closing():
            seen_bytes, self._unread_seen = self._unread_seen, transport.get_write_buffer_size()
            if seen_bytes is not None and self._unread_seen >= seen_bytes:
                self.abort()
            return
        seen, self._packets_seen = self._packets_seen, self._decoder.packets
        if not self._decoder.is_unfinished:
            self._packets_seen = -1
        elif seen == self._decoder.packets:
            self.refusal = Refusal.STALLED
            self.fault = f"a packet took longer than {limit_s:g} s"
            self.abort()

    # --- what the owner wants --------------------------------------------------------------

    def write(self, packets: Sequence[ToClient]) -> None:
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        version = self._decoder.version or V5
        if not self._is_inside and packets and isinstance(packets[0], ConnAck):
            self._is_inside = not packets[0].reason
            if self._is_inside and self.proof is not None:
                first = msgspec.structs.replace(packets[0], authentication_data=self.proof)
                packets = (first, *packets[1:])
        written = [encode(to_send(packet), version) for packet in packets]
        was_full = self._is_full
        transport.write(b"".join(written))
        if was_full:
            pairs = zip(packets, written, strict=True)
            self._answer_bytes += sum(
                len(data) for packet, data in pairs if type(packet) is not Publish
            )
            if self._answer_bytes > UNREAD_FACTOR * self._unread_bytes:
                self.refusal, self.fault = Refusal.UNREAD, "does not read what it is sent"
                self.abort()

    def write_auth(self, reason: int, method: str, data: bytes) -> bool:
        """A step of an authentication; False: the client has no room for it."""
        step = mqtt5.AuthPacket(
            reason_code=mqtt5.AuthReasonCode(reason),
            authentication_method=method,
            authentication_data=data,
        )
        written = encode(step, V5)
        if self._limit is not None and len(written) > self._limit:
            return False
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(written)
        return True

    def pause_reading(self, is_paused: bool) -> None:
        if self._transport is not None and not self._transport.is_closing():
            (self._transport.pause_reading if is_paused else self._transport.resume_reading)()

    def close(self) -> None:
        """Close after what was written has left."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.close()

    def shut_down(self) -> None:
        """The broker stops. Its client may come back: what lasts is in the journal, if anything."""
        if self._is_inside:
            self.write((Disconnect(Reason.SERVER_SHUTTING_DOWN),))
        self.close()
        asyncio.get_running_loop().call_later(LINGER_S, self.abort)

    def _refuse(self, reason: int, text: str) -> None:
        """Bytes that are no MQTT: say so, as far as the client can hear it, and hang up."""
        self.fault = text
        if not self._decoder.version:
            self.close()  # whoever this is, it does not speak MQTT
            return
        last: ToClient = Disconnect(reason, reason_text=text)
        if not self._decoder.packets:
            last = ConnAck(reason, reason_text=text)
        self.write((last,))
        self.close()
