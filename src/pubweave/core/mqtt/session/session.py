"""One MQTT session: what outlives a client's connections.

Its subscriptions, the deliveries on their way to it (`session/inflight`), the packet ids of its QoS
2 publications, its will, and the native client behind it (`session/native_client`). It knows
nothing of other sessions.
"""

from __future__ import annotations

from pubweave.core.config.mqtt import MqttConfig
from pubweave.core.mqtt.protocol.properties import (
    EXPIRY_S,
    RETAIN,
    attribute_bytes,
    attributes_of,
    is_expired,
    is_retained,
    qos_of,
)
from pubweave.core.mqtt.session.connection import MqttConnection, MqttError
from pubweave.core.mqtt.session.deduplicator import SessionDeduplicator
from pubweave.core.mqtt.session.inflight import Delivery, InflightQueue, QueueBudget
from pubweave.core.mqtt.session.native_client import NativeSession
from pubweave.core.mqtt.session.shared_groups import SharedGroups
from pubweave.core.mqtt.session.subscriptions import SessionSubscriptions
from pubweave.core.session.access import Access
from pubweave.model.filters.filter import topic_filter
from pubweave.model.ids import BrokerId, ClientId
from pubweave.model.mqtt_packets import (
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    Reason,
    Will,
)
from pubweave.model.publications import Publication

TOPICS_MAX = 10_000
"""How many topics of a client are advertised one by one; beyond that the oldest is withdrawn."""
FRAME_BYTES_MAX = (1 << 20) - (1 << 13)
"""The largest publication between brokers, with room for the rest of a frame (`wire.codec`)."""


