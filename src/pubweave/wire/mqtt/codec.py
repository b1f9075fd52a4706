"""MQTT packets to bytes and back, for versions 5.0, 3.1.1 and 3.1: incremental, bounded, no I/O.

Packets are values of the package `mqtt5` for both versions, so that whoever handles them needs to
know the version only where the two differ in meaning. `mqtt/v3` reads and writes 3.1.1, and 3.1,
which old devices speak and which hardly differs; `mqtt/v5` checks what `mqtt5` does not.

Nothing but MqttProtocolError comes out of a decoder, whatever goes in.
"""

from __future__ import annotations

import mqtt5

from pubweave.wire.mqtt.fields import (
    PACKET_TOO_LARGE,
    PROTOCOL_ERROR,
    UNSUPPORTED_PROTOCOL_VERSION,
    FieldReader,
    MqttProtocolError,
    PacketType,
    malformed,
)
from pubweave.wire.mqtt.v3 import decode_v3, encode_v3
from pubweave.wire.mqtt.v5 import decode_v5

__all__ = ["V3", "V3_1", "V5", "MqttDecoder", "MqttProtocolError", "encode"]

V3_1, V3, V5 = 3, 4, 5
"""The protocol levels of 3.1, 3.1.1 and 5.0, as CONNECT names them."""
_VERSIONS = {("MQIsdp", 3): V3_1, ("MQTT", 4): V3, ("MQTT", 5): V5}
DEFAULT_MAX_PACKET_BYTES = 1 << 20
_BRIDGE = 0x80
_CONNECT_FIRST = PacketType.CONNECT << 4
# First bytes that a packet can have: PUBLISH is never of QoS 3, nor repeated at QoS 0.
_PUBLISH_FIRST = {first for first in range(0x30, 0x40) if first & 6 != 6 and first & 0xE != 8}
_EITHER_FIRST = _PUBLISH_FIRST | {0x40, 0x50, 0x62, 0x70}
_CLIENT_FIRST = frozenset(_EITHER_FIRST | {0x82, 0xA2, 0xC0, 0xE0})
# In 3.1 whatever asks for an answer may be marked as said again.
_AGAIN = 8
_OLD_CLIENT_FIRST = frozenset(_CLIENT_FIRST | {0x62 | _AGAIN, 0x82 | _AGAIN, 0xA2 | _AGAIN})
_SERVER_FIRST = frozenset(_EITHER_FIRST | {0x20, 0x90, 0xB0, 0xD0})
_AUTH_FIRST, _DISCONNECT_FIRST = 0xF0, 0xE0


def encode(packet: mqtt5.Packet, version: int) -> bytes:
    """One packet as bytes of a version. O(bytes).

    3.1.1 and 3.1 know neither AUTH nor a reason to disconnect: then b"", nothing to send.
    ValueError: a packet that MQTT has no room for.

    >>> encode(mqtt5.PubAckPacket(7), V5).hex(" ")
    '40 02 00 07'
    """
    if version == V3_1 and type(packet) is mqtt5.ConnAckPacket:
        # That the session is there is a word of 3.1.1.
        packet = mqtt5.ConnAckPacket(reason_code=packet.reason_code)
    if version != V5:
        return encode_v3(packet)
    # mqtt5 panics beyond what a length can say; only a payload can bring a packet there.
    if type(packet) is mqtt5.PublishPacket and len(packet.payload) > 0xF000000:
        raise ValueError(f"a payload of {len(packet.payload)} bytes is beyond what MQTT can carry")
    return packet.write()


