"""The baseline of IPITT's evaluation: the best-first search of Yoon et al., as section VI tells it.

A node is a topology, an edge one shift. The search takes the shift of least estimated cost, ties
broken at random, and follows that branch to its end or to the depth limit; then it starts over
from the best option left. It runs until it is stopped and returns the plan of fewest actions (or
least cost), one action per step. `parallelised` puts the actions of such a plan side by side.

The estimate of a topology is the number of shifts its goal links are still away: for each, the
length of the path between its ends, less one. A shift moves one link, so its effect on the
estimate follows from the goal paths that cross that link: those that go on over the pivot become
one shorter, the others one longer.
"""

from __future__ import annotations

import heapq
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from pubweave.model.ids import BrokerId, Link
from pubweave.model.plans import Bounds, Plan, PlanStatus, Shift
from pubweave.planning.check.validate import validate_plan
from pubweave.planning.problem.problem import (
    OnProgress,
    PlanningProblem,
    PlanningProgress,
    PlanResult,
    Stop,
    ignore_progress,
)

EXPANSIONS_MAX = 10_000
_DEPTH_PER_ESTIMATE = 2
_OPEN_MAX = 200_000


@dataclass(frozen=True)
class _SearchNode:
    """A topology that the search has come to, and how."""

    links: frozenset[Link]
    depth: int = 0
    cost: float = 0.0
    parent: _SearchNode | None = None
    shift: Shift | None = None

    def actions(self) -> tuple[Shift, ...]:
        found = []
        node: _SearchNode | None = self
        while node is not None and node.shift is not None:
            found.append(node.shift)
            node = node.parent
        return tuple(reversed(found))


@dataclass(frozen=True, order=True)
class _Option:
    """A shift that may be taken at a node, and the estimate of what lies behind it."""

    estimate: int
    tie: float
    node: _SearchNode = field(compare=False)
    shift: Shift = field(compare=False)

    def taken(self, cost: float) -> _SearchNode:
        links = self.node.links - {self.shift.removed_link} | {self.shift.added_link}
        return _SearchNode(links, self.node.depth + 1, self.node.cost + cost, self.node, self.shift)


def plan_by_bfs(
    problem: PlanningProblem,
    *,
    stop: Stop,
    clock: Callable[[], float],
    seed: int = 0,
    parallel: bool = False,
    expansions_max: int = EXPANSIONS_MAX,
    on_progress: OnProgress = ignore_progress,
) -> PlanResult:
    """Search until stopped or out of expansions; both topologies must have the same brokers."""
    started_at = clock()
    search = _BestFirstSearch(problem, np.random.default_rng(seed), stop, clock, on_progress)
    search.run(expansions_max)
    goal_links = len(problem.goal_links)
    bounds = Bounds(min(1, goal_links), goal_links)
    figures = {
        "expansions": search.expansions,
        "best_found_s": search.best_found_at - started_at if search.best is not None else None,
    }
    method = "bfs-parallel" if parallel else "bfs"
    if search.best is None:
        note = f"no plan found in {search.expansions} expansions"
        seconds = clock() - started_at
        return PlanResult(PlanStatus.UNKNOWN, None, bounds, method, seconds, (note,), figures)
    serial = Plan(tuple((action,) for action in search.best))
    side_by_side = parallelised(problem, search.best)
    plan = side_by_side if parallel else serial
    validate_plan(problem, plan)
    figures["parallel_steps"] = side_by_side.step_count
    exact = (plan.step_count, plan.action_count) == (bounds.steps, bounds.actions)
    status = PlanStatus.OPTIMAL if exact else PlanStatus.FEASIBLE
    return PlanResult(status, plan, bounds, method, clock() - started_at, (), figures)


class _BestFirstSearch:
    def __init__(
        self,
        problem: PlanningProblem,
        rng: np.random.Generator,
        stop: Stop,
        clock: Callable[[], float],
        on_progress: OnProgress,
    ) -> None:
        self._problem = problem
        self._rng = rng
        self._stop = stop
        self._clock = clock
        self._on_progress = on_progress
        self._open: list[_Option] = []
        self._seen: set[frozenset[Link]] = set()
        self._depth_max = 0
        self.best: tuple[Shift, ...] | None = None
        self.best_cost = np.inf
        self.best_found_at = 0.0
        self.expansions = 0

    def run(self, expansions_max: int) -> None:
        root = _SearchNode(self._problem.source.links)
        self._depth_max = max(1, _DEPTH_PER_ESTIMATE * _View(self._problem, root.links).estimate)
        self._follow(root, expansions_max)
        while self._open and self.expansions < expansions_max and not self._stop():
            self._follow(self._take(heapq.heappop(self._open)), expansions_max)

    def _follow(self, node: _SearchNode | None, expansions_max: int) -> None:
        """One branch, always by its best option, to its end or to the depth limit."""
        while node is not None and node.links not in self._seen:
            missing = len(self._problem.target.links - node.links)
            if not missing:
                self._keep(node)
                return
            hopeless = node.cost + missing * self._least_cost() >= self.best_cost
            if hopeless or node.depth >= self._depth_max:
                return
            if self.expansions >= expansions_max or self._stop():
                return
            self._seen.add(node.links)
            self.expansions += 1
            options = self._options(node)
            for other in options[1:]:
                if len(self._open) < _OPEN_MAX:
                    heapq.heappush(self._open, other)
            node = self._take(options[0]) if options else None

    def _options(self, node: _SearchNode) -> list[_Option]:
        shifts = _View(self._problem, node.links).shifts()
        ties = self._rng.random(len(shifts)).tolist()
        return sorted(
            _Option(estimate, tie, node, shift)
            for (estimate, shift), tie in zip(shifts, ties, strict=True)
        )

    def _take(self, option: _Option) -> _SearchNode:
        return option.taken(self._cost(option.shift))

    def _keep(self, node: _SearchNode) -> None:
        if node.cost < self.best_cost:
            self.best, self.best_cost = node.actions(), node.cost
            self.best_found_at = self._clock()
            plan = Plan(tuple((action,) for action in self.best))
            self._on_progress(PlanningProgress(f"bfs: plan of {plan.action_count} actions", plan))

    def _cost(self, shift: Shift) -> float:
        costs = self._problem.action_cost
        return 1.0 if costs is None else float(costs.get(shift, 1.0))

    def _least_cost(self) -> float:
        return 1.0 if self._problem.action_cost is None else 0.0


