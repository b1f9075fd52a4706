"""One connection of an MQTT client: what was agreed on it, and what goes out over it.

Topic aliases, packet sizes and keep-alive end with the connection; everything that outlives it is
in `mqtt_session`.
"""

from __future__ import annotations

import msgspec

from pubweave.core.events import ConnectionId
from pubweave.core.mqtt_content import content_of
from pubweave.core.mqtt_outbox import Parcel
from pubweave.model.mqtt_packets import (
    NO_CONTENT,
    VERSION_5,
    ConnAck,
    Connect,
    Content,
    FromClient,
    Publish,
    Reason,
    ToClient,
)

ANSWER_BYTES = 64
"""No answer is longer than this, but for what it says in words."""
KEEP_ALIVE_FACTOR = 1.5
"""How much longer than it promised a client may be silent (MQTT 5.0, 3.1.2.10)."""


class MqttError(Exception):
    """A client broke the protocol, or asked for what it cannot have; its connection is closed."""

    def __init__(self, reason: int, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class MqttConnection:
    """The state of one connection. ``connect`` is None until the client has said it."""

    def __init__(
        self, number: ConnectionId, now: float, speaking: dict[ConnectionId, None]
    ) -> None:
        """``speaking`` notes who has packets to send."""
        self.number = number
        self._speaking = speaking
        self.opened_at = self.heard_at = now
        self.connect: Connect | None = None
        self.session = ""
        """The name of the session that it is attached to; empty: none yet."""
        self.early: list[FromClient] = []
        """What the client said before it was let in."""
        self.is_accepted = False
        """The client was told that it is in."""
        self.keep_alive_s = 0
        self.is_slow = False
        """The client does not read as fast as it is written to."""
        self.is_paused = False
        """The client is not read from, because the overlay cannot take more."""
        self._out: list[ToClient] = []
        self._aliases_in: dict[int, str] = {}
        self._aliases_out: dict[str, int] = {}
        self._alias_max = 0

    @property
    def is_v5(self) -> bool:
        return self.connect is not None and self.connect.version == VERSION_5

    @property
    def silent_at(self) -> float | None:
        """When the client will have been silent for too long; None: it may be for ever."""
        if not self.keep_alive_s:
            return None
        return self.heard_at + KEEP_ALIVE_FACTOR * self.keep_alive_s

    def begin(self, connect: Connect, alias_max: int) -> None:
        self.connect = connect
        self._alias_max = min(connect.topic_alias_max, alias_max)

    def say(self, packet: ToClient) -> None:
        """Send a packet at the end of this event."""
        if not self._out:
            self._speaking[self.number] = None
        self._out.append(packet)

    def said(self) -> list[ToClient]:
        """The packets of this event."""
        packets, self._out = self._out, []
        return packets

    def has_room_for(self, answer: ConnAck) -> bool:
        """[MQTT-3.1.2-24]: nothing longer than the client takes may be sent."""
        limit = None if self.connect is None else self.connect.max_packet_bytes
        return limit is None or connack_bytes(answer) <= limit

    def problem(self, text: str) -> str | None:
        """A reason in words, where the client wants to hear it and has room for it."""
        connect = self.connect
        if connect is None:
            return text
        limit = connect.max_packet_bytes
        is_short = limit is None or _utf8(text) + ANSWER_BYTES <= limit
        return text if connect.wants_problems and is_short else None

    # --- aliases ---------------------------------------------------------------------------

    def topic_of(self, packet: Publish, alias_max: int) -> str:
        """The topic that a packet means; MqttError for an alias that says nothing."""
        alias = packet.topic_alias
        if alias is None:
            return packet.topic
        if not 0 < alias <= alias_max:
            raise MqttError(Reason.TOPIC_ALIAS_INVALID, f"topic aliases go from 1 to {alias_max}")
        if packet.topic:
            self._aliases_in[alias] = packet.topic
            return packet.topic
        topic = self._aliases_in.get(alias)
        if topic is None:
            raise MqttError(Reason.PROTOCOL_ERROR, f"topic alias {alias} was never set")
        return topic

    # --- publications to the client --------------------------------------------------------

    def packet(
        self, parcel: Parcel, packet_id: int | None, now: float, *, is_duplicate: bool = False
    ) -> Publish | None:
        """A parcel as this client is to get it; None: it is larger than the client takes."""
        publication = parcel.publication
        packet = Publish(
            publication.topic,
            publication.payload,
            parcel.qos,
            parcel.retain,
            packet_id,
            is_duplicate,
            content_of(publication, now) if self.is_v5 else NO_CONTENT,
            parcel.subscription_ids if self.is_v5 else (),
        )
        limit = self.connect.max_packet_bytes if self.connect is not None else None
        if limit is not None and packet_bytes(packet) > limit:
            return None
        return self._aliased(packet) if self._alias_max else packet

    def _aliased(self, packet: Publish) -> Publish:
        alias = self._aliases_out.get(packet.topic)
        if alias is not None:
            return msgspec.structs.replace(packet, topic="", topic_alias=alias)
        if len(self._aliases_out) >= self._alias_max:
            return packet
        alias = self._aliases_out[packet.topic] = len(self._aliases_out) + 1
        return msgspec.structs.replace(packet, topic_alias=alias)


def packet_bytes(packet: Publish) -> int:
    """The size of a version 5 Publish with an alias, at most. O(user properties)."""
    properties = _content_bytes(packet.content) + 3 + 5 * len(packet.subscription_ids)
    rest = 2 + _utf8(packet.topic) + (2 if packet.qos else 0) + len(packet.payload)
    rest += properties + _length_bytes(properties)
    return 1 + _length_bytes(rest) + rest


def connack_bytes(answer: ConnAck) -> int:
    """The size of a version 5 ConnAck, at most."""
    size = 16 + 5 * (answer.session_expiry_s is not None) + 2 * (not answer.takes_wildcards)
    size += 3 * (answer.server_keep_alive_s is not None)
    for text in (answer.assigned_client_id, answer.reason_text, answer.server_reference):
        size += 0 if text is None else 3 + _utf8(text)
    return size


def _content_bytes(content: Content) -> int:
    size = 2 * content.is_text + 5 * (content.expiry_s is not None)
    for text in (content.content_type, content.response_topic):
        size += 0 if text is None else 3 + _utf8(text)
    size += 0 if content.correlation is None else 3 + len(content.correlation)
    return size + sum(5 + _utf8(name) + _utf8(value) for name, value in content.user_properties)


def _utf8(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())


def _length_bytes(length: int) -> int:
    return 1 + (length > 127) + (length > 16_383) + (length > 2_097_151)
