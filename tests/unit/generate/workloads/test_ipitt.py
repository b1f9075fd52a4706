"""The workload of IPITT VI-A has the numbers of the paper."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest

from pubweave.generate.topologies.trees import chain, hierarchical_tree
from pubweave.generate.workloads.ipitt import (
    CLASSES,
    advertisement_filters,
    class_popularity,
    ipitt_workload,
    publications,
    subscription_filters,
)
from pubweave.model.filters.filter import Filter
from pubweave.model.publications import Publication, make_publication
from pubweave.model.topology import TopologyError


def _publications(count: int, seed: int) -> list[Publication]:
    contents = itertools.islice(publications(np.random.default_rng(seed)), count)
    return [
        make_publication("p1", n, topic, kept, b"", 0.0) for n, (topic, kept) in enumerate(contents)
    ]


def _class(wanted: Filter) -> str:
    value = wanted.predicates[0].value
    assert isinstance(value, str)
    return value


def test_the_defaults_are_those_of_the_paper() -> None:
    tree = hierarchical_tree(60, 5, True, np.random.default_rng(1))
    workload = ipitt_workload(tree, np.random.default_rng(2))
    assert len(workload.publishers) == 20
    assert {publisher.broker for publisher in workload.publishers} == {"b1"}
    assert sum(publisher.rate_per_s for publisher in workload.publishers) == 100
    assert len({subscriber.client for subscriber in workload.subscribers}) == 1000


def test_subscribers_are_spread_evenly_over_the_leaves() -> None:
    tree = hierarchical_tree(20, 5, True, np.random.default_rng(1))
    workload = ipitt_workload(tree, np.random.default_rng(2), subscriber_count=5000)
    per_broker = Counter(subscriber.broker for subscriber in workload.subscribers)
    assert set(per_broker) == set(tree.leaves)
    mean = 5000 / len(tree.leaves)
    assert all(0.8 * mean < count < 1.2 * mean for count in per_broker.values())


def test_the_root_is_no_edge_broker_unless_it_is_alone() -> None:
    rng = np.random.default_rng(0)
    assert {s.broker for s in ipitt_workload(chain(5), rng).subscribers} == {"b5"}
    assert {s.broker for s in ipitt_workload(chain(1), rng).subscribers} == {"b1"}
    with pytest.raises(TopologyError, match="root 'b9'"):
        ipitt_workload(chain(3), rng, root="b9")


def test_classes_are_popular_by_zipfs_law() -> None:
    popularity = class_popularity()
    assert popularity.sum() == pytest.approx(1)
    assert popularity[0] / popularity[9] == pytest.approx(10**1.1)
    filters = subscription_filters(20_000, np.random.default_rng(4))
    drawn = Counter(_class(wanted) for wanted in filters)
    for name, share in zip(CLASSES, popularity, strict=True):
        assert drawn[name] / 20_000 == pytest.approx(share, abs=0.01)


def test_publications_are_uniform_over_the_content_space() -> None:
    made = _publications(20_000, 5)
    classes = Counter(publication.topic for publication in made)
    assert set(classes) == set(CLASSES)
    assert all(1800 < count < 2200 for count in classes.values())
    for name in ("x", "y"):
        values = np.array([publication.attributes[name] for publication in made])
        assert values.min() == 0
        assert values.max() == 1000
        assert values.mean() == pytest.approx(500, abs=10)
        assert values.std() == pytest.approx(1000 / 12**0.5, abs=10)


def test_every_publication_is_advertised_exactly_once() -> None:
    advertised = advertisement_filters()
    for publication in _publications(200, 6):
        assert sum(wanted.matches(publication) for wanted in advertised) == 1


def test_a_subscription_matches_a_ninth_of_its_class() -> None:
    """A uniform point lies in a range with uniform ends with probability 1/3, in both with 1/9."""
    made = _publications(500, 7)
    matched = wanted_class = 0
    for wanted in subscription_filters(300, np.random.default_rng(8)):
        same = [publication for publication in made if publication.topic == _class(wanted)]
        wanted_class += len(same)
        matched += sum(wanted.matches(publication) for publication in made)
    assert matched / wanted_class == pytest.approx(1 / 9, abs=0.015)
