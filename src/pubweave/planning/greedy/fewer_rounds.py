"""Plans that are carried out sooner: the same steps and no more actions, in fewer rounds.

Actions of a step that share a broker wait for each other, so a step takes as many rounds as its
busiest broker has actions, and a plan as many as its steps together. Plans of fewest steps are made
without regard to that. Here the tokens of such a plan (`planning.problem.indexed`) are laid anew,
one at a time while all others stay (`_kernels_fewer_rounds.reroute`), each by the way that adds the
fewest rounds. Where that comes to rest, a few tokens are sent elsewhere and it begins anew.

Every plan on the way is valid; none has more steps or actions than the one before. Found by
counted tries, so that the same seed gives the same plan; no proof that no fewer rounds will do.
Not for problems whose rules look at more than links: ``applies_to``.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from pubweave.model.plans import Plan
from pubweave.planning.greedy._kernels import occupy, reroute, slide
from pubweave.planning.problem.indexed import IndexedProblem, NumberedSteps, walks
from pubweave.planning.problem.problem import PlanningProblem, Stop

TRIES_PER_TOKEN = 300
_CELLS_MAX = 4_000_000
"""Steps x pairs of brokers for which there is room: 24 bytes each."""
_KICKED_MAX = 3
_SWEEPS = 2
_WORSE_TAKEN = 0.02
"""So often a plan with one round more is gone on from."""
_ROUND_PRICE = 1e4
_BASES = (1.5, 2.0, 3.0)
_NOISES = (0.0, 0.3, 1.0)
_KICK_NOISE = 1.5
_NOISE_LENGTH = 1021
_LEVELS = 16

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]


def applies_to(problem: PlanningProblem) -> bool:
    """Whether actions may be changed for others: none has a price, degrees do not matter, and
    rounds are not the steps anyway."""
    return not (
        problem.disjoint_brokers
        or problem.allow_move
        or problem.max_degree is not None
        or problem.action_cost is not None
    )


def quieter_plan(numbered: IndexedProblem, plan: Plan, seed: int, stop: Stop) -> Plan:
    """The plan, or one of as many steps and at most as many actions that takes fewer rounds."""
    if not applies_to(numbered.problem):
        return plan
    found = quieter(numbered, numbered.steps(plan), np.random.default_rng(seed), stop)
    return numbered.plan(found)


def quieter(
    numbered: IndexedProblem,
    steps: NumberedSteps,
    rng: np.random.Generator,
    stop: Stop,
    tries_per_token: int = TRIES_PER_TOKEN,
) -> NumberedSteps:
    """A plan of as many steps and at most as many actions, with the fewest rounds found."""
    assert applies_to(numbered.problem), "its rules look at more than links"
    if not steps or len(steps) * numbered.broker_count**2 > _CELLS_MAX:
        return steps
    search = _RoundSearch(numbered, steps, rng)
    left = tries_per_token * numbered.token_count
    while left > 0 and search.fewest > len(steps) and not stop():
        left -= search.turn()
    return _steps(search.best)


class _RoundSearch:
    """Where all tokens are before each step, and how busy that makes each broker in each step."""

    def __init__(
        self, numbered: IndexedProblem, steps: NumberedSteps, rng: np.random.Generator
    ) -> None:
        count = numbered.broker_count
        self._rng = rng
        self._kept = numbered.kept
        self._closed = np.zeros((count, count), dtype=np.bool_)
        for links in (numbered.kept, numbered.goals, numbered.forbidden):
            self._closed[links[:, 0], links[:, 1]] = True
            self._closed[links[:, 1], links[:, 0]] = True
        self._places = _places(numbered, steps)
        self._busy = np.zeros((len(steps), count), dtype=np.int64)
        self._count_busy()
        cells = len(steps) + 1, count * count
        self._room = (
            np.full(cells, np.inf),
            np.empty(cells, dtype=np.int64),
            np.empty(cells, dtype=np.int64),
            np.zeros(len(steps) + 1, dtype=np.int64),
        )
        self.best = self._places.copy()
        self.fewest = self._rounds()
        self._from = self._places.copy()
        self._from_rounds = self.fewest

    def turn(self) -> int:
        """Send some tokens elsewhere, then lay all anew; keep that unless it has more rounds.

        Returns the number of ways that were laid."""
        rng = self._rng
        company = float(rng.choice(_BASES)) ** np.arange(_LEVELS)
        kicked = rng.permutation(len(self._places))[: int(rng.integers(1, _KICKED_MAX + 1))]
        loose = np.concatenate([[float(rng.choice((0.0, 1.0, 10.0)))], company])
        for token in kicked:
            self._reroute(int(token), loose, self._noise(_KICK_NOISE))
        strict = np.concatenate([[_ROUND_PRICE], company])
        noise = self._noise(float(rng.choice(_NOISES)))
        for _ in range(_SWEEPS):
            for token in rng.permutation(len(self._places)):
                self._reroute(int(token), strict, noise)
        self._judge()
        return len(kicked) + _SWEEPS * len(self._places)

    def _judge(self) -> None:
        rounds = self._rounds()
        slack = 1 if self._rng.random() < _WORSE_TAKEN else 0
        if rounds <= self._from_rounds + slack:
            self._from[:] = self._places
            self._from_rounds = rounds
        else:
            self._places[:] = self._from
            self._count_busy()
        if rounds < self.fewest:
            self.fewest = rounds
            self.best[:] = self._places

    def _reroute(self, token: int, prices: Floats, noise: Floats) -> None:
        reroute(
            token, self._places, self._kept, self._closed, self._busy, prices, noise, self._room
        )

    def _noise(self, scale: float) -> Floats:
        noise: Floats = np.exp(scale * self._rng.standard_normal(_NOISE_LENGTH))
        return noise

    def _count_busy(self) -> None:
        self._busy[:] = 0
        for way in self._places:
            occupy(way, self._busy, 1)

    def _rounds(self) -> int:
        return int(self._busy.max(axis=1).sum())


def _places(numbered: IndexedProblem, steps: NumberedSteps) -> Ints:
    """The link of each token before each step, and after the last one."""
    return walks(numbered.tokens, steps).swapaxes(0, 1).copy()


def _steps(places: Ints) -> NumberedSteps:
    """The shifts between the places of tokens."""
    steps: NumberedSteps = []
    for step in range(places.shape[1] - 1):
        slides = [slide(way[step], way[step + 1]) for way in places]
        steps.append([(int(i), int(j), int(k)) for i, j, k in slides if i >= 0])
    return steps
