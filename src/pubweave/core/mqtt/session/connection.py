"""One connection of an MQTT client: what was agreed on it, and what goes out over it.

Topic aliases, packet sizes and keep-alive end with the connection; everything that outlives it is
in `session/session`.
"""

from __future__ import annotations

import msgspec

from pubweave.core.mqtt.protocol.bridge_marks import marked
from pubweave.core.mqtt.protocol.packet_size import fitting, size_of
from pubweave.core.mqtt.protocol.properties import content_of
from pubweave.core.mqtt.session.inflight import Delivery
from pubweave.core.vocabulary.events import ConnectionId
from pubweave.model.mqtt_packets import (
    NO_CONTENT,
    VERSION_5,
    Connect,
    Content,
    FromClient,
    Publish,
    Reason,
    ToClient,
)

KEEP_ALIVE_FACTOR = 1.5
"""How much longer than it promised a client may be silent (MQTT 5.0, 3.1.2.10)."""


class MqttError(Exception):
    """A client broke the protocol, or asked for what it cannot have; its connection is closed."""

    def __init__(self, reason: int, text: str, server_reference: str | None = None) -> None:
        super().__init__(text)
        self.reason = reason
        self.server_reference = server_reference


class MqttConnection:
    """The state of one connection. ``connect`` is None until the client has said it."""

    def __init__(
        self, number: ConnectionId, now: float, speaking: dict[ConnectionId, None]
    ) -> None:
        """``speaking`` notes who has packets to send."""
        self.number = number
        self._speaking = speaking
        self.heard_at = now
        self.connect: Connect | None = None
        self.session = ""
        """The name of the session that it is attached to; empty: none yet."""
        self.early: list[FromClient] = []
        """What the client said before it was let in."""
        self.is_accepted = False
        """The client was told that it is in."""
        self.keep_alive_s = 0
        self.mark = ""
        """Tells bridges from which door a publication comes (`protocol/bridge_marks`)."""
        self.is_slow = False
        """The client does not read as fast as it is written to."""
        self.is_paused = False
        """The client is not read from, because the overlay cannot take more."""
        self._out: list[ToClient] = []
        self._aliases_in: dict[int, str] = {}
        self._aliases_out: dict[str, int] = {}
        self._alias_max = 0
        self._limit: int | None = None
        """The longest packet that the client takes."""

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
        self._limit = connect.max_packet_bytes
        self._alias_max = min(connect.topic_alias_max, alias_max)

    def say(self, packet: ToClient) -> bool:
        """Send a packet at the end of this event; False: it is larger than the client takes."""
        fitted = fitting(packet, self._limit) if self._limit is not None else packet
        if fitted is None:
            return False
        if not self._out:
            self._speaking[self.number] = None
        self._out.append(fitted)
        return True

    def said(self) -> list[ToClient]:
        """The packets of this event."""
        packets, self._out = self._out, []
        return packets

    def problem(self, text: str) -> str | None:
        """A reason in words, where the client wants to hear it."""
        return text if self.connect is None or self.connect.wants_problems else None

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
        self, parcel: Delivery, packet_id: int | None, now: float, *, is_duplicate: bool = False
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
            self._content(parcel, now) if self.is_v5 else NO_CONTENT,
            parcel.subscription_ids if self.is_v5 else (),
        )
        if self._alias_max:
            packet = self._aliased(packet)
        return packet if self._fits(packet) else None

    def _content(self, parcel: Delivery, now: float) -> Content:
        content = content_of(parcel.publication, now)
        return marked(content, parcel.publication, self.mark) if parcel.is_marked else content

    def _fits(self, packet: Publish) -> bool:
        return self._limit is None or size_of(packet) <= self._limit

    def _aliased(self, packet: Publish) -> Publish:
        """With an alias in the place of the topic, or beside it for the first time, if that fits:
        an alias takes three bytes."""
        alias = self._aliases_out.get(packet.topic)
        if alias is not None:
            aliased = msgspec.structs.replace(packet, topic="", topic_alias=alias)
            return aliased if self._fits(aliased) else packet
        alias = len(self._aliases_out) + 1
        if alias > self._alias_max:
            return packet
        aliased = msgspec.structs.replace(packet, topic_alias=alias)
        if not self._fits(aliased):
            return packet
        self._aliases_out[packet.topic] = alias
        return aliased
