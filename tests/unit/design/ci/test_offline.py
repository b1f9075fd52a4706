"""The local heuristics in rounds: always a tree, cheaper where the rule says so, and at rest."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from pubweave.design.ci.rounds import (
    LIVE,
    ExactInterest,
    LocalOverlay,
    LocalSettings,
    reorganized,
)
from pubweave.design.ci.rules import Estimate, Heuristic
from pubweave.design.tree.cost import common_interest, links_of, total_cost
from pubweave.design.tree.problem import DesignLimits, DesignProblem
from pubweave.design.tree.spanning import maximum_interest_tree, minimum_spanning_tree
from pubweave.design.tree.traffic import Prices, Traffic
from pubweave.model.ids import Link
from pubweave.model.topology import Topology
from tests.naive.design_instances import random_edges, random_prices, random_traffic


def problem(seed: int, brokers: int = 20, limits: DesignLimits | None = None) -> DesignProblem:
    rng = np.random.default_rng(seed)
    traffic, prices = random_traffic(rng, brokers, 30), random_prices(rng, brokers)
    links = links_of(random_edges(rng, brokers), prices.brokers)
    source = Topology(frozenset(prices.brokers), links)
    return DesignProblem(source, traffic, prices, limits or DesignLimits())


def settled(asked: DesignProblem, **settings: object) -> Topology:
    result = reorganized(
        asked,
        LocalSettings(**settings),  # type: ignore[arg-type]
        stop=lambda: False,
        rng=np.random.default_rng(1),
    )
    return Topology(frozenset(asked.brokers), result.links)


@pytest.mark.parametrize("heuristic", list(Heuristic))
@pytest.mark.parametrize("seed", range(3))
def test_whatever_happens_it_stays_a_tree(heuristic: Heuristic, seed: int) -> None:
    assert settled(problem(seed), heuristic=heuristic).is_tree


def test_figure_2_is_mended_by_ci() -> None:
    traffic = Traffic.of(["b1", "b2", "b3"], [(["b2", "b3"], 10.0)])
    prices = Prices.of(
        {"b1": 1.0, "b2": 3.0, "b3": 1.0},
        {Link("b1", "b2"): 2.0, Link("b1", "b3"): 3.0, Link("b2", "b3"): 4.0},
    )
    source = Topology.from_links([("b1", "b2"), ("b1", "b3")])
    found = settled(DesignProblem(source, traffic, prices))
    assert Link("b2", "b3") in found.links


@pytest.mark.parametrize("seed", range(3))
def test_ci_lowers_the_cost_of_a_random_tree(seed: int) -> None:
    asked = problem(seed, brokers=40)
    result = reorganized(
        asked, LocalSettings(), stop=lambda: False, rng=np.random.default_rng(seed)
    )
    edges = np.array(
        [[asked.brokers.index(end) for end in link] for link in sorted(asked.source.links)]
    )
    assert result.cost < 0.8 * total_cost(asked.traffic, asked.prices, edges)


@pytest.mark.parametrize("price", ["drawn", "equal"])
@pytest.mark.parametrize("seed", range(3))
def test_sides_come_to_less_than_the_printed_estimate(seed: int, price: str) -> None:
    asked = problem(seed, brokers=40)
    if price == "equal":
        links = np.full_like(asked.prices.communication, 1.0)
        equal = Prices.from_matrix(asked.prices.brokers, np.ones(40), links)
        asked = DesignProblem(asked.source, asked.traffic, equal)
    found, printed = (
        reorganized(asked, chosen, stop=lambda: False, rng=np.random.default_rng(seed))
        for chosen in (LIVE, LocalSettings())
    )
    assert found.cost < printed.cost


@pytest.mark.parametrize("seed", range(3))
def test_with_eyes_on_everything_lmst_and_lmit_end_at_mst_and_mit(seed: int) -> None:
    asked = problem(seed)
    mst = settled(asked, heuristic=Heuristic.MST, eta=99)
    assert mst.links == minimum_spanning_tree(asked).links
    mit = settled(asked, heuristic=Heuristic.MIT, eta=99)
    common = common_interest(asked.traffic)
    index = asked.brokers.index

    def interest(links: frozenset[Link]) -> float:
        return float(sum(common[index(link.a), index(link.b)] for link in links))

    assert interest(mit.links) == interest(maximum_interest_tree(asked).links)


def test_limits_bind_the_local_heuristics() -> None:
    asked = problem(4)
    pinned, forbidden = sorted(asked.source.links)[:2]
    limits = DesignLimits(5, frozenset({pinned}), frozenset({forbidden}), 9)
    found = settled(problem(4, limits=limits))
    assert pinned in found.links
    assert forbidden not in found.links
    assert max(map(found.degree, found.brokers)) <= 5
    assert len(found.links - asked.source.links) <= 9


def overlay(asked: DesignProblem, settings: LocalSettings) -> LocalOverlay:
    index = asked.brokers.index
    neighbors = [sorted(map(index, asked.source.neighbors[broker])) for broker in asked.brokers]
    rng = np.random.default_rng(0)
    interest = ExactInterest(asked.traffic, settings.estimate, rng)
    return LocalOverlay(
        neighbors,
        asked.prices.processing.tolist(),
        asked.prices.communication.tolist(),
        interest,
        settings,
    )


def test_exchanges_per_broker_and_round_are_limited_or_not() -> None:
    asked = problem(2, brokers=40)
    most = {}
    for limit in (1, 2, None):
        brokers, rng = overlay(asked, LocalSettings(exchanges=limit)), np.random.default_rng(3)
        assert not brokers.play(rng).agreed  # nobody has heard of anybody yet
        made = brokers.play(rng)
        members = Counter(broker for path in made.agreed for broker in path)
        assert len(made.exchanges) == len(made.agreed) > 1
        most[limit] = max(members.values())
    assert (most[1], most[2]) == (1, 2)
    assert most[None] > 5


def test_requests_are_bounded_and_what_was_denied_is_not_asked_at_once() -> None:
    brokers = overlay(problem(2, brokers=40), LocalSettings(requests=1, patience=3))
    rng = np.random.default_rng(3)
    rounds = [brokers.play(rng) for _ in range(12)]
    denials = 0
    for number, made in enumerate(rounds):
        assert len(made.requested) <= 40
        denied = {ends(path) for path in made.requested} - {ends(path) for path in made.agreed}
        denials += len(denied)
        for later in rounds[number + 1 : number + 4]:
            assert not denied & {ends(path) for path in later.requested}
    assert denials


def ends(path: tuple[int, ...]) -> tuple[int, int]:
    return path[0], path[-1]


def test_broadcasts_cross_a_link_for_everyone_within_the_hops() -> None:
    chain = DesignProblem(
        Topology.from_links([("b1", "b2"), ("b2", "b3"), ("b3", "b4")]),
        Traffic.of(["b1", "b2", "b3", "b4"], [(["b1", "b4"], 1.0)]),
        Prices.of(dict.fromkeys(["b1", "b2", "b3", "b4"], 1.0), {}),
    )
    made = overlay(chain, LocalSettings(eta=2)).play(np.random.default_rng(1))
    crossed = made.crossed
    once, twice = [(0, 1), (3, 2)], [(1, 0), (1, 2), (2, 1), (2, 3)]
    assert sorted(crossed) == sorted(once + twice + twice)


def test_triples_are_counted_in_the_sets() -> None:
    traffic = Traffic.of("abc", [("abc", 2.0), ("ab", 5.0)])
    interest = ExactInterest(traffic, Estimate.CONJUNCTION, np.random.default_rng(0))
    assert interest.triple(0, 1, 2) == 2.0
    assert interest.common(0)[1] == 7.0
    assert interest.own(2) == 2.0
