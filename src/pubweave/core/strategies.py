"""The routing strategies a broker can be started with, by name."""

from __future__ import annotations

from collections.abc import Callable

from pubweave.core.routing.rendezvous.routing import RendezvousRouting
from pubweave.core.routing.strategy import RoutingStrategy, Send
from pubweave.core.routing.topic_connected.routing import TopicRouting
from pubweave.core.routing.tree.routing import TreeRouting

STRATEGIES: dict[str, Callable[[Send], RoutingStrategy]] = {
    "tree": lambda send: TreeRouting(send),
    "tree_covering": lambda send: TreeRouting(send, covering=True),
    "topic_connected": TopicRouting,
    "rendezvous": RendezvousRouting,
}


GRAPHS = frozenset({"topic_connected", "rendezvous"})
"""Strategies that route on any graph; the others need a tree."""


def make_strategy(name: str, send: Send) -> RoutingStrategy:
    """The strategy of this name; ValueError lists those there are."""
    if name not in STRATEGIES:
        raise ValueError(f"unknown routing strategy {name!r}: choose {', '.join(STRATEGIES)}")
    return STRATEGIES[name](send)
