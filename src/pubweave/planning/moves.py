"""Plans with composite moves (IPITT section V): a removable link becomes a goal link at once.

A move deletes a link on the path between the ends of its goal link; the rest of that path must
stay during the step. Greedy: each step takes the goal links by length of path and gives each the
first link that the others leave free. Every path holds a removable link (the target has no
cycle), so each step makes at least one goal link, and each action makes one: no plan has fewer
actions. Steps are not proven fewest, except where one step is enough.
"""

from __future__ import annotations

from itertools import pairwise

from pubweave.model.ids import BrokerId, Link
from pubweave.model.plans import Action, Move, Plan
from pubweave.model.topology import Topology
from pubweave.planning.problem.problem import PlanningProblem


def plan_moves(problem: PlanningProblem) -> Plan | None:
    """A plan of moves only, or None where the degree limit leaves this greedy no way."""
    topology = problem.source
    steps: list[tuple[Action, ...]] = []
    while topology.links != problem.target.links:
        step = _Step(problem, topology)
        step.fill()
        if not step.actions or not step.holds_limit:
            return None
        steps.append(tuple(sorted(step.actions, key=str)))
        removed = {action.removed_link for action in step.actions}
        added = {action.added_link for action in step.actions}
        topology = Topology(topology.brokers, (topology.links - removed) | added)
    return Plan(tuple(steps))


def fewest_move_steps(problem: PlanningProblem) -> int:
    """A lower bound on the steps: 0, 1, or 2 if one step cannot be enough.

    In a single step every removable link is deleted, so no path may need two of them to stay."""
    if not problem.goal_links:
        return 0
    removable = problem.removable_links
    for goal in sorted(problem.goal_links):
        path = problem.source.path(*goal)
        if sum(Link.between(a, b) in removable for a, b in pairwise(path)) > 1:
            return 2
    return 1


class _Step:
    def __init__(self, problem: PlanningProblem, topology: Topology) -> None:
        self._problem = problem
        self._topology = topology
        self._deleted: set[Link] = set()
        self._held: set[Link] = set()
        self._busy: set[BrokerId] = set()
        self._degree = {broker: topology.degree(broker) for broker in topology.brokers}
        self.actions: list[Move] = []

    @property
    def holds_limit(self) -> bool:
        """Whether no broker is above the degree limit after the step; a source may have been."""
        limit = self._problem.max_degree
        return limit is None or max(self._degree.values()) <= limit

    def fill(self) -> None:
        missing = self._problem.target.links - self._topology.links
        paths = sorted((self._topology.path(*goal) for goal in missing), key=_by_length)
        for path in paths:
            self._try(path)

    def _try(self, path: tuple[BrokerId, ...]) -> None:
        links = [Link.between(a, b) for a, b in pairwise(path)]
        if self._deleted.intersection(links):
            return
        if self._problem.disjoint_brokers and self._busy.intersection(path):
            return
        target = self._problem.target.links
        for link in links:
            if link not in target and link not in self._held and self._fits(link, path):
                self._take(link, path, links)
                return

    def _fits(self, link: Link, path: tuple[BrokerId, ...]) -> bool:
        limit = self._problem.max_degree
        if limit is None:
            return True
        return all(self._degree[end] - (end in link) < limit for end in (path[0], path[-1]))

    def _take(self, link: Link, path: tuple[BrokerId, ...], links: list[Link]) -> None:
        goal = Link.between(path[0], path[-1])
        self.actions.append(Move(*link, *goal))
        self._deleted.add(link)
        self._held.update(other for other in links if other != link)
        self._busy.update(path)
        for end in link:
            self._degree[end] -= 1
        for end in goal:
            self._degree[end] += 1


def _by_length(path: tuple[BrokerId, ...]) -> tuple[int, tuple[BrokerId, ...]]:
    return len(path), path
