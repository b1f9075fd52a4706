"""What the doors of an overlay tell each other: what is retained, who is in groups, and more.

Each door has a native client of its own and publishes on a reserved topic that all doors subscribe
to, so its words go where the overlay's links go, once over each. What is new is told at once. Now
and then each door says how much it has (`StateDigest`); who has something else asks for all of it,
so a door that comes late, or was cut off, ends up with the same.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

import msgspec

from pubweave.core.config.mqtt import MqttConfig
from pubweave.core.mqtt.cluster.bridge_census import BridgeCensus
from pubweave.core.mqtt.cluster.retained import RetainedStore
from pubweave.core.mqtt.cluster.wildcard_interests import WildcardInterestTable
from pubweave.core.mqtt.protocol.bridge_marks import BridgeMarks
from pubweave.core.mqtt.protocol.properties import is_retained
from pubweave.core.mqtt.protocol.topics import DOORS_TOPIC, filters_of
from pubweave.core.mqtt.protocol.wildcard_topics import ways_of
from pubweave.core.mqtt.session.cluster_messages import (
    Members,
    MoveWord,
    PullRequest,
    Retain,
    Returned,
    StateDigest,
    Subject,
    WildcardInterests,
    Word,
    bare,
    digest_of,
    weighed,
)
from pubweave.core.mqtt.session.native_client import InProcessLink, NativeSession
from pubweave.core.mqtt.session.session import MqttSession
from pubweave.core.mqtt.session.shared_groups import GroupMember, SharedGroups
from pubweave.core.mqtt.session.subscriptions import MqttSubscription
from pubweave.core.session.access import DOOR_CLIENT, DOOR_USER
from pubweave.model.filters.filter import Filter, topic_filter
from pubweave.model.ids import BrokerId
from pubweave.model.publications import Publication

TOLD_AT_ONCE_BYTES = 128 << 10
ANSWER_EVERY_S = 0.5
SILENT_TIMES = 4
"""A door that has missed so many of its announcements is gone, and so are its members."""


_decode = msgspec.msgpack.Decoder(Word).decode
_encode = msgspec.msgpack.Encoder().encode


class GatewayGossip:
    """One door's part in what all doors know."""

    def __init__(
        self,
        broker: BrokerId,
        config: MqttConfig,
        loop: InProcessLink,
        now: float,
        *,
        routes_whole_topics: bool,
    ) -> None:
        self.routes_whole_topics = routes_whole_topics
        """Whether the overlay's strategy routes by whole topics only."""
        self.retained = RetainedStore(config.retained_messages, config.retained_bytes)
        self.groups = SharedGroups()
        self.marks = BridgeMarks(broker, loop.epoch(now))
        self.bridges = BridgeCensus()
        self.interests = WildcardInterestTable(broker)
        self.addresses: dict[BrokerId, str] = {}
        """Where MQTT clients reach other doors."""
        self.deadline = now
        self.on_move: Callable[[BrokerId, MoveWord, float], None]
        """Hears what concerns sessions that move."""
        self.on_gone: Callable[[BrokerId], None]
        """Hears of doors that are gone."""
        self.sessions_digest: Callable[[BrokerId], int]
        """Of the sessions that are at a door, as far as it is known here."""
        self.on_wanted: Callable[[dict[str, float], float], None]
        """Hears which wild topics doors take."""
        self.on_returned: Callable[[Returned, float], None]
        """Hears which client here repeats what a bridge elsewhere is sent."""
        self.tell_sessions: Callable[[float], None]
        """Tells the others which sessions are here."""
        self._broker = broker
        self._config = config
        self._loop = loop
        self._end: NativeSession | None = None
        self._members: dict[str, tuple[GroupMember, ...]] = {}
        self._members_told = True
        self._bridges_told = 0
        self._heard_at: dict[BrokerId, float] = {}
        self._answered_at: dict[Subject, float] = {}
        self._doubts: dict[tuple[BrokerId, Subject], tuple[int, int, int]] = {}
        """What a door said of itself and what we knew when that last differed, and how often in
        a row it did."""

    @property
    def has_others(self) -> bool:
        """Whether sessions may be at other doors."""
        return bool(self._heard_at)

    def filters_of(self, pattern: str, content: Filter | None) -> tuple[Filter, ...]:
        """The filters of the overlay that together let all of a pattern through."""
        return (ways_of if self.routes_whole_topics else filters_of)(pattern, content)

    def number(self, now: float) -> int:
        """A number that no door has given out before."""
        return self._loop.epoch(now)

    def another_for(self, session: str) -> BrokerId:
        """One of the doors that clients can be sent to; sessions spread over all of them. Empty:
        there is none."""
        doors = sorted(door for door, address in self.addresses.items() if address)
        return doors[digest_of((session,)) % len(doors)] if doors else ""

    # --- the own client --------------------------------------------------------------------

    def begin(self, now: float) -> None:
        """Attach the door's own client, unless it is."""
        if self._end is not None and self._end.lost_reason is None:
            return
        self._end = end = self._loop.open(f"{DOOR_CLIENT}{self._broker}", DOOR_USER, "", now)
        end.client.advertise(topic_filter(DOORS_TOPIC))
        if self._config.draws_subscriptions and not self.routes_whole_topics:
            # A publication can follow its advertisement at once, but the subscriptions that the
            # advertisement draws take the way there and back: the first one would be missed.
            end.client.advertise(Filter())
        end.client.subscribe(topic_filter(DOORS_TOPIC))
        self._members_told = not self._members
        self.say(self._here(wants_answer=True), now)
        if self.routes_whole_topics:
            self.say(self.interests.own(), now)

    def restored(self, now: float) -> None:
        """While this door was away, it could not hear of others."""
        self._heard_at = dict.fromkeys(self._heard_at, now)

    def excuse(self, seconds: float) -> None:
        """This broker did not run for so long: no other door was silent in that time."""
        self._heard_at = {door: at + seconds for door, at in self._heard_at.items()}

    def _here(self, *, wants_answer: bool = False) -> StateDigest:
        return StateDigest(
            self._config.address,
            self.retained.digest,
            self._members_digest(self._broker),
            self.sessions_digest(self._broker),
            wants_answer,
            self.marks.own,
            len(self.bridges.here),
            self.interests.digest(self._broker),
        )

    def _members_digest(self, door: BrokerId) -> int:
        return digest_of(f"{m.group}/{m.pattern}/{m}" for m in self.groups.of(door))

    def on_deadline(self, now: float) -> None:
        if now < self.deadline:
            return
        self.deadline = now + self._config.announce_every_s
        if self._end is None:
            return
        self.retained.forget_expired(now)
        self.say(self._here(), now)
        limit_s = SILENT_TIMES * self._config.announce_every_s
        for door in [d for d, at in self._heard_at.items() if now - at > limit_s]:
            del self._heard_at[door]
            self.addresses.pop(door, None)
            self.bridges.heard(door, 0)
            for subject in Subject:
                self._doubts.pop((door, subject), None)
            self.groups.replace(door, ())
            self.interests.silent(door, now)
            self.on_gone(door)
        if self.interests.forget_absent(now):
            self.on_wanted(self.interests.wanted(), now)

    def say(self, word: Word, now: float) -> None:
        if self._end is None:
            return
        self._end.client.publish(DOORS_TOPIC, {}, _encode(word), now)
        self._loop.touch(self._end)

    # --- retained --------------------------------------------------------------------------

    def retain(self, publication: Publication, now: float) -> None:
        """A publication of a client here has been taken in: retain it if it says so."""
        if is_retained(publication) and self.retained.put(publication, now):
            self.say(Retain((bare(publication),)), now)

    def _tell_retained(self, now: float) -> None:
        gathered: list[Publication] = []
        size_bytes = 0
        for publication in self.retained.all():
            gathered.append(bare(publication))
            size_bytes += publication.size_bytes
            if size_bytes > TOLD_AT_ONCE_BYTES:
                self.say(Retain(tuple(gathered)), now)
                gathered, size_bytes = [], 0
        if gathered:
            self.say(Retain(tuple(gathered)), now)

    # --- differences -----------------------------------------------------------------------

    def _compare(self, door: BrokerId, here: StateDigest, now: float) -> None:
        """Ask for what a door has, if that is not what we know."""
        for subject, theirs, known in (
            (Subject.RETAINED, here.retained, self.retained.digest),
            (Subject.MEMBERS, here.members, self._members_digest(door)),
            (Subject.SESSIONS, here.sessions, self.sessions_digest(door)),
            (Subject.WILD, here.wild, self.interests.digest(door)),
        ):
            if theirs == known:
                self._doubts.pop((door, subject), None)
            elif self._is_in_doubt(door, subject, theirs, known):
                self.say(PullRequest(door, subject), now)

    def _is_in_doubt(self, door: BrokerId, subject: Subject, theirs: int, known: int) -> bool:
        """Whether a difference is more than news under way: it was the same before, or we know
        nothing. Asked in vain, a door is asked ever more seldom: one of us may have no room."""
        times = 1
        if self._doubts.get((door, subject), (0, 0, 0))[:2] == (theirs, known):
            times += self._doubts[door, subject][2]
        self._doubts[door, subject] = theirs, known, times
        is_first_word = not known and (subject is not Subject.RETAINED or len(self._doubts) == 1)
        return is_first_word if times == 1 else times & (times - 1) == 0

    def _tell_all(self, subject: Subject, now: float) -> None:
        """All hear an answer; who asked at about the same time needs no other."""
        if now - self._answered_at.get(subject, -inf) < ANSWER_EVERY_S:
            return
        self._answered_at[subject] = now
        match subject:
            case Subject.RETAINED:
                self._tell_retained(now)
            case Subject.MEMBERS:
                self.say(Members(self.groups.of(self._broker)), now)
            case Subject.SESSIONS:
                self.tell_sessions(now)
            case Subject.WILD:
                self.say(self.interests.own(), now)

    # --- groups ----------------------------------------------------------------------------

    def session_changed(self, session: MqttSession, *, is_over: bool = False) -> None:
        """A session came, went or subscribed: it may be a bridge, a member of groups, or take wild
        topics."""
        self.bridges.note(session, is_over=is_over)
        if self.routes_whole_topics:
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
        self._members_told = False

    def chosen(
        self,
        session: MqttSession,
        publication: Publication,
        found: tuple[MqttSubscription, ...],
    ) -> tuple[MqttSubscription, ...]:
        """Of the subscriptions that a publication is for, those by which this session gets it."""
        if not any(s.group for s in found):
            return found
        chosen = self.groups.chosen
        return tuple(
            s
            for s in found
            if not s.group or chosen((s.group, s.pattern), publication) == session.name
        )

    def tell_changes(self, now: float) -> None:
        """Once for all changes of an event."""
        if not self._members_told:
            self._members_told = True
            self.say(Members(self.groups.of(self._broker)), now)
        if self.interests.changed(now):
            self.say(self.interests.own(), now)
            self.on_wanted(self.interests.wanted(), now)
        if len(self.bridges.here) != self._bridges_told:
            self._bridges_told = len(self.bridges.here)
            self.say(self._here(), now)

    # --- what others say -------------------------------------------------------------------

    def receive(self, publications: Sequence[Publication], now: float) -> None:
        """Words of doors, the own ones among them."""
        for publication in publications:
            door = publication.publisher.removeprefix(DOOR_CLIENT)
            if door == self._broker or door == publication.publisher:
                continue  # our own, or of somebody who is no door
            try:
                word = _decode(publication.payload)
            except msgspec.MsgspecError:
                continue  # of another version
            is_new = door not in self._heard_at
            self._heard_at[door] = now
            self.interests.is_back(door)
            self._on_word(door, word, now)
            if is_new:
                self._greet(word, now)

    def _greet(self, word: Word, now: float) -> None:
        """A door that was not known: what we said before, it may not have heard."""
        if not isinstance(word, StateDigest):
            self.say(self._here(wants_answer=True), now)
        elif not word.wants_answer:
            self.say(self._here(), now)

    def _on_word(self, door: BrokerId, word: Word, now: float) -> None:
        match word:
            case StateDigest():
                self.addresses[door] = word.address
                self.marks.learn(word.mark)
                self.bridges.heard(door, word.bridges)
                if word.wants_answer:
                    self.say(self._here(), now)
                self._compare(door, word, now)
            case PullRequest() if word.door == self._broker:
                self._tell_all(word.subject, now)
            case Retain():
                for publication in word.publications:
                    self.retained.put(weighed(publication), now)
            case Members():
                self.groups.replace(door, word.members)
            case WildcardInterests():
                self.interests.heard(door, word)
                self.on_wanted(self.interests.wanted(), now)
            case Returned() if word.door == self._broker:
                self.on_returned(word, now)
            case PullRequest() | Returned():
                pass  # for another door
            case _:
                self.on_move(door, word, now)
