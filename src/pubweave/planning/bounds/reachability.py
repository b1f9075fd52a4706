"""Where each token can be at each step of a plan of T steps: a sound over-estimate.

From the front: a token starts on its link and slides, one end a step, along a link that is kept
or on which some other token may rest through the step. From the back: it must be on a goal link
at the end, and a goal link is never left. Positions that fail either test are dropped, pivots
shrink with them, and both passes repeat until nothing changes. Every rule used is one that each
legal plan obeys (limits on degree and disjoint brokers only take plans away), so what is dropped
is on no plan of T steps, and a T at which a token or a goal link is left without partner is
impossible. What is left need not be realisable: tokens do not wait for each other here.

Tokens have two names: up to the instant of the meeting they go by the removable link that they come
from, after it by the goal link that they end on. Under its first name a token could be almost
anywhere late in a plan, under its second almost anywhere early in it; under both it is near one of
its ends. On unbalanced trees of 100 brokers that raises the bound by up to four steps.

With ``apart`` each token has its own set of positions; otherwise all share one, which is mostly
weaker but is all that fits for thousands of brokers.

**The fewest actions.** Within the positions that this leaves alive, the fewest moves of each token
to each goal link are a shortest path in time. Every plan of T steps pairs tokens with goal links,
so the cheapest pairing is a lower bound on its actions. (Distances in the source topology are none:
links slide along links that have moved. These paths may use every pivot that some plan could
offer.)

With a budget of k actions and a pairing that costs at least A, a token that goes through a
position at a price k - A above its dual prices is on no plan of k actions: the position is
dropped. Fewer positions mean fewer pivots, hence a higher A, and so on until nothing changes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from pubweave.planning.bounds._kernels_reach import (
    FAR,
    Bits,
    Moves,
    cheapest_pairing,
    moves_backward,
    moves_forward,
    others_pivots,
    spread,
)
from pubweave.planning.problem.indexed import IndexedProblem, Pairs
from pubweave.planning.problem.problem import Stop, never

_APART_BITS_MAX = 4_000_000
_ROUNDS_MAX = 4


def _nobody(_: int) -> None:
    """Hears of a bound and keeps it to itself."""


@dataclass(frozen=True)
class Reach:
    """The outcome for one T, in T + 2 layers: alive[k][m] are the positions of token m.

    Layers 0 to ``meeting`` are the instants from the source on, with tokens by the removable links
    they come from. Layers from ``meeting`` + 1 on are the instants from that same one to the
    target, with tokens by the goal links they end on."""

    steps: int
    meeting: int
    alive: list[Bits]
    pivots: list[Bits]
    """pivots[k][m]: what token m may slide along between the layers k and k + 1; nothing where
    both are of the same instant."""


class Reachability:
    """Asks of one problem what T steps could reach."""

    def __init__(self, indexed: IndexedProblem, apart: bool | None = None) -> None:
        count, tokens = indexed.broker_count, indexed.token_count
        self.indexed = indexed
        self.apart = tokens * count * count <= _APART_BITS_MAX if apart is None else apart
        self.kept = bit_matrix(indexed.kept, count)
        self.goals = bit_matrix(indexed.goals, count)
        self.blocked = bit_matrix(indexed.forbidden, count) | self._same_part()
        self.start = self._each(indexed.tokens)
        self.end = self._each(indexed.goals)

    def _each(self, links: Pairs) -> Bits:
        """A set of positions for each token, or one for all of them."""
        count = self.indexed.broker_count
        if not self.apart:
            return bit_matrix(links, count)[None]
        parts = [bit_matrix(links[m : m + 1], count) for m in range(len(links))]
        return np.stack(parts) if parts else np.zeros((0, *self.kept.shape), np.uint64)

    def _same_part(self) -> Bits:
        """Links inside one part of the kept forest: in a tree they would close a cycle."""
        parts = self.indexed.parts
        rows = np.zeros((int(parts.max(initial=0)) + 1, self.kept.shape[1]), dtype=np.uint64)
        for broker, part in enumerate(parts.tolist()):
            rows[part, broker >> 6] |= np.uint64(1 << (broker & 63))
        return rows[parts]

    def fewest_steps(self, stop: Stop = never, tell: Callable[[int], None] = _nobody) -> int | None:
        """The least T that this relaxation allows: a lower bound on the steps of any plan.

        None if no T does: then it is proven that there is no plan. ``tell`` hears of every bound
        on the way; after a stop the last one is returned."""
        if not self.indexed.token_count:
            return 0
        if self.indexed.problem.allow_move:
            return 1
        steps = self._first_meeting(stop, tell)
        while steps is not None and not stop() and self.within(steps, stop) is None:
            if stop():
                break
            steps += 1
            tell(steps)
        return steps

    def _first_meeting(self, stop: Stop, tell: Callable[[int], None]) -> int | None:
        """The least T at which tokens reach all goal links from the front; None if they never do.

        Far quicker than both passes, which start from here."""
        alive, steps = self.start, 1
        while not stop():
            before = alive
            alive = self._once(before, self.goals, self.blocked, stop)
            if self._possible([self.start, alive, self._ends(alive)], 1):
                break
            if not stop() and np.array_equal(alive, before):
                return None
            if not stop():
                steps += 1
                tell(steps)
        return steps

    def within(self, steps: int, stop: Stop = never) -> Reach | None:
        """What T steps could reach; None if no plan of T steps exists (or after a stop)."""
        front, back = [self.start], [self.end]
        # The side with fewer positions goes on, so that the crowded middle stays small.
        while len(front) + len(back) < steps + 2 and not stop():
            if _size(front[-1:]) <= _size(back[-1:]):
                front.append(self._once(front[-1], self.goals, self.blocked, stop))
            else:
                nothing = np.zeros_like(self.goals)
                back.append(self._once(back[-1], nothing, self.blocked | self.goals, stop))
        alive = [*front, *back[::-1]]
        meeting = len(front) - 1
        pivots = [self._pivots(here, then) for here, then in pairwise(alive)]
        return self.settle(Reach(steps, meeting, alive, pivots), stop)

    def settle(self, reach: Reach, stop: Stop = never) -> Reach | None:
        """Drop what is dead from the front or the back until nothing changes."""
        alive, pivots = list(reach.alive), list(reach.pivots)
        size = _size(alive)
        for _ in range(_ROUNDS_MAX):
            self._backward(alive, pivots, reach.meeting, stop)
            if stop() or not self._possible(alive, reach.meeting):
                return None
            pivots = [self._pivots(here, then) for here, then in pairwise(alive)]
            self._again_forward(alive, pivots, reach.meeting, stop)
            before, size = size, _size(alive)
            if size == before:
                break
        if not self._possible(alive, reach.meeting):
            return None
        return Reach(reach.steps, reach.meeting, alive, pivots)

    def _ends(self, alive: Bits) -> Bits:
        """The goal links, as far as some token is there."""
        somewhere: Bits = np.bitwise_or.reduce(alive)
        return self.end & somewhere

    def spread(self, positions: Bits, pivots: Bits) -> Bits:
        """The links within one slide along the pivots, goal links no exception."""
        return self._spread(positions, pivots, np.zeros_like(self.goals), self.blocked, never)

    def _once(self, positions: Bits, frozen: Bits, blocked: Bits, stop: Stop) -> Bits:
        """One step on where nothing is known yet of the others but where they may be before it."""
        return self._spread(positions, self._pivots(positions, positions), frozen, blocked, stop)

    def _backward(self, alive: list[Bits], pivots: list[Bits], meeting: int, stop: Stop) -> None:
        nothing = np.zeros_like(self.goals)
        for k in range(len(pivots) - 1, -1, -1):
            if k == meeting:
                alive[k] = alive[k] & np.bitwise_or.reduce(alive[k + 1])
                continue
            back = self._spread(alive[k + 1], pivots[k], nothing, self.blocked, stop)
            alive[k] = alive[k] & (alive[k + 1] | (back & ~self.goals))

    def _again_forward(
        self, alive: list[Bits], pivots: list[Bits], meeting: int, stop: Stop
    ) -> None:
        for k in range(len(pivots)):
            if k == meeting:
                alive[k + 1] = alive[k + 1] & np.bitwise_or.reduce(alive[k])
                continue
            ahead = self._spread(alive[k], pivots[k], self.goals, self.blocked, stop)
            alive[k + 1] = alive[k + 1] & ahead

    def _spread(
        self, positions: Bits, pivots: Bits, frozen: Bits, blocked: Bits, stop: Stop
    ) -> Bits:
        out = np.zeros_like(positions)
        for m in range(len(positions)):
            if stop():
                break
            spread(positions[m], pivots[m], frozen, blocked, out[m])
        return out

    def _pivots(self, here: Bits, then: Bits) -> Bits:
        if not self.apart:
            return self.kept | (here & then)
        out = np.empty_like(here)
        others_pivots(here, then, self.kept, out)
        return out

    def _possible(self, alive: list[Bits], meeting: int) -> bool:
        """Whether tokens from the front and from the back can be paired where they meet."""
        if not self.apart:
            start, end = self.indexed.tokens, self.indexed.goals
            return bool(has_bits(alive[-1][0], end).all() and has_bits(alive[0][0], start).all())
        meets = [
            [bool((one & other).any()) for other in alive[meeting + 1]] for one in alive[meeting]
        ]
        return perfect_matching(np.array(meets)) is not None


def _size(alive: list[Bits]) -> int:
    return sum(int(np.bitwise_count(positions).sum()) for positions in alive)


def bit_matrix(pairs: Pairs, count: int) -> Bits:
    """A set of links as a symmetric bit matrix."""
    matrix = np.zeros((count, (count + 63) // 64), dtype=np.uint64)
    for u, v in pairs.tolist():
        matrix[u, v >> 6] |= np.uint64(1 << (v & 63))
        matrix[v, u >> 6] |= np.uint64(1 << (u & 63))
    return matrix


def has_bits(matrix: Bits, pairs: Pairs) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """For each pair whether its bit is set."""
    words = matrix[pairs[:, 0], pairs[:, 1] >> 6]
    bits = words >> (pairs[:, 1] & 63).astype(np.uint64)
    flags: np.ndarray[tuple[int], np.dtype[np.bool_]] = (bits & np.uint64(1)).astype(np.bool_)
    return flags


def dense(matrix: Bits, count: int) -> np.ndarray[tuple[int, int], np.dtype[np.bool_]]:
    """A bit matrix as booleans."""
    bits = np.unpackbits(matrix.view(np.uint8), axis=-1, bitorder="little")
    return bits[:, :count].astype(np.bool_)


def perfect_matching(allowed: np.ndarray[tuple[int, int], np.dtype[np.bool_]]) -> list[int] | None:
    """A column for each row, all different, or None (augmenting paths)."""
    rows, columns = allowed.shape
    options = [np.flatnonzero(allowed[row]).tolist() for row in range(rows)]
    taken_by = [-1] * columns

    def place(row: int, tried: set[int]) -> bool:
        for column in options[row]:
            if column in tried:
                continue
            tried.add(column)
            if taken_by[column] < 0 or place(taken_by[column], tried):
                taken_by[column] = row
                return True
        return False

    if not all(place(row, set()) for row in range(rows)):
        return None
    match = [-1] * rows
    for column, row in enumerate(taken_by):
        if row >= 0:
            match[row] = column
    return match


_ACTION_ROUNDS_MAX = 12
_Flags = npt.NDArray[np.bool_]


class ActionBound:
    """Asks of one problem and one T what a number of actions could do."""

    def __init__(self, reachability: Reachability, reach: Reach) -> None:
        self.reachability = reachability
        self.indexed = reachability.indexed
        self._reach = reach
        self._meeting = reach.meeting
        count = self.indexed.broker_count
        self._goal = dense(bit_matrix(self.indexed.goals, count), count)

    def least(self) -> int:
        """No plan of T steps has fewer actions."""
        alive, pivots = self._dense(self._reach)
        return self._pairing(self._moves(alive, pivots))[0]

    def within(self, actions: int) -> Reach | None:
        """What T steps and so many actions could reach; None if there is no such plan."""
        reach = self._reach
        for _ in range(_ACTION_ROUNDS_MAX):
            alive, pivots = self._dense(reach)
            moves = self._moves(alive, pivots)
            least, rows, columns = self._pairing(moves)
            if least > actions:
                return None
            rest = self._rest(alive, pivots, moves, rows, columns)
            price = np.where(np.arange(len(alive))[:, None] <= reach.meeting, rows, columns)
            keep = (moves < FAR) & (moves + rest - price[:, :, None, None] <= actions - least)
            if np.array_equal(keep & alive, alive):
                break
            kept = [_bits(keep[k] & alive[k]) for k in range(len(alive))]
            settled = self.reachability.settle(replace(reach, alive=kept))
            if settled is None:
                return None
            reach = settled
        return reach

    def _dense(self, reach: Reach) -> tuple[_Flags, _Flags]:
        count = self.indexed.broker_count
        alive = np.stack([[dense(bits, count) for bits in layer] for layer in reach.alive])
        pivots = np.stack([[dense(bits, count) for bits in layer] for layer in reach.pivots])
        return alive, pivots

    def _moves(self, alive: _Flags, pivots: _Flags) -> Moves:
        """The fewest moves to each position from its token's removable link, up to the meeting, and
        from each position to its token's goal link, from there on."""
        out = np.full(alive.shape, FAR, dtype=np.int32)
        out[0][alive[0]] = 0
        out[-1][alive[-1]] = 0
        self._forward(out, alive, pivots, range(self._meeting))
        self._backward(out, alive, pivots, range(self._meeting + 1, len(pivots)))
        return out

    def _pairing(self, moves: Moves) -> tuple[int, Moves, Moves]:
        here, then = moves[self._meeting], moves[self._meeting + 1]
        cost = np.stack([(one + then).min(axis=(1, 2)) for one in here])
        total, rows, columns = cheapest_pairing(np.minimum(cost, FAR))
        return int(total), rows, columns

    def _rest(
        self, alive: _Flags, pivots: _Flags, moves: Moves, rows: Moves, columns: Moves
    ) -> Moves:
        """The fewest moves that complete those of `_moves` to a walk from end to end, less the dual
        price of the other end."""
        k = self._meeting
        out = np.full(alive.shape, FAR, dtype=np.int32)
        ahead = (moves[k + 1] - columns[:, None, None]).min(axis=0)
        behind = (moves[k] - rows[:, None, None]).min(axis=0)
        out[k] = np.where(alive[k], ahead, FAR)
        out[k + 1] = np.where(alive[k + 1], behind, FAR)
        self._backward(out, alive, pivots, range(k))
        self._forward(out, alive, pivots, range(k + 1, len(pivots)))
        return out

    def _forward(self, out: Moves, alive: _Flags, pivots: _Flags, steps: range) -> None:
        for k in steps:
            for m in range(len(alive[k])):
                moves_forward(out[k, m], pivots[k, m], alive[k + 1, m], self._goal, out[k + 1, m])

    def _backward(self, out: Moves, alive: _Flags, pivots: _Flags, steps: range) -> None:
        for k in reversed(steps):
            for m in range(len(alive[k])):
                moves_backward(out[k + 1, m], pivots[k, m], alive[k, m], self._goal, out[k, m])


def _bits(flags: _Flags) -> Bits:
    """Boolean matrices as bit matrices."""
    count = flags.shape[-1]
    padding = (-count) % 64
    wide = np.pad(flags, [(0, 0)] * (flags.ndim - 1) + [(0, padding)])
    return np.packbits(wide, axis=-1, bitorder="little").view(np.uint64)
