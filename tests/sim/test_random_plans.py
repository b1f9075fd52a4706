"""Random plans are plans that the independent judge accepts, step by step."""

from __future__ import annotations

from pubweave.deploy.topology_state import apply_actions
from pubweave.generate.topologies.trees import random_tree
from pubweave.model.plans import Append, Detach, Move, Plan, Shift
from pubweave.planning.check.validate import validate_plan
from pubweave.planning.problem.problem import PlanningProblem
from pubweave.sim.kernel.random_plans import PlanDraw, one_by_one
from pubweave.sim.kernel.world import World


def drawn(seed: int, *, disjoint: bool) -> tuple[World, Plan, PlanningProblem]:
    world = World(seed)
    source = random_tree(12, world.rng)
    draw = PlanDraw(world, disjoint=disjoint, spare=["x1", "x2"], stay={"b1"}, changes_brokers=True)
    plan = draw.plan(source, steps=4, actions=5)
    target = apply_actions(source, plan.actions())
    return world, plan, PlanningProblem(source, target, allow_move=True, disjoint_brokers=disjoint)


def test_every_step_is_valid() -> None:
    kinds = set()
    for seed in range(150):
        _, plan, problem = drawn(seed, disjoint=seed % 2 == 0)
        now = problem.source
        for step in plan.steps:
            after = apply_actions(now, step)
            if after.brokers - now.brokers and now.brokers - after.brokers:
                kinds.add("both")
            one = PlanningProblem(
                now, after, allow_move=True, disjoint_brokers=problem.disjoint_brokers
            )
            validate_plan(one, Plan((step,)))
            kinds |= {type(action) for action in step}
            assert after.is_tree
            now = after
        assert now == problem.target
        assert all(a.broker != "b1" for a in plan.actions() if isinstance(a, Detach))
    assert kinds == {Shift, Move, Append, Detach, "both"}


def test_disjoint_steps_share_no_broker_and_others_do() -> None:
    shared = {True: 0, False: 0}
    for seed in range(60):
        for disjoint in (True, False):
            _, plan, _ = drawn(seed, disjoint=disjoint)
            for step in plan.steps:
                brokers = [broker for action in step for broker in action.brokers]
                shared[disjoint] += len(brokers) > len(set(brokers)) and not any(
                    isinstance(action, Move) for action in step
                )
    assert shared[True] == 0
    assert shared[False] > 20


def test_one_by_one_keeps_actions_and_their_order() -> None:
    _, plan, _ = drawn(3, disjoint=False)
    alone = one_by_one(plan)
    assert list(alone.actions()) == list(plan.actions())
    assert all(len(step) == 1 for step in alone.steps)
