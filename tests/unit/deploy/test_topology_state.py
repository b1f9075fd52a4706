"""What actions do to topologies, who leads, and in which order a step's actions run."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from pubweave.deploy.topology_state import (
    apply_action,
    apply_actions,
    earlier_sharing,
    leader_of,
    neighbors_after,
    rounds,
    schedule_step,
    spell_out,
    spell_out_step,
)
from pubweave.generate.topologies.trees import random_tree
from pubweave.model.ids import Link
from pubweave.model.plans import Action, Append, Detach, Move, Shift
from pubweave.model.topology import Topology, TopologyError

CHAIN = Topology.from_links([("b1", "b2"), ("b2", "b3"), ("b3", "b4"), ("b4", "b5")])


def test_the_mover_leads_a_shift_and_the_one_that_stays_the_others() -> None:
    assert leader_of(Shift("b1", "b2", "b3")) == "b1"
    assert leader_of(Append("b9", "b2")) == "b2"
    assert leader_of(Detach("b9", "b2")) == "b2"


@pytest.mark.parametrize(
    ("action", "links"),
    [
        (Shift("b1", "b2", "b3"), {("b1", "b3"), ("b2", "b3"), ("b3", "b4"), ("b4", "b5")}),
        (Append("b9", "b5"), set(CHAIN.links) | {("b5", "b9")}),
        (Detach("b5", "b4"), {("b1", "b2"), ("b2", "b3"), ("b3", "b4")}),
        (Move("b2", "b3", "b1", "b5"), set(CHAIN.links) - {("b2", "b3")} | {("b1", "b5")}),
    ],
    ids=["shift", "append", "detach", "move"],
)
def test_an_action_changes_the_topology(action: Action, links: set[tuple[str, str]]) -> None:
    after = apply_action(CHAIN, action)
    assert after.links == {Link(*link) for link in links}
    assert after.is_tree


@pytest.mark.parametrize(
    "action",
    [
        Shift("b1", "b3", "b2"),  # no such link to remove
        Shift("b1", "b2", "b4"),  # no pivot
        Append("b2", "b1"),
        Detach("b5", "b3"),
    ],
    ids=str,
)
def test_an_action_that_does_not_fit_is_refused_by_name(action: Action) -> None:
    with pytest.raises(TopologyError, match=str(action).replace("(", r"\(").replace(")", r"\)")):
        apply_action(CHAIN, action)


def test_a_broker_sees_exactly_its_own_changes() -> None:
    actions = [Shift("b1", "b2", "b3"), Append("b9", "b4"), Detach("b5", "b4")]
    after = apply_actions(CHAIN, actions)
    for broker in CHAIN.brokers | {"b9"}:
        before = frozenset(CHAIN.neighbors.get(broker, ()))
        assert neighbors_after(before, broker, actions) == frozenset(
            after.neighbors.get(broker, ())
        )


def test_only_earlier_actions_with_a_broker_in_common_are_waited_for() -> None:
    step = (Shift("b1", "b2", "b3"), Shift("b7", "b8", "b9"), Shift("b3", "b4", "b8"))
    assert [earlier_sharing(step, place) for place in range(3)] == [(), (), (0, 1)]


def _waves(step: tuple[Action, ...]) -> int:
    """How many actions follow one another in the longest row of waiting."""
    depth: list[int] = []
    for place in range(len(step)):
        depth.append(1 + max((depth[e] for e in earlier_sharing(step, place)), default=0))
    return max(depth)


def test_a_star_of_entangled_actions_is_put_first() -> None:
    # b5 shares with all others, which share with nobody else: two waves, not three.
    step = (Shift("b1", "b2", "b3"), Shift("b3", "b4", "b6"), Shift("b6", "b7", "b8"))
    assert _waves(step) == 3
    assert _waves(schedule_step(step)) == 2


def test_a_schedule_keeps_the_actions_and_is_rarely_longer_than_the_best_order() -> None:
    rng = np.random.default_rng(5)
    worse = 0
    for _ in range(60):
        brokers = [f"b{n}" for n in range(9)]
        step = tuple(
            Shift(*(brokers[int(i)] for i in rng.choice(9, 3, replace=False))) for _ in range(5)
        )
        step = tuple(dict.fromkeys(step))
        scheduled = schedule_step(step)
        assert sorted(scheduled) == sorted(step)
        assert rounds(scheduled) == _waves(scheduled)
        best = min(_waves(order) for order in permutations(step))
        worse += _waves(scheduled) > best
    assert worse <= 6


def test_a_move_is_spelled_out_as_shifts_that_lead_to_the_same_tree() -> None:
    rng = np.random.default_rng(3)
    for _ in range(100):
        tree = random_tree(12, rng)
        brokers = sorted(tree.brokers)
        a, b = (brokers[int(i)] for i in rng.choice(12, 2, replace=False))
        way = tree.path(a, b)
        if len(way) < 3:
            continue
        at = int(rng.integers(len(way) - 1))
        move = Move(way[at], way[at + 1], a, b)
        shifts = spell_out(tree, move)
        assert len(shifts) == len(way) - 2
        assert apply_actions(tree, shifts) == apply_action(tree, move)
        assert spell_out_step(tree, (move,)) == shifts


def test_a_move_off_the_path_is_refused() -> None:
    with pytest.raises(TopologyError, match="b4-b5 is not between b1 and b3"):
        spell_out(CHAIN, Move("b4", "b5", "b1", "b3"))
