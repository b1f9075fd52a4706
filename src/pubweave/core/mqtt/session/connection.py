"""One connection of an MQTT client: the agreed options and outgoing packets.

Topic aliases, packet sizes and keep-alive end with the connection; everything that outlives it is
in `session/session`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

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
    FromClient,
    Publish,
    Reason,
    ToClient,
)

if TYPE_CHECKING:
    from pubweave.core.mqtt.session.session import MqttSession

KEEP_ALIVE_FACTOR = 1.5
"""How much longer than it promised a client may be silent (MQTT 5.0, 3.1.2.10)."""


class MqttError(Exception):
    """A client broke the protocol or asked for too much; its connection is closed."""

    def __init__(self, reason: int, text: str, server_reference: str | None = None) -> None:
        super().__init__(text)
        self.reason = reason
        self.server_reference = server_reference


class MqttConnection:
    """The state of one connection. ``connect`` is None until the client has sent it."""

    def __init__(
        self, number: ConnectionId, now: float, with_output: dict[MqttConnection, None]
    ) -> None:
        """``with_output`` notes the connections that have packets to send."""
        self.number = number
        self._with_output = with_output
        self.heard_at = now
        self.connect: Connect | None = None
        self.is_v5 = False
        self.session: MqttSession | None = None
        """The session that it is attached to."""
        self.early: list[FromClient] = []
        """Packets that the client sent before its Connect was accepted."""
        self.is_accepted = False
        """ConnAck was sent and accepts the client."""
        self.is_closing = False
        """It is closed at the end of this event."""
        self.keep_alive_s = 0
        self.mark = ""
        """The gateway's mark for publications sent to bridges (`protocol/bridge_marks`)."""
        self.is_slow = False
        """The client does not read as fast as it is written to."""
        self.is_paused = False
        """The client is not read from, because the overlay is congested."""
        self.output: list[ToClient] = []
        """The packets to send at the end of this event."""
        self._aliases_in: dict[int, str] = {}
        self._aliases_out: dict[str, int] = {}
        self._alias_max = 0
        self._limit: int | None = None
        """The longest packet that the client accepts."""

    @property
    def silent_at(self) -> float | None:
        """When the keep-alive expires; None if there is none."""
        if not self.keep_alive_s:
            return None
        return self.heard_at + KEEP_ALIVE_FACTOR * self.keep_alive_s

    def begin(self, connect: Connect, alias_max: int) -> None:
        self.connect = connect
        self.is_v5 = connect.version == VERSION_5
        self._limit = connect.max_packet_bytes
        self._alias_max = min(connect.topic_alias_max, alias_max)

    def send(self, packet: ToClient) -> bool:
        """Send a packet at the end of this event; False if the client does not accept its size."""
        fitted = fitting(packet, self._limit) if self._limit is not None else packet
        if fitted is None:
            return False
        if not self.output:
            self._with_output[self] = None
        self.output.append(fitted)
        return True

    def reason_text(self, text: str) -> str | None:
        """A reason string, if the client wants any."""
        return text if self.connect is None or self.connect.wants_problems else None

    # --- aliases ---------------------------------------------------------------------------

    def topic_of(self, packet: Publish, alias_max: int) -> str:
        """The topic of a packet; MqttError for an unknown alias."""
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
        self, delivery: Delivery, packet_id: int | None, now: float, *, is_duplicate: bool = False
    ) -> Publish | None:
        """The packet of a delivery; None if the client does not accept its size."""
        publication = delivery.publication
        content = NO_CONTENT
        if self.is_v5:
            content = content_of(publication, now)
            if delivery.is_marked:
                content = marked(content, publication, self.mark)
        packet = Publish(
            publication.topic,
            publication.payload,
            delivery.qos,
            delivery.retain,
            packet_id,
            is_duplicate,
            content,
            delivery.subscription_ids if self.is_v5 else (),
        )
        if self._alias_max:
            packet = self._aliased(packet)
        return packet if self._limit is None or size_of(packet) <= self._limit else None

    def _fits(self, packet: Publish) -> bool:
        return self._limit is None or size_of(packet) <= self._limit

    def _aliased(self, packet: Publish) -> Publish:
        """With an alias instead of the topic, or beside it the first time, if that fits: an alias
        takes three bytes."""
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
