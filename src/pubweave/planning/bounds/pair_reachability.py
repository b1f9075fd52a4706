"""Positions that no two tokens can take at the same instant, and what follows for each of them.

`reachability` lets every token go as if the others were always where it wants them. Here tokens
are looked at two by two, as planners do with mutual exclusions (the h2 heuristic): from an instant
to the next, which pairs of positions can be had at once, from the front and from the back, until
nothing much changes? A slide needs a third token that rests under it and goes together with both.
Two tokens never join the same two parts of the kept forest. A position that some token leaves
without any partner is dead.

Half way between source and target a token could be almost anywhere, so the layers in the middle
cost by far the most. They come last: layers are opened from both ends, the smaller side first, and
what dies there is taken from the middle by the quick rules for single tokens. Where tokens change
their names, two links that no two tokens of the one layer can have at once are dropped from the
other layer, whichever tokens they are of.

Sound: only what is on no plan of T steps is dropped. Much stronger than reachability alone: on
unbalanced trees of 60 brokers it raises the bound on the steps by one or two and leaves the exact
model a fifth of its slides. O(T x tokens^2 x slides x positions / 64) time.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from pubweave.planning.bounds._kernels_pairs import (
    KEPT,
    advance,
    carriers,
    drop_lonely,
    exclusions,
    open_pairs,
    project,
    restrict,
    shrink,
    size_of,
)
from pubweave.planning.bounds._kernels_reach import Bits, Flags, Ints
from pubweave.planning.bounds.reachability import Reach, Reachability, bit_matrix, dense
from pubweave.planning.bounds.token_positions import TokenPositions, links_of, slides_between

_SWEEPS_MAX = 8
# A layer that lost less than this share of its pairs is not worth telling its neighbors.
_WORTH_TELLING = 0.02
# A layer that lost less than this share of its positions is not worth closing up.
_WORTH_CLOSING_UP = 0.02
_LAYER_BYTES_MAX = 1_000_000_000
_TOKENS_MAX = KEPT - 1
# Below this many positions a layer is quicker opened than thinned out.
_MANY_POSITIONS = 4_000


def prune(reachability: Reachability, reach: Reach) -> TokenPositions | None:
    """The positions without those that pairs of tokens rule out; None if no plan is left.

    Where the pairs of a layer would need too much memory, single tokens must do for it."""
    if not 2 <= reachability.indexed.token_count <= _TOKENS_MAX:
        return TokenPositions.of(reachability.indexed, reach)
    pairs = _PairReach(reachability, reach)
    return pairs.left() if pairs.settle() else None


class _Layer:
    """A layer of `Reach`: where each token can be, and which positions go together."""

    def __init__(self, links: list[Ints], parts: Ints) -> None:
        self.links = links
        self._parts = parts
        self._number()
        codes = np.zeros((len(links), int(self.counts.max())), dtype=np.int32)
        for m, pairs in enumerate(links):
            ends = np.sort(parts[pairs], axis=1)
            codes[m, : len(pairs)] = ends[:, 0] * (int(parts.max()) + 1) + ends[:, 1]
        self.pairs = open_pairs(self.counts, codes)
        self.size = size_of(self.pairs, self.counts)

    @property
    def pair_count(self) -> int:
        """The number of pairs, whether they go together or not."""
        counts = self.counts.astype(np.int64)
        return int((counts.sum() ** 2 - (counts**2).sum()) // 2)

    def _number(self) -> None:
        brokers = len(self._parts)
        self.counts = np.array([len(links) for links in self.links], dtype=np.int32)
        self.places: Ints = np.full((len(self.links), brokers, brokers), -1, dtype=np.int32)
        for m, links in enumerate(self.links):
            u, v = links.T
            self.places[m, u, v] = self.places[m, v, u] = np.arange(len(links))

    def named(self, number: Ints) -> Ints:
        """For each position of each token the number of its link."""
        out: Ints = np.full((len(self.links), int(self.counts.max())), -1, dtype=np.int32)
        for m, links in enumerate(self.links):
            out[m, : len(links)] = number[tuple(links.T)]
        return out

    def settle(self) -> Flags | None:
        """Forget positions without partners; flags of those left, or None if a token has none."""
        alive: Flags = np.arange(self.pairs.shape[2])[None, :] < self.counts[:, None]
        if not drop_lonely(self.pairs, self.counts, alive):
            return None
        gone = int(self.counts.sum() - alive.sum())
        if gone < _WORTH_CLOSING_UP * self.counts.sum():
            alive[:] = True  # they have no partners, and cost less than closing up
        elif gone:
            self.pairs = shrink(self.pairs, self.counts, alive)
            self.links = [links[alive[m, : len(links)]] for m, links in enumerate(self.links)]
            self._number()
        self.size = size_of(self.pairs, self.counts)
        return alive


@dataclass
class _Slides:
    """The slides of one step between two layers that are open, token after token."""

    rows: Ints
    first: np.ndarray[tuple[int], np.dtype[np.int64]]

    @classmethod
    def of(cls, found: list[Ints]) -> _Slides:
        first = np.concatenate([[0], np.cumsum([len(rows) for rows in found])]).astype(np.int64)
        return cls(np.ascontiguousarray(np.concatenate(found)), first)

    def of_token(self, m: int) -> slice:
        return slice(int(self.first[m]), int(self.first[m + 1]))

    def only(self, keep: Flags) -> _Slides:
        before = np.concatenate([[0], np.cumsum(keep)])
        return _Slides(np.ascontiguousarray(self.rows[keep]), before[self.first].astype(np.int64))

    def renumbered(self, column: int, alive: Flags) -> _Slides:
        """After positions of one of the two layers died."""
        numbers = np.where(alive, np.cumsum(alive, axis=1) - 1, -1).astype(np.int32)
        rows = self.rows.copy()
        for m in range(len(self.first) - 1):
            part = self.of_token(m)
            rows[part, column] = numbers[m][rows[part, column]]
        return _Slides(rows, self.first).only(rows[:, column] >= 0)


class _PairReach:
    """Pairs of positions by layers, settled by passing forth and back."""

    def __init__(self, reachability: Reachability, reach: Reach) -> None:
        self._reachability = reachability
        self._reach = reach
        self._indexed = reachability.indexed
        self._count = self._indexed.broker_count
        self._kept = dense(reachability.kept, self._count)
        self._meeting = reach.meeting
        self._layers: dict[int, _Layer] = {}
        self._slides: dict[int, _Slides] = {}
        self._told: dict[tuple[int, int], int] = {}
        """The pairs of a layer when it last told a neighbor."""

    def settle(self) -> bool:
        """Open from both ends, then forward and backward; False if no plan is left."""
        if not self._open_all():
            return False
        forward = [(k, k + 1) for k in sorted(self._layers) if k + 1 in self._layers]
        backward = [(end, start) for start, end in reversed(forward)]
        for _ in range(_SWEEPS_MAX):
            changes = [pair for pair in (*forward, *backward) if self._is_worth(*pair)]
            if not changes:
                break
            for start, end in (*forward, *backward):
                if self._is_worth(start, end) and not self._tell(start, end):
                    return False
        return True

    def left(self) -> TokenPositions:
        """The positions and slides that are left."""
        links = [
            self._layers[k].links if k in self._layers else self._links(k)
            for k in range(self._reach.steps + 2)
        ]
        found = []
        for k in range(self._reach.steps + 1):
            if k == self._meeting:
                found.append([np.zeros((0, 5), dtype=np.int32) for _ in links[k]])
            elif k in self._slides:
                step = self._slides[k].only(self._carriers(k) != 0)
                found.append([step.rows[step.of_token(m)] for m in range(len(links[k]))])
            else:
                found.append(self._found(k, links[k], links[k + 1]))
        positions = TokenPositions.numbered(self._indexed, self._meeting, links, found)
        positions.exclusions = self._exclusions(positions)
        return positions

    def _exclusions(self, positions: TokenPositions) -> Ints:
        """Pairs of positions that exclude each other: all those of a layer or none, of the
        layers with the fewest first, and no more than there are slides.

        Near both ends they are few and tell a solver what it would have to find out again and
        again; in the middle they are millions and tell it little."""
        room = sum(len(rows) for step in positions.slides for rows in step)
        excluded = {k: layer.pair_count - layer.size for k, layer in self._layers.items()}
        chosen = [np.zeros((0, 2), dtype=np.int32)]
        for k in sorted(excluded, key=lambda k: (excluded[k], k)):
            if excluded[k] > room:
                break
            room -= excluded[k]
            layer = self._layers[k]
            first = [positions.at[k, m][tuple(links[0])] for m, links in enumerate(layer.links)]
            rows = np.empty((excluded[k], 2), dtype=np.int32)
            found = exclusions(layer.pairs, layer.counts, np.array(first, dtype=np.int64), rows)
            assert found == len(rows), "every pair is left or excluded"
            chosen.append(rows)
        return np.concatenate(chosen)

    def _open_all(self) -> bool:
        """Bring the open layers of both ends together, the smaller next one first."""
        front, back = 0, self._reach.steps + 1
        self._open(front)
        self._open(back)
        while front + 1 < back:
            if not self._thin_out(front, back):
                return False
            sizes = self._size(front + 1), self._size(back - 1)
            start, end = (front, front + 1) if sizes[0] <= sizes[1] else (back, back - 1)
            if not self._open(end):
                return True
            self._join(min(start, end))
            if not self._tell(start, end):
                return False
            front, back = (end, back) if start == front else (front, end)
        self._join(front)
        return True

    def _thin_out(self, front: int, back: int) -> bool:
        """What single tokens say of the layers in between; False if no plan is left."""
        if min(self._size(front + 1), self._size(back - 1)) < _MANY_POSITIONS:
            return True
        alive = list(self._reach.alive)
        for k, layer in self._layers.items():
            rows = [links.astype(np.int64) for links in layer.links]
            alive[k] = np.stack([bit_matrix(links, self._count) for links in rows])
        settled = self._reachability.settle(replace(self._reach, alive=alive))
        if settled is None:
            return False
        self._reach = settled
        return True

    def _size(self, k: int) -> int:
        return int(np.bitwise_count(self._reach.alive[k]).sum()) // 2

    def _links(self, k: int) -> list[Ints]:
        return [links_of(bits, self._count) for bits in self._reach.alive[k]]

    def _open(self, k: int) -> bool:
        links = self._links(k)
        tokens, most = len(links), max(len(pairs) for pairs in links)
        if tokens * tokens * most * ((most + 63) // 64) * 8 > _LAYER_BYTES_MAX:
            return False
        self._layers[k] = _Layer(links, self._indexed.parts.astype(np.int32))
        return True

    def _join(self, k: int) -> None:
        """Number the slides between two open layers."""
        if k == self._meeting:
            return
        here, then = self._layers[k], self._layers[k + 1]
        self._slides[k] = _Slides.of(self._found(k, here.links, then.links))

    def _found(self, k: int, here: list[Ints], then: list[Ints]) -> list[Ints]:
        """The slides of a step between these links, by their places among them."""
        pivots = [dense(bits, self._count) for bits in self._reach.pivots[k]]
        return slides_between(self._indexed, here, then, pivots)

    def _is_worth(self, start: int, end: int) -> bool:
        told = self._told.get((start, end))
        return told is None or self._layers[start].size < (1 - _WORTH_TELLING) * told

    def _carriers(self, k: int) -> Bits:
        here, then, step = self._layers[k], self._layers[k + 1], self._slides[k]
        places, pairs = (here.places, then.places), (here.pairs, then.pairs)
        return carriers(step.rows, step.first, self._kept, *places, *pairs)

    def _tell(self, start: int, end: int) -> bool:
        """Drop pairs of layer ``end`` that none of its neighbor ``start`` leads to; False if no
        plan is left."""
        if min(start, end) == self._meeting:
            self._cross(self._layers[start], self._layers[end])
        else:
            self._advance(start, end)
        self._told[start, end] = self._layers[start].size
        alive = self._layers[end].settle()
        if alive is None:
            return False
        for other, column in ((end - 1, 1), (end, 0)):
            if other in self._slides:
                self._slides[other] = self._slides[other].renumbered(column, alive)
        return True

    def _cross(self, here: _Layer, then: _Layer) -> None:
        """At the meeting two links have tokens in both layers or in neither."""
        number = np.full((self._count, self._count), -1, dtype=np.int32)
        u, v = np.unique(np.concatenate(then.links), axis=0).T
        number[u, v] = np.arange(len(u))
        together = project(here.pairs, here.counts, here.named(number), len(u))
        restrict(then.pairs, then.counts, then.named(number), together)

    def _advance(self, start: int, end: int) -> None:
        k = min(start, end)
        here, then = self._layers[start], self._layers[end]
        masks = self._carriers(k)
        self._slides[k] = self._slides[k].only(masks != 0)
        masks = masks[masks != 0]
        step = self._slides[k]
        order = [0, 1, 2, 3, 4] if start < end else [1, 0, 2, 3, 4]
        advance(
            np.ascontiguousarray(step.rows[:, order]),
            step.first,
            masks,
            _stays(here, then),
            here.counts,
            then.counts,
            here.places,
            then.places,
            here.pairs,
            then.pairs,
        )


def _stays(here: _Layer, then: _Layer) -> Ints:
    """For each position of each token here its number then, or -1."""
    out: Ints = np.full((len(here.links), int(here.counts.max())), -1, dtype=np.int32)
    for m, links in enumerate(here.links):
        u, v = links.T
        out[m, : len(links)] = then.places[m][u, v]
    return out