class MqttDecoder:
    """Bytes in, packets out, whatever the pieces they come in.

    >>> decoder = MqttDecoder(1000)
    >>> decoder.feed(encode(mqtt5.ConnectPacket("me"), V5)[:-1])
    []
    >>> [packet.client_id for packet in decoder.feed(b"e")], decoder.version
    (['me'], 5)
    """

    def __init__(
        self, max_packet_bytes: int = DEFAULT_MAX_PACKET_BYTES, version: int | None = None
    ) -> None:
        """For a server, whose client's CONNECT says the version; for a client if it is given."""
        self.max_packet_bytes = max_packet_bytes
        """The longest packet that is taken, its header included; can be changed at any time."""
        self.version = version or 0
        """`V3_1`, `V3` or `V5`; 0 until a CONNECT is there. After a CONNECT of some other version
        the one whose CONNACK the client can best be refused with."""
        self.is_bridge = False
        """Whether the client is a broker that does not want its own publications back: the
        highest bit of the protocol level, which mosquitto's bridges set."""
        self.packets = 0
        """How many packets are complete so far."""
        self._is_from_client = version is None
        self._first_bytes = frozenset({_CONNECT_FIRST})
        if version is not None:
            self._first_bytes = _SERVER_FIRST
            if version == V5:
                self._first_bytes |= {_AUTH_FIRST, _DISCONNECT_FIRST}
        self._unfinished = bytearray()
        self._wanted_bytes = 0

    @property
    def is_unfinished(self) -> bool:
        """Whether a packet has begun whose end is missing."""
        return bool(self._unfinished)

    def feed(self, data: bytes) -> list[mqtt5.Packet]:
        """The packets that these bytes complete. O(bytes): pieces are joined once.

        MqttProtocolError: the bytes are not MQTT; its ``packets`` came before them and are good.
        Then the decoder is done. A packet that is too large, or cannot come now, is refused as
        soon as its header is there."""
        if self._unfinished:
            self._unfinished += data
            if len(self._unfinished) < self._wanted_bytes:
                return []
            data = bytes(self._unfinished)
            self._unfinished.clear()
        packets: list[mqtt5.Packet] = []
        try:
            offset, wanted = self._read_all(data, packets)
        except MqttProtocolError as error:
            error.packets = packets
            raise
        finally:
            self.packets += len(packets)
        self._unfinished += data[offset:]
        self._wanted_bytes = wanted
        return packets

    def _read_all(self, data: bytes, packets: list[mqtt5.Packet]) -> tuple[int, int]:
        """How many bytes are done with, and how many the packet behind them needs."""
        view = memoryview(data)
        offset, end = 0, len(data)
        while offset < end:
            first = data[offset]
            if first not in self._first_bytes:
                raise _wrong_first_byte(first, is_connected=bool(self.version))
            start = offset + 2
            if start > end:
                return offset, 2
            length = data[offset + 1]
            if length >= 0x80:
                found = _long_length(data, offset)
                if found is None:
                    return offset, end - offset + 1
                length, start = found
            stop = start + length
            if stop - offset > self.max_packet_bytes:
                raise MqttProtocolError(
                    PACKET_TOO_LARGE,
                    f"a packet of {stop - offset} bytes; allowed are {self.max_packet_bytes}",
                )
            if stop > end:
                return offset, stop - offset
            packets.append(self._decode(first, data[start:stop], view[offset:stop]))
            offset = stop
        return offset, 0

    def _decode(self, first: int, body: bytes, packet: memoryview) -> mqtt5.Packet:
        if first == _CONNECT_FIRST:
            packet = self._take_version(body, packet)
        if self.version == V5:
            return decode_v5(first, body, packet, is_from_client=self._is_from_client)
        return decode_v3(first, body)

    def _take_version(self, body: bytes, packet: memoryview) -> memoryview:
        """3.1.2.1, 3.1.2.2: the protocol's name and level. The packet, as `mqtt5` knows it."""
        reader = FieldReader(body)
        name, level = reader.text(), reader.byte()
        self.is_bridge = bool(level & _BRIDGE)
        level &= ~_BRIDGE
        known = _VERSIONS.get((name, level))
        self.version = known or (V5 if name == "MQTT" and level >= V5 else V3)
        if known is None:
            raise MqttProtocolError(
                UNSUPPORTED_PROTOCOL_VERSION,
                f"protocol {name!r} of level {level}; known are 'MQTT' 5 (5.0) and 4 (3.1.1), "
                "and 'MQIsdp' 3 (3.1)",
            )
        self._first_bytes = _OLD_CLIENT_FIRST if known == V3_1 else _CLIENT_FIRST
        if known == V5:
            self._first_bytes |= {_AUTH_FIRST}
        if self.is_bridge:
            plain = bytearray(packet)
            plain[len(packet) - len(body) + reader.at - 1] = level
            return memoryview(plain)
        return packet


def _long_length(data: bytes, offset: int) -> tuple[int, int] | None:
    """2.1.4: a remaining length of several bytes, and where the body begins; None: not all of it
    is there."""
    reader = FieldReader(data[offset + 1 : offset + 5])
    if reader.end < 4 and all(digit >= 0x80 for digit in reader.data):
        return None
    length = reader.variable_integer()
    return length, offset + 1 + reader.at


def _wrong_first_byte(first: int, *, is_connected: bool) -> MqttProtocolError:
    if not is_connected:
        return MqttProtocolError(PROTOCOL_ERROR, f"{first:#04x} is not the beginning of a CONNECT")
    if any(first >> 4 == known >> 4 for known in _CLIENT_FIRST):
        return malformed(f"{first:#04x}: flags that this packet cannot have")
    return MqttProtocolError(PROTOCOL_ERROR, f"{first:#04x}: a packet that cannot come now")
