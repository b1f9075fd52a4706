"""What a run of the scenario `churn` is like, drawn from its seed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pubweave.core.config.session import SessionLimits
from pubweave.core.config.topic_connected import TopicConfig
from pubweave.design.tco.mending_by_name import canonical, mending_links
from pubweave.model.ids import BrokerId, Link
from pubweave.model.topology import Topology
from pubweave.sim.kernel.faults import FaultRates
from pubweave.sim.kernel.nodes import HandlingTime
from pubweave.sim.kernel.world import World

FAULTS = ("none", "connections", "cuts", "pauses", "all")


@dataclass(frozen=True)
class ChurnSetting:
    """Brokers, the topics their first clients will want, and what happens to them."""

    topology: Topology
    interests: dict[BrokerId, tuple[str, ...]]
    topics: tuple[str, ...]
    limits: SessionLimits
    handling: HandlingTime
    faults: FaultRates
    fault: str
    config: TopicConfig
    covering: bool
    clients: int
    rounds: int
    round_s: float
    actions_per_round: int
    churn_per_round: int
    tells_refusals: bool = False
    """Brokers die alone, and not with their machines."""

    @classmethod
    def draw(cls, world: World, max_brokers: int, fault: str | None) -> ChurnSetting:
        count = world.integer(2, max_brokers)
        topics = tuple(f"t{number}" for number in range(world.integer(1, 12)))
        interests = {
            f"b{number}": tuple(t for t in topics if world.chance(0.35))
            for number in range(1, count + 1)
        }
        window_bytes = int(world.choice([1 << 20, 1 << 13, 4000]))
        chosen = fault or world.choice(list(FAULTS))
        return cls(
            topology=connected_topology(interests),
            interests=interests,
            topics=topics,
            limits=SessionLimits(window_bytes, 5 * window_bytes, window_bytes),
            handling=HandlingTime(world.uniform(0, 0.0005), world.uniform(0, 0.001)),
            faults=_rates(world, chosen),
            fault=chosen,
            config=TopicConfig(start_limit_s=2.0, forget_after_s=90.0),
            covering=False,
            clients=0,
            rounds=2,
            round_s=world.uniform(3.0, 6.0),
            actions_per_round=world.integer(30, 90),
            churn_per_round=world.integer(2, 8),
            tells_refusals=world.chance(0.6),
        )

    def describe(self) -> dict[str, Any]:
        return {
            "brokers": len(self.interests),
            "topics": len(self.topics),
            "window_bytes": self.limits.window_bytes,
            "fault": self.fault,
            "churn_per_round": self.churn_per_round,
            "tells_refusals": self.tells_refusals,
        }


def _rates(world: World, fault: str) -> FaultRates:
    has = {name: fault in (name, "all") for name in FAULTS}
    return FaultRates(
        connection_drop_per_s=world.uniform(0.2, 2.0) if has["connections"] else 0.0,
        delay_spike_per_s=0.2 if has["connections"] else 0.0,
        partition_per_s=0.3 if has["cuts"] else 0.0,
        broker_pause_per_s=0.2 if has["pauses"] else 0.0,
    )


def connected_topology(interests: dict[BrokerId, tuple[str, ...]]) -> Topology:
    """A topic-connected overlay, in one piece as a whole, too (Low-ODA on few brokers)."""
    order = canonical({broker: len(topics) for broker, topics in interests.items()})
    members: dict[str, list[BrokerId]] = {"": order}
    for broker in order:
        for topic in interests[broker]:
            members.setdefault(topic, []).append(broker)
    pieces = {t: {b: place for place, b in enumerate(brokers)} for t, brokers in members.items()}
    pairs = mending_links(pieces, order, dict.fromkeys(order, 0))
    return Topology(frozenset(order), frozenset(Link.between(a, b) for a, b in pairs))
