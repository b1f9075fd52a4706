"""Many rows over a few attributes as one bitmap: a table of words, one bit per row.

Every row owns a bit in a word of its destination. A query takes one table row per axis, ANDs them,
and a word that is not zero means its destination is hit. The first word of each destination is its
*head*; heads are consecutive, the words of destinations with more rows than bits (*spill*) follow.

Invariant: an exact bitmap needs no check after the AND; in a checked one (loose predicates, or
attributes that are no axis) every bit is only a candidate and its row is asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, KeysView, Mapping, Sequence
from itertools import compress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pubweave.core.matching_axis import Axis, Words
from pubweave.core.matching_row import Destination, Row
from pubweave.model.publications import Value

Attributes = Mapping[str, Value]

FEW = 16
"""Up to so many words, Python integers are faster than numpy calls."""

WIDTH_CELLS = 64
"""How finely the widths of rows are compared."""


class Bitmap:
    """Rows grouped by destination, answering which destinations a publication's values hit.

    A query costs O(axes * (log cells + flips + words)) with tiny constants: words are ANDed by
    numpy, 64 rows at once. Adding or removing a row writes one column: O(cells).
    """

    def __init__(
        self, attributes: Sequence[str], rows: Iterable[Row], *, exact: bool, cell_limit: int
    ) -> None:
        self.exact = exact
        self._attributes = tuple(attributes)
        self._cell_limit = cell_limit
        self._rows: dict[int, Row] = {}
        self._everyone: tuple[Any, ...] | None = None
        self._build(list(rows))

    def __len__(self) -> int:
        return len(self._rows)

    def rows(self) -> Iterator[Row]:
        return iter(self._rows.values())

    def accepts(self, row: Row) -> bool:
        """Whether this bitmap can hold a row: exact ones know all its attributes."""
        if not self.exact:
            return any(c.attribute in self._attributes for c in row.constraints)
        return not row.loose and all(c.attribute in self._attributes for c in row.constraints)

    @property
    def destination_count(self) -> int:
        return len(self._words_of)

    @property
    def destinations(self) -> KeysView[Destination]:
        return self._words_of.keys()

    # ---- queries

    def answer(self, attributes: Attributes) -> tuple[Any, ...]:
        """The destinations of an exact bitmap that are hit, in the order of their heads."""
        words = self._and(attributes)
        if self._head_count <= FEW:
            heads = words[: self._head_count].tolist()
            if 0 not in heads:
                return self._all_destinations()
            if self._spill_count:
                heads = self._head_mask(words).tolist()
            return tuple(compress(self._all_destinations(), heads))
        # Indices rather than a mask: taking by an unpredictable mask costs a branch per element.
        return tuple(self._objects[self._head_mask(words).nonzero()[0]].tolist())

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
        axes = self._axes
        axis = axes[0]
        words = axis.row(attributes.get(axis.attribute))
        for axis in axes[1:]:
            words = np.bitwise_and(words, axis.row(attributes.get(axis.attribute)), self._buffer)
        return words

    def _head_mask(self, words: Words) -> NDArray[np.bool_]:
        """Which heads belong to destinations with a hit in their head or their spill words."""
        mask = np.not_equal(words, self._zeros, self._mask)
        if self._spill_count:
            first = self._head_room
            spill = mask[first : first + self._spill_count]
            if self._spill_count <= FEW:
                for offset, is_hit in enumerate(spill.tolist()):
                    if is_hit:
                        mask[self._owners[first + offset]] = True
            else:
                owners = self._owners[first : first + self._spill_count]
                mask[owners[spill]] = True
            spill[:] = False
        return mask

    def _any_holds(self, word: int, bits: int, attributes: Attributes) -> bool:
        first = word * self._word_bits
        while bits:
            lowest = bits & -bits
            if self._rows[first + lowest.bit_length() - 1].holds(attributes):
                return True
            bits ^= lowest
        return False

    def _all_destinations(self) -> tuple[Any, ...]:
        if self._everyone is None:
            self._everyone = tuple(self._objects[: self._head_count].tolist())
        return self._everyone

    # ---- changes

    def add(self, row: Row) -> None:
        """Take a row in. O(cells), or a rebuild when no word is left."""
        word = self._free_word(row.destination)
        if word is None:
            self._build([*self._rows.values(), row])
            return
        self._take_bit(row, word)
        column = self._table[:, word]
        mask = self._table.dtype.type(1 << row.place % self._word_bits)
        for axis in self._axes:
            ranges, cuts = axis.project(row.constraint_on(axis.attribute))
            for start, end in ranges:
                column[start:end] |= mask
            for cut in cuts:
                axis.add_flip(cut, row.place)

    def remove(self, row: Row) -> None:
        """Let a row go; its bit can be taken again by its destination. O(cells)."""
        word, bit = divmod(row.place, self._word_bits)
        column = self._table[:, word]
        mask = ~self._table.dtype.type(1 << bit)
        for axis in self._axes:
            ranges, cuts = axis.project(row.constraint_on(axis.attribute))
            for start, end in ranges:
                column[start:end] &= mask
            for cut in cuts:
                axis.remove_flip(cut, row.place)
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
        self._everyone = None
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
        elif self._head_room + self._spill_count < len(self._owners):
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
        self._everyone = None
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
        self._axes = make_axes(self._attributes, rows, self._cell_limit)
        projected = [
            (row, [axis.project(row.constraint_on(axis.attribute)) for axis in self._axes])
            for row in rows
        ]
        counts: dict[Destination, int] = {}
        for row in rows:
            counts[row.destination] = counts.get(row.destination, 0) + 1
        self._lay_out(counts)
        for row, _ in projected:
            word = self._free_word(row.destination)
            if word is None:
                raise AssertionError("a bitmap was laid out with too few words for its rows")
            self._take_bit(row, word)
        self._fill(projected)

    def _lay_out(self, counts: Mapping[Destination, int]) -> None:
        """Make empty words for so many rows per destination, with some room to grow."""
        self._word_bits = _choose_word_bits(counts.values())
        spill = sum((n - 1) // self._word_bits for n in counts.values())
        # While most rows bring a new destination, room for many more of them is worth its memory.
        growing = sum(counts.values()) < 2 * len(counts)
        self._head_room = len(counts) + max(4, len(counts) // (1 if growing else 8))
        total = self._head_room + spill + max(4, len(counts) // 8, spill // 2)
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
        self._everyone = None
        dtype = np.dtype(f"<u{self._word_bits // 8}")
        self._table = np.zeros((self._axes[-1].end_row + 1, total), dtype)
        self._buffer = np.zeros(total, dtype)
        self._zeros = np.zeros(total, dtype)
        self._mask = np.zeros(total, np.bool_)
        for destination in sorted(counts, key=lambda d: d.slot):
            self._new_head(destination)

    def _fill(self, projected: list[tuple[Row, list[Any]]]) -> None:
        """Write all bits: turn each over where a range starts and ends, then add rows up."""
        places: list[int] = []
        masks: list[int] = []
        width = self._table.shape[1]
        for row, projections in projected:
            word, bit = divmod(row.place, self._word_bits)
            for axis, (ranges, cuts) in zip(self._axes, projections, strict=True):
                for start, end in ranges:
                    places += (start * width + word, end * width + word)
                    masks += (1 << bit, 1 << bit)
                for cut in cuts:
                    axis.add_flip(cut, row.place)
        table = self._table
        np.bitwise_xor.at(table.reshape(-1), places, np.array(masks, table.dtype))
        for index in range(1, len(table)):
            table[index] ^= table[index - 1]
        for axis in self._axes:
            axis.attach(table)


def _choose_word_bits(counts: Iterable[int]) -> int:
    """The narrowest word that few destinations overflow, even after growing by a quarter."""
    wanted = sorted(counts)
    typical = wanted[len(wanted) * 15 // 16] * 5 // 4
    return next((bits for bits in (8, 16, 32) if typical <= bits), 64)


def make_axes(attributes: Sequence[str], rows: Sequence[Row], cell_limit: int) -> list[Axis]:
    """Axes for these rows, one below the other in a table; many share the cells of four."""
    limit = min(cell_limit, max(1, 4 * cell_limit // len(attributes)))
    axes: list[Axis] = []
    first_row = 0
    for attribute in attributes:
        found = (row.constraint_on(attribute) for row in rows)
        axis = Axis(attribute, first_row, (c for c in found if c is not None), limit)
        axes.append(axis)
        first_row = axis.end_row
    return axes


def widest(attributes: Sequence[str], rows: Sequence[Row], count: int) -> list[Row]:
    """For each destination the ``count`` rows that are likeliest to be hit.

    Likely as the product over the axes of the share of cells, which are quantiles, that they cover.
    """
    axes = make_axes(attributes, rows, WIDTH_CELLS)

    def width(row: Row) -> int:
        product = 1
        for axis in axes:
            ranges, _ = axis.project(row.constraint_on(axis.attribute))
            product *= sum(end - start for start, end in ranges)
        return product

    chosen: list[Row] = []
    taken: dict[Destination, int] = {}
    for row in sorted(rows, key=width, reverse=True):
        taken[row.destination] = taken.get(row.destination, 0) + 1
        if taken[row.destination] <= count:
            chosen.append(row)
    return chosen
