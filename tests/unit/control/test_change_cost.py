"""What a plan costs: the fast form against the slow one, shift by shift."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest

from pubweave.control.alternatives import change_cost
from pubweave.control.settings import ChangePrices
from pubweave.design.tree.traffic import Prices, Traffic
from pubweave.generate.topologies.trees import change_links, random_tree
from pubweave.model.ids import Link, natural_order
from pubweave.model.plans import Move, Plan, Shift
from pubweave.planning.problem.problem import PlanningProblem
from pubweave.sim.autopilot.day import plan_quickly
from tests.naive.control import naive_change_cost
from tests.unit.control.world import CHAIN, FAR, LATENCY, PROCESSING, evidence

PRICES = ChangePrices(messages=12.0, store_ms=20.0)


def test_a_shift_pays_for_messages_state_and_waiting() -> None:
    # b1 leaves b2 for b3: it takes its own 10 entries along, and everything crosses both links.
    cost = change_cost(Plan(((Shift("b1", "b2", "b3"),),)), evidence(), PRICES)
    assert cost.messages_ms == pytest.approx(12 * 11.0)
    assert cost.entries_moved == 10.0
    assert cost.state_ms == pytest.approx(10 * 11.0)
    hold_ms = 2 * 10.0 + 2 * 10.0 + 20.0
    crossing_per_s = (3000.0 + 3000.0 + 300.0) / 60.0
    assert cost.waiting_ms == pytest.approx(crossing_per_s * hold_ms / 1000 * hold_ms / 2)
    assert cost.total_ms == pytest.approx(cost.messages_ms + cost.state_ms + cost.waiting_ms)


def test_an_operator_can_weigh_changes_heavier() -> None:
    plan = Plan(((Shift("b1", "b2", "b3"),),))
    light = change_cost(plan, evidence(), PRICES)
    heavy = change_cost(plan, evidence(), ChangePrices(12.0, 20.0, weight=7.0))
    assert heavy.total_ms == pytest.approx(7.0 * light.total_ms)


def test_a_move_costs_what_its_shifts_cost() -> None:
    move = Plan(((Move("b1", "b2", "b1", "b4"),),))
    shifts = Plan(((Shift("b1", "b2", "b3"), Shift("b1", "b3", "b4")),))
    assert change_cost(move, evidence(), PRICES) == change_cost(shifts, evidence(), PRICES)


def test_a_plan_without_steps_costs_nothing() -> None:
    assert change_cost(Plan(), evidence(), PRICES).total_ms == 0.0


def test_a_link_that_nobody_has_measured_is_taken_for_the_dearest() -> None:
    known = {link: price for link, price in LATENCY.items() if link != Link("b1", "b3")}
    seen = evidence(prices=Prices.of(PROCESSING, known))
    plan = Plan(((Shift("b1", "b2", "b3"),),))
    assert change_cost(plan, seen, PRICES) == change_cost(plan, evidence(), PRICES)


@pytest.mark.parametrize("seed", range(12))
def test_random_plans_cost_what_the_slow_twin_says(seed: int) -> None:
    rng = np.random.default_rng(seed)
    source = random_tree(int(rng.integers(5, 14)), rng)
    target = change_links(source, 0.5, rng)
    brokers = sorted(source.brokers, key=natural_order)
    processing = {b: float(rng.uniform(0.1, 3.0)) for b in brokers}
    latency = {Link.between(a, b): float(rng.uniform(1, 50)) for a, b in combinations(brokers, 2)}
    groups = [
        (tuple(rng.permutation(brokers)[: int(rng.integers(2, 5))].tolist()), float(weight))
        for weight in rng.integers(1, 500, 20)
    ]
    entries = {b: float(rng.integers(0, 100)) for b in brokers}
    result = plan_quickly(PlanningProblem(source, target))
    assert result.plan is not None
    seen = evidence(
        topology=source,
        traffic=Traffic.of(brokers, groups),
        prices=Prices.of(processing, latency),
        entries=entries,
    )
    # The slow twin takes shifts in the order in which they are carried out.
    from pubweave.deploy.topology_state import apply_actions, spell_out_step

    steps, now = [], source
    for step in result.plan.steps:
        spelled = spell_out_step(now, step)
        now = apply_actions(now, spelled)
        steps.append([action for action in spelled if isinstance(action, Shift)])
    slow = naive_change_cost(
        source, steps, groups, processing, latency, entries,
        window_s=60.0, messages=12.0, store_ms=20.0,
    )  # fmt: skip
    assert change_cost(result.plan, seen, PRICES).total_ms == pytest.approx(slow)


def test_the_chain_of_the_tests_is_bad_for_its_traffic() -> None:
    assert evidence().cost_of(CHAIN).link_load[Link("b3", "b4")] == FAR[0][1]
