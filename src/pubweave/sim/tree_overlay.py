"""A simulated overlay of `tree` brokers: what their tables promise, and what they should hold."""

from __future__ import annotations

from itertools import pairwise

from pubweave.core.broker import Broker
from pubweave.core.session import Session
from pubweave.core.tree_routing import TreeRouting
from pubweave.model.ids import BrokerId
from pubweave.model.messages import Unsubscribe
from pubweave.sim.overlay import SimOverlay
from pubweave.sim.table_checker import check_tables


class TreeOverlay(SimOverlay):
    """Content routing on a tree, with covering or without."""

    def is_due(
        self, subscription: str, advertisements: list[str], path: tuple[BrokerId, ...]
    ) -> bool:
        """Each broker on the way knows the advertisement and passed the subscription on to it,
        or one that stands in for it."""
        home = self.brokers[path[0]].core
        if home is None or subscription not in _routing(home).subscriptions:
            return False
        standing = subscription
        for near_name, far_name in pairwise(path):
            near, far = self.brokers[near_name].core, self.brokers[far_name].core
            if near is None or far is None:
                return False
            link = near.sessions.links.get(far_name)
            table = _routing(near).links.get(link) if link is not None else None
            if link is None or table is None or near_name not in far.sessions.links:
                return False  # an action is about to make or remove this link
            if not any(id_ in table.advertisements for id_ in advertisements):
                return False
            standing = table.suppressed.get(standing, standing)
            if standing not in table.forwarded:
                return False
            if standing not in _routing(far).subscriptions or _is_withdrawing(link, standing):
                return False
        return True

    def check_tables(self) -> list[str]:
        cores = {name: self.brokers[name].broker for name in self.topology.neighbors}
        return check_tables(self.topology, cores, self.truth())


def _is_withdrawing(link: Session, id_: str) -> bool:
    """Whether the far end has yet to hear that a subscription is withdrawn: it may have been
    passed on again since, when an advertisement went and another came, and still be the old one
    there."""
    return any(
        isinstance(message, Unsubscribe) and message.id == id_
        for queue in (link.unacked, link.waiting, link.pending)
        for message in queue
    )


def _routing(broker: Broker) -> TreeRouting:
    assert isinstance(broker.routing, TreeRouting)
    return broker.routing
