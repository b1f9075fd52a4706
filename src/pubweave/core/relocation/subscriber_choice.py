"""Where the subscribers of one broker should be, from rounds and the broker's own notes.

Bridges messages and `design.relocation.subscriber`. Subscribers may get something of several
publishers: what the rounds of the others told last counts as well, weighed by rates. All their
trees have this broker in common, so together they are a tree again.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec

from pubweave.core.relocation.grape_selection import as_broker_report, path_between
from pubweave.design.relocation.rules import Preference, Priority, Selection
from pubweave.design.relocation.subscriber import (
    PlacedSubscriber,
    SubscriberPlacement,
    SubscriberProblem,
)
from pubweave.model.ids import BrokerId, ClientId, Link
from pubweave.model.messages.relocation import PlacementRound, TraceReport
from pubweave.model.topology import Topology

PROBED = 8
"""Brokers that a subscriber is asked about besides its own."""


@dataclass(frozen=True)
class Settled:
    """The last round of a publisher, and what this broker's subscribers got of its session."""

    message: PlacementRound
    bits: dict[ClientId, int]


class SubscriberChoice:
    """The subscribers of this broker in one round; moves are taken into account at once.

    DesignError, TopologyError or KeyError where the reports make no tree. O(publishers x brokers)
    to make, then as `SubscriberPlacement` says."""

    def __init__(
        self,
        own: BrokerId,
        message: PlacementRound,
        settled: Mapping[ClientId, Settled],
        pings: Mapping[ClientId, Mapping[BrokerId, float]],
        most_clients: int,
    ) -> None:
        self._own = own
        self._message = message
        self._pings = pings
        self.clients = list(pings)
        wanted = {
            client: {p: s.bits[client] for p, s in settled.items() if client in s.bits}
            for client in pings
        }
        involved = {publisher for bits in wanted.values() for publisher in bits}
        others = sorted(involved - {message.publisher})
        self._settled = {p: settled[p] for p in (*others, message.publisher)}
        self._reports = {
            report.broker: report
            for known in self._settled.values()  # the round's own come last: they are the newest
            for report in known.message.reports
        }
        problem = SubscriberProblem(
            topology=_topology(self._reports),
            hop_ms={
                (broker, neighbor): hop_ms
                for broker, report in self._reports.items()
                for neighbor, hop_ms in as_broker_report(report).hop_ms.items()
            },
            publisher_at={p: s.message.reports[0].broker for p, s in self._settled.items()},
            subscribers=tuple(
                PlacedSubscriber(
                    client, own, wanted[client], pings[client] or dict.fromkeys(self._reports, 0.0)
                )
                for client in pings
            ),
            most_clients=most_clients,
            preference=Preference(Priority(message.priority), message.weight),
            others={p: self._others(s, wanted) for p, s in self._settled.items()},
            clients_at={broker: report.clients for broker, report in self._reports.items()},
            weights=_weights(self._settled),
            least_gain=message.least_gain,
        )
        self._wanted = wanted
        self._gone: list[tuple[ClientId, BrokerId]] = []
        self._placement = SubscriberPlacement(problem)

    def _others(
        self, settled: Settled, wanted: Mapping[ClientId, Mapping[ClientId, int]]
    ) -> dict[BrokerId, int]:
        """What is wanted by those who are not to be placed."""
        bits = {r.broker: int.from_bytes(r.bits, "little") for r in settled.message.reports}
        bits[self._own] = 0
        for client, own in settled.bits.items():
            if client not in wanted:
                bits[self._own] |= own
        return bits

    # --- choosing --------------------------------------------------------------------------

    def has_pings(self, client: ClientId) -> bool:
        return bool(self._pings[client])

    def select(self, client: ClientId) -> Selection | None:
        """All candidates and the choice; None for one that gets nothing."""
        return self._placement.choose(client) if any(self._wanted[client].values()) else None

    def worth_asking(self, client: ClientId) -> list[tuple[BrokerId, str]]:
        """The brokers that look best as long as all are taken to be equally far, with their
        addresses, and the own one; none, if the client would not move even then."""
        selection = self.select(client)
        if selection is None or not selection.moves:
            return []
        ranked = sorted(selection.candidates, key=lambda c: (c.normalized, c.delay_ms, c.broker))
        names = {self._own, selection.choice, *(c.broker for c in ranked[:PROBED])}
        return [(name, self._reports[name].address) for name in sorted(names)]

    def move(self, client: ClientId, destination: BrokerId) -> tuple[BrokerId, ...]:
        """The subscriber goes there; the way. O(brokers)."""
        self._placement.move(client, destination)
        self._gone.append((client, destination))
        return path_between(self._reports, self._own, destination)

    def reports(self) -> tuple[TraceReport, ...]:
        """The round's reports as the next broker is to find them."""
        publisher = self._message.publisher
        changed = {report.broker: report for report in self._message.reports}
        gone = {client for client, _ in self._gone}
        left = 0
        for client, bits in self._settled[publisher].bits.items():
            left |= 0 if client in gone else bits
        changed[self._own] = _with_bits(changed[self._own], left, -len(gone), 0)
        for client, destination in self._gone:
            bits = self._wanted[client].get(publisher, 0)
            delivered = bits.bit_count()
            own = changed[self._own]
            changed[self._own] = msgspec.structs.replace(
                own, deliveries=max(0, own.deliveries - delivered)
            )
            if destination in changed:
                there = changed[destination]
                joined = int.from_bytes(there.bits, "little") | bits
                changed[destination] = _with_bits(there, joined, 1, delivered)
        return tuple(changed.values())


def _with_bits(report: TraceReport, bits: int, clients: int, deliveries: int) -> TraceReport:
    return msgspec.structs.replace(
        report,
        bits=bits.to_bytes((bits.bit_length() + 7) // 8, "little"),
        clients=max(0, report.clients + clients),
        deliveries=report.deliveries + deliveries,
    )


def _topology(reports: Mapping[BrokerId, TraceReport]) -> Topology:
    links = {
        Link.between(broker, neighbor)
        for broker, report in reports.items()
        for neighbor, _ in report.output_ms
        if neighbor in reports
    }
    return Topology.from_links(sorted(links), brokers=reports)


def _weights(settled: Mapping[ClientId, Settled]) -> dict[ClientId, float]:
    """Publications of a faster publisher count more; the fastest one's count 1."""
    rates = {p: max(s.message.rate_per_s, 0.0) for p, s in settled.items()}
    fastest = max(rates.values())
    return {p: rate / fastest if fastest > 0 else 1.0 for p, rate in rates.items()}
