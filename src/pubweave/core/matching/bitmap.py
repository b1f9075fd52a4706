"""Many rows over a few attributes as one bitmap: a table of words, one bit per row.

Every row owns a bit in a word of its destination. A query takes one table row per axis, ANDs them,
and a word that is not zero means its destination is hit. The first word of each destination is its
*head*; heads come first, the words of destinations with more rows than bits (*spill*) follow, and
the last word of all stays zero.

Invariant: an exact bitmap needs no check after the AND; in a checked one (loose predicates, or
attributes that are no axis) every bit is only a candidate and its row is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pubweave.core.matching.axis import Axis, Limits, Words
from pubweave.core.matching.row import Destination, Row
from pubweave.model.publications import Value

Attributes = Mapping[str, Value]

FEW_SPILLED = 8
"""Up to so many words are faster looked at one by one."""

LANES_AFTER = 32
"""Lanes cost about as much to make as one query for each so many rows of the table saves."""

CUTS_PER_CELL = 16
"""So many cuts share a cell of a wide table (measured: 8 cost more memory and save no time)."""

MIN_CELLS = 1024
"""Tables of so few cells are small enough, however few cuts share a cell."""


class Bitmap:
    """Rows grouped by destination, answering which destinations a publication's values hit.

    A query costs O(axes * (log cells + flips + words)) with tiny constants: words are ANDed by
    numpy, 64 rows at once. Adding or removing a row writes one column: O(cells).
    """

    def __init__(
        self,
        attributes: Sequence[str],
        rows: Iterable[Row],
        limits: Limits,
        *,
        exact: bool,
    ) -> None:
        self.exact = exact
        self._attributes = tuple(attributes)
        self._limits = limits
        self._rows: dict[int, Row] = {}
        self._lanes: IntegerBitmap | None = None
        self._queries = 0
        self._build(list(rows))

    def rows(self) -> Iterator[Row]:
        return iter(self._rows.values())

    def accepts(self, row: Row) -> bool:
        """Whether this bitmap can hold a row: exact ones know all its attributes."""
        if not self.exact:
            return any(c.attribute in self._attributes for c in row.constraints)
        return not row.loose and all(c.attribute in self._attributes for c in row.constraints)

    # ---- queries

    def answer(self, attributes: Attributes) -> tuple[Any, ...]:
        """The destinations of an exact bitmap that are hit, in the order of their heads."""
        if self._lanes is not None:
            return self._lanes.answer(attributes)
        mask = self._head_mask(self._and(attributes))
        if self._head_count > self._limits.few:
            # Indices, not the mask: numpy pays a mispredicted branch per element of a mask.
            return tuple(self._objects[mask.nonzero()[0]].tolist())
        self._queries += 1
        if self._queries * LANES_AFTER > len(self._table):
            self._make_lanes()
        return tuple(compress(self._objects.tolist(), mask.tolist()))

    def mark(self, attributes: Attributes, marks: bytearray, view: NDArray[np.bool_]) -> None:
        """Set the marks (``view`` is the same memory) of the slots of all destinations hit."""
        words = self._and(attributes)
        if self.exact:
            view[self._slots[self._head_mask(words).nonzero()[0]]] = True
            return
        for word in words.nonzero()[0].tolist():
            slot = int(self._slots[self._owners[word]])
            if not marks[slot] and self._any_holds(word, int(words[word]), attributes):
                marks[slot] = 1

    def _and(self, attributes: Attributes) -> Words:
        """The bits of the rows whose constraints on the axes all hold, until the next call."""
        get = attributes.get
        words: Words | None = None
        for axis, scratch, scratch_row in self._scratches:
            index, flips = axis.path(get(axis.attribute))
            row = self._table[index]
            if flips:
                scratch_row[:] = row
                row = scratch_row
                for flip in flips:
                    scratch[flip >> 9] ^= flip & 255
            words = row if words is None else np.bitwise_and(words, row, self._buffer)
        if words is None:
            raise AssertionError("a bitmap has at least one axis")
        return words

    def _head_mask(self, words: Words) -> NDArray[np.bool_]:
        """Which heads belong to destinations with a hit in their head or their spill words."""
        mask = np.not_equal(words, self._zeros, self._mask)
        count = self._spill_count
        if count > FEW_SPILLED:
            first = self._head_room
            spill = mask[first : first + count]
            mask[self._owners[first : first + count][spill]] = True
            spill[:] = False
        elif count:
            for word in range(self._head_room, self._head_room + count):
                if mask.item(word):
                    mask[self._owners[word]] = True
                    mask[word] = False
        return mask

    def _any_holds(self, word: int, bits: int, attributes: Attributes) -> bool:
        first = word * self._word_bits
        while bits:
            lowest = bits & -bits
            if self._rows[first + lowest.bit_length() - 1].holds(attributes):
                return True
            bits ^= lowest
        return False

    def _make_lanes(self) -> None:
        self._queries = 0
        if self._words_of and all(axis.is_exact for axis in self._axes):
            words = sorted(self._words_of.values())
            destinations = tuple(self._objects[heads[0]] for heads in words)
            self._lanes = IntegerBitmap(self._axes, self._table, words, destinations)

    # ---- changes

    def add(self, row: Row) -> None:
        """Take a row in. O(cells), or a rebuild when no word is left."""
        self._lanes, self._queries = None, 0
        word = self._free_word(row.destination)
        if word is None:
            self._build([*self._rows.values(), row])
            return
        self._take_bit(row, word)
        column = self._table[:, word]
        mask = self._table.dtype.type(1 << row.place % self._word_bits)
        for axis in self._axes:
            constraint = row.constraint_on(axis.attribute)
            for start, end in axis.ranges(constraint):
                column[start:end] |= mask
            if constraint is not None:
                axis.add_flips(constraint, row.place)

    def remove(self, row: Row) -> None:
        """Let a row go; its bit can be taken again by its destination. O(cells)."""
        self._lanes, self._queries = None, 0
        word, bit = divmod(row.place, self._word_bits)
        column = self._table[:, word]
        mask = ~self._table.dtype.type(1 << bit)
        for axis in self._axes:
            constraint = row.constraint_on(axis.attribute)
            for start, end in axis.ranges(constraint):
                column[start:end] &= mask
            if constraint is not None:
                axis.remove_flips(constraint, row.place)
        del self._rows[row.place]
        row.home = None
        self._free_bits[word] |= 1 << bit
        self._forget_if_unused(row.destination)

    def _forget_if_unused(self, destination: Destination) -> None:
        words = self._words_of[destination]
        full = (1 << self._word_bits) - 1
        if any(self._free_bits[word] != full for word in words):
            return
        del self._words_of[destination]
        self._objects[words[0]] = None
        self._spare_heads.append(words[0])
        self._spare_spill.extend(words[1:])

    def _free_word(self, destination: Destination) -> int | None:
        """A word of the destination with a free bit, its newest first; None if there is no room."""
        words = self._words_of.get(destination)
        if words is None:
            return self._new_head(destination)
        for word in reversed(words):
            if self._free_bits[word]:
                return word
        if self._spare_spill:
            word = self._spare_spill.pop()
        elif self._head_room + self._spill_count < len(self._owners) - 1:
            word = self._head_room + self._spill_count
            self._spill_count += 1
        else:
            return None
        self._owners[word] = words[0]
        words.append(word)
        return word

    def _new_head(self, destination: Destination) -> int | None:
        if self._spare_heads:
            word = self._spare_heads.pop()
        elif self._head_count < self._head_room:
            word = self._head_count
            self._head_count += 1
        else:
            return None
        self._owners[word] = word
        self._slots[word] = destination.slot
        self._objects[word] = destination.value
        self._words_of[destination] = [word]
        return word

    def _take_bit(self, row: Row, word: int) -> None:
        free = self._free_bits[word]
        bit = (free & -free).bit_length() - 1
        self._free_bits[word] = free & (free - 1)
        row.home = self
        row.place = word * self._word_bits + bit
        self._rows[row.place] = row

    # ---- building

    def _build(self, rows: list[Row]) -> None:
        """Everything anew from these rows, with fresh cells. O(rows log rows + table)."""
        counts: dict[Destination, int] = {}
        for row in rows:
            counts[row.destination] = counts.get(row.destination, 0) + 1
        self._lay_out(counts)
        for row in rows:
            word = self._free_word(row.destination)
            if word is None:
                raise AssertionError("a bitmap was laid out with too few words for its rows")
            self._take_bit(row, word)
        self._axes = make_axes(self._attributes, rows, self._cell_count(len(rows), len(counts)))
        self._table = self._filled_table(rows)
        self._scratches: list[tuple[Axis, bytearray, Words]] = []
        for axis in self._axes:
            scratch = bytearray(self._buffer.nbytes)
            scratch_row = np.frombuffer(scratch, self._buffer.dtype)
            self._scratches.append((axis, scratch, scratch_row))

    def _cell_count(self, rows: int, destinations: int) -> int:
        """How many cells an axis may have.

        Tables of few destinations are narrow and afford a cell for every cut, as lanes need it.
        More than two axes share the cells of two.
        """
        axes = len(self._attributes)
        if destinations <= self._limits.few:
            return max(1, 4 * self._limits.cells * 2 // max(2, axes))
        wanted = max(MIN_CELLS, 2 * rows // CUTS_PER_CELL)
        return max(1, min(self._limits.cells * 2 // max(2, axes), wanted))

    def _lay_out(self, counts: Mapping[Destination, int]) -> None:
        """Make empty words for so many rows per destination, with some room to grow."""
        self._word_bits = _choose_word_bits(counts.values())
        spill = sum((n - 1) // self._word_bits for n in counts.values())
        # While most rows bring a new destination, room for many more of them is worth its memory.
        growing = sum(counts.values()) < 2 * len(counts)
        self._head_room = len(counts) + max(4, len(counts) // (1 if growing else 8))
        total = self._head_room + spill + max(4, len(counts) // 8, spill // 4) + 1
        self._rows = {}
        self._head_count = 0
        self._spill_count = 0
        self._spare_heads: list[int] = []
        self._spare_spill: list[int] = []
        self._words_of: dict[Destination, list[int]] = {}
        self._free_bits = [(1 << self._word_bits) - 1] * total
        self._owners = np.zeros(total, np.intp)
        self._slots = np.zeros(self._head_room, np.intp)
        self._objects = np.full(self._head_room, None, object)
        self._buffer = np.zeros(total, f"<u{self._word_bits // 8}")
        self._zeros = np.zeros_like(self._buffer)
        self._mask = np.zeros(total, np.bool_)
        for destination in sorted(counts, key=lambda d: d.slot):
            self._new_head(destination)

    def _filled_table(self, rows: list[Row]) -> Words:
        """All bits: each turned over where a range starts and ends, then rows added up."""
        places: list[int] = []
        masks: list[int] = []
        width = len(self._buffer)
        for row in rows:
            word, bit = divmod(row.place, self._word_bits)
            for axis in self._axes:
                for start, end in axis.ranges(row.constraint_on(axis.attribute)):
                    places += (start * width + word, end * width + word)
                    masks += (1 << bit, 1 << bit)
        # One row more than the axes have: the last range of all ends there.
        table = np.zeros((self._axes[-1].end_row + 1, width), self._buffer.dtype)
        np.bitwise_xor.at(table.reshape(-1), places, np.array(masks, table.dtype))
        for index in range(1, len(table)):
            table[index] ^= table[index - 1]
        return table


def _choose_word_bits(counts: Iterable[int]) -> int:
    """The narrowest word that few destinations overflow, even after growing by a quarter."""
    wanted = sorted(counts)
    typical = wanted[len(wanted) * 15 // 16] * 5 // 4
    return next((bits for bits in (8, 16, 32) if typical <= bits), 64)


def make_axes(attributes: Sequence[str], rows: Sequence[Row], cells: int) -> list[Axis]:
    """Axes for these rows, one below the other in a table."""
    axes: list[Axis] = []
    first_row = 0
    for attribute in attributes:
        found = ((row.constraint_on(attribute), row.place) for row in rows)
        placed = ((constraint, place) for constraint, place in found if constraint is not None)
        axis = Axis(attribute, first_row, placed, cells)
        axes.append(axis)
        first_row = axis.end_row
    return axes


# An exact bitmap of few destinations as Python integers, for the links of a broker.
#
# Each table row becomes one integer with a lane of bits per destination. For a handful of
# destinations one AND of two integers and one test whether every lane has a bit cost less than
# the overhead of the numpy calls they replace.
#
# Invariant: a snapshot; whoever changes the bitmap drops it.


class IntegerBitmap:
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
