"""The alternatives at one look: stay, a change of few links, the whole way to the best tree.

Each is designed within the operator's limits, planned, and priced twice: what it saves over the
horizon (Bft) and what the way there costs (Cst). Which one is taken is for `gate`. The planner
comes from outside, because planning may use processes and clocks, and this may not.

Cst is in the unit of the traffic's own cost. DYNATOPS charges a reconfiguration with an upper bound
of its protocol's messages (Eq. 7). Ours is the same for shifts, priced as notifications are: a
message pays c_e of its link and p_v of who handles it. shift(i, j, k) costs

- its dozen messages between the three brokers,
- the table entries behind the mover, which cross to k at most once each,
- the waiting of what would have crossed (i, j) or (j, k) during the hold: for half of it on
  average, and the hold is two round trips' latencies and one answer of the store (ADR 8).

Loads change as the plan goes, so they are taken from the tree before each step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

import msgspec
import numpy as np

from pubweave.control.evidence import Evidence
from pubweave.control.settings import ChangePrices, ControlSettings, OperatorLimits
from pubweave.deploy.topology_state import apply_actions, spell_out_step
from pubweave.design.tree.cost import links_of
from pubweave.design.tree.global_search import GlobalSearch
from pubweave.design.tree.problem import DesignLimits, DesignProblem, Stop
from pubweave.design.tree.traffic import DesignError
from pubweave.model.decisions import Alternative
from pubweave.model.files.plan import PlanRecord, topology_hash
from pubweave.model.ids import BrokerId, Link
from pubweave.model.plans import Plan, Shift
from pubweave.model.topology import Topology
from pubweave.planning.problem.problem import PlanningError, PlanningProblem, PlanResult


@dataclass(frozen=True)
class ChangeCost:
    """The parts of Cst, in milliseconds of notifications' cost; ``total_ms`` has the weight."""

    messages_ms: float = 0.0
    state_ms: float = 0.0
    waiting_ms: float = 0.0
    entries_moved: float = 0.0
    weight: float = 1.0

    @property
    def total_ms(self) -> float:
        return self.weight * (self.messages_ms + self.state_ms + self.waiting_ms)


def change_cost(plan: Plan, evidence: Evidence, prices: ChangePrices) -> ChangeCost:
    """What it costs to walk the evidence's overlay through a plan of shifts and moves."""
    tolls = _Tolls(evidence)
    now = evidence.topology
    messages_ms = state_ms = waiting_ms = entries_moved = 0.0
    for step in plan.steps:
        spelled = spell_out_step(now, step)
        load = evidence.cost_of(now).link_load
        at = now
        for action in spelled:
            assert isinstance(action, Shift), f"{action}: brokers neither come nor go here"
            i, j, k = action.brokers
            legs = ((i, j), (j, k), (i, k))
            messages_ms += prices.messages * sum(tolls.of(a, b) for a, b in legs) / 3
            entries = sum(evidence.entries.get(b, 0.0) for b in _side(at, i, j))
            entries_moved += entries
            state_ms += entries * tolls.of(j, k)
            waiting_ms += _waiting_ms(action, load, tolls, evidence.window_s, prices.store_ms)
            at = apply_actions(at, (action,))
        now = at
    return ChangeCost(messages_ms, state_ms, waiting_ms, entries_moved, prices.weight)


def _waiting_ms(
    shift: Shift, load: Mapping[Link, float], tolls: _Tolls, window_s: float, store_ms: float
) -> float:
    i, j, k = shift.brokers
    # A link that an earlier shift of the same step has brought carries what that one moved; its
    # own load is not known before the step is over, and is taken for the removed link's.
    crossing = load.get(shift.removed_link, 0.0) + load.get(shift.pivot_link, 0.0)
    hold_ms = 2 * tolls.latency_ms(i, k) + 2 * tolls.latency_ms(j, k) + store_ms
    held = crossing / window_s * hold_ms / 1000.0 if window_s > 0 else 0.0
    return held * hold_ms / 2


class _Tolls:
    """What one message between two brokers costs."""

    def __init__(self, evidence: Evidence) -> None:
        brokers = evidence.prices.brokers
        self._index_of = {broker: index for index, broker in enumerate(brokers)}
        known = np.isfinite(evidence.prices.communication)
        # A link that is there for a step only may be one that nobody has measured.
        dearest = evidence.prices.communication[known].max(initial=0.0)
        self._latency = np.where(known, evidence.prices.communication, dearest)
        self._processing = evidence.prices.processing

    def latency_ms(self, a: BrokerId, b: BrokerId) -> float:
        return float(self._latency[self._index_of[a], self._index_of[b]])

    def of(self, a: BrokerId, b: BrokerId) -> float:
        return self.latency_ms(a, b) + float(self._processing[self._index_of[b]])


def _side(topology: Topology, mover: BrokerId, away_from: BrokerId) -> set[BrokerId]:
    """The brokers that the mover takes along: those not behind the neighbor it leaves."""
    found = {mover}
    waiting = [mover]
    while waiting:
        for neighbor in topology.neighbors[waiting.pop()]:
            if neighbor not in found and neighbor != away_from:
                found.add(neighbor)
                waiting.append(neighbor)
    return found


Planner = Callable[[PlanningProblem], PlanResult]
"""Plans within a time of its own choosing."""

STAY = "stay"
GLOBAL = "global"


