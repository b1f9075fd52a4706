"""Whether routing tables are what topology and clients call for, when the network is quiet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from pubweave.core.broker import Broker
from pubweave.core.routing.tree.link_table import LinkTable
from pubweave.core.routing.tree.routing import TreeRouting
from pubweave.model.filters.filter import Filter
from pubweave.model.filters.relations import covers, intersects
from pubweave.model.ids import BrokerId
from pubweave.model.topology import Topology


@dataclass(frozen=True)
class Truth:
    """What all attached clients have asked for: id -> (home broker, client, filter)."""

    subscriptions: Mapping[str, tuple[BrokerId, str, Filter]]
    advertisements: Mapping[str, tuple[BrokerId, str, Filter]]


def check_tables(topology: Topology, brokers: Mapping[BrokerId, Broker], truth: Truth) -> list[str]:
    """Differences between tables and truth, in words; none if all is well.

    O(brokers x (subscriptions x advertisements)).
    """
    found: list[str] = []
    towards = {broker: _next_hops(topology, broker) for broker in topology.neighbors}
    for name, broker in brokers.items():
        routing = broker.routing
        assert isinstance(routing, TreeRouting)
        held = {id_: entry.hop.remote for id_, entry in routing.advertisements.items()}
        expected = {
            id_: client if home == name else towards[home][name]
            for id_, (home, client, _) in truth.advertisements.items()
        }
        found += _differences(name, "advertisement", held, expected)
        held = {id_: entry.hop.remote for id_, entry in routing.subscriptions.items()}
        expected = _expected_subscriptions(name, topology, towards, truth)
        if routing.covering:
            found += _check_covered(name, brokers, routing, held, expected)
        else:
            found += _differences(name, "subscription", held, expected)
    return found


def _next_hops(topology: Topology, home: BrokerId) -> dict[BrokerId, BrokerId]:
    """For each broker, its neighbor towards ``home``."""
    hops = {home: home}
    queue = [home]
    for broker in queue:
        for neighbor in topology.neighbors[broker]:
            if neighbor not in hops:
                hops[neighbor] = broker
                queue.append(neighbor)
    return hops


def _expected_subscriptions(
    name: BrokerId,
    topology: Topology,
    towards: Mapping[BrokerId, Mapping[BrokerId, BrokerId]],
    truth: Truth,
) -> dict[str, str]:
    """A broker holds its own clients' subscriptions, and those that have to pass it on their
    way to an advertisement they intersect."""
    expected: dict[str, str] = {}
    for id_, (home, client, wanted) in truth.subscriptions.items():
        if home == name:
            expected[id_] = client
            continue
        back = towards[home][name]
        for source, _, offered in truth.advertisements.values():
            # `name` lies between home and source, or is source.
            if towards[source][name] != back and intersects(offered, wanted):
                expected[id_] = back
                break
    return expected


def _differences(
    name: BrokerId, what: str, held: Mapping[str, str], expected: Mapping[str, str]
) -> list[str]:
    return [
        f"{name}: {what} {id_} comes from {held.get(id_)}, should be {expected.get(id_)}"
        for id_ in sorted(held.keys() | expected.keys())
        if held.get(id_) != expected.get(id_)
    ]


def _check_covered(
    name: BrokerId,
    brokers: Mapping[BrokerId, Broker],
    routing: TreeRouting,
    held: Mapping[str, str],
    expected: Mapping[str, str],
) -> list[str]:
    """With covering: nothing held that is not expected, and every link's needs are covered."""
    found = [
        f"{name}: subscription {id_} comes from {hop}, should be {expected.get(id_)}"
        for id_, hop in sorted(held.items())
        if expected.get(id_) != hop
    ]
    for link, table in routing.links.items():
        found += _check_link(name, link.remote, table, routing)
        far = brokers[link.remote].routing
        assert isinstance(far, TreeRouting)
        theirs = {i for i, entry in far.subscriptions.items() if entry.hop.remote == name}
        ours = set(table.forwarded)
        if theirs != ours:
            odd = sorted(theirs ^ ours)[:3]
            found.append(f"{name}: {link.remote} holds other subscriptions than passed on: {odd}")
    return found


def _check_link(
    name: BrokerId, neighbor: BrokerId, table: LinkTable, routing: TreeRouting
) -> list[str]:
    needed = {
        id_: entry.filter
        for id_, entry in routing.subscriptions.items()
        if entry.hop is not table.link and table.is_needed(entry.filter)
    }
    forwarded = dict(table.forwarded.items())
    found = [
        f"{name}: {id_} was passed on to {neighbor} without need"
        for id_ in sorted(forwarded.keys() - needed.keys())
    ]
    for id_, filter_ in needed.items():
        if id_ not in forwarded and not any(covers(w, filter_) for w in forwarded.values()):
            found.append(f"{name}: {id_} is needed at {neighbor} and nothing covers it")
    return found
