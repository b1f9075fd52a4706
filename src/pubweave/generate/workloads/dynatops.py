"""Subscriptions as in the evaluation of DYNATOPS: uniform, Zipf's, multimodal (section 6.1.2).

The paper gives users 5 topics each and says nothing of brokers, of publications per topic and of
Zipf's sigma: 5 topics per broker, 100 publications and sigma = 1 are ours. Multimodal: topics in
modes of 10; who subscribes draws one mode and its topics from it.
"""

from __future__ import annotations

from enum import Enum

import numpy as np
import numpy.typing as npt

from pubweave.design.tco.interests import Subscriptions

TOPICS_EACH = 5
PUBLICATIONS = 100
MODE_SIZE = 10
ZIPF_SIGMA = 1.0
_ROWS_AT_ONCE = 4_000

Topics = npt.NDArray[np.int32]


class Pattern(Enum):
    """How topics are drawn."""

    UNIFORM = "uniform"
    ZIPF = "zipf"
    MULTIMODAL = "multimodal"


def drawn_topics(
    count: int,
    topics: int,
    pattern: Pattern,
    rng: np.random.Generator,
    *,
    each: int = TOPICS_EACH,
) -> Topics:
    """So many rows of different topics, in the order they were drawn.

    >>> rows = drawn_topics(4, 100, Pattern.MULTIMODAL, np.random.default_rng(1))
    >>> [len({int(topic) // 10 for topic in row}) for row in rows]
    [1, 1, 1, 1]
    """
    if pattern is Pattern.MULTIMODAL:
        size = min(MODE_SIZE, topics)
        modes = rng.integers(0, max(1, topics // size), count) * size
        return modes[:, None].astype(np.int32) + _distinct(count, np.ones(size), each, rng)
    ranks = np.arange(1, topics + 1, dtype=np.float64)
    shares = (ranks + 1) ** -ZIPF_SIGMA if pattern is Pattern.ZIPF else np.ones(topics)
    return _distinct(count, shares, each, rng)


def _distinct(
    count: int, shares: npt.NDArray[np.float64], each: int, rng: np.random.Generator
) -> Topics:
    """Draws without replacement: the smallest of exponential times with these rates."""
    rows = np.empty((count, min(each, len(shares))), np.int32)
    for first in range(0, count, _ROWS_AT_ONCE):
        some = slice(first, min(count, first + _ROWS_AT_ONCE))
        times = rng.standard_exponential((some.stop - first, len(shares))) / shares
        order = np.argpartition(times, rows.shape[1] - 1, axis=1)[:, : rows.shape[1]]
        rows[some] = order
    return rows


def broker_subscriptions(
    brokers: int,
    topics: int,
    pattern: Pattern,
    rng: np.random.Generator,
    *,
    each: int = TOPICS_EACH,
) -> Subscriptions:
    """Brokers b1, b2, ... with topics among t1, t2, ..."""
    rows = drawn_topics(brokers, topics, pattern, rng, each=each)
    owners = np.repeat(np.arange(brokers), rows.shape[1])
    names = [f"b{number}" for number in range(1, brokers + 1)]
    topic_names = [f"t{number}" for number in range(1, topics + 1)]
    return Subscriptions.from_pairs(names, topic_names, owners, rows.ravel())
