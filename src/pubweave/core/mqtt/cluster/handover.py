"""Handover: a session moves to the gateway where its client connects.

```
 new gateway   Claim >          subscribes, Arrived >             accepts the client
 old gateway            < Handover (state and queue)      < HandoverTail, discards
```

Both gateways receive publications while a session is between them. `Arrived` follows the new
gateway's subscriptions along the links, so what the old one receives after it, the new one
receives, too; what the old one received before is the tail. The new gateway holds what it receives
until it has the tail, and delivers what is in either, each once. The client is accepted only then:
before, the session is at the old gateway, should the client return there; afterwards at the new
one."""

from __future__ import annotations

from math import inf
from typing import Protocol

import msgspec

from pubweave.core.mqtt.cluster.gossip import GatewayGossip
from pubweave.core.mqtt.cluster.handover_chunks import handovers, sized_delivery, tails, unpacked
from pubweave.core.mqtt.cluster.session_directory import SessionDirectory
from pubweave.core.mqtt.services import MqttServices
from pubweave.core.mqtt.session.cluster_messages import (
    Arrived,
    Claim,
    Handover,
    HandoverMessage,
    HandoverTail,
    Offer,
    SessionHeader,
    SessionsEnded,
    SessionsHeld,
)
from pubweave.core.mqtt.session.inflight import Delivery
from pubweave.core.mqtt.session.session import MqttSession
from pubweave.core.mqtt.session.table import MqttSessionTable
from pubweave.core.vocabulary.rare_branches import Branch, sometimes
from pubweave.model.ids import BrokerId

CROSSING_S = 1.0
"""Claims for one session at two gateways within this time may have crossed: the later holds."""


class HandoverListener(Protocol):
    """What the handover tells the gateway."""

    def claimed(self, session: MqttSession, now: float) -> None:
        """The client of a session has connected at another gateway: end its connection here."""

    def arrived(self, name: str, now: float) -> None:
        """An awaited session has arrived, or will not."""

    def late(self, name: str, now: float) -> None:
        """A session is not complete yet: its client is to try again."""


