"""Slow, obvious twins of the control loop's arithmetic."""

from __future__ import annotations

from itertools import pairwise

from pubweave.model.ids import BrokerId, Link
from pubweave.model.plans import Shift
from pubweave.model.topology import Topology

Group = tuple[tuple[BrokerId, ...], float]


def steiner_links(topology: Topology, group: tuple[BrokerId, ...]) -> set[Link]:
    """The links of the smallest subtree with all brokers of a group."""
    return {
        Link.between(*hop) for broker in group for hop in pairwise(topology.path(group[0], broker))
    }


def naive_cost(
    topology: Topology,
    groups: list[Group],
    processing: dict[BrokerId, float],
    latency: dict[Link, float],
) -> float:
    """cost(N, T), notification by notification (CI Eqs. 1 and 2)."""
    total = 0.0
    for group, weight in groups:
        links = steiner_links(topology, group)
        brokers = {end for link in links for end in link} | set(group)
        total += weight * sum(processing[b] for b in brokers)
        total += weight * sum(latency[link] for link in links)
    return total


def naive_change_cost(
    topology: Topology,
    steps: list[list[Shift]],
    groups: list[Group],
    processing: dict[BrokerId, float],
    latency: dict[Link, float],
    entries: dict[BrokerId, float],
    *,
    window_s: float,
    messages: float,
    store_ms: float,
) -> float:
    """Cst of shifts, each priced on the tree as it is when its turn comes (loads: its step's)."""
    total = 0.0
    for step in steps:
        before = topology
        for shift in step:
            i, j, k = shift.brokers
            toll = {
                (a, b): latency[Link.between(a, b)] + processing[b]
                for a, b in ((i, j), (j, k), (i, k))
            }
            total += messages * sum(toll.values()) / 3
            behind = [b for b in topology.brokers if j not in topology.path(i, b)]
            total += sum(entries.get(b, 0.0) for b in behind) * toll[j, k]
            crossing = sum(
                weight
                for group, weight in groups
                for link in steiner_links(before, group)
                if link in (shift.removed_link, shift.pivot_link)
            )
            hold = 2 * latency[Link.between(i, k)] + 2 * latency[Link.between(j, k)] + store_ms
            total += crossing / window_s * hold / 1000.0 * hold / 2
            topology = topology.without_link(shift.removed_link).with_link(shift.added_link)
    return total
