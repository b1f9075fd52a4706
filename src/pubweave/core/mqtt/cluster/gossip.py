"""Gossip between the MQTT gateways of an overlay: retained messages, group members and more.

Each gateway has a native client of its own and publishes on a reserved topic that all gateways
subscribe to, so a message crosses each link of the overlay once. News are published at once.
Anti-entropy: at intervals each gateway publishes digests of its state (`StateDigest`); one whose
state differs pulls all of it, so a gateway that joins late, or was cut off, converges.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

import msgspec

from pubweave.core.mqtt.cluster.bridge_census import BridgeCensus
from pubweave.core.mqtt.cluster.handover_chunks import chunks
from pubweave.core.mqtt.cluster.retained import RetainedStore
from pubweave.core.mqtt.cluster.session_directory import SessionDirectory
from pubweave.core.mqtt.cluster.wildcard_interests import WildcardInterestTable
from pubweave.core.mqtt.cluster.wildcard_replicator import WildcardReplicator
from pubweave.core.mqtt.protocol.bridge_marks import BridgeMarks
from pubweave.core.mqtt.protocol.properties import is_retained
from pubweave.core.mqtt.protocol.topics import GATEWAYS_TOPIC, filters_of
from pubweave.core.mqtt.protocol.wildcard_topics import overlay_filters_of
from pubweave.core.mqtt.services import MqttServices
from pubweave.core.mqtt.session.cluster_messages import (
    GatewayMessage,
    HandoverMessage,
    Members,
    PullRequest,
    Retain,
    Returned,
    SessionsHeld,
    StateDigest,
    Subject,
    WildcardInterests,
    bare,
    digest_of,
    with_size,
)
from pubweave.core.mqtt.session.native_client import InProcessLink, NativeSession
from pubweave.core.mqtt.session.session import MqttSession
from pubweave.core.mqtt.session.shared_groups import GroupMember, SharedGroups
from pubweave.core.mqtt.session.table import MqttSessionTable
from pubweave.core.session.access import GATEWAY_CLIENT, GATEWAY_USER
from pubweave.model.filters.filter import Filter, topic_filter
from pubweave.model.ids import BrokerId
from pubweave.model.publications import Publication

ANSWER_EVERY_S = 0.5
MISSED_MAX = 4
"""A gateway that misses this many announcements is gone, and so are its group members."""


_decode = msgspec.msgpack.Decoder(GatewayMessage).decode
_encode = msgspec.msgpack.Encoder().encode


class GatewayGossip:
    """One gateway's part in the gossip."""

    def __init__(
        self,
        services: MqttServices,
        link: InProcessLink,
        sessions: MqttSessionTable,
        directory: SessionDirectory,
        replicator: WildcardReplicator,
        now: float,
    ) -> None:
        broker, config = services.broker, services.config
        self.retained = RetainedStore(config.retained_messages, config.retained_bytes)
        self.groups = SharedGroups()
        self.marks = BridgeMarks(broker, link.epoch(now))
        self.bridges = BridgeCensus()
        self.interests = WildcardInterestTable(broker)
        self.addresses: dict[BrokerId, str] = {}
        """Where MQTT clients reach other gateways."""
        self.is_attached = False
        """Its own client has a session with the broker, or will have."""
        self.has_changed = False
        """There may be something for `announce_changes`."""
        self._broker = broker
        self._config = config
        self._services = services
        self._link = link
        self._sessions = sessions
        self._directory = directory
        self._replicator = replicator
        self._announce_at = now
        services.deadlines.set("gossip", now)
        self._end: NativeSession | None = None
        self._members: dict[str, tuple[GroupMember, ...]] = {}
        self._members_announced = True
        self._bridges_announced = 0
        self._heard_at: dict[BrokerId, float] = {}
        self._answered_at: dict[Subject, float] = {}
        self._differences: dict[tuple[BrokerId, Subject], tuple[int, int, int]] = {}
        """The digests, a gateway's own and ours, that last differed, and how often in a row."""

    @property
    def has_others(self) -> bool:
        """Whether sessions may be at other gateways."""
        return bool(self._heard_at)

    def filters_of(self, pattern: str, content: Filter | None) -> tuple[Filter, ...]:
        """The overlay filters that together match all topics of a pattern."""
        is_whole = self._services.routes_whole_topics
        return (overlay_filters_of if is_whole else filters_of)(pattern, content)

    def new_number(self, now: float) -> int:
        """A number that no gateway has issued before."""
        return self._link.epoch(now)

    def gateway_for(self, session: str) -> BrokerId:
        """A gateway to redirect a session's client to, chosen by hash; empty if there is none."""
        gateways = sorted(gateway for gateway, address in self.addresses.items() if address)
        return gateways[digest_of((session,)) % len(gateways)] if gateways else ""

    # --- the own client --------------------------------------------------------------------

    def begin(self, now: float) -> None:
        """Attach the gateway's own client."""
        self.is_attached = True
        self._end = end = self._link.open(f"{GATEWAY_CLIENT}{self._broker}", GATEWAY_USER, "", now)
        end.advertise(topic_filter(GATEWAYS_TOPIC))
        if self._config.draws_subscriptions and not self._services.routes_whole_topics:
            # A publication can follow its advertisement at once, but the subscriptions that the
            # advertisement draws take a round trip: the first one would be missed.
            end.advertise(Filter())
        end.subscribe(topic_filter(GATEWAYS_TOPIC))
        self._members_announced = not self._members
        self.has_changed = True
        self.publish(self._state_digest(wants_answer=True), now)
        if self._services.routes_whole_topics:
            self.publish(self.interests.own(), now)

    def restored(self, now: float) -> None:
        """While this gateway was down, it could not hear of others."""
        self._heard_at = dict.fromkeys(self._heard_at, now)

    def excuse(self, seconds: float) -> None:
        """A local pause does not count as silence of other gateways."""
        self._heard_at = {gateway: at + seconds for gateway, at in self._heard_at.items()}

    def _state_digest(self, *, wants_answer: bool = False) -> StateDigest:
        return StateDigest(
            self._config.address,
            self.retained.digest,
            self._members_digest(self._broker),
            self._sessions_digest(self._broker),
            wants_answer,
            self.marks.own,
            len(self.bridges.here),
            self.interests.digest(self._broker),
        )

    def _sessions_digest(self, gateway: BrokerId) -> int:
        """Of the sessions at a gateway. O(1); for this gateway O(sessions)."""
        if gateway == self._broker:
            return digest_of(self._announced())
        return self._directory.digest(gateway)

    def _announced(self) -> list[str]:
        return [s.name for s in self._sessions.by_name.values() if s.is_announced]

    def _announce_sessions(self, now: float) -> None:
        names = self._announced()
        for start in range(0, max(1, len(names)), 500):
            some = tuple(names[start : start + 500])
            self.publish(SessionsHeld(some, is_all=not start), now)

    def _members_digest(self, gateway: BrokerId) -> int:
        return digest_of(f"{m.group}/{m.pattern}/{m}" for m in self.groups.members_at(gateway))

    def on_deadline(self, now: float) -> None:
        if now < self._announce_at:
            return
        self._announce_at = now + self._config.announce_every_s
        self._services.deadlines.set("gossip", self._announce_at)
        if self._end is None:
            return
        self.retained.discard_expired(now)
        self.publish(self._state_digest(), now)
        limit_s = MISSED_MAX * self._config.announce_every_s
        for gateway in [d for d, at in self._heard_at.items() if now - at > limit_s]:
            del self._heard_at[gateway]
            self.addresses.pop(gateway, None)
            self.bridges.heard(gateway, 0)
            self.has_changed = True
            for subject in Subject:
                self._differences.pop((gateway, subject), None)
            self.groups.replace(gateway, ())
            self.interests.silent(gateway, now)
            self._directory.discard_gateway(gateway)
        if self.interests.discard_absent(now):
            self._replicator.set_wanted(self.interests.wanted(), now)

    def publish(self, message: GatewayMessage, now: float) -> None:
        if self._end is None:
            return
        self._end.publish(GATEWAYS_TOPIC, {}, _encode(message), now)

    # --- retained --------------------------------------------------------------------------

    def retain(self, publication: Publication, now: float) -> None:
        """A publication of a client here was accepted: retain it if it asks for that."""
        if is_retained(publication) and self.retained.put(publication, now):
            self.publish(Retain((bare(publication),)), now)

    def _announce_retained(self, now: float) -> None:
        for chunk in chunks(self.retained.all(), lambda publication: publication.size_bytes):
            self.publish(Retain(tuple(map(bare, chunk))), now)

    # --- differences -----------------------------------------------------------------------

    def _compare(self, gateway: BrokerId, digest: StateDigest, now: float) -> None:
        """Pull what a gateway has, where its digest differs from ours."""
        for subject, theirs, known in (
            (Subject.RETAINED, digest.retained, self.retained.digest),
            (Subject.MEMBERS, digest.members, self._members_digest(gateway)),
            (Subject.SESSIONS, digest.sessions, self._sessions_digest(gateway)),
            (Subject.WILDCARDS, digest.interests, self.interests.digest(gateway)),
        ):
            if theirs == known:
                self._differences.pop((gateway, subject), None)
            elif self._should_pull(gateway, subject, theirs, known):
                self.publish(PullRequest(gateway, subject), now)

    def _should_pull(self, gateway: BrokerId, subject: Subject, theirs: int, known: int) -> bool:
        """Whether a difference is more than news under way: it was the same before, or we know
        nothing. Back off if pulling does not help: one of us may have no room."""
        times = 1
        if self._differences.get((gateway, subject), (0, 0, 0))[:2] == (theirs, known):
            times += self._differences[gateway, subject][2]
        self._differences[gateway, subject] = theirs, known, times
        is_all_missing = not known and (
            subject is not Subject.RETAINED or len(self._differences) == 1
        )
        return is_all_missing if times == 1 else times & (times - 1) == 0

    def _answer_pull(self, subject: Subject, now: float) -> None:
        """Publish all of a subject. Everybody receives it, so answer once per `ANSWER_EVERY_S`."""
        if now - self._answered_at.get(subject, -inf) < ANSWER_EVERY_S:
            return
        self._answered_at[subject] = now
        match subject:
            case Subject.RETAINED:
                self._announce_retained(now)
            case Subject.MEMBERS:
                self.publish(Members(self.groups.members_at(self._broker)), now)
            case Subject.SESSIONS:
                self._announce_sessions(now)
            case Subject.WILDCARDS:
                self.publish(self.interests.own(), now)

    # --- groups ----------------------------------------------------------------------------

    def session_changed(self, session: MqttSession, *, is_over: bool = False) -> None:
        """A session connected, disconnected or subscribed: update bridges, group members and
        wildcard interests."""
        self.has_changed = True
        self.bridges.note(session, is_over=is_over)
        if self._services.routes_whole_topics:
            self.interests.note(session, is_over=is_over)
        members: tuple[GroupMember, ...] = ()
        if session.subscriptions.shared and not is_over:
            is_connected = session.connection is not None
            members = tuple(
                GroupMember(s.group, s.pattern, session.name, is_connected)
                for s in session.subscriptions.all()
                if s.group
            )
        if members == self._members.get(session.name, ()):
            return
        if members:
            self._members[session.name] = members
        else:
            del self._members[session.name]
        own = tuple(member for some in self._members.values() for member in some)
        self.groups.replace(self._broker, own)
        self._members_announced = False

    def announce_changes(self, now: float) -> None:
        """Announce all changes of an event together."""
        self.has_changed = False
        if not self._members_announced:
            self._members_announced = True
            self.publish(Members(self.groups.members_at(self._broker)), now)
        if self.interests.changed(now):
            self.publish(self.interests.own(), now)
            self._replicator.set_wanted(self.interests.wanted(), now)
        if len(self.bridges.here) != self._bridges_announced:
            self._bridges_announced = len(self.bridges.here)
            self.publish(self._state_digest(), now)

    # --- messages of other gateways --------------------------------------------------------

    def received(
        self, publications: Sequence[Publication], now: float
    ) -> Iterator[tuple[BrokerId, HandoverMessage | Returned]]:
        """Handle messages of gateways, this one's among them; those that are about sessions or
        loops here are passed on, each with the gateway that sent it."""
        for publication in publications:
            gateway = publication.publisher.removeprefix(GATEWAY_CLIENT)
            if gateway == self._broker or gateway == publication.publisher:
                continue  # our own, or not of a gateway
            try:
                message = _decode(publication.payload)
            except msgspec.MsgspecError:
                continue  # of another version
            is_new = gateway not in self._heard_at
            self._heard_at[gateway] = now
            self.interests.is_back(gateway)
            if isinstance(message, HandoverMessage):
                yield gateway, message
            elif isinstance(message, Returned):
                if message.gateway == self._broker:
                    yield gateway, message
            else:
                self._on_message(gateway, message, now)
            if is_new:
                self._introduce(message, now)

    def _introduce(self, message: GatewayMessage, now: float) -> None:
        """Announce our state to a new gateway, which may have missed what we said before."""
        if not isinstance(message, StateDigest):
            self.publish(self._state_digest(wants_answer=True), now)
        elif not message.wants_answer:
            self.publish(self._state_digest(), now)

    def _on_message(
        self,
        gateway: BrokerId,
        message: StateDigest | PullRequest | Retain | Members | WildcardInterests,
        now: float,
    ) -> None:
        match message:
            case StateDigest():
                self.addresses[gateway] = message.address
                self.marks.learn(message.mark)
                self.bridges.heard(gateway, message.bridges)
                self.has_changed = True
                if message.wants_answer:
                    self.publish(self._state_digest(), now)
                self._compare(gateway, message, now)
            case PullRequest():
                if message.gateway == self._broker:
                    self._answer_pull(message.subject, now)
            case Retain():
                for publication in message.publications:
                    self.retained.put(with_size(publication), now)
            case Members():
                self.groups.replace(gateway, message.members)
            case WildcardInterests():
                self.interests.heard(gateway, message)
                self._replicator.set_wanted(self.interests.wanted(), now)
