"""Where the brokers go in a picture of a tree, or of a tree on its way to another.

`radial_layout` puts one tree on rings around its centre. `settled_layout` lets the links of
several topologies pull on the brokers at once (stress majorization: every pair wants to be as far
apart as it has hops between it), so that the links of all of them come out short. Both are without
chance: the same topologies always look the same.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from pubweave.model.ids import BrokerId, Link, natural_order
from pubweave.model.topology import Topology

Positions = dict[BrokerId, tuple[float, float]]
_Floats = npt.NDArray[np.float64]

_SETTLED_UP_TO = 300
_ROUNDS = 150
_BEND = (0.9, 0.35)
_DECIMALS = 4
_GAP_MAX, _GAP_SHARE = 0.25, 1.15
_SPACING_ROUNDS = 60
_STRETCH_MAX = 1.6


def settled_layout(topologies: Sequence[Topology], start: Positions | None = None) -> Positions:
    """Places within [-1, 1] for the brokers of all the topologies, the first one a tree.

    From the places of ``start``, where given, everybody goes only as far as the links pull."""
    links = frozenset[Link]().union(*(topology.links for topology in topologies))
    brokers = frozenset[BrokerId]().union(*(topology.brokers for topology in topologies))
    whole = Topology(brokers, links)
    begin = _with_latecomers(start or radial_layout(topologies[0]), whole)
    names = sorted(whole.brokers, key=natural_order)
    places = np.array([begin[name] for name in names])
    if len(names) > 2 and start is None:
        places = _bent(places)
    if 2 < len(names) <= _SETTLED_UP_TO:
        places = _majorized(places, _hops(whole, names))
        places = _spaced(_fitted(places))
    return {
        name: (float(x), float(y))
        for name, (x, y) in zip(names, _fitted(places).tolist(), strict=True)
    }


def radial_layout(tree: Topology) -> Positions:
    """Rings around the tree's centre; each subtree gets an angle in proportion to its leaves."""
    root = centre_of(tree)
    parent = {root: root}
    order = [root]
    for broker in order:
        for neighbor in sorted(tree.neighbors[broker], key=natural_order):
            if neighbor not in parent:
                parent[neighbor] = broker
                order.append(neighbor)
    leaves = _leaf_counts(order, parent)
    depth = {root: 0}
    for broker in order[1:]:
        depth[broker] = depth[parent[broker]] + 1
    rings = max(1, *depth.values())
    start: dict[BrokerId, float] = {root: 0.0}
    filled: dict[BrokerId, float] = {}
    positions: Positions = {root: (0.0, 0.0)}
    share = 2 * math.pi / leaves[root]
    for broker in order[1:]:
        above = parent[broker]
        start[broker] = filled.get(above, start[above])
        filled[above] = start[broker] + leaves[broker] * share
        angle = start[broker] + leaves[broker] * share / 2
        radius = depth[broker] / rings
        positions[broker] = (radius * math.cos(angle), radius * math.sin(angle))
    return positions


def centre_of(tree: Topology) -> BrokerId:
    """The middle broker of a longest path."""
    start = max(tree.hops_from(min(tree.brokers)).items(), key=_by_hops)[0]
    end = max(tree.hops_from(start).items(), key=_by_hops)[0]
    way = tree.path(start, end)
    return way[len(way) // 2]


def _by_hops(entry: tuple[BrokerId, int]) -> tuple[int, BrokerId]:
    return entry[1], entry[0]


def _leaf_counts(order: list[BrokerId], parent: Mapping[BrokerId, BrokerId]) -> dict[BrokerId, int]:
    counts = dict.fromkeys(order, 0)
    for broker in reversed(order):
        counts[broker] = max(1, counts[broker])
        if parent[broker] != broker:
            counts[parent[broker]] += counts[broker]
    return counts


def _with_latecomers(positions: Positions, whole: Topology) -> Positions:
    """Brokers that come later start beside a neighbor, farther out."""
    placed = dict(positions)
    waiting = sorted(whole.brokers - placed.keys(), key=natural_order)
    while waiting:
        broker = next(
            (b for b in waiting if any(end in placed for end in whole.neighbors[b])), waiting[0]
        )
        near = [placed[end] for end in whole.neighbors[broker] if end in placed]
        x, y = near[0] if near else (1.0, 1.0)
        angle = math.atan2(y, x) + 0.3 * len(placed)
        placed[broker] = (x + 0.3 * math.cos(angle), y + 0.3 * math.sin(angle))
        waiting.remove(broker)
    return placed


def _bent(places: _Floats) -> _Floats:
    """Blown to one side, the more the farther out: a chain is a bow instead of a line."""
    out = (places**2).sum(axis=1)
    bent: _Floats = places + out[:, None] * np.array(_BEND)
    return bent


def _hops(whole: Topology, names: Sequence[BrokerId]) -> _Floats:
    hops = np.empty((len(names), len(names)))
    for row, name in enumerate(names):
        known = whole.hops_from(name)
        hops[row] = [known.get(other, len(names)) for other in names]
    return hops


def _majorized(places: _Floats, hops: _Floats) -> _Floats:
    """Lower the stress, the sum of (distance / hops - 1)^2 over all pairs, round by round."""
    count = len(places)
    apart = ~np.eye(count, dtype=np.bool_)
    weight = np.zeros_like(hops)
    weight[apart] = hops[apart] ** -2.0
    laplacian = np.diag(weight.sum(axis=1)) - weight
    inverse = np.linalg.pinv(laplacian)
    # Start at the right size: a bow that is far too small would be pulled straight at once.
    places = places * (hops.max() / 2)
    for _ in range(_ROUNDS):
        distance = np.linalg.norm(places[:, None] - places[None, :], axis=2)
        ratio = np.zeros_like(hops)
        np.divide(weight * hops, distance, out=ratio, where=apart & (distance > 1e-9))
        pull = np.diag(ratio.sum(axis=1)) - ratio
        places = inverse @ (pull @ places)
    return places


def _spaced(places: _Floats) -> _Floats:
    """Pairs that are too near for two marks with a gap are pushed apart, round by round."""
    least = min(_GAP_MAX, _GAP_SHARE / math.sqrt(len(places)))
    for _ in range(_SPACING_ROUNDS):
        way = places[:, None] - places[None, :]
        distance = np.linalg.norm(way, axis=2)
        np.fill_diagonal(distance, least)
        # Where two lie on one spot the direction is by their numbers.
        lost = distance < 1e-6
        way[lost] = [least, 0.0]
        way[np.tril(lost)] *= -1.0
        distance[lost] = least / 2
        push = np.clip(least - distance, 0.0, None) / distance / 2
        if not push.any():
            break
        places = places + (way * push[:, :, None]).sum(axis=1)
    return places


def _fitted(places: _Floats) -> _Floats:
    """Moved and scaled into [-1, 1]; rounded, so that no library's last bits show.

    The narrower side is stretched somewhat: pictures are square."""
    low, high = places.min(axis=0), places.max(axis=0)
    scale = 2 / np.maximum(high - low, 1e-9)
    scale = np.minimum(scale, _STRETCH_MAX * scale.min())
    if scale.min() > 1e8:
        return np.zeros_like(places)
    fitted: _Floats = np.round((places - (low + high) / 2) * scale, _DECIMALS) + 0.0
    return fitted
