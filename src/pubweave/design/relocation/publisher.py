"""Where a publisher costs least: GRAPE's two metrics for all brokers at once, and its choice.

Both metrics of the paper (GRAPE 4.2, Algorithms 1 to 3) follow for every broker from those of a
neighbor, so one pass up and one down the tree suffice: O(brokers x words of a bit vector) where
the paper has O(N^2). Plain Python on the reports as they are, because live brokers decide by it:
loading numba would stop a broker for a second, and making arrays takes as long as the passes.

How the paper is read: a delivery at v of a publication that enters at c waits, at every broker
from c to v, for that broker's input queue, its matching and its output queue towards the next hop
(at v: towards the client). So the delay of a hop belongs to the broker that sends. The publisher
is half a round trip away from c. Deliveries count pairs of publication and subscriber, bits count
publications.
"""

from __future__ import annotations

from collections.abc import Mapping

from pubweave.design.relocation.rules import (
    DeliveryReport,
    Preference,
    Selection,
    candidates,
    choose,
)
from pubweave.design.tree.traffic import DesignError
from pubweave.model.ids import BrokerId

Reports = Mapping[BrokerId, DeliveryReport]


def select_broker(
    reports: Reports, publisher_at: BrokerId, ping_ms: Mapping[BrokerId, float], wanted: Preference
) -> Selection:
    """GRAPE's choice (`choice.choose`). O(brokers x words of a bit vector)."""
    delays, messages = metrics(reports, publisher_at)
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


def metrics(reports: Reports, root: BrokerId) -> tuple[dict[BrokerId, float], dict[BrokerId, int]]:
    """With the publisher at each broker: the delays of all deliveries, added, without its own way
    to its broker; and the publications that brokers handle, counted at each broker they pass.
    ``root`` is any of them.

    >>> two = {"b1": DeliveryReport(1, 0b01, {"b2": 2.0}, 1.0),
    ...        "b2": DeliveryReport(5, 0b11, {"b1": 2.0}, 1.0)}
    >>> metrics(two, "b1")
    ({'b1': 16.0, 'b2': 8.0}, {'b1': 4, 'b2': 3})
    """
    order, above = _rooted(reports, root)
    return _delay_sums(reports, order, above), _message_sums(reports, order, above)


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


def _delay_sums(
    reports: Reports, order: list[BrokerId], above: Mapping[BrokerId, BrokerId]
) -> dict[BrokerId, float]:
    """S(c) = S(p) + up(c) * (total - sub(c)) - down(c) * sub(c): to go one hop down from p, every
    delivery below c loses the way down, and all others gain the way up."""
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


def _message_sums(
    reports: Reports, order: list[BrokerId], above: Mapping[BrokerId, BrokerId]
) -> dict[BrokerId, int]:
    """R(c) = R(p) + |OR outside c| - |OR inside c|: seen from c, only p and c change sides."""
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
