"""The consensus on an exchange of two links (CI section 4.2): requests along a cycle, and locks.

A request travels along the path from the broker that desires a link to the link's other end. Each
broker adds its part of the cycle's costs (`self_organizing/cycle_cost_by_interest`) and locks
itself. The last one decides: either no exchange pays, or it proposes one (`ProposeExchange`). A
reply travels back and unlocks.

Locks keep agreed exchanges valid, and brokers from being asked twice at once. No broker waits for a
lock: a locked broker refuses, and the asking broker may ask again in its next interval, at its own
moment. So no lock order is needed and no deadlock is possible. A lock expires (``lock_s``), which
is safe: the store, not the lock, decides about links (see `deploy.link_exchange`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from pubweave.core.config.self_organizing import MOST_HOPS, OrganizeConfig
from pubweave.core.self_organizing.cycle_cost_by_interest import (
    CycleRefusal,
    CycleView,
    DesiredLink,
)
from pubweave.core.session.session import RemoteProtocolError, Session
from pubweave.core.transformation.services import TreeServices
from pubweave.core.vocabulary.effects import ProposeExchange
from pubweave.core.vocabulary.rare_branches import Branch, sometimes
from pubweave.design.ci.rules import choose_removal
from pubweave.model.ids import BrokerId, Link
from pubweave.model.messages.session import ExchangeReply, ExchangeRequest, Verdict

DECLINED_FOR_INTERVALS = 4
"""How long a declined link is not asked for again."""
MOST_BYTES = 1 << 19
"""A larger request might not fit into a frame to some neighbor."""


@dataclass
class RequestCounters:
    """Outcomes of requests. The asking broker counts proposed, busy and declined; the deciding one
    agreed, done and failed. So sums over all brokers count nothing twice."""

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
    cycle: tuple[BrokerId, ...]
    until: float
    member: int
    removed: int = -1

    @property
    def is_asking(self) -> bool:
        """Whether this broker made the request."""
        return self.member == 0

    @property
    def ends(self) -> tuple[BrokerId, BrokerId]:
        """The two neighbors in the cycle, the one nearer to the asking broker first."""
        return self.cycle[self.member - 1], self.cycle[(self.member + 1) % len(self.cycle)]


class ExchangeConsensus:
    """Requests that this broker makes, passes on or decides: at most one at a time."""

    def __init__(
        self,
        services: TreeServices,
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
        """``on_refused`` is called when an own request has failed, ``on_changed`` after every
        exchange around here, with the removed link, if it was removed."""
        self._services = services
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
        """Once per interval: halve the damping and allow declined links again."""
        self._heat /= 2
        for broker in [b for b, until in self._declined_until.items() if now >= until]:
            del self._declined_until[broker]

    def why_not(self, now: float) -> str:
        """Why this broker may not take part in an exchange now; empty if it may."""
        if self._lock is not None and now >= self._lock.until:
            self._lock = None
        own = self._services.id
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
        """Damping: the more exchanges there were lately, the more the next one has to save."""
        heat = self._heat if self._config.damping else 0.0
        return min(0.9, self._config.least_gain * (1.0 + heat))

    # --- asking ----------------------------------------------------------------------------

    def ask(self, desired: DesiredLink, now: float) -> bool:
        """Ask for a link; False if this broker cannot say what it would cost."""
        cycle = desired.known.path
        next_hop = self._services.link(cycle[1])
        if next_hop is None or not self._services.is_linked(cycle[1]):
            return False
        request = self._view.opened(
            ExchangeRequest(
                f"{cycle[0]}.{self._epoch}.{self._numbers + 1}",
                self._view.rule,
                cycle,
                processing=(self._price(), *desired.known.processing),
                link_costs=(*desired.known.link_costs, desired.direct_cost),
            )
        )
        if request is None or not _fits(request, next_hop):
            return False
        self._numbers += 1
        self._lock = _Lock(request.request_id, cycle, now + self._config.lock_s, 0)
        self.counters.proposed += 1
        self._send(next_hop, request)
        return True

    # --- being asked -----------------------------------------------------------------------

    def receive_request(self, origin: Session, message: ExchangeRequest, now: float) -> None:
        member = self._validate(origin, message)
        is_last = member + 1 == len(message.brokers)
        next_hop = None if is_last else self._services.link(message.brokers[member + 1])
        reason = self.why_not(now)
        if not reason and not is_last and not self._services.is_linked(message.brokers[member + 1]):
            reason = f"{self._services.id} has no link to {message.brokers[member + 1]} any more"
        if not reason and is_last and self._services.link(message.brokers[0]) is not None:
            reason = f"{self._services.id} has a link to {message.brokers[0]} already"
        if reason:
            sometimes(Branch.EXCHANGE_BUSY)
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
            return CycleRefusal(Verdict.DECLINED, f"{self._services.id} goes by {self._view.rule}")
        added = self._view.added(message)
        if isinstance(added, CycleRefusal) or next_hop is None or _fits(added, next_hop):
            return added
        return CycleRefusal(Verdict.DECLINED, f"too large for the window of {next_hop.remote}")

    def _locked(self, message: ExchangeRequest, member: int, now: float) -> _Lock:
        until = now + self._config.lock_s
        return _Lock(message.request_id, message.brokers, until, member)

    def _validate(self, origin: Session, message: ExchangeRequest) -> int:
        """This broker's index in the cycle; RemoteProtocolError for an invalid cycle."""
        cycle = message.brokers
        size = len(cycle)
        numbers = (*message.processing, *message.link_costs)
        if (
            not 3 <= size <= MOST_HOPS + 1
            or len(set(cycle)) != size
            or any(len(part) != size for part in (message.processing, message.link_costs))
            or not all(0 <= number < math.inf for number in numbers)
        ):
            raise RemoteProtocolError("asks for an exchange on a ring that is none")
        member = cycle.index(self._services.id) if self._services.id in cycle else 0
        if member == 0 or cycle[member - 1] != origin.remote:
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
                reason = f"{self._services.id} cannot say what it would cost"
            self._reply(origin, message.request_id, Verdict.DECLINED, reason)
            return
        self._lock = lock = self._locked(message, len(message.brokers) - 1, now)
        self.counters.agreed += 1
        lock.removed = removed
        link = Link.between(lock.cycle[removed], lock.cycle[removed + 1])
        self._services.emit(ProposeExchange(lock.request_id, lock.cycle, link))
        self._reply(origin, lock.request_id, Verdict.AGREED, removed=removed)

    # --- ends ------------------------------------------------------------------------------

    def receive_reply(self, origin: Session, message: ExchangeReply, now: float) -> None:
        lock = self._lock
        if lock is None or lock.request_id != message.request_id or origin.remote not in lock.ends:
            sometimes(Branch.REPLY_TOO_LATE)
            return  # the lock has expired, or the reply arrived from the other neighbor before
        if not -1 <= message.removed < len(lock.cycle) - 1:
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
        """An exchange that was agreed here was carried out, or has failed."""
        self.counters.done += done
        self.counters.failed += not done
        lock = self._lock
        if lock is None or lock.request_id != request_id:
            return
        verdict = Verdict.DONE if done else Verdict.FAILED
        self._end(lock, verdict, now)
        # One link of the cycle is removed: brokers behind it are reached over the new link.
        for side in lock.ends:
            self._pass_on(side, ExchangeReply(request_id, verdict, reason, lock.removed))

    def _pass_on(self, broker: BrokerId, message: ExchangeReply) -> None:
        link = self._services.link(broker)
        if link is not None and self._services.is_linked(broker):
            self._send(link, message)

    def _end(self, lock: _Lock, verdict: Verdict, now: float) -> None:
        self._lock = None
        if lock.is_asking:
            self.counters.busy += verdict is Verdict.BUSY
            self.counters.declined += verdict is Verdict.DECLINED
            if verdict is Verdict.DECLINED:
                lasts_s = DECLINED_FOR_INTERVALS * self._config.interval_s
                self._declined_until[lock.cycle[-1]] = now + lasts_s
        if verdict in (Verdict.DONE, Verdict.FAILED):
            # Known paths are outdated: wait for broadcasts first.
            self._rests_until = now + self._config.interval_s
            removed_link = None
            if verdict is Verdict.DONE and lock.removed >= 0:
                self._heat += 1.0
                removed_link = Link.between(lock.cycle[lock.removed], lock.cycle[lock.removed + 1])
            self._on_changed(removed_link)

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
    """Whether a request leaves most of a link's window to publications."""
    return message.size_bytes <= min(MOST_BYTES, link.remote_window_bytes // 4)
