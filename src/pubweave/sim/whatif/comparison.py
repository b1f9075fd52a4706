"""Recorded traffic on two trees, side by side: what is delivered, how soon, at what cost."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from pubweave.design.tree.cost import TreeCost, tree_cost
from pubweave.design.tree.problem import DesignProblem
from pubweave.model.ids import BrokerId, Link
from pubweave.model.records.recorded_traffic import RecordedTraffic
from pubweave.model.topology import Topology, TopologyError, validate_tree
from pubweave.sim.whatif.replay import Replayed, replay

BUSIEST = 5


@dataclass(frozen=True)
class OneSide:
    """Recorded traffic on one tree in simulation, and what that costs by the profile."""

    played: Replayed
    cost: TreeCost
    busiest: tuple[tuple[BrokerId, float], ...]
    """Brokers with the most publications per second."""

    def document(self) -> dict[str, Any]:
        return {
            **asdict(self.played),
            "crossings_per_delivery": self.played.crossings_per_delivery,
            "cost_ms": self.cost.total,
            "cost_ms_per_notification": self.cost.per_notification,
            "busiest": self.busiest,
        }


def compare(
    inputs: DesignProblem, target: Topology, recorded: RecordedTraffic
) -> tuple[OneSide, OneSide]:
    """Replay traffic on the tree as it is and on a target, with the real broker core.

    TopologyError if the target is no tree of these brokers, or has a link without a price."""
    validate_tree(target)
    if target.brokers != inputs.source.brokers:
        different = min(target.brokers ^ inputs.source.brokers)
        raise TopologyError(f"broker {different!r} is not in both overlays")
    for link in sorted(target.links):
        if inputs.prices.of_link(link) == float("inf"):
            raise TopologyError(
                f"nobody knows how slow link {link} would be: give --latency FILE with "
                "round-trip times between the brokers, or --assume-latency MS"
            )
    return _played(inputs, inputs.source, recorded), _played(inputs, target, recorded)


def _played(inputs: DesignProblem, topology: Topology, recorded: RecordedTraffic) -> OneSide:
    prices = inputs.prices
    index_of = {broker: index for index, broker in enumerate(prices.brokers)}

    def latency_ms(link: Link) -> float:
        return float(prices.communication[index_of[link.a], index_of[link.b]])

    played = replay(
        topology, recorded, latency_ms=latency_ms, processing_ms=float(prices.processing.mean())
    )
    busiest = sorted(played.handled_per_s.items(), key=lambda pair: (-pair[1], index_of[pair[0]]))
    cost = tree_cost(inputs.traffic, prices, topology)
    return OneSide(played, cost, tuple(busiest[:BUSIEST]))
