"""An exact bitmap of few destinations as Python integers, for the links of a broker.

Each table row becomes one integer with a lane of bits per destination. For a handful of
destinations one AND of two integers and one test whether every lane has a bit cost less than the
overhead of the numpy calls they replace.

Invariant: a snapshot; whoever changes the bitmap drops it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import compress
from typing import Any

from pubweave.core.matching_axis import Axis, Words
from pubweave.model.publications import Value


class Lanes:
    """Which of few destinations are hit; everyone's tuple is shared between answers."""

    __slots__ = ("_axes", "_everyone", "_high", "_integers", "_lanes", "_low")

    def __init__(
        self,
        axes: Sequence[Axis],
        table: Words,
        words_of: Sequence[Sequence[int]],
        destinations: tuple[Any, ...],
    ) -> None:
        """``words_of`` are the columns of each destination; the last column is always zero."""
        depth = max(len(words) for words in words_of)
        zero = table.shape[1] - 1
        order = [w for words in words_of for w in (*words, *[zero] * (depth - len(words)))]
        bits = depth * table.itemsize * 8
        self._axes = axes
        self._everyone = destinations
        self._integers = [int.from_bytes(row.tobytes(), "little") for row in table[:, order]]
        ones = (1 << bits) - 1
        self._lanes = [ones << (bits * lane) for lane in range(len(words_of))]
        self._high = sum(1 << (bits * lane + bits - 1) for lane in range(len(words_of)))
        self._low = sum(self._lanes) ^ self._high

    def answer(self, attributes: Mapping[str, Value]) -> tuple[Any, ...]:
        """The destinations hit. O(axes * (log cells + bits / 30))."""
        integers = self._integers
        hits = -1
        for axis in self._axes:
            hits &= integers[axis.index_of(attributes.get(axis.attribute))]
        # Adding all ones below a lane's top bit carries into it unless the lane has no lower bit.
        if ((hits & self._low) + self._low | hits) & self._high == self._high:
            return self._everyone
        return tuple(compress(self._everyone, [hits & lane for lane in self._lanes]))
