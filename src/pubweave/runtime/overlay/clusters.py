"""Clusters in a topology file: brokers that reach the ring of a rendezvous overlay by gateways.

A broker with the attribute ``cluster`` is one of that cluster and routes as in a topic-connected
overlay; the others are the ring. A link between the two is one of a gateway. Placement clusters are
something else: brokers of the ring that send users to each other.
"""

from __future__ import annotations

from collections.abc import Sequence

from pubweave.model.ids import BrokerId, natural_order
from pubweave.model.messages.rendezvous import RENDEZVOUS_PROTOCOL
from pubweave.model.messages.topic_connected import TOPIC_PROTOCOL
from pubweave.model.topology import Topology

CLUSTER_ATTRIBUTE = "cluster"


def cluster_of(topology: Topology, broker: BrokerId) -> str | None:
    """The cluster that a broker is in; None: it is on the ring."""
    written = topology.broker_attributes.get(broker, {}).get(CLUSTER_ATTRIBUTE)
    return None if written is None else str(written)


def strategy_of(topology: Topology, strategy: str, broker: BrokerId) -> str:
    """How a broker routes in an overlay of this strategy."""
    is_apart = strategy == RENDEZVOUS_PROTOCOL and cluster_of(topology, broker) is not None
    return TOPIC_PROTOCOL if is_apart else strategy


def ring_of(topology: Topology, broker: BrokerId) -> tuple[BrokerId, ...]:
    """The brokers of the ring that a broker of a cluster has links with."""
    if cluster_of(topology, broker) is None:
        return ()
    near = topology.neighbors[broker]
    return tuple(sorted(n for n in near if cluster_of(topology, n) is None))


def block_of(brokers: Sequence[BrokerId], size: int, broker: BrokerId) -> Sequence[BrokerId]:
    """The placement cluster that a broker is in: as many of about this size as there can be.

    >>> [block_of("abcdefg", 3, broker) for broker in "ad" "eg"]
    ['abcd', 'abcd', 'efg', 'efg']
    """
    count = max(1, len(brokers) // size)
    least, larger = divmod(len(brokers), count)
    place, start = brokers.index(broker), 0
    for number in range(count):
        end = start + least + (number < larger)
        if place < end:
            break
        start = end
    return brokers[start:end]


def problem_of(topology: Topology) -> str | None:
    """Why a topology with clusters cannot be, in words; None if it can."""
    clusters: dict[str, list[BrokerId]] = {}
    for broker in sorted(topology.brokers, key=natural_order):
        cluster = cluster_of(topology, broker)
        if cluster is not None:
            clusters.setdefault(cluster, []).append(broker)
    if sum(map(len, clusters.values())) == len(topology.brokers):
        return f"no broker is on the ring: leave {CLUSTER_ATTRIBUTE} away at one at least"
    for link in sorted(topology.links):
        near, far = (cluster_of(topology, end) for end in (link.a, link.b))
        if near is not None and far is not None and near != far:
            return f"the link {link.a} - {link.b} joins two clusters: they meet on the ring only"
    for cluster, brokers in clusters.items():
        if not any(ring_of(topology, broker) for broker in brokers):
            return (
                f"cluster {cluster!r} has no gateway: give one of its brokers a link with a broker "
                "of the ring"
            )
    return None
