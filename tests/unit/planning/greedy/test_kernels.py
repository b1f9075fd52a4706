"""The greedy's kernels: one step equals its slow twin, and whole plans keep every rule."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest

from pubweave.generate.topologies.trees import chain, change_links, random_tree, star
from pubweave.model.ids import Link
from pubweave.model.topology import Topology
from pubweave.planning.check.validate import validate_plan
from pubweave.planning.greedy import _kernels as kernels
from pubweave.planning.greedy.greedy import Greedy
from pubweave.planning.problem.indexed import NumberedSteps, indexed
from pubweave.planning.problem.problem import PlanningProblem
from tests.naive.greedy_step import Slide, Step
from tests.naive.reachability import Pair, pair

BROKERS = 14


def some_step(seed: int) -> Step:
    """A random tree in which some links are kept and some goals have been reached."""
    rng = np.random.default_rng(seed)
    source = random_tree(BROKERS, rng)
    problem = indexed(PlanningProblem(source, change_links(source, 0.6, rng)))
    links = [pair(*row) for row in [*problem.tokens.tolist(), *problem.kept.tolist()]]
    # Either end of a link may come first, as after some slides.
    links = [(b, a) if rng.random() < 0.5 else (a, b) for a, b in links]
    goals = [pair(*row) for row in problem.goals.tolist()]
    frozen = {*range(len(goals), len(links))}
    weight = rng.uniform(0.5, 3.0, len(goals)).round(2).tolist()
    return Step(links, goals, frozen, weight, BROKERS)


class Kernels:
    """The kernel's arrays for a step."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.links = np.array(step.links, dtype=np.int64)
        self.goals = np.array(step.goals, dtype=np.int64)
        size = len(self.links)
        self.start = np.zeros(step.brokers + 1, np.int64)
        self.to, self.by = np.empty(2 * size, np.int64), np.empty(2 * size, np.int64)
        kernels.adjacency(self.links, self.start, self.to, self.by)
        self.parent, self.over, self.depth = (np.empty(step.brokers, np.int64) for _ in range(3))
        queue = np.empty(step.brokers, np.int64)
        kernels.root(self.start, self.to, self.by, self.parent, self.over, self.depth, queue)
        self.first = np.zeros(len(self.goals) + 1, np.int64)
        self.flat = kernels.paths(
            self.goals,
            np.full(len(self.goals), -1, np.int64),
            self.parent,
            self.over,
            self.depth,
            self.first,
            np.empty(1, np.int64),
        )
        self.frozen = np.zeros(size, np.bool_)
        self.frozen[sorted(step.frozen)] = True
        tokens = len(self.goals)
        self.offset = kernels.offsets(self.links, self.start, self.frozen, tokens)

    def path(self, goal: int) -> list[int]:
        found: list[int] = self.flat[self.first[goal] : self.first[goal + 1]].tolist()
        return found

    def gains(self) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
        return kernels.weigh(
            self.links,
            self.start,
            self.by,
            self.offset,
            self.first,
            self.flat,
            self.frozen,
            np.array(self.step.weight),
        )

    def chosen(
        self,
        noise: list[float],
        guarded: set[int],
        max_degree: int,
        disjoint: bool,
        forbidden: set[Pair],
    ) -> list[Slide]:
        on_guard = np.zeros(len(self.links), np.bool_)
        on_guard[sorted(guarded)] = True
        out = np.empty((len(self.goals), 4), np.int64)
        taken = kernels.choose(
            self.links,
            self.start,
            self.to,
            self.by,
            self.offset,
            self.gains(),
            on_guard,
            np.array(noise),
            np.array([99, max_degree, int(disjoint)]),
            np.array(sorted(a * BROKERS + b for a, b in forbidden), dtype=np.int64),
            out,
        )
        return [(int(side) // 2, int(i), int(j), int(k)) for side, i, j, k in out[:taken]]


@pytest.mark.parametrize("seed", range(20))
def test_neighbors_and_paths_equal_their_twin(seed: int) -> None:
    step = some_step(seed)
    fast = Kernels(step)
    for broker in range(BROKERS):
        row = slice(fast.start[broker], fast.start[broker + 1])
        assert fast.by[row].tolist() == step.at(broker)
        ends = [step.far_end(number, broker) for number in step.at(broker)]
        assert fast.to[row].tolist() == ends
    for number, goal in enumerate(step.goals):
        assert fast.path(number) == step.path(*goal)


@pytest.mark.parametrize("seed", range(20))
def test_the_gain_of_each_slide_equals_its_twin(seed: int) -> None:
    step = some_step(seed)
    gains = Kernels(step).gains()
    candidates = step.candidates()
    assert len(gains) == len(candidates)
    for gain, (token, _, over) in zip(gains, candidates, strict=True):
        if over != token:
            assert gain == pytest.approx(step.gain(token, over))


@pytest.mark.parametrize("disjoint", [False, True])
@pytest.mark.parametrize("max_degree", [0, 4])
@pytest.mark.parametrize("seed", range(12))
def test_the_slides_of_a_step_equal_their_twin(seed: int, max_degree: int, disjoint: bool) -> None:
    rng = np.random.default_rng(seed)
    step = some_step(seed)
    noise = rng.uniform(0.7, 1.4, 31).tolist()
    pairs = rng.integers(0, BROKERS, (12, 2)).tolist()
    forbidden = {pair(a, b) for a, b in pairs if a != b} - {pair(*link) for link in step.links}
    guarded = set(step.path(*step.goals[0])) if seed % 3 == 0 else set()
    arguments = (noise, guarded, max_degree, disjoint, forbidden)
    chosen = step.chosen(*arguments)
    assert Kernels(step).chosen(*arguments) == chosen
    assert chosen


@pytest.mark.parametrize("hope", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("spare", [0, 3, 9])
def test_a_goal_counts_the_more_the_less_slack_it_has(spare: int, hope: float) -> None:
    first = np.array([0, 1, 3, 8, 20])
    flat = np.array([0, 0, 3, 0, 1, 3, 3, 3, *([0, 1, 2] + [3] * 9)])
    frozen = np.array([False, False, False, True])
    found = kernels.weights(first, flat, frozen, spare, np.array([5.0, 1.5, hope]))
    expected = [0.0]
    for length, tokens in ((2, 1), (5, 2), (12, 3)):
        expected.append(1 + 5.0 * 1.5 ** -max(spare - (length - 1) / tokens**hope, -2))
    assert found.tolist() == pytest.approx(expected)
    assert (np.diff(found) >= 0).all()


def test_a_survey_freezes_what_is_done_and_counts_the_rest() -> None:
    first = np.array([0, 1, 1, 5, 8])
    flat = np.array([2, 0, 1, 3, 4, 3, 1, 5])
    done_at, frozen = np.array([-1, 4, -1, -1]), np.zeros(6, np.bool_)
    left, total, nearest = kernels.survey(7, first, flat, done_at, frozen)
    assert (left, total, nearest) == (2, 5, 3)
    assert done_at.tolist() == [7, 4, -1, -1]
    assert np.flatnonzero(frozen).tolist() == [2]
    assert np.flatnonzero(kernels.links_on(3, first, flat, 6)).tolist() == [1, 3, 5]
    assert not kernels.links_on(-1, first, flat, 6).any()


def options(problem: PlanningProblem, rng: np.random.Generator) -> list[PlanningProblem]:
    """The problem under every combination of the options that the greedy knows."""
    names = sorted(problem.source.brokers)
    pairs = {Link.between(*rng.choice(names, 2, replace=False).tolist()) for _ in range(10)}
    forbidden = frozenset(pairs) - problem.source.links - problem.target.links
    most = max(t.degree(b) for t in (problem.source, problem.target) for b in names)
    return [
        replace(problem, disjoint_brokers=disjoint, max_degree=limit, forbidden=never)
        for disjoint in (False, True)
        for limit in (None, most, most + 1)
        for never in (frozenset(), forbidden)
    ]


def trees(seed: int) -> tuple[Topology, Topology]:
    rng = np.random.default_rng(seed)
    source = random_tree(24, rng)
    shapes = [
        (source, change_links(source, 0.3, rng)),
        (source, random_tree(24, rng)),
        (chain(16), random_tree(16, rng)),
        (random_tree(16, rng), star(16)),
    ]
    return shapes[seed % len(shapes)]


def attempts(greedy: Greedy, best: NumberedSteps) -> Iterator[NumberedSteps]:
    """The first plan and what 40 runs make of it."""
    left = iter(range(40))
    yield best
    yield from greedy.improve(best, lambda: next(left, None) is None)


@pytest.mark.parametrize("seed", range(12))
def test_every_plan_is_valid_under_every_option(seed: int) -> None:
    """First plans and 40 attempts at better ones, forwards and backwards."""
    rng = np.random.default_rng(seed)
    plans = 0
    for problem in options(PlanningProblem(*trees(seed)), rng):
        numbered = indexed(problem)
        greedy = Greedy(numbered, np.random.default_rng(seed))
        best = greedy.first()
        for steps in attempts(greedy, best) if best else ():
            validate_plan(problem, numbered.plan(steps))
            plans += 1
    assert plans >= 6


def test_a_limit_that_is_too_short_fails_instead_of_lying() -> None:
    numbered = indexed(PlanningProblem(chain(12), star(12)))
    tokens = numbered.token_count
    steps, _, done_at = kernels.greedy_plan(
        np.concatenate([numbered.tokens, numbered.kept]),
        numbered.goals,
        numbered.broker_count,
        np.ones(tokens),
        2,
        np.array([5.0, 1.5, 0.0]),
        np.ones(1),
        np.array([2, 0, 0]),
        np.empty(0, np.int64),
        np.empty((tokens * 100 + 1, 4), np.int64),
    )
    assert steps == kernels.FAILED
    assert (done_at < 0).any()
