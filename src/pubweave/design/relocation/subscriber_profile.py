"""From a workload profile to the problem of where subscribers should be.

A profile does not know which client got which publication. It knows what each delivery tree
reached (``delivery_trees``, ``tree_receivers``) and who asks for which topic (``client_topics``).
So a client is taken to want what was delivered at its broker of its topics: an upper bound where
clients of one broker ask for different parts of a topic. Publishers are placed by their traces and
are left out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

from pubweave.design.relocation.publisher_profile import hop_delays
from pubweave.design.relocation.rules import Preference
from pubweave.design.relocation.subscriber import PlacedSubscriber, SubscriberProblem
from pubweave.design.tree.profile_inputs import Tables, topology_of
from pubweave.design.tree.traffic import DesignError
from pubweave.model.ids import BrokerId
from pubweave.model.topology import validate_tree


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
