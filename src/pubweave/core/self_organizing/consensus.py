"""The consensus on an exchange of two links (CI section 4.2): requests along a ring, and locks.

A request travels from the broker that wants a link to the one it wants it to, on the way between
them; each broker adds what it knows of the ring's costs (`self_organizing/cycle_cost_by_interest`),
and locks itself. The last one decides: either nothing pays, or it hands the exchange over to be
carried out (`ProposeExchange`). A reply goes back and unlocks.

Locks keep agreed exchanges from growing stale, and brokers from being asked twice at once. Nobody
ever waits for a lock: a locked broker refuses, whoever asked is let go and may ask again in its
next interval, at its own moment of it. So no order of locking is needed and no deadlock can be. A
lock lapses by itself (``lock_s``), which breaks nothing either: the store, not the lock, decides
what becomes of links (see `deploy.link_exchange`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from pubweave.core.config.self_organizing import MOST_HOPS, OrganizeConfig
from pubweave.core.routing.tree.services import TreeServices
from pubweave.core.self_organizing.cycle_cost_by_interest import (
    CycleRefusal,
    CycleView,
    DesiredLink,
)
from pubweave.core.session.session import RemoteProtocolError, Session
from pubweave.core.vocabulary.effects import ProposeExchange
from pubweave.design.ci.rules import choose_removal
from pubweave.model.ids import BrokerId, Link
from pubweave.model.messages.session import ExchangeReply, ExchangeRequest, Verdict

DECLINED_FOR_INTERVALS = 4
"""A wish that the others did not share is not asked for again so soon."""
MOST_BYTES = 1 << 19
"""A request beyond that would be no frame any more to some neighbor."""


@dataclass
class RequestCounters:
    """What became of requests. Proposed, busy and declined are counted by whoever asked; agreed,
    done and failed by whoever decided. So sums over all brokers count nothing twice."""

    proposed: int = 0
    busy: int = 0
    declined: int = 0
    agreed: int = 0
    done: int = 0
    failed: int = 0


@dataclass
class _Lock:
    """This broker's part in one request."""

    request_id: str
    ring: tuple[BrokerId, ...]
    until: float
    member: int
    removed: int = -1

    @property
    def is_asking(self) -> bool:
        """Whether this broker made the request."""
        return self.member == 0

    @property
    def ends(self) -> tuple[BrokerId, BrokerId]:
        """The brokers on both sides in the ring, the one nearer to whoever asked first."""
        return self.ring[self.member - 1], self.ring[(self.member + 1) % len(self.ring)]


