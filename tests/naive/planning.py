"""The slow, obvious planner: breadth-first over whole topologies, every legal step of every state.

Shares no code with ``pubweave.planning``. Good for up to 7 brokers. A state is the set of present
links; layer t maps each state reachable in t steps to the least cost of getting there, and the
first layer that holds the target has the fewest steps and, at that number, the least cost.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from pubweave.model.ids import BrokerId, Link
from pubweave.model.plans import Action, Move, Shift
from pubweave.model.topology import Topology

State = frozenset[Link]


@dataclass(frozen=True)
class Option:
    """One action in one state: what it deletes, leans on and adds, and who takes part."""

    action: Action
    removed: Link
    pivots: frozenset[Link]
    added: Link
    brokers: frozenset[BrokerId]


def fewest(problem: Any, most_steps: int = 30) -> tuple[int, float] | None:
    """The fewest steps of any plan and its least cost at that many steps; None without a plan."""
    target = problem.target.links
    layer: dict[State, float] = {problem.source.links: 0}
    seen: set[State] = set(layer)
    for steps in range(most_steps + 1):
        if target in layer:
            return steps, layer[target]
        following: dict[State, float] = {}
        for state, cost in layer.items():
            for after, extra in successors(problem, state):
                # A state seen in an earlier layer cannot lie on a plan of fewest steps.
                if after not in seen and following.get(after, float("inf")) > cost + extra:
                    following[after] = cost + extra
        if not following:
            return None
        seen.update(following)
        layer = following
    return None


def successors(problem: Any, state: State) -> Iterator[tuple[State, float]]:
    """Every state that one legal step leads to, with the cost of that step."""
    for chosen in steps_from(problem, state):
        after = (state - {o.removed for o in chosen}) | {o.added for o in chosen}
        assert len(after) == len(state), "a link was added twice"
        if problem.max_degree is not None and largest_degree(after) > problem.max_degree:
            continue
        yield after, sum(cost_of(problem, o.action) for o in chosen)


def steps_from(problem: Any, state: State) -> Iterator[list[Option]]:
    """Every non-empty set of options of a state that may run at once."""
    by_link: dict[Link, list[Option]] = {}
    for option in options(problem, state):
        by_link.setdefault(option.removed, []).append(option)
    groups = list(by_link.values())

    def extend(index: int, chosen: list[Option]) -> Iterator[list[Option]]:
        if index == len(groups):
            if chosen:
                yield list(chosen)
            return
        yield from extend(index + 1, chosen)
        for option in groups[index]:
            if all(compatible(problem, option, other) for other in chosen):
                chosen.append(option)
                yield from extend(index + 1, chosen)
                chosen.pop()

    return extend(0, [])


def compatible(problem: Any, one: Option, other: Option) -> bool:
    if one.removed in other.pivots or other.removed in one.pivots:
        return False
    if one.removed == other.removed or one.added == other.added:
        return False
    return not (problem.disjoint_brokers and one.brokers & other.brokers)


def options(problem: Any, state: State) -> Iterator[Option]:
    """Every single action that a state allows."""
    target = problem.target.links
    topology = Topology(problem.source.brokers, state)
    for removed in sorted(state - target - problem.pinned):
        for mover in removed:
            old_peer = removed.far_end(mover)
            for new_peer in topology.neighbors[old_peer]:
                if new_peer == mover:
                    continue
                shift = Shift(mover, old_peer, new_peer)
                if shift.added_link not in problem.forbidden:
                    yield Option(
                        shift,
                        removed,
                        frozenset({shift.pivot_link}),
                        shift.added_link,
                        frozenset(shift.brokers),
                    )
        if problem.allow_move:
            yield from moves(topology, removed, target - state)


def moves(topology: Topology, removed: Link, goals: frozenset[Link]) -> Iterator[Option]:
    """A move puts a goal link in the place of any removable link on the path between its ends."""
    for goal in sorted(goals):
        path = topology.path(*goal)
        links = {Link.between(a, b) for a, b in pairwise(path)}
        if removed in links:
            move = Move(*removed, *goal)
            yield Option(move, removed, frozenset(links - {removed}), goal, frozenset(path))


def cost_of(problem: Any, action: Action) -> float:
    return 1 if problem.action_cost is None else problem.action_cost.get(action, 1)


def largest_degree(state: State) -> int:
    count: dict[BrokerId, int] = {}
    for link in state:
        for end in link:
            count[end] = count.get(end, 0) + 1
    return max(count.values(), default=0)
