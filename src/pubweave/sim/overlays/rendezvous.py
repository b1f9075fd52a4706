"""A simulated rendezvous overlay and its truth: the sorted ring, and the trees that follow.

What should be is worked out from who lives and what clients want, with
`design.dynatops.mapping.ring`; what is, from the tables of the brokers and from what they want of
each other.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from itertools import pairwise

import numpy as np

from pubweave.core.broker import Broker
from pubweave.core.config.rendezvous import RendezvousConfig
from pubweave.core.routing.rendezvous.control_plane import ControlPlane
from pubweave.core.routing.rendezvous.maintenance import RendezvousMaintenance
from pubweave.core.routing.rendezvous.routing import RendezvousRouting
from pubweave.core.routing.topic_connected.repair import OverlayRepair
from pubweave.design.dynatops.mapping.ring import Ring
from pubweave.model.ids import BrokerId
from pubweave.model.messages.topic_connected import TopicWanted
from pubweave.model.publications import Publication
from pubweave.sim.overlays.base import SimOverlay
from pubweave.sim.overlays.clusters import RING, check_cluster, part_of
from pubweave.sim.overlays.topic_connected import TopicOverlay, routing_of

FAST = RendezvousConfig(
    stabilize_every_s=0.5,
    fingers_every_s=2.0,
    refresh_s=2.0,
    expire_after_s=6.5,
    release_after_s=1.0,
)
"""Everything is said twice as often as by default: runs come to rest sooner."""


@lru_cache(maxsize=64)
def ring_of(positions: tuple[int, ...]) -> Ring:
    return Ring(np.array(positions, np.int64))


@lru_cache(maxsize=65_536)
def way_between(positions: tuple[int, ...], start: int, end: int) -> tuple[int, ...]:
    """The greedy route between two positions."""
    places = ring_of(positions).route(positions.index(start), positions.index(end))
    return tuple(positions[place] for place in places)


class RingRules:
    """A ring, and clusters that reach it through gateways: the sorted ring, and its trees."""

    inspects = False

    def __init__(self, overlay: TopicOverlay) -> None:
        self._overlay = overlay
        self.version: Callable[[], int | None] = lambda: None
        """The version that all should have come to; None while that is open."""

    def members(self, part: str) -> dict[BrokerId, Broker]:
        """The brokers of a part that live and do not leave."""
        return {name: core for name, core in self._left().items() if part_of(name) == part}

    def _left(self) -> dict[BrokerId, Broker]:
        return {
            name: node.core
            for name, node in self._overlay.brokers.items()
            if name not in self._overlay.leaving and node.core is not None
        }

    @property
    def clusters(self) -> list[str]:
        return sorted({part_of(name) for name in self._overlay.brokers} - {RING})

    def staying(self) -> dict[BrokerId, RendezvousMaintenance]:
        """Brokers of the ring that live and do not leave."""
        return {name: upkeep_of(core) for name, core in self.members(RING).items()}

    def split_topics(self, wanted: dict[str, set[BrokerId]] | None = None) -> list[str]:
        """Topics of which a publisher's broker does not reach all subscribers' brokers; those that
        leave send their clients elsewhere. With clusters, only topics that a client wants: a
        cluster's wish may outlast its clients for a while."""
        if self.clusters:
            wanted = wanted or self._overlay.wanted_topics()
        ways: dict[str, dict[BrokerId, list[BrokerId]]] = {}
        for name, node in self._overlay.brokers.items():
            if node.core is None:
                continue
            routing = routing_of(node.core)
            for link, topics in routing.wanted.items():
                if link.is_established and link.remote in self._overlay.brokers:
                    for topic in topics:
                        if topic in routing.topics:
                            ways.setdefault(topic, {}).setdefault(name, []).append(link.remote)
        split = []
        routings = {name: routing_of(core) for name, core in self._left().items()}
        for topic in {topic for routing in routings.values() for topic in routing.subscribed}:
            if self.clusters and wanted is not None and topic not in wanted:
                continue
            subscribers = {n for n, routing in routings.items() if topic in routing.subscribed}
            publishers = {n for n, routing in routings.items() if topic in routing.advertised}
            if any(not subscribers <= _reached(name, ways.get(topic, {})) for name in publishers):
                split.append(topic)
        return sorted(split)

    def check_tables(self) -> list[str]:
        """At rest: whether ring and trees are what they should be, at everybody."""
        problems = [f"topic {topic} is in pieces" for topic in self.split_topics()]
        upkeeps = self.staying()
        versions = {tuple(upkeep.planes) for upkeep in upkeeps.values()}
        if versions != {(self.version(),)}:
            return [*problems, f"brokers have versions {sorted(versions)}, not {self.version()}"]
        planes = {name: upkeep.plane for name, upkeep in upkeeps.items()}
        problems += check_rings(planes)
        if not problems:
            problems += self._check_trees(planes)
            problems += self._check_absences(upkeeps)
        for cluster in self.clusters:
            problems += check_cluster(cluster, self.members(cluster))
        return problems

    def _check_absences(self, upkeeps: dict[BrokerId, RendezvousMaintenance]) -> list[str]:
        """Whether nobody who is there is taken for away."""
        away = {
            (name, broker)
            for name, upkeep in upkeeps.items()
            for broker, known in upkeep.absences.known.items()
            if known.is_away and broker in self._overlay.brokers
        }
        return [f"{name} takes {broker} for away" for name, broker in sorted(away)]

    def _check_trees(self, planes: dict[BrokerId, ControlPlane]) -> list[str]:
        """Whether everybody is in the trees it should be in, and below whom it should be."""
        expected = expected_trees(
            {name: plane.table.own.position for name, plane in planes.items()},
            {
                name: set(routing_of(self._overlay.brokers[name].broker).subscribed)
                for name in planes
            },
        )
        problems = []
        for name, plane in planes.items():
            found = {t: p.above for t, p in plane.trees.places.items() if p.targets}
            if found != expected[name]:
                wrong = {topic for topic, _ in found.items() ^ expected[name].items()}
                problems.append(f"{name} is wrongly placed in the trees of {sorted(wrong)}")
            routing = rendezvous_of(self._overlay.brokers[name].broker)
            absences = upkeep_of(self._overlay.brokers[name].broker).absences
            needed = {*plane.trees.places, *absences.missed}
            idle = [t for t in routing.topics if t not in needed]
            if idle:
                problems.append(f"{name} takes part in {idle} wrongly")
        return problems

    def is_quiet(self) -> bool:
        for node in self._overlay.brokers.values():
            core = node.core
            if core is None or node.busy_until > self._overlay.world.now:
                return False
            if any(part.gaps.has_suspected for part in _with_gaps(core)):
                return False
            if any(self._overlay.home_of(c) != node.name for c in core.sessions.clients):
                return False  # a client that went elsewhere has yet to be forgotten here
            for session in core.sessions.clients.values():
                if session.queue_messages or session.pending:
                    return False
        # One that wakes has publications of before; others want them when they have heard of them.
        if any(upkeep.topics.stuck() for upkeep in self.staying().values()):
            return False
        is_calm = self._overlay.clients_are_quiet()
        return (
            is_calm
            and not self._overlay.leaving
            and not self._has_news()
            and not self.check_tables()
        )

    def _has_news(self) -> bool:
        """Whether a publication is under way between brokers, or a wish: what is kept goes out
        when that arrives. The ring itself never rests."""
        return any(
            isinstance(message, Publication | TopicWanted)
            for node in self._overlay.brokers.values()
            for session in node.broker.sessions.links.values()
            if session.remote in self._overlay.brokers
            for message in (*session.unacked, *session.waiting, *session.pending)
        )


