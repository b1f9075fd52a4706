"""GRAPE's selection by definition: every candidate by itself, by the paper's three algorithms."""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction

from pubweave.design.relocation.rules import DeliveryReport, Preference, Priority
from pubweave.design.relocation.subscriber import SubscriberPlacement, SubscriberProblem


def total_delay(
    reports: Mapping[str, DeliveryReport], way: Fraction, broker: str, upstream: str | None
) -> Fraction:
    """Algorithm 1: the delays of all deliveries at and behind a broker, exactly."""
    here = reports[broker]
    total = Fraction(here.deliveries) * (way + Fraction(here.client_ms))
    for neighbor, hop_ms in here.hop_ms.items():
        if neighbor != upstream:
            total += total_delay(reports, way + Fraction(hop_ms), neighbor, broker)
    return total


def downstream_bits(
    reports: Mapping[str, DeliveryReport], broker: str, upstream: str | None
) -> int:
    """Algorithm 3, without remembering anything."""
    bits = reports[broker].bits
    for neighbor in reports[broker].hop_ms:
        if neighbor != upstream:
            bits |= downstream_bits(reports, neighbor, broker)
    return bits


def message_rate(reports: Mapping[str, DeliveryReport], broker: str, upstream: str | None) -> int:
    """Algorithm 2: messages at and behind a broker."""
    rate = downstream_bits(reports, broker, upstream).bit_count()
    for neighbor in reports[broker].hop_ms:
        if neighbor != upstream:
            rate += message_rate(reports, neighbor, broker)
    return rate


def choice(
    reports: Mapping[str, DeliveryReport],
    publisher_at: str,
    ping_ms: Mapping[str, float],
    preference: Preference,
) -> str:
    """The priority and weight rule, with exact numbers."""
    deliveries = sum(Fraction(report.deliveries) for report in reports.values())
    prior: dict[str, Fraction] = {}
    second: dict[str, Fraction] = {}
    for broker in {*ping_ms, publisher_at} & set(reports):
        way = Fraction(ping_ms.get(broker, 0.0)) / 2
        total = total_delay(reports, way, broker, None)
        delay = total / deliveries if deliveries else Fraction(0)
        load = Fraction(message_rate(reports, broker, None))
        first = preference.priority is Priority.LOAD
        prior[broker], second[broker] = (load, delay) if first else (delay, load)
    least, greatest = min(prior.values()), max(prior.values())
    kept = [
        broker
        for broker, value in prior.items()
        if least == greatest
        or 100 * (value - least) / (greatest - least) <= 100 - Fraction(preference.weight)
    ]
    return min(kept, key=lambda b: (second[b], prior[b], b != publisher_at, b))


def messages_of_placement(problem: SubscriberProblem, at: Mapping[str, str]) -> int:
    """Messages at all brokers for everybody's trace, with subscribers at these brokers."""
    total = 0
    for publisher, home in problem.publisher_at.items():
        bits = dict.fromkeys(problem.topology.brokers, 0)
        for subscriber in problem.subscribers:
            bits[at[subscriber.client]] |= subscriber.wanted.get(publisher, 0)
        reports = {
            broker: DeliveryReport(0, bits[broker], dict.fromkeys(neighbors, 0.0), 0.0)
            for broker, neighbors in problem.topology.neighbors.items()
        }
        total += message_rate(reports, home, None)
    return total


def place_subscribers(problem: SubscriberProblem) -> dict[str, str]:
    """Who should move, and where to; those who should stay are not in it."""
    placement = SubscriberPlacement(problem)
    for _ in range(10):
        moves = 0
        for client in placement.subscribers:
            selection = placement.choose(client)
            if selection.moves:
                placement.move(client, selection.choice)
                moves += 1
        if not moves:
            break
    return {
        before.client: placement.subscribers[before.client].broker
        for before in problem.subscribers
        if placement.subscribers[before.client].broker != before.broker
    }
