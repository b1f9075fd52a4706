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

from pubweave.planning._kernels_moves import (
    FAR,
    Moves,
    cheapest_pairing,
    moves_backward,
    moves_forward,
)
from pubweave.planning._kernels_reach import Bits
from pubweave.planning.reachability import Reach, Reachability, bit_matrix, dense

_ROUNDS_MAX = 12
_Flags = npt.NDArray[np.bool_]


class ActionBound:
    """Asks of one problem and one T what a number of actions could do."""

    def __init__(self, reachability: Reachability, reach: Reach) -> None:
        self.reachability = reachability
        self.indexed = reachability.indexed
        self._reach = reach
        count = self.indexed.broker_count
        self._goal = dense(bit_matrix(self.indexed.goals, count), count)

    def least(self) -> int:
        """No plan of T steps has fewer actions."""
        return self._pairing(self._forward(*self._dense(self._reach)))[0]

    def within(self, actions: int) -> Reach | None:
        """What T steps and so many actions could reach; None if there is no such plan."""
        reach = self._reach
        for _ in range(_ROUNDS_MAX):
            alive, pivots = self._dense(reach)
            forward = self._forward(alive, pivots)
            least, rows, columns = self._pairing(forward)
            if least > actions:
                return None
            backward = self._backward(alive, pivots, columns)
            over = forward + backward - rows[None, :, None, None]
            keep = (over <= actions - least) & (forward < FAR) & (backward < FAR)
            if np.array_equal(keep & alive, alive):
                break
            kept = [_bits(keep[t] & alive[t]) for t in range(len(alive))]
            settled = self.reachability.settle(replace(reach, alive=kept))
            if settled is None:
                return None
            reach = settled
        return reach

    def _dense(self, reach: Reach) -> tuple[_Flags, _Flags]:
        count = self.indexed.broker_count
        alive = np.stack([[dense(bits, count) for bits in at] for at in reach.alive])
        pivots = np.stack([[dense(bits, count) for bits in at] for at in reach.pivots])
        return alive, pivots

    def _forward(self, alive: _Flags, pivots: _Flags) -> Moves:
        steps, tokens = pivots.shape[:2]
        out = np.full(alive.shape, FAR, dtype=np.int32)
        out[0][alive[0]] = 0
        for t in range(steps):
            for m in range(tokens):
                moves_forward(out[t, m], pivots[t, m], alive[t + 1, m], self._goal, out[t + 1, m])
        return out

    def _pairing(self, forward: Moves) -> tuple[int, Moves, Moves]:
        goals = self.indexed.goals
        total, rows, columns = cheapest_pairing(forward[-1][:, goals[:, 0], goals[:, 1]])
        return int(total), rows, columns

    def _backward(self, alive: _Flags, pivots: _Flags, columns: Moves) -> Moves:
        """The least moves to a goal link, less its dual price."""
        steps, tokens = pivots.shape[:2]
        goals = self.indexed.goals
        out = np.full(alive.shape, FAR, dtype=np.int32)
        for m in range(tokens):
            at = alive[-1, m][goals[:, 0], goals[:, 1]]
            price = np.where(at, -columns, FAR)
            out[-1, m, goals[:, 0], goals[:, 1]] = price
            out[-1, m, goals[:, 1], goals[:, 0]] = price
            for t in range(steps - 1, -1, -1):
                moves_backward(out[t + 1, m], pivots[t, m], alive[t, m], self._goal, out[t, m])
        return out


def _bits(flags: _Flags) -> Bits:
    """Boolean matrices as bit matrices."""
    count = flags.shape[-1]
    padding = (-count) % 64
    wide = np.pad(flags, [(0, 0)] * (flags.ndim - 1) + [(0, padding)])
    return np.packbits(wide, axis=-1, bitorder="little").view(np.uint64)