ring_overlay = partial(TopicOverlay, rules=RingRules)
"""Brokers and clients of one run on a ring."""


def ring_rules(overlay: SimOverlay) -> RingRules | None:
    """The rules of an overlay, if that is one on a ring."""
    rules = overlay.rules if isinstance(overlay, TopicOverlay) else None
    return rules if isinstance(rules, RingRules) else None


def check_rings(planes: dict[BrokerId, ControlPlane]) -> list[str]:
    """How the tables of all brokers differ from the sorted ring."""
    order = sorted(planes, key=lambda name: planes[name].table.own.position)
    positions = tuple(planes[name].table.own.position for name in order)
    if len(set(positions)) < len(positions):
        return ["two brokers are at one position"]
    ring = ring_of(positions)
    problems = []
    for place, name in enumerate(order):
        table = planes[name].table
        expected = {order[f] for f in ring.fingers[place].tolist()} - {name}
        if {finger.broker for finger in table.fingers()} != expected:
            problems.append(f"{name} has wrong fingers")
        around = order[place + 1 :] + order[:place]
        if [o.broker for o in table.successors()] != around[: len(table.successors())]:
            problems.append(f"{name} has wrong successors")
        predecessor = table.predecessor()
        if (predecessor.broker if predecessor else None) != (around[-1] if around else None):
            problems.append(f"{name} has a wrong predecessor")
    return problems


def expected_trees(
    positions: dict[BrokerId, int], subscribed: dict[BrokerId, set[str]]
) -> dict[BrokerId, dict[str, BrokerId | None]]:
    """By broker: the trees it should be in, and whom it should have above it there."""
    ids = tuple(sorted(positions.values()))
    at = {position: name for name, position in positions.items()}
    trees: dict[BrokerId, dict[str, BrokerId | None]] = {name: {} for name in positions}
    for name, topics in subscribed.items():
        for topic in topics:
            root = ids[ring_of(ids).rendezvous(topic)]
            way = [at[place] for place in way_between(ids, root, positions[name])]
            trees[way[0]][topic] = None
            for above, below in pairwise(way):
                trees[below][topic] = above
    return trees


def _reached(start: BrokerId, ways: dict[BrokerId, list[BrokerId]]) -> set[BrokerId]:
    reached, todo = {start}, [start]
    while todo:
        for other in ways.get(todo.pop(), ()):
            if other not in reached:
                reached.add(other)
                todo.append(other)
    return reached


def upkeep_of(broker: Broker) -> RendezvousMaintenance:
    maintenance = broker.part(RendezvousMaintenance)
    assert maintenance is not None
    return maintenance


def _with_gaps(broker: Broker) -> list[RendezvousMaintenance | OverlayRepair]:
    """The parts of a broker that look for gaps."""
    kinds = RendezvousMaintenance | OverlayRepair
    return [part for part in broker.parts.all if isinstance(part, kinds)]


def rendezvous_of(broker: Broker) -> RendezvousRouting:
    assert isinstance(broker.routing, RendezvousRouting)
    return broker.routing