class _View:
    """What the search wants to know about one topology."""

    def __init__(self, problem: PlanningProblem, links: frozenset[Link]) -> None:
        self._problem = problem
        self._links = links
        self._neighbors = replace(problem.source, links=links).neighbors
        self._paths = self._goal_paths()
        self.estimate = sum(len(way) - 2 for way in self._paths)

    def shifts(self) -> list[tuple[int, Shift]]:
        """Every shift the rules allow, with the estimate behind it, in the order of the ids."""
        crossing: Counter[tuple[BrokerId, BrokerId]] = Counter()
        onwards: Counter[tuple[BrokerId, BrokerId, BrokerId]] = Counter()
        for way in self._paths:
            for here in (way, way[::-1]):
                crossing.update(pairwise(here))
                onwards.update(zip(here, here[1:], here[2:], strict=False))
        found = []
        for link in sorted(self._links - self._problem.target.links):
            for mover, old_peer in (link, link[::-1]):
                # Each path is counted once from either end, so once in this direction.
                across = crossing[mover, old_peer]
                for new_peer in self._neighbors[old_peer]:
                    shift = Shift(mover, old_peer, new_peer)
                    if new_peer != mover and self._allowed(shift):
                        shorter = onwards[mover, old_peer, new_peer]
                        found.append((self.estimate + across - 2 * shorter, shift))
        return found

    def _allowed(self, shift: Shift) -> bool:
        limit = self._problem.max_degree
        if limit is not None:
            # Where the source is above the limit, the first shift must bring it down.
            above = self._degrees_above(limit)
            lowered = above == {shift.old_peer: limit + 1}
            if (above and not lowered) or len(self._neighbors[shift.new_peer]) >= limit:
                return False
        return shift.added_link not in self._problem.forbidden

    def _degrees_above(self, limit: int) -> dict[BrokerId, int]:
        return {broker: len(ends) for broker, ends in self._neighbors.items() if len(ends) > limit}

    def _goal_paths(self) -> list[tuple[BrokerId, ...]]:
        parent, depth = _rooted(self._neighbors)
        return [
            _way(parent, depth, *link) for link in sorted(self._problem.target.links - self._links)
        ]


def _rooted(
    neighbors: Mapping[BrokerId, tuple[BrokerId, ...]],
) -> tuple[dict[BrokerId, BrokerId], dict[BrokerId, int]]:
    root = next(iter(neighbors))
    parent, depth = {root: root}, {root: 0}
    waiting = [root]
    for broker in waiting:
        for neighbor in neighbors[broker]:
            if neighbor not in depth:
                parent[neighbor], depth[neighbor] = broker, depth[broker] + 1
                waiting.append(neighbor)
    return parent, depth


def _way(
    parent: Mapping[BrokerId, BrokerId], depth: Mapping[BrokerId, int], a: BrokerId, b: BrokerId
) -> tuple[BrokerId, ...]:
    from_a, from_b = [a], [b]
    while from_a[-1] != from_b[-1]:
        deeper = from_a if depth[from_a[-1]] >= depth[from_b[-1]] else from_b
        deeper.append(parent[deeper[-1]])
    return tuple(from_a + from_b[-2::-1])


def parallelised(problem: PlanningProblem, actions: Sequence[Shift]) -> Plan:
    """The same shifts in the same order, each in the earliest step the rules allow.

    With a degree limit the order matters to what is in between: then one action per step stays
    wherever side by side would break the limit."""
    usable_from: dict[Link, int] = {}
    pivot_until: dict[Link, int] = {}
    gone_at: dict[Link, int] = {}
    busy: list[set[BrokerId]] = []
    steps: list[list[Shift]] = []
    for action in actions:
        removed, pivot, added = action.removed_link, action.pivot_link, action.added_link
        place = max(
            usable_from.get(removed, 0),
            usable_from.get(pivot, 0),
            pivot_until.get(removed, -1) + 1,
            gone_at.get(added, -1) + 1,
        )
        if problem.disjoint_brokers:
            while place < len(steps) and busy[place].intersection(action.brokers):
                place += 1
        while place >= len(steps):
            steps.append([])
            busy.append(set())
        steps[place].append(action)
        busy[place].update(action.brokers)
        usable_from[added] = place + 1
        gone_at[removed] = place
        pivot_until[pivot] = max(place, pivot_until.get(pivot, -1))
    plan = Plan(tuple(tuple(step) for step in steps))
    if problem.max_degree is not None and not _within_degrees(problem, plan):
        return Plan(tuple((action,) for action in actions))
    return plan


def _within_degrees(problem: PlanningProblem, plan: Plan) -> bool:
    assert problem.max_degree is not None
    degree = Counter(end for link in problem.source.links for end in link)
    for step in plan.steps:
        for action in step:
            assert isinstance(action, Shift)
            degree[action.old_peer] -= 1
            degree[action.new_peer] += 1
        if max(degree.values()) > problem.max_degree:
            return False
    return True
