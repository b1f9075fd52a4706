"""The exact model: is there a plan of T steps? As clauses over positions of tokens.

No solver is imported here. Variables: ``at(m, e, t)``, token m lies on link e after t steps, only
for the positions that `reachability` leaves alive; ``rest(e, t)``, some token stays on e through
step t + 1, so that others may slide along e; ``moves(m, t)``.

Why this is complete. An action deletes one link outside the target and adds one link, so the
links outside the target and the goal links reached form as many tokens as there are removable
links, each with one position at a time; target links once present are never deleted, so the kept
links are constant pivots and a token on a goal link stays. A plan is thus a family of token walks,
and a family of walks is a plan if every slide's pivot is kept or under a token that rests in that
step: this is the rule that a pivot is present before the step and not deleted in it. Nothing else
must be said. A deleted link (i, j) with pivot (j, k) and new link (i, k) leaves i and j joined
over k, so every step keeps the overlay connected; it has n - 1 links at most, hence it stays a
tree, no two tokens ever share a link, and no link is added that is present.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from pubweave.planning._kernels_model import Ints
from pubweave.planning.indexed import NumberedSteps
from pubweave.planning.token_positions import TokenPositions

Clause = list[int]


@dataclass
class Clauses:
    """Clauses over variables 1..count, as DIMACS has them."""

    count: int = 0
    rows: list[Clause] = field(default_factory=list)

    def new(self) -> int:
        self.count += 1
        return self.count

    def add(self, *literals: int) -> None:
        self.rows.append(list(literals))

    def add_rows(self, rows: Ints) -> None:
        self.rows.extend(rows.tolist())

    def at_most_one(self, literals: list[int]) -> None:
        """Pairwise for a few, else on a grid: row and column of the true literal are unique."""
        if len(literals) <= 5:
            for i, one in enumerate(literals):
                for other in literals[:i]:
                    self.add(-one, -other)
            return
        width = int(np.ceil(np.sqrt(len(literals))))
        columns = [self.new() for _ in range(width)]
        lines = [self.new() for _ in range((len(literals) + width - 1) // width)]
        for place, literal in enumerate(literals):
            self.add(-literal, columns[place % width])
            self.add(-literal, lines[place // width])
        self.at_most_one(columns)
        self.at_most_one(lines)


class TokenModel:
    """Clauses that hold exactly for the plans of T steps (some steps may be empty)."""

    def __init__(self, positions: TokenPositions) -> None:
        self.positions = positions
        self.indexed = positions.indexed
        self.steps = positions.steps
        self.clauses = Clauses(positions.count)
        self.moves: list[list[int]] = []
        self._ends()
        for t in range(self.steps):
            self._step(t)

    @property
    def move_literals(self) -> list[int]:
        return [literal for step in self.moves for literal in step]

    def decode(self, true: Iterable[int]) -> NumberedSteps:
        """The shifts of a satisfying assignment."""
        holds = np.zeros(self.positions.count + 1, dtype=np.bool_)
        for literal in true:
            if 0 < literal <= self.positions.count:
                holds[literal] = True
        return self.positions.decode(holds)

    def _ends(self) -> None:
        """Each token is somewhere, once, and each goal link gets one."""
        at = self.positions.at
        for t in range(self.steps + 1):
            for m in range(self.indexed.token_count):
                literals = np.unique(at[t, m])[1:].tolist()
                self.clauses.add(*literals)
                self.clauses.at_most_one(literals)
        for a, b in self.indexed.goals.tolist():
            last = at[self.steps, :, a, b]
            self.clauses.add(*last[last > 0].tolist())

    def _step(self, t: int) -> None:
        resting: dict[tuple[int, int], int] = {}
        movers = [self.clauses.new() for _ in range(self.indexed.token_count)]
        for m, moving in enumerate(movers):
            found = self.positions.slides[t][m]
            self._support(found, self.positions.stays(t, m), moving)
            self._lean(found, resting)
        for (u, v), literal in resting.items():
            self._rest(t, u, v, literal)
        self.moves.append(movers)

    def _support(self, found: Ints, stays: Ints, moving: int) -> None:
        """A token is after the step where it was or one slide away, and was likewise before."""
        forward: dict[int, Clause] = {}
        backward: dict[int, Clause] = {}
        for before, after, _, _ in stays.tolist():
            forward[before] = [-before] + ([after] if after else [])
            if after:
                backward[after] = [-after, before]
                self.clauses.add(-before, after, moving)
                self.clauses.add(-before, -after, -moving)
            else:
                self.clauses.add(-before, moving)
        for before, after in found[:, :2].tolist():
            forward[before].append(after)
            backward.setdefault(after, [-after]).append(before)
        self.clauses.rows.extend(forward.values())
        self.clauses.rows.extend(backward.values())

    def _lean(self, found: Ints, resting: dict[tuple[int, int], int]) -> None:
        """A slide along a link that is not kept needs a token that rests there."""
        kept = self.positions.kept[found[:, 3], found[:, 4]]
        for before, after, _, u, v in found[~kept].tolist():
            pivot = (u, v) if u < v else (v, u)
            literal = resting.get(pivot)
            if literal is None:
                literal = resting[pivot] = self.clauses.new()
            self.clauses.add(-before, -after, literal)

    def _rest(self, t: int, u: int, v: int, literal: int) -> None:
        options = [-literal]
        at = self.positions.at
        for m in range(self.indexed.token_count):
            here, then = int(at[t, m, u, v]), int(at[t + 1, m, u, v])
            if here and then:
                stays = self.clauses.new()
                self.clauses.add(-stays, here)
                self.clauses.add(-stays, then)
                options.append(stays)
        self.clauses.add(*options)
