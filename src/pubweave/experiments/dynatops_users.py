"""DYNATOPS Figure 7 (a-c) without a protocol: users whose subscriptions change, hour by hour.

The Poisson model of section 6.1.2: 50,000 users with 5 topics each, 100 brokers, 1,000 topics. A
user whose hour has an arrival draws all its topics anew (``whole``), or one of them within its
pattern. *static* users stay where they were put at random (Bayeux's and TCO's placement);
*placed* ones follow section 4 within clusters, whose brokers tell each other once an hour. After
the last hour both have their brokers mapped by consistent hashing and by `best_mapping`.

Missing: TCO itself, and the reconfiguration overhead of Figure 7d, which needs its protocol.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from pubweave.design.dynatops.best import swept
from pubweave.design.dynatops.bounds import least_delay
from pubweave.design.dynatops.costs import event_overhead, mapping_cost
from pubweave.design.dynatops.ring import Ring, key_of
from pubweave.design.dynatops.topic_trees import BrokerMapping, MappingProblem
from pubweave.design.dynatops.user_placement import Clusters, UserPlacement
from pubweave.design.tco.interests import Indices, Integers, Subscriptions
from pubweave.generate.dynatops_workloads import MODE_SIZE, Pattern, drawn_topics

RATES = (0.025, 0.05, 0.1, 0.2)
"""Changes per user and hour."""
CLUSTER_SIZE = 5
LOAD_WEIGHT = 100.0
"""w_l: loads of a cluster differ by at most a hundredth of all subscriptions when users join."""


@dataclass(frozen=True)
class Setting:
    """The paper's by default."""

    users: int = 50_000
    brokers: int = 100
    topics: int = 1_000
    hours: int = 100
    cluster_size: int = CLUSTER_SIZE
    load_weight: float = LOAD_WEIGHT
    whole: bool = True
    pattern: Pattern = Pattern.MULTIMODAL


@dataclass(frozen=True)
class UserRun:
    """One system under one rate of change; messages and changes are per hour."""

    system: str
    rate: float
    subscription_changes: float
    management_messages: float
    handovers: float
    most_loaded_over_mean: float
    load_deviation: float
    delay_hops: float
    messages_per_publication: float
    mapped_delay_hops: float
    mapped_messages_per_publication: float

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def measure(setting: Setting, rates: Sequence[float], seed: int) -> Iterator[UserRun]:
    """Two rows for each rate: static and placed, on the same users."""
    for rate in rates:
        rng = np.random.default_rng([seed, round(rate * 1e6)])
        topics = drawn_topics(setting.users, setting.topics, setting.pattern, rng)
        clusters = Clusters.of(setting.brokers, setting.cluster_size)
        systems = {
            "static": UserPlacement.static(
                topics, rng.integers(0, setting.brokers, setting.users), setting.brokers,
                setting.topics,
            ),
            "placed": UserPlacement.joined(
                topics, rng.integers(0, clusters.count, setting.users), clusters, setting.topics,
                setting.load_weight,
            ),
        }  # fmt: skip
        for _ in range(setting.hours):
            _one_hour(setting, systems, topics, rate, rng)
        for name, placed in systems.items():
            told = clusters.pairs if name == "placed" else 0
            yield _run(setting, name, placed, rate, told)


def _one_hour(
    setting: Setting,
    systems: dict[str, UserPlacement],
    topics: Indices,
    rate: float,
    rng: np.random.Generator,
) -> None:
    who = np.flatnonzero(rng.poisson(rate, setting.users))
    old = topics[who].copy()
    new = changed_topics(old, setting, rng)
    for placed in systems.values():
        placed.change(who, old, new)
        placed.tell()
    topics[who] = new


def changed_topics(old: Indices, setting: Setting, rng: np.random.Generator) -> Indices:
    """All topics drawn anew, or one of each row; no topic comes twice in a row."""
    drawn = drawn_topics(len(old), setting.topics, setting.pattern, rng)
    if setting.whole:
        return drawn
    if setting.pattern is Pattern.MULTIMODAL:
        # The same mode, other topics of it.
        drawn = (old[:, :1] // MODE_SIZE * MODE_SIZE + drawn % MODE_SIZE).astype(np.int32)
    new = old.copy()
    rows, place = np.arange(len(old)), rng.integers(0, old.shape[1], len(old))
    is_known = (drawn[:, :1] == old).any(axis=1)
    new[rows, place] = np.where(is_known, old[rows, place], drawn[:, 0])
    return new


def _run(setting: Setting, name: str, placed: UserPlacement, rate: float, told: int) -> UserRun:
    problem, mapping = _mapped(setting, placed)
    hops = problem.trees.depths[problem.trees.row_of][:, mapping].astype(np.float64)
    least = least_delay(problem).mapping
    better = swept(problem, mapping if least is None else least).last
    before, after = _per_publication(problem, mapping), _per_publication(problem, better)
    loads = placed.loads * setting.brokers
    return UserRun(
        name,
        rate,
        placed.subscription_changes / setting.hours,
        placed.tree_messages(hops) / setting.hours + told,
        placed.handovers / setting.hours,
        float(loads.max()),
        float(loads.std()),
        *before,
        *after,
    )


def _mapped(setting: Setting, placed: UserPlacement) -> tuple[MappingProblem, BrokerMapping]:
    """The brokers with the topics of their users, where consistent hashing puts them."""
    wanted = placed.wanted_topics()
    owners: Integers = np.repeat(np.arange(len(wanted)), [len(each) for each in wanted])
    names = [f"b{number}" for number in range(setting.brokers)]
    subscriptions = Subscriptions.from_pairs(
        names, [f"t{number}" for number in range(setting.topics)], owners, np.concatenate(wanted)
    )
    ring = Ring.equidistant(setting.brokers)
    problem = MappingProblem.of(subscriptions, dict.fromkeys(subscriptions.topic_names, 1.0), ring)
    return problem, problem.hashed_order([key_of(name) for name in names])


def _per_publication(problem: MappingProblem, mapping: BrokerMapping) -> tuple[float, float]:
    """Hops from the rendezvous to a subscribing broker, and messages of a publication, on average.

    One publication of each topic."""
    hops = mapping_cost(problem, mapping).delay / max(1, problem.wanted.size)
    return hops, event_overhead(problem, mapping) / problem.wanted.topic_count
