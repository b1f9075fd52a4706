"""Proof that a problem has no plan: every topology that can be reached, from both ends.

For problems whose options (a degree limit, forbidden links) leave the greedy no way. Topologies
are explored breadth-first from the source and, turn by turn, backwards from the target. If either
side runs out before they meet, there is no plan; if they meet, a plan is the way between them. It
is valid and in no way short. The memory is bounded: beyond that, nothing is said.

Why not every combination of actions is tried as a step. The actions of a step can run one after
another in any order and every rule but the degree limit still holds: pivots stay, and no link is
deleted or added twice. A shift(i, j, k) takes one link from j and gives one to k. Read as arcs
j -> k, the actions of a step fall into chains, each from a broker that loses links to one that
gains some, and cycles. A chain ends at a broker with room, so its arcs can run one by one, the
last one first. Arcs follow pivots, which are links of a tree, so a cycle has two arcs: j and k
each give the other a link, and these can run one by one unless both are full. So two kinds of
steps are enough: one shift to a broker with room, and an exchange between two full brokers (which
share brokers: with ``disjoint_brokers`` there is only the first kind). A source above the limit
is another matter: its first step must bring every broker down at once (`_first_steps`).

Not handled: ``allow_move``.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from pubweave.planning.problem.indexed import IndexedProblem, NumberedShift, NumberedSteps
from pubweave.planning.problem.problem import Stop

_STATES_MAX = 200_000

Pair = tuple[int, int]
State = tuple[Pair, ...]
"""The links of a topology that are not kept, in order."""
Shifts = tuple[NumberedShift, ...]


def _pair(u: int, v: int) -> Pair:
    return (u, v) if u < v else (v, u)


@dataclass
class _Side:
    """What is known from one end: each state with the one before it and the step between."""

    may_remove: Callable[[Pair], bool]
    may_add: Callable[[Pair], bool]
    came_from: dict[State, tuple[State, Shifts] | None] = field(default_factory=dict)
    frontier: deque[State] = field(default_factory=deque)

    def add(self, state: State, came_from: tuple[State, Shifts] | None) -> None:
        if state not in self.came_from:
            self.came_from[state] = came_from
            self.frontier.append(state)

    def steps_to(self, state: State) -> list[Shifts]:
        """The steps from this side's end to the state, first one first."""
        steps: list[Shifts] = []
        while (nearer := self.came_from[state]) is not None:
            state, shifts = nearer
            steps.append(shifts)
        return steps[::-1]


