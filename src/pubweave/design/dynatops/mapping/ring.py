"""A Chord ring: positions with fixed ids, their fingers, and the key of a name.

Ids are 32 bits wide. Position i of n has the id floor(i * 2^32 / n) unless ids are given. Finger k
of a position is the first position at or after its id + 2^k, clockwise, for k = 0..31; finger 0 is
the successor. A greedy route takes, at each hop, the finger that goes farthest without passing its
end; one that is the end itself may be taken.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from pubweave.design.tree.traffic import DesignError

RING_BITS = 32
RING_SIZE = 1 << RING_BITS

Integers = npt.NDArray[np.int64]
Indices = npt.NDArray[np.int32]


def key_of(name: str) -> int:
    """A name's place on the ring: the first four bytes of its SHA-1, the first one highest.

    >>> key_of("news")
    1013701853
    """
    # SHA-1 is Chord's own choice; nothing here is a secret.
    return int.from_bytes(hashlib.sha1(name.encode(), usedforsecurity=False).digest()[:4], "big")


@dataclass(frozen=True, eq=False)
class Ring:
    """Positions by ascending id.

    >>> ring = Ring.equidistant(8)
    >>> ring.fingers[1].tolist()[-4:]
    [2, 2, 3, 5]
    >>> ring.route(1, 0)
    [1, 5, 7, 0]
    """

    ids: Integers

    def __post_init__(self) -> None:
        ids = self.ids
        if not len(ids):
            raise DesignError("a ring needs at least one position")
        if ids[0] < 0 or ids[-1] >= RING_SIZE or (np.diff(ids) <= 0).any():
            raise DesignError(f"positions need different ids below {RING_SIZE}, in their order")

    @classmethod
    def equidistant(cls, count: int) -> Ring:
        return cls(np.arange(count, dtype=np.int64) * RING_SIZE // max(1, count))

    @classmethod
    def hashed(cls, names: Iterable[str]) -> Ring:
        """Where consistent hashing puts brokers of these names, whoever is where."""
        keys = sorted(key_of(name) for name in names)
        return cls(np.array(keys, np.int64))

    @property
    def size(self) -> int:
        return len(self.ids)

    @cached_property
    def fingers(self) -> Indices:
        """Position by (position, k); O(n log n) to make."""
        starts = (self.ids[:, None] + (1 << np.arange(RING_BITS))) % RING_SIZE
        return (np.searchsorted(self.ids, starts) % self.size).astype(np.int32)

    def successor(self, key: int) -> int:
        """The position responsible for a key: the first at or after it."""
        return int(np.searchsorted(self.ids, key % RING_SIZE)) % self.size

    def rendezvous(self, topic: str) -> int:
        """The position that is the root of a topic's tree."""
        return self.successor(key_of(topic))

    def route(self, start: int, end: int) -> list[int]:
        """The positions of the greedy route; at most `RING_BITS` hops."""
        way = [start]
        while way[-1] != end:
            here = way[-1]
            ahead = (self.fingers[here] - here) % self.size
            farthest = ahead[ahead <= (end - here) % self.size].max()
            way.append((here + int(farthest)) % self.size)
        return way
