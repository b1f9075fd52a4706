"""A lower bound on the actions of a plan of T steps, and which positions few actions leave.

Within the positions that `reachability` leaves alive, the fewest moves of each token to each goal
link are a shortest path in time. Every plan of T steps pairs tokens with goal links, so the
cheapest pairing is a lower bound on its actions. (Distances in the source topology are none: links
slide along links that have moved. These paths may use every pivot that some plan could offer.)

With a budget of k actions and a pairing that costs at least A, a token that goes through a
position at a price k - A above its dual prices is on no plan of k actions: the position is
dropped. Fewer positions mean fewer pivots, hence a higher A, and so on until nothing changes.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from pubweave.planning.bounds._kernels_reach import Bits
from pubweave.planning.bounds._kernels_slides import (
    FAR,
    Moves,
    cheapest_pairing,
    moves_backward,
    moves_forward,
)
from pubweave.planning.bounds.reachability import Reach, Reachability, bit_matrix, dense

_ROUNDS_MAX = 12
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
        for _ in range(_ROUNDS_MAX):
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
