"""What a planner is asked, under which rules; what it answers; what actions cost.

Rules of a step, as IPITT's program has them: every precondition holds in the state before the
step; a link is deleted by at most one action of a step; a deleted link is nobody's pivot in that
step; a link added in a step is usable from the next; no link is added twice. A link that is in
the target is never removed once it is present (it is frozen); a link in neither topology may
come and go. Two actions of a step may share a broker unless ``disjoint_brokers``.

A topology of 1,000 brokers has nearly 1,000,000,000 shifts, so no mapping of costs is ever written
out: ``get`` works for every action, and iterating is for small topologies only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any, Protocol

from pubweave.model.files.plan import PlanRecord, topology_hash
from pubweave.model.ids import BrokerId, Link
from pubweave.model.plans import Action, Bounds, Plan, PlanStatus, Shift
from pubweave.model.topology import Topology, TopologyError, validate_tree


class PlanningError(ValueError):
    """A problem that is wrong as stated, with the reason in words for its author."""


@dataclass(frozen=True)
class PlanningProblem:
    """Source and target trees, and what a plan between them must respect."""

    source: Topology
    target: Topology
    disjoint_brokers: bool = False
    """Actions of a step share no broker (the reading of IPITT's evaluation)."""
    max_degree: int | None = None
    """No broker may have more links than this after any step (IPITT section V)."""
    pinned: frozenset[Link] = frozenset()
    """Links that must stay throughout."""
    forbidden: frozenset[Link] = frozenset()
    """Links that must never come to be."""
    allow_move: bool = False
    action_cost: Mapping[Action, float] | None = field(default=None, compare=False)
    """Cost of single actions; those not named cost 1. None: every action costs 1."""

    @property
    def goal_links(self) -> frozenset[Link]:
        """In the target and not yet present."""
        return self.target.links - self.source.links

    @property
    def removable_links(self) -> frozenset[Link]:
        """Present and not in the target."""
        return self.source.links - self.target.links


def validate_problem(problem: PlanningProblem) -> None:
    """Raise PlanningError, saying what to change, where the problem contradicts itself.

    What is impossible for a deeper reason is for the planners to prove, not for this check."""
    for name, topology in (("source", problem.source), ("target", problem.target)):
        try:
            validate_tree(topology)
        except TopologyError as error:
            raise PlanningError(f"the {name} topology: {error}") from error
    if not problem.source.brokers & problem.target.brokers:
        raise PlanningError(
            "source and target have no broker in common: nothing can stay connected"
        )
    _validate_links(problem)
    _validate_degrees(problem)


def _validate_links(problem: PlanningProblem) -> None:
    known = problem.source.brokers | problem.target.brokers
    for word, links in (("pinned", problem.pinned), ("forbidden", problem.forbidden)):
        for link in sorted(links):
            for end in link:
                if end not in known:
                    raise PlanningError(f"{word} link {link} names the unknown broker {end!r}")
    for link in sorted(problem.pinned):
        for name, topology in (("source", problem.source), ("target", problem.target)):
            if link not in topology.links:
                raise PlanningError(
                    f"pinned link {link} is not in the {name} topology: it cannot stay throughout"
                )
    for link in sorted(problem.forbidden & problem.target.links):
        raise PlanningError(f"forbidden link {link} is in the target topology")


def _validate_degrees(problem: PlanningProblem) -> None:
    limit = problem.max_degree
    if limit is None:
        return
    if limit < 1:
        raise PlanningError(f"a degree limit of {limit} leaves no links: use 1 or more")
    for broker in sorted(problem.target.brokers):
        if problem.target.degree(broker) > limit:
            raise PlanningError(
                f"broker {broker!r} has {problem.target.degree(broker)} links in the target, more "
                f"than the degree limit of {limit}"
            )


__all__ = ["Bounds", "PlanResult", "PlanStatus"]


@dataclass(frozen=True)
class PlanResult:
    """The outcome of one planning run."""

    status: PlanStatus
    plan: Plan | None
    bounds: Bounds
    method: str
    seconds: float
    notes: tuple[str, ...] = ()
    """What the user should know: a fallback taken, a limit hit, why it is infeasible."""
    figures: Mapping[str, Any] = field(default_factory=dict)
    """Sizes and times of the parts, for benchmarks."""

    def record(self, source: Topology, target: Topology) -> PlanRecord:
        """What a plan file holds, and what an overlay is walked through; there has to be a plan."""
        assert self.plan is not None, self.status
        return PlanRecord(
            self.plan,
            self.status,
            self.method,
            self.seconds,
            self.bounds,
            topology_hash(source),
            topology_hash(target),
            self.notes,
        )


@dataclass(frozen=True)
class PlanningProgress:
    """A line for the reader, and the best plan and bounds so far where they changed."""

    message: str
    plan: Plan | None = None
    bounds: Bounds | None = None


OnProgress = Callable[[PlanningProgress], None]


def ignore_progress(_: PlanningProgress) -> None:
    """For callers that only want the result."""


# When a planner should end with the best it has.
#
# Planners ask often and cheaply; who answers (a time limit, Ctrl-C, a test) is the caller's
# affair.


class Stop(Protocol):
    """Answers True from the moment on at which the planner should return."""

    def __call__(self) -> bool: ...


def never() -> bool:
    """A stop that never comes: for small problems and tests."""
    return False


class _CountedCosts(Mapping[Action, float]):
    """Costs by a rule: every shift among the brokers is a key."""

    def __init__(self, brokers: Iterable[BrokerId]) -> None:
        self._brokers = sorted(brokers)

    def __getitem__(self, action: Action) -> float:
        raise KeyError(action)

    def __iter__(self) -> Iterator[Action]:
        return (Shift(*triple) for triple in permutations(self._brokers, 3))

    def __len__(self) -> int:
        n = len(self._brokers)
        return n * (n - 1) * (n - 2)


class BrokerActionCosts(_CountedCosts):
    """An action costs what its brokers cost together: they all buffer while it runs."""

    def __init__(self, cost_of: Mapping[BrokerId, float]) -> None:
        super().__init__(cost_of)
        self._cost_of = cost_of

    def __getitem__(self, action: Action) -> float:
        return sum(self._cost_of[broker] for broker in action.brokers)


class LatencyCosts(_CountedCosts):
    """An action costs the milliseconds its brokers are apart, from one to the next.

    Where a latency is in neither topology the mean of the known ones stands in."""

    def __init__(self, source: Topology, target: Topology) -> None:
        super().__init__(source.brokers | target.brokers)
        self._known = {**target.latency_ms, **source.latency_ms}
        if not self._known:
            raise PlanningError(
                "neither topology has latencies: add latency_ms to the links, or use other costs"
            )
        self._mean_ms = sum(self._known.values()) / len(self._known)

    def __getitem__(self, action: Action) -> float:
        ends = action.brokers
        hops = ((ends[place], ends[place + 1]) for place in range(len(ends) - 1))
        return sum(self._known.get(Link.between(a, b), self._mean_ms) for a, b in hops if a != b)


def traffic_costs(source: Topology, target: Topology) -> BrokerActionCosts:
    """Costs by the brokers' ``rate_per_s``, an attribute of the topologies' brokers."""
    cost_of: dict[BrokerId, float] = {}
    for broker in sorted(source.brokers | target.brokers):
        rate = source.broker_attributes.get(broker, {}).get("rate_per_s")
        if rate is None:
            rate = target.broker_attributes.get(broker, {}).get("rate_per_s")
        if isinstance(rate, bool) or not isinstance(rate, int | float) or rate < 0:
            raise PlanningError(
                f"broker {broker!r} has no rate_per_s of 0 or more: costs by traffic need that "
                "attribute on every broker of the topology file"
            )
        # One more than the rate, so that an action at idle brokers is not free.
        cost_of[broker] = 1.0 + float(rate)
    return BrokerActionCosts(cost_of)
