"""DYNATOPS Figure 10 and Table 1: what mappings save against consistent hashing, and how fast.

Brokers subscribe by a pattern (`generate.workloads.dynatops`); at first they take the positions in
the order of their hashed names. The paper gives neither topics per broker nor publications per
topic nor w_d: 5, 100 and 1 are ours.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import mean

import numpy as np

from pubweave.design.dynatops.mapping.best import best_mapping
from pubweave.design.dynatops.mapping.problem import BrokerMapping, MappingProblem, mapping_cost
from pubweave.design.dynatops.mapping.ring import key_of
from pubweave.design.dynatops.mapping.swaps import ImprovementPath, ssbr_greedy
from pubweave.generate.workloads.dynatops import PUBLICATIONS, Pattern, broker_subscriptions

SIZES = ((10, 100), (100, 100), (1_000, 100), (100, 50), (100, 500), (100, 5_000))
"""Brokers and topics."""
PATTERNS = (Pattern.UNIFORM, Pattern.MULTIMODAL)
PAPER_SECONDS = {
    (10, 100): 0.028,
    (100, 100): 0.184,
    (1_000, 100): 96.0,
    (100, 50): 0.098,
    (100, 500): 0.502,
    (100, 5_000): 1.9,
}
"""Table 1, on a workstation of 2013."""


@dataclass(frozen=True)
class Saving:
    """One problem: shares saved by both algorithms, how long they took, what nobody can exceed."""

    brokers: int
    topics: int
    pattern: str
    seed: int
    greedy_saved: float
    greedy_overhead_saved: float
    greedy_delay_saved: float
    greedy_s: float
    best_saved: float
    best_s: float
    most_saved: float


def hashed_problem(
    brokers: int, topics: int, pattern: Pattern, seed: int
) -> tuple[MappingProblem, BrokerMapping]:
    """Seeded subscriptions, and the mapping of consistent hashing."""
    wanted = broker_subscriptions(brokers, topics, pattern, np.random.default_rng(seed))
    problem = MappingProblem.of(wanted, dict.fromkeys(wanted.topic_names, PUBLICATIONS))
    return problem, problem.hashed_order([key_of(f"{seed}/{name}") for name in wanted.nodes])


@dataclass(frozen=True)
class Task:
    """One problem."""

    brokers: int
    topics: int
    pattern: Pattern
    seed: int


def tasks(sizes: Sequence[tuple[int, int]], seeds: Sequence[int]) -> list[Task]:
    """One for each size, pattern and seed."""
    return [Task(*size, pattern, seed) for size in sizes for pattern in PATTERNS for seed in seeds]


def run_task(task: Task) -> list[Saving]:
    _compile()
    return [measure(task, time.perf_counter)]


@lru_cache
def _compile() -> None:
    """Compiling is not measured."""
    best_mapping(*hashed_problem(10, 10, Pattern.UNIFORM, 0))


def measure(task: Task, clock: Callable[[], float]) -> Saving:
    """What both algorithms save, and how long they take."""
    problem, mapping = hashed_problem(task.brokers, task.topics, task.pattern, task.seed)
    began = clock()
    greedy = ssbr_greedy(problem, mapping)
    greedy_s = clock() - began
    began = clock()
    best = best_mapping(problem, mapping)
    best_s = clock() - began
    before = mapping_cost(problem, mapping)
    after = greedy.last_cost
    return Saving(
        task.brokers,
        task.topics,
        task.pattern.value,
        task.seed,
        _saved(greedy),
        1 - after.relay_overhead / max(1.0, before.relay_overhead),
        1 - after.delay / max(1.0, before.delay),
        greedy_s,
        1 - best.path.last_cost.notification_cost / before.notification_cost,
        best_s,
        1 - best.bound / before.notification_cost,
    )


def _saved(path: ImprovementPath) -> float:
    return 1 - path.last_cost.notification_cost / path.first_cost.notification_cost


def mean_of(rows: Sequence[Saving], size: tuple[int, int], pattern: str, name: str) -> float:
    """The mean over seeds."""
    values: list[float] = [
        getattr(row, name)
        for row in rows
        if (row.brokers, row.topics) == size and row.pattern == pattern
    ]
    return mean(values)
