"""Low-ODA (Shadows, Algorithms 1 and 2): topic-connected overlays of low degree, from scratch.

Greedy: each time either e1, the link that joins most parts of topics, or e2, the best of those
that raise the maximum degree least; e1 only if it joins more than rho times as many. Ties go to
the smallest row, then to the smallest column, with nodes by descending number of topics. GM mode
always takes e1: the least average degree, whatever the maximum.

The choices are exactly those of the printed algorithm; `_kernels/low_oda` says how it is done
without looking at all pairs each time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

import numpy as np

from pubweave.design.tco._kernels import low_oda as kernels
from pubweave.design.tco._kernels.parts import LARGE, NO_SET, SCRATCH, Interests, Parts
from pubweave.design.tco.interests import Indices, Integers, Subscriptions, gathered

RHO = 3.0
"""The paper's choice, after Onus and Richa."""


LINKS_AT_ONCE = 2_000
"""Between two reports of progress (and looks at Ctrl-C)."""

OnShare = Callable[[float], None]
"""Hears which share of the parts of topics is joined."""


def ignore_share(share: float) -> None:
    """Who listens to no progress."""


class Mode(Enum):
    """What a link is chosen by."""

    LOW_ODA = "low-oda"
    GM = "gm"


@dataclass(frozen=True)
class Start:
    """An overlay that is there already: parts of topics by label of place, degrees, maximum."""

    labels: Indices
    degrees: Indices
    max_degree: int


def build_overlay(
    wanted: Subscriptions,
    mode: Mode = Mode.LOW_ODA,
    *,
    rho: float = RHO,
    on_progress: OnShare = ignore_share,
) -> Indices:
    """The links of a topic-connected overlay, as pairs of nodes in the order they were chosen.

    About O(n^2 |T| / 64) time for n nodes, O(places + n |T| / 8) bytes.

    >>> wanted = Subscriptions.of({"a": ["x", "y"], "b": ["y", "z"], "c": ["x", "y", "z"]})
    >>> build_overlay(wanted).tolist()
    [[2, 0], [2, 1]]
    """
    order = wanted.canonical_order()
    starts, places = gathered(wanted.starts, order)
    topics = wanted.topics[places]
    links = construct(starts, topics, wanted.topic_count, mode, rho=rho, on_progress=on_progress)
    return order[links].astype(np.int32)


def construct(
    starts: Integers,
    topics: Indices,
    topic_count: int,
    mode: Mode = Mode.LOW_ODA,
    *,
    rho: float = RHO,
    start: Start | None = None,
    on_progress: OnShare = ignore_share,
) -> Indices:
    """Algorithm 2 on rows in canonical order: the links that make every topic one part."""
    rows = len(starts) - 1
    interests = indexed(starts, topics, topic_count)
    parts = _parts(interests, topic_count, start)
    degrees = np.zeros(rows, np.int32) if start is None else start.degrees.astype(np.int32)
    room = int(np.maximum(parts.counts - 1, 0).sum())
    links = np.empty((room, 2), np.int32)
    by_degree = mode is Mode.LOW_ODA
    max_degree = 0 if start is None else start.max_degree
    building = kernels.begin(interests, parts, degrees, max_degree)
    while building.counts[1] > 0:
        kernels.construct(interests, parts, building, float(rho), by_degree, links, LINKS_AT_ONCE)
        on_progress(1 - int(building.counts[1]) / room)
    return links[: building.counts[0]].copy()


def indexed(starts: Integers, topics: Indices, topic_count: int) -> Interests:
    """Places by topic as well as by row."""
    sizes = np.diff(starts)
    owners = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
    topic_starts = np.zeros(topic_count + 1, np.int64)
    np.cumsum(np.bincount(topics, minlength=topic_count), out=topic_starts[1:])
    topic_places = np.argsort(topics, kind="stable").astype(np.int32)
    width = -(-len(sizes) // 64)
    padded = np.zeros(width * 64, np.int32)
    padded[: len(sizes)] = sizes
    reach = np.maximum.accumulate(padded.reshape(width, 64).max(axis=1, initial=0)[::-1])[::-1]
    return Interests(
        starts, topics, owners, topic_starts, topic_places, np.ascontiguousarray(reach)
    )


def _parts(interests: Interests, topic_count: int, start: Start | None) -> Parts:
    """Every place a part of its own, or the given ones; with sets where they pay."""
    places = len(interests.topics)
    width = len(interests.reach)
    subscribers = np.diff(interests.topic_starts)
    # A topic of few subscribers is quicker written down when needed than kept as a bit set.
    is_dense = subscribers * 4 >= width
    topic_sets = np.full(topic_count, NO_SET, np.int64)
    topic_sets[is_dense] = SCRATCH + np.arange(is_dense.sum())
    taken = SCRATCH + int(is_dense.sum())
    spare = places // LARGE + 1
    labels = np.arange(places, dtype=np.int32)
    ring, sizes = labels.copy(), np.ones(places, np.int32)
    if start is not None and places:
        labels = start.labels.astype(np.int32)
        ring, sizes = _rings(labels)
    heads = labels == np.arange(places)
    return Parts(
        labels,
        ring,
        sizes,
        np.bincount(interests.topics[heads], minlength=topic_count).astype(np.int32),
        np.full(places, NO_SET, np.int64),
        topic_sets,
        np.zeros((taken + spare) * width, np.uint64),
        width,
        np.concatenate([[spare], np.arange(taken, taken + spare)]).astype(np.int64),
    )


def _rings(labels: Indices) -> tuple[Indices, Indices]:
    """Rings around the places of equal label, and their sizes at the label's place."""
    order = np.argsort(labels, kind="stable")
    ordered = labels[order]
    is_last = np.append(ordered[1:] != ordered[:-1], True)
    following = np.append(order[1:], 0)
    following[is_last] = order[np.append(True, is_last[:-1])]
    ring = np.empty_like(labels)
    ring[order] = following
    return ring, np.bincount(labels, minlength=len(labels)).astype(np.int32)
