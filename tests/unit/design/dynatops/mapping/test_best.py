"""Better mappings, the bound below them, and when a change pays."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from pubweave.design.dynatops._kernels import assignment as kernels
from pubweave.design.dynatops.mapping import best
from pubweave.design.dynatops.mapping.best import (
    best_mapping,
    broker_delays,
    least_delay,
    lower_bound,
    swept,
)
from pubweave.design.dynatops.mapping.problem import MappingProblem, Spread, mapping_cost
from pubweave.design.dynatops.mapping.reconfigure import (
    candidates,
    chosen,
    has_demand,
    pareto_front,
    reconfiguration_cost,
)
from pubweave.design.dynatops.mapping.ring import key_of
from pubweave.design.dynatops.mapping.swaps import ssbr_greedy
from pubweave.design.tco.interests import Subscriptions
from pubweave.generate.workloads.dynatops import Pattern, broker_subscriptions
from tests.dynatops_problems import instance_of, problems
from tests.naive import dynatops as naive

Drawn = tuple[MappingProblem, np.ndarray]


@settings(deadline=None, max_examples=150)
@given(st.integers(1, 6), st.data())
def test_an_assignment_is_the_cheapest_and_its_prices_prove_it(
    count: int, data: st.DataObject
) -> None:
    rows = st.lists(st.integers(0, 6), min_size=count, max_size=count)
    drawn = data.draw(st.lists(rows, min_size=count, max_size=count))
    costs = np.array(drawn, np.float64)
    columns, prices = np.empty(count, np.int64), np.empty(count)
    kernels.assign(costs, columns, prices)
    assert sorted(columns) == list(range(count))
    least = min(sum(costs[i, j] for i, j in enumerate(p)) for p in permutations(range(count)))
    assert costs[np.arange(count), columns].sum() == least
    assert kernels.dual_bound(costs, prices) == least


@settings(deadline=None, max_examples=25)
@given(problems(most=5, topics=4))
def test_no_mapping_is_cheaper_than_the_bound(drawn: Drawn) -> None:
    problem, mapping = drawn
    least = instance_of(problem).least_cost()
    found = best_mapping(problem, mapping)
    assert found.bound <= least <= found.path.last_cost.notification_cost


@settings(deadline=None, max_examples=60)
@given(problems())
def test_the_weaker_bound_is_one_too(drawn: Drawn) -> None:
    problem, mapping = drawn
    exact = least_delay(problem)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(best, "DENSE_MOST", 0)
        weak = least_delay(problem)
        found = best_mapping(problem, mapping)
    assert weak.mapping is None
    assert weak.delay <= exact.delay
    assert exact.mapping is not None
    assert exact.delay == mapping_cost(problem, exact.mapping).delay
    assert found.bound <= found.path.last_cost.notification_cost


@settings(deadline=None, max_examples=40)
@given(problems(most=7))
def test_after_sweeps_no_swap_of_any_two_brokers_helps(drawn: Drawn) -> None:
    problem, mapping = drawn
    path = swept(problem, mapping)
    instance = instance_of(problem)
    last = path.last.tolist()
    cost = instance.cost(last)
    assert path.last_cost.notification_cost == cost
    assert path.is_complete
    for a in range(len(last)):
        for b in range(a):
            assert instance.cost(naive.swapped(last, a, b)) >= cost


def hashed_problem(pattern: Pattern, seed: int) -> Drawn:
    wanted = broker_subscriptions(300, 60, pattern, np.random.default_rng(seed))
    problem = MappingProblem.of(wanted, {topic: 100 for topic in wanted.topic_names})
    return problem, problem.hashed_order([key_of(broker) for broker in wanted.nodes])


@pytest.mark.parametrize("pattern", [Pattern.UNIFORM, Pattern.MULTIMODAL])
def test_the_better_algorithm_saves_more_than_the_paper_s(pattern: Pattern) -> None:
    problem, mapping = hashed_problem(pattern, 1)
    before = mapping_cost(problem, mapping).notification_cost
    greedy = ssbr_greedy(problem, mapping).last_cost.notification_cost
    found = best_mapping(problem, mapping)
    best = found.path.last_cost.notification_cost
    assert best < greedy < before
    assert 1 - best / before > 0.4
    assert found.bound <= best


def test_delays_by_position_are_those_of_the_costs() -> None:
    problem, mapping = hashed_problem(Pattern.UNIFORM, 2)
    delays = broker_delays(problem)
    found = delays[np.arange(len(mapping)), mapping].sum()
    assert found == mapping_cost(problem, mapping).delay
    assert lower_bound(problem, least_delay(problem)) <= found


@settings(deadline=None, max_examples=60)
@given(problems())
def test_the_choice_is_that_of_algorithm_4(drawn: Drawn) -> None:
    problem, mapping = drawn
    path = ssbr_greedy(problem, mapping)
    among = candidates(problem, [path], mapping)
    costs = [path.cost_at(place).notification_cost for place in range(len(path))]
    changed = [int((path.mapping_at(k) != mapping).sum()) for k in range(len(path))]
    price = {
        count: reconfiguration_cost(problem.broker_count, problem.wanted.topic_count, count)
        for count in changed
    }
    assert chosen(among).place == naive.net_choice(costs, changed, price)


def test_only_what_pays_is_chosen() -> None:
    """With one publication per topic nothing is worth a move; with many, the end of the path."""
    problem, mapping = hashed_problem(Pattern.MULTIMODAL, 3)
    rare = MappingProblem.of(problem.wanted, {topic: 1 for topic in problem.wanted.topic_names})
    path = ssbr_greedy(rare, mapping)
    assert chosen(candidates(rare, [path], mapping)).place == 0
    assert not has_demand(rare, path.first_cost)
    often = MappingProblem.of(rare.wanted, {topic: 10**6 for topic in rare.wanted.topic_names})
    path = ssbr_greedy(often, mapping)
    choice = chosen(candidates(often, [path], mapping))
    assert choice.place == len(path) - 1
    assert choice.net == choice.benefit - choice.reconfiguration_cost > 0
    assert has_demand(often, path.first_cost)


def test_nobody_on_the_front_is_beaten_in_both_costs() -> None:
    problem, mapping = hashed_problem(Pattern.UNIFORM, 4)
    found = best_mapping(problem, mapping)
    among = candidates(problem, found.paths, mapping)
    front = pareto_front(among)
    prices = [each.reconfiguration_cost for each in front]
    costs = [each.cost.notification_cost for each in front]
    assert prices[0] == 0.0
    assert costs[-1] == found.path.last_cost.notification_cost
    assert prices == sorted(prices)
    assert costs == sorted(costs, reverse=True)
    for each in among:
        assert any(
            price <= each.reconfiguration_cost and cost <= each.cost.notification_cost
            for price, cost in zip(prices, costs, strict=True)
        )


def test_the_price_of_a_reconfiguration_is_the_papers() -> None:
    assert reconfiguration_cost(1024, 100, 0) == 0.0
    assert reconfiguration_cost(1024, 100, 7) == 1024 + (100 + 1000) * 7


@settings(deadline=None, max_examples=60)
@given(problems(), st.data())
def test_a_subscriber_more_changes_relays_as_the_costs_say(
    drawn: Drawn, data: st.DataObject
) -> None:
    problem, mapping = drawn
    assume(problem.wanted.topic_count)
    broker = data.draw(st.integers(0, problem.broker_count - 1))
    topic = data.draw(st.integers(0, problem.wanted.topic_count - 1))
    changes = Spread.of(problem, mapping).relay_changes(problem)
    topics = {
        name: [problem.wanted.topic_names[t] for t in problem.wanted.topics_of(number)]
        for number, name in enumerate(problem.wanted.nodes)
    }
    name = problem.wanted.topic_names[topic]
    topics[problem.wanted.nodes[broker]] = [*topics[problem.wanted.nodes[broker]], name]
    counts = dict(zip(problem.wanted.topic_names, problem.publications.tolist(), strict=True))
    more = MappingProblem.of(Subscriptions.of(topics), counts, problem.ring, problem.delay_weight)
    change = (
        mapping_cost(more, mapping).relay_overhead - mapping_cost(problem, mapping).relay_overhead
    )
    assert changes[topic, mapping[broker]] == change
