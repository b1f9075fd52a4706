"""A topology in plain text: its shape in numbers, and a drawing of a tree."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from pubweave.model.ids import BrokerId, Link, natural_order
from pubweave.model.topology import Topology, TopologyError

DRAWN_AT_MOST = 200
SEARCHED_AT_MOST = 2000
"""Beyond this the diameter of what is no tree is left out: it takes a search from every broker."""


@dataclass(frozen=True)
class TopologySummary:
    """The shape of a topology; distances are None where they are not known or not defined."""

    broker_count: int
    link_count: int
    is_tree: bool
    component_count: int
    degrees: tuple[tuple[int, int], ...]
    leaf_count: int
    diameter_hops: int | None
    diameter_ms: float | None
    root: BrokerId | None
    depth_hops: int | None

    def as_json(self) -> dict[str, Any]:
        """The same for programs."""
        return {
            "brokers": self.broker_count,
            "links": self.link_count,
            "tree": self.is_tree,
            "components": self.component_count,
            "degrees": {str(degree): count for degree, count in self.degrees},
            "leaves": self.leaf_count,
            "diameter_hops": self.diameter_hops,
            "diameter_ms": self.diameter_ms,
            "root": self.root,
            "depth_hops": self.depth_hops,
        }


def summarize(topology: Topology, root: BrokerId | None = None) -> TopologySummary:
    """Numbers of a topology, its depth seen from a root (the first broker unless named)."""
    if root is not None and root not in topology.brokers:
        raise TopologyError(f"the root {root!r} is not among the brokers")
    chosen = root or min(topology.brokers, key=natural_order, default=None)
    connected = chosen is not None and topology.is_connected
    hops = topology.hops_from(chosen) if chosen is not None and connected else {}
    degrees = Counter(len(ends) for ends in topology.neighbors.values())
    return TopologySummary(
        broker_count=len(topology.brokers),
        link_count=len(topology.links),
        is_tree=topology.is_tree,
        component_count=len(topology.components),
        degrees=tuple(sorted(degrees.items())),
        leaf_count=len(topology.leaves),
        diameter_hops=_diameter_hops(topology, hops),
        diameter_ms=_diameter_ms(topology),
        root=chosen,
        depth_hops=max(hops.values(), default=None),
    )


def draw_tree(topology: Topology, root: BrokerId, whole: bool = False) -> Iterator[str]:
    """A tree in plain characters, a broker per line with the latency of the link to it.

    Without ``whole`` only the first 200 brokers are drawn and the rest counted.
    """
    limit = len(topology.brokers) if whole else DRAWN_AT_MOST
    # Deep trees are common (chains), so an explicit stack instead of recursion.
    stack: list[tuple[BrokerId, BrokerId | None, str, str]] = [(root, None, "", "")]
    drawn = 0
    while stack and drawn < limit:
        broker, parent, lead, below = stack.pop()
        yield f"{lead}{broker}{_latency(topology, broker, parent)}"
        drawn += 1
        children = [end for end in topology.neighbors[broker] if end != parent]
        children.sort(key=natural_order, reverse=True)
        for place, child in enumerate(children):
            last = place == 0
            stack.append(
                (
                    child,
                    broker,
                    below + ("`-- " if last else "|-- "),
                    below + ("    " if last else "|   "),
                )
            )
    if drawn < len(topology.brokers):
        yield f"... and {len(topology.brokers) - drawn} more brokers (--all draws them)"


def _latency(topology: Topology, broker: BrokerId, parent: BrokerId | None) -> str:
    known = None if parent is None else topology.latency_ms.get(Link.between(broker, parent))
    return "" if known is None else f"  {known:g} ms"


def _diameter_hops(topology: Topology, hops: dict[BrokerId, int]) -> int | None:
    if not hops:
        return None
    if topology.is_tree:
        # The broker farthest from any broker of a tree is an end of a longest path.
        return max(topology.hops_from(max(hops, key=lambda b: hops[b])).values())
    if len(topology.brokers) > SEARCHED_AT_MOST:
        return None
    return max(max(topology.hops_from(broker).values()) for broker in topology.neighbors)


def _diameter_ms(topology: Topology) -> float | None:
    """The longest latency between two brokers of a tree, if every latency is known."""
    if not topology.is_tree or any(link not in topology.latency_ms for link in topology.links):
        return None
    first = topology.ms_from(min(topology.brokers))
    farthest = max(first, key=lambda b: first[b])
    return round(max(topology.ms_from(farthest).values()), 3)