class SessionHandover:
    """Sessions that move to this gateway or away from it."""

    def __init__(
        self,
        services: MqttServices,
        sessions: MqttSessionTable,
        gossip: GatewayGossip,
        directory: SessionDirectory,
        listener: HandoverListener,
    ) -> None:
        self._broker = services.broker
        self._config = services.config
        self._services = services
        self._sessions = sessions
        self._gossip = gossip
        self._directory = directory
        self._listener = listener
        self._awaited: dict[str, tuple[float, BrokerId]] = {}
        """Since when a session is awaited, and from which gateway."""
        self._chunks: dict[str, list[Handover]] = {}
        self._outgoing: dict[str, tuple[BrokerId, float, int]] = {}
        """By session: the gateway that it moves to, the time of its claim there, and how many of
        its queued deliveries were sent there."""
        self._incoming: dict[str, list[Delivery]] = {}
        """Sessions that have arrived but for their tail, with what has come of it; their clients
        are accepted when it is complete."""
        self._deferred: dict[str, tuple[BrokerId, Claim]] = {}
        """The gateway that has claimed such a session, which the old one may have discarded or
        not."""
        self._wait_until: dict[str, float] = {}
        """Until when a client waits for its session."""

    @property
    def is_busy(self) -> bool:
        """Whether a session is on its way to this gateway or from it."""
        return bool(self._awaited or self._outgoing or self._incoming)

    # --- claiming --------------------------------------------------------------------------

    def claim(self, name: str, since: float, *, is_clean: bool) -> bool:
        """Announce that a client has connected. True if its session is elsewhere and worth waiting
        for; the gateway is told when it is here."""
        if name in self._incoming and not is_clean:
            self._wait(name, since)
            return True
        _, asked = self._awaited.get(name, (0.0, ""))
        holder = self._directory.discard(name) or asked
        if is_clean or self._sessions.by_name.get(name) is not None:
            holder = ""
        self._gossip.publish(Claim(name, since, holder), since)
        if holder:
            self._awaited[name] = since, holder
            self._wait(name, since)
            self._chunks.pop(name, None)
        return bool(holder)

    def announce(self, session: MqttSession, now: float) -> None:
        """Announce a session that outlives its connection."""
        self._outgoing.pop(session.name, None)
        if session.expiry_s and not session.is_announced:
            session.is_announced = True
            self._gossip.publish(SessionsHeld((session.name,)), now)

    def session_ended(self, session: MqttSession, now: float) -> None:
        """A session has ended here: announce that; a client that waits for its tail stops
        waiting."""
        self._outgoing.pop(session.name, None)
        was_incoming = self._incoming.pop(session.name, None) is not None
        self._deferred.pop(session.name, None)
        if session.is_announced:
            self._gossip.publish(SessionsEnded((session.name,)), now)
        if was_incoming:
            self._stop_waiting(session.name, now)

    # --- time ------------------------------------------------------------------------------

    def _wait(self, name: str, since: float) -> None:
        """A client waits for its session from now on."""
        self._wait_until[name] = since + self._config.handover_limit_s
        self._note_deadline()

    def _note_deadline(self) -> None:
        self._services.deadlines.set("handover", min(self._wait_until.values(), default=inf))

    def on_deadline(self, now: float) -> None:
        """Give up sessions that do not arrive. One that lacks only its tail is not given up: only
        the old gateway knows whether it has discarded it; the client may try again."""
        for name in [n for n, until in self._wait_until.items() if until <= now]:
            del self._wait_until[name]
            if name in self._incoming:
                sometimes(Branch.HANDOVER_LATE)
                self._listener.late(name, now)
            else:
                sometimes(Branch.HANDOVER_GIVEN_UP)
                self._stop_waiting(name, now)
        self._note_deadline()

    # --- messages of other gateways --------------------------------------------------------

    def receive(self, gateway: BrokerId, message: HandoverMessage, now: float) -> None:
        match message:
            case SessionsHeld():
                self._on_sessions_held(gateway, message, now)
            case SessionsEnded():
                self._directory.discard_at(gateway, message.sessions)
            case Claim():
                self._on_claim(gateway, message, now)
            case Offer() if message.gateway == self._broker:
                self._on_offer(gateway, message, now)
            case Handover() if message.gateway == self._broker:
                self._on_handover(gateway, message, now)
            case Arrived() if message.gateway == self._broker:
                self._on_arrived(gateway, message, now)
            case HandoverTail() if message.gateway == self._broker:
                self._on_tail(message, now)

    def _on_sessions_held(self, gateway: BrokerId, message: SessionsHeld, now: float) -> None:
        """Sessions are at another gateway. One that is here as well, without its client, was given
        up there before it arrived: end it here."""
        if message.is_all:
            self._directory.discard_gateway(gateway)
        for name in message.sessions:
            self._directory.put(name, gateway)
            session = self._sessions.by_name.get(name)
            if session is None or session.connection is not None or message.is_all:
                continue
            self._outgoing.pop(name, None)
            self._incoming.pop(name, None)
            self._deferred.pop(name, None)
            session.will = None
            self._sessions.end(session, now)
            self._gossip.session_changed(session, is_over=True)

    # --- the old gateway -------------------------------------------------------------------

    def _on_claim(self, gateway: BrokerId, claim: Claim, now: float) -> None:
        session = self._sessions.by_name.get(claim.session)
        if session is None:
            # If it was handed to another gateway, that one has received the claim, too.
            holder = self._directory.holder_of(claim.session)
            if claim.holder == self._broker and holder in ("", gateway):
                self._gossip.publish(Handover(gateway, claim.session, claim.since, None), now)
            return
        is_wanted = bool(claim.holder) and claim.holder in (self._broker, session.previous_gateway)
        if is_wanted and claim.session in self._incoming:
            self._deferred[claim.session] = gateway, claim
            sometimes(Branch.CLAIM_DEFERRED)
            return
        is_crossing = abs(session.since - claim.since) < CROSSING_S
        is_later = (session.since, self._broker) > (claim.since, gateway)
        if session.connection is not None and is_crossing and is_later:
            sometimes(Branch.CLAIMS_CROSS)
            return
        outgoing = self._outgoing.get(claim.session, ("", 0.0, 0))
        if outgoing[1] > claim.since or outgoing[:2] == (gateway, claim.since):
            return  # there is a newer claim, or the session is on its way there
        self._listener.claimed(session, now)
        if self._sessions.by_name.get(claim.session) is not session:
            if is_wanted:
                self._gossip.publish(Handover(gateway, claim.session, claim.since, None), now)
            return
        session.is_announced = False
        if is_wanted:  # else the session ends, and a will does not outlive it [MQTT-3.1.2-10]
            session.will = session.will_at = None
            self._hand_over(session, gateway, claim.since, now)
        else:
            self._give_up(session, now)

    def offer(self, session: MqttSession, gateway: BrokerId, now: float) -> None:
        """This gateway will stop: offer another one a session whose client is away. A client that
        claims the session meanwhile takes precedence."""
        self._gossip.publish(Offer(gateway, session.name, now), now)
        self._hand_over(session, gateway, now, now)

    def is_under_way(self, session: MqttSession, now: float) -> bool:
        """Whether another gateway still waits for a session."""
        _, since, _ = self._outgoing.get(session.name, ("", -inf, 0))
        return now < since + 2 * self._config.handover_limit_s

    def _hand_over(self, session: MqttSession, gateway: BrokerId, since: float, now: float) -> None:
        self._outgoing[session.name] = gateway, since, len(session.inflight.waiting)
        for message in handovers(session, gateway, since):
            self._gossip.publish(message, now)

    def _on_arrived(self, gateway: BrokerId, message: Arrived, now: float) -> None:
        """The new gateway receives the session's publications: send the tail and discard it."""
        name = message.session
        session = self._sessions.by_name.get(name)
        outgoing = self._outgoing.get(name)
        if session is None or outgoing is None or outgoing[:2] != (gateway, message.since):
            self._gossip.publish(HandoverTail(gateway, name, (), is_void=True), now)
            return
        del self._outgoing[name]
        for tail in tails(session, gateway, outgoing[2]):
            self._gossip.publish(tail, now)
        self._give_up(session, now)
        self._directory.put(name, gateway)

    def _give_up(self, session: MqttSession, now: float) -> None:
        """A session is elsewhere: end it here."""
        self._incoming.pop(session.name, None)
        self._deferred.pop(session.name, None)
        self._sessions.end(session, now)
        self._gossip.session_changed(session, is_over=True)

    # --- the new gateway -------------------------------------------------------------------

    def _on_offer(self, gateway: BrokerId, offer: Offer, now: float) -> None:
        """Await a session without its client, unless it is here or awaited already."""
        name = offer.session
        if self._sessions.by_name.get(name) is None and name not in self._awaited:
            self._awaited[name] = offer.since, gateway
            self._wait(name, now)

    def _on_handover(self, gateway: BrokerId, chunk: Handover, now: float) -> None:
        name = chunk.session
        if self._awaited.get(name, (-inf, ""))[0] != chunk.since:
            return  # too late, or claimed again since
        chunks = self._chunks.setdefault(name, [])
        chunks.append(chunk)
        if not chunk.is_last:
            return
        head = chunks[0].head
        if head is None or self._sessions.by_name.get(name) is not None:
            self._stop_waiting(name, now)
            return
        del self._awaited[name]
        self._chunks.pop(name, None)
        self._rebuild(name, head, chunks, now)
        self._incoming[name] = []
        session = self._sessions.by_name.get(name)
        assert session is not None
        assert session.end is not None
        session.previous_gateway = gateway
        # Not before the broker has forwarded the subscriptions: a publication between the two would
        # reach neither gateway.
        session.end.reply_later(Arrived(gateway, name, chunk.since))

    def subscribed(self, message: Arrived, now: float) -> None:
        """The broker has handled the subscriptions of an incoming session."""
        if message.session in self._incoming:
            self._gossip.publish(message, now)

    def _rebuild(self, name: str, head: SessionHeader, chunks: list[Handover], now: float) -> None:
        # This broker may have accepted what the old gateway's has not received yet, and will not
        # before it discards the session.
        routes_whole_topics = self._services.routes_whole_topics
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
            filters = self._gossip.filters_of(one.pattern, one.content)
            natives = tuple(end.subscribe(filter_) for filter_ in filters)
            session.subscriptions.add(msgspec.structs.replace(one, native=natives))
        session.inflight.fill(*unpacked(chunks), head.last_id)
        for chunk in chunks:
            session.deduplicator.learn(chunk.given)
        session.held = []
        self._sessions.await_client(session, now)
        self._gossip.session_changed(session)

    def _stop_waiting(self, name: str, now: float) -> None:
        self._awaited.pop(name, None)
        self._chunks.pop(name, None)
        self._wait_until.pop(name, None)
        self._note_deadline()
        self._listener.arrived(name, now)

    def _on_tail(self, message: HandoverTail, now: float) -> None:
        """The tail of a session, in chunks. It is merged with what was held here, each once and in
        its publisher's order, and the client is accepted. O(n log n)."""
        name = message.session
        session = self._sessions.by_name.get(name)
        if session is None or name not in self._incoming:
            return
        if message.is_void:
            sometimes(Branch.HANDOVER_VOID)
            self._give_up(session, now)
            self._stop_waiting(name, now)
            return
        self._incoming[name] += map(sized_delivery, message.deliveries)
        session.deduplicator.learn(message.given)
        if not message.is_last:
            return
        self._deliver_held(session, self._incoming.pop(name), now)
        self.announce(session, now)
        self._stop_waiting(name, now)
        if name in self._deferred:
            self._on_claim(*self._deferred.pop(name), now)

    def _deliver_held(self, session: MqttSession, tail: list[Delivery], now: float) -> None:
        held, session.held = session.held or [], None
        if self._services.routes_whole_topics:
            # The tail's marks say what is older than what was held (`session/deduplicator`).
            for delivery in tail:
                session.send(delivery, now)
            first = session.deduplicator.first_copies(held, session.subscriptions)
            for publication in first:
                session.deliver(publication, self._gossip.groups, now)
            return
        deliveries = {delivery.publication.key: delivery for delivery in tail}
        publications = {publication.key: publication for publication in held}
        for key in sorted({*deliveries, *publications}):
            if key in deliveries:
                session.send(deliveries[key], now)
            else:
                session.deliver(publications[key], self._gossip.groups, now)
