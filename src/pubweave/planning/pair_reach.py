"""Positions that no two tokens can take at the same instant, and what follows for each of them.

`reachability` lets every token go as if the others were always where it wants them. Here tokens
are looked at two by two, as planners do with mutual exclusions (the h2 heuristic): from an instant
to the next, which pairs of positions can be had at once, from the front and from the back, until
nothing changes? A slide needs a third token that rests under it and goes together with both. Two
tokens never join the same two parts of the kept forest. A position that some token leaves without
any partner is dead.

Sound: only what is on no plan of T steps is dropped. Much stronger than reachability alone: on
unbalanced trees of 60 brokers it raises the bound on the steps by one or two and leaves the exact
model a fifth of its slides. O(T x tokens^2 x slides x positions / 64) time.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pubweave.planning._kernels_model import Ints
from pubweave.planning._kernels_pairs import (
    KEPT,
    advance,
    carriers,
    drop_lonely,
    forbid_same_parts,
)
from pubweave.planning._kernels_reach import Bits
from pubweave.planning.token_positions import TokenPositions

_ROUNDS_MAX = 5
_WORTH_ANOTHER_ROUND = 0.97
_LAYER_BYTES_MAX = 1_000_000_000
_TOKENS_MAX = KEPT - 1
_Flags = npt.NDArray[np.bool_]


def prune(positions: TokenPositions) -> TokenPositions | None:
    """The positions without those that pairs of tokens rule out; None if no plan is left.

    As they were where the pairs would need more memory than this may take."""
    tokens = positions.indexed.token_count
    if not 2 <= tokens <= _TOKENS_MAX:
        return positions
    pairs = _PairReach(positions)
    try:
        return pairs.left() if pairs.settle() else None
    except _TooManyPairsError:
        return positions


class _TooManyPairsError(Exception):
    """The pairs of one instant would not fit."""


class _Layer:
    """One instant: where each token can be, and which positions go together."""

    def __init__(self, positions: TokenPositions, t: int) -> None:
        count = positions.indexed.token_count
        parts = np.asarray(positions.indexed.parts)
        self.links = [positions.links(t, m) for m in range(count)]
        self.chosen = [np.arange(len(links)) for links in self.links]
        """Which of the positions that this began with are left."""
        self._parts = parts
        self.pairs: Bits = np.zeros((0, 0, 0, 0), dtype=np.uint64)
        self._number()

    def _number(self) -> None:
        brokers = len(self._parts)
        self.counts = np.array([len(links) for links in self.links], dtype=np.int32)
        self.places: Ints = np.full((len(self.links), brokers, brokers), -1, dtype=np.int32)
        for m, links in enumerate(self.links):
            u, v = links.T
            self.places[m, u, v] = self.places[m, v, u] = np.arange(len(links))

    def open(self) -> None:
        """All pairs but those that would close a cycle."""
        tokens, most = len(self.links), int(self.counts.max())
        words = (most + 63) // 64
        if tokens * tokens * most * words * 8 > _LAYER_BYTES_MAX:
            raise _TooManyPairsError
        self.pairs = np.zeros((tokens, tokens, most, words), dtype=np.uint64)
        brokers = len(self._parts)
        codes = []
        for links in self.links:
            ends = np.sort(self._parts[links], axis=1)
            codes.append((ends[:, 0] * brokers + ends[:, 1]).astype(np.int32))
        for p in range(tokens):
            row = _ones(int(self.counts[p]), words)
            for m in range(tokens):
                if m != p:
                    self.pairs[m, p, : self.counts[m]] = row
                    forbid_same_parts(self.pairs[m, p], codes[m], codes[p])

    def drop_lonely(self) -> _Flags | None:
        """Drop positions without partners; flags of those left, or None if a token has none."""
        most = self.pairs.shape[2]
        alive = np.arange(most)[None, :] < self.counts[:, None]
        return alive if drop_lonely(self.pairs, self.counts, alive) else None

    def shrink(self, alive: _Flags) -> list[Ints]:
        """Forget dead positions; for each token the new number of each old one, or -1."""
        renumbered = []
        for m in range(len(self.links)):
            flags = alive[m, : self.counts[m]]
            numbers = np.where(flags, np.cumsum(flags) - 1, -1).astype(np.int32)
            renumbered.append(numbers)
        old, old_counts = self.pairs, self.counts
        for m in range(len(self.links)):
            flags = alive[m, : old_counts[m]]
            self.links[m] = self.links[m][flags]
            self.chosen[m] = self.chosen[m][flags]
        self._number()
        self.pairs = _select(old, old_counts, alive, int(self.counts.max()))
        return renumbered


class _PairReach:
    """The layers of all instants, and the slides between them as rows (before, after, u, v)."""

    def __init__(self, positions: TokenPositions) -> None:
        self._positions = positions
        self._tokens = range(positions.indexed.token_count)
        self._steps = range(positions.steps)
        self._layers = [_Layer(positions, t) for t in range(positions.steps + 1)]
        self._slides = [[self._local_slides(t, m) for m in self._tokens] for t in self._steps]
        self._chosen = [[np.arange(len(rows)) for rows in layer] for layer in self._slides]

    def _local_slides(self, t: int, m: int) -> Ints:
        rows = self._positions.slides[t][m]
        w, u, v = rows[:, 2], rows[:, 3], rows[:, 4]
        before = self._layers[t].places[m][w, u]
        after = self._layers[t + 1].places[m][w, v]
        return np.ascontiguousarray(np.stack([before, after, u, v], axis=1))

    def settle(self) -> bool:
        """Forward and backward until nothing much changes; False if no plan is left."""
        self._layers[0].open()
        size = 0
        for number in range(_ROUNDS_MAX):
            for t in self._steps:
                if number == 0:
                    self._layers[t + 1].open()
                if not self._advance(t, t + 1, then_known=number > 0):
                    return False
            for t in reversed(self._steps):
                if not self._advance(t + 1, t, then_known=True):
                    return False
            before, size = size, self._size()
            if before and size > _WORTH_ANOTHER_ROUND * before:
                break
        return True

    def left(self) -> TokenPositions:
        """The positions and slides that are left."""
        kept = []
        for t in self._steps:
            layer = []
            for m, mask in enumerate(self._carriers(t, then_known=True)):
                flags = np.zeros(len(self._positions.slides[t][m]), dtype=np.bool_)
                flags[self._chosen[t][m]] = mask != 0
                layer.append(flags)
            kept.append(layer)
        return self._positions.restricted([layer.links for layer in self._layers], kept)

    def _size(self) -> int:
        return sum(int(np.bitwise_count(layer.pairs).sum()) for layer in self._layers)

    def _carriers(self, t: int, *, then_known: bool) -> list[Bits]:
        here, then = self._layers[t], self._layers[t + 1]
        kept = self._positions.kept
        masks = []
        for m in self._tokens:
            mask = np.zeros(len(self._slides[t][m]), dtype=np.uint64)
            pairs = here.pairs[m], then.pairs[m]
            places = here.places, then.places
            carriers(self._slides[t][m], m, kept, *places, *pairs, then_known, mask)
            masks.append(mask)
        return masks

    def _advance(self, start: int, end: int, *, then_known: bool) -> bool:
        """Drop pairs of layer ``end`` that no pair of its neighbor ``start`` leads to."""
        t = min(start, end)
        here, then = self._layers[start], self._layers[end]
        masks = self._carriers(t, then_known=then_known)
        slides = self._slides[t]
        if end < start:
            slides = [np.ascontiguousarray(rows[:, [1, 0, 2, 3]]) for rows in slides]
        stays = [_stays(here, then, m) for m in self._tokens]
        for m in self._tokens:
            for p in range(m + 1, len(self._tokens)):
                advance(
                    (m, p),
                    (here.counts[m], here.counts[p], then.counts[m], then.counts[p]),
                    (slides[m], slides[p]),
                    (masks[m], masks[p]),
                    (stays[m], stays[p]),
                    here.places,
                    then.places,
                    here.pairs,
                    then.pairs,
                )
        alive = then.drop_lonely()
        if alive is None:
            return False
        self._shrink(end, alive)
        return True

    def _shrink(self, t: int, alive: _Flags) -> None:
        if alive.sum() == self._layers[t].counts.sum():
            return
        for m, numbers in enumerate(self._layers[t].shrink(alive)):
            for step, column in ((t - 1, 1), (t, 0)):
                if step not in self._steps:
                    continue
                rows = self._slides[step][m]
                rows[:, column] = numbers[rows[:, column]]
                stay = rows[:, column] >= 0
                self._slides[step][m] = np.ascontiguousarray(rows[stay])
                self._chosen[step][m] = self._chosen[step][m][stay]


def _stays(here: _Layer, then: _Layer, m: int) -> Ints:
    """For each position of token m here its number then, or -1."""
    u, v = here.links[m].T
    return np.ascontiguousarray(then.places[m][u, v])


def _ones(count: int, words: int) -> Bits:
    flags = np.zeros(words * 64, dtype=np.uint8)
    flags[:count] = 1
    return np.packbits(flags, bitorder="little").view(np.uint64)


def _select(pairs: Bits, counts: Ints, alive: _Flags, most: int) -> Bits:
    """The rows and columns of the positions that are alive, close together."""
    tokens, words = len(counts), max(1, (most + 63) // 64)
    out = np.zeros((tokens, tokens, most, words), dtype=np.uint64)
    for m in range(tokens):
        for p in range(tokens):
            if m == p:
                continue
            rows = pairs[m, p, : counts[m]][alive[m, : counts[m]]]
            bits = np.unpackbits(rows.view(np.uint8), axis=1, bitorder="little")
            columns = bits[:, : counts[p]][:, alive[p, : counts[p]]]
            wide = np.zeros((len(rows), words * 64), dtype=np.uint8)
            wide[:, : columns.shape[1]] = columns
            out[m, p, : len(rows)] = np.packbits(wide, axis=1, bitorder="little").view(np.uint64)
    return out
