"""The judge accepts what the rules allow, and each rule, broken once, is named."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations, permutations
from pathlib import Path

import numpy as np
import pytest

from pubweave.generate.topologies.trees import random_tree
from pubweave.model.ids import Link
from pubweave.model.plans import Append, Detach, Move, Plan, Shift
from pubweave.model.topology import Topology, TopologyError
from pubweave.planning.check.validate import InvalidPlanError, PlanRule, _State, validate_plan
from pubweave.planning.problem.problem import PlanningProblem
from tests.naive import planning as naive


def tree(text: str) -> Topology:
    """``12 23`` is the chain 1-2-3."""
    return Topology.from_links([(pair[0], pair[1]) for pair in text.split()])


def shifts(text: str) -> tuple[Shift, ...]:
    """``421 413`` is shift(4, 2, 1) and shift(4, 1, 3)."""
    return tuple(Shift(word[0], word[1], word[2]) for word in text.split())


def plan(*steps: str) -> Plan:
    return Plan(tuple(shifts(step) for step in steps))


PAPER_FIGURE_1 = PlanningProblem(tree("12 13 24"), tree("12 13 34"))
PAPER_PLAN = plan("421", "413")
CHAIN_TO_STAR = PlanningProblem(tree("12 23 34 45"), tree("13 23 34 35"))


def rule_broken(problem: PlanningProblem, broken: Plan) -> InvalidPlanError:
    with pytest.raises(InvalidPlanError) as caught:
        validate_plan(problem, broken)
    return caught.value


def test_the_papers_plan_for_figure_1_is_valid() -> None:
    validate_plan(PAPER_FIGURE_1, PAPER_PLAN)


def test_the_empty_plan_is_valid_where_nothing_changes() -> None:
    validate_plan(PlanningProblem(tree("12 23"), tree("12 23")), Plan())


def test_two_actions_of_a_step_may_share_a_broker_and_a_pivot() -> None:
    validate_plan(CHAIN_TO_STAR, plan("123 543"))
    two_along_one = PlanningProblem(tree("12 23 24"), tree("32 13 34"))
    validate_plan(two_along_one, plan("123 423"))


def test_a_link_in_neither_tree_may_come_serve_as_pivot_and_go() -> None:
    problem = PlanningProblem(tree("12 23 34 45"), tree("23 34 14 15"))
    validate_plan(problem, plan("123", "134", "541"))


BROKEN_BY_SHIFTS = {
    "a mover that is its own peer": (
        PAPER_FIGURE_1,
        plan("424", "413"),
        PlanRule.DISTINCT_BROKERS,
        1,
    ),
    "an unknown broker": (PAPER_FIGURE_1, plan("429", "413"), PlanRule.KNOWN_BROKERS, 1),
    "a link that is not there": (PAPER_FIGURE_1, plan("413"), PlanRule.REMOVED_LINK_PRESENT, 1),
    "a link that only this step adds": (
        PAPER_FIGURE_1,
        plan("421 413"),
        PlanRule.REMOVED_LINK_PRESENT,
        1,
    ),
    "a pivot that is not there": (PAPER_FIGURE_1, plan("423"), PlanRule.PIVOT_PRESENT, 1),
    "a pivot that only this step adds": (
        PlanningProblem(tree("12 23 34"), tree("13 14 23")),
        plan("123 431"),
        PlanRule.PIVOT_PRESENT,
        1,
    ),
    "a target link removed": (PAPER_FIGURE_1, plan("421", "413", "312"), PlanRule.FROZEN, 3),
    "a goal link removed again": (PAPER_FIGURE_1, plan("421", "413", "431"), PlanRule.FROZEN, 3),
    "an empty step": (
        PAPER_FIGURE_1,
        Plan((*PAPER_PLAN.steps[:1], (), *PAPER_PLAN.steps[1:])),
        PlanRule.STEP_NOT_EMPTY,
        2,
    ),
    "the end is not the target": (PAPER_FIGURE_1, plan("421"), PlanRule.TARGET_REACHED, None),
    "no steps where some are needed": (PAPER_FIGURE_1, Plan(), PlanRule.TARGET_REACHED, None),
}


@pytest.mark.parametrize("name", BROKEN_BY_SHIFTS)
def test_a_broken_rule_is_named_with_its_step(name: str) -> None:
    problem, broken, rule, step = BROKEN_BY_SHIFTS[name]
    error = rule_broken(problem, broken)
    assert (error.rule, error.step) == (rule, step)
    assert rule.value in str(error)


def test_the_message_names_step_action_and_rule() -> None:
    error = rule_broken(PAPER_FIGURE_1, plan("421", "413", "431"))
    assert str(error) == (
        "step 3, shift(4, 3, 1): the link it removes belongs to the target and must stay (3-4)"
    )
    assert error.action == Shift("4", "3", "1")


def test_a_link_is_removed_by_at_most_one_action() -> None:
    # 2-3 slides along 1-2 and along 3-4 at once: each action alone is fine.
    problem = PlanningProblem(tree("12 23 34"), tree("12 34 14"))
    assert rule_broken(problem, plan("321 234")).rule is PlanRule.REMOVED_ONCE
    # The very same action twice is no better.
    assert rule_broken(problem, plan("321 321")).rule is PlanRule.REMOVED_ONCE


def test_a_removed_link_is_nobodys_pivot() -> None:
    # shift(1, 2, 3) needs 2-3, which shift(2, 3, 4) removes: together they would cut 2 off.
    problem = PlanningProblem(tree("12 23 34"), tree("13 34 24"))
    error = rule_broken(problem, plan("123 234"))
    assert error.rule is PlanRule.PIVOT_STAYS
    assert error.action == Shift("1", "2", "3")
    # Listed in the other order it is just as wrong.
    assert rule_broken(problem, plan("234 123")).rule is PlanRule.PIVOT_STAYS


def test_no_link_is_added_twice() -> None:
    # Two shifts that add one link would need a cycle; moves can do it.
    problem = PlanningProblem(tree("12 23 34 45"), tree("12 45 14 35"), allow_move=True)
    twice = Plan(((Move("2", "3", "1", "4"), Move("3", "4", "1", "4")),))
    assert rule_broken(problem, twice).rule is PlanRule.ADDED_ONCE


def test_a_pinned_link_stays() -> None:
    pinned = replace(PAPER_FIGURE_1, pinned=frozenset({Link("2", "4")}))
    assert rule_broken(pinned, PAPER_PLAN).rule is PlanRule.PINNED


def test_a_forbidden_link_never_comes_to_be() -> None:
    forbidden = replace(PAPER_FIGURE_1, forbidden=frozenset({Link("1", "4")}))
    error = rule_broken(forbidden, PAPER_PLAN)
    assert (error.rule, error.step) == (PlanRule.FORBIDDEN, 1)


def test_the_degree_limit_holds_after_every_step() -> None:
    validate_plan(replace(PAPER_FIGURE_1, max_degree=3), PAPER_PLAN)
    error = rule_broken(replace(PAPER_FIGURE_1, max_degree=2), PAPER_PLAN)
    assert (error.rule, error.step) == (PlanRule.MAX_DEGREE, 1)
    assert "1 has 3 links after the step, the limit is 2" in str(error)


def test_the_degree_limit_counts_brokers_that_no_action_touches() -> None:
    problem = PlanningProblem(tree("12 13 14 45 56"), tree("12 13 14 45 46"), max_degree=2)
    error = rule_broken(problem, plan("654"))
    assert "1 has 3 links" in str(error)


def test_actions_of_a_step_share_no_broker_in_disjoint_mode() -> None:
    strict = replace(CHAIN_TO_STAR, disjoint_brokers=True)
    assert rule_broken(strict, plan("123 543")).rule is PlanRule.DISJOINT_BROKERS
    validate_plan(strict, plan("123", "543"))


MOVE = PlanningProblem(tree("12 23 34 45"), tree("12 34 45 15"), allow_move=True)
MOVE_PLAN = Plan(((Move("2", "3", "1", "5"),),))


def test_a_move_replaces_a_link_anywhere_on_its_cycle() -> None:
    validate_plan(MOVE, MOVE_PLAN)


def test_a_move_is_refused_unless_allowed() -> None:
    assert rule_broken(replace(MOVE, allow_move=False), MOVE_PLAN).rule is PlanRule.MOVE_ALLOWED


def test_a_moves_links_must_close_one_cycle() -> None:
    problem = PlanningProblem(tree("12 23 34 45"), tree("12 34 35 15"), allow_move=True)
    off_the_path = Plan(((Move("2", "3", "3", "5"),),))
    assert rule_broken(problem, off_the_path).rule is PlanRule.MOVE_CLOSES_CYCLE


def test_a_move_brings_a_goal_link() -> None:
    elsewhere = Plan(((Move("2", "3", "1", "4"),),))
    assert rule_broken(MOVE, elsewhere).rule is PlanRule.MOVE_ADDS_GOAL_LINK


def test_a_move_may_not_add_what_is_there_nor_link_a_broker_to_itself() -> None:
    already = Plan(((Move("2", "3", "4", "5"),),))
    assert rule_broken(MOVE, already).rule is PlanRule.ADDED_LINK_ABSENT
    itself = Plan(((Move("2", "3", "5", "5"),),))
    assert rule_broken(MOVE, itself).rule is PlanRule.DISTINCT_BROKERS


def test_every_other_link_of_a_moves_cycle_is_its_pivot() -> None:
    problem = PlanningProblem(tree("12 23 34 45"), tree("12 34 15 24"), allow_move=True)
    both = Plan(((Move("2", "3", "1", "5"), Shift("5", "4", "3")),))
    assert rule_broken(problem, both).rule is PlanRule.PIVOT_STAYS


def test_a_move_occupies_every_broker_of_its_cycle() -> None:
    problem = PlanningProblem(tree("12 23 34 45 36 67"), tree("12 34 45 15 36 37"), allow_move=True)
    both = Plan(((Move("2", "3", "1", "5"), Shift("7", "6", "3")),))
    validate_plan(problem, both)
    error = rule_broken(replace(problem, disjoint_brokers=True), both)
    assert error.rule is PlanRule.DISJOINT_BROKERS


GROWING = PlanningProblem(tree("12 23"), tree("12 23 34"))
SHRINKING = PlanningProblem(tree("12 23 34"), tree("12 23"))


def test_a_broker_is_appended_and_another_detached() -> None:
    validate_plan(GROWING, Plan(((Append("4", "3"),),)))
    validate_plan(SHRINKING, Plan(((Detach("4", "3"),),)))


@pytest.mark.parametrize(
    ("action", "rule"),
    [
        (Append("3", "1"), PlanRule.APPENDED_IS_NEW),
        (Append("5", "1"), PlanRule.APPENDED_IS_WANTED),
        (Append("4", "9"), PlanRule.KNOWN_BROKERS),
        (Append("4", "4"), PlanRule.DISTINCT_BROKERS),
    ],
)
def test_an_append_brings_a_new_wanted_broker_to_one_that_is_there(
    action: Append, rule: PlanRule
) -> None:
    assert rule_broken(GROWING, Plan(((action,),))).rule is rule


def test_an_append_respects_forbidden_links() -> None:
    problem = replace(GROWING, forbidden=frozenset({Link("3", "4")}))
    assert rule_broken(problem, Plan(((Append("4", "3"),),))).rule is PlanRule.FORBIDDEN


def test_nothing_is_appended_to_a_broker_appended_in_the_same_step() -> None:
    problem = PlanningProblem(tree("12"), tree("12 23 34"))
    at_once = Plan(((Append("3", "2"), Append("4", "3")),))
    assert rule_broken(problem, at_once).rule is PlanRule.KNOWN_BROKERS
    validate_plan(problem, Plan(((Append("3", "2"),), (Append("4", "3"),))))


@pytest.mark.parametrize(
    ("action", "rule"),
    [
        (Detach("3", "4"), PlanRule.DETACHED_IS_UNWANTED),
        (Detach("9", "3"), PlanRule.KNOWN_BROKERS),
        (Detach("4", "2"), PlanRule.DETACHED_IS_LEAF),
    ],
)
def test_a_detach_takes_an_unwanted_leaf_from_its_neighbor(action: Detach, rule: PlanRule) -> None:
    assert rule_broken(SHRINKING, Plan(((action,),))).rule is rule


def test_an_inner_broker_is_not_detached() -> None:
    problem = PlanningProblem(tree("12 23 34"), tree("12"))
    assert rule_broken(problem, Plan(((Detach("3", "2"),),))).rule is PlanRule.DETACHED_IS_LEAF


def test_a_detached_broker_is_left_alone_by_the_rest_of_the_step() -> None:
    # Brokers 3 and 4 leave: while 4 leaves, nothing may be tied to it.
    problem = PlanningProblem(tree("12 23 24"), tree("12"))
    both = Plan(((Detach("4", "2"), Shift("3", "2", "4")),))
    assert rule_broken(problem, both).rule is PlanRule.PIVOT_STAYS
    onto = PlanningProblem(tree("12 23 34 45"), tree("12 23 34 26"))
    tied = Plan(((Detach("5", "4"), Append("6", "5")),))
    assert rule_broken(onto, tied).rule is PlanRule.DETACHED_IS_LEFT_ALONE


def test_what_is_no_tree_is_refused_before_the_plan_is_read() -> None:
    with pytest.raises(TopologyError, match="cycle"):
        validate_plan(replace(PAPER_FIGURE_1, target=tree("12 13 23 34")), PAPER_PLAN)
    with pytest.raises(TopologyError, match="cannot be reached"):
        validate_plan(replace(PAPER_FIGURE_1, source=tree("12 34")), PAPER_PLAN)


def test_the_tree_is_checked_after_every_step(monkeypatch: pytest.MonkeyPatch) -> None:
    """No plan reaches it past the other rules (see the module's docstring), so it is forced."""
    monkeypatch.setattr(_State, "is_tree", lambda _: False)
    error = rule_broken(PAPER_FIGURE_1, PAPER_PLAN)
    assert (error.rule, error.step) == (PlanRule.TREE, 1)


def test_the_tree_check_sees_cycles_and_lost_brokers() -> None:
    assert _State(tree("12 23 34")).is_tree()
    assert not _State(tree("12 23 13 34")).is_tree()
    assert not _State(tree("12 23 13 45")).is_tree()


@pytest.mark.parametrize("seed", range(12))
def test_the_judge_and_the_slow_planner_allow_the_same_steps(seed: int) -> None:
    """Both were written from the rules alone; 300 random steps each, most of them illegal."""
    rng = np.random.default_rng([3, seed])
    source, target = random_tree(5, rng), random_tree(5, rng)
    problem = PlanningProblem(
        source,
        target,
        disjoint_brokers=seed % 3 == 1,
        max_degree=3 if seed % 3 == 2 else None,
        forbidden=frozenset(sorted(set(all_links(source)) - target.links)[:1]),
    )
    legal = {
        frozenset(option.action for option in chosen)
        for chosen in naive.steps_from(problem, source.links)
        if problem.max_degree is None
        or naive.largest_degree(
            (source.links - {o.removed for o in chosen}) | {o.added for o in chosen}
        )
        <= problem.max_degree
    }
    every = [Shift(*triple) for triple in permutations(sorted(source.brokers), 3)]
    single = sorted(action for step in legal for action in step if isinstance(action, Shift))
    verdicts = []
    for _ in range(300):
        pool = single if single and rng.random() < 0.8 else every
        chosen = {pool[int(place)] for place in rng.integers(len(pool), size=rng.integers(1, 4))}
        verdicts.append(frozenset(chosen) in legal)
        assert allows(problem, tuple(sorted(chosen))) == verdicts[-1], chosen
    assert True in verdicts or not legal
    assert False in verdicts


def all_links(topology: Topology) -> list[Link]:
    return [Link(a, b) for a, b in combinations(sorted(topology.brokers), 2)]


def allows(problem: PlanningProblem, step: tuple[Shift, ...]) -> bool:
    try:
        validate_plan(problem, Plan((step,)))
    except InvalidPlanError as error:
        return error.rule is PlanRule.TARGET_REACHED
    return True


def test_every_rule_is_broken_somewhere_in_this_file() -> None:
    text = Path(__file__).read_text()
    assert [rule.name for rule in PlanRule if f"Rule.{rule.name}" not in text] == []
