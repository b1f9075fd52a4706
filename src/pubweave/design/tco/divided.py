"""Large overlays from parts: Low-ODA on each part, then links between representatives.

Divide and conquer as in Chen, Jacobsen and Vitenberg: nodes are dealt to parts, so that all have
alike nodes. In every part some nodes stand for all: they cover each of its topics several times,
by covers that share no node. Low-ODA on the representatives alone, starting from parts that are
connected in themselves, connects the rest. Parts know nothing of each other and run anywhere.

Beyond that paper: the smallest nodes of a part are attached one by one (`attaching`). What makes
parts worse than the whole is not the joining, which takes a few hundred links, but that a node
finds fewer others with many of its topics. A small node that is attached last needs fewer links:
the others are connected by then. (Parts by like interests were tried, and are much worse.)
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

import numpy as np

from pubweave.design.tco._kernels import mending as kernels
from pubweave.design.tco._kernels.rows import bags_of
from pubweave.design.tco.interests import Indices, Integers, Subscriptions, gathered
from pubweave.design.tco.low_oda import (
    RHO,
    Mode,
    OnShare,
    Start,
    build_overlay,
    construct,
    ignore_share,
    indexed,
)

COVERS = 3
"""How often representatives cover a topic of their part."""
ATTACHED_SHARE = 0.3
"""Of a part: its smallest nodes."""


class PartTask(NamedTuple):
    """Nodes of a part in canonical order, their topics, and how to build; the rows from ``first``
    on are attached."""

    starts: Integers
    topics: Indices
    topic_count: int
    mode: str
    rho: float
    first: int


Task = TypeVar("Task")
RunAll = Callable[[Callable[[Task], Indices], Sequence[Task]], Iterable[Indices]]
"""Runs a function on every task, anywhere and in any order; results in the tasks' order."""


def build_part(task: PartTask) -> Indices:
    """The links of one part, as pairs of its rows. Attached nodes keep to the degree of others."""
    starts, topics, first = task.starts, task.topics, task.first
    built = construct(
        starts[: first + 1],
        topics[: starts[first]],
        task.topic_count,
        Mode(task.mode),
        rho=task.rho,
    )
    degrees = np.zeros(len(starts) - 1, np.int32)
    degrees[:first] = np.bincount(built.ravel(), minlength=first)
    rooms = degrees.max(initial=1) - degrees
    attached = attach_part(AttachTask(starts, topics, task.topic_count, first, rooms))
    return np.concatenate([built, attached])


def dealt(order: Integers, parts: int) -> list[Integers]:
    """Nodes in canonical order dealt like cards, so that every part has large and small ones.

    >>> [part.tolist() for part in dealt(np.array([4, 2, 0, 1, 3]), 2)]
    [[4, 0, 3], [2, 1]]
    """
    return [order[first::parts] for first in range(parts)]


def build_divided(
    wanted: Subscriptions,
    part_size: int,
    run_all: RunAll[PartTask],
    mode: Mode = Mode.LOW_ODA,
    *,
    rho: float = RHO,
    covers: int = COVERS,
    attached_share: float = ATTACHED_SHARE,
    on_progress: OnShare = ignore_share,
) -> Indices:
    """The links of a topic-connected overlay, built in parts of at most this size."""
    count = max(1, -(-wanted.node_count // part_size))
    share = attached_share if count > 1 else 0.0
    parts = dealt(wanted.canonical_order(), count)
    tasks = []
    for part in parts:
        starts, places = gathered(wanted.starts, part)
        first = len(part) - int(share * len(part))
        tasks.append(
            PartTask(starts, wanted.topics[places], wanted.topic_count, mode.value, rho, first)
        )
    found = [
        part[links].astype(np.int32)
        for part, links in zip(parts, run_all(build_part, tasks), strict=True)
    ]
    links = np.concatenate(found)
    if count == 1:
        return links
    on_progress(0.9)
    degrees = np.bincount(links.ravel(), minlength=wanted.node_count)
    chosen = [representatives(wanted, part, degrees, covers) for part in parts]
    joining = _joining_links(wanted, chosen, degrees, mode, rho)
    return np.concatenate([links, joining])


def representatives(
    wanted: Subscriptions, part: Integers, degrees: Integers, covers: int
) -> Integers:
    """Nodes of a part that cover each of its topics so often, where it has so many subscribers.

    Greedy by size: nodes with most topics first, of equal size those with fewer links; a node is
    taken if a topic of this cover still lacks it. O(places) for each cover.
    """
    order = part[np.lexsort((degrees[part], -wanted.sizes[part]))]
    is_left = np.ones(len(order), np.bool_)
    found = []
    for _ in range(covers):
        is_covered = np.zeros(wanted.topic_count, np.bool_)
        for place in np.flatnonzero(is_left):
            topics = wanted.topics_of(order[place])
            if not is_covered[topics].all():
                is_covered[topics] = True
                is_left[place] = False
                found.append(order[place])
    return np.array(found, np.int64)


def _joining_links(
    wanted: Subscriptions, chosen: Sequence[Integers], degrees: Integers, mode: Mode, rho: float
) -> Indices:
    """Low-ODA on the representatives, where each part is connected in each of its topics."""
    nodes = np.concatenate(chosen)
    part_of = np.repeat(np.arange(len(chosen)), [len(each) for each in chosen])
    order = np.lexsort((nodes, -wanted.sizes[nodes]))
    nodes, part_of = nodes[order], part_of[order]
    starts, places = gathered(wanted.starts, nodes)
    topics = wanted.topics[places]
    keys = np.repeat(part_of, np.diff(starts)) * wanted.topic_count + topics
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    labels = first[inverse].astype(np.int32)
    start = Start(labels, degrees[nodes].astype(np.int32), int(degrees.max(initial=0)))
    links = construct(starts, topics, wanted.topic_count, mode, rho=rho, start=start)
    return nodes[links].astype(np.int32)


# Attaching nodes one by one to an overlay that is connected in each of its topics.
#
# Nodes with more topics come first. Each is linked with nodes that together want its topics: of
# the overlay, or attached before it. All of them are connected in all their topics, so the node
# is, too.


class AttachTask(NamedTuple):
    """The overlay's rows first, then those to attach; ``rooms`` is how many links each may get."""

    starts: Integers
    topics: Indices
    topic_count: int
    first: int
    rooms: Indices


def attach_part(task: AttachTask) -> Indices:
    """The links of the rows from ``first`` on, as pairs of rows.

    O(sum over these rows of the subscribers of their topics).
    """
    overlay = indexed(
        task.starts[: task.first + 1], task.topics[: task.starts[task.first]], task.topic_count
    )
    nodes_of = bags_of(overlay.topic_starts, overlay.owners[overlay.topic_places])
    links = np.empty((len(task.topics) - int(task.starts[task.first]), 2), np.int32)
    count = kernels.attach_all(
        task.starts, task.topics, task.first, task.rooms.copy(), nodes_of, links
    )
    return links[:count].copy()


# Large overlays by a backbone: Low-ODA on the nodes with most topics, everybody else attached.
#
# The others come in parts that know nothing of each other; in a part nodes are attached one by one
# (`attaching`), to the backbone or to each other. The backbone's nodes have a quota of links for
# every part; without it each part would load the same few.


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
