"""A few free tokens near their tracks in a known plan, while all others keep to theirs.

What `corridor` is to the exact planner this is to a thousand brokers: nothing here is as large as
brokers times brokers. A free token may be one slide away from where the plan has it at an instant
or one step later; held tokens do as in the plan, which needs free ones to rest where they lean on
them. Every assignment found makes a plan of the problem (without degree limit and disjoint
brokers), for the reasons in `token_model`; that none is found proves nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pubweave.planning import _kernels_clauses as clauses
from pubweave.planning import _kernels_region as kernels
from pubweave.planning._kernels_region import FIRM, NONE, Flags, Ints
from pubweave.planning.indexed import IndexedProblem
from pubweave.planning.tracks import Tracks, link_keys

Clause = list[int]
_POSITIONS_MAX = 100_000


@dataclass
class Region:
    """Positions of the free tokens, the slides between them, and what each rests on."""

    tracks: Tracks
    free: npt.NDArray[np.int64]
    positions: Ints
    slides: Ints
    stay: Ints
    number: Ints
    """Each position's pivot, or NONE where the token cannot rest there."""
    needed: Flags
    """Pivots that held tokens lean on."""

    @property
    def steps(self) -> int:
        return self.tracks.steps

    def clauses(self) -> list[Clause]:
        """They hold exactly for the walks of the free tokens that make a plan."""
        rows = len(self.positions)
        groups = np.flatnonzero(np.diff(self._layers, prepend=-1, append=-1))
        flat = np.empty(16 * rows + 8 * len(self.slides) + 4096, np.int64)
        ends = np.empty(8 * rows + 4 * len(self.slides) + 2048, np.int64)
        found: list[Clause] = []
        top, count = clauses.somewhere_once(groups, rows, flat, ends)
        _take(flat, ends, count, found)
        sides = np.ascontiguousarray(self.slides[:, :2])
        order = np.arange(len(sides))
        instants = self.positions[:, 0]
        count = clauses.supported(order, sides, self.stay, instants == self.steps, flat, ends)
        _take(flat, ends, count, found)
        back = np.full(rows, NONE)
        back[self.stay[self.stay != NONE]] = np.flatnonzero(self.stay != NONE)
        sides = np.ascontiguousarray(sides[:, ::-1])
        order = np.argsort(sides[:, 0], kind="stable")
        count = clauses.supported(order, sides, back, instants == 0, flat, ends)
        _take(flat, ends, count, found)
        count = clauses.leaning(self.slides, self.stay, self.number, self.needed, top, flat, ends)
        _take(flat, ends, count, found)
        return found

    def on_time(self, mended: npt.NDArray[np.int64]) -> list[Clause]:
        """The goal links that free tokens have a step before the end, and those of the tokens
        to be mended, are had by then."""
        last, before = self.tracks.keys[-1, self.free], self.tracks.keys[-2, self.free]
        early = last[(last == before) | np.isin(self.free, mended)]
        return self._covered(self.steps - 1, early) + self._covered(self.steps, last)

    @property
    def _layers(self) -> npt.NDArray[np.int64]:
        layers: npt.NDArray[np.int64] = self.positions[:, 0] * len(self.free) + self.positions[:, 1]
        return layers

    def _covered(self, instant: int, goals: npt.NDArray[np.int64]) -> list[Clause]:
        """Each of the goal links has a free token at an instant."""
        there = np.flatnonzero((self.positions[:, 0] == instant) & np.isin(self.keys, goals))
        order = there[np.argsort(self.keys[there], kind="stable")]
        cuts = np.flatnonzero(np.diff(self.keys[order])) + 1
        rows = [(part + 1).tolist() for part in np.split(order, cuts)]
        return rows if len(rows) == len(goals) else [[]]

    @property
    def keys(self) -> npt.NDArray[np.int64]:
        count = self.tracks.indexed.broker_count
        return link_keys(self.positions[:, 2:], count)

    def phases(self) -> list[int]:
        """Each position's variable, negative where its token is elsewhere in the plan."""
        there = self.tracks.keys[self.positions[:, 0], self.free[self.positions[:, 1]]]
        signs = np.where(there == self.keys, 1, -1)
        phases: list[int] = (signs * np.arange(1, len(signs) + 1)).tolist()
        return phases

    def mended(self, true: list[int]) -> Tracks:
        """The plan with the free tokens where a satisfying assignment has them."""
        held = np.array(true[: len(self.positions)]) > 0
        links = self.tracks.links.copy()
        for t, i, u, v in self.positions[held].tolist():
            links[t, self.free[i]] = u, v
        return Tracks(
            self.tracks.indexed, links[: len(links) - int((links[-1] == links[-2]).all())]
        )


