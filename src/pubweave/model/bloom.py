"""Bloom filters over 64-bit keys: a set of publications in a few kilobytes (CI section 4).

Keys come from `self_organizing/notification_cache` and are the same in every process; so are the
positions made of them here. A filter only ever says too much: `false_positive_rate` says how much,
and whoever counts hits corrects by it (`corrected_count`). Filters with the same parameters can be
united, and the entries of a union counted by its bits (`count`). No I/O; foreign bytes are bounded
before they are unpacked.
"""

from __future__ import annotations

import math
import zlib

import numpy as np
import numpy.typing as npt

Keys = npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]

DEFAULT_BITS = 100_000
DEFAULT_HASHES = 5
LEAST_BITS = 1_024
MOST_BITS = 1 << 22
MOST_HASHES = 16
WANTED_FALSE_POSITIVES = 0.01
"""What adaptive parameters aim at."""
LEAST_SIDE_BITS = 16_384
"""With fewer a count would be wrong by more than half a percent, however little is counted."""

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_FIRST = np.uint64(0xBF58476D1CE4E5B9)
_SECOND = np.uint64(0x94D049BB133111EB)
_STEP = np.uint64(0xD6E8FEB86659FD93)


def mix(values: Keys) -> Keys:
    """Every bit of the result depends on every bit of the value (the finalizer of splitmix64)."""
    mixed = values + _GOLDEN
    mixed = (mixed ^ (mixed >> np.uint64(30))) * _FIRST
    mixed = (mixed ^ (mixed >> np.uint64(27))) * _SECOND
    return mixed ^ (mixed >> np.uint64(31))


class BloomFilter:
    """A set of keys that forgets which they were."""

    def __init__(self, bits: int = DEFAULT_BITS, hashes: int = DEFAULT_HASHES) -> None:
        """ValueError for parameters that no broker would use."""
        if not LEAST_BITS <= bits <= MOST_BITS or not 1 <= hashes <= MOST_HASHES:
            raise ValueError(
                f"a Bloom filter of {bits} bits and {hashes} hashes: allowed are "
                f"{LEAST_BITS} to {MOST_BITS} bits and 1 to {MOST_HASHES} hashes"
            )
        self.bits = bits
        self.hashes = hashes
        self._is_set = np.zeros(bits, dtype=np.bool_)

    def add(self, keys: Keys) -> None:
        """O(keys x hashes)."""
        self._is_set[self._positions(keys)] = True

    def contains(self, keys: Keys) -> Mask:
        """Which of the keys were added, or seem so. O(keys x hashes)."""
        found: Mask = np.logical_and.reduce(self._is_set[self._positions(keys)], axis=0)
        return found

    @property
    def false_positive_rate(self) -> float:
        """How likely a key that was never added seems to have been, as full as the filter is."""
        return float((np.count_nonzero(self._is_set) / self.bits) ** self.hashes)

    @property
    def count(self) -> float:
        """How many different keys were added, by the bits they left (linear counting):
        n = -m/k ln(1 - X/m) with X of m bits set; infinite if the filter is full.

        With one hash the standard deviation is sqrt(m (e^t - t - 1)), t = n/m; up to t = 1 that is
        about n / sqrt(2m): of 100,000 bits 0.22 % of the entries.
        """
        unset = self.bits - int(np.count_nonzero(self._is_set))
        if not unset:
            return math.inf
        return self.bits / self.hashes * math.log(self.bits / unset)

    def __or__(self, other: BloomFilter) -> BloomFilter:
        """The filter of what either has."""
        assert (self.bits, self.hashes) == (other.bits, other.hashes)
        made = BloomFilter(self.bits, self.hashes)
        np.logical_or(self._is_set, other._is_set, out=made._is_set)
        return made

    def _positions(self, keys: Keys) -> npt.NDArray[np.int64]:
        # Two hashes give all: g_i = h1 + i * h2, as good as independent ones.
        start = mix(keys)
        step = mix(keys ^ _STEP) | np.uint64(1)
        rows = [(start + np.uint64(i) * step) % np.uint64(self.bits) for i in range(self.hashes)]
        return np.array(rows, dtype=np.int64).reshape(self.hashes, len(keys))

    def to_bytes(self) -> bytes:
        """Packed and compressed: a filter that is nearly empty is small on its way."""
        return zlib.compress(np.packbits(self._is_set).tobytes(), 1)

    @classmethod
    def from_bytes(cls, data: bytes, bits: int, hashes: int) -> BloomFilter:
        """ValueError for bytes that are no filter of these parameters."""
        made = cls(bits, hashes)
        size = (bits + 7) // 8
        unpacker = zlib.decompressobj()
        try:
            # One byte more than there may be: a longer one is wrong, and is not unpacked.
            packed = unpacker.decompress(data, size + 1)
        except zlib.error as error:
            raise ValueError(f"a Bloom filter that does not unpack: {error}") from error
        if len(packed) != size:
            raise ValueError(f"a Bloom filter of {bits} bits in {len(packed)} bytes")
        made._is_set = np.unpackbits(np.frombuffer(packed, np.uint8), count=bits).astype(np.bool_)
        return made


def adapted_parameters(entries: int) -> tuple[int, int]:
    """Bits and hashes for about this many entries (CI's future work): as few bits as keep false
    positives near `WANTED_FALSE_POSITIVES`.

    >>> adapted_parameters(0)
    (1024, 10)
    >>> adapted_parameters(5_000)
    (47926, 7)
    """
    count = max(1, entries)
    wanted = math.ceil(-count * math.log(WANTED_FALSE_POSITIVES) / math.log(2) ** 2)
    bits = min(MOST_BITS, max(LEAST_BITS, wanted))
    return bits, max(1, min(10, round(bits / count * math.log(2))))


def adapted_side_bits(entries: int) -> int:
    """Bits of filters with one hash that are to be united and counted, for about this many entries
    per filter: full enough to be small, and a count still good to half a percent.

    >>> adapted_side_bits(600), adapted_side_bits(20_000)
    (16384, 40000)
    """
    return min(MOST_BITS, max(LEAST_SIDE_BITS, 2 * entries))


def corrected_count(hits: int, tried: int, false_positive_rate: float) -> float:
    """How many of ``tried`` keys really are in a filter that says yes to ``hits`` of them."""
    if false_positive_rate >= 1.0:
        return 0.0
    return max(0.0, (hits - false_positive_rate * tried) / (1.0 - false_positive_rate))
