"""Paths up a delivery tree, one link after the other."""

from __future__ import annotations

from collections.abc import Mapping

Parents = Mapping[str, tuple[str, float]]
"""By broker: who it got publications from, and what that link costs."""


def paths_up(root: str, parents: Parents) -> dict[str, tuple[float, list[str]]]:
    """By broker that is connected to the root: the delay, and the brokers up to the root."""
    found: dict[str, tuple[float, list[str]]] = {root: (0.0, [])}
    for broker in parents:
        at, delay_ms, path = broker, 0.0, list[str]()
        while at in parents and at != root and at not in path:
            path.append(at)
            at, cost_ms = parents[at]
            delay_ms += cost_ms
        if at == root:
            found[broker] = delay_ms, path
    return found
