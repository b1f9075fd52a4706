"""A session goes on at the door where its client connects.

```
 new door   Claim >          subscribes, Arrived >             lets the client in
 old door            < Handover (all but the future)   < Tail, forgets
```

Both doors get publications while a session is between them. `Arrived` follows the subscriptions
of the new door along the links, so whatever the old one gets after it, the new one gets, too; what
the old one got before is the tail. The new door keeps what it gets until it has the tail, and
delivers what is in either, each once. Nobody is let in before that: until then the session is at
the old door, should the client return there, and from then on at the new one, and never at both.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf

import msgspec

from pubweave.core.config.mqtt import MqttConfig
from pubweave.core.mqtt.cluster.gossip import GatewayGossip
from pubweave.core.mqtt.cluster.handover_chunks import handovers, tails, unpacked, weighed_parcel
from pubweave.core.mqtt.cluster.session_directory import SessionDirectory
from pubweave.core.mqtt.session.cluster_messages import (
    Arrived,
    Claim,
    Handover,
    HandoverTail,
    MoveWord,
    Offer,
    Redirected,
    SessionHeader,
    SessionsEnded,
    SessionsHeld,
    digest_of,
)
from pubweave.core.mqtt.session.inflight import Delivery
from pubweave.core.mqtt.session.native_client import InProcessLink
from pubweave.core.mqtt.session.session import MqttSession
from pubweave.core.mqtt.session.table import MqttSessionTable
from pubweave.model.ids import BrokerId, ClientId
from pubweave.model.publications import Publication

CROSSING_S = 1.0
"""Claims for one session that are made at two doors within this time have not heard of each
other: the later one holds."""


class SessionHandover:
    """Sessions that come to this door or leave it."""

    def __init__(
        self,
        broker: BrokerId,
        config: MqttConfig,
        loop: InProcessLink,
        sessions: MqttSessionTable,
        doors: GatewayGossip,
    ) -> None:
        self.on_claimed: Callable[[MqttSession, float], None]
        """The client of a session here has connected elsewhere."""
        self.on_redirected: Callable[[ClientId, float], None]
        """A client was sent from one door to another."""
        self.on_late: Callable[[str, float], None]
        """A session is not complete yet: its client is to try again."""
        self.on_arrived: Callable[[str, float], None]
        """A session that was waited for is here, or will not come."""
        self._broker = broker
        self._config = config
        self._loop = loop
        self._sessions = sessions
        self._doors = doors
        self._holders = SessionDirectory()
        self._awaited: dict[str, tuple[float, BrokerId]] = {}
        """Since when a session is waited for, and from whom."""
        self._parts: dict[str, list[Handover]] = {}
        self._leaving: dict[str, tuple[BrokerId, float, int]] = {}
        """Where a session goes, since when it was claimed there, and how much of its queue has
        gone there."""
        self._arriving: dict[str, list[Delivery]] = {}
        """Sessions that are here but for their tail, with what there is of it; nobody is let in
        before all of it has come."""
        self._deferred: dict[str, tuple[BrokerId, Claim]] = {}
        """Who has claimed such a session of the old door, which may have let go of it or not."""
        self._until: dict[str, float] = {}
        """How long a client waits for its session."""

    # --- claiming --------------------------------------------------------------------------

    def claim(self, name: str, since: float, *, is_clean: bool) -> bool:
        """A client connects: tell the others. True if its session is elsewhere and worth waiting
        for; `on_arrived` hears of it."""
        if name in self._arriving and not is_clean:
            self._until[name] = since + self._config.handover_limit_s
            return True
        _, asked = self._awaited.get(name, (0.0, ""))
        holder = self._holders.discard(name) or asked
        if is_clean or self._sessions.get(name) is not None:
            holder = ""
        self._doors.say(Claim(name, since, holder), since)
        if holder:
            self._awaited[name] = since, holder
            self._until[name] = since + self._config.handover_limit_s
            self._parts.pop(name, None)
        return bool(holder)

    def holds(self, session: MqttSession, now: float) -> None:
        """A session that outlives its connection is here."""
        self._leaving.pop(session.name, None)
        if session.expiry_s and not session.is_told:
            session.is_told = True
            self._doors.say(SessionsHeld((session.name,)), now)

    def over(self, session: MqttSession, now: float) -> None:
        """A session has ended here; a client that waits for the rest of it waits no longer."""
        self._leaving.pop(session.name, None)
        was_arriving = self._arriving.pop(session.name, None) is not None
        self._deferred.pop(session.name, None)
        if session.is_told:
            self._doors.say(SessionsEnded((session.name,)), now)
        if was_arriving:
            self._no_longer_awaited(session.name, now)

    def tell_all(self, now: float) -> None:
        """Tell other doors which sessions are here."""
        names = self._told()
        for start in range(0, max(1, len(names)), 500):
            some = tuple(names[start : start + 500])
            self._doors.say(SessionsHeld(some, is_all=not start), now)

    def digest(self, door: BrokerId) -> int:
        """Of the sessions that are at a door. O(1), but for the own: O(sessions)."""
        if door == self._broker:
            return digest_of(self._told())
        return self._holders.digest(door)

    def _told(self) -> list[str]:
        return [s.name for s in self._sessions.all() if s.is_told]

    def forget_door(self, door: BrokerId) -> None:
        self._holders.forget_door(door)

    # --- time ------------------------------------------------------------------------------

    @property
    def deadline(self) -> float:
        return min(self._until.values(), default=inf)

    def on_deadline(self, now: float) -> None:
        """A session that does not come is given up. One that is here but for its tail is not: the
        old door may have let go of it or not, and only it can say; the client may try again."""
        for name in [n for n, until in self._until.items() if until <= now]:
            del self._until[name]
            if name in self._arriving:
                self.on_late(name, now)
            else:
                self._no_longer_awaited(name, now)

    # --- what other doors say --------------------------------------------------------------

    def receive(self, door: BrokerId, word: MoveWord, now: float) -> None:
        match word:
            case Redirected():
                self.on_redirected(word.session, now)
            case SessionsHeld():
                self._on_holds(door, word, now)
            case SessionsEnded():
                self._holders.forget_at(door, word.sessions)
            case Claim():
                self._on_claim(door, word, now)
            case Offer() if word.door == self._broker:
                self._on_offer(door, word, now)
            case Handover() if word.door == self._broker:
                self._on_handover(door, word, now)
            case Arrived() if word.door == self._broker:
                self._on_gone(door, word, now)
            case HandoverTail() if word.door == self._broker:
                self._on_tail(word, now)

    def _on_holds(self, door: BrokerId, word: SessionsHeld, now: float) -> None:
        """Sessions are at another door; one that is here as well, without its client, was given
        up for lost there."""
        if word.is_all:
            self.forget_door(door)
        for name in word.sessions:
            self._holders.put(name, door)
            session = self._sessions.get(name)
            if session is None or session.connection is not None or word.is_all:
                continue
            self._leaving.pop(name, None)
            self._arriving.pop(name, None)
            self._deferred.pop(name, None)
            session.will = None
            self._sessions.end(session, now)
            self._doors.session_changed(session, is_over=True)

    # --- the old door ----------------------------------------------------------------------

    def _on_claim(self, door: BrokerId, claim: Claim, now: float) -> None:
        session = self._sessions.get(claim.session)
        if session is None:
            # Where it was given to another, that one has heard the claim, too.
            if claim.holder == self._broker and self._holders.of(claim.session) in ("", door):
                self._doors.say(Handover(door, claim.session, claim.since, None), now)
            return
        is_wanted = bool(claim.holder) and claim.holder in (self._broker, session.came_from)
        if is_wanted and claim.session in self._arriving:
            self._deferred[claim.session] = door, claim
            return
        is_crossing = abs(session.since - claim.since) < CROSSING_S
        is_later = (session.since, self._broker) > (claim.since, door)
        if session.connection is not None and is_crossing and is_later:
            return
        going = self._leaving.get(claim.session, ("", 0.0, 0))
        if going[1] > claim.since or going[:2] == (door, claim.since):
            return  # the client has moved on since, or the session is on its way there
        self.on_claimed(session, now)
        if self._sessions.get(claim.session) is not session:
            if is_wanted:
                self._doors.say(Handover(door, claim.session, claim.since, None), now)
            return
        session.will = session.will_at = None
        session.is_told = False
        if is_wanted:
            self._hand_over(session, door, claim.since, now)
        else:
            self._give_up(session, now)

    def give_away(self, session: MqttSession, door: BrokerId, now: float) -> None:
        """This door will be gone: another is to keep a session whose client is not here. Nobody
        claims it, so no client is disturbed, and one that claims it goes before."""
        self._doors.say(Offer(door, session.name, now), now)
        self._hand_over(session, door, now, now)

    def is_under_way(self, session: MqttSession, now: float) -> bool:
        """Whether a session goes to another door, which has not given up waiting for it."""
        _, since, _ = self._leaving.get(session.name, ("", -inf, 0))
        return now < since + 2 * self._config.handover_limit_s

    def _hand_over(self, session: MqttSession, door: BrokerId, since: float, now: float) -> None:
        self._leaving[session.name] = door, since, session.outbox.waiting
        for word in handovers(session, door, since):
            self._doors.say(word, now)

    def _on_gone(self, door: BrokerId, word: Arrived, now: float) -> None:
        """The new door has it and gets its publications: the rest, and forget it."""
        name = word.session
        session = self._sessions.get(name)
        leaving = self._leaving.get(name)
        if session is None or leaving is None or leaving[:2] != (door, word.since):
            self._doors.say(HandoverTail(door, name, (), is_void=True), now)
            return
        del self._leaving[name]
        for tail in tails(session, door, leaving[2]):
            self._doors.say(tail, now)
        self._give_up(session, now)
        self._holders.put(name, door)

    def _give_up(self, session: MqttSession, now: float) -> None:
        """A session is elsewhere: what is here of it is not needed any more."""
        self._arriving.pop(session.name, None)
        self._deferred.pop(session.name, None)
        self._sessions.end(session, now)
        self._doors.session_changed(session, is_over=True)

    # --- the new door ----------------------------------------------------------------------

    def _on_offer(self, door: BrokerId, offer: Offer, now: float) -> None:
        """Wait for a session without its client, unless that is here or comes."""
        name = offer.session
        if self._sessions.get(name) is None and name not in self._awaited:
            self._awaited[name] = offer.since, door
            self._until[name] = now + self._config.handover_limit_s

    def _on_handover(self, door: BrokerId, part: Handover, now: float) -> None:
        name = part.session
        if self._awaited.get(name, (-inf, ""))[0] != part.since:
            return  # it is too late, or has been claimed again since
        parts = self._parts.setdefault(name, [])
        parts.append(part)
        if not part.is_last:
            return
        head = parts[0].head
        if head is None or self._sessions.get(name) is not None:
            self._no_longer_awaited(name, now)
            return
        del self._awaited[name]
        self._parts.pop(name, None)
        self._settle(name, head, parts, now)
        self._arriving[name] = []
        session = self._sessions.get(name)
        assert session is not None
        assert session.end is not None
        session.came_from = door
        # Not before the broker has passed the subscriptions on: whoever publishes between the two
        # would be heard at neither door.
        session.end.promise(Arrived(door, name, part.since))

    def subscribed(self, word: Arrived, now: float) -> None:
        """The broker has taken in what a session that came here subscribes to."""
        if word.session in self._arriving:
            self._doors.say(word, now)

    def _settle(self, name: str, head: SessionHeader, parts: list[Handover], now: float) -> None:
        # This broker may have taken in what the old door's has not got yet, and will not get before
        # it lets go of the session.
        routes_whole_topics = self._doors.routes_whole_topics
        session = self._sessions.begin(
            name,
            head.client_id,
            head.user,
            now,
            can_move=not routes_whole_topics,
            returns=routes_whole_topics,
        )
        session.expiry_s = head.expiry_s
        session.is_confirmed = True
        session.set_incoming(head.incoming)
        end = session.end
        assert end is not None
        for one in head.subscriptions:
            filters = self._doors.filters_of(one.pattern, one.content)
            natives = tuple(end.client.subscribe(filter_) for filter_ in filters)
            session.subscriptions.add(msgspec.structs.replace(one, native=natives))
        session.outbox.fill(*unpacked(parts), head.last_id)
        for part in parts:
            session.ways.learn(part.given)
        session.held = []
        self._sessions.await_client(session, now)
        self._loop.touch(end)
        self._doors.session_changed(session)

    def _no_longer_awaited(self, name: str, now: float) -> None:
        self._awaited.pop(name, None)
        self._parts.pop(name, None)
        self._until.pop(name, None)
        self.on_arrived(name, now)

    def _on_tail(self, word: HandoverTail, now: float) -> None:
        """What came for a session on its way, in parts. It is delivered with what came here, each
        once and in its publisher's order, and the client is let in. O(n log n)."""
        name = word.session
        session = self._sessions.get(name)
        if session is None or name not in self._arriving:
            return
        if word.is_void:
            self._give_up(session, now)
            self._no_longer_awaited(name, now)
            return
        self._arriving[name] += map(weighed_parcel, word.parcels)
        session.ways.learn(word.given)
        if not word.is_last:
            return
        self._deliver_held(session, self._arriving.pop(name), now)
        self.holds(session, now)
        self._no_longer_awaited(name, now)
        if name in self._deferred:
            self._on_claim(*self._deferred.pop(name), now)

    def _deliver_held(self, session: MqttSession, tail: list[Delivery], now: float) -> None:
        held, session.held = session.held or [], None
        if self._doors.routes_whole_topics:
            # What is in the tail was given to the session, and the rest is later
            # (`session/deduplicator`).
            for parcel in tail:
                session.send(parcel, now)
            for publication in self.news(session, held):
                self.deliver(session, publication, now)
            return
        parcels = {parcel.publication.key: parcel for parcel in tail}
        publications = {publication.key: publication for publication in held}
        for key in sorted({*parcels, *publications}):
            if key in parcels:
                session.send(parcels[key], now)
            else:
                self.deliver(session, publications[key], now)

    def news(self, session: MqttSession, notified: Sequence[Publication]) -> Sequence[Publication]:
        """What a session is to get of what its native client got: originals of copies, each on the
        first of the ways by which it comes."""
        return (
            session.ways.news(notified, session.subscriptions)
            if self._doors.routes_whole_topics
            else notified
        )

    def deliver(self, session: MqttSession, publication: Publication, now: float) -> None:
        """Give a publication to a session by those of its subscriptions that it is for."""
        found = session.subscriptions.matching(publication)
        if found:
            session.deliver(publication, self._doors.chosen(session, publication, found), now)
