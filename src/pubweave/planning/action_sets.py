"""Which shifts an integer program may use: all of them, or IPITT's two smaller sets.

Broker numbers are positions in the sorted list of ids. An action is a row (i, j, k) of distinct
numbers, as in the paper's equations: permutations, though its text once says subsets. Rows come in
lexicographic order, each once, so a model built on them is the same on every run.
"""

from __future__ import annotations

import enum
from itertools import permutations

import numpy as np
import numpy.typing as npt

from pubweave.model.ids import BrokerId, Link
from pubweave.model.topology import Topology

Triples = npt.NDArray[np.int32]


class ActionSet(enum.Enum):
    """IPITT IV-B: naive, Algorithm 2, Algorithm 3."""

    NAIVE = "naive"
    ALL_PATHS = "all-paths"
    EACH_PATH = "each-path"


def transformation_paths(source: Topology, target: Topology) -> dict[Link, tuple[BrokerId, ...]]:
    """For each goal link, the brokers on the way between its ends in the source."""
    return {link: source.path(*link) for link in sorted(target.links - source.links)}


def generate_actions(kind: ActionSet, source: Topology, target: Topology) -> Triples:
    """The shifts of one of the three sets, as rows of broker numbers."""
    number = {broker: place for place, broker in enumerate(sorted(source.brokers))}
    if kind is ActionSet.NAIVE:
        return permuted(list(number.values()))
    paths = [
        [number[broker] for broker in way] for way in transformation_paths(source, target).values()
    ]
    if kind is ActionSet.ALL_PATHS:
        return permuted(sorted({broker for way in paths for broker in way}))
    found = {triple for way in paths for triple in permutations(way, 3)}
    return np.array(sorted(found), dtype=np.int32).reshape(-1, 3)


def permuted(brokers: list[int]) -> Triples:
    """All ordered triples of distinct numbers."""
    values = np.array(brokers, dtype=np.int32)
    i, j, k = np.meshgrid(values, values, values, indexing="ij")
    distinct = (i != j) & (j != k) & (i != k)
    return np.stack([i[distinct], j[distinct], k[distinct]], axis=1)
