"""Subscriptions in a topic-connected overlay while nothing breaks: are they acknowledged too early?

Under churn nobody can say of an acknowledgement whether it comes too early: what has just broken
may not be known to the broker yet. At rest it can be said of each. A broker joins, and clients
subscribe, mostly to topics that are new to their brokers; `ChurnOverlay.acknowledged` holds every
acknowledgement against the truth of that instant.
"""

from __future__ import annotations

from pubweave.model.filters import Filter, Operator, Predicate
from pubweave.model.publications import TOPIC_ATTRIBUTE
from pubweave.sim.churn_overlay import CALM_S, SETTLED_S
from pubweave.sim.nodes import SimClient
from pubweave.sim.topic_overlay import TopicOverlay

ASKED = 8


def ask_at_rest(overlay: TopicOverlay, topics: tuple[str, ...]) -> None:
    """Let clients subscribe, one after the other or nearly at once."""
    world = overlay.world
    world.run_until(world.now + CALM_S)
    for _ in range(ASKED):
        if overlay.clients:
            _subscribe(overlay, overlay.clients[world.choice(list(overlay.clients))], topics)
        world.run_until(world.now + (world.uniform(0.0, SETTLED_S) if world.chance(0.7) else 0.0))


def _subscribe(overlay: TopicOverlay, client: SimClient, topics: tuple[str, ...]) -> None:
    wanted = overlay.wanted_topics()
    fresh = [t for t in topics if client.home.name not in wanted.get(t, ())]
    topic = overlay.world.choice(fresh or list(topics))
    filter_ = Filter((Predicate(TOPIC_ATTRIBUTE, Operator.EQ, topic),))
    overlay.checker.subscribed(client.name, client.core.subscribe(filter_), filter_)
    client.flush()
