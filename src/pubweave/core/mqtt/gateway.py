"""A broker's door for MQTT clients: packets in, packets out, and native clients in between.

Part of the broker's own machine: an event with packets is an event like any other, written down in
the journal if there is one, and nothing is answered before that. So sessions, packet ids, retained
publications and wills survive whatever the broker survives, and there is no store beside it.

```
 PacketsReceived ─> MqttGateway ─> MqttSession ─> NativeSession ─> broker ─> overlay
 TransmitPackets <─ (end of the event) <─ MqttSession.deliver <─ NativeSession <─┘
```
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from pubweave.core.config.mqtt import MqttConfig
from pubweave.core.mqtt.bridges.loop_detector import Loops
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
        loop: InProcessLink,
        now: float,
        *,
        routes_whole_topics: bool,
        is_leaving: Callable[[], bool],
    ) -> None:
        self.config = config
        self._access = access
        self._loop = loop
        loop.on_notified = self._on_notified
        loop.on_settled = self._on_settled
        self.sessions = MqttSessionTable(
            broker, config, loop, access, routes_whole_topics=routes_whole_topics
        )
        loop.on_missed = self.sessions.missed
        self.doors = GatewayGossip(
            broker, config, loop, now, routes_whole_topics=routes_whole_topics
        )
        self.moving = SessionHandover(broker, config, loop, self.sessions, self.doors)
        connecting = ConnectHandler(broker, config, access, self.sessions, self.doors)
        self.comings = ConnectionTable(
            config, access, loop, self.sessions, self.doors, self.moving, connecting
        )
        self.comings.on_early = self._on_packets
        self.comings.is_leaving = is_leaving
        self.moving.on_claimed = self._on_claimed
        self.moving.on_arrived = self.comings.session_arrived
        self.moving.on_late = self.comings.session_late
        self.doors.on_move = self.moving.receive
        self.doors.on_gone = self.moving.forget_door
        self.doors.sessions_digest = self.moving.digest
        self.doors.tell_sessions = self.moving.tell_all
        self.copying = WildcardReplicator(broker, loop)
        self.doors.on_wanted = self.copying.want
        self.redirecting = ClientRedirector(config, self.sessions, self.doors, self.comings)
        self.leaving = SessionEvacuation(self.sessions, self.doors, self.moving, is_leaving)
        self.moving.on_redirected = self.redirecting.rest
        self.loops = Loops(broker, config, self.sessions, self.doors, self.comings)
        self.doors.on_returned = self.loops.returned
        self.rings = LoopProbes(config, self.sessions, self.doors, self.loops)
        self._publishing = PublishHandler(
            config, access, loop, self.sessions, self.rings, self.comings
        )
        self.comings.on_leaving = self._publishing.release_all
        self._subscribing = SubscribeHandler(config, access, loop, self.doors, self.rings)

    # --- events ----------------------------------------------------------------------------

    def connections(self) -> list[ConnectionId]:
        return list(self.comings.connections)

    def restored(self, now: float) -> None:
        """The broker has come back from its journal, perhaps with other settings."""
        self.doors.restored(now)
        for session in self.sessions.all():
            session.config = self.config

    def excuse(self, seconds: float) -> None:
        """This broker did not run for so long: that time counts against nobody."""
        for part in (self.comings, self.sessions, self.doors):
            part.excuse(seconds)

    def handle(self, event: Event, now: float, effects: list[Effect]) -> bool:
        """What happens to a connection of this door; False: the event is about something else."""
        self.comings.effects = effects
        if isinstance(event, MqttOpened):
            self.comings.opened(event, now)
            return True
        connection = self.comings.connections.get(getattr(event, "connection", 0))
        if connection is None:
            return False
        match event:
            case PacketsReceived():
                connection.heard_at = now
                self._on_packets(connection, event.packets, now)
            case WritingPaused():
                connection.is_slow = event.is_paused
                session = self.sessions.of(connection)
                if session is not None:
                    session.pump(now)
            case LoginReceived() | PasswordVerified():
                self.comings.login(connection, event, now)
            case ConnectionClosed():
                self.comings.closed(connection, now)
        return True

    def finish(self, effects: list[Effect], now: float) -> None:
        """The end of every event of the broker: carry what it caused to and fro, and send."""
        self.comings.effects = effects
        self.doors.begin(now)
        self._loop.turn(effects, now)
        while overrun := self.sessions.overrunning():
            for session in overrun:
                self.comings.end_overrun(session, now)
            self._loop.turn(effects, now)
        self.doors.tell_changes(now)
        self.rings.check(now)
        self._loop.turn(effects, now)
        self.comings.flush(effects)

    def keep(self, effects: list[Effect]) -> None:
        """An event broke off: what it caused within this process comes with the next one."""
        self._loop.keep(effects)

    def forbid(self, session: MqttSession, reason: str, now: float) -> None:
        """The rules have changed, and a session does not agree with them any more."""
        session.will = None
        self.comings.end_session(session, MqttError(Reason.NOT_AUTHORIZED, reason), now)

    def status(self, now: float) -> MqttStatus:
        """O(sessions)."""
        sessions = self.sessions.all()
        return MqttStatus(
            connections=len(self.comings.connections),
            sessions=len(sessions),
            waiting=sum(session.outbox.waiting for session in sessions),
            dropped=self.sessions.dropped,
            qos0_dropped=self.sessions.qos0_dropped
            + sum(session.qos0_dropped for session in sessions),
            retained=len(self.doors.retained),
            redirected=self.redirecting.redirected,
            overrun=self.sessions.overrun,
            echoes=self._publishing.echoes,
            too_large=self._publishing.too_large,
            lost=self.sessions.lost,
            copies=self.copying.copied,
            loops=self.loops.noticed,
            loops_refused=self.loops.refused,
            loop=self.loops.last(now),
        )

    # --- time ------------------------------------------------------------------------------

    @property
    def deadline(self) -> float:
        return min(
            self.comings.deadline,
            self.sessions.deadline,
            self.doors.deadline,
            self.moving.deadline,
            self.redirecting.deadline,
            self.leaving.deadline,
            self.rings.deadline,
            self._publishing.deadline,
            self.copying.deadline,
        )

    def on_deadline(self, now: float, effects: list[Effect]) -> None:
        self.comings.effects = effects
        self.comings.on_deadline(now)
        for session in self.sessions.on_deadline(now):
            self.comings.over(session, now)
        self.moving.on_deadline(now)
        self.redirecting.on_deadline(now)
        self.leaving.on_deadline(now)
        self.rings.on_deadline(now)
        self._publishing.on_deadline(now)
        self.copying.on_deadline(now)
        self.doors.on_deadline(now)

    # --- packets ---------------------------------------------------------------------------

    def _on_packets(
        self, connection: MqttConnection, packets: Sequence[FromClient], now: float
    ) -> None:
        for packet in packets:
            if self.comings.is_closing(connection):
                return
            try:
                self._on_packet(connection, packet, now)
            except MqttError as error:
                self.comings.end(connection, error, now)

    def _on_packet(self, connection: MqttConnection, packet: FromClient, now: float) -> None:
        session = self.sessions.of(connection)
        if session is None:
            self.comings.first_packet(connection, packet, now)
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
                connection.say(self._subscribing.unsubscribe(session, packet))
            case PingReq():
                connection.say(PingResp())
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
        self.comings.close(connection, "the client disconnected", now)

    # --- from other doors ------------------------------------------------------------------

    def _on_claimed(self, session: MqttSession, now: float) -> None:
        """The client of a session has connected at another door."""
        if session.connection is not None:
            text = "another client has connected with this id elsewhere"
            error = MqttError(Reason.SESSION_TAKEN_OVER, text)
            self.comings.end(session.connection, error, now)

    # --- from the native clients -----------------------------------------------------------

    def _on_notified(
        self, end: NativeSession, publications: Sequence[Publication], now: float
    ) -> None:
        if not end.owner:
            self.doors.receive(publications, now)
            return
        session = self.sessions.get(end.owner)
        if session is None or session.end is not end:
            return
        if session.held is not None:
            for publication in session.ways.unknown(publications):
                session.hold(publication)
            return
        news = self.moving.news(session, publications)
        if self.doors.bridges.count > 1:
            self._look_for_loops(session, news, now)
        for publication in news:
            self.moving.deliver(session, publication, now)

    def _look_for_loops(
        self, session: MqttSession, news: Sequence[Publication], now: float
    ) -> None:
        if self.rings.is_watched(session):
            for publication in news:
                self.rings.notified(session, publication, now)
            self._publishing.release(session, now)
        if session.name in self.doors.bridges.here:
            for publication in news:
                self.loops.delivered(session, publication, now)

    def _on_settled(self, end: NativeSession, now: float) -> None:
        """The broker has taken in what a client said, or has let it go."""
        if end.owner == COPYING:
            self.copying.settled()
            return
        found = self.sessions.get(end.owner)
        session = found if found is not None and found.end is end else None
        if end.lost_reason is not None:
            if session is not None:
                self._on_lost(session, end.lost_reason, now)
            return
        for promise in end.kept():
            self._keep_promise(session, end, promise, now)
        leaving = end.refusals.pop(LEAVING_SUBJECT, None)
        if leaving is not None and session is not None:
            self.redirecting.leave(session, leaving, now)
            self.leaving.add(session.name, now)
        if not end.promises:
            end.refusals.clear()
        if session is not None:
            self._publishing.settled(session)

    def _keep_promise(
        self, session: MqttSession | None, end: NativeSession, promise: PendingReply, now: float
    ) -> None:
        publication = promise.publication
        refusal = None
        if publication is not None:
            refusal = end.refusals.pop(f"publication {publication.sequence}", None)
            if refusal is None:
                self.doors.retain(publication, now)
        if session is None:
            return  # over, but for its will
        if isinstance(promise.answer, Subscribe):
            self._subscribing.granted(session, promise, now)
        elif isinstance(promise.answer, Arrived):
            self.moving.subscribed(promise.answer, now)
        elif promise.answer is not None:
            session.answered(promise.answer, refusal)

    def _on_lost(self, session: MqttSession, reason: str, now: float) -> None:
        """The broker ended a native session: so ends the MQTT session."""
        connection = session.connection
        self.sessions.let_go(session)
        if connection is not None and connection.is_accepted:
            self.comings.end(connection, MqttError(Reason.QUOTA_EXCEEDED, reason), now)
        elif connection is None:
            self.sessions.end(session, now)
            self.comings.over(session, now)


def _out_of_place(packet: Connect | Auth) -> MqttError:
    """The driver lets only such steps of an authentication through as end the connection."""
    if isinstance(packet, Connect):
        return MqttError(Reason.PROTOCOL_ERROR, "a second Connect")
    if packet.reason == Reason.NOT_AUTHORIZED:
        return MqttError(Reason.NOT_AUTHORIZED, "the authentication failed")
    return MqttError(Reason.PROTOCOL_ERROR, "no such authentication is under way")
