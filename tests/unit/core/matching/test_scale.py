"""Cells and flips of a scale lead to exactly the cuts before a value."""

from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pubweave.core.matching.scale import Scale, choose_stops

VALUES = [-1, 0, 0.5, 1, 1.0, 2, 3, 2**53, 2**53 + 1, float(2**53)]
CUTS = st.tuples(st.sampled_from(VALUES), st.integers(0, 1), st.integers(0, 40))


def bits_before(cuts: list[tuple[Any, int, int]], value: Any) -> int:
    """All bits that cuts before a value have turned over, from none."""
    bits = 0
    for cut, side, place in cuts:
        if cut < value or (cut == value and not side):
            bits ^= 1 << place
    return bits


def bits_by_path(scale: Scale, cuts: list[tuple[Any, int, int]], value: Any) -> int:
    """The same by a scale: the bits at the beginning of a cell, then the flips on the path."""
    row, flips = scale.path(scale.row_of(value), value)
    begins_after = row - scale.first_row - 1
    bits = 0
    for cut, side, place in cuts:
        if scale.cell_of_cut((cut, side)) <= begins_after:
            bits ^= 1 << place
    for flip in flips:
        bits ^= (flip & 255) << (flip >> 9) * 8
    return bits


@settings(max_examples=300, deadline=None, derandomize=True)
@given(st.lists(CUTS, max_size=30), st.lists(CUTS, max_size=10), st.integers(0, 8), st.data())
def test_rows_and_flips_give_the_bits_of_every_value(
    built: list[Any], added: list[Any], limit: int, data: st.DataObject
) -> None:
    scale = Scale(7, built, limit)
    cuts = list(built)
    for cut in added:
        scale.add(cut[:2], cut[2])
        cuts.append(cut)
    if cuts:
        for cut in data.draw(st.lists(st.sampled_from(cuts), unique_by=id, max_size=8)):
            scale.remove(cut[:2], cut[2])
            cuts.remove(cut)
    assert scale.end_row - scale.first_row <= limit + 1
    for value in [*VALUES, -5, 0.75, 7, float("inf")]:
        assert bits_by_path(scale, cuts, value) == bits_before(cuts, value)


def test_few_cuts_all_end_cells() -> None:
    cuts = [(1, 0, 0), (1, 1, 0), (2, 0, 1), (2, 0, 2)]
    assert choose_stops(cuts, 3) == [1, 2, 4]
    assert Scale(0, cuts, 3).is_exact
    assert not Scale(0, cuts, 1).is_exact


def test_integer_ranges_end_cells_before_values() -> None:
    """So integers, which are such values themselves, meet no flips."""
    cuts = [(value, side, value) for value in range(10) for side in (0, 1)]
    scale = Scale(0, cuts, 10)
    for value in range(10):
        assert scale.path(scale.row_of(value), value)[1] == ()


def test_too_many_cuts_are_shared_out_evenly() -> None:
    cuts = [(value / 7, value % 2, value) for value in range(1000)]
    stops = choose_stops(cuts, 10)
    assert len(stops) <= 10
    assert max(b - a for a, b in zip([0, *stops], [*stops, 1000], strict=True)) <= 110
