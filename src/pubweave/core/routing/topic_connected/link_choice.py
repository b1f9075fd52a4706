"""Which links a broker wants, and who its backups are: the rules of Shadows on a broker's map.

Both depend on nothing but the map, so that brokers with the same map choose the same links, and
each opens its own. The shadow set of a break is made up of the neighbors and backups of those who
are gone (Algorithm 7), and of brokers alone in a topic with their backups (Algorithm 10).
"""

from __future__ import annotations

from collections.abc import Mapping

from pubweave.core.routing.topic_connected.membership_map import MAP_TOPIC, MembershipView
from pubweave.design.tco.mending_by_name import Pair, canonical, mending_links
from pubweave.model.ids import BrokerId
from pubweave.model.messages.topic_connected import BrokerRecord


def shadow_set(view: MembershipView, records: Mapping[BrokerId, BrokerRecord]) -> list[BrokerId]:
    """Among whom links are sought first; in canonical order."""
    found: set[BrokerId] = set()
    broken = set(view.pieces)
    for broker in view.gone:
        record = records[broker]
        if MAP_TOPIC in broken or not broken.isdisjoint(record.topics):
            found.update(record.links, record.backups)
    for broker in _lone(view):
        found.update((broker,), view.present[broker].backups)
    return _in_order(view, found)


def links_among(view: MembershipView, brokers: list[BrokerId], rho: float) -> list[Pair]:
    """The links that join broken topics among some brokers (Algorithm 2)."""
    among = set(brokers)
    pieces = {
        topic: {broker: label for broker, label in labels.items() if broker in among}
        for topic, labels in view.pieces.items()
    }
    degrees = {broker: len(view.neighbors[broker]) for broker in brokers}
    return mending_links(pieces, brokers, degrees, rho=rho, is_allowed=view.may_link)


def everybody_concerned(view: MembershipView) -> list[BrokerId]:
    """All who take part in a broken topic: among them there is always a way (Algorithm 4)."""
    return _in_order(view, {broker for labels in view.pieces.values() for broker in labels})


def _lone(view: MembershipView) -> set[BrokerId]:
    found: set[BrokerId] = set()
    for labels in view.pieces.values():
        sizes: dict[int, int] = {}
        for label in labels.values():
            sizes[label] = sizes.get(label, 0) + 1
        found.update(broker for broker, label in labels.items() if sizes[label] == 1)
    return found


def _in_order(view: MembershipView, brokers: set[BrokerId]) -> list[BrokerId]:
    staying = {
        broker: len(view.present[broker].topics)
        for broker in brokers
        if broker in view.present and not view.present[broker].is_leaving
    }
    return canonical(staying)


def needs_backups(view: MembershipView, own: BrokerRecord, coverage: int) -> bool:
    """Whether the backups of a broker do not do any more (Step III of Shadows).

    While something is broken, repair goes first (Step II): each change reaches everybody. Then
    only a topic counts that no backup covers at all, for repair may need one."""
    staying = [
        view.present[backup]
        for backup in own.backups
        if backup in view.present and not view.present[backup].is_leaving
    ]
    if view.is_connected and len(staying) < len(own.backups):
        return True
    enough = coverage if view.is_connected else 1
    return any(
        sum(topic in record.topics for record in staying)
        < min(enough, len(view.members.get(topic, ())) - 1)
        for topic in own.topics
    )


def choose_backups(view: MembershipView, own: BrokerRecord, coverage: int) -> tuple[BrokerId, ...]:
    """Backups of a broker: ``coverage`` covers of its topics, and of the map, that share nobody.

    Each uncovered topic in turn gets its lightest subscriber, whose weight is taken from the
    others' (Algorithm 12). The paper takes topics at random; here they come in an order of the
    broker's own, so that the same map gives the same backups. O(coverage x topics x members).
    """
    weights = _weights(view)
    backups: dict[BrokerId, None] = {}
    topics = sorted(own.topics)
    turn = sum(map(ord, own.broker)) % max(1, len(topics))
    topics = [MAP_TOPIC, *topics[turn:], *topics[:turn]]
    for _ in range(coverage):
        less = dict(weights)
        covered: set[str] = set()
        for topic in topics:
            candidates = [
                broker
                for broker in view.members.get(topic, ())
                if broker != own.broker and broker not in backups
            ]
            if topic in covered or not candidates:
                continue
            best = min(candidates, key=lambda b: (less[b], -len(view.present[b].topics), b))
            least = less[best]
            for broker in candidates:
                less[broker] -= least
            backups[best] = None
            covered.update(view.present[best].topics, (MAP_TOPIC,))
    return tuple(backups)


def _weights(view: MembershipView) -> dict[BrokerId, int]:
    """How much a broker has to do: its neighbors and those whose backup it is."""
    weights = {broker: len(view.neighbors[broker]) for broker in view.present}
    for record in view.present.values():
        for backup in record.backups:
            if backup in weights:
                weights[backup] += 1
    return weights