class ExchangeConsensus:
    """Requests that this broker makes, passes on or decides: at most one at a time."""

    def __init__(
        self,
        inside: TreeServices,
        config: OrganizeConfig,
        view: CycleView,
        *,
        epoch: int,
        send: Callable[[Session, ExchangeRequest | ExchangeReply], None],
        is_in_action: Callable[[float], bool],
        on_changed: Callable[[Link | None], None],
        price: Callable[[], float],
        on_refused: Callable[[float], None],
    ) -> None:
        """``on_refused`` hears of the end of an own request that led to nothing, ``on_changed`` of
        every exchange around here, and of the link that went, if it did."""
        self._inside = inside
        self._config = config
        self._view = view
        self._epoch = epoch
        self._send = send
        self._is_in_action = is_in_action
        self._on_changed = on_changed
        self._price = price
        self._on_refused = on_refused
        self._lock: _Lock | None = None
        self._rests_until = -math.inf
        self._declined_until: dict[BrokerId, float] = {}
        self._numbers = 0
        self._heat = 0.0
        self.is_paused = False
        self.counters = RequestCounters()

    # --- time ------------------------------------------------------------------------------

    def cool(self, now: float) -> None:
        """Once an interval."""
        self._heat /= 2
        for broker in [b for b, until in self._declined_until.items() if now >= until]:
            del self._declined_until[broker]

    def why_not(self, now: float) -> str:
        """Why this broker takes part in nothing now; empty if it may."""
        if self._lock is not None and now >= self._lock.until:
            self._lock = None
        own = self._inside.id
        if self.is_paused:
            return f"{own} is told to leave the overlay as it is"
        if self._lock is not None:
            return f"{own} takes part in {self._lock.request_id}"
        if now < self._rests_until:
            return f"{own} took part in an exchange a moment ago"
        if self._is_in_action(now):
            return f"{own} takes part in an action"
        return ""

    def may_ask_for(self, broker: BrokerId) -> bool:
        return broker not in self._declined_until

    @property
    def least_gain(self) -> float:
        """Damping: the more has changed here of late, the more the next change has to save."""
        heat = self._heat if self._config.damping else 0.0
        return min(0.9, self._config.least_gain * (1.0 + heat))

    # --- asking ----------------------------------------------------------------------------

    def ask(self, wish: DesiredLink, now: float) -> bool:
        """Ask for a link; False if this broker cannot say what it would cost."""
        ring = wish.known.path
        next_hop = self._inside.link(ring[1])
        if next_hop is None or not self._inside.is_linked(ring[1]):
            return False
        request = self._view.opened(
            ExchangeRequest(
                f"{ring[0]}.{self._epoch}.{self._numbers + 1}",
                self._view.rule,
                ring,
                processing=(self._price(), *wish.known.processing),
                link_costs=(*wish.known.link_costs, wish.direct_cost),
            )
        )
        if request is None or not _fits(request, next_hop):
            return False
        self._numbers += 1
        self._lock = _Lock(request.request_id, ring, now + self._config.lock_s, 0)
        self.counters.proposed += 1
        self._send(next_hop, request)
        return True

    # --- being asked -----------------------------------------------------------------------

    def take_request(self, origin: Session, message: ExchangeRequest, now: float) -> None:
        member = self._validate(origin, message)
        is_last = member + 1 == len(message.brokers)
        next_hop = None if is_last else self._inside.link(message.brokers[member + 1])
        reason = self.why_not(now)
        if not reason and not is_last and not self._inside.is_linked(message.brokers[member + 1]):
            reason = f"{self._inside.id} has no link to {message.brokers[member + 1]} any more"
        if not reason and is_last and self._inside.link(message.brokers[0]) is not None:
            reason = f"{self._inside.id} has a link to {message.brokers[0]} already"
        if reason:
            self._reply(origin, message.request_id, Verdict.BUSY, reason)
            return
        added = self._added(message, next_hop)
        if isinstance(added, CycleRefusal):
            self._reply(origin, message.request_id, added.verdict, added.reason)
            return
        if next_hop is None:
            self._decide(origin, added, now)
        else:
            self._lock = self._locked(added, member, now)
            self._send(next_hop, added)

    def _added(
        self, message: ExchangeRequest, next_hop: Session | None
    ) -> ExchangeRequest | CycleRefusal:
        """The request with this broker's part, if it can give one and the next one take it."""
        if message.rule != self._view.rule:
            return CycleRefusal(Verdict.DECLINED, f"{self._inside.id} goes by {self._view.rule}")
        added = self._view.added(message)
        if isinstance(added, CycleRefusal) or next_hop is None or _fits(added, next_hop):
            return added
        return CycleRefusal(Verdict.DECLINED, f"too large for the window of {next_hop.remote}")

    def _locked(self, message: ExchangeRequest, member: int, now: float) -> _Lock:
        until = now + self._config.lock_s
        return _Lock(message.request_id, message.brokers, until, member)

    def _validate(self, origin: Session, message: ExchangeRequest) -> int:
        """This broker's place in the ring; RemoteProtocolError for a ring that is none."""
        ring = message.brokers
        size = len(ring)
        numbers = (*message.processing, *message.link_costs)
        if (
            not 3 <= size <= MOST_HOPS + 1
            or len(set(ring)) != size
            or any(len(part) != size for part in (message.processing, message.link_costs))
            or not all(0 <= number < math.inf for number in numbers)
        ):
            raise RemoteProtocolError("asks for an exchange on a ring that is none")
        member = ring.index(self._inside.id) if self._inside.id in ring else 0
        if member == 0 or ring[member - 1] != origin.remote:
            raise RemoteProtocolError("asks for an exchange on a ring that does not lead here")
        fault = self._view.fault(message, member) if message.rule == self._view.rule else ""
        if fault:
            raise RemoteProtocolError(f"asks for an exchange on a ring, but {fault}")
        return member

    def _decide(self, origin: Session, message: ExchangeRequest, now: float) -> None:
        costs = self._view.removal_costs(message)
        removed = None if costs is None else choose_removal(costs, self.least_gain)
        if removed is None:
            reason = "it would not pay for all brokers together"
            if costs is None:
                reason = f"{self._inside.id} cannot say what it would cost"
            self._reply(origin, message.request_id, Verdict.DECLINED, reason)
            return
        self._lock = lock = self._locked(message, len(message.brokers) - 1, now)
        self.counters.agreed += 1
        lock.removed = removed
        link = Link.between(lock.ring[removed], lock.ring[removed + 1])
        self._inside.emit(ProposeExchange(lock.request_id, lock.ring, link))
        self._reply(origin, lock.request_id, Verdict.AGREED, removed=removed)

    # --- ends ------------------------------------------------------------------------------

    def take_reply(self, origin: Session, message: ExchangeReply, now: float) -> None:
        lock = self._lock
        if lock is None or lock.request_id != message.request_id or origin.remote not in lock.ends:
            return  # the lock has lapsed meanwhile, or the reply came the other way before
        if not -1 <= message.removed < len(lock.ring) - 1:
            raise RemoteProtocolError("tells of an exchange of a link that is not in the ring")
        if message.removed >= 0:
            lock.removed = message.removed
        if message.verdict is Verdict.AGREED:
            lock.until = now + self._config.lock_s
        else:
            self._end(lock, message.verdict, now)
        one, other = lock.ends
        self._pass_on(one if origin.remote == other else other, message)
        if lock.is_asking and message.verdict in (Verdict.BUSY, Verdict.DECLINED):
            self._on_refused(now)

    def ended(self, request_id: str, done: bool, reason: str, now: float) -> None:
        """What was agreed here has been carried out, or not."""
        self.counters.done += done
        self.counters.failed += not done
        lock = self._lock
        if lock is None or lock.request_id != request_id:
            return
        verdict = Verdict.DONE if done else Verdict.FAILED
        self._end(lock, verdict, now)
        # One of the ring's links is gone: whoever is behind it hears of it over the new one.
        for side in lock.ends:
            self._pass_on(side, ExchangeReply(request_id, verdict, reason, lock.removed))

    def _pass_on(self, broker: BrokerId, message: ExchangeReply) -> None:
        link = self._inside.link(broker)
        if link is not None and self._inside.is_linked(broker):
            self._send(link, message)

    def _end(self, lock: _Lock, verdict: Verdict, now: float) -> None:
        self._lock = None
        if lock.is_asking:
            self.counters.busy += verdict is Verdict.BUSY
            self.counters.declined += verdict is Verdict.DECLINED
            if verdict is Verdict.DECLINED:
                lasts_s = DECLINED_FOR_INTERVALS * self._config.interval_s
                self._declined_until[lock.ring[-1]] = now + lasts_s
        if verdict in (Verdict.DONE, Verdict.FAILED):
            # What is known of the ways around here is of before; let broadcasts come first.
            self._rests_until = now + self._config.interval_s
            gone = None
            if verdict is Verdict.DONE and lock.removed >= 0:
                self._heat += 1.0
                gone = Link.between(lock.ring[lock.removed], lock.ring[lock.removed + 1])
            self._on_changed(gone)

    def _reply(
        self,
        to: Session,
        request_id: str,
        verdict: Verdict,
        reason: str = "",
        *,
        removed: int = -1,
    ) -> None:
        self._send(to, ExchangeReply(request_id, verdict, reason, removed))


def _fits(message: ExchangeRequest, link: Session) -> bool:
    """Whether a request leaves enough of a link's window to what the link is for."""
    return message.size_bytes <= min(MOST_BYTES, link.remote_window_bytes // 4)
