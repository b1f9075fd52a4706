"""GRAPE's phase 2 (section 4.2) at the publisher's broker: ping times, then the choice.

The reports of a session are here. The publisher is asked how far the brokers are that reported;
who cannot be asked, or does not answer in time, is taken to be equally far from all of them. Then
`design.relocation.publisher` computes both metrics of all candidates.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pubweave.core.relocation.probes import Probing
from pubweave.core.session.session import Session
from pubweave.design.relocation.publisher import select_broker
from pubweave.design.relocation.rules import DeliveryReport, Preference, Selection
from pubweave.design.tree.traffic import DesignError
from pubweave.model.ids import BrokerId, ClientId
from pubweave.model.messages.relocation import TraceReport

Reports = tuple[TraceReport, ...]
ASKER = "publishers"


@dataclass(frozen=True)
class Choice:
    """A selection, the way to the broker that was chosen, and what it rests on."""

    selection: Selection
    path: tuple[BrokerId, ...]
    reports: Reports
    has_pings: bool
    took_s: float


@dataclass(frozen=True)
class SelectionRule:
    """By what a publisher's broker is chosen, and what a move has to promise at least."""

    preference: Preference
    least_gain: float


class GrapeSelection:
    """Chooses a broker for each local publisher whose session has been gathered."""

    def __init__(
        self,
        own_id: BrokerId,
        *,
        rule_of: Callable[[ClientId], SelectionRule],
        client: Callable[[ClientId], Session | None],
        probing: Probing,
        on_chosen: Callable[[ClientId, Choice, float], None],
    ) -> None:
        self._own_id = own_id
        self._rule_of = rule_of
        self._client = client
        self._probing = probing
        probing.listeners[ASKER] = self._on_pings
        self._on_chosen = on_chosen
        self._asked: dict[ClientId, tuple[Reports, float]] = {}
        """Publishers whose ping times are awaited: reports, and since when it goes on."""
        self.without_pings = 0

    def is_busy(self, publisher: ClientId) -> bool:
        return publisher in self._asked

    def gathered(self, publisher: ClientId, reports: Reports, began_at: float, now: float) -> None:
        """All reports are in: ask for pings where that makes a difference."""
        client = self._client(publisher)
        if client is None:
            return
        brokers = [(report.broker, report.address) for report in reports]
        if len(reports) > 1 and self._probing.ask(client, brokers, ASKER, now):
            self._asked[publisher] = (reports, began_at)
        else:
            self._choose(publisher, reports, {}, began_at, now)

    def _on_pings(self, publisher: ClientId, ping_ms: Mapping[BrokerId, float], now: float) -> None:
        asked = self._asked.pop(publisher, None)
        if asked is not None:
            reports, began_at = asked
            self._choose(publisher, reports, ping_ms, began_at, now)

    def _choose(
        self,
        publisher: ClientId,
        reports: Reports,
        ping_ms: Mapping[BrokerId, float],
        began_at: float,
        now: float,
    ) -> None:
        if not ping_ms and len(reports) > 1:
            self.without_pings += 1
        by_broker = {report.broker: report for report in reports}
        rule = self._rule_of(publisher)
        try:
            selection = select_broker(
                {broker: as_broker_report(report) for broker, report in by_broker.items()},
                self._own_id,
                ping_ms or dict.fromkeys(by_broker, 0.0),
                rule.preference,
            ).unless_less_than(rule.least_gain)
        except DesignError:
            return  # the tree has changed while they reported; the next session will tell
        path = path_between(by_broker, self._own_id, selection.choice)
        choice = Choice(selection, path, reports, bool(ping_ms), now - began_at)
        self._on_chosen(publisher, choice, now)

    def discard(self, publisher: ClientId) -> None:
        self._asked.pop(publisher, None)


def as_broker_report(report: TraceReport) -> DeliveryReport:
    """What a broker reported, as a hop's and a delivery's delay at that broker."""
    at_broker_ms = report.input_ms + report.matching_ms
    return DeliveryReport(
        deliveries=report.deliveries,
        bits=int.from_bytes(report.bits, "little"),
        hop_ms={neighbor: at_broker_ms + output_ms for neighbor, output_ms in report.output_ms},
        client_ms=at_broker_ms + report.client_ms,
    )


def path_between(
    reports: Mapping[BrokerId, TraceReport], start: BrokerId, end: BrokerId
) -> tuple[BrokerId, ...]:
    """The brokers from one to another, by the neighbors they reported. O(brokers)."""
    came_from = {start: start}
    queue = deque([start])
    while queue and end not in came_from:
        broker = queue.popleft()
        for neighbor, _ in reports[broker].output_ms:
            if neighbor in reports and neighbor not in came_from:
                came_from[neighbor] = broker
                queue.append(neighbor)
    way = [end]
    while way[-1] != start:
        way.append(came_from[way[-1]])
    return tuple(reversed(way))
