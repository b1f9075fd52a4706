"""Which broker of a placement cluster a user belongs to: our rule, and DYNATOPS' (section 4).

A broker is known by how many subscriptions it has for each topic, and in all. *lasting* is the rule
of `design.dynatops.placement_rule`: the mean worth of the user's topics, minus a weight times the
broker's load over the mean of the cluster. *similarity* is the paper's Sim - w_l L, with L the
share of the cluster's subscriptions: a broker knows of no others. The user's own broker is counted
without it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple

from pubweave.core.config.placement import SIMILARITY, PlacementConfig
from pubweave.design.dynatops.placement_rule import WORTHS, worth_staying
from pubweave.model.ids import BrokerId


class Host(NamedTuple):
    """What counts of a broker as a home for users."""

    users: Mapping[str, int]
    """By topic: how many subscriptions name it."""
    subscriptions: int

    def with_user(self, topics: Collection[str], senders: int = 1) -> Host:
        """The same with one user more, and with as many more subscriptions as if ``senders``
        brokers had sent one.

        >>> Host({"x": 1}, 1).with_user(["x", "y"])
        Host(users={'x': 2, 'y': 1}, subscriptions=3)
        """
        more = {topic: self.users.get(topic, 0) + 1 for topic in topics}
        return Host({**self.users, **more}, self.subscriptions + senders * len(topics))


def similarity(wanted: frozenset[str], host: Host) -> float:
    """Sim: the share of a user's topics that a broker wants.

    >>> similarity(frozenset("xy"), Host({"x": 4}, 4))
    0.5
    """
    return len(wanted & host.users.keys()) / len(wanted) if wanted else 0.0


def lasting(wanted: frozenset[str], host: Host) -> float:
    """Mean worth of a user's topics at another broker than its own.

    >>> lasting(frozenset("xy"), Host({"x": 40}, 40))
    0.0
    """
    most = len(WORTHS) - 1
    total = sum(WORTHS[min(host.users.get(topic, 0), most)] for topic in wanted)
    return total / len(wanted) if wanted else 0.0


def lasting_here(wanted: frozenset[str], kept: frozenset[str], host: Host) -> float:
    """The same at its own one, of whose topics the user has ``kept`` some since it was placed.

    >>> lasting_here(frozenset("x"), frozenset("x"), Host({}, 0))
    1.0
    """
    known = wanted & kept
    total = sum(worth_staying(host.users.get(topic, 0)) for topic in known)
    total += lasting(wanted - known, host) * len(wanted - known)
    return total / len(wanted) if wanted else 0.0


def best_host(
    wanted: frozenset[str],
    own: BrokerId,
    hosts: Mapping[BrokerId, Host],
    config: PlacementConfig,
    kept: frozenset[str] = frozenset(),
) -> BrokerId:
    """Where a user belongs who is at ``own``: there, unless another one has more utility by the
    least gain, or ``own`` is none of the hosts. Of equal ones the least loaded, then the first by
    name. O(hosts x topics).

    >>> hosts = {"b1": Host({"x": 3}, 3), "b2": Host({"x": 2, "y": 1}, 3)}
    >>> rule = PlacementConfig(least_gain=0.0)
    >>> best_host(frozenset("xy"), "b1", hosts, rule), best_host(frozenset("z"), "b1", hosts, rule)
    ('b2', 'b1')
    """
    every = sum(host.subscriptions for host in hosts.values())
    is_paper = config.rule == SIMILARITY
    price = config.load_weight * (1 if is_paper else len(hosts)) / max(1, every)

    def utility(broker: BrokerId) -> float:
        host = hosts[broker]
        if is_paper:
            fit = similarity(wanted, host)
        else:
            fit = lasting_here(wanted, kept, host) if broker == own else lasting(wanted, host)
        return fit - price * host.subscriptions

    worth = {broker: utility(broker) for broker in hosts}
    best = min(hosts, key=lambda broker: (-worth[broker], hosts[broker].subscriptions, broker))
    may_stay = own in hosts and worth[best] <= worth[own] + config.least_gain
    return own if may_stay else best
