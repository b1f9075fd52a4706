"""Rates of an overlay from what brokers count: the difference between two looks.

Looks may follow each other in tenths of a second, so a rate is taken over at least `SPAN_S` where
there was such a look. Brokers and links come, go and begin anew; a count that is lower than before
began anew, and what it shows has come since.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from statistics import median

from pubweave.dashboard.snapshot import BrokerView, LinkView
from pubweave.model.ids import BrokerId, Link
from pubweave.model.records.status import BrokerStatus, CounterStatus
from pubweave.runtime.client.observer import OverlayStatuses, RunningTotals, client_count

SPAN_S = 2.0
TRIPS_KEPT = 15
TRIPS_MIN = 6
"""Of fewer round trips the shortest is taken, of more the median, as profiles do: the first ones
of a link are measured while it is being made and are mostly queueing."""


class Trips:
    """The last round trips of a link, each counted once however often it is told."""

    def __init__(self) -> None:
        self._kept: deque[float] = deque(maxlen=TRIPS_KEPT)
        self._last: dict[BrokerId, float] = {}

    def take(self, end: BrokerId, rtt_ms: float | None) -> None:
        if rtt_ms is not None and self._last.get(end) != rtt_ms:
            self._last[end] = rtt_ms
            self._kept.append(rtt_ms)

    @property
    def usual_ms(self) -> float | None:
        if not self._kept:
            return None
        return median(self._kept) if len(self._kept) >= TRIPS_MIN else min(self._kept)


@dataclass(frozen=True)
class _Counts:
    at: float
    totals: CounterStatus
    received: dict[tuple[BrokerId, BrokerId], int]
    """What a broker received from a neighbor."""


class OverlayRates:
    """Turns one look after the other into views."""

    def __init__(self) -> None:
        self.totals = CounterStatus()
        self.publications_per_s: float | None = None
        self.deliveries_per_s: float | None = None
        self.brokers: tuple[BrokerView, ...] = ()
        self.links: tuple[LinkView, ...] = ()
        self._counted = RunningTotals()
        self._looks: deque[_Counts] = deque()
        self._trips: dict[Link, Trips] = {}

    def take(self, seen: OverlayStatuses) -> None:
        """The next look."""
        self._counted.add(seen)
        self.totals = self._counted.counters()
        now = _Counts(seen.taken_at, self.totals, _received(seen))
        before = self._compared_with(now)
        self._rate_totals(before, now, is_up=bool(seen.up))
        self.brokers = tuple(broker_view(b, status) for b, status in seen.statuses.items())
        self._trips = {link: self._trips.get(link) or Trips() for link in seen.links}
        self.links = tuple(self._link(seen, link, before, now) for link in seen.links)

    def _compared_with(self, now: _Counts) -> _Counts | None:
        """The latest look that is long enough ago, or else the oldest."""
        while len(self._looks) > 1 and self._looks[1].at <= now.at - SPAN_S:
            self._looks.popleft()
        before = self._looks[0] if self._looks else None
        self._looks.append(now)
        return before if before is not None and before.at < now.at else None

    def _rate_totals(self, before: _Counts | None, now: _Counts, *, is_up: bool) -> None:
        if before is None or not is_up:
            self.publications_per_s = self.deliveries_per_s = None
            return
        seconds = now.at - before.at
        accepted = now.totals.publications_accepted - before.totals.publications_accepted
        self.publications_per_s = accepted / seconds
        self.deliveries_per_s = (now.totals.deliveries - before.totals.deliveries) / seconds

    def cost_per_s(self, processing_ms: Mapping[BrokerId, float]) -> float | None:
        """CI's cost per second of traffic, in ms: what crosses a link pays half its round trip,
        what a broker handles its processing time. None where that is not measured."""
        is_known = processing_ms and any(link.rtt_ms is not None for link in self.links)
        if self.publications_per_s is None or not is_known:
            return None
        links = sum(link.messages_per_s * (link.rtt_ms or 0.0) / 2 for link in self.links)
        handled = sum(b.publications_per_s * processing_ms.get(b.id, 0.0) for b in self.brokers)
        return links + handled

    def _link(
        self, seen: OverlayStatuses, link: Link, before: _Counts | None, now: _Counts
    ) -> LinkView:
        ends = [(link.a, link.b), (link.b, link.a)]
        sessions = [seen.link_session(*end) for end in ends]
        known = [session for session in sessions if session is not None]
        for session in known:
            self._trips[link].take(session.remote, session.rtt_ms)
        return LinkView(
            link.a,
            link.b,
            is_up=seen.is_up(link),
            messages_per_s=0.0 if before is None else sum(_rate(before, now, end) for end in ends),
            rtt_ms=self._trips[link].usual_ms,
            queue_messages=sum(session.queue_messages for session in known),
            queue_bytes=sum(session.queue_bytes for session in known),
        )


def _received(seen: OverlayStatuses) -> dict[tuple[BrokerId, BrokerId], int]:
    return {
        (status.broker, session.remote): session.received
        for status in seen.up
        for session in status.links
    }


def _rate(before: _Counts, now: _Counts, end: tuple[BrokerId, BrokerId]) -> float:
    then, count = before.received.get(end, 0), now.received.get(end)
    if count is None:
        return 0.0
    return (count - then if count >= then else count) / (now.at - before.at)


def broker_view(broker: BrokerId, status: BrokerStatus | None) -> BrokerView:
    """A broker as it says it is."""
    if status is None:
        return BrokerView(broker, is_up=False)
    sessions = (*status.links, *status.clients)
    return BrokerView(
        broker,
        is_up=True,
        clients=client_count(status),
        subscriptions=status.subscriptions,
        publications_per_s=status.rates.publications_in_per_s,
        deliveries_per_s=status.rates.deliveries_per_s,
        queue_bytes=status.queue_bytes,
        queue_messages=sum(session.queue_messages for session in sessions),
        is_congested=any(session.is_congested for session in sessions),
        uptime_s=status.uptime_s,
        held_messages=0 if status.action is None else status.action.held_messages,
        counters=status.counters,
    )
