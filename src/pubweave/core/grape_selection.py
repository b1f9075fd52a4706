"""GRAPE's phase 2 (section 4.2) at the publisher's broker: ping times, then the choice.

The reports of a session are here. The publisher is asked how far the brokers are that reported;
who cannot be asked, or does not answer in time, is taken to be equally far from all of them. Then
`design.relocation_reports` computes both metrics of all candidates.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from pubweave.core.effects import Effect, Transmit
from pubweave.core.session import Session
from pubweave.design.relocation_reports import select_from_reports
from pubweave.design.relocation_rules import BrokerReport, Preference, Selection
from pubweave.design.traffic import DesignError
from pubweave.model.ids import BrokerId, ClientId
from pubweave.model.relocation_messages import ProbeReply, ProbeRequest, TraceReport

Reports = tuple[TraceReport, ...]


@dataclass(frozen=True)
class Choice:
    """A selection, the way to the broker that was chosen, and what it rests on."""

    selection: Selection
    path: tuple[BrokerId, ...]
    has_pings: bool
    took_s: float


@dataclass(frozen=True)
class _Probing:
    """A publisher that is asked for ping times."""

    number: int
    reports: Reports
    began_at: float
    until: float


class GrapeSelection:
    """Chooses a broker for each local publisher whose session has been gathered."""

    def __init__(
        self,
        own_id: BrokerId,
        *,
        preference_of: Callable[[ClientId], Preference],
        answer_limit_s: float,
        client: Callable[[ClientId], Session | None],
        emit: Callable[[Effect], None],
        on_chosen: Callable[[ClientId, Choice, float], None],
    ) -> None:
        self._own_id = own_id
        self._preference_of = preference_of
        self._answer_limit_s = answer_limit_s
        self._client = client
        self._emit = emit
        self._on_chosen = on_chosen
        self._probing: dict[ClientId, _Probing] = {}
        self._numbers = 0
        self.without_pings = 0

    def is_busy(self, publisher: ClientId) -> bool:
        return publisher in self._probing

    def gathered(self, publisher: ClientId, reports: Reports, began_at: float, now: float) -> None:
        """All reports are in: ask for pings where that makes a difference."""
        client = self._client(publisher)
        if client is None:
            return
        if len(reports) == 1 or not client.can_move or client.connection is None:
            self._choose(publisher, reports, {}, began_at, now)
            return
        self._numbers += 1
        until = now + self._answer_limit_s
        self._probing[publisher] = _Probing(self._numbers, reports, began_at, until)
        brokers = tuple((report.broker, report.address) for report in reports)
        self._emit(Transmit(client.connection, (ProbeRequest(self._numbers, brokers),)))

    def take_reply(self, client: Session, reply: ProbeReply, now: float) -> None:
        probing = self._probing.get(client.remote)
        if probing is None or probing.number != reply.number:
            return
        del self._probing[client.remote]
        ping_ms = {broker: rtt for broker, rtt in reply.rtt_ms if 0 <= rtt < float("inf")}
        self._choose(client.remote, probing.reports, ping_ms, probing.began_at, now)

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
        try:
            selection = select_from_reports(
                {broker: as_broker_report(report) for broker, report in by_broker.items()},
                self._own_id,
                ping_ms or dict.fromkeys(by_broker, 0.0),
                self._preference_of(publisher),
            )
        except DesignError:
            return  # the tree has changed while they reported; the next session will tell
        path = path_between(by_broker, self._own_id, selection.choice)
        choice = Choice(selection, path, bool(ping_ms), now - began_at)
        self._on_chosen(publisher, choice, now)

    def forget(self, publisher: ClientId) -> None:
        self._probing.pop(publisher, None)

    def give_up_late(self, now: float) -> None:
        for publisher in [p for p, probing in self._probing.items() if probing.until <= now]:
            probing = self._probing.pop(publisher)
            self._choose(publisher, probing.reports, {}, probing.began_at, now)


def as_broker_report(report: TraceReport) -> BrokerReport:
    """What a broker reported, as a hop's and a delivery's delay at that broker."""
    at_broker_ms = report.input_ms + report.matching_ms
    return BrokerReport(
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
