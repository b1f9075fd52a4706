"""What the lists of the clients of `run_sleepers` say, held against what the overlay counted.

What is due follows from the publishers' lists and the subscriptions alone. A publication that was
lost between brokers may be missing at several subscribers and is counted once, so so many counted
publications explain at most those that are missing most often; a notification explains one.
"""

from __future__ import annotations

import heapq
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from soak.sleepers_plan import ClientsPlan, ClientsResult

CLEAN, COUNTED, BOUNDED = "clean", "counted", "bounded"
SILENT, DOUBLED, DISORDERED, UNEXPECTED = "SILENT LOSS", "DOUBLED", "OUT OF ORDER", "UNEXPECTED"
FAULTS = (SILENT, DOUBLED, DISORDERED, UNEXPECTED)

BrokerCounters = dict[str, dict[str, int]]
"""Broker -> the counters that tell of losses."""


@dataclass
class Judgement:
    """One run, as its clients saw it."""

    expected: int = 0
    got: int = 0
    doubled: int = 0
    disordered: int = 0
    unexpected: int = 0
    missing_of: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Publisher and subscriber -> how many."""
    missing_publications: Counter[tuple[str, int]] = field(default_factory=Counter)
    """Publisher and number -> at how many subscriptions."""
    notifications_counted: int = 0
    publications_counted: int = 0
    told: int = 0
    """What clients were told they missed: counts that are exact."""
    told_at_most: int = 0
    verdict: str = CLEAN

    @property
    def missing(self) -> int:
        return self.missing_of.total()

    @property
    def explained_at_most(self) -> int:
        """How many missing deliveries the brokers' counters can stand for."""
        most = heapq.nlargest(self.publications_counted, self.missing_publications.values())
        return self.notifications_counted + sum(most)

    @property
    def is_fault(self) -> bool:
        return self.verdict in FAULTS

    def document(self) -> dict[str, Any]:
        return {
            "verdict": self.verdict,
            "expected": self.expected,
            "got": self.got,
            "missing": self.missing,
            "missing_publications": len(self.missing_publications),
            "doubled": self.doubled,
            "out_of_order": self.disordered,
            "unexpected": self.unexpected,
            "notifications_counted": self.notifications_counted,
            "publications_counted": self.publications_counted,
            "told_clients": self.told,
            "told_clients_at_most": self.told_at_most,
            "missing_of": [[*pair, count] for pair, count in self.missing_of.most_common()],
        }


def judge(plan: ClientsPlan, result: ClientsResult, counters: BrokerCounters) -> Judgement:
    """Hold what came against what was due, and what is missing against what was counted."""
    found = Judgement()
    for subscriber in plan.subscribers:
        for wanted, came in zip(subscriber.wanted, result.received[subscriber.name], strict=True):
            for publisher in result.published:
                due = {
                    number
                    for number, published in enumerate(result.published[publisher], 1)
                    if wanted.matches(published)
                }
                allowed = set(due)
                if publisher in result.uncertain:
                    allowed.add(len(result.published[publisher]) + 1)
                numbers = came.get(publisher, [])
                _hold(found, numbers, due, allowed)
                for number in due.difference(numbers):
                    found.missing_of[publisher, subscriber.name] += 1
                    found.missing_publications[publisher, number] += 1
    for counted in counters.values():
        for name, count in counted.items():
            found.notifications_counted += count * name.startswith("notifications")
            found.publications_counted += count * name.startswith("publications")
    for told in result.told.values():
        found.told += sum(gap.count for gap in told.missed)
        found.told_at_most += sum(gap.at_most for gap in told.missed)
    found.verdict = _verdict(found, result)
    return found


def _hold(found: Judgement, numbers: list[int], due: set[int], allowed: set[int]) -> None:
    """What came of one publisher for one subscription."""
    distinct = set(numbers)
    found.expected += len(due)
    found.got += len(distinct & due)
    found.doubled += len(numbers) - len(distinct)
    found.unexpected += len(distinct - allowed)
    highest = 0
    seen: set[int] = set()
    for number in numbers:
        found.disordered += number < highest and number not in seen
        highest = max(highest, number)
        seen.add(number)


def _verdict(found: Judgement, result: ClientsResult) -> str:
    how_counted = CLEAN if not found.missing else _how_counted(found, result)
    for fault, is_so in (
        (SILENT, how_counted == SILENT),
        (DOUBLED, found.doubled),
        (DISORDERED, found.disordered),
        (UNEXPECTED, found.unexpected),
    ):
        if is_so:
            return fault
    return how_counted


def _how_counted(found: Judgement, result: ClientsResult) -> str:
    exact, bounds = _told_of_pairs(result)
    missing_of_subscriber: Counter[str] = Counter()
    for (_, subscriber), count in found.missing_of.items():
        missing_of_subscriber[subscriber] += count
    all_publications = {found.publications_counted} == {len(found.missing_publications)}
    if (
        exact == found.missing_of == bounds
        or found.missing == found.notifications_counted + found.publications_counted
        or (all_publications and not found.notifications_counted)
    ):
        return COUNTED
    is_told = all(
        count <= bounds[publisher, subscriber] + bounds["", subscriber]
        for (publisher, subscriber), count in found.missing_of.items()
    ) and all(
        count <= sum(n for (_, each), n in bounds.items() if each == subscriber)
        for subscriber, count in missing_of_subscriber.items()
    )
    return BOUNDED if is_told or found.missing <= found.explained_at_most else SILENT


def _told_of_pairs(
    result: ClientsResult,
) -> tuple[Counter[tuple[str, str]], Counter[tuple[str, str]]]:
    """Publisher ("" if it was not named) and subscriber -> how many, and at most how many."""
    exact: Counter[tuple[str, str]] = Counter()
    bounds: Counter[tuple[str, str]] = Counter()
    for subscriber, told in result.told.items():
        for gap in told.missed:
            exact[gap.publisher, subscriber] += gap.count
            bounds[gap.publisher, subscriber] += gap.at_most
    return exact, bounds
