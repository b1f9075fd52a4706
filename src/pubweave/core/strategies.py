"""The routing strategies that a broker can be started with, by name.

A strategy says how to route (`RoutingStrategy`) and which parts a broker needs for it
(`BrokerPart`). Other packages add theirs by the entry point group ``pubweave.strategies``.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pubweave.core.confirming import Confirming
from pubweave.core.dataplane.part import BrokerPart
from pubweave.core.dataplane.publishing import Publishing
from pubweave.core.dataplane.services import BrokerServices
from pubweave.core.migration.coordinator import MigrationCoordinator
from pubweave.core.relocation.relocator import Relocator
from pubweave.core.routing.flooding import FloodingRouting
from pubweave.core.routing.rendezvous.maintenance import RendezvousMaintenance
from pubweave.core.routing.rendezvous.routing import RendezvousRouting
from pubweave.core.routing.strategy import RoutingStrategy, Send
from pubweave.core.routing.topic_connected.publishing import TopicPublishing
from pubweave.core.routing.topic_connected.repair import OverlayRepair
from pubweave.core.routing.topic_connected.routing import TopicRouting
from pubweave.core.routing.tree.routing import TreeRouting
from pubweave.core.self_organizing.organizer import Organizer, Unorganized
from pubweave.core.transformation.coordinator import ActionCoordinator
from pubweave.core.transformation.services import TreeServices
from pubweave.model.plugins import find, names

GROUP = "pubweave.strategies"


def no_parts(services: BrokerServices[Any]) -> Sequence[BrokerPart]:
    """Of a strategy that does nothing but route."""
    return ()


@dataclass(frozen=True)
class Strategy:
    """How a broker is made that routes in one way."""

    make_routing: Callable[[Send], RoutingStrategy]
    make_parts: Callable[[BrokerServices[Any]], Sequence[BrokerPart]] = no_parts
    """The parts of a broker; its services have what ``make_routing`` made."""
    needs_tree: bool = True
    """Whether links must form a tree. On any other graph no link waits for another one: waiting
    could close a cycle, so only clients are held up there."""
    publishing: type[Publishing] = Publishing
    """What takes in publications: by default, each once by publisher and sequence."""


def tree_parts(services: BrokerServices[TreeRouting]) -> Sequence[BrokerPart]:
    """Trees can be transformed, and clients can move on them."""
    inside = TreeServices(**vars(services))
    actions = ActionCoordinator(inside)
    migrations = MigrationCoordinator(inside, actions)
    organize = services.config.organize
    organizer = Unorganized() if organize is None else Organizer(inside, actions, organize)
    relocator = Relocator(inside, migrations)
    return migrations, actions, organizer, relocator, Confirming(services)


STRATEGIES: dict[str, Strategy] = {
    "tree": Strategy(TreeRouting, tree_parts),
    "tree_covering": Strategy(partial(TreeRouting, covering=True), tree_parts),
    "flooding": Strategy(FloodingRouting),
    "topic_connected": Strategy(
        TopicRouting, lambda services: [OverlayRepair(services)], False, TopicPublishing
    ),
    "rendezvous": Strategy(
        RendezvousRouting,
        lambda services: [RendezvousMaintenance(services)],
        False,
        TopicPublishing,
    ),
}
"""Those of pubweave itself."""


def strategy_names() -> list[str]:
    """All strategies there are, those of other packages behind our own."""
    return names(GROUP, STRATEGIES)


def find_strategy(name: str) -> Strategy:
    """The strategy of this name; PluginError (a ValueError) lists those there are."""
    return find(GROUP, STRATEGIES, name)
