"""Random churn: nodes that join with topics like everybody else's, nodes that leave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from pubweave.design.tco.changes import Change, Join, Leave
from pubweave.design.tco.interests import Subscriptions

JOINED = "joined-"


def random_rounds(
    wanted: Subscriptions, joins: int, leaves: int, rng: np.random.Generator
) -> Iterator[Change]:
    """So many joins and leaves in random order; who leaves is drawn from those who are there.

    A joining node has as many topics as a random node of ``wanted``, drawn by how many want them.
    A leave is left out when nobody is there.
    """
    present = list(wanted.nodes)
    names = set(present)
    popularity = np.bincount(wanted.topics, minlength=wanted.topic_count).astype(np.float64)
    is_join = rng.permutation(np.repeat([True, False], [joins, leaves]))
    number = 0
    for joins_now in is_join.tolist():
        if joins_now:
            number += 1
            while f"{JOINED}{number}" in names:
                number += 1
            name = f"{JOINED}{number}"
            size = int(wanted.sizes[rng.integers(wanted.node_count)])
            present.append(name)
            yield Join(name, _drawn(wanted.topic_names, popularity, size, rng))
        elif present:
            place = int(rng.integers(len(present)))
            present[place], present[-1] = present[-1], present[place]
            yield Leave(present.pop())


def _drawn(
    names: Sequence[str], weights: npt.NDArray[np.float64], size: int, rng: np.random.Generator
) -> tuple[str, ...]:
    """Topics without replacement: the first of exponential times with these rates."""
    times = rng.standard_exponential(len(weights)) / np.maximum(weights, 1e-9)
    chosen = np.sort(np.argpartition(times, size - 1)[:size]) if size else np.zeros(0, np.int64)
    return tuple(names[topic] for topic in chosen.tolist())
