"""What pairs of tokens rule out is on no plan: against all states, and bit by bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pubweave.generate.topologies.trees import change_links, ipitt_topologies
from pubweave.planning.bounds._kernels_reach import (
    Bits,
    bit_count,
    close_up,
    closing_moves,
    transpose,
)
from pubweave.planning.bounds.pair_reachability import prune
from pubweave.planning.bounds.reachability import Reachability
from pubweave.planning.bounds.token_positions import TokenPositions
from pubweave.planning.problem.indexed import indexed
from pubweave.planning.problem.problem import PlanningProblem
from tests.naive.planning_instances import small_problem
from tests.naive.token_states import TokenStates


@pytest.mark.parametrize("number", range(80))
def test_no_position_and_no_slide_of_a_plan_is_dropped(number: int) -> None:
    problem = replace(small_problem(number, 6), disjoint_brokers=False, max_degree=None)
    numbered = indexed(problem)
    if not 2 <= numbered.token_count <= 3:
        pytest.skip("no pairs of tokens, or too many states to list them all")
    reachability = Reachability(numbered, apart=True)
    fewest = reachability.fewest_steps()
    if fewest is None:
        pytest.skip("there is no plan at all")
    for steps in range(fewest, fewest + 3):
        reach = reachability.within(steps)
        truth = TokenStates(numbered, steps)
        left = None if reach is None else prune(reachability, reach)
        if left is None:
            assert not truth.layers[0], f"a plan of {steps} steps exists"
            continue
        endings = truth.endings(numbered)
        early = left.meeting + 1
        for k, layer in enumerate([*truth.layers[:early], *endings[left.meeting :]]):
            for state in layer:
                assert all(left.at[k, m, a, b] > 0 for m, (a, b) in enumerate(state))
                taken = {int(left.at[k, m, a, b]) for m, (a, b) in enumerate(state)}
                assert not any({a, b} <= taken for a, b in left.exclusions.tolist())
        for k in left.steps:
            late = k > left.meeting
            changes = truth.ending_changes(k - 1, endings[k]) if late else truth.changes(k)
            kept = [{(row[0], row[1]) for row in rows.tolist()} for rows in left.slides[k]]
            for before, after in changes:
                for m, (old, new) in enumerate(zip(before, after, strict=True)):
                    if old != new:
                        assert (left.at[k, m][old], left.at[k + 1, m][new]) in kept[m]


def test_pairs_rule_out_much_that_single_tokens_do_not() -> None:
    source = ipitt_topologies(30, 1)["degree5-unbalanced-1"]
    problem = PlanningProblem(source, change_links(source, 0.2, np.random.default_rng(2)))
    numbered = indexed(problem)
    reachability = Reachability(numbered, apart=True)
    fewest = reachability.fewest_steps()
    assert fewest is not None
    reach = reachability.within(fewest + 1)
    assert reach is not None
    alone = TokenPositions.of(numbered, reach)
    left = prune(reachability, reach)
    assert left is None or left.count < 0.8 * alone.count


def test_exclusions_name_two_tokens_at_one_instant_and_are_no_more_than_slides() -> None:
    source = ipitt_topologies(30, 1)["degree5-unbalanced-1"]
    problem = PlanningProblem(source, change_links(source, 0.2, np.random.default_rng(2)))
    numbered = indexed(problem)
    reachability = Reachability(numbered, apart=True)
    fewest = reachability.fewest_steps()
    assert fewest is not None
    reach = reachability.within(fewest + 2)
    assert reach is not None
    left = prune(reachability, reach)
    assert left is not None
    assert 0 < len(left.exclusions) <= sum(len(rows) for step in left.slides for rows in step)
    where = {int(left.at[place]): place[:2] for place in zip(*np.nonzero(left.at), strict=True)}
    for a, b in left.exclusions.tolist():
        (k, m), (layer, p) = where[a], where[b]
        assert k == layer
        assert m != p


@pytest.mark.parametrize("shape", [(1, 1), (5, 130), (64, 64), (70, 3), (200, 190)])
def test_bits_are_transposed(shape: tuple[int, int]) -> None:
    rows, columns = shape
    flags = np.random.default_rng(0).random(shape) < 0.3
    wide = np.pad(flags, [(0, 0), (0, -columns % 64)])
    bits = np.packbits(wide, axis=1, bitorder="little").view(np.uint64)
    out = np.zeros((columns, (rows + 63) // 64), dtype=np.uint64)
    transpose(bits, rows, columns, out)
    back = np.unpackbits(out.view(np.uint8), axis=1, bitorder="little")[:, :rows]
    assert np.array_equal(back.astype(np.bool_), flags.T)


@pytest.mark.parametrize("share", [0.0, 0.05, 0.5, 0.95, 1.0])
@pytest.mark.parametrize("size", [1, 63, 64, 65, 200])
def test_kept_columns_are_closed_up(size: int, share: float) -> None:
    rng = np.random.default_rng(size)
    kept, row = rng.random(size) < share, rng.random(size) < 0.5
    out = np.zeros((size + 63) // 64, dtype=np.uint64)
    close_up(_packed(row), closing_moves(kept), out)
    wanted = np.zeros(size, dtype=np.bool_)
    wanted[: kept.sum()] = row[kept]
    assert np.array_equal(out, _packed(wanted))


@pytest.mark.parametrize("word", [0, 1, 0xF0F0, 2**63, 2**64 - 1])
def test_bits_are_counted(word: int) -> None:
    assert bit_count(np.uint64(word)) == word.bit_count()


def _packed(flags: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Bits:
    return np.packbits(np.pad(flags, (0, -len(flags) % 64)), bitorder="little").view(np.uint64)
