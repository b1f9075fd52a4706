"""64-bit keys of publications: the same in every process, so that brokers can compare sets.

Both caches (`interest_cache`, `side_cache`) make theirs here, many at a time.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import blake2b

import numpy as np

from pubweave.core.bloom import Keys, mix

_REMEMBERED_PUBLISHERS = 65_536
_ALL_BITS = (1 << 64) - 1
NO_KEYS: Keys = np.empty(0, dtype=np.uint64)


class PublicationKeys:
    """Makes keys, and remembers the numbers of publishers' names."""

    def __init__(self) -> None:
        self._publishers: dict[str, int] = {}

    def make(self, publishers: Sequence[str], sequences: Sequence[int]) -> Keys:
        """One key per publication, in their order. O(publications)."""
        if not publishers:
            return NO_KEYS
        if len(self._publishers) > _REMEMBERED_PUBLISHERS:
            self._publishers.clear()
        known = self._publishers
        for publisher in dict.fromkeys(publishers):
            if publisher not in known:
                known[publisher] = _number_of(publisher)
        names = np.array(list(map(known.__getitem__, publishers)), dtype=np.uint64)
        return mix(names ^ mix(_low_bits(sequences)))


def _number_of(publisher: str) -> int:
    """A number for a name, the same in every process (unlike `hash`)."""
    return int.from_bytes(blake2b(publisher.encode(), digest_size=8).digest(), "little")


def _low_bits(sequences: Sequence[int]) -> Keys:
    try:
        return np.array(sequences, dtype=np.uint64)
    except OverflowError:
        return np.array([sequence & _ALL_BITS for sequence in sequences], dtype=np.uint64)
