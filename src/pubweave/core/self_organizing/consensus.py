"""The consensus on an exchange of two links (CI section 4.2): requests along a cycle, and locks.

A request travels along the path from the broker that desires a link to the link's other end. Each
broker adds its part of the cycle's costs (`self_organizing/cycle_cost_by_interest`). The last one
decides: either no exchange pays, or it proposes one (`ProposeExchange`). A reply travels back the
same way.

Requests lock nothing: most of them come to nothing, and where links are slow two of them would
always be in each other's way. What was agreed locks its cycle from the reply on until it is over,
for no other exchange is priced right meanwhile. No broker waits for a lock: a locked broker refuses
and says for how long, and whoever asked leaves cycles through it alone so long. Two agreements on
one cycle can still meet. That is safe, and so is a lock that expires (``lock_s``): the store, not
the lock, decides about links (see `deploy.link_exchange`).
"""

from __future__ import annotations

import math
from collections import deque
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

PATIENCE_INTERVALS = 4
"""How long a link that was declined by sides is not asked for again; twice as long each time."""
MOST_PATIENCE_INTERVALS = 16
EXCHANGE_S = 1.0
"""About how long an exchange takes."""
HALF_LIFE_S = 1.0
"""By how much better an exchange must be to go first: twice for this much later."""
MOST_REQUESTS = 256
"""Requests that passed here and were not answered, at most."""
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
class _Ring:
    """This broker's part in one request; it is locked while ``is_agreed``."""

    request_id: str
    cycle: tuple[BrokerId, ...]
    until: float
    member: int
    removed: int = -1
    is_agreed: bool = False

    @property
    def is_asking(self) -> bool:
        """Whether this broker made the request."""
        return self.member == 0

    @property
    def ends(self) -> tuple[BrokerId, BrokerId]:
        """The two neighbors in the cycle, the one nearer to the asking broker first."""
        return self.cycle[self.member - 1], self.cycle[(self.member + 1) % len(self.cycle)]


@dataclass(frozen=True)
class _Patience:
    """A link was declined, on the way that there was then."""

    path: tuple[BrokerId, ...]
    intervals: int
    until: float


