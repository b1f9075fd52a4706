"""Attaching nodes one by one to an overlay that is connected in each of its topics.

Nodes with more topics come first. Each is linked with nodes that together want its topics: of the
overlay, or attached before it. All of them are connected in all their topics, so the node is, too.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from pubweave.design.tco import _kernels_attaching as kernels
from pubweave.design.tco._kernels_bags import bags_of
from pubweave.design.tco.interests import Indices, Integers
from pubweave.design.tco.low_oda import indexed


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