class MqttSession:
    """The state of one session; ``name`` is the id of its native client."""

    def __init__(
        self,
        name: str,
        client_id: str,
        user: str,
        config: MqttConfig,
        budget: QueueBudget,
        access: Access,
    ) -> None:
        """``budget``: of the queues of all sessions."""
        self.name = name
        self._budget = budget
        self._access = access
        self.client_id = client_id
        self.user = user
        self.config = config
        self.end: NativeSession | None = None
        self.connection: MqttConnection | None = None
        self.subscriptions = SessionSubscriptions()
        self.deduplicator = SessionDeduplicator()
        self.inflight = InflightQueue(config.queue_messages, config.queue_bytes, budget)
        self.will: Will | None = None
        self.will_at: float | None = None
        """When the will is to be published; None while the client is connected."""
        self.expiry_s = 0
        self.expires_at: float | None = None
        """When the session expires; None while its client is connected."""
        self.is_bridge = False
        self.has_published = False
        """Its client has published; a bridge that has not only receives."""
        self.qos0_dropped = 0
        """QoS 0 publications that the client did not read fast enough for."""
        self.since = 0.0
        """When a client last connected to it."""
        self.previous_gateway: BrokerId = ""
        """The gateway that had it before; a claim that names that one is meant for this one."""
        self.routes_whole_topics = False
        """The overlay routes by whole topics only, and accepts no other advertisements."""
        self.advertises_all = False
        self.is_confirmed = True
        """False while its client may not know that an earlier session, here or at another gateway,
        has ended: ConnAck can get lost. Until the client sends a packet, ConnAck says again that
        no session is present, and the session is empty."""
        self.is_announced = False
        """Other gateways know that it is here."""
        self.held: list[Publication] | None = None
        """Publications held during its handover; None if there is none."""
        self._held_bytes = 0
        self._incoming: dict[int, int] = {}
        """QoS 2 publications of the client by packet id, until PubRel: 0 or a reason code."""
        self._unanswered = 0
        """QoS 1 publications of the client that are not answered yet."""
        self.advertised: dict[str, str] = {}
        """The advertisements of single topics; those topics were checked."""

    # --- publications of the client --------------------------------------------------------

    def publish(
        self, packet: Publish, topic: str, now: float, *, is_only_answered: bool = False
    ) -> None:
        """Publish to the overlay; the answer follows when the broker has accepted it. With
        ``is_only_answered`` nothing is published, as for an echo.

        MqttError if the client exceeds its receive maximum."""
        end, number, qos = self.end, packet.packet_id or 0, packet.qos
        assert end is not None, "a session is attached before it is used"
        if qos == 2 and number in self._incoming:
            due = [p.answer for p in end.pending_replies if isinstance(p.answer, PubRec)]
            if all(answer.packet_id != number for answer in due):
                self._answer(PubRec(number, self._incoming[number]))
            return
        if qos and self._unanswered + len(self._incoming) >= self.config.receive_max:
            self._check_receive_max()
        publication = None
        if not is_only_answered:
            publication = self._publish_to_overlay(end, packet, topic, now)
            if publication is None:
                text = "its user properties are more than a link can carry"
                self.refuse(packet, Reason.QUOTA_EXCEEDED, text)
                return
        answer: PubAck | PubRec | None = None
        if qos == 1:
            answer = PubAck(number)
            self._unanswered += 1
        elif qos == 2:
            answer = PubRec(number)
            self._incoming[number] = 0
        if answer is not None or (packet.retain and not is_only_answered):
            end.reply_later(answer, publication)

    def is_duplicate(self, packet: Publish) -> bool:
        """Whether a QoS 2 publication was received before and is not released yet."""
        return packet.qos == 2 and packet.packet_id in self._incoming

    def refuse(self, packet: Publish, reason: Reason, text: str) -> None:
        """Answer a publication with an error."""
        if packet.qos and self.connection is not None:
            kind = PubAck if packet.qos == 1 else PubRec
            self._answer(kind(packet.packet_id or 0, reason, self.connection.reason_text(text)))

    def _check_receive_max(self) -> None:
        """MQTT 3.1.1 has no limit; such clients are slowed down by not being read."""
        if self.connection is not None and self.connection.is_v5:
            most = self.config.receive_max
            raise MqttError(Reason.RECEIVE_MAX_EXCEEDED, f"more than {most} are under way")

    def publish_will(self, now: float) -> None:
        will, self.will, self.will_at = self.will, None, None
        if will is not None and self.end is not None:
            publication = self._publish_to_overlay(self.end, will, will.topic, now)
            if will.retain and publication is not None:
                self.end.reply_later(None, publication)

    def _publish_to_overlay(
        self, end: NativeSession, packet: Publish | Will, topic: str, now: float
    ) -> Publication | None:
        """None if it does not fit into a frame between brokers."""
        attributes = attributes_of(packet, reads_json=self.config.reads_json)
        room = FRAME_BYTES_MAX - len(packet.payload)
        if len(attributes) > 1 and attribute_bytes(attributes) > room:
            attributes = attributes_of(packet, reads_json=False)
            if attribute_bytes(attributes) > room:
                return None
        if topic not in self.advertised and not self.advertises_all:
            self._advertise(end, topic)
        return end.publish(topic, attributes, packet.payload, now)

    def _advertise(self, client: NativeSession, topic: str) -> None:
        """Advertise what this client publishes: single topics at first, then all that it may
        publish."""
        rights = self._access.publish_rights(self.user)
        if self.routes_whole_topics and len(self.advertised) >= TOPICS_MAX:
            client.unadvertise(self.advertised.pop(next(iter(self.advertised))))
        if (
            self.routes_whole_topics
            or len(self.advertised) < self.config.topics_advertised
            or not rights
        ):
            self.advertised[topic] = client.advertise(topic_filter(topic))
            return
        self.advertises_all = True
        for right in rights:
            client.advertise(right)
        # Without an advertisement a forbidden topic would be refused for the wrong reason.
        if not any(right.matches(_bare(topic)) for right in rights):
            client.advertise(topic_filter(topic))

    def answered(self, answer: PubAck | PubRec, refusal: str | None) -> None:
        """The broker has accepted or refused a publication: answer it."""
        is_first = isinstance(answer, PubAck)
        self._unanswered -= is_first
        if refusal is not None:
            if not is_first:
                self._incoming.pop(answer.packet_id, None)
            text = None if self.connection is None else self.connection.reason_text(refusal)
            answer = type(answer)(answer.packet_id, int(Reason.NOT_AUTHORIZED), text)
        if self.connection is not None:
            self.connection.send(answer)

    @property
    def is_drained(self) -> bool:
        """Whether nothing is in flight that would be repeated on the next connection, or lost with
        the session."""
        is_kept = self.expiry_s or not (self.inflight.numbered or self.inflight.waiting)
        return bool(is_kept) and not self._unanswered and not self._incoming

    def connection_lost(self) -> None:
        """The client has disconnected; it will resend what was not answered."""
        self.connection = None
        self._unanswered = 0
        if self.end is not None:
            self.end.connection_lost()

    def released(self, packet_id: int) -> None:
        """PubRel: the client will not resend that publication."""
        known = self._incoming.pop(packet_id, None)
        self._answer(PubComp(packet_id, 0 if known is not None else Reason.PACKET_ID_NOT_FOUND))

    def incoming(self) -> tuple[tuple[int, int], ...]:
        """The packet ids of QoS 2 publications that the client has not released."""
        return tuple(self._incoming.items())

    def set_incoming(self, numbers: tuple[tuple[int, int], ...]) -> None:
        self._incoming = dict(numbers)

    # --- publications for the client -------------------------------------------------------

    def deliver(self, publication: Publication, groups: SharedGroups, now: float) -> None:
        """Deliver a publication once for all subscriptions that match it, with the best of their
        QoS; for a shared one, if this session is the chosen member of its group."""
        subscriptions = self.subscriptions
        found = subscriptions.matching(publication)
        if subscriptions.shared:
            found = groups.chosen_for(self.name, publication, found)
        may_exclude = subscriptions.without_own or self.is_bridge
        if may_exclude and session_of(publication.publisher) == self.name:
            found = tuple(s for s in found if not (s.options.no_local or self.is_bridge))
        if not found:
            return
        qos = self.qos_for(publication, max([s.options.qos for s in found]))
        retain = RETAIN in publication.attributes and (
            is_retained(publication)
            and (self.is_bridge or any(s.options.retain_as_published for s in found))
        )
        ids = tuple([s.subscription_id for s in found if s.subscription_id is not None])
        is_marked = subscriptions.of_bridges > 0 and any(s.is_of_bridge for s in found)
        self.send(Delivery(publication, qos, retain, ids, is_marked), now)

    def qos_for(self, publication: Publication, wanted: int) -> int:
        """The QoS of a delivery where ``wanted`` was subscribed to."""
        return wanted if self.config.upgrades_qos else min(wanted, qos_of(publication))

    def send(self, delivery: Delivery, now: float) -> None:
        """Send or queue a delivery; QoS 0 is dropped for a client that is away or too slow."""
        connection = self.connection
        if delivery.qos:
            if self.inflight.put(delivery):
                self.pump(now)
            else:
                self._budget.overrun[self.name] = None
        elif connection is not None and not is_expired(delivery.publication, now):
            if connection.is_slow:
                self.qos0_dropped += 1
                return
            packet = connection.packet(delivery, None, now)
            if packet is not None:
                connection.send(packet)

    def gap_seen(self, publication: Publication) -> None:
        """Something is missing in front of a publication: with QoS 1 or 2 the session ends, as one
        does that lost it by itself."""
        found = self.subscriptions.matching(publication)
        if any(self.qos_for(publication, s.options.qos) for s in found):
            self.inflight.is_overrun = True
            self._budget.overrun[self.name] = None

    def hold(self, publication: Publication) -> None:
        """Hold a publication until the handover has delivered what precedes it."""
        assert self.held is not None, "the session is on its way here"
        self.held.append(publication)
        self._held_bytes += publication.size_bytes
        config = self.config
        if len(self.held) > config.queue_messages or self._held_bytes > config.queue_bytes:
            self._budget.overrun[self.name] = None

    def pump(self, now: float) -> None:
        """Send what waits, up to the client's receive maximum; expired ones use up an id, too."""
        connection = self.connection
        if connection is None or connection.connect is None or connection.is_slow:
            return
        inflight, receive_max = self.inflight, connection.connect.receive_max
        while inflight.waiting and (one := inflight.next(receive_max)) is not None:
            packet = None
            publication = one.delivery.publication
            if EXPIRY_S not in publication.attributes or not is_expired(publication, now):
                packet = connection.packet(one.delivery, one.packet_id, now)
            if packet is None:
                inflight.discard(one.packet_id)
            else:
                connection.send(packet)

    def resend(self, now: float) -> None:
        """On a new connection: send what was in flight again, then what waits."""
        connection = self.connection
        if connection is None:
            return
        for sent in list(self.inflight.numbered.values()):
            if sent.is_released:
                connection.send(PubRel(sent.packet_id))
                continue
            packet = connection.packet(sent.delivery, sent.packet_id, now, is_duplicate=True)
            if packet is None:
                self.inflight.discard(sent.packet_id)
            else:
                connection.send(packet)
        self.pump(now)

    def acknowledged(self, packet: PubAck | PubRec | PubComp, now: float) -> None:
        """PubAck, PubRec or PubComp of the client.

        MqttError for a packet that is not expected for its id."""
        inflight = self.inflight
        known = inflight.numbered.get(packet.packet_id)
        expected = None if known is None else known.expected
        is_repeated = isinstance(packet, PubRec) and expected is PubComp
        if expected is not None and not isinstance(packet, expected) and not is_repeated:
            text = f"{type(packet).__name__} for packet {packet.packet_id} is not what is due"
            raise MqttError(Reason.PROTOCOL_ERROR, text)
        if isinstance(packet, PubRec) and packet.reason < Reason.UNSPECIFIED_ERROR:
            is_known = inflight.received(packet.packet_id)
            self._answer(PubRel(packet.packet_id, 0 if is_known else Reason.PACKET_ID_NOT_FOUND))
        elif not is_repeated:
            inflight.discard(packet.packet_id)
        if inflight.waiting:
            self.pump(now)

    # --- internals -------------------------------------------------------------------------

    def _answer(self, packet: PubAck | PubRec | PubRel | PubComp) -> None:
        if self.connection is not None:
            self.connection.send(packet)


def native_id(session: str, broker: BrokerId) -> ClientId:
    """The id of a session's native client; it differs from broker to broker.

    >>> native_id("mqtt:ann", "b1")
    'mqtt:ann@b1'
    """
    return f"{session}@{broker}"


def session_of(publisher: ClientId) -> str:
    """The session of a gateway's native client; empty for another client.

    >>> session_of("mqtt:ann@b1")
    'mqtt:ann'
    """
    return publisher.rpartition("@")[0]


def _bare(topic: str) -> Publication:
    return Publication("", 0, topic, {}, b"", 0.0)
