"""Proving that an overlay is topic-connected, or naming a topic and two nodes that are not.

Independent of everything that builds or mends overlays: it reads nothing but the subscriptions
and the links.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from pubweave.design.tco._kernels import verify as kernels
from pubweave.design.tco.interests import Indices, Subscriptions


@dataclass(frozen=True)
class Gap:
    """A topic with two subscribers between which there is no path of subscribers."""

    topic: str
    one: str
    other: str

    def __str__(self) -> str:
        return f"topic {self.topic!r}: no path of its subscribers from {self.one} to {self.other}"


@dataclass(frozen=True)
class ConnectivityVerdict:
    """What was found: one gap for each topic that is not connected, by topic."""

    topics: int
    gaps: tuple[Gap, ...]

    @property
    def is_connected(self) -> bool:
        return not self.gaps


def verify(wanted: Subscriptions, links: Indices) -> ConnectivityVerdict:
    """Whether each topic's subscribers are connected by links among themselves alone.

    O(subscriptions + sum over links of the topics of their ends), nearly.

    >>> wanted = Subscriptions.of({"a": ["x"], "b": ["y"], "c": ["x", "y"]})
    >>> str(verify(wanted, np.array([[0, 1], [1, 2]], np.int32)).gaps[0])
    "topic 'x': no path of its subscribers from a to c"
    """
    links = np.ascontiguousarray(links, dtype=np.int32).reshape(-1, 2)
    roots = kernels.roots_of(wanted.starts, wanted.topics, links)
    owners = np.repeat(np.arange(wanted.node_count), np.diff(wanted.starts))
    heads = np.flatnonzero(roots == np.arange(len(roots)))
    order = heads[np.argsort(wanted.topics[heads], kind="stable")]
    topics, first, parts = np.unique(wanted.topics[order], return_index=True, return_counts=True)
    gaps = tuple(
        Gap(
            wanted.topic_names[topic],
            wanted.nodes[owners[order[place]]],
            wanted.nodes[owners[order[place + 1]]],
        )
        for topic, place in zip(topics[parts > 1], first[parts > 1], strict=True)
    )
    return ConnectivityVerdict(len(topics), gaps)
