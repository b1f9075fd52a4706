"""Random churn: nodes that join with topics like everybody else's, nodes that leave."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import Enum

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


# Subscriptions as in the evaluation of Shadows: how many topics a node wants, and which.
#
# The number of topics follows a power law on [10, 90]; with exponent 2 the overlays have as many
# links as the paper's. A topic's popularity is uniform, Zipf's (alpha = 2) or exponential (scale
# |T| / 5); a node draws its topics one after the other, none twice.


SIZES = (10, 90)
SIZE_EXPONENT = 2.0
ZIPF_ALPHA = 2.0
EXPONENTIAL_SCALE = 0.2
_ROWS_AT_ONCE = 20_000


class Popularity(Enum):
    """How the topics' popularity is distributed."""

    UNIFORM = "uniform"
    ZIPF = "zipf"
    EXPONENTIAL = "exponential"

    def shares(self, topics: int) -> npt.NDArray[np.float64]:
        """The probability of each topic, the most popular first."""
        rank = np.arange(1, topics + 1, dtype=np.float64)
        if self is Popularity.UNIFORM:
            weights = np.ones(topics)
        elif self is Popularity.ZIPF:
            weights = rank**-ZIPF_ALPHA
        else:
            weights = np.exp(-rank / (EXPONENTIAL_SCALE * topics))
        shares: npt.NDArray[np.float64] = weights / weights.sum()
        return shares


def topic_sets(
    count: int, topics: int, popularity: Popularity, rng: np.random.Generator
) -> list[npt.NDArray[np.int32]]:
    """The topics of so many nodes, ascending.

    >>> drawn = topic_sets(3, 200, Popularity.ZIPF, np.random.default_rng(1))
    >>> [len(each) >= 10 for each in drawn]
    [True, True, True]
    """
    low, high = (min(bound, topics) for bound in SIZES)
    sizes = np.arange(low, high + 1)
    weights = sizes.astype(np.float64) ** -SIZE_EXPONENT
    wanted = rng.choice(sizes, size=count, p=weights / weights.sum())
    shares = popularity.shares(topics)
    drawn = []
    for first in range(0, count, _ROWS_AT_ONCE):
        some = wanted[first : first + _ROWS_AT_ONCE]
        # The smallest of exponential times with these rates are a draw without replacement.
        times = rng.standard_exponential((len(some), topics)) / shares
        order = np.argsort(times, axis=1)
        drawn += [
            np.sort(row[:size]).astype(np.int32) for row, size in zip(order, some, strict=True)
        ]
    return drawn


def random_subscriptions(
    count: int, topics: int, popularity: Popularity, rng: np.random.Generator
) -> Subscriptions:
    """Nodes n1, n2, ... with random topics t1, t2, ..., t1 the most popular."""
    sets = topic_sets(count, topics, popularity, rng)
    starts = np.zeros(count + 1, np.int64)
    np.cumsum([len(each) for each in sets], out=starts[1:])
    flat = np.concatenate(sets) if sets else np.zeros(0, np.int32)
    names = tuple(f"n{number}" for number in range(1, count + 1))
    topic_names = tuple(f"t{number}" for number in range(1, topics + 1))
    return Subscriptions(names, topic_names, starts, flat)
