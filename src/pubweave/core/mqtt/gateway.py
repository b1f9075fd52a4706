"""A broker's MQTT gateway: packets in, packets out, and native clients in between.

It is part of the broker's state machine: an event with packets is recorded in the journal, if there
is one, before anything is answered. So sessions, packet ids, retained publications and wills
survive whatever the broker survives, without a store of their own.
"""

from __future__ import annotations

from collections.abc import Sequence

from pubweave.core.mqtt.bridges.loop_detector import LoopDetector
from pubweave.core.mqtt.bridges.loop_probes import LoopProbes
from pubweave.core.mqtt.capabilities import accepted
from pubweave.core.mqtt.cluster.gossip import GatewayGossip
from pubweave.core.mqtt.cluster.handover import SessionHandover
from pubweave.core.mqtt.cluster.session_directory import SessionDirectory
from pubweave.core.mqtt.cluster.wildcard_replicator import OWNER as COPYING
from pubweave.core.mqtt.cluster.wildcard_replicator import WildcardReplicator
from pubweave.core.mqtt.connections import ConnectionTable
from pubweave.core.mqtt.evacuation import SessionEvacuation
from pubweave.core.mqtt.protocol.properties import RETAIN
from pubweave.core.mqtt.publish import PublishHandler
from pubweave.core.mqtt.redirect import ClientRedirector
from pubweave.core.mqtt.services import MqttServices
from pubweave.core.mqtt.session.cluster_messages import Arrived, Redirected, Returned
from pubweave.core.mqtt.session.connection import MqttConnection, MqttError
from pubweave.core.mqtt.session.native_client import InProcessLink, NativeSession, PendingReply
from pubweave.core.mqtt.session.session import MqttSession
from pubweave.core.mqtt.session.table import MqttSessionTable
from pubweave.core.mqtt.subscribe import SubscribeHandler
from pubweave.core.vocabulary.effects import TransmitPackets
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
    """All MQTT clients of one broker. Its parts depend on each other in the order in which they are
    made; where one has to tell an earlier one something, it tells the gateway."""

    def __init__(self, services: MqttServices, now: float) -> None:
        config = services.config
        self.config = config
        self._outgoing = services.outgoing
        self._deadlines = services.deadlines
        self.routes_whole_topics = services.routes_whole_topics
        self._link = link = InProcessLink(
            services.sessions,
            services.receive,
            services.ack,
            self,
            services.deadlines,
            config.suback_wait_s,
        )
        self.sessions = MqttSessionTable(services, link)
        self.replicator = WildcardReplicator(services, link)
        directory = SessionDirectory()
        self.gossip = GatewayGossip(services, link, self.sessions, directory, self.replicator, now)
        self.handover = SessionHandover(services, self.sessions, self.gossip, directory, self)
        self.connections = ConnectionTable(
            services, link, self.sessions, self.gossip, self.handover, self
        )
        self.redirector = ClientRedirector(services, self.sessions, self.gossip, self.connections)
        self.evacuation = SessionEvacuation(services, self.sessions, self.gossip, self.handover)
        self.loop_detector = LoopDetector(services, self.sessions, self.gossip, self.connections)
        self.loop_probes = LoopProbes(services, self.sessions, self.gossip, self.loop_detector)
        self._publishing = PublishHandler(
            services, self.sessions, self.gossip, self.loop_probes, self.connections
        )
        self._subscribing = SubscribeHandler(services, self.gossip, self.loop_probes)

    # --- events ----------------------------------------------------------------------------

    def connection_numbers(self) -> list[ConnectionId]:
        return list(self.connections.by_number)

    def restored(self, now: float) -> None:
        """The broker was restored from its journal, perhaps with other settings."""
        self.gossip.restored(now)
        for session in self.sessions.by_name.values():
            session.config = self.config

    def excuse(self, seconds: float) -> None:
        """Extend all deadlines by a local pause: the broker itself did not run."""
        for part in (self.connections, self.sessions, self.gossip, self._link):
            part.excuse(seconds)

    def handle(self, event: Event, now: float) -> bool:
        """Handle an event of an MQTT connection; False if it is none."""
        if isinstance(event, MqttOpened):
            self.connections.opened(event, now)
            return True
        connection = self.connections.by_number.get(getattr(event, "connection", 0))
        if connection is None:
            return False
        match event:
            case PacketsReceived():
                connection.heard_at = now
                self.received(connection, event.packets, now)
            case WritingPaused():
                connection.is_slow = event.is_paused
                if connection.session is not None:
                    connection.session.pump(now)
            case LoginReceived() | PasswordVerified():
                self.connections.login(connection, event, now)
            case ConnectionClosed():
                self.connections.closed(connection, now)
        return True

    def settle(self, now: float) -> None:
        """An event of the broker was handled: let the native clients have their say."""
        if not self.gossip.is_attached:
            self.gossip.begin(now)
        link = self._link
        link.run(now)
        budget = self.sessions.budget
        if budget.overrun or budget.size_bytes > budget.limit_bytes or self.gossip.has_changed:
            while overrun := self.sessions.overrunning():
                for session in overrun:
                    self.connections.end_overrun(session, now)
                link.run(now)
            self.gossip.announce_changes(now)
            self.loop_probes.check(now)
            link.run(now)
            if budget.overrun:  # by what came then, as the end of a handover
                self.settle(now)

    def flush(self) -> None:
        """End an event: send the packets that it has caused."""
        connections = self.connections
        for connection in connections.with_output:
            packets, connection.output = connection.output, []
            self._outgoing.effects.append(TransmitPackets(connection.number, packets))
        connections.with_output.clear()
        if connections.closing:
            connections.close_all()

    def forbid(self, session: MqttSession, reason: str, now: float) -> None:
        """End a session that changed access rules no longer allow."""
        session.will = None
        self.connections.end_session(session, MqttError(Reason.NOT_AUTHORIZED, reason), now)

    def status(self, now: float) -> MqttStatus:
        """O(sessions)."""
        sessions = self.sessions.by_name.values()
        return MqttStatus(
            connections=len(self.connections.by_number),
            sessions=len(sessions),
            waiting=sum(len(session.inflight.waiting) for session in sessions),
            dropped=self.sessions.dropped + self._link.missed,
            qos0_dropped=self.sessions.qos0_dropped
            + sum(session.qos0_dropped for session in sessions),
            retained=len(self.gossip.retained),
            redirected=self.redirector.redirected,
            overrun=self.sessions.overrun,
            echoes=self._publishing.echoes,
            too_large=self._publishing.too_large,
            lost=self.sessions.lost,
            gaps=self.sessions.gaps,
            unconfirmed=self._link.unconfirmed,
            copies=self.replicator.copied,
            loops=self.loop_detector.noticed,
            loops_refused=self.loop_detector.refused,
            loop=self.loop_detector.last(now),
        )

    # --- time ------------------------------------------------------------------------------

    @property
    def deadline(self) -> float:
        return self._deadlines.earliest

    def on_deadline(self, now: float) -> None:
        self.connections.on_deadline(now)
        for session in self.sessions.on_deadline(now):
            self.connections.session_ended(session, now)
        for part in (
            self.handover,
            self.redirector,
            self.evacuation,
            self.loop_probes,
            self._publishing,
            self.replicator,
            self.gossip,
            self._link,
        ):
            part.on_deadline(now)

    # --- packets ---------------------------------------------------------------------------

    def received(
        self, connection: MqttConnection, packets: Sequence[FromClient], now: float
    ) -> None:
        """Handle packets of a client, those too that waited for the answer to its Connect."""
        for packet in packets:
            if connection.is_closing:
                return
            try:
                session = connection.session
                if session is None:
                    self.connections.first_packet(connection, packet, now)
                    continue
                session.is_confirmed = True  # whoever speaks in it has received ConnAck
                match packet:
                    case Publish():
                        self._publishing.receive(connection, session, packet, now)
                    case PubAck() | PubRec() | PubComp():
                        session.acknowledged(packet, now)
                    case _:
                        self._on_other_packet(connection, session, packet, now)
            except MqttError as error:
                self.connections.end(connection, error, now)

    def _on_other_packet(
        self, connection: MqttConnection, session: MqttSession, packet: FromClient, now: float
    ) -> None:
        match packet:
            case PubRel():
                session.released(packet.packet_id)
            case Subscribe():
                self._subscribing.subscribe(session, accepted(packet, self.config))
            case Unsubscribe():
                self._subscribing.unsubscribe(session, packet)
            case PingReq():
                connection.send(PingResp())
            case Disconnect():
                self._on_disconnect(connection, session, packet, now)
            case Connect():
                raise MqttError(Reason.PROTOCOL_ERROR, "a second Connect")
            case Auth() if packet.reason == Reason.NOT_AUTHORIZED:
                # Of an authentication, the driver passes on only what ends the connection.
                raise MqttError(Reason.NOT_AUTHORIZED, "the authentication failed")
            case _:
                raise MqttError(Reason.PROTOCOL_ERROR, "no such authentication is under way")

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

    # --- for the connection table ----------------------------------------------------------

    def detached(self, session: MqttSession, now: float) -> None:
        self._publishing.release_all(session, now)

    def elsewhere(self, name: str, now: float) -> str:
        return self.redirector.elsewhere(name, now)

    # --- for the handover ------------------------------------------------------------------

    def claimed(self, session: MqttSession, now: float) -> None:
        if session.connection is not None:
            text = "another client has connected with this id elsewhere"
            error = MqttError(Reason.SESSION_TAKEN_OVER, text)
            self.connections.end(session.connection, error, now)

    def arrived(self, name: str, now: float) -> None:
        self.connections.session_arrived(name, now)

    def late(self, name: str, now: float) -> None:
        self.connections.session_late(name, now)

    # --- for the in-process link -----------------------------------------------------------

    def notified(self, end: NativeSession, publications: Sequence[Publication], now: float) -> None:
        if not end.owner:
            self._on_gossip(publications, now)
            return
        session = self.sessions.by_name.get(end.owner)
        if session is None or session.end is not end:
            return
        if session.held is not None:
            if self.routes_whole_topics:  # on a tree, clocks need not agree
                publications = session.deduplicator.unknown(publications, session.subscriptions)
            for publication in publications:
                session.hold(publication)
            return
        if self.routes_whole_topics:
            publications = session.deduplicator.first_copies(publications, session.subscriptions)
        if self.gossip.bridges.count > 1:
            self._watch_for_loops(session, publications, now)
        for publication in publications:
            session.deliver(publication, self.gossip.groups, now)

    def gap_seen(self, end: NativeSession, publication: Publication, now: float) -> None:
        session = self.sessions.by_name.get(end.owner)
        if session is not None and session.end is end:
            self.sessions.gaps += 1
            session.gap_seen(publication)

    def _on_gossip(self, publications: Sequence[Publication], now: float) -> None:
        for gateway, message in self.gossip.received(publications, now):
            match message:
                case Returned():
                    self.loop_detector.returned(message, now)
                case Redirected():
                    self.redirector.hold(message.session, now)
                case _:
                    self.handover.receive(gateway, message, now)

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

    def handled(self, end: NativeSession, reply: PendingReply, now: float) -> None:
        publication = reply.publication
        refusal = None
        if publication is not None:
            if end.refusals:
                refusal = end.refusals.pop(f"publication {publication.sequence}", None)
            if refusal is None and RETAIN in publication.attributes:
                self.gossip.retain(publication, now)
        session = self.sessions.by_name.get(end.owner)
        if session is None or session.end is not end:
            return  # the session has ended; only its will was published
        if isinstance(reply.answer, Subscribe):
            self._subscribing.granted(session, reply, now)
        elif isinstance(reply.answer, Unsubscribe):
            self._subscribing.withdraw(session, reply.answer)
        elif isinstance(reply.answer, Arrived):
            self.handover.subscribed(reply.answer, now)
        elif reply.answer is not None:
            session.answered(reply.answer, refusal)

    def settled(self, end: NativeSession, now: float) -> None:
        if end.owner == COPYING:
            self.replicator.settled()
            return
        session = self._session_behind(end)
        leaving = end.refusals.pop(LEAVING_SUBJECT, None)
        if leaving is not None and session is not None:
            self.redirector.leave(session, leaving, now)
            self.evacuation.add(session.name, now)
        if not end.pending_replies:
            end.refusals.clear()
        if session is not None:
            self._publishing.check_congestion(session)

    def lost(self, end: NativeSession, reason: str, now: float) -> None:
        if not end.owner:
            self.gossip.is_attached = False
        session = self._session_behind(end)
        if session is None:
            return
        connection = session.connection
        self.sessions.native_lost(session)
        if connection is not None and connection.is_accepted:
            self.connections.end(connection, MqttError(Reason.QUOTA_EXCEEDED, reason), now)
        elif connection is None:
            self.sessions.end(session, now)
            self.connections.session_ended(session, now)

    def _session_behind(self, end: NativeSession) -> MqttSession | None:
        """The MQTT session that a native client is for, unless that has ended."""
        session = self.sessions.by_name.get(end.owner)
        return session if session is not None and session.end is end else None
