"""Whether gateways are honest about sessions: present when they must be, and only when they may be.

A session is there again if its client had it, asked for it and came in time. It may be gone if
more waited for it than it may keep, or if its client went elsewhere while something was broken;
that is counted as lost, or as out of reach, if the broker that had it slept or was cut off all the
time that its client waited. Never may it be there for who asked for a new one, came too late, had
ended it, or was told that it ended.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from pubweave.model.mqtt_packets import ConnAck, Connect, Disconnect, Reason

EARLY_S = 0.2
"""A broker notices the end of a connection at most so long before or after its client."""

RECENT_S = 10.0
"""So long what a client said elsewhere may still be under way."""


@dataclass
class _Session:
    expiry_s: float
    broker: str
    closed_at: float = inf
    is_known: bool = False
    """The client has heard something of it besides that it begins: it cannot have got lost
    with its first answer."""
    is_over: bool = False
    """The client ended it, or was told that it ended."""


class SessionChecker:
    """What each client knows of its session."""

    def __init__(
        self,
        violate: Callable[[str, float], None],
        late_s: float,
        may_overrun: Callable[[str], bool],
        is_troubled: Callable[[], bool],
        heard_at: Callable[[str, str, float], float],
        jumped_s: Callable[[str, float], float],
    ) -> None:
        """``late_s``: how much longer than asked for a session may last, at most, because its
        broker did not run; ``may_overrun``: whether more may wait for a client than its session
        keeps; ``is_troubled``: whether anything was broken lately; ``heard_at``: when a broker got
        to what a client said then; ``jumped_s``: by how much a broker's clock has jumped since."""
        self._violate = violate
        self._late_s = late_s
        self._may_overrun = may_overrun
        self._is_troubled = is_troubled
        self._heard_at = heard_at
        self._jumped_s = jumped_s
        self._sessions: dict[str, _Session] = {}
        self._connects: dict[str, tuple[Connect, str, float]] = {}
        self._places: dict[str, dict[str, float]] = {}
        """When each client said Connect last at each broker. One that sleeps may take that in when
        its client is elsewhere, and claim the session back."""
        names = "lost", "out_of_reach", "expired", "resumed"
        self.counts = {f"sessions_{name}": 0 for name in names}

    def connecting(self, client: str, connect: Connect, broker: str, now: float) -> None:
        self._connects[client] = connect, broker, now
        self._places.setdefault(client, {})[broker] = now

    def connected(self, client: str, answer: ConnAck, now: float) -> bool:
        """Whether a session was lost that the client had not given up."""
        connect, broker, said_at = self._connects[client]
        before = self._sessions.get(client)
        must_not = self._why_not(client, before, connect, said_at)
        is_lost = False
        if answer.session_present:
            self.counts["sessions_resumed"] += 1
            if must_not:
                self._violate(f"{client} was told that its session is present: {must_not}", now)
        elif before is not None and not must_not:
            is_lost = self._absent(client, before, broker, now)
        self.counts["sessions_expired"] += must_not == "it came too late"
        is_known = before is not None and answer.session_present
        # In an overlay of several gateways the answer that a session begins may get lost.
        known = is_known or connect.clean_start
        capped_s = answer.session_expiry_s
        expiry_s = connect.session_expiry_s if capped_s is None else capped_s
        self._sessions[client] = _Session(expiry_s, broker, is_known=known)
        return is_lost

    def _why_not(
        self, client: str, before: _Session | None, connect: Connect, said_at: float
    ) -> str:
        """Why no session may be present; empty if one may."""
        if before is None:
            return "it never had one"
        if connect.clean_start:
            return "it asked for a new one"
        if before.is_over:
            return "it had ended"
        if not before.expiry_s:
            return "it ended with the connection"
        noticed_at = self._heard_at(before.broker, client, before.closed_at)
        if said_at - noticed_at > before.expiry_s + self._late_s:
            return "it came too late"
        return ""

    def _absent(self, client: str, before: _Session, broker: str, now: float) -> bool:
        """A session is gone that may be present: was it to be?"""
        if not before.is_known:
            return False  # nothing that the client said in it was ever answered
        away_s = now - before.closed_at + self._jumped_s(before.broker, before.closed_at)
        if away_s > before.expiry_s - EARLY_S:
            return False
        self.counts["sessions_lost"] += 1
        said_at = self._connects[client][2]
        if broker != before.broker and self._heard_at(before.broker, broker, said_at) >= now:
            self.counts["sessions_out_of_reach"] += 1  # from Connect to ConnAck
            return False
        places = self._places[client].items()
        others = [self._heard_at(to, client, at) for to, at in places if to != broker]
        has_moved = broker != before.broker or max(others, default=-inf) > now - RECENT_S
        if not self._may_overrun(client) and not (has_moved and self._is_troubled()):
            where = f"from {before.broker} to {broker}" if has_moved else f"at {broker}"
            self._violate(f"{client} lost its session {where}, for no reason", now)
        return True

    def heard(self, client: str) -> None:
        """Something that the client said was answered."""
        session = self._sessions.get(client)
        if session is not None:
            session.is_known = True

    def disconnecting(self, client: str, packet: Disconnect) -> None:
        if packet.session_expiry_s is not None:
            self._sessions[client].expiry_s = packet.session_expiry_s

    def told(self, client: str, packet: Disconnect) -> None:
        if packet.reason == Reason.QUOTA_EXCEEDED:
            self._sessions[client].is_over = True

    def closed(self, client: str, now: float) -> bool:
        """Whether the session ends with the connection."""
        session = self._sessions.get(client)
        if session is None:
            return False
        session.closed_at = min(session.closed_at, now)
        return not session.expiry_s

    def broker_of(self, client: str) -> str:
        """Where a client is, or was last."""
        return self._sessions[client].broker
