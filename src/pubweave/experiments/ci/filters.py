"""What brokers of CI's evaluation find out by their filters, errors included.

Pairs and triples by Bloom filters of the paper's size; sides by filters of one hash, whose bits
count the different notifications of a union (linear counting). Their collisions are played out,
not estimated: every notification of an interval has its bit.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pubweave.design.ci.cycle_traffic import SideCounts, Union, Unions, union_of_histogram
from pubweave.design.ci.offline import TripleCounts
from pubweave.design.ci.rules import Estimate
from pubweave.design.tree.traffic import Floats, Integers, Traffic

BLOOM_BITS, BLOOM_HASHES = 100_000, 5
CACHE_ENTRIES = 8_192


class FilterInterest:
    """Common interest as a broker finds it: its own entries looked up in others' filters."""

    def __init__(
        self, common: Floats, traffic: Traffic, estimate: Estimate, rng: np.random.Generator
    ) -> None:
        entries = np.minimum(np.diag(common), CACHE_ENTRIES)
        filled = 1.0 - np.exp(-BLOOM_HASHES * entries / BLOOM_BITS)
        # Of the entries that the other has not, the filter affirms this share all the same.
        false_share = filled**BLOOM_HASHES
        seen = common + (np.diag(common)[:, None] - common) * false_share[None, :]
        self._common: list[list[float]] = seen.tolist()
        # The same of two filters at once is their false shares' product: nothing.
        self._triples = TripleCounts(traffic) if estimate is Estimate.CONJUNCTION else None
        self._traffic = traffic
        self._unions = filter_unions(traffic, rng) if estimate is Estimate.SIDES else None

    def own(self, broker: int) -> float:
        return self._common[broker][broker]

    def common(self, broker: int) -> Sequence[float]:
        return self._common[broker]

    def triple(self, broker: int, via: int, far: int) -> float | None:
        return None if self._triples is None else self._triples.of(broker, via, far)

    def sides(self, neighbors: Sequence[Sequence[int]]) -> SideCounts:
        return SideCounts(self._traffic, neighbors, self._unions)


def filter_unions(traffic: Traffic, rng: np.random.Generator, bits: int = BLOOM_BITS) -> Unions:
    """Unions counted by bits: each notification sets one, and some share theirs."""
    set_of = np.repeat(np.arange(traffic.set_count), traffic.weights.astype(np.int64))
    bit_of = rng.integers(bits, size=len(set_of))
    order = np.argsort(bit_of, kind="stable")
    by_bit = set_of[order]
    _, starts = np.unique(bit_of[order], return_index=True)

    def unions(patterns: Integers, size: int) -> Union:
        of_bits = np.bitwise_or.reduceat(patterns[by_bit], starts) if len(by_bit) else patterns[:0]
        of_bits = of_bits[of_bits > 0]
        union_bits = union_of_histogram(np.bincount(of_bits, minlength=1 << size), size)

        def union(first: int, count: int) -> float:
            return -bits * math.log1p(-union_bits(first, count) / bits)

        return union

    return unions
