"""Wills: sent once if a client is gone without a goodbye for its delay, and else never.

From the outside the end of a connection is known up to a moment, and a broker that sleeps or
comes back from its journal notices it late: between "must" and "must not" is a "may", which is
counted.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from pubweave.model.mqtt_packets import ConnAck, Connect, Disconnect, Reason, Will
from pubweave.sim.checkers.mqtt_sessions import EARLY_S

REDIRECTED_S = 5.0
"""So long after that was asked for, a broker may send a client elsewhere."""


class Verdict(enum.Enum):
    """What is to become of a will."""

    OPEN = "open"
    MUST = "must"
    NEVER = "never"
    MAY = "may"


@dataclass(eq=False)
class WillRecord:
    """The will of one connection."""

    client: str
    will: Will
    broker: str
    expiry_s: float
    said_at: float
    is_let_in: bool = False
    gone_at: float = inf
    due_at: float = inf
    """When it is to be sent, if the client does not come back."""
    said_goodbye: bool = False
    is_goodbye_lost: Callable[[], bool] = lambda: False
    """Whether its connection was cut before a broker knew of that."""
    goodbye_held_until: float = -inf
    """The client was cut off from its broker when it said that."""
    is_overtaken: bool = False
    """It connected again before that had arrived: that ended the connection."""
    is_doubtful: bool = False
    """Its client said Connect and heard no answer: a broker may have taken that in."""
    came_at: float = inf
    """When it first came to anybody."""
    redirected_at: float = -inf
    """When its client was to be sent elsewhere."""
    verdict: Verdict = Verdict.OPEN

    @property
    def is_waiting(self) -> bool:
        """Whether its client is gone, and may yet come back in time."""
        return self.verdict is Verdict.OPEN and self.gone_at < inf


class WillChecker:
    """Decides for every will that a client ever had."""

    def __init__(
        self,
        violate: Callable[[str, float], None],
        died: Callable[[WillRecord, float], None],
        decided: Callable[[WillRecord], None],
        is_troubled: Callable[[], bool],
        late_s: float,
        may_overrun: Callable[[str], bool],
        cuts: Callable[[str, str], list[tuple[float, float]]],
        jumped_s: Callable[[str, float], float],
    ) -> None:
        """``died`` hears of a connection that is gone without a goodbye, ``decided`` of a verdict;
        ``late_s``: so late a broker may notice that a connection is gone, if there is trouble;
        ``cuts``: when a client was cut off from a broker; ``jumped_s``: by how much a broker's
        clock has jumped since an instant."""
        self._violate = violate
        self._died = died
        self._decided = decided
        self._is_troubled = is_troubled
        self._late_s = late_s
        self._may_overrun = may_overrun
        self._cuts = cuts
        self._jumped_s = jumped_s
        self._current: dict[str, WillRecord] = {}
        """Of the last connection that was let in."""
        self._asked: dict[str, tuple[Connect, WillRecord | None, float, str]] = {}
        """The last Connect, its will, and when and where it was said."""
        self._unanswered: set[str] = set()
        self.leaving: set[str] = set()
        """Brokers that leave the overlay: wills that wait there go out at once."""
        self._by_payload: dict[bytes, WillRecord] = {}
        self.counts = dict.fromkeys(("wills", "wills_withheld", "wills_open"), 0)

    def connecting(self, client: str, connect: Connect, broker: str, now: float) -> None:
        if client in self._unanswered:  # whether a broker has taken that in is not known
            _, lost, _, _ = self._asked[client]
            if lost is not None:
                self._decide(lost, Verdict.MAY)
            if client in self._current:
                self._current[client].is_doubtful = True
        before = self._current.get(client)
        if before is not None and now < before.goodbye_held_until:
            before.is_overtaken = True
        record = None
        if connect.will is not None:
            record = WillRecord(client, connect.will, broker, connect.session_expiry_s, now)
            self._by_payload[connect.will.payload] = record
        self._asked[client] = connect, record, now, broker
        self._unanswered.add(client)

    def connected(self, client: str, answer: ConnAck, now: float) -> None:
        """A client is let in: what becomes of the will before is known now."""
        self._unanswered.discard(client)
        before = self._current.pop(client, None)
        if before is not None and before.verdict is Verdict.OPEN:
            self._decide(before, self._verdict(before, answer, now))
        record = self._asked[client][1]
        if record is not None:
            record.is_let_in = True
            if answer.session_expiry_s is not None:
                record.expiry_s = answer.session_expiry_s
            self._current[client] = record

    def _verdict(self, record: WillRecord, answer: ConnAck, now: float) -> Verdict:
        connect, _, said_at, _ = self._asked[record.client]
        if record.is_doubtful or record.broker in self.leaving:
            return Verdict.MAY
        jumped_s = self._jumped_s(record.broker, record.gone_at)
        if jumped_s and now <= record.due_at:
            return Verdict.MAY
        if now <= record.due_at - EARLY_S:  # a new connection, in time
            if answer.session_present:
                return Verdict.NEVER
            # The session that had the will has ended, and it with that, if the client says so.
            # Gateways send it where the session was, and void it where that is another one.
            is_here = self._asked[record.client][3] == record.broker
            is_certain = connect.clean_start and is_here and not self._is_troubled()
            return Verdict.MUST if is_certain else Verdict.MAY
        late_s = self._late_s if self._is_troubled() else EARLY_S
        return Verdict.MUST if said_at > record.due_at + late_s else Verdict.MAY

    def _decide(self, record: WillRecord, verdict: Verdict) -> None:
        record.verdict = verdict
        name = {Verdict.MUST: "wills", Verdict.NEVER: "wills_withheld"}.get(verdict, "wills_open")
        self.counts[name] += 1
        self._decided(record)

    def disconnecting(self, client: str, packet: Disconnect, is_lost: Callable[[], bool]) -> None:
        record = self._current.get(client)
        if record is None:
            return
        record.is_goodbye_lost = is_lost
        record.said_goodbye = packet.reason == Reason.SUCCESS
        if packet.session_expiry_s is not None:
            record.expiry_s = packet.session_expiry_s

    def told(self, client: str, packet: Disconnect) -> None:
        """A broker that sends its client elsewhere need not take that for its end."""
        record = self._current.get(client)
        if record is None:
            return
        if packet.reason in (Reason.USE_ANOTHER_SERVER, Reason.SERVER_MOVED):
            self._decide(record, Verdict.MAY)
        elif packet.reason == Reason.QUOTA_EXCEEDED:
            record.expiry_s = 0

    def closed(self, client: str, now: float) -> None:
        record = self._current.get(client)
        if record is None or record.gone_at < inf or client in self._unanswered:
            return
        record.gone_at = now
        is_sent_away = now - record.redirected_at < REDIRECTED_S or record.broker in self.leaving
        if is_sent_away and record.verdict is Verdict.OPEN:
            self._decide(record, Verdict.MAY)
        self._check_early(record, now)
        if record.verdict is not Verdict.OPEN:
            return
        if record.said_goodbye:
            cuts = self._cuts(record.broker, client)
            ends = [ended_at for began_at, ended_at in cuts if began_at <= now < ended_at]
            record.goodbye_held_until = max(ends, default=-inf)
            self._decide(record, Verdict.NEVER)
            return
        delay_s = min(record.will.delay_s, record.expiry_s)
        record.due_at = now + delay_s
        self._died(record, now)
        if not delay_s:
            self._decide(record, Verdict.MUST)

    def crashed(self, broker: str, *, is_durable: bool) -> None:
        """A goodbye may not be on a disk yet; without a disk all is gone."""
        for record in self._by_payload.values():
            if record.broker == broker and (not is_durable or record.said_goodbye):
                record.verdict = Verdict.MAY
                self._decided(record)

    def came(self, client: str, payload: bytes, now: float) -> None:
        """A will reached a client."""
        record = self._by_payload[payload]
        record.came_at = min(record.came_at, now)
        is_unheard = record.said_goodbye and (record.is_overtaken or record.is_goodbye_lost())
        if record.verdict is Verdict.NEVER and not is_unheard:
            self._violate(f"{client} got {payload!r}, a will that was void", now)
        elif (
            record.is_waiting
            and now + self._jumped_s(record.broker, record.gone_at) < record.due_at - EARLY_S
            and record.broker not in self.leaving
            and not self._may_overrun(record.client)  # or its session has ended with that
        ):
            self._violate(f"{client} got {payload!r}, a will, before its delay was over", now)

    def _check_early(self, record: WillRecord, now: float) -> None:
        """A broker may know a moment earlier than a client that their connection is gone."""
        if record.is_let_in and record.came_at < now - EARLY_S:
            text = f"{record.will.payload!r} came while {record.client} was there"
            self._violate(text, now)

    def check(self, now: float) -> None:
        """At rest: no will of a client came that is there."""
        for record in self._current.values():
            if record.gone_at == inf:
                self._check_early(record, now)

    def redirecting(self, client: str, now: float) -> None:
        """A broker is asked to send a client elsewhere."""
        if client in self._current:
            self._current[client].redirected_at = now
