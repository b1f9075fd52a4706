"""Brokers of a placement cluster hear of each other through one, whoever is there."""

from __future__ import annotations

from collections import deque

import pytest

from pubweave.core.config.placement import PlacementConfig
from pubweave.core.routing.rendezvous import placement_gossip as placement_telling
from pubweave.core.routing.rendezvous.placement_gossip import PlacementGossip
from pubweave.model.messages.rendezvous import PlacementDigest, PlacementTold


class Cluster:
    """Brokers whose messages arrive at once; links and brokers can be taken away."""

    def __init__(self, size: int, update_s: float = 10.0) -> None:
        self.names = [f"b{number}" for number in range(1, size + 1)]
        self.now = 0.0
        self.cut: set[frozenset[str]] = set()
        self.loads = dict.fromkeys(self.names, 0)
        self.open = dict.fromkeys(self.names, True)
        self._post: deque[tuple[str, str, PlacementDigest]] = deque()
        self.brokers = {name: self._made(name, update_s) for name in self.names}

    def _made(self, name: str, update_s: float) -> PlacementGossip:
        members = tuple(other for other in self.names if other != name)
        config = PlacementConfig(members, update_s=update_s)
        return PlacementGossip(
            name,
            config,
            lambda to, digest: self._post.append((name, to, digest)),
            lambda: [other for other in members if self.is_linked(name, other)],
            lambda: PlacementTold(("x",), self.loads[name], name, self.open[name]),
            self.now,
        )

    def is_linked(self, a: str, b: str) -> bool:
        both = a in self.brokers and b in self.brokers
        return both and frozenset((a, b)) not in self.cut

    def run(self, seconds: float) -> int:
        """How many messages were sent meanwhile."""
        before = sum(each.messages for each in self.brokers.values())
        until = self.now + seconds
        while self.now < until:
            for broker in list(self.brokers.values()):
                broker.check(self.now)
                self._deliver()
            self.now += 0.1
        return sum(each.messages for each in self.brokers.values()) - before

    def _deliver(self) -> None:
        while self._post:
            sender, to, digest = self._post.popleft()
            if self.is_linked(sender, to):
                self.brokers[to].receive(sender, digest, self.now)

    def crash(self, name: str) -> None:
        del self.brokers[name]
        for broker in self.brokers.values():
            broker.lost(name)

    def cut_link(self, a: str, b: str) -> None:
        self.cut.add(frozenset((a, b)))
        self.brokers[a].lost(b)
        self.brokers[b].lost(a)

    def heard(self, name: str) -> dict[str, int]:
        return {other: told.subscriptions for other, told in self.brokers[name].known.items()}

    def check(self) -> None:
        """Everybody knows everybody else, as it was when it last told."""
        for name in self.brokers:
            present = {other: self.loads[other] for other in self.brokers if other != name}
            assert self.heard(name) == present


def test_everybody_knows_everybody_with_two_messages_each() -> None:
    cluster = Cluster(12)
    cluster.run(25.0)
    for number, name in enumerate(cluster.names):
        cluster.loads[name] = number
    messages = cluster.run(100.0)
    cluster.check()
    assert 9 * 2 * 11 <= messages <= 11 * 2 * 11


def test_news_are_not_older_than_an_update() -> None:
    cluster = Cluster(5)
    cluster.run(60.0)
    cluster.loads["b4"] = 7
    cluster.run(10.5)
    cluster.check()


@pytest.mark.parametrize("gone", [("b1",), ("b1", "b2"), ("b5",)])
def test_the_next_one_collects_when_others_are_gone(gone: tuple[str, ...]) -> None:
    cluster = Cluster(6)
    cluster.run(30.0)
    for name in gone:
        cluster.crash(name)
    cluster.loads["b6"] = 3
    cluster.run(21.0)
    cluster.check()


def test_without_collectors_nobody_knows_of_anybody() -> None:
    cluster = Cluster(6)
    cluster.run(30.0)
    for name in ("b1", "b2", "b3"):
        cluster.crash(name)
    cluster.run(1.0)
    assert cluster.heard("b5") == {}


def test_somebody_who_cannot_reach_the_first_is_heard_through_the_second() -> None:
    cluster = Cluster(6)
    cluster.cut_link("b5", "b1")
    cluster.loads["b5"] = 9
    cluster.run(60.0)
    cluster.check()


def test_a_broker_that_closes_is_forgotten_soon_and_one_that_comes_back_known() -> None:
    cluster = Cluster(6)
    cluster.run(30.0)
    cluster.open["b4"] = False
    cluster.brokers["b4"].check_soon()
    cluster.run(0.5)
    assert all("b4" not in cluster.heard(name) for name in cluster.names if name != "b4")
    cluster.open["b4"] = True
    cluster.brokers["b4"].restored()
    cluster.run(11.0)
    cluster.check()


def test_long_digests_come_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(placement_telling, "DIGEST_BYTES", 100)
    cluster = Cluster(5)
    assert cluster.run(30.0) > 3 * 8
    cluster.check()


def test_strangers_are_not_listened_to() -> None:
    cluster = Cluster(3)
    digest = PlacementDigest((("z", PlacementTold(("x",), 1, "z", True)),), is_last=True)
    cluster.brokers["b1"].receive("z", digest, 0.0)
    assert cluster.heard("b1") == {}
