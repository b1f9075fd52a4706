"""What MQTT promises, held against what the clients of a run said and heard, and nothing else.

A publication that was taken in reaches every client that had subscribed to it in good time, at
QoS 1 once or more, at QoS 2 once, at QoS 0 where nothing is broken; one publisher's publications
keep their order: on each topic, and on all while nothing is broken. Who lost a session was told so,
and is owed nothing that was under way. Wills, retained publications and sessions have checkers of
their own beside this one.

*Wanted* is every pair of a promised publication and a client that asks for it, *due* what must
come, *missing* what is due and did not come, *excused* what was due until its client lost its
session, *unconfirmed* what did not come and was published before SubAck, or before the next rest if
SubAck had waited for too long.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import inf

from pubweave.model.mqtt_packets import (
    ConnAck,
    Connect,
    Disconnect,
    Publish,
    Reason,
    SubAck,
    Subscribe,
    Unsubscribe,
)
from pubweave.sim.checkers.mqtt_retained import RetainedChecker
from pubweave.sim.checkers.mqtt_sessions import SessionChecker
from pubweave.sim.checkers.mqtt_wills import Verdict, WillChecker, WillRecord
from pubweave.sim.checkers.mqtt_wishes import Answer, ClientWishes, Request, Wish

PADDING = b"|"
"""Ends what names a publication in its payload."""
A_FEW = 10
"""What small runs may excuse, whatever the share is."""
OVERHEAD_BYTES = 200
"""The most that a broker counts for a publication beside its payload."""
PROMPT_S = 0.1
"""The longest way from a broker to its client."""


@dataclass(eq=False)
class _Sent:
    publisher: str
    number: int
    packet: Publish
    sent_at: float
    taken_at: float = inf
    """When its publisher had the first answer."""
    is_promised: bool = True
    """It must come to somebody; QoS 0 and what expires only where nothing is broken."""
    wanted: set[str] = field(default_factory=set)
    due: dict[str, int] = field(default_factory=dict)
    """The clients that must get it, each with the quality that it asked for."""
    excused: set[str] = field(default_factory=set)
    """Those of whom that was so until they lost their sessions."""
    orders: dict[str, str] = field(default_factory=dict)
    got: Counter[str] = field(default_factory=Counter)
    got_at: dict[str, float] = field(default_factory=dict)
    groups: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often it came to each group."""
    may_double: bool = False
    is_will: bool = False

    @property
    def whose(self) -> str:
        """The client behind it."""
        return self.publisher.removeprefix(WILL_OF)


