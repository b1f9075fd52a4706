"""Message level and flow level agree: what brokers count is what the cost model works out."""

from __future__ import annotations

import numpy as np
import pytest

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.session import SessionLimits
from pubweave.design.tree.cost import tree_cost
from pubweave.design.tree.traffic import Prices, Traffic
from pubweave.generate.topologies.trees import random_tree
from pubweave.model.filters.filter import Filter, Operator, Predicate
from pubweave.model.ids import BrokerId
from pubweave.model.publications import TOPIC_ATTRIBUTE
from pubweave.sim.kernel.nodes import HandlingTime
from pubweave.sim.kernel.world import World
from pubweave.sim.overlays.tree import TreeOverlay
from pubweave.sim.parts.organizing import DeliveryCosts

TOPICS = 6
PUBLICATIONS = 120


def about(topic: int) -> Filter:
    return Filter((Predicate(TOPIC_ATTRIBUTE, Operator.EQ, f"t{topic}"),))


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_notification_passes_the_brokers_and_links_of_its_delivery_tree(seed: int) -> None:
    rng = np.random.default_rng(seed)
    topology = random_tree(9, rng)
    brokers = sorted(topology.brokers)
    world = World(seed)
    overlay = TreeOverlay(
        world, topology, make_config=BrokerConfig, handling=HandlingTime(0.0, 0.0)
    )
    interests: list[tuple[BrokerId, ...]] = []
    for topic in range(TOPICS):
        home, *others = (brokers[place] for place in rng.choice(9, size=4, replace=False))
        interests.append((home, *others))
        overlay.join(f"p{topic}", home, latency_s=0.001, limits=SessionLimits())
        overlay.clients[f"p{topic}"].core.advertise(about(topic))
        for place, other in enumerate(others):
            overlay.join(f"s{topic}.{place}", other, latency_s=0.001, limits=SessionLimits())
            overlay.subscribe(overlay.clients[f"s{topic}.{place}"], about(topic))
    for client in overlay.clients.values():
        client.flush()
    assert overlay.run_until_quiet(60.0)
    published = rng.integers(TOPICS, size=PUBLICATIONS).tolist()
    for topic in published:
        overlay.publish(overlay.clients[f"p{topic}"], f"t{topic}", {})
    assert overlay.run_until_quiet(60.0)

    sets = [interests[topic] for topic in published]
    counters = {name: node.broker.counters for name, node in overlay.brokers.items()}
    handled = sum(c.publications_in for c in counters.values())
    crossed = handled - sum(c.publications_accepted for c in counters.values())
    flow = tree_cost(
        Traffic.of(brokers, [(members, 1.0) for members in sets]),
        Prices.of(dict.fromkeys(brokers, 3.0), dict.fromkeys(topology.links, 5.0)),
        topology,
    )
    assert flow.processing == pytest.approx(3.0 * handled)
    assert flow.communication == pytest.approx(5.0 * crossed)
    assert flow.broker_load == {
        name: pytest.approx(counted.publications_in) for name, counted in counters.items()
    }
    # And both are the paper's equations, word for word.
    costs = DeliveryCosts(lambda broker: 3.0, lambda link: 5.0)
    assert costs.of_all(topology, sets) == pytest.approx(flow.total)
