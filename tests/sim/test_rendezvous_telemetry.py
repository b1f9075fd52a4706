"""What telemetry shows of a ring: every broker that a publication passed, relays included."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pubweave.design.dynatops.mapping.ring import key_of
from pubweave.model.ids import BrokerId
from pubweave.model.publications import Publication
from pubweave.model.telemetry import Records
from pubweave.sim.kernel.faults import QUIET
from pubweave.sim.kernel.world import World
from pubweave.sim.overlays.rendezvous import expected_trees, upkeep_of
from pubweave.sim.overlays.topic_connected import routing_of
from pubweave.sim.parts.run import Options
from pubweave.sim.scenarios.topics import draw_churn, ring_run

BURST = 20


class CalmRing:
    """Brokers that nothing happens to; what is published at rest is remembered."""

    def __init__(self, seed: int) -> None:
        self.seen: dict[tuple[str, int], set[BrokerId]] = {}
        """By publication: the brokers that have recorded it."""
        self.published: list[tuple[Publication, BrokerId]] = []
        self.world = World(seed)
        options = Options(max_brokers=12, on_telemetry=self._take)
        setting = replace(
            draw_churn(self.world, options), faults=QUIET, churn_per_round=0, actions_per_round=0
        )
        self.run, self._churn, _ = ring_run("calm", self.world, options, setting)
        self.overlay = self._churn.overlay
        self.run.compose(self._churn.clients, self._churn)
        self.run.rounds = [lambda: self.world.run_until(self.world.now + 4.0)]

    def _take(self, broker: str, records: Records, matching_s: float) -> None:
        for row in (*records.get("hops", ()), *records.get("publications", ())):
            publisher = next(n for n, value in enumerate(row) if str(value).startswith("k"))
            self.seen.setdefault((row[publisher], row[publisher + 1]), set()).add(broker)

    def publish_at_rest(self) -> None:
        publishers = [c for c in self.overlay.clients.values() if c.core.advertisements]
        for number in range(BURST if publishers else 0):
            client = publishers[number % len(publishers)]
            offered = next(iter(client.core.advertisements.values()))
            content = self._churn.clients.draw_content(self.world, offered)
            assert content is not None
            publication = client.core.publish(*content, b"", self.world.now)
            client.flush()
            self.published.append((publication, client.home.name))
        self.world.run_until(self.world.now + 2.0)

    def passed(self, topic: str, start: BrokerId) -> set[BrokerId]:
        """The topic's tree, and the ways to its rendezvous of the publisher's broker and of all in
        the tree that may publish, too: what they get they offer there again."""
        planes = {name: upkeep_of(b.broker).plane for name, b in self.overlay.brokers.items()}
        routings = {name: routing_of(b.broker) for name, b in self.overlay.brokers.items()}
        trees = expected_trees(
            {name: plane.table.own.position for name, plane in planes.items()},
            {name: set(routing.subscribed) for name, routing in routings.items()},
        )
        tree = {name for name, places in trees.items() if topic in places}
        passed = set(tree)
        for here in {start, *(name for name in tree if topic in routings[name].advertised)}:
            passed.add(here)
            while (hop := planes[here].table.next_hop(key_of(topic))) is not None:
                here = hop.broker
                passed.add(here)
        return passed


@pytest.mark.parametrize("seed", [0, 6])
def test_every_broker_that_a_publication_passes_records_it(seed: int) -> None:
    ring = CalmRing(seed)
    assert not ring.run.run().violations
    ring.publish_at_rest()
    assert ring.published
    relayed = 0
    for publication, broker in ring.published:
        expected = ring.passed(publication.topic, broker)
        assert ring.seen[publication.key] == expected
        subscribed = {
            name
            for name, node in ring.overlay.brokers.items()
            if publication.topic in routing_of(node.broker).subscribed
        }
        relayed += len(expected - subscribed - {broker})
    assert relayed, "no relays: the test shows nothing"
