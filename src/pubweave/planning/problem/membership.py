"""Brokers that only one of the two topologies has: append them first, detach them last.

As IPITT IV-B does it, planners only ever see two trees over the same brokers. A broker that only
the target has is appended as a leaf to the source, at a neighbor it has in the target where one is
there (so that link is final at once). A broker that only the source has is made a leaf of the
target, at the nearest broker that stays, and detached at the end.

Which leaf a broker becomes is chosen here and not proven best: a result for the whole problem
never claims more than that.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from pubweave.model.ids import BrokerId, Link
from pubweave.model.plans import Action, Append, Bounds, Detach, Plan, PlanStatus, Step
from pubweave.model.topology import Topology
from pubweave.planning.problem.problem import PlanningError, PlanningProblem, PlanResult


@dataclass(frozen=True)
class MembershipSplit:
    """A problem over one set of brokers, and the steps before and after its plan."""

    whole: PlanningProblem
    inner: PlanningProblem
    append_steps: tuple[Step, ...]
    detach_steps: tuple[Step, ...]

    @property
    def is_trivial(self) -> bool:
        """Both topologies have the same brokers: the inner problem is the whole one."""
        return not self.append_steps and not self.detach_steps

    def wrap(self, plan: Plan) -> Plan:
        """The plan for the whole problem around a plan for the inner one."""
        return Plan(self.append_steps + plan.steps + self.detach_steps)

    def wrap_result(self, result: PlanResult) -> PlanResult:
        """The result for the whole problem, claiming only what holds for the whole."""
        if self.is_trivial:
            return result
        bounds = self._bounds()
        planned = f"between append and detach: {result.status.value}, at least "
        planned += f"{result.bounds.steps} steps and {result.bounds.actions} actions"
        notes = (*result.notes, planned)
        if result.plan is None:
            # Other leaves might have made it possible, so that is not known.
            return replace(result, status=PlanStatus.UNKNOWN, bounds=bounds, notes=notes)
        plan = self.wrap(result.plan)
        met = (plan.step_count, plan.action_count) == (bounds.steps, bounds.actions)
        status = PlanStatus.OPTIMAL if met else PlanStatus.FEASIBLE
        return replace(result, status=status, plan=plan, bounds=bounds, notes=notes)

    def _bounds(self) -> Bounds:
        # Each action adds at most one link, and a detach adds none.
        leaving = self.whole.source.brokers - self.whole.target.brokers
        return Bounds(1, len(self.whole.goal_links) + len(leaving))


def split_membership(problem: PlanningProblem) -> MembershipSplit:
    """Take appends and detaches out of a problem; raises PlanningError where there is no room."""
    appended = _appends(problem)
    source = _with_leaves(problem.source, appended)
    detached = _detaches(problem, source)
    target = _with_leaves(problem.target, detached)
    append_steps = _in_waves(problem.source.brokers, appended, problem.disjoint_brokers)
    detach_steps = _in_waves(
        source.brokers, [Append(a.broker, a.neighbor) for a in detached], problem.disjoint_brokers
    )
    return MembershipSplit(
        problem,
        replace(problem, source=source, target=target),
        append_steps,
        tuple(tuple(Detach(*action.brokers) for action in step) for step in detach_steps),
    )


class _Room:
    """Where a leaf may still be added: the degree limit and forbidden links."""

    def __init__(self, problem: PlanningProblem, start: Topology) -> None:
        self._problem = problem
        self._degree = {broker: start.degree(broker) for broker in start.brokers}

    def first(self, broker: BrokerId, candidates: Iterable[BrokerId]) -> BrokerId | None:
        """The first candidate at which the broker may become a leaf."""
        limit = self._problem.max_degree
        for candidate in candidates:
            fits = limit is None or self._degree[candidate] < limit
            if fits and Link.between(broker, candidate) not in self._problem.forbidden:
                return candidate
        return None

    def take(self, broker: BrokerId, neighbor: BrokerId) -> None:
        self._degree[broker] = 1
        self._degree[neighbor] += 1


def _appends(problem: PlanningProblem) -> list[Append]:
    source, target = problem.source, problem.target
    room = _Room(problem, source)
    placed = set(source.brokers)
    waiting = sorted(target.brokers - source.brokers)
    appends: list[Append] = []
    while waiting:
        chosen = _next_append(problem, room, placed, waiting)
        appends.append(chosen)
        room.take(*chosen.brokers)
        placed.add(chosen.broker)
        waiting.remove(chosen.broker)
    return appends


def _next_append(
    problem: PlanningProblem, room: _Room, placed: set[BrokerId], waiting: Sequence[BrokerId]
) -> Append:
    for broker in waiting:
        near = [end for end in problem.target.neighbors[broker] if end in placed]
        neighbor = room.first(broker, near)
        if neighbor is not None:
            return Append(broker, neighbor)
    # No final place has room yet: wait as a leaf elsewhere, at a broker that stays if possible.
    anywhere = sorted(placed, key=lambda broker: (broker not in problem.target.brokers, broker))
    for broker in waiting:
        neighbor = room.first(broker, anywhere)
        if neighbor is not None:
            return Append(broker, neighbor)
    raise PlanningError(
        f"broker {waiting[0]!r} cannot be appended anywhere: the degree limit "
        f"{problem.max_degree} or forbidden links leave no room; raise the limit"
    )


def _detaches(problem: PlanningProblem, source: Topology) -> list[Append]:
    """Where each leaving broker becomes a leaf of the target, nearest first."""
    staying = problem.target.brokers
    room = _Room(problem, problem.target)
    places: list[Append] = []
    ways = {broker: source.hops_from(broker) for broker in sorted(source.brokers - staying)}
    nearest = {
        broker: sorted((hops, end) for end, hops in way.items() if end in staying)
        for broker, way in ways.items()
    }
    # Those beside a broker that stays choose first: their link can simply be kept.
    for broker in sorted(ways, key=lambda broker: (nearest[broker][0], broker)):
        neighbor = room.first(broker, (end for _, end in nearest[broker]))
        if neighbor is None:
            raise PlanningError(
                f"broker {broker!r} cannot become a leaf of the target: the degree limit "
                f"{problem.max_degree} or forbidden links leave no room; raise the limit"
            )
        room.take(broker, neighbor)
        places.append(Append(broker, neighbor))
    return places


def _with_leaves(topology: Topology, leaves: Sequence[Append]) -> Topology:
    if not leaves:
        return topology
    return replace(
        topology,
        brokers=topology.brokers | {leaf.broker for leaf in leaves},
        links=topology.links | {Link.between(*leaf.brokers) for leaf in leaves},
    )


def _in_waves(
    present: Iterable[BrokerId], appends: Sequence[Append], disjoint: bool
) -> tuple[Step, ...]:
    """Each append as early as its neighbor is there (and, if disjoint, not busy in that step)."""
    there_from = dict.fromkeys(present, 0)
    waves: list[list[Action]] = []
    busy: list[set[BrokerId]] = []
    for append in appends:
        wave = there_from[append.neighbor]
        while disjoint and wave < len(waves) and append.neighbor in busy[wave]:
            wave += 1
        if wave == len(waves):
            waves.append([])
            busy.append(set())
        waves[wave].append(append)
        busy[wave].update(append.brokers)
        there_from[append.broker] = wave + 1
    return tuple(tuple(wave) for wave in waves)