class ExchangeConsensus:
    """Requests that this broker makes (one at a time), passes on or decides."""

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
        on_locked: Callable[[float, float], None],
    ) -> None:
        """``on_refused`` is called when an own request has failed, ``on_locked`` when an exchange
        was agreed on, with how long it makes this broker busy and what it gains (0 where another
        broker decided), and ``on_changed`` after every exchange around here, with the removed
        link, if it is known."""
        self._services = services
        self._config = config
        self._view = view
        self._epoch = epoch
        self._send = send
        self._is_in_action = is_in_action
        self._on_changed = on_changed
        self._price = price
        self._on_refused = on_refused
        self._on_locked = on_locked
        self._rings: dict[str, _Ring] = {}
        self._own_request = ""
        self._took_part_at: deque[float] = deque()
        self._busy_until: dict[BrokerId, float] = {}
        self._declined: dict[BrokerId, _Patience] = {}
        self._numbers = 0
        self._heat = 0.0
        self._best_gain, self._best_at = 0.0, 0.0
        self.is_paused = False
        self.counters = RequestCounters()

    # --- time ------------------------------------------------------------------------------

    def cool(self, now: float) -> None:
        """Once per interval: halve the damping and forget what is over."""
        self._heat /= 2
        for ring in [ring for ring in self._rings.values() if now >= ring.until]:
            del self._rings[ring.request_id]
        lasts_s = MOST_PATIENCE_INTERVALS * self._config.interval_s
        for broker in [b for b, known in self._declined.items() if now >= known.until + lasts_s]:
            del self._declined[broker]
        for broker in [b for b, until in self._busy_until.items() if now >= until]:
            del self._busy_until[broker]

    def why_not(self, now: float) -> tuple[str, float]:
        """Why this broker may not take part in an exchange now, and for how long it expects that;
        the reason is empty if it may."""
        own, interval_s = self._services.id, self._config.interval_s
        if self.is_paused:
            return f"{own} is told to leave the overlay as it is", interval_s
        for ring in self._rings.values():
            if ring.is_agreed and now < ring.until:
                return f"{own} takes part in {ring.request_id}", self._exchange_s
        while self._took_part_at and now >= self._took_part_at[0] + interval_s:
            self._took_part_at.popleft()
        if 0 < self._config.exchanges <= len(self._took_part_at):
            free_at = self._took_part_at[-self._config.exchanges] + interval_s
            return f"{own} took part in an exchange a moment ago", free_at - now
        if self._is_in_action(now):
            return f"{own} takes part in an action", EXCHANGE_S
        return "", 0.0

    def may_ask(self, now: float) -> bool:
        """Whether this broker may make a request: not while one of its own is under way."""
        own = self._rings.get(self._own_request)
        return (own is None or now >= own.until) and not self.why_not(now)[0]

    def may_ask_for(self, path: tuple[BrokerId, ...], now: float) -> bool:
        """Whether a link to a path's end was not declined of late, and nobody there is busy."""
        declined = self._declined.get(path[-1])
        if declined is not None and declined.path == path and now < declined.until:
            return False
        return all(now >= self._busy_until.get(broker, now) for broker in path)

    def note_busy(self, broker: BrokerId, busy_s: float, now: float) -> None:
        """A broker says that it is busy for so long; not that others say forever."""
        self._busy_until[broker] = now + min(busy_s, EXCHANGE_S + self._config.interval_s)

    def note_gain(self, gain: float, now: float) -> None:
        """An exchange of this gain was agreed on around here."""
        if gain > self._bar(now):
            self._best_gain, self._best_at = gain, now

    def _bar(self, now: float) -> float:
        """What an exchange must gain now: exchanges are carried out one at a time, and of those
        that somebody asks for the better ones are to go first."""
        return float(self._best_gain * 0.5 ** ((now - self._best_at) / HALF_LIFE_S))

    @property
    def _exchange_s(self) -> float:
        """How long a broker is busy that takes part in an exchange from now on."""
        return EXCHANGE_S + self._view.renewal_s

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
        self._own_request = request.request_id
        self._note(_Ring(request.request_id, cycle, now + self._config.lock_s, 0))
        self.counters.proposed += 1
        self._send(next_hop, request)
        return True

    def _note(self, ring: _Ring) -> None:
        self._rings[ring.request_id] = ring
        if len(self._rings) > MOST_REQUESTS:
            del self._rings[next(iter(self._rings))]

    # --- being asked -----------------------------------------------------------------------

    def receive_request(self, origin: Session, message: ExchangeRequest, now: float) -> None:
        member = self._validate(origin, message)
        is_last = member + 1 == len(message.brokers)
        next_hop = None if is_last else self._services.link(message.brokers[member + 1])
        reason, free_in_s = self.why_not(now)
        if not reason and not is_last and not self._services.is_linked(message.brokers[member + 1]):
            reason = f"{self._services.id} has no link to {message.brokers[member + 1]} any more"
        if not reason and is_last and self._services.link(message.brokers[0]) is not None:
            reason = f"{self._services.id} has a link to {message.brokers[0]} already"
        if reason:
            sometimes(Branch.EXCHANGE_BUSY)
            self._refuse(origin, message, CycleRefusal(Verdict.BUSY, reason), free_in_s)
            return
        for broker in message.brokers:
            free_at = self._busy_until.get(broker, now)
            if now < free_at:
                refusal = CycleRefusal(Verdict.BUSY, f"{broker} has just told that it is busy")
                self._refuse(origin, message, refusal, free_at - now, by=broker)
                return
        added = self._added(message, next_hop)
        if isinstance(added, CycleRefusal):
            is_busy = added.verdict is Verdict.BUSY
            self._refuse(origin, message, added, self._view.ready_in_s(now) if is_busy else 0.0)
        elif next_hop is None:
            self._decide(origin, added, now)
        else:
            self._note(self._ring(added, member, now))
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

    def _ring(self, message: ExchangeRequest, member: int, now: float) -> _Ring:
        until = now + self._config.lock_s
        return _Ring(message.request_id, message.brokers, until, member)

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
        if costs is None:
            self._decline(origin, message, f"{self._services.id} cannot say what it would cost")
            return
        removed = choose_removal(costs, self.least_gain)
        if removed is None:
            self._decline(origin, message, "it would not pay for all brokers together")
            return
        gain = costs[-1] - costs[removed]
        if self._config.is_by_sides and gain < self._bar(now):
            wait_s = HALF_LIFE_S * math.log2(self._bar(now) / gain)
            self._decline(origin, message, "better exchanges go first", wait_s)
            return
        self.note_gain(gain, now)
        ring = self._ring(message, len(message.brokers) - 1, now)
        ring.is_agreed, ring.removed = True, removed
        self._note(ring)
        self._on_locked(self._exchange_s, gain)
        self.counters.agreed += 1
        link = Link.between(ring.cycle[removed], ring.cycle[removed + 1])
        self._services.emit(ProposeExchange(ring.request_id, ring.cycle, link))
        self._send(origin, ExchangeReply(ring.request_id, Verdict.AGREED, removed=removed))

    def _decline(
        self, origin: Session, message: ExchangeRequest, reason: str, wait_s: float = 0.0
    ) -> None:
        self._refuse(origin, message, CycleRefusal(Verdict.DECLINED, reason), wait_s)

    def _refuse(
        self,
        to: Session,
        message: ExchangeRequest,
        refusal: CycleRefusal,
        free_in_s: float = 0.0,
        *,
        by: BrokerId = "",
    ) -> None:
        self._send(
            to,
            ExchangeReply(
                message.request_id,
                refusal.verdict,
                refusal.reason,
                by=by or self._services.id,
                free_in_s=free_in_s,
            ),
        )

    # --- ends ------------------------------------------------------------------------------

    def receive_reply(self, origin: Session, message: ExchangeReply, now: float) -> None:
        ring = self._rings.get(message.request_id)
        if ring is None or origin.remote not in ring.ends:
            sometimes(Branch.REPLY_TOO_LATE)
            return  # it was forgotten, or the reply arrived from the other neighbor before
        if not -1 <= message.removed < len(ring.cycle) - 1:
            raise RemoteProtocolError("tells of an exchange of a link that is not in the ring")
        if not 0 <= message.free_in_s < math.inf:
            raise RemoteProtocolError("tells of a time that is none")
        if message.removed >= 0:
            ring.removed = message.removed
        if message.verdict is Verdict.AGREED:
            ring.is_agreed, ring.until = True, now + self._config.lock_s
            self._on_locked(self._exchange_s, 0.0)
        else:
            self._end(ring, message, now)
        one, other = ring.ends
        self._pass_on(one if origin.remote == other else other, message)
        if ring.is_asking and message.verdict in (Verdict.BUSY, Verdict.DECLINED):
            self._on_refused(now)

    def ended(self, request_id: str, done: bool, reason: str, now: float) -> None:
        """An exchange that was agreed here was carried out, or has failed."""
        self.counters.done += done
        self.counters.failed += not done
        ring = self._rings.get(request_id)
        if ring is None:
            return
        verdict = Verdict.DONE if done else Verdict.FAILED
        message = ExchangeReply(request_id, verdict, reason, ring.removed)
        self._end(ring, message, now)
        # One link of the cycle is removed: brokers behind it are reached over the new link.
        for side in ring.ends:
            self._pass_on(side, message)

    def _pass_on(self, broker: BrokerId, message: ExchangeReply) -> None:
        link = self._services.link(broker)
        if link is not None and self._services.is_linked(broker):
            self._send(link, message)

    def _end(self, ring: _Ring, message: ExchangeReply, now: float) -> None:
        del self._rings[ring.request_id]
        if ring.is_asking:
            self._hear_refusal(ring, message, now)
        if message.verdict is Verdict.DONE:
            self._took_part_at.append(now)
            removed_link = None
            if ring.removed >= 0:
                self._heat += 1.0
                removed_link = Link.between(ring.cycle[ring.removed], ring.cycle[ring.removed + 1])
            self._on_changed(removed_link)

    def _hear_refusal(self, ring: _Ring, message: ExchangeReply, now: float) -> None:
        if message.verdict is Verdict.BUSY:
            self.counters.busy += 1
            if message.by in ring.cycle:
                self.note_busy(message.by, message.free_in_s, now)
        elif message.verdict is Verdict.DECLINED:
            self.counters.declined += 1
            if message.free_in_s:
                wait_s = min(message.free_in_s, self._config.interval_s)
                self._declined[ring.cycle[-1]] = _Patience(ring.cycle, 1, now + wait_s)
            elif self._config.is_by_sides:
                self._be_patient(ring.cycle, now)

    def _be_patient(self, path: tuple[BrokerId, ...], now: float) -> None:
        """Not to ask again where nothing has changed: each time for twice as long."""
        before, intervals = self._declined.get(path[-1]), PATIENCE_INTERVALS
        if before is not None and before.path == path:
            intervals = min(2 * before.intervals, MOST_PATIENCE_INTERVALS)
        until = now + intervals * self._config.interval_s
        self._declined[path[-1]] = _Patience(path, intervals, until)


def _fits(message: ExchangeRequest, link: Session) -> bool:
    """Whether a request leaves most of a link's window to publications."""
    return message.size_bytes <= min(MOST_BYTES, link.remote_window_bytes // 4)
