"""Large overlays by a backbone: Low-ODA on the nodes with most topics, everybody else attached.

The others come in parts that know nothing of each other; in a part nodes are attached one by one
(`attaching`), to the backbone or to each other. The backbone's nodes have a quota of links for
every part; without it each part would load the same few.
"""

from __future__ import annotations

import numpy as np

from pubweave.design.tco.divided import AttachTask, RunAll, attach_part, dealt
from pubweave.design.tco.interests import Indices, Integers, Subscriptions, gathered
from pubweave.design.tco.low_oda import (
    RHO,
    Mode,
    OnShare,
    build_overlay,
    ignore_share,
)

BACKBONE_SHARE = 0.1
LEVEL_FACTOR = 1.5
"""Attached nodes keep to this much of the backbone's maximum degree; so does its quota."""


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
