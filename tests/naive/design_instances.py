"""Small random design problems, as index arrays and as plain lists for the naive twins."""

from __future__ import annotations

import numpy as np

from pubweave.design.tree.traffic import Integers, Prices, Traffic
from pubweave.generate.topologies.trees import random_tree_pairs


def random_traffic(rng: np.random.Generator, brokers: int, sets: int) -> Traffic:
    names = [f"b{number}" for number in range(1, brokers + 1)]
    chosen = []
    for _ in range(sets):
        size = int(rng.integers(1, brokers + 1))
        members = rng.choice(brokers, size=size, replace=False)
        chosen.append(([names[m] for m in members.tolist()], float(rng.integers(1, 10))))
    return Traffic.of(names, chosen)


def random_prices(rng: np.random.Generator, brokers: int) -> Prices:
    names = tuple(f"b{number}" for number in range(1, brokers + 1))
    return Prices.from_matrix(
        names, rng.uniform(0, 10, brokers), rng.uniform(0, 10, (brokers, brokers))
    )


def random_edges(rng: np.random.Generator, brokers: int) -> Integers:
    pairs = [(a - 1, b - 1) for a, b in random_tree_pairs(brokers, rng)]
    return np.array(pairs, dtype=np.int64).reshape(-1, 2)


def as_sets(traffic: Traffic) -> list[tuple[list[int], float]]:
    return [
        (traffic.members[traffic.starts[s] : traffic.starts[s + 1]].tolist(), float(weight))
        for s, weight in enumerate(traffic.weights)
    ]