class MqttChecker:
    """Knows everything that was published, by its payload, and everything that was asked for."""

    def __init__(
        self,
        *,
        is_calm: bool = False,
        late_s: float = 0.0,
        stalls_s: float = 0.0,
        queue_messages: int = 1 << 30,
        queue_bytes: int = 1 << 62,
        suback_wait_s: float = inf,
        are_clocks_right: bool = True,
        is_troubled: Callable[[], bool] = lambda: False,
        order_of: Callable[[list[str], str], str] = lambda patterns, topic: "",
        cuts: Callable[[str, str], list[tuple[float, float]]] = lambda broker, client: [],
        heard_at: Callable[[str, str, float], float] = lambda broker, client, said_at: said_at,
        jumped_s: Callable[[str, float], float] = lambda broker, since: 0.0,
    ) -> None:
        """``is_calm``: nothing is broken in the whole run; ``late_s``: for so long brokers may not
        run; ``stalls_s``: for so long a packet may wait for a disk; ``queue_messages`` and
        ``queue_bytes``: what a session may keep; ``suback_wait_s``: a SubAck that comes earlier
        says that everything published from then on must come; ``are_clocks_right``: or brokers do
        not know what is newest, and whatever was retained may be; ``is_troubled``: something was
        broken since the last rest;
        ``order_of``: within what a client with some patterns gets a topic in order; ``cuts``:
        when nothing came through between a broker and a client; ``heard_at``: when a broker got to
        what a client said then; ``jumped_s``: by how much a broker's clock has jumped since."""
        self.violations: list[str] = []
        self.counts: Counter[str] = Counter()
        self.is_calm = is_calm
        self._stalls_s = stalls_s
        self._queue_messages = queue_messages
        self._queue_bytes = queue_bytes
        self._suback_wait_s = suback_wait_s
        self._order_of = order_of
        self._is_troubled = is_troubled
        self._cuts = cuts
        self._sent: dict[bytes, _Sent] = {}
        """Since the last rest."""
        self._known: dict[bytes, _Sent] = {}
        self._deleting: list[_Sent] = []
        """Retained deletions since then, which all look alike."""
        self._wishes: dict[str, ClientWishes] = {}
        self._ids: dict[tuple[str, int], Wish] = {}
        self._moved: set[str] = set()
        self._changed: set[str] = set()
        """Who wants something else since the last rest."""
        self._here: set[str] = set()
        """Who is connected."""
        self._connected_at: dict[str, float] = {}
        self._connections: dict[str, list[tuple[float, float]]] = {}
        """Of each client, that ended since the last rest."""
        self._lost_at: dict[str, float] = {}
        """Who lost a session since the last rest, and when last."""
        self._numbers: Counter[str] = Counter()
        self._last: dict[tuple[str, str, tuple[int, int], str], int] = {}
        late_s += EARLY_LATE_S
        self.sessions = SessionChecker(
            self._violate, late_s, self._may_overrun, is_troubled, heard_at, jumped_s
        )
        self.wills = WillChecker(
            self._violate,
            self._will_due,
            self._will_decided,
            is_troubled,
            late_s,
            self._may_overrun,
            cuts,
            jumped_s,
        )
        self.retained = RetainedChecker(self._violate, are_clocks_right)

    def __len__(self) -> int:
        return len(self._sent)

    # --- publishing --------------------------------------------------------------------------

    def publishing(self, publisher: str, packet: Publish, now: float, size: int = 0) -> Publish:
        """A client is about to publish: the packet with a payload that is this publication's own,
        of ``size`` bytes or just as long as its name. An empty payload stays empty: it retains
        nothing any more."""
        number = self._numbers[publisher] = self._numbers[publisher] + 1
        name = f"{publisher}/{number}/{packet.qos}".encode()
        is_deleting = packet.retain and packet.payload == b"" and size < 0
        payload = b"" if is_deleting else (name + PADDING).ljust(size, b".") if size else name
        packet = _with_payload(packet, payload)
        if packet.retain:
            self.retained.publishing(packet, publisher)
        sent = _Sent(publisher, number, packet, now)
        if is_deleting:
            self._deleting.append(sent)
        else:
            sent.is_promised = self.is_calm or (packet.qos > 0 and packet.content.expiry_s is None)
            self._enter(name, sent)
        return packet

    def _enter(self, name: bytes, sent: _Sent) -> None:
        """Something is published: who wants it, and who must get it."""
        packet, whose = sent.packet, sent.whose
        self._sent[name] = self._known[name] = sent
        for client, wishes in self._wishes.items():
            wanting = wishes.wanting(packet.topic, whose)
            if not wanting:
                continue
            sent.orders[client] = self._order_of([*wishes.current], packet.topic)
            best = min(packet.qos, max(w.filter.qos for w in wanting))
            is_lasting = best > 0 and packet.content.expiry_s is None
            if not sent.is_promised or not (is_lasting or self._may_see_all(client)):
                continue
            sent.wanted.add(client)
            sure = max((w.filter.qos for w in wanting if w.is_settled), default=-1)
            if sure >= 0 and (min(packet.qos, sure) or self._may_see_all(client)):
                sent.due[client] = min(packet.qos, sure)

    def _may_see_all(self, client: str) -> bool:
        """Whether what is never kept comes to a client, too."""
        return self.is_calm and client in self._here

    # --- connections and sessions --------------------------------------------------------------

    def connecting(self, client: str, connect: Connect, broker: str, now: float) -> None:
        self._wishes.setdefault(client, ClientWishes())
        self.sessions.connecting(client, connect, broker, now)
        self.wills.connecting(client, connect, broker, now)
        if connect.will is not None:  # it may come before its client sees that it is gone
            will = connect.will
            packet = Publish(will.topic, will.payload, will.qos, content=will.content)
            sent = _Sent(WILL_OF + client, 1, packet, now, taken_at=now, is_will=True)
            self._known[will.payload] = sent

    def connected(self, client: str, answer: ConnAck, now: float) -> None:
        is_lost = self.sessions.connected(client, answer, now)
        self.wills.connected(client, answer, now)
        self._connected_at[client] = now
        self._here.add(client)
        if not answer.session_present:
            self._session_over(client, now, is_lost=is_lost)

    def disconnecting(
        self,
        client: str,
        packet: Disconnect,
        now: float,
        is_lost: Callable[[], bool] = lambda: False,
    ) -> None:
        self.sessions.disconnecting(client, packet)
        self.wills.disconnecting(client, packet, is_lost)

    def told(self, client: str, packet: Disconnect, now: float) -> None:
        self.counts["overruns_told"] += packet.reason == Reason.QUOTA_EXCEEDED
        self.sessions.told(client, packet)
        self.wills.told(client, packet)

    def closed(self, client: str, now: float) -> None:
        if self.sessions.closed(client, now):
            self._session_over(client, now, is_lost=False)
        self.wills.closed(client, now)
        self.retained.closed(client)
        began_at = self._connected_at.get(client, now)
        self._connections.setdefault(client, []).append((began_at, now))
        self._here.discard(client)
        for sent in self._sent.values():  # what is not kept may be lost without a connection
            is_kept = sent.packet.qos and sent.packet.content.expiry_s is None
            if not is_kept and sent.whose == client and not sent.is_will:
                sent.due.clear()
                sent.wanted.clear()
            elif (not is_kept or sent.due.get(client) == 0) and client not in sent.got:
                sent.due.pop(client, None)
                sent.wanted.discard(client)

    def moved(self, client: str) -> None:
        """A client goes to another broker: should the old one be away, what it still has, from or
        for the client, comes later than it should."""
        self._moved.add(client)

    def redirecting(self, client: str, now: float) -> None:
        """A broker is about to send a client elsewhere, which is no end that its will is for."""
        self.wills.redirecting(client, now)

    def crashed(self, broker: str, *, is_durable: bool) -> None:
        self.wills.crashed(broker, is_durable=is_durable)

    def _session_over(self, client: str, now: float, *, is_lost: bool) -> None:
        """What was under way to a client whose session is over may be lost, and what it had under
        way may be doubled. Only what was lost against its will counts as excused."""
        wishes = self._wishes[client]
        for wish in wishes.current.values():
            wish.gone_at = now
        wishes.past += wishes.current.values()
        wishes.current.clear()
        self._lost_at[client] = now
        self.retained.forget(client)
        for sent in self._sent.values():
            if client not in sent.got:
                was_due = sent.due.pop(client, None) is not None
                if not is_lost:
                    sent.wanted.discard(client)
                elif was_due:
                    sent.excused.add(client)
            if sent.publisher == client and sent.taken_at == inf:
                sent.may_double = True

    def _may_overrun(self, client: str) -> bool:
        """Whether as much may wait for a client, or be under way to it, as its session keeps."""
        # What it acknowledged on its last connection may not be known, or not be on a disk.
        since = self._connected_at.get(client, 0.0) - self._stalls_s
        patterns = [w for w in self._wishes[client].all() if w.filter.qos]
        messages = size_bytes = 0
        for sent in [*self._sent.values(), *self._deleting]:
            packet = sent.packet
            is_under_way = client not in sent.got or sent.got_at[client] >= since
            is_wanted = any(w.wants(packet.topic, sent.whose) for w in patterns)
            if packet.qos and is_under_way and is_wanted:
                # What its publisher says again at QoS 1 may be two.
                times = 2 if packet.qos == 1 and self._connections.get(sent.whose) else 1
                messages += times
                size_bytes += times * (len(packet.payload) + OVERHEAD_BYTES)
        retained = [*self.retained.retained().values()] * len(patterns)
        messages += len(retained)
        size_bytes += sum(len(payload) + OVERHEAD_BYTES for payload in retained)
        return messages >= self._queue_messages or size_bytes > self._queue_bytes

    # --- wishes --------------------------------------------------------------------------------

    def asking(self, client: str, request: Subscribe | Unsubscribe, now: float) -> None:
        wishes = self._wishes.setdefault(client, ClientWishes())
        self._changed.add(client)
        if isinstance(request, Unsubscribe):
            self.counts["unsubscribed"] += 1
            self._withdrawing(client, wishes, request.patterns)
            return
        (wanted,) = request.filters
        before = wishes.current.get(wanted.pattern)
        wish = Wish(client, wanted, request.subscription_id, now, is_new=before is None)
        if before is not None:
            wish.is_settled = before.is_settled and before.filter == wanted
            wishes.past.append(before)
        wishes.current[wanted.pattern] = wish
        if wish.id is not None:
            self._ids[client, wish.id] = wish
        self.retained.subscribing(wish, now)

    def _withdrawing(self, client: str, wishes: ClientWishes, patterns: Iterable[str]) -> None:
        for pattern in patterns:
            wish = wishes.current.pop(pattern, None)
            if wish is not None:
                wishes.past.append(wish)
        self.retained.forget(client)
        for sent in self._sent.values():
            if client not in sent.wanted or client in sent.got:
                continue
            left = wishes.wanting(sent.packet.topic, sent.whose)
            if not left:
                sent.wanted.discard(client)
            settled = [w.filter.qos for w in left if w.is_settled]
            if not settled:
                sent.due.pop(client, None)
            elif client in sent.due:
                sent.due[client] = min(sent.packet.qos, max(settled))

    def answered(self, client: str, request: Request, answer: Answer, now: float) -> None:
        self.sessions.heard(client)
        if isinstance(request, Publish):
            self._taken_in(client, request, answer, now)
            return
        wishes = self._wishes[client]
        if isinstance(request, Unsubscribe):
            for wish in wishes.past:
                if wish.filter.pattern in request.patterns and wish.gone_at == inf:
                    wish.gone_at = now
            return
        assert isinstance(answer, SubAck)
        known = wishes.current.get(request.filters[0].pattern)
        if answer.reasons[0] >= Reason.UNSPECIFIED_ERROR:
            self.retained.forget(client)
        elif known is not None and known.id == request.subscription_id:
            known.granted_at = now
            # A SubAck that waited for too long comes unconfirmed.
            known.is_settled |= now - known.asked_at < self._suback_wait_s
            if answer.reasons[0] != known.filter.qos:
                self._violate(f"{client} asked for {known.filter}, got {answer.reasons}", now)
            for wish in wishes.past:
                if wish.filter.pattern == known.filter.pattern and wish.gone_at == inf:
                    wish.gone_at = now

    def _taken_in(self, client: str, request: Publish, answer: Answer, now: float) -> None:
        sent = self._known.get(_name(request.payload))
        if sent is not None:
            sent.taken_at = min(sent.taken_at, now)
        if request.retain:
            self.retained.answered(request)
        if getattr(answer, "reason", 0) >= Reason.UNSPECIFIED_ERROR:
            self._violate(f"{client} was refused {request.payload[:40]!r}", now)

    # --- deliveries ----------------------------------------------------------------------------

    def delivered(self, client: str, packet: Publish, now: float) -> None:
        wishes = self._wishes[client]
        if packet.retain:
            self.retained.came(client, packet, [*wishes.all()], now)
            return
        sent = self._known.get(_name(packet.payload))
        if sent is None:
            if packet.payload:
                self._violate(f"{client} got {packet.payload[:40]!r}, which nobody published", now)
            return
        self.counts["deliveries"] += 1
        if (sent.packet.topic, sent.packet.payload) != (packet.topic, packet.payload):
            self._violate(f"{client} got {_name(packet.payload)!r} changed", now)
        if sent.is_will:
            self.wills.came(client, packet.payload, now)
        self._check_asked(client, sent, packet, wishes, now)
        self._check_ids(client, sent, packet, now)
        if packet.content.expiry_s is not None or sent.packet.content.expiry_s is not None:
            self._check_expiry(client, sent, packet, now)
        sent.got[client] += 1
        sent.got_at[client] = now
        if sent.got[client] > 1:
            self._check_double(client, sent, packet, now)
        else:
            self._check_order(client, sent, packet, now)

    def _check_asked(
        self, client: str, sent: _Sent, packet: Publish, wishes: ClientWishes, now: float
    ) -> None:
        """A client gets what it asks for, and after an UnsubAck only what was under way."""
        topic, whose = sent.packet.topic, sent.whose
        asked = [w for w in wishes.all() if w.wants(topic, whose)]
        name = _name(packet.payload)
        if not asked:
            self._violate(f"{client} got {name!r}, which it never asked for", now)
        elif not sent.is_will and all(w.gone_at < sent.sent_at for w in asked):
            self._violate(f"{client} got {name!r}, published after it had unsubscribed", now)
        elif packet.qos > min(sent.packet.qos, max(w.filter.qos for w in asked)):
            self._violate(f"{client} got {name!r} at QoS {packet.qos}", now)
        own = [w for w in wishes.current.values() if w.filter.no_local and whose == client]
        self.counts["own_beside_no_local"] += bool(own)

    def _check_ids(self, client: str, sent: _Sent, packet: Publish, now: float) -> None:
        """A delivery names all subscriptions that it is for; those of a group tell whose it was."""
        topic, whose = sent.packet.topic, sent.whose
        for number in packet.subscription_ids:
            wish = self._ids.get((client, number))
            if wish is None or not wish.wants(topic, whose):
                self._violate(
                    f"{client} got {packet.payload[:40]!r} for subscription {number}", now
                )
            elif wish.group:
                sent.groups[wish.group, wish.pattern] += sent.got[client] == 0
        for wish in self._wishes[client].wanting(topic, whose):
            is_certain = wish.is_settled and wish.granted_at < sent.sent_at
            if is_certain and wish.id is not None:
                self.counts["ids_checked"] += 1
                if wish.id not in packet.subscription_ids:
                    text = f"{packet.payload[:40]!r} without its subscription {wish.id}"
                    self._violate(f"{client} got {text}: {packet.subscription_ids}", now)

    def _check_expiry(self, client: str, sent: _Sent, packet: Publish, now: float) -> None:
        """Its time begins when a broker takes it in: after it was sent, before it was answered."""
        expiry_s, left_s = sent.packet.content.expiry_s, packet.content.expiry_s
        name = _name(packet.payload)
        if expiry_s is None:
            self._violate(f"{client} got {name!r} with an expiry of {left_s}", now)
            return
        self.counts["expiring_delivered"] += 1
        said_at = now - PROMPT_S - self._stalls_s
        for began_at, ended_at in self._cuts(self.sessions.broker_of(client), client):
            if said_at < ended_at <= now:
                said_at = min(said_at, began_at)
        gone_at = sent.taken_at + expiry_s
        has_begun = packet.is_duplicate and any(
            begun_at < gone_at and ended_at > sent.sent_at
            for begun_at, ended_at in self._connections.get(client, ())
        )
        if said_at > gone_at and not has_begun:
            self._violate(f"{client} got {name!r}, which had expired", now)
        if left_s is not None:
            most = max(1.0, expiry_s - max(0.0, said_at - sent.taken_at) + 1)
            if not max(1.0, expiry_s - (now - sent.sent_at) - 1) <= left_s <= most:
                self._violate(f"{client} got {name!r} with {left_s} s left of {expiry_s}", now)

    def _check_double(self, client: str, sent: _Sent, packet: Publish, now: float) -> None:
        """At QoS 1 who lost a connection says again what has no answer, on either side."""
        self.counts["doubled"] += 1
        is_anew = self._lost_at.get(client, -inf) > sent.sent_at
        again = [client] * (packet.qos == 1) + [sent.whose] * (sent.packet.qos == 1)
        ends = (end for who in again for _, end in self._connections.get(who, ()))
        if not (sent.may_double or is_anew or any(end >= sent.sent_at for end in ends)):
            name, times = _name(packet.payload), sent.got[client]
            self._violate(f"{client} got {name!r} {times} times, at QoS {packet.qos}", now)

    def _check_order(self, client: str, sent: _Sent, packet: Publish, now: float) -> None:
        """Of what is published and delivered at the same qualities."""
        qualities, order = (sent.packet.qos, packet.qos), sent.orders.get(client)
        if order is None:  # the client did not want it when it was published
            order = self._order_of([], packet.topic)
        orders = {packet.topic}  # MQTT promises no more [MQTT-4.6.0-6]
        # What changed may come on another way than it would have.
        if not self._is_troubled() and not (order and client in self._changed):
            orders.add(order)
        is_still = sent.whose not in self._moved
        is_ordered = packet.qos > 0 or self.is_calm
        streams = [(client, sent.publisher, qualities, one) for one in sorted(orders)]
        is_late = any(sent.number < self._last.get(stream, 0) for stream in streams)
        if is_ordered and is_late and is_still:
            name = _name(sent.packet.payload)
            self._violate(f"{client} got {name!r} after a later one", now)
        for stream in streams:
            self._last[stream] = max(sent.number, self._last.get(stream, 0))

    # --- wills ---------------------------------------------------------------------------------

    def _will_due(self, record: WillRecord, now: float) -> None:
        """A client is gone: its will must come, if it is to be sent."""
        sent = self._known[record.will.payload]
        sent.sent_at = now
        sent.is_promised = sent.packet.qos > 0 or self.is_calm
        self._enter(record.will.payload, sent)

    def _will_decided(self, record: WillRecord) -> None:
        if record.verdict is not Verdict.MUST:
            sent = self._known[record.will.payload]
            sent.due.clear()
            sent.wanted.clear()

    # --- rest ----------------------------------------------------------------------------------

    def settle(self, now: float) -> None:
        """All is quiet: whoever has subscribed is known everywhere."""
        for wishes in self._wishes.values():
            for wish in wishes.current.values():
                wish.is_settled |= wish.is_granted
        self.retained.check(self._moved, now)

    def check_all_delivered(self, now: float) -> None:
        """At rest: nothing is under way any more."""
        for name, sent in self._sent.items():
            missing = sorted(c for c in sent.due if c not in sent.got)
            late = [c for c in sent.wanted - sent.due.keys() if c not in sent.got]
            self.counts["wanted"] += len(sent.wanted | sent.due.keys())
            self.counts["due"] += len(sent.due)
            self.counts["due_qos0"] += sum(not qos for qos in sent.due.values())
            self.counts["due_wills"] += len(sent.due) if sent.is_will else 0
            excused = len(sent.excused.intersection(late))
            self.counts["excused"] += excused
            self.counts["unconfirmed"] += len(late) - excused
            self.counts["missing"] += len(missing)
            if sent.packet.content.expiry_s is not None and sent.orders and not sent.got:
                self.counts["expired"] += 1
            if missing:
                self._violate(f"{name!r} never came to {', '.join(missing)}", now)
        self.wills.check(now)
        self._sent.clear()
        self._deleting.clear()
        self._last.clear()
        self._lost_at.clear()
        self._connections.clear()
        self.settle(now)
        self._moved.clear()
        self._changed.clear()

    def check_shared(self, topics: str, now: float) -> None:
        """Before `check_all_delivered`: each group got each publication on topics that begin so
        once, if no member has lost its session since the last rest."""
        wishes = [w for own in self._wishes.values() for w in own.current.values()]
        members = [w for w in wishes if w.group and w.is_granted]
        ended = [w for own in self._wishes.values() for w in own.past if w.group]
        if any(wish.client in self._lost_at for wish in (*members, *ended)):
            return
        for group in {(wish.group, wish.pattern) for wish in members if wish.is_settled}:
            for name, sent in self._sent.items():
                if sent.packet.topic.startswith(topics):
                    times = sent.groups[group]
                    self.counts["shared"] += 1
                    if times != 1:
                        self._violate(f"{name!r} came {times} times to the group {group}", now)

    def check_excused(self, most: float, now: float) -> None:
        """The run is over: no more may be excused than a share of what was wanted, and a few."""
        excused, wanted = self.counts["excused"], self.counts["wanted"]
        if excused > most * wanted + A_FEW:
            self._violate(f"{excused} of {wanted} are excused, more than {most:.1%}", now)

    def all_counts(self) -> dict[str, int]:
        """Everything that was counted."""
        names = ("deliveries", "doubled", "wanted", "due", "excused", "missing")
        own = {name: self.counts[name] for name in (*names, *sorted(self.counts))}
        return {**own, **self.sessions.counts, **self.wills.counts, **self.retained.counts}

    def _violate(self, text: str, now: float) -> None:
        self.violations.append(f"{now:.3f} {text}")


EARLY_LATE_S = 0.5
"""How late a broker may act that nothing holds up."""
WILL_OF = "will of "
"""Begins what publishes a client's wills, beside the client itself."""


def _name(payload: bytes) -> bytes:
    """What names a publication, of its payload."""
    return payload.partition(PADDING)[0]


def _with_payload(packet: Publish, payload: bytes) -> Publish:
    return Publish(packet.topic, payload, packet.qos, packet.retain, None, False, packet.content)
