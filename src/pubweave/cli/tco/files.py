"""What the verbs of ``pubweave tco`` read and write: subscriptions and overlays."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import click
import numpy as np

from pubweave.design.tco.interests import Indices, Subscriptions
from pubweave.model.files.subscriptions import read_subscriptions
from pubweave.model.files.topology import write_topology
from pubweave.model.ids import Link
from pubweave.model.topology import Topology

FILE = click.Path(path_type=Path)


def read_wanted(path: Path) -> Subscriptions:
    """The subscriptions in a file; clients are the nodes, in the order they first come."""
    pairs = read_subscriptions(path)
    return Subscriptions.from_pairs(pairs.clients, pairs.topics, pairs.owners, pairs.wanted)


def links_among(overlay: Topology, wanted: Subscriptions) -> Indices:
    """The links between nodes with subscriptions, by number; others connect nobody."""
    number = wanted.node_number
    pairs = [
        (number[link.a], number[link.b])
        for link in sorted(overlay.links)
        if link.a in number and link.b in number
    ]
    return np.array(pairs, np.int32).reshape(-1, 2)


def write_overlay(path: Path, nodes: Iterable[str], links: Iterable[tuple[str, str]]) -> None:
    """Node-link JSON (or GraphML by the ending), whole or not at all."""
    topology = Topology(frozenset(nodes), frozenset(Link.between(a, b) for a, b in links))
    write_topology(topology, path)


def named_links(wanted: Subscriptions, links: Indices) -> Iterable[tuple[str, str]]:
    return ((wanted.nodes[a], wanted.nodes[b]) for a, b in links.tolist())
