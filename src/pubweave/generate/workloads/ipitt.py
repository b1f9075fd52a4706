"""The synthetic workload of IPITT VI-A.

The content space has 10 classes with two attributes in 0..1000. Publishers sit at the root and
draw publications uniformly from it; each subscriber sits at a random leaf and wants a uniform
range of each attribute in one class, classes being popular by Zipf's law. The paper gives ranges
without saying how they are drawn: we take two uniform numbers as their ends.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pubweave.generate.topologies.trees import ROOT
from pubweave.generate.workloads.clients import Content, WorkloadPublisher, WorkloadSubscriber
from pubweave.model.filters.filter import Filter, Operator, Predicate
from pubweave.model.ids import BrokerId
from pubweave.model.publications import TOPIC_ATTRIBUTE
from pubweave.model.topology import Topology, TopologyError

CLASSES = tuple(f"c{number}" for number in range(10))
ATTRIBUTES = ("x", "y")
GREATEST_VALUE = 1000
ZIPF_EXPONENT = 1.1
PUBLISHERS = 20
SUBSCRIBERS = 1000
RATE_PER_S = 5.0
_DRAWS_AT_ONCE = 256


@dataclass(frozen=True)
class IpittWorkload:
    """Publishers and subscribers at their brokers; every publisher draws from `publications`."""

    publishers: tuple[WorkloadPublisher, ...]
    subscribers: tuple[WorkloadSubscriber, ...]


def ipitt_workload(
    topology: Topology,
    rng: np.random.Generator,
    publisher_count: int = PUBLISHERS,
    subscriber_count: int = SUBSCRIBERS,
    root: BrokerId = ROOT,
) -> IpittWorkload:
    """The clients ``p1 ..`` at the root and ``s1 ..`` at uniformly random leaves."""
    if root not in topology.brokers:
        raise TopologyError(f"the root {root!r} is not among the brokers")
    # In a chain the root is a leaf by its degree, but not an edge broker of the hierarchy.
    leaves = [broker for broker in topology.leaves if broker != root] or [root]
    advertisements = advertisement_filters()
    publishers = tuple(
        WorkloadPublisher(f"p{number}", root, advertisements, RATE_PER_S)
        for number in range(1, publisher_count + 1)
    )
    filters = subscription_filters(subscriber_count, rng)
    places = rng.integers(len(leaves), size=subscriber_count).tolist()
    subscribers = tuple(
        WorkloadSubscriber(f"s{number}", leaves[place], wanted)
        for number, (place, wanted) in enumerate(zip(places, filters, strict=True), start=1)
    )
    return IpittWorkload(publishers, subscribers)


def publications(rng: np.random.Generator) -> Iterator[Content]:
    """Publications without end: a uniform class, two uniform attributes."""
    while True:
        classes = rng.integers(len(CLASSES), size=_DRAWS_AT_ONCE).tolist()
        values = rng.integers(GREATEST_VALUE + 1, size=(_DRAWS_AT_ONCE, len(ATTRIBUTES))).tolist()
        for number, (x, y) in zip(classes, values, strict=True):
            yield CLASSES[number], {ATTRIBUTES[0]: x, ATTRIBUTES[1]: y}


def advertisement_filters() -> tuple[Filter, ...]:
    """What a publisher of the whole content space advertises: one filter for each class."""
    return tuple(_box(name, [(0, GREATEST_VALUE)] * len(ATTRIBUTES)) for name in CLASSES)


def subscription_filters(count: int, rng: np.random.Generator) -> list[Filter]:
    """Subscriptions to one class each, with a uniform range of both attributes."""
    classes = rng.choice(len(CLASSES), size=count, p=class_popularity()).tolist()
    ends = rng.integers(GREATEST_VALUE + 1, size=(count, len(ATTRIBUTES), 2))
    ranges = np.sort(ends, axis=2).tolist()
    return [_box(CLASSES[number], box) for number, box in zip(classes, ranges, strict=True)]


def class_popularity() -> npt.NDArray[np.float64]:
    """Zipf's law over the classes: the k-th is k^-1.1 times as popular as the first."""
    weight = np.arange(1, len(CLASSES) + 1, dtype=np.float64) ** -ZIPF_EXPONENT
    share: npt.NDArray[np.float64] = weight / weight.sum()
    return share


def _box(name: str, ranges: list[tuple[int, int]]) -> Filter:
    predicates = [Predicate(TOPIC_ATTRIBUTE, Operator.EQ, name)]
    for attribute, (lowest, highest) in zip(ATTRIBUTES, ranges, strict=True):
        predicates.append(Predicate(attribute, Operator.GE, lowest))
        predicates.append(Predicate(attribute, Operator.LE, highest))
    return Filter(tuple(predicates))
