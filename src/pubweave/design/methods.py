"""The designs as plain functions, and ways to design a tree by name: ours and of other packages.

A built-in method takes a `DesignProblem` and a `Search`. A package that is installed beside
pubweave adds a `Design` under the entry point group ``pubweave.designs``:

    [project.entry-points."pubweave.designs"]
    hub = "my_package.hub:hub"
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

import numpy as np

from pubweave.design.ci.rounds import LIVE, LocalSettings, reorganized
from pubweave.design.ci.rules import Estimate, Heuristic
from pubweave.design.dynatops.mapping.best import best_mapping
from pubweave.design.dynatops.mapping.problem import MappingProblem
from pubweave.design.tco.interests import Subscriptions
from pubweave.design.tco.low_oda import build_overlay
from pubweave.design.tree import spanning
from pubweave.design.tree.cost import edges_of, total_cost
from pubweave.design.tree.exact import cheapest_tree
from pubweave.design.tree.global_search import search
from pubweave.design.tree.problem import (
    DesignLimits,
    DesignProblem,
    DesignResult,
    DesignStatus,
    OnProgress,
    Stop,
    ignore_progress,
)
from pubweave.design.tree.profile_inputs import Tables, prices_of, topology_of, traffic_of
from pubweave.design.tree.traffic import DesignError, Floats
from pubweave.model.ids import BrokerId
from pubweave.model.plugins import find, names
from pubweave.model.topology import Topology, TopologyError, validate_tree

GROUP = "pubweave.designs"


@dataclass(frozen=True)
class Search:
    """How a method searches; each takes what concerns it."""

    seed: int = 0
    stop: Stop = field(default=lambda: False)
    on_progress: OnProgress = ignore_progress
    eta: int = 4
    """Local heuristics: how many hops a broker sees."""
    estimate: Estimate = Estimate.SIDES
    """CI: by what brokers judge an exchange."""
    least_gain: float = 0.0
    """Local heuristics: the share that an exchange must save of its cycle's cost."""

    @property
    def rng(self) -> np.random.Generator:
        return np.random.default_rng(self.seed)


Method = Callable[[DesignProblem, Search], DesignResult]


class Design(Protocol):
    """What a package adds: from measured traffic and a tree to a better tree of these brokers."""

    def __call__(
        self, profile: Tables, topology: Topology, options: Mapping[str, str]
    ) -> Topology: ...


def problem_of(
    profile: Tables,
    topology: Topology | None = None,
    *,
    matrix_ms: Floats | None = None,
    mesh: Topology | None = None,
    assumed_ms: float | None = None,
    limits: DesignLimits | None = None,
) -> DesignProblem:
    """A tree (without one, the profile's own), its traffic, and prices as in `prices_of`."""
    source = topology_of(profile) if topology is None else topology
    validate_tree(source)
    prices = prices_of(profile, source, matrix_ms=matrix_ms, mesh=mesh, assumed_ms=assumed_ms)
    traffic = traffic_of(profile, source.brokers)
    return DesignProblem(source, traffic, prices, limits or DesignLimits())


def exact(problem: DesignProblem, how: Search | None = None) -> DesignResult:
    """The cheapest tree, proven up to ten brokers; else the best that a global search finds."""
    how = how or Search()
    return cheapest_tree(problem, stop=how.stop, rng=how.rng, on_progress=how.on_progress)


def global_search(problem: DesignProblem, how: Search | None = None) -> DesignResult:
    """The best tree that link exchanges from several starts find, without a proof."""
    how = how or Search()
    return search(problem, stop=how.stop, rng=how.rng, on_progress=how.on_progress)


def common_interest(
    problem: DesignProblem, how: Search | None = None, heuristic: Heuristic = Heuristic.CI
) -> DesignResult:
    """CI: what brokers come to that exchange links and know only their neighborhood."""
    how = how or Search()
    is_by_sides = heuristic is Heuristic.CI and how.estimate is Estimate.SIDES
    settings = replace(
        LIVE if is_by_sides else LocalSettings(),
        heuristic=heuristic,
        eta=how.eta,
        least_gain=how.least_gain,
        estimate=how.estimate,
    )
    return reorganized(problem, settings, stop=how.stop, rng=how.rng, on_progress=how.on_progress)


def minimum_spanning_tree(problem: DesignProblem, how: Search | None = None) -> DesignResult:
    """The tree whose links have the least prices."""
    return spanning.minimum_spanning_tree(problem)


def maximum_interest_tree(problem: DesignProblem, how: Search | None = None) -> DesignResult:
    """The tree that links brokers with the most common interest."""
    return spanning.maximum_interest_tree(problem)


METHODS: Mapping[str, Method] = {
    "ci": common_interest,
    "lmst": partial(common_interest, heuristic=Heuristic.MST),
    "lmit": partial(common_interest, heuristic=Heuristic.MIT),
    "mst": minimum_spanning_tree,
    "mit": maximum_interest_tree,
    "exact": exact,
}


