"""Large overlays by a backbone: Low-ODA on the nodes with most topics, everybody else attached.

The others come in parts that know nothing of each other. In a part each node, those with more
topics first, is linked with nodes that together want its topics: of the backbone, or attached
before it in the same part. All of them are connected in all their topics, so the node is, too.
The backbone's nodes have a quota of links for every part; without it each part would load the
same few.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pubweave.design.tco import _kernels_attaching as kernels
from pubweave.design.tco._kernels_bags import bags_of
from pubweave.design.tco.divided import RunAll, dealt
from pubweave.design.tco.interests import Indices, Integers, Subscriptions, gathered
from pubweave.design.tco.low_oda import (
    RHO,
    Mode,
    OnShare,
    build_overlay,
    ignore_share,
    indexed,
)

BACKBONE_SHARE = 0.1
LEVEL_FACTOR = 1.5
"""Attached nodes keep to this much of the backbone's maximum degree; so does its quota."""


class AttachTask(NamedTuple):
    """The backbone's rows first, then a part's; ``rooms`` is how many links each may get."""

    starts: Integers
    topics: Indices
    topic_count: int
    first: int
    rooms: Indices


def attach_part(task: AttachTask) -> Indices:
    """The links of one part with the backbone and in itself, as pairs of rows."""
    backbone = indexed(
        task.starts[: task.first + 1], task.topics[: task.starts[task.first]], task.topic_count
    )
    nodes_of = bags_of(backbone.topic_starts, backbone.owners[backbone.topic_places])
    links = np.empty((len(task.topics) - int(task.starts[task.first]), 2), np.int32)
    count = kernels.attach_all(
        task.starts, task.topics, task.first, task.rooms.copy(), nodes_of, links
    )
    return links[:count].copy()


def build_attached(
    wanted: Subscriptions,
    part_size: int,
    run_all: RunAll[AttachTask],
    mode: Mode = Mode.LOW_ODA,
    *,
    rho: float = RHO,
    on_progress: OnShare = ignore_share,
) -> Indices:
    """The links of a topic-connected overlay; parts of at most this size, the backbone as well."""
    backbone, others = _backbone(wanted, part_size)
    own = build_overlay(wanted.taken(backbone), mode, rho=rho)
    links = [backbone[own].astype(np.int32)]
    on_progress(0.3)
    if not len(others):
        return links[0]
    parts = dealt(others, max(1, -(-len(others) // part_size)))
    degrees = np.bincount(own.ravel(), minlength=len(backbone))
    level = int(np.ceil(LEVEL_FACTOR * degrees.max(initial=1)))
    quota = -(-np.maximum(level - degrees, 0) // len(parts))
    rows = [np.concatenate([backbone, part]) for part in parts]
    tasks = []
    for part, each in zip(parts, rows, strict=True):
        starts, places = gathered(wanted.starts, each)
        rooms = np.concatenate([quota, np.full(len(part), level)]).astype(np.int32)
        task = AttachTask(starts, wanted.topics[places], wanted.topic_count, len(backbone), rooms)
        tasks.append(task)
    for each, found in zip(rows, run_all(attach_part, tasks), strict=True):
        links.append(each[found].astype(np.int32))
    return np.concatenate(links)


def _backbone(wanted: Subscriptions, part_size: int) -> tuple[Integers, Integers]:
    """The nodes with most topics, and one subscriber of each topic that none of them wants."""
    order = wanted.canonical_order()
    size = min(part_size, max(1, int(BACKBONE_SHARE * wanted.node_count)))
    is_in = np.zeros(wanted.node_count, np.bool_)
    is_in[order[:size]] = True
    owners = np.repeat(np.arange(wanted.node_count), wanted.sizes)
    is_covered = np.zeros(wanted.topic_count, np.bool_)
    is_covered[wanted.topics[is_in[owners]]] = True
    missing = ~is_covered[wanted.topics]
    _, first = np.unique(wanted.topics[missing], return_index=True)
    is_in[owners[missing][first]] = True
    return order[is_in[order]], order[~is_in[order]]
