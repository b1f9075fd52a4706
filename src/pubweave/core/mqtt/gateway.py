"""A broker's MQTT gateway: packets in, packets out, and native clients in between.

It is part of the broker's state machine: an event with packets is recorded in the journal, if there
is one, before anything is answered. So sessions, packet ids, retained publications and wills
survive whatever the broker survives, without a store of their own.

```
 PacketsReceived ─> MqttGateway ─> MqttSession ─> NativeSession ─> broker ─> overlay
 TransmitPackets <─ (end of the event) <─ MqttSession.deliver <─ NativeSession <─┘
```
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pubweave.core.config.mqtt import MqttConfig
from pubweave.core.mqtt.bridges.loop_detector import LoopDetector
from pubweave.core.mqtt.bridges.loop_probes import LoopProbes
from pubweave.core.mqtt.capabilities import accepted
from pubweave.core.mqtt.cluster.gossip import GatewayGossip
from pubweave.core.mqtt.cluster.handover import SessionHandover
from pubweave.core.mqtt.connect import ConnectHandler
from pubweave.core.mqtt.connections import ConnectionTable
from pubweave.core.mqtt.evacuation import SessionEvacuation
from pubweave.core.mqtt.publish import PublishHandler
from pubweave.core.mqtt.redirect import ClientRedirector
from pubweave.core.mqtt.session.cluster_messages import Arrived
from pubweave.core.mqtt.session.connection import MqttConnection, MqttError
from pubweave.core.mqtt.session.native_client import InProcessLink, NativeSession, PendingReply
from pubweave.core.mqtt.session.session import MqttSession
from pubweave.core.mqtt.session.table import MqttSessionTable
from pubweave.core.mqtt.subscribe import SubscribeHandler
from pubweave.core.mqtt.wildcard_replicator import OWNER as COPYING
from pubweave.core.mqtt.wildcard_replicator import WildcardReplicator
from pubweave.core.session.access import Access
from pubweave.core.vocabulary.effects import Effect
from pubweave.core.vocabulary.events import (
    ConnectionClosed,
    ConnectionId,
    Event,
    LoginReceived,
    MqttOpened,
    PacketsReceived,
    PasswordVerified,
    WritingPaused,
)
from pubweave.model.ids import BrokerId
from pubweave.model.messages.session import LEAVING_SUBJECT
from pubweave.model.mqtt_packets import (
    Auth,
    Connect,
    Disconnect,
    FromClient,
    PingReq,
    PingResp,
    PubAck,
    PubComp,
    Publish,
    PubRec,
    PubRel,
    Reason,
    Subscribe,
    Unsubscribe,
)
from pubweave.model.publications import Publication
from pubweave.model.records.status import MqttStatus


class MqttGateway:
    """All MQTT clients of one broker."""

    def __init__(
        self,
        broker: BrokerId,
        config: MqttConfig,
        access: Access,
        link: InProcessLink,
        now: float,
        *,
        routes_whole_topics: bool,
        is_leaving: Callable[[], bool],
    ) -> None:
        self.config = config
        self._access = access
        self._link = link
        link.on_notified = self._on_notified
        link.on_settled = self._on_settled
        self.sessions = MqttSessionTable(
            broker, config, link, access, routes_whole_topics=routes_whole_topics
        )
        link.on_missed = self.sessions.missed
        self.gossip = GatewayGossip(
            broker, config, link, now, routes_whole_topics=routes_whole_topics
        )
        self.handover = SessionHandover(broker, config, link, self.sessions, self.gossip)
        connect_handler = ConnectHandler(broker, config, access, self.sessions, self.gossip)
        self.connections = ConnectionTable(
            config, access, link, self.sessions, self.gossip, self.handover, connect_handler
        )
        self.connections.on_early = self._on_packets
        self.connections.is_leaving = is_leaving
        self.handover.on_claimed = self._on_claimed
        self.handover.on_arrived = self.connections.session_arrived
        self.handover.on_late = self.connections.session_late
        self.gossip.on_handover_message = self.handover.receive
        self.gossip.on_gateway_lost = self.handover.discard_gateway
        self.gossip.sessions_digest = self.handover.digest
        self.gossip.announce_sessions = self.handover.announce_all
        self.replicator = WildcardReplicator(broker, link)
        self.gossip.on_interests_changed = self.replicator.set_wanted
        self.redirector = ClientRedirector(config, self.sessions, self.gossip, self.connections)
        self.evacuation = SessionEvacuation(self.sessions, self.gossip, self.handover, is_leaving)
        self.handover.on_redirected = self.redirector.hold
        self.loop_detector = LoopDetector(
            broker, config, self.sessions, self.gossip, self.connections
        )
        self.gossip.on_returned = self.loop_detector.returned
        self.loop_probes = LoopProbes(config, self.sessions, self.gossip, self.loop_detector)
        self._publishing = PublishHandler(
            config, access, link, self.sessions, self.loop_probes, self.connections
        )
        self.connections.on_leaving = self._publishing.release_all
        self._subscribing = SubscribeHandler(config, access, link, self.gossip, self.loop_probes)

    # --- events ----------------------------------------------------------------------------

    def connection_numbers(self) -> list[ConnectionId]:
        return list(self.connections.by_number)

    def restored(self, now: float) -> None:
        """The broker was restored from its journal, perhaps with other settings."""
        self.gossip.restored(now)
        for session in self.sessions.all():
            session.config = self.config

    def excuse(self, seconds: float) -> None:
        """Extend all deadlines by a local pause: the broker itself did not run."""
        for part in (self.connections, self.sessions, self.gossip):
            part.excuse(seconds)

    def handle(self, event: Event, now: float, effects: list[Effect]) -> bool:
        """Handle an event of an MQTT connection; False if it is none."""
        self.connections.effects = effects
        if isinstance(event, MqttOpened):
            self.connections.opened(event, now)
            return True
        connection = self.connections.by_number.get(getattr(event, "connection", 0))
        if connection is None:
            return False
        match event:
            case PacketsReceived():
                connection.heard_at = now
                self._on_packets(connection, event.packets, now)
            case WritingPaused():
                connection.is_slow = event.is_paused
                session = self.sessions.for_connection(connection)
                if session is not None:
                    session.pump(now)
            case LoginReceived() | PasswordVerified():
                self.connections.login(connection, event, now)
            case ConnectionClosed():
                self.connections.closed(connection, now)
        return True

    def finish(self, effects: list[Effect], now: float) -> None:
        """End an event of the broker: run the in-process links to quiescence, then send packets."""
        self.connections.effects = effects
        self.gossip.begin(now)
        self._link.run(effects, now)
        while overrun := self.sessions.overrunning():
            for session in overrun:
                self.connections.end_overrun(session, now)
            self._link.run(effects, now)
        self.gossip.announce_changes(now)
        self.loop_probes.check(now)
        self._link.run(effects, now)
        self.connections.flush(effects)

    def defer(self, effects: list[Effect]) -> None:
        """After an event that raised: keep its in-process effects for the next event."""
        self._link.defer(effects)

    def forbid(self, session: MqttSession, reason: str, now: float) -> None:
        """End a session that changed access rules no longer allow."""
        session.will = None
        self.connections.end_session(session, MqttError(Reason.NOT_AUTHORIZED, reason), now)

    def status(self, now: float) -> MqttStatus:
        """O(sessions)."""
        sessions = self.sessions.all()
        return MqttStatus(
            connections=len(self.connections.by_number),
            sessions=len(sessions),
            waiting=sum(session.inflight.waiting for session in sessions),
            dropped=self.sessions.dropped,
            qos0_dropped=self.sessions.qos0_dropped
            + sum(session.qos0_dropped for session in sessions),
            retained=len(self.gossip.retained),
            redirected=self.redirector.redirected,
            overrun=self.sessions.overrun,
            echoes=self._publishing.echoes,
            too_large=self._publishing.too_large,
            lost=self.sessions.lost,
            copies=self.replicator.copied,
            loops=self.loop_detector.noticed,
            loops_refused=self.loop_detector.refused,
            loop=self.loop_detector.last(now),
        )

    # --- time ------------------------------------------------------------------------------

    @property
    def deadline(self) -> float:
        return min(
            self.connections.deadline,
            self.sessions.deadline,
            self.gossip.deadline,
            self.handover.deadline,
            self.redirector.deadline,
            self.evacuation.deadline,
            self.loop_probes.deadline,
            self._publishing.deadline,
            self.replicator.deadline,
        )

    def on_deadline(self, now: float, effects: list[Effect]) -> None:
        self.connections.effects = effects
        self.connections.on_deadline(now)
        for session in self.sessions.on_deadline(now):
            self.connections.session_ended(session, now)
        self.handover.on_deadline(now)
        self.redirector.on_deadline(now)
        self.evacuation.on_deadline(now)
        self.loop_probes.on_deadline(now)
        self._publishing.on_deadline(now)
        self.replicator.on_deadline(now)
        self.gossip.on_deadline(now)

    # --- packets ---------------------------------------------------------------------------

    def _on_packets(
        self, connection: MqttConnection, packets: Sequence[FromClient], now: float
    ) -> None:
        for packet in packets:
            if self.connections.is_closing(connection):
                return
            try:
                self._on_packet(connection, packet, now)
            except MqttError as error:
                self.connections.end(connection, error, now)

    def _on_packet(self, connection: MqttConnection, packet: FromClient, now: float) -> None:
        session = self.sessions.for_connection(connection)
        if session is None:
            self.connections.first_packet(connection, packet, now)
            return
        if not session.is_confirmed:
            self.sessions.confirmed(session)
        match packet:
            case Publish():
                self._publishing.receive(connection, session, packet, now)
            case PubAck() | PubRec() | PubComp():
                session.acknowledged(packet, now)
            case PubRel():
                session.released(packet.packet_id)
            case Subscribe():
                self._subscribing.subscribe(session, accepted(packet, self.config))
            case Unsubscribe():
                connection.send(self._subscribing.unsubscribe(session, packet))
            case PingReq():
                connection.send(PingResp())
            case Disconnect():
                self._on_disconnect(connection, session, packet, now)
            case Connect() | Auth():
                raise _out_of_place(packet)

    def _on_disconnect(
        self, connection: MqttConnection, session: MqttSession, packet: Disconnect, now: float
    ) -> None:
        if packet.session_expiry_s is not None:
            if not session.expiry_s and packet.session_expiry_s:
                raise MqttError(Reason.PROTOCOL_ERROR, "a session that ends cannot be kept after")
            session.expiry_s = min(packet.session_expiry_s, self.config.session_expiry_max_s)
        if packet.reason == Reason.SUCCESS:
            session.will = None
        self.connections.close(connection, "the client disconnected", now)

    # --- from other gateways ---------------------------------------------------------------

    def _on_claimed(self, session: MqttSession, now: float) -> None:
        """The client of a session has connected at another gateway: end the connection here."""
        if session.connection is not None:
            text = "another client has connected with this id elsewhere"
            error = MqttError(Reason.SESSION_TAKEN_OVER, text)
            self.connections.end(session.connection, error, now)

    # --- from the native clients -----------------------------------------------------------

    def _on_notified(
        self, end: NativeSession, publications: Sequence[Publication], now: float
    ) -> None:
        if not end.owner:
            self.gossip.receive(publications, now)
            return
        session = self.sessions.get(end.owner)
        if session is None or session.end is not end:
            return
        if session.held is not None:
            for publication in session.deduplicator.unknown(publications):
                session.hold(publication)
            return
        delivered = self.handover.deduplicated(session, publications)
        if self.gossip.bridges.count > 1:
            self._watch_for_loops(session, delivered, now)
        for publication in delivered:
            self.handover.deliver(session, publication, now)

    def _watch_for_loops(
        self, session: MqttSession, delivered: Sequence[Publication], now: float
    ) -> None:
        if self.loop_probes.is_watched(session):
            for publication in delivered:
                self.loop_probes.notified(session, publication, now)
            self._publishing.release(session, now)
        if session.name in self.gossip.bridges.here:
            for publication in delivered:
                self.loop_detector.delivered(session, publication, now)

    def _on_settled(self, end: NativeSession, now: float) -> None:
        """The broker has handled messages of a native client, or has ended its session."""
        if end.owner == COPYING:
            self.replicator.settled()
            return
        found = self.sessions.get(end.owner)
        session = found if found is not None and found.end is end else None
        if end.lost_reason is not None:
            if session is not None:
                self._on_lost(session, end.lost_reason, now)
            return
        for reply in end.due_replies():
            self._send_reply(session, end, reply, now)
        leaving = end.refusals.pop(LEAVING_SUBJECT, None)
        if leaving is not None and session is not None:
            self.redirector.leave(session, leaving, now)
            self.evacuation.add(session.name, now)
        if not end.pending_replies:
            end.refusals.clear()
        if session is not None:
            self._publishing.settled(session)

    def _send_reply(
        self, session: MqttSession | None, end: NativeSession, reply: PendingReply, now: float
    ) -> None:
        publication = reply.publication
        refusal = None
        if publication is not None:
            refusal = end.refusals.pop(f"publication {publication.sequence}", None)
            if refusal is None:
                self.gossip.retain(publication, now)
        if session is None:
            return  # the session has ended; only its will was published
        if isinstance(reply.answer, Subscribe):
            self._subscribing.granted(session, reply, now)
        elif isinstance(reply.answer, Arrived):
            self.handover.subscribed(reply.answer, now)
        elif reply.answer is not None:
            session.answered(reply.answer, refusal)

    def _on_lost(self, session: MqttSession, reason: str, now: float) -> None:
        """The broker ended a native session: end the MQTT session, too."""
        connection = session.connection
        self.sessions.native_lost(session)
        if connection is not None and connection.is_accepted:
            self.connections.end(connection, MqttError(Reason.QUOTA_EXCEEDED, reason), now)
        elif connection is None:
            self.sessions.end(session, now)
            self.connections.session_ended(session, now)


def _out_of_place(packet: Connect | Auth) -> MqttError:
    """Of an authentication, the driver passes on only packets that end the connection."""
    if isinstance(packet, Connect):
        return MqttError(Reason.PROTOCOL_ERROR, "a second Connect")
    if packet.reason == Reason.NOT_AUTHORIZED:
        return MqttError(Reason.NOT_AUTHORIZED, "the authentication failed")
    return MqttError(Reason.PROTOCOL_ERROR, "no such authentication is under way")