_QUICKEST_FIRST = ("mst", "mit", "lmst", "lmit", "ci", "exact")


def others_than(method: str, problem: DesignProblem, how: Search) -> dict[str, DesignResult | str]:
    """What the other built-in methods come to, or why they come to nothing: the quickest first,
    as long as ``how`` is not asked to stop."""
    found: dict[str, DesignResult | str] = {}
    for other in _QUICKEST_FIRST:
        if other == method:
            continue
        if how.stop():
            found[other] = "no time was left"
            continue
        try:
            found[other] = METHODS[other](problem, how)
        except ValueError as error:
            found[other] = str(error)
    return {other: found[other] for other in METHODS if other in found}


def method_names() -> list[str]:
    """Those built in, then those of installed packages."""
    return names(GROUP, METHODS)


def method_named(name: str, profile: Tables, options: Mapping[str, str]) -> Method:
    """A method by its name; PluginError lists the names. A built-in one takes no options."""
    if name in METHODS:
        if options:
            raise DesignError(f"the design {name!r} takes no option {min(options)!r}: drop --set")
        return METHODS[name]
    known: Mapping[str, Any] = METHODS
    design: Design = find(GROUP, known, name)
    return partial(_by_package, name, design, profile, options)


def _by_package(
    name: str,
    design: Design,
    profile: Tables,
    options: Mapping[str, str],
    problem: DesignProblem,
    how: Search,
) -> DesignResult:
    target = design(profile, problem.source, options)
    try:
        validate_tree(target)
    except TopologyError as error:
        raise DesignError(f"the design {name!r} made {error}; it must give a tree") from error
    if target.brokers != problem.source.brokers:
        odd = min(target.brokers ^ problem.source.brokers)
        raise DesignError(f"the design {name!r} must keep the brokers: {odd!r} is not in both")
    _check_limits(name, problem, target)
    cost = total_cost(problem.traffic, problem.prices, edges_of(target, problem.brokers))
    return DesignResult(name, target.links, cost, DesignStatus.RULE)


def _check_limits(name: str, problem: DesignProblem, target: Topology) -> None:
    limits = problem.limits
    unpriced = [e for e in target.links if not np.isfinite(problem.prices.of_link(e))]
    wrong = {
        "lacks the pinned link": limits.pinned - target.links,
        "has the forbidden link": limits.forbidden & target.links,
        "has a link without a known price:": unpriced,
    }
    for words, links in wrong.items():
        if links:
            raise DesignError(f"the tree of the design {name!r} {words} {min(links)}")
    degree = max(map(len, target.neighbors.values()), default=0)
    if limits.max_degree is not None and degree > limits.max_degree:
        raise DesignError(
            f"a broker has {degree} links in the tree of the design {name!r}, more than "
            f"--max-degree {limits.max_degree}"
        )
    changed = len(target.links - problem.source.links)
    if limits.max_changes is not None and changed > limits.max_changes:
        raise DesignError(
            f"the tree of the design {name!r} has {changed} new links, more than "
            f"--max-changes {limits.max_changes}"
        )


def target_topology(problem: DesignProblem, result: DesignResult) -> Topology:
    """The target with the latencies that it was priced with."""
    source = problem.source
    latency_ms = {
        link: source.latency_ms.get(link, round(problem.prices.of_link(link), 6))
        for link in sorted(result.links)
    }
    return replace(source, links=result.links, latency_ms=latency_ms)


def low_oda(topics: Mapping[str, Iterable[str]]) -> Topology:
    """An overlay of low degree that connects the subscribers of every topic (Low-ODA).

    >>> overlay = low_oda({"n1": ["a"], "n2": ["a", "b"], "n3": ["b"]})
    >>> sorted(str(link) for link in overlay.links)
    ['n1-n2', 'n2-n3']
    """
    wanted = Subscriptions.of(topics)
    return wanted.overlay(build_overlay(wanted))


def ring_mapping(
    topics: Mapping[BrokerId, Iterable[str]],
    publications: Mapping[str, float],
    *,
    delay_weight: float = 1.0,
    how: Search | None = None,
) -> dict[BrokerId, int]:
    """DYNATOPS: each broker's position on a ring, 0 to n-1, so that publications cost least.

    ``topics`` are those that a broker's users want, ``publications`` counts by topic.

    >>> ring_mapping({"b1": ["x"], "b2": ["x"], "b3": []}, {"x": 10})["b1"] in range(3)
    True
    """
    problem = MappingProblem.of(Subscriptions.of(topics), publications, delay_weight=delay_weight)
    found = best_mapping(problem, problem.in_order(), stop=(how or Search()).stop)
    return dict(zip(problem.wanted.nodes, found.path.last.tolist(), strict=True))
