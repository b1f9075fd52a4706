"""One MQTT session: what outlives a client's connections.

Its subscriptions, the publications on their way to it (`session/inflight`), the numbers of those
that came from it at QoS 2, its will, and the native client behind it (`session/native_client`). It
knows nothing of other sessions.
"""

from __future__ import annotations

from collections import deque

import msgspec

from pubweave.core.config.mqtt import MqttConfig
from pubweave.core.mqtt.protocol.properties import (
    attributes_of,
    is_expired,
    is_retained,
    quality_of,
    weight,
)
from pubweave.core.mqtt.session.connection import MqttConnection, MqttError
from pubweave.core.mqtt.session.deduplicator import SessionDeduplicator
from pubweave.core.mqtt.session.inflight import Delivery, InflightQueue, QueueBudget
from pubweave.core.mqtt.session.native_client import NativeSession
from pubweave.core.mqtt.session.subscriptions import MqttSubscription, SessionSubscriptions
from pubweave.model.filters.filter import Filter, topic_filter
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
"""So many topics a client may publish on where each is advertised; the first is given up then."""
FRAME_BYTES_MAX = (1 << 20) - (1 << 13)
"""What fits between brokers, with room for what frames have besides (`wire.codec`)."""


class MqttSession:
    """The state of one session; ``name`` is the id of its native client."""

    def __init__(
        self,
        name: str,
        client_id: str,
        user: str,
        config: MqttConfig,
        overrun: dict[str, None],
        tally: QueueBudget,
    ) -> None:
        """``overrun`` notes who gets more than it may keep, ``tally`` what all keep."""
        self.name = name
        self._overrun = overrun
        self.client_id = client_id
        self.user = user
        self.config = config
        self.end: NativeSession | None = None
        self.connection: MqttConnection | None = None
        self.subscriptions = SessionSubscriptions()
        self.ways = SessionDeduplicator()
        self.outbox = InflightQueue(config.queue_messages, config.queue_bytes, tally)
        self.will: Will | None = None
        self.will_at: float | None = None
        """When the will is to be published; None: not before the client is gone."""
        self.expiry_s = 0
        self.expires_at: float | None = None
        """When the session is over; None: its client is connected."""
        self.is_bridge = False
        self.has_published = False
        """Its client has published something; a bridge that has not only listens."""
        self.qos0_dropped = 0
        """QoS 0 publications that the client did not read fast enough for."""
        self.since = 0.0
        """When a client last connected to it."""
        self.came_from: BrokerId = ""
        """The door that had it before; who asks for it there has not heard yet that it is here."""
        self.routes_whole_topics = False
        """The overlay routes by whole topics only, and takes no other advertisements."""
        self.advertises_all = False
        self.is_confirmed = True
        """False: its client may have had one before, here or at another door, and may not know yet
        that it is no more: the answer to Connect can get lost. It is told again until it says
        something. Until then the session is empty."""
        self.is_told = False
        """Other doors know that it is here."""
        self.held: list[Publication] | None = None
        """What came while the session was on its way here; None: it is not."""
        self._held_bytes = 0
        self._incoming: dict[int, int] = {}
        """QoS 2 publications of the client by packet id, until PubRel: 0, or why refused."""
        self._unanswered = 0
        """QoS 1 publications of the client without their answer."""
        self._advertised: dict[str, str] = {}

    # --- publications of the client --------------------------------------------------------

    def publish(
        self,
        packet: Publish,
        topic: str,
        rights: tuple[Filter, ...],
        now: float,
        *,
        is_for_nobody: bool = False,
    ) -> None:
        """Hand a publication to the overlay; its answer follows when that has taken it in. One for
        nobody is only answered, like an echo, which the overlay has already.

        MqttError if the client has more under way than it may."""
        end, number = self._end, packet.packet_id or 0
        if self.has_come(packet):
            owed = [p.answer for p in end.promises if isinstance(p.answer, PubRec)]
            if all(answer.packet_id != number for answer in owed):
                self._say(PubRec(number, self._incoming[number]))
            return
        self._check_under_way(packet)
        publication = None
        if not is_for_nobody:
            publication = self._given_to_overlay(packet, topic, rights, now)
            if publication is None:
                text = "its user properties are more than a link can carry"
                self.refuse(packet, Reason.QUOTA_EXCEEDED, text)
                return
        answer: PubAck | PubRec | None = None
        if packet.qos == 1:
            answer = PubAck(number)
            self._unanswered += 1
        elif packet.qos == 2:
            answer = PubRec(number)
            self._incoming[number] = 0
        if answer is not None or (packet.retain and not is_for_nobody):
            end.promise(answer, publication)

    def has_come(self, packet: Publish) -> bool:
        """Whether a QoS 2 publication has come before, and was not released yet."""
        return packet.qos == 2 and packet.packet_id in self._incoming

    def refuse(self, packet: Publish, reason: Reason, text: str) -> None:
        """Take a publication no further."""
        if packet.qos and self.connection is not None:
            kind = PubAck if packet.qos == 1 else PubRec
            self._say(kind(packet.packet_id or 0, reason, self.connection.problem(text)))

    def _check_under_way(self, packet: Publish) -> None:
        """3.1.1 knows no limit; such clients are slowed down by not being read."""
        most = self.config.receive_max
        is_v5 = self.connection is not None and self.connection.is_v5
        if packet.qos and is_v5 and self._unanswered + len(self._incoming) >= most:
            raise MqttError(Reason.RECEIVE_MAX_EXCEEDED, f"more than {most} are under way")

    def publish_will(self, rights: tuple[Filter, ...], now: float) -> None:
        will, self.will, self.will_at = self.will, None, None
        if will is not None:
            publication = self._given_to_overlay(will, will.topic, rights, now)
            if will.retain and publication is not None:
                self._end.promise(None, publication)

    def _given_to_overlay(
        self, packet: Publish | Will, topic: str, rights: tuple[Filter, ...], now: float
    ) -> Publication | None:
        """None: it does not fit into a frame between brokers."""
        attributes = attributes_of(packet, reads_json=self.config.reads_json)
        if len(attributes) > 1 and weight(attributes) + len(packet.payload) > FRAME_BYTES_MAX:
            attributes = attributes_of(packet, reads_json=False)
            if weight(attributes) + len(packet.payload) > FRAME_BYTES_MAX:
                return None
        self._advertise(topic, rights)
        return self._end.client.publish(topic, attributes, packet.payload, now)

    def _advertise(self, topic: str, rights: tuple[Filter, ...]) -> None:
        """Tell the overlay what this client publishes: topic by topic at first, then all that it
        may publish."""
        if self.advertises_all or topic in self._advertised:
            return
        client = self._end.client
        if self.routes_whole_topics and len(self._advertised) >= TOPICS_MAX:
            client.unadvertise(self._advertised.pop(next(iter(self._advertised))))
        if (
            self.routes_whole_topics
            or len(self._advertised) < self.config.topics_advertised
            or not rights
        ):
            self._advertised[topic] = client.advertise(topic_filter(topic))
            return
        self.advertises_all = True
        for right in rights:
            client.advertise(right)
        # A topic without a right to it has to be refused as such.
        if not any(right.matches(_bare(topic)) for right in rights):
            client.advertise(topic_filter(topic))

    def answered(self, answer: PubAck | PubRec, refusal: str | None) -> None:
        """The overlay has taken a publication in, or has refused it."""
        connection, reason = self.connection, 0 if refusal is None else int(Reason.NOT_AUTHORIZED)
        if isinstance(answer, PubAck):
            self._unanswered -= 1
        elif reason:
            self._incoming.pop(answer.packet_id, None)
        text = None
        if refusal is not None and connection is not None:
            text = connection.problem(refusal)
        self._say(type(answer)(answer.packet_id, reason, text))

    @property
    def is_drained(self) -> bool:
        """Whether nothing is under way that would have to be said again on the next connection,
        or would be lost with the session."""
        is_kept = self.expiry_s or not (self.outbox.under_way or self.outbox.waiting)
        return bool(is_kept) and not self._unanswered and not self._incoming

    def connection_lost(self) -> None:
        """The client is gone; it will send again what it has no answer for."""
        self.connection = None
        self._unanswered = 0
        if self.end is not None:
            self.end.promises = deque(
                msgspec.structs.replace(promise, answer=None)
                if isinstance(promise.answer, PubAck)
                else promise
                for promise in self.end.promises
            )

    def released(self, packet_id: int) -> None:
        """PubRel: the client will not send that publication again."""
        known = self._incoming.pop(packet_id, None)
        self._say(PubComp(packet_id, 0 if known is not None else Reason.PACKET_ID_NOT_FOUND))

    def incoming(self) -> tuple[tuple[int, int], ...]:
        """The numbers of QoS 2 publications that the client has not released."""
        return tuple(self._incoming.items())

    def set_incoming(self, numbers: tuple[tuple[int, int], ...]) -> None:
        self._incoming = dict(numbers)

    # --- publications for the client -------------------------------------------------------

    def deliver(
        self, publication: Publication, found: tuple[MqttSubscription, ...], now: float
    ) -> None:
        """A publication for these subscriptions, once, with the best of their qualities."""
        own = session_of(publication.publisher) == self.name
        wanted = [s for s in found if not (own and (s.options.no_local or self.is_bridge))]
        if not wanted:
            return
        qos = self.quality(publication, max(s.options.qos for s in wanted))
        retain = is_retained(publication) and (
            self.is_bridge or any(s.options.retain_as_published for s in wanted)
        )
        ids = tuple(s.subscription_id for s in wanted if s.subscription_id is not None)
        is_marked = self.subscriptions.of_bridges > 0 and any(s.is_of_bridge for s in wanted)
        self.send(Delivery(publication, qos, retain, ids, is_marked), now)

    def quality(self, publication: Publication, wanted: int) -> int:
        """With which a publication is delivered where ``wanted`` was subscribed to."""
        return wanted if self.config.upgrades_qos else min(wanted, quality_of(publication))

    def send(self, parcel: Delivery, now: float) -> None:
        """Send at once or let wait; QoS 0 does neither for a client that is away or too slow."""
        connection = self.connection
        if parcel.qos:
            if self.outbox.put(parcel):
                self.pump(now)
            else:
                self._overrun[self.name] = None
        elif connection is not None and not is_expired(parcel.publication, now):
            if connection.is_slow:
                self.qos0_dropped += 1
                return
            packet = connection.packet(parcel, None, now)
            if packet is not None:
                connection.say(packet)

    def hold(self, publication: Publication) -> None:
        """Keep a publication until it is known what came before it."""
        assert self.held is not None, "the session is on its way here"
        self.held.append(publication)
        self._held_bytes += publication.size_bytes
        config = self.config
        if len(self.held) > config.queue_messages or self._held_bytes > config.queue_bytes:
            self._overrun[self.name] = None

    def pump(self, now: float) -> None:
        """Send what waits, as far as the client takes it; what is too late has its number, too."""
        connection = self.connection
        if connection is None or connection.connect is None or connection.is_slow:
            return
        receive_max = connection.connect.receive_max
        while (parcel := self.outbox.pop(receive_max)) is not None:
            packet_id = self.outbox.number(parcel)
            packet = None
            if not is_expired(parcel.publication, now):
                packet = connection.packet(parcel, packet_id, now)
            if packet is None:
                self.outbox.discard(packet_id)
            else:
                connection.say(packet)

    def resend(self, now: float) -> None:
        """On a new connection: what was under way goes again, then what waited."""
        connection = self.connection
        if connection is None:
            return
        for numbered in self.outbox.again():
            if numbered.is_released:
                connection.say(PubRel(numbered.packet_id))
                continue
            packet = connection.packet(numbered.parcel, numbered.packet_id, now, is_duplicate=True)
            if packet is None:
                self.outbox.discard(numbered.packet_id)
            else:
                connection.say(packet)
        self.pump(now)

    def acknowledged(self, packet: PubAck | PubRec | PubComp, now: float) -> None:
        """The client has got a publication, or is through with its number.

        MqttError for the answer to something else than what was sent."""
        expected = self.outbox.expects(packet.packet_id)
        is_repeated = isinstance(packet, PubRec) and expected is PubComp
        if expected is not None and not isinstance(packet, expected) and not is_repeated:
            text = f"{type(packet).__name__} for packet {packet.packet_id} is not what is due"
            raise MqttError(Reason.PROTOCOL_ERROR, text)
        if isinstance(packet, PubAck):
            self.outbox.acknowledged(packet.packet_id)
        elif isinstance(packet, PubComp):
            self.outbox.completed(packet.packet_id)
        elif packet.reason >= Reason.UNSPECIFIED_ERROR:
            self.outbox.acknowledged(packet.packet_id)
        else:
            known = self.outbox.received(packet.packet_id)
            self._say(PubRel(packet.packet_id, 0 if known else Reason.PACKET_ID_NOT_FOUND))
        self.pump(now)

    # --- inside ----------------------------------------------------------------------------

    @property
    def _end(self) -> NativeSession:
        assert self.end is not None, "a session is attached before it is used"
        return self.end

    def _say(self, packet: PubAck | PubRec | PubRel | PubComp) -> None:
        if self.connection is not None:
            self.connection.say(packet)


def native_id(session: str, broker: BrokerId) -> ClientId:
    """The native client of a session at a broker: it has another one at each.

    >>> native_id("mqtt:ann", "b1")
    'mqtt:ann@b1'
    """
    return f"{session}@{broker}"


def session_of(publisher: ClientId) -> str:
    """The session of a native client of a door; empty: of somebody else.

    >>> session_of("mqtt:ann@b1")
    'mqtt:ann'
    """
    return publisher.rpartition("@")[0]


def _bare(topic: str) -> Publication:
    return Publication("", 0, topic, {}, b"", 0.0)
