"""Small random planning problems, the same for the same number: every option by turns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pubweave.generate.topologies.trees import change_links, random_tree
from pubweave.model.ids import Link
from pubweave.model.topology import Topology
from pubweave.planning.problem.problem import PlanningProblem


def small_problem(number: int, brokers_max: int = 7) -> PlanningProblem:
    """Problem ``number``: 3 to ``brokers_max`` brokers; options change with the number."""
    rng = np.random.default_rng([number, 7])
    brokers = int(rng.integers(3, brokers_max + 1))
    source = random_tree(brokers, rng)
    target = random_tree(brokers, rng)
    if number % 3 == 0 and brokers > 4:
        target = change_links(source, float(rng.uniform(0.2, 0.6)), rng)
    problem = PlanningProblem(source, target, disjoint_brokers=number % 2 == 1)
    if number % 5 in (1, 2):
        most = max(topology.degree(b) for topology in (source, target) for b in source.brokers)
        problem = replace(problem, max_degree=most + int(rng.integers(0, 2)))
    if number % 7 in (2, 5):
        problem = replace(problem, forbidden=_strangers(source, target, rng))
    if number % 11 == 3:
        problem = replace(problem, pinned=frozenset(sorted(source.links & target.links)[:1]))
    return problem


def _strangers(source: Topology, target: Topology, rng: np.random.Generator) -> frozenset[Link]:
    """Up to two links that neither topology has."""
    brokers = sorted(source.brokers)
    free = [
        Link(a, b)
        for index, a in enumerate(brokers)
        for b in brokers[index + 1 :]
        if Link(a, b) not in source.links | target.links
    ]
    chosen = rng.permutation(len(free))[:2].tolist()
    return frozenset(free[place] for place in chosen)


def tight_problem(number: int, brokers_max: int = 6) -> PlanningProblem:
    """Problem ``number`` of those whose options leave little room, in a third of them none.

    The degree limit is the target's own largest degree (the source may lie above it), and up to
    a third of the links that neither topology has are forbidden."""
    rng = np.random.default_rng([number, 3])
    brokers = int(rng.integers(4, brokers_max + 1))
    source, target = random_tree(brokers, rng), random_tree(brokers, rng)
    problem = PlanningProblem(source, target, disjoint_brokers=bool(rng.integers(2)))
    if rng.random() < 0.8:
        problem = replace(problem, max_degree=max(target.degree(b) for b in target.brokers))
    if rng.random() < 0.6:
        names = sorted(source.brokers)
        pairs = [Link(a, b) for index, a in enumerate(names) for b in names[index + 1 :]]
        free = [link for link in pairs if link not in source.links | target.links]
        forbidden = frozenset(link for link in free if rng.random() < 0.33)
        problem = replace(problem, forbidden=forbidden)
    return problem
