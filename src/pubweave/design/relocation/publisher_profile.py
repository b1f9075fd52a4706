"""From a workload profile to GRAPE's statistics of every publisher.

The pipeline has traced every publisher's last publications (tables ``traces``, ``publishers``)
and measured queueing, matching and links (``broker_costs``, ``link_queues``, ``links``). A hop
costs what its sending broker takes for queueing and matching, the wait for output and the link;
a profile knows nothing of how far publishers are from brokers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

from pubweave.design.relocation.publisher import select_broker
from pubweave.design.relocation.rules import DeliveryReport, Preference, Selection
from pubweave.design.relocation.subscriber import (
    PlacedSubscriber,
    SubscriberPlacement,
    SubscriberProblem,
)
from pubweave.design.tree.profile_inputs import Tables, topology_of
from pubweave.design.tree.traffic import DesignError
from pubweave.model.ids import BrokerId, ClientId, Link
from pubweave.model.topology import Topology, validate_tree

WORD = 1 << 64


@dataclass(frozen=True)
class TracedPublisher:
    """A publisher of a profile: where it was, and what each broker would report of it."""

    publisher: ClientId
    publisher_at: BrokerId
    reports: Mapping[BrokerId, DeliveryReport]


def traced_publishers(profile: Tables) -> list[TracedPublisher]:
    """Every publisher that the profile traced and whose broker is there; in the order of their
    ids. DesignError where nothing was traced. O(publishers x brokers)."""
    topology = topology_of(profile)
    validate_tree(topology)
    hop_ms, own_ms = _delays(profile, topology)
    delivered: dict[ClientId, dict[BrokerId, tuple[int, int]]] = {}
    for row in profile.rows("traces"):
        bits = sum((word % WORD) << (64 * place) for place, word in enumerate(row["bit_vector"]))
        by_broker = delivered.setdefault(row["publisher"], {})
        by_broker[row["broker"]] = (row["local_deliveries"], bits)
    found = []
    for row in profile.rows("publishers"):
        own = delivered.get(row["publisher"], {})
        if row["broker"] in topology.brokers and own:
            reports = {
                broker: DeliveryReport(*own.get(broker, (0, 0)), hop_ms[broker], own_ms[broker])
                for broker in topology.brokers
            }
            found.append(TracedPublisher(row["publisher"], row["broker"], reports))
    if not found:
        raise DesignError("the profile has traced no publisher: profile a run with deliveries")
    return found


def choose_publishers(
    profile: Tables,
    preference: Preference,
    *,
    least_gain: float = 0.0,
    publishers: Collection[ClientId] = (),
) -> dict[ClientId, Selection]:
    """Where the publishers of a profile should be: those named, or all. A move saves at least the
    share ``least_gain`` of what decides it. DesignError if one that is named was not traced."""
    traced = traced_publishers(profile)
    missing = sorted(set(publishers) - {found.publisher for found in traced})
    if missing:
        raise DesignError(f"it has no traced publisher {missing[0]!r}")
    chosen = {}
    for found in traced:
        if found.publisher in publishers or not publishers:
            equally_far = dict.fromkeys(found.reports, 0.0)
            selection = select_broker(found.reports, found.publisher_at, equally_far, preference)
            chosen[found.publisher] = selection.unless_less_than(least_gain)
    return chosen


def choose_subscribers(
    profile: Tables, preference: Preference, room: int, least_gain: float = 0.0
) -> dict[ClientId, Selection]:
    """Where the subscribers of a profile should be, placed one after the other; a broker has
    ``room`` for so many clients."""
    placement = SubscriberPlacement(subscriber_problem(profile, preference, room, least_gain))
    chosen = {}
    for client in list(placement.subscribers):
        selection = chosen[client] = placement.choose(client)
        if selection.moves:
            placement.move(client, selection.choice)
    return chosen


def _delays(
    profile: Tables, topology: Topology
) -> tuple[dict[BrokerId, dict[BrokerId, float]], dict[BrokerId, float]]:
    """What a publication waits at each broker, towards each neighbor and towards clients."""
    costs = {row["broker"]: float(row["processing_ms"]) for row in profile.rows("broker_costs")}
    own_ms = {broker: costs.get(broker, 0.0) for broker in topology.brokers}
    queues = {
        (row["broker"], row["neighbor"]): float(row["output_queueing_ms"] or 0.0)
        for row in profile.rows("link_queues")
    }
    hop_ms = {
        broker: {
            neighbor: own_ms[broker]
            + queues.get((broker, neighbor), 0.0)
            + topology.latency_ms.get(Link.between(broker, neighbor), 0.0)
            for neighbor in neighbors
        }
        for broker, neighbors in topology.neighbors.items()
    }
    return hop_ms, own_ms


def hop_delays(profile: Tables, topology: Topology) -> dict[tuple[BrokerId, BrokerId], float]:
    """What a publication takes from a broker to a neighbor: handling, queue and link."""
    hop_ms, _ = _delays(profile, topology)
    return {
        (broker, neighbor): delay_ms
        for broker, delays in hop_ms.items()
        for neighbor, delay_ms in delays.items()
    }


# From a workload profile to the problem of where subscribers should be.
#
# A profile does not know which client got which publication. It knows what each delivery tree
# reached (``delivery_trees``, ``tree_receivers``) and who asks for which topic
# (``client_topics``). So a client is taken to want what was delivered at its broker of its topics:
# an upper bound where clients of one broker ask for different parts of a topic. Publishers are
# placed by their traces and are left out.


def subscriber_problem(
    profile: Tables, preference: Preference, most_clients: int, least_gain: float
) -> SubscriberProblem:
    """Every delivery tree stands for a publisher at its root, whose one publication counts as
    often as the tree was taken. DesignError where nothing was delivered. O(deliveries of trees x
    clients of a broker)."""
    topology = topology_of(profile)
    validate_tree(topology)
    receivers: dict[str, set[BrokerId]] = defaultdict(set)
    for row in profile.rows("tree_receivers"):
        receivers[str(row["tree"])].add(row["broker"])
    asking: dict[tuple[BrokerId, str], list[str]] = defaultdict(list)
    home: dict[str, BrokerId] = {}
    for row in profile.rows("client_topics"):
        asking[row["broker"], row["topic"]].append(row["client"])
        home[row["client"]] = row["broker"]
    wanted: dict[str, dict[str, int]] = defaultdict(dict)
    roots: dict[str, BrokerId] = {}
    weights: dict[str, float] = {}
    for row in profile.rows("delivery_trees"):
        tree = str(row["tree"])
        if row["broker"] not in topology.brokers:
            continue
        roots[tree], weights[tree] = row["broker"], float(row["weight"])
        for broker in receivers[tree] & topology.brokers:
            for client in asking[broker, row["topic"]]:
                wanted[client][tree] = 1
    if not wanted:
        raise DesignError("the profile has no deliveries to subscribers: profile a run with some")
    publishing = {row["publisher"]: row["broker"] for row in profile.rows("publishers")}
    clients_at: dict[BrokerId, int] = dict.fromkeys(topology.brokers, 0)
    for broker in (home | publishing).values():
        if broker in clients_at:
            clients_at[broker] += 1
    return SubscriberProblem(
        topology=topology,
        hop_ms=hop_delays(profile, topology),
        publisher_at=roots,
        subscribers=tuple(
            PlacedSubscriber(
                client, home[client], wanted[client], dict.fromkeys(topology.brokers, 0.0)
            )
            for client in sorted(wanted)
            if client not in publishing
        ),
        most_clients=most_clients,
        preference=preference,
        others=_others(wanted, home, set(publishing)),
        clients_at=clients_at,
        weights=weights,
        least_gain=least_gain,
    )


def _others(
    wanted: Mapping[str, Mapping[str, int]], home: Mapping[str, BrokerId], publishing: set[str]
) -> dict[str, dict[BrokerId, int]]:
    """What publishers want that subscribe, too: they are not placed here."""
    others: dict[str, dict[BrokerId, int]] = defaultdict(dict)
    for client in publishing & wanted.keys():
        for tree in wanted[client]:
            others[tree][home[client]] = 1
    return others
