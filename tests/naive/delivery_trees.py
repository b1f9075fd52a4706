"""Delivery trees by definition: how one notification goes through a tree, broker by broker."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Neighbors = Mapping[str, Sequence[str]]


@dataclass(frozen=True)
class Passage:
    """One broker's part in a delivery."""

    broker: str
    came_from: str | None
    """A neighbor; None: the publisher is a client here."""
    went_to: tuple[str, ...]
    is_wanted: bool
    """A client here consumes it."""


def delivery(neighbors: Neighbors, home: str, wanted: frozenset[str]) -> list[Passage]:
    """What each broker does that a notification passes, the publisher's broker first."""
    passages: list[Passage] = []

    def is_behind(broker: str, before: str) -> bool:
        """Whether somebody wants it at a broker or beyond, seen from another."""
        return broker in wanted or any(
            is_behind(n, broker) for n in neighbors[broker] if n != before
        )

    def pass_by(broker: str, before: str | None) -> None:
        onward = tuple(n for n in neighbors[broker] if n != before and is_behind(n, broker))
        passages.append(Passage(broker, before, onward, broker in wanted))
        for neighbor in onward:
            pass_by(neighbor, broker)

    pass_by(home, None)
    return passages


def way(neighbors: Neighbors, start: str, end: str, before: str = "") -> list[str]:
    """The brokers between two, both included; empty if the end is not beyond."""
    if start == end:
        return [end]
    for neighbor in neighbors[start]:
        if neighbor != before and (rest := way(neighbors, neighbor, end, start)):
            return [start, *rest]
    return []
