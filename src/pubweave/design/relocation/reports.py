"""GRAPE's metrics from the reports as they are, without arrays: for brokers, which decide by them.

The same rerooting as in `publisher`, in plain Python. A broker would need a second to load the
compiled one, and would stand still meanwhile; for the trees that report to it this takes a
millisecond for each few hundred brokers. Bit vectors are whole numbers.
"""

from __future__ import annotations

from collections.abc import Mapping

from pubweave.design.relocation.choice import candidates, choose
from pubweave.design.relocation.rules import DeliveryReport, Preference, Selection
from pubweave.design.tree.traffic import DesignError
from pubweave.model.ids import BrokerId

Reports = Mapping[BrokerId, DeliveryReport]


def select_from_reports(
    reports: Reports, publisher_at: BrokerId, ping_ms: Mapping[BrokerId, float], wanted: Preference
) -> Selection:
    """GRAPE's choice (`choice.choose`). O(brokers x words of a bit vector)."""
    order, above = _rooted(reports, publisher_at)
    delays = delay_sums(reports, order, above)
    messages = message_sums(reports, order, above)
    names = candidates(sorted(reports), publisher_at, ping_ms)
    return choose(
        names,
        [messages[broker] for broker in names],
        [delays[broker] for broker in names],
        sum(report.deliveries for report in reports.values()),
        publisher_at,
        ping_ms,
        wanted,
    )


def _rooted(reports: Reports, root: BrokerId) -> tuple[list[BrokerId], dict[BrokerId, BrokerId]]:
    """Brokers from the root on, and who is above each; neighbors without a report do not count."""
    order, above = [root], {root: root}
    for broker in order:
        for neighbor in reports[broker].hop_ms:
            if neighbor == above[broker] or neighbor not in reports:
                continue
            if neighbor in above:
                raise DesignError("the brokers that report are no tree")
            above[neighbor] = broker
            order.append(neighbor)
    if len(order) != len(reports):
        raise DesignError("the brokers that report are no tree")
    return order, above


def delay_sums(
    reports: Reports, order: list[BrokerId], above: Mapping[BrokerId, BrokerId]
) -> dict[BrokerId, float]:
    """S(c) = S(p) + up(c) * (total - sub(c)) - down(c) * sub(c), for every broker."""
    below = {broker: reports[broker].deliveries for broker in order}
    way_ms = {order[0]: 0.0}
    for broker in order[1:]:
        way_ms[broker] = way_ms[above[broker]] + reports[above[broker]].hop_ms[broker]
    for broker in reversed(order[1:]):
        below[above[broker]] += below[broker]
    total = below[order[0]]
    sums = {
        order[0]: sum(reports[b].deliveries * (way_ms[b] + reports[b].client_ms) for b in order)
    }
    for broker in order[1:]:
        up_ms = reports[broker].hop_ms[above[broker]]
        down_ms = reports[above[broker]].hop_ms[broker]
        gained = up_ms * (total - below[broker]) - down_ms * below[broker]
        sums[broker] = sums[above[broker]] + gained
    return sums


def message_sums(
    reports: Reports, order: list[BrokerId], above: Mapping[BrokerId, BrokerId]
) -> dict[BrokerId, int]:
    """R(c) = R(p) + |OR outside c| - |OR inside c|, for every broker."""
    root = order[0]
    inside = {broker: reports[broker].bits for broker in order}
    children: dict[BrokerId, list[BrokerId]] = {broker: [] for broker in order}
    for broker in reversed(order[1:]):
        inside[above[broker]] |= inside[broker]
        children[above[broker]].append(broker)
    outside = {root: 0}
    for broker in order:
        before = outside[broker] | reports[broker].bits
        for child in children[broker]:
            outside[child] = before
            before |= inside[child]
        behind = 0
        for child in reversed(children[broker]):
            outside[child] |= behind
            behind |= inside[child]
    sums = {root: sum(inside[broker].bit_count() for broker in order)}
    for broker in order[1:]:
        moved = outside[broker].bit_count() - inside[broker].bit_count()
        sums[broker] = sums[above[broker]] + moved
    return sums
