"""Answers known for whole blocks of cells, so that most of an answer need not be built again.

Neighbouring cells of every axis form a block. A row that covers a block is hit by all values in
it; its destination is *sure* there. The tuple of the sure destinations of a combination of blocks
is kept, and an answer is that tuple plus the few others that are hit.

Invariant: sure destinations are hit by every publication in their blocks. New rows may make more
of them sure without this being noticed; a removed row makes all kept tuples void.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pubweave.core.matching_axis import Axis, Words

KEPT = 256
"""How many combinations of blocks a bitmap distinguishes."""

Sure = tuple[NDArray[np.bool_], tuple[Any, ...]]


class Blocks:
    """The sure destinations of the combinations of blocks that publications fell into."""

    __slots__ = ("_block_of", "_kept", "_queries", "_quiet", "_rows", "_table")

    def __init__(self, axes: Sequence[Axis], table: Words, quiet: int) -> None:
        self._quiet = quiet
        self._table = table
        self._kept: dict[int, Sure] = {}
        self._queries = 0
        self._rows: list[dict[int, Words]] = [{} for _ in axes]
        self._block_of = _number_blocks(axes)

    def find(self) -> Sure | int | None:
        """What is known where the last query of the axes fell.

        A kept combination, or the key under which `keep` may keep it, or None if it may not: so
        soon after a removal, keeping might not pay.
        """
        key = 0
        for blocks, axis in self._block_of:
            key += blocks[axis.index]
        if key < 0:
            return None
        self._queries += 1
        found = self._kept.get(key)
        return found if found is not None else key if self._queries > self._quiet else None

    def sure_words(self) -> Words:
        """The words of the rows that cover the blocks in which the last query fell."""
        words: Words | None = None
        for position, (blocks, axis) in enumerate(self._block_of):
            row = self._sure_row(self._rows[position], blocks, axis)
            words = row if words is None else words & row
        if words is None:
            raise AssertionError("a bitmap has at least one axis")
        return words

    def keep(self, key: int, sure: Sure) -> None:
        self._kept[key] = sure

    def drop(self, word: int, mask: Any) -> None:
        """Forget a removed row: ``mask`` has all bits of its word but its own."""
        self._queries = 0
        self._kept.clear()
        for rows in self._rows:
            for row in rows.values():
                row[word] &= mask

    def _sure_row(self, rows: dict[int, Words], blocks: list[int], axis: Axis) -> Words:
        block = blocks[axis.index]
        row = rows.get(block)
        if row is None:
            first = blocks.index(block)
            row = self._table[first].copy()
            # A row of the bitmap that begins or ends in a block has a flip in one of its cells.
            axis.clear_flipped(range(first, first + blocks.count(block)), row)
            rows[block] = row
        return row


def _number_blocks(axes: Sequence[Axis]) -> list[tuple[list[int], Axis]]:
    """For each axis, by table row, the block's part of a key; very negative where there is none."""
    per_axis = int(KEPT ** (1 / len(axes)) + 1e-9)
    numbered = []
    factor = 1
    for axis in axes:
        rows = axis.number_rows
        blocks = [-KEPT * len(axes)] * axis.end_row
        if per_axis > 1:
            for cell, row in enumerate(rows):
                blocks[row] = cell * per_axis // len(rows) * factor
        factor *= per_axis
        numbered.append((blocks, axis))
    return numbered
