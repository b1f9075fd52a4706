"""Alternatives: designed within limits, planned, and priced twice."""

from __future__ import annotations

from itertools import combinations

import pytest

from pubweave.control.alternatives import GLOBAL, STAY, Allowed, best_option
from pubweave.control.settings import ControlSettings, OperatorLimits
from pubweave.model.files.plan import topology_hash
from pubweave.model.ids import Link
from pubweave.model.topology import Topology, TopologyError, validate_tree
from pubweave.planning.check.validate import validate_plan
from pubweave.planning.problem.problem import (
    Bounds,
    PlanningError,
    PlanningProblem,
    PlanResult,
    PlanStatus,
)
from tests.naive.control import naive_cost
from tests.unit.control.world import BROKERS, CHAIN, FAR, LATENCY, PROCESSING, evidence, options_for

SETTINGS = ControlSettings(few_links=(1, 2, 4))


def test_stay_comes_first_and_costs_what_the_overlay_costs() -> None:
    stay = options_for(evidence(), SETTINGS)[0]
    assert stay.alternative.name == STAY
    assert stay.alternative.net_ms == 0.0
    slow = naive_cost(CHAIN, FAR, PROCESSING, LATENCY) / 60.0
    assert stay.alternative.cost_ms_per_s == pytest.approx(slow)


def test_every_alternative_is_a_tree_with_a_valid_plan_to_it_and_an_honest_price() -> None:
    options = options_for(evidence(), SETTINGS)
    assert len(options) > 1
    for option in options[1:]:
        validate_tree(option.target)
        assert option.plan is not None
        assert option.plan.source_hash == topology_hash(CHAIN)
        assert option.plan.target_hash == topology_hash(option.target)
        validate_plan(PlanningProblem(CHAIN, option.target), option.plan.plan)
        slow = naive_cost(option.target, FAR, PROCESSING, LATENCY) / 60.0
        assert option.alternative.cost_ms_per_s == pytest.approx(slow)
        saved = options[0].alternative.cost_ms_per_s - slow
        assert option.alternative.benefit_ms == pytest.approx(saved * SETTINGS.horizon_s)
        assert option.alternative.change_cost_ms == pytest.approx(option.change.total_ms)


def test_the_whole_way_is_the_cheapest_of_all_trees() -> None:
    """Six brokers have 1,296 trees: the slow twin prices them all."""
    cheapest = float("inf")
    pairs = list(combinations(BROKERS, 2))
    for chosen in combinations(pairs, len(BROKERS) - 1):
        tree = Topology.from_links(chosen, BROKERS)
        try:
            validate_tree(tree)
        except TopologyError:
            continue
        cheapest = min(cheapest, naive_cost(tree, FAR, PROCESSING, LATENCY))
    found = min(o.alternative.cost_ms_per_s for o in options_for(evidence(), SETTINGS))
    assert found == pytest.approx(cheapest / 60.0)


def test_the_greatest_net_benefit_is_best_and_not_the_cheapest_tree() -> None:
    heavy = ControlSettings(few_links=(1, 2, 4), free_period_s=0.0, period_s=1.0)
    options = options_for(evidence(entries=dict.fromkeys(BROKERS, 1e6)), heavy)
    assert best_option(options).alternative.name == STAY
    assert min(o.alternative.cost_ms_per_s for o in options) < options[0].alternative.cost_ms_per_s
    light = options_for(evidence(), SETTINGS)
    nets = [o.alternative.net_ms for o in light]
    assert best_option(light).alternative.net_ms == max(nets) > 0


def test_the_operators_limits_hold_in_every_target() -> None:
    limits = OperatorLimits(
        max_degree=2, pinned=frozenset({Link("b3", "b4")}), forbidden=frozenset({Link("b1", "b6")})
    )
    options = options_for(evidence(), ControlSettings(few_links=(1, 2), limits=limits))
    assert len(options) > 1
    for option in options[1:]:
        assert Link("b3", "b4") in option.target.links
        assert Link("b1", "b6") not in option.target.links
        assert max(option.target.degree(b) for b in BROKERS) <= 2


def test_what_the_budget_forbids_is_shown_and_cannot_be_chosen() -> None:
    allowed = Allowed(1, "1 of the 9 links a day are left to change")
    many = evidence(traffic=_star_traffic())
    options = options_for(many, SETTINGS, allowed)
    whole = next(o for o in options if o.alternative.name == GLOBAL)
    assert whole.changed_links > 1
    assert whole.alternative.refusal == allowed.reason
    assert best_option(options).changed_links == 1


def test_without_any_budget_left_only_staying_can_be_chosen() -> None:
    options = options_for(evidence(), SETTINGS, Allowed(0, "nothing is left"))
    assert best_option(options).alternative.name == STAY


def test_an_alternative_without_a_plan_says_why_and_cannot_be_chosen() -> None:
    def no_plan(problem: PlanningProblem) -> PlanResult:
        return PlanResult(PlanStatus.UNKNOWN, None, Bounds(0, 0), "none", 0.0, ("no time",))

    def refuses(problem: PlanningProblem) -> PlanResult:
        raise PlanningError("the degrees leave no way")

    from numpy.random import default_rng

    from pubweave.control.alternatives import weigh

    for planner, words in ((no_plan, "no plan was found: no time"), (refuses, "leave no way")):
        options = weigh(
            evidence(), SETTINGS, planner,
            allowed=Allowed(), stop=lambda: False, rng=default_rng(0),
        )  # fmt: skip
        assert all(words in option.alternative.refusal for option in options[1:])
        assert best_option(options).alternative.name == STAY


def _star_traffic():  # type: ignore[no-untyped-def]
    from pubweave.design.tree.traffic import Traffic

    return Traffic.of(BROKERS, [(("b1", b), 1000.0) for b in BROKERS[2:]])