@dataclass(frozen=True, eq=False)
class Option:
    """An alternative with what is needed to carry it out."""

    alternative: Alternative
    target: Topology
    plan: PlanRecord | None = None
    change: ChangeCost = field(default_factory=ChangeCost)

    @property
    def changed_links(self) -> int:
        return len(self.alternative.added_links)


@dataclass(frozen=True)
class Allowed:
    """How many links may change now; None: as many as there are."""

    links: int | None = None
    reason: str = ""


def weigh(
    evidence: Evidence,
    settings: ControlSettings,
    planner: Planner,
    *,
    allowed: Allowed,
    stop: Stop,
    rng: np.random.Generator,
) -> tuple[Option, ...]:
    """Stay and every alternative that differs from those before it.

    Raises `DesignError` where the limits leave no tree at all."""
    cost_now = evidence.cost_of(evidence.topology).total / evidence.window_s
    options = [Option(Alternative(name=STAY, cost_ms_per_s=cost_now), evidence.topology)]
    seen = {evidence.topology.links}
    for name, target in _targets(evidence, settings, allowed, stop, rng):
        if target.links in seen:
            continue
        seen.add(target.links)
        options.append(_priced(name, target, evidence, settings, planner, allowed, cost_now))
    return tuple(options)


def best_option(options: tuple[Option, ...]) -> Option:
    """The greatest net benefit of those that can be chosen; equal ones by fewer links."""
    open_ = [option for option in options if not option.alternative.refusal]
    return max(open_, key=lambda option: (option.alternative.net_ms, -option.changed_links))


def _targets(
    evidence: Evidence,
    settings: ControlSettings,
    allowed: Allowed,
    stop: Stop,
    rng: np.random.Generator,
) -> Iterator[tuple[str, Topology]]:
    """Trees worth pricing, few changes first; the whole way also where the budget forbids it, so
    that the record shows what the budget costs."""
    sizes = [size for size in settings.few_links if size < len(evidence.topology.links)]
    if allowed.links is not None:
        sizes = sorted({min(size, allowed.links) for size in (*sizes, allowed.links)} - {0})
    for size in sizes:
        try:
            search = _search(evidence, settings.limits, size, stop, rng)
        except DesignError:
            continue  # the limits themselves ask for more changes than this
        search.descend_from_starts()
        yield f"{size} link{'s' if size > 1 else ''}", _tree(evidence, search)
    search = _search(evidence, settings.limits, None, stop, rng)
    search.run()
    yield GLOBAL, _tree(evidence, search)


def _search(
    evidence: Evidence,
    limits: OperatorLimits,
    max_changes: int | None,
    stop: Stop,
    rng: np.random.Generator,
) -> GlobalSearch:
    design = DesignLimits(limits.max_degree, limits.pinned, limits.forbidden, max_changes)
    problem = DesignProblem(evidence.topology, evidence.traffic, evidence.prices, design)
    return GlobalSearch(problem, stop=stop, rng=rng)


def _tree(evidence: Evidence, search: GlobalSearch) -> Topology:
    links = links_of(search.best.edges, evidence.prices.brokers)
    return replace(evidence.topology, links=links)


def _priced(
    name: str,
    target: Topology,
    evidence: Evidence,
    settings: ControlSettings,
    planner: Planner,
    allowed: Allowed,
    cost_now: float,
) -> Option:
    cost = evidence.cost_of(target).total / evidence.window_s
    added, removed = target.links - evidence.topology.links, evidence.topology.links - target.links
    alternative = Alternative(
        name=name,
        cost_ms_per_s=cost,
        benefit_ms=(cost_now - cost) * settings.horizon_s,
        added_links=_pairs(added),
        removed_links=_pairs(removed),
    )
    plan, refusal = _planned(target, evidence, settings.limits, planner)
    if plan is None:
        return Option(msgspec.structs.replace(alternative, refusal=refusal), target)
    change = change_cost(plan.plan, evidence, settings.prices)
    is_over = allowed.links is not None and len(added) > allowed.links
    alternative = msgspec.structs.replace(
        alternative,
        change_cost_ms=change.total_ms,
        step_count=plan.plan.step_count,
        action_count=plan.plan.action_count,
        refusal=allowed.reason if is_over else "",
    )
    return Option(alternative, target, plan, change)


def _planned(
    target: Topology, evidence: Evidence, limits: OperatorLimits, planner: Planner
) -> tuple[PlanRecord | None, str]:
    """A plan to the target, or why there is none."""
    source = evidence.topology
    # The design keeps the limits in the target. On the way they hold from the start on only where
    # the overlay keeps them now: an operator may just have set them.
    degree = limits.max_degree
    if degree is not None and any(source.degree(b) > degree for b in source.brokers):
        degree = None
    problem = PlanningProblem(
        source,
        target,
        max_degree=degree,
        pinned=limits.pinned & source.links & target.links,
        forbidden=limits.forbidden - source.links - target.links,
    )
    try:
        result = planner(problem)
    except PlanningError as error:
        return None, str(error)
    if result.plan is None:
        why = "; ".join(result.notes) or result.status.value
        return None, f"no plan was found: {why}"
    record = PlanRecord(
        result.plan,
        status=result.status,
        method=result.method,
        seconds=result.seconds,
        bounds=result.bounds,
        source_hash=topology_hash(source),
        target_hash=topology_hash(target),
        notes=result.notes,
    )
    return record, ""


def _pairs(links: frozenset[Link]) -> tuple[tuple[str, str], ...]:
    return tuple((link.a, link.b) for link in sorted(links))