class Exhaustion:
    """Explores one problem piece by piece until a plan or its absence is known."""

    def __init__(self, indexed: IndexedProblem, states_max: int = _STATES_MAX) -> None:
        self.is_impossible = False
        self.reason = ""
        """Why there is no plan, in words."""
        self.plan: NumberedSteps | None = None
        self._states_max = states_max
        self._limit = indexed.problem.max_degree or indexed.broker_count
        self._disjoint = indexed.problem.disjoint_brokers
        self._kept: list[list[int]] = [[] for _ in range(indexed.broker_count)]
        for u, v in indexed.kept.tolist():
            self._kept[u].append(v)
            self._kept[v].append(u)
        never = _pairs(indexed.forbidden.tolist())
        goals, kept = _pairs(indexed.goals.tolist()), _pairs(indexed.kept.tolist())
        self._front = _Side(lambda link: link not in goals, lambda link: link not in never)
        # Backwards: what a shift added goes, what it removed (never a goal link) comes.
        final = never | goals | kept
        self._back = _Side(lambda _: True, lambda link: link not in final)
        self._source = _state(indexed.tokens.tolist())
        self._back.add(_state(indexed.goals.tolist()), None)
        self._starts: Iterator[Shifts] | None = None
        self._tried = 0
        if len(self._crowded(self._source, ())):
            # It can be left but not come back to, so it is on no frontier.
            self._front.came_from[self._source] = None
            self._starts = self._first_steps((), self._neighbors(self._source))
        else:
            self._front.add(self._source, None)
        if self._source in self._back.came_from:
            self.plan = []

    @property
    def is_open(self) -> bool:
        """Whether exploring on could still tell something."""
        size = self._tried + len(self._front.came_from) + len(self._back.came_from)
        return not (self.is_impossible or self.plan is not None or size >= self._states_max)

    def explore(self, stop: Stop) -> None:
        """Go on until something is known, the memory is full, or stopped."""
        while self.is_open and not stop():
            if self._starts is not None:
                self._start(next(self._starts, None))
            else:
                sides = (self._front, self._back)
                self._expand(min(sides, key=lambda side: len(side.came_from)))

    def _start(self, shifts: Shifts | None) -> None:
        """Take one more first step; None: there are no more of them."""
        self._tried += 1
        if shifts:
            state = _after(self._source, shifts)
            self._front.add(state, (self._source, shifts))
            if state in self._back.came_from:
                self._meet(state)
        elif shifts is None:
            self._starts = None
            if not self._front.frontier:
                self._give_up(
                    f"the source has brokers with more than {self._limit} links, and no single "
                    "step brings them all down to that"
                )

    def _expand(self, side: _Side) -> None:
        state = side.frontier.popleft()
        other = self._back if side is self._front else self._front
        for shifts in self._irreducible(side, self._neighbors(state)):
            after = _after(state, shifts)
            side.add(after, (state, shifts))
            if after in other.came_from:
                self._meet(after)
                return
        if not side.frontier:
            self._give_up(self._exhausted(side))

    def _exhausted(self, side: _Side) -> str:
        others = len(side.came_from) - 1
        if side is self._front:
            if not others:
                return "the rules allow no step from the source"
            return f"from the source {_topologies(others)} can be reached, the target cannot"
        if not others:
            return "the rules allow no last step to the target"
        return f"the target can be reached from {_topologies(others)}, the source is none of them"

    def _give_up(self, reason: str) -> None:
        self.is_impossible = True
        self.reason = reason

    def _meet(self, state: State) -> None:
        undone = [
            tuple((i, k, j) for i, j, k in shifts) for shifts in self._back.steps_to(state)[::-1]
        ]
        self.plan = [list(shifts) for shifts in [*self._front.steps_to(state), *undone]]

    def _neighbors(self, state: State) -> list[list[int]]:
        """All links of a state by broker; the kept ones first."""
        ends = [list(kept) for kept in self._kept]
        for u, v in state:
            ends[u].append(v)
            ends[v].append(u)
        return ends

    def _crowded(self, state: State, chains: tuple[Shifts, ...]) -> list[int]:
        """Brokers above the limit once the chains have run."""
        count = [len(near) for near in self._neighbors(state)]
        for chain in chains:
            count[chain[0][1]] -= 1
            count[chain[-1][2]] += 1
        return [broker for broker, links in enumerate(count) if links > self._limit]

    def _irreducible(self, side: _Side, ends: list[list[int]]) -> Iterator[Shifts]:
        """Every step from a topology that does not fall apart into smaller ones."""
        for j, near in enumerate(ends):
            for k in near:
                if len(ends[k]) < self._limit:
                    yield from (((mover, j, k),) for mover in self._given(side, ends, j, k))
                elif j < k and len(near) >= self._limit and not self._disjoint:
                    yield from self._exchanges(side, ends, j, k)

    def _exchanges(
        self, side: _Side, ends: list[list[int]], j: int, k: int
    ) -> Iterator[tuple[NumberedShift, NumberedShift]]:
        for one in self._given(side, ends, j, k):
            for other in self._given(side, ends, k, j):
                yield (one, j, k), (other, k, j)

    def _given(self, side: _Side, ends: list[list[int]], j: int, k: int) -> Iterator[int]:
        """The movers whose link j may hand over to its neighbor k."""
        # What is kept comes first in the list and is never given.
        for mover in ends[j][len(self._kept[j]) :]:
            if mover != k and side.may_remove(_pair(mover, j)) and side.may_add(_pair(mover, k)):
                yield mover

    def _first_steps(self, chosen: tuple[Shifts, ...], ends: list[list[int]]) -> Iterator[Shifts]:
        """Steps from a source above the limit that bring every broker down to it.

        Chains from the crowded brokers are enough; what else such a step does can come later. An
        empty step stands for a combination that is not complete, so that the caller can stop."""
        crowded = self._crowded(self._source, chosen)
        yield () if crowded else tuple(shift for chain in chosen for shift in chain)
        if not crowded:
            return
        giver = crowded[0]
        # Chains of one broker in the order of what they give: each combination once.
        last = max((chain[0][0] for chain in chosen if chain[0][1] == giver), default=-1)
        for chain in self._chains(ends, (giver,), ()):
            if chain[0][0] > last and self._get_along(chosen, chain):
                yield from self._first_steps((*chosen, chain), ends)

    def _chains(
        self, ends: list[list[int]], way: tuple[int, ...], shifts: Shifts
    ) -> Iterator[Shifts]:
        """Chains from the first broker of the way, over brokers that are full, to one with room."""
        j = way[-1]
        for k in ends[j]:
            if k in way:
                continue
            for mover in self._given(self._front, ends, j, k):
                if mover in way:
                    continue
                longer = (*shifts, (mover, j, k))
                if len(ends[k]) < self._limit:
                    yield longer
                elif not self._disjoint:
                    yield from self._chains(ends, (*way, k), longer)

    def _get_along(self, chosen: tuple[Shifts, ...], chain: Shifts) -> bool:
        before = [shift for chosen_chain in chosen for shift in chosen_chain]
        deleted = {_pair(i, j) for i, j, _ in before}
        pivots = {_pair(j, k) for _, j, k in before}
        added = {_pair(i, k) for i, _, k in before}
        for i, j, k in chain:
            if _pair(i, j) in deleted | pivots or _pair(j, k) in deleted or _pair(i, k) in added:
                return False
        busy = {broker for shift in before for broker in shift}
        return not (self._disjoint and any(broker in busy for shift in chain for broker in shift))


def _topologies(count: int) -> str:
    return f"{count:,} topolog" + ("y" if count == 1 else "ies")


def _pairs(rows: Iterable[Iterable[int]]) -> frozenset[Pair]:
    return frozenset((a, b) for a, b in rows)


def _state(rows: Iterable[Iterable[int]]) -> State:
    return tuple(sorted(_pairs(rows)))


def _after(state: State, shifts: Shifts) -> State:
    links = set(state)
    links.difference_update(_pair(i, j) for i, j, _ in shifts)
    links.update(_pair(i, k) for i, _, k in shifts)
    return tuple(sorted(links))
