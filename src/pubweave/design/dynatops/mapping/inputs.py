"""What is to be mapped, from counts or from a profile and the ring that was measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from pubweave.design.dynatops.mapping.problem import BrokerMapping, MappingProblem
from pubweave.design.dynatops.mapping.ring import RING_SIZE, Ring
from pubweave.design.tco.interests import Subscriptions
from pubweave.design.tree.profile_inputs import Tables
from pubweave.design.tree.traffic import DesignError
from pubweave.model.ids import BrokerId, natural_order
from pubweave.model.topology import Topology

RING_ID = "ring_id"
"""The attribute of a broker in a topology that says where on the ring it is."""


class MappingInputs(NamedTuple):
    """The problem and the mapping that is there, and what was not known."""

    problem: MappingProblem
    mapping: BrokerMapping
    silent: tuple[str, ...] = ()
    """Topics that are wanted, and nobody counted their publications: taken as 0."""
    unwanted: int = 0
    """Topics without a subscriber: they cost nothing."""
    has_ring: bool = True
    """Or else positions are taken as equidistant."""


def inputs_from_counts(
    topics: Mapping[BrokerId, Iterable[str]],
    publications: Mapping[str, float],
    mapping: Mapping[BrokerId, int] | None = None,
    delay_weight: float = 1.0,
) -> MappingInputs:
    """Equidistant positions; brokers in their order unless a mapping is given."""
    number: dict[str, int] = {}
    pairs = [
        (owner, number.setdefault(topic, len(number)))
        for owner, wanted in enumerate(topics.values())
        for topic in wanted
    ]
    silent = tuple(topic for topic in number if topic not in publications)
    unwanted = len(publications.keys() - number.keys())
    names = (*number, *(topic for topic in publications if topic not in number))
    owners, places = np.array(pairs, np.int64).reshape(-1, 2).T
    wanted = Subscriptions.from_pairs(tuple(topics), names, owners, places)
    problem = MappingProblem.of(wanted, publications, delay_weight=delay_weight)
    first = problem.in_order()
    if mapping is not None:
        first = np.array([mapping[broker] for broker in wanted.nodes], np.int64)
    return MappingInputs(problem, first, silent, unwanted)


def inputs_from_profile(
    profile: Tables, topology: Topology, seconds: float, delay_weight: float = 1.0
) -> MappingInputs:
    """Topics by broker, and ``seconds`` of the profile's filtered rates; the topology's ring ids
    if it has them."""
    counts = {row["topic"]: row["filtered_rate_per_s"] * seconds for row in profile.rows("topics")}
    topics: dict[str, list[str]] = {
        broker: [] for broker in sorted(topology.brokers, key=natural_order)
    }
    for row in profile.rows("broker_topics"):
        if row["broker"] not in topics:
            raise DesignError(
                f"the profile tells of broker {row['broker']!r}, which the topology lacks; "
                "give the topology that was measured"
            )
        topics[row["broker"]].append(row["topic"])
    if not any(topics.values()):
        raise DesignError(
            "no broker of the profile wants a topic at the end of its window, so nothing can be "
            "mapped; make the profile while subscribers are there"
        )
    wanted = Subscriptions.of(topics)
    keys: list[Any] = [topology.broker_attributes.get(b, {}).get(RING_ID) for b in topics]
    if all(key is None for key in keys):
        problem = MappingProblem.of(wanted, counts, delay_weight=delay_weight)
        return MappingInputs(problem, problem.in_order(), has_ring=False)
    _check_ring_ids(dict(zip(topics, keys, strict=True)))
    ring = Ring(np.array(sorted(keys), np.int64))
    problem = MappingProblem.of(wanted, counts, ring, delay_weight)
    return MappingInputs(problem, problem.hashed_order(keys))


def _check_ring_ids(keys: Mapping[BrokerId, Any]) -> None:
    """Every broker has one of its own on the ring, or the first that has not is named."""
    owners: dict[int, str] = {}
    for broker, key in keys.items():
        if not isinstance(key, int) or not 0 <= key < RING_SIZE:
            raise DesignError(
                f"broker {broker!r} needs a whole number as {RING_ID}, from 0 to {RING_SIZE - 1}"
            )
        other = owners.setdefault(key, broker)
        if other != broker:
            raise DesignError(
                f"brokers {other!r} and {broker!r} have the same {RING_ID} {key}; give each its own"
            )