def _take(flat: Ints, ends: Ints, count: int, found: list[Clause]) -> None:
    stops = ends[:count].tolist()
    literals = flat[: stops[-1] if stops else 0].tolist()
    begin = 0
    for stop in stops:
        found.append(literals[begin:stop])
        begin = stop


class Regions:
    """What is the same for all regions of a problem: kept links, parts, forbidden links."""

    def __init__(self, indexed: IndexedProblem) -> None:
        count = indexed.broker_count
        rows = np.zeros((len(indexed.kept), 4), np.int64)
        rows[:, 1:3] = indexed.kept
        rows[:, 3] = FIRM
        self.indexed = indexed
        self.kept = kernels.rows_by_broker(rows, count, 1)
        self.parts = np.asarray(indexed.parts)
        self.forbidden = link_keys(indexed.forbidden, count)
        self.goals = np.sort(link_keys(indexed.goals, count))

    def around(self, tracks: Tracks, free: npt.NDArray[np.int64]) -> Region | None:
        """The free tokens' surroundings; None where they are too large or leave no plan."""
        return _Growth(self, tracks, free).region()


class _Growth:
    """One region on its way."""

    def __init__(self, around: Regions, tracks: Tracks, free: npt.NDArray[np.int64]) -> None:
        self._around = around
        self._tracks = tracks
        self._free = free
        self._steps = tracks.steps
        self._count = tracks.indexed.broker_count
        self._sizes = (self._steps, len(free), self._count, _POSITIONS_MAX)
        is_held = np.ones(tracks.links.shape[1], np.bool_)
        is_held[free] = False
        self._held = np.flatnonzero(is_held)
        self._resting = self._held_rests()
        self._wanted = np.setdiff1d(around.goals, tracks.keys[-1, self._held])

    def _held_rests(self) -> Ints:
        keys = self._tracks.keys[:, self._held]
        step, place = np.nonzero(keys[: self._steps] == keys[1 : self._steps + 1])
        ends = self._tracks.links[step, self._held[place]]
        return np.column_stack([step, ends, np.full(len(step), FIRM)]).astype(np.int64)

    def _demands(self) -> npt.NDArray[np.int64]:
        """Links of free tokens along which held ones slide, as keys with the step in front."""
        found = []
        for t in range(self._steps):
            before, after = self._tracks.links[t], self._tracks.links[t + 1]
            moved = self._held[(before[self._held] != after[self._held]).any(axis=1)]
            old, new = before[moved], after[moved]
            # The ends that differ: old + new without the broker that both have.
            low = np.where((old == new[:, :1]) | (old == new[:, 1:]), 0, old + 1).sum(axis=1) - 1
            high = np.where((new == old[:, :1]) | (new == old[:, 1:]), 0, new + 1).sum(axis=1) - 1
            keys = np.minimum(low, high) * self._count + np.maximum(low, high)
            leaned = keys[np.isin(keys, self._tracks.keys[t, self._free])]
            found.append(np.unique(leaned) + t * self._count * self._count)
        return np.concatenate(found)

    def _taken(self) -> Ints:
        """Where no free token can be: held tokens' links, their goals, forbidden links."""
        instants = np.arange(self._steps + 1)[:, None] * self._count * self._count
        held = self._tracks.keys[: self._steps + 1, self._held] + instants
        never = np.concatenate([self._tracks.keys[-1, self._held], self._around.forbidden])
        keys = np.concatenate([held.ravel(), (never[None, :] + instants).ravel()])
        return kernels.table_of(keys)

    def _start(self) -> Ints:
        """Each free token where the plan has it at an instant or one step later."""
        rows = []
        for t in range(self._steps + 1):
            for later in (t, t + 1) if t else (0,):
                links = self._tracks.links[min(later, self._steps), self._free]
                token = np.arange(len(self._free))
                rows.append(np.column_stack([np.full(len(token), t), token, links]))
        return np.unique(np.concatenate(rows), axis=0)

    def region(self) -> Region | None:
        positions, around = self._start(), self._around
        pivots, _ = self._pivots(positions)
        layers = kernels.rows_by_broker(pivots, self._count, self._steps)
        positions = kernels.widen(
            positions, around.kept, layers, around.parts, self._taken(), self._sizes
        )
        return self._settled(self._in_order(positions)) if len(positions) else None

    def _in_order(self, positions: Ints) -> Ints:
        """Sorted, without those of the last instant that are no goal link of free tokens."""
        ordered = positions[np.lexsort(positions.T[::-1])]
        keys = ordered[:, 2] * self._count + ordered[:, 3]
        return ordered[(ordered[:, 0] < self._steps) | np.isin(keys, self._wanted)]

    def _table(self, positions: Ints) -> Ints:
        t, i, u, v = positions.T
        return kernels.table_of(((t * len(self._free) + i) * self._count + u) * self._count + v)

    def _pivots(self, positions: Ints) -> tuple[Ints, int]:
        return kernels.pivots_of(
            self._resting,
            positions,
            self._table(positions),
            self._steps,
            len(self._free),
            self._count,
        )

    def _settled(self, positions: Ints) -> Region | None:
        around, count = self._around, self._count
        pivots, pivot_count = self._pivots(positions)
        layers = kernels.rows_by_broker(pivots, count, self._steps)
        keys = positions[:, 2] * count + positions[:, 3]
        is_goal = np.isin(keys, around.goals)
        table = self._table(positions)
        slides, stay = kernels.slides_of(
            positions, table, around.kept, layers, is_goal, self._sizes
        )
        free_pivots = pivots[len(self._resting) :]
        pivot_keys = (free_pivots[:, 0] * count + free_pivots[:, 1]) * count + free_pivots[:, 2]
        number = _places(keys + positions[:, 0] * count * count, pivot_keys)
        number[stay == NONE] = NONE
        alive = np.ones(len(positions), np.bool_)
        can = kernels.settle(positions, slides, stay, number, pivot_count, alive)
        demanded = _places(self._demands(), pivot_keys)
        if (demanded == NONE).any():
            return None
        needed = np.zeros(pivot_count, np.bool_)
        needed[demanded] = True
        return self._compact(positions, slides[can], stay, number, needed, alive)

    def _compact(
        self, positions: Ints, slides: Ints, stay: Ints, number: Ints, needed: Flags, alive: Flags
    ) -> Region | None:
        """Only what is alive, numbered anew; None where a token, a goal or a pivot has nothing."""
        new = np.where(alive, np.cumsum(alive) - 1, NONE)
        stay = np.where(stay == NONE, NONE, new[stay])[alive]
        number = np.where(stay == NONE, NONE, number[alive])
        slides = slides.copy()
        slides[:, 0], slides[:, 1] = new[slides[:, 0]], new[slides[:, 1]]
        positions = positions[alive]
        region = Region(self._tracks, self._free, positions, slides, stay, number, needed)
        ends = region.keys[positions[:, 0] == self._steps]
        layers = len(np.unique(positions[:, 0] * len(self._free) + positions[:, 1]))
        supported = np.isin(np.flatnonzero(needed), number).all()
        if (
            layers < (self._steps + 1) * len(self._free)
            or len(np.unique(ends)) < len(self._wanted)
            or not supported
        ):
            return None
        return region


def _places(wanted: npt.NDArray[np.int64], keys: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Where each wanted key is among the keys, or NONE."""
    if not len(keys):
        return np.full(len(wanted), NONE)
    order = np.argsort(keys)
    at = np.minimum(np.searchsorted(keys, wanted, sorter=order), len(keys) - 1)
    places: npt.NDArray[np.int64] = np.where(keys[order[at]] == wanted, order[at], NONE)
    return places
