"""Traffic by the names of its brokers."""

from __future__ import annotations

from pubweave.design.tree.traffic import Traffic


def groups_of(traffic: Traffic) -> list[tuple[tuple[str, ...], float]]:
    """The sets, each with its weight."""
    return [
        (
            tuple(traffic.brokers[m] for m in traffic.members[first:last]),
            float(traffic.weights[place]),
        )
        for place, (first, last) in enumerate(
            zip(traffic.starts[:-1], traffic.starts[1:], strict=True)
        )
    ]
