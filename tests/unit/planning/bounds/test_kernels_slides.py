"""The kernels of the exact models against their slow twins."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

from pubweave.planning.bounds._kernels_reach import (
    FAR,
    moves_backward,
    moves_forward,
    slides,
    unordered,
)
from tests.naive import slides as naive
from tests.naive.reachability import Pair, pair

BROKERS = 9
Flags = npt.NDArray[np.bool_]


def some_pairs(rng: np.random.Generator, share: float) -> set[Pair]:
    pairs = [(a, b) for a in range(BROKERS) for b in range(a + 1, BROKERS)]
    return {link for link in pairs if rng.random() < share}


def flags(pairs: set[Pair]) -> Flags:
    matrix = np.zeros((BROKERS, BROKERS), np.bool_)
    for a, b in pairs:
        matrix[a, b] = matrix[b, a] = True
    return matrix


def numbered(pairs: set[Pair], first: int) -> tuple[npt.NDArray[np.int32], dict[int, Pair]]:
    """Each link's number, both ways round, and the link of each number."""
    out = np.zeros((BROKERS, BROKERS), np.int32)
    for number, (a, b) in enumerate(sorted(pairs), first):
        out[a, b] = out[b, a] = number
    return out, {int(out[a, b]): (a, b) for a, b in pairs}


@pytest.mark.parametrize("seed", range(20))
def test_slides_equal_their_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    here, then, pivots = (some_pairs(rng, share) for share in (0.3, 0.5, 0.4))
    frozen = set(sorted(here)[:3])
    at, link_at = numbered(here, 1)
    on, link_on = numbered(then, 100)
    rows = slides(at, on, flags(pivots), flags(frozen)).tolist()
    assert {(w, u, v) for _, _, w, u, v in rows} == naive.slides(here, then, pivots, frozen)
    assert len(rows) == len({tuple(row) for row in rows})
    for before, after, w, u, v in rows:
        assert (link_at[before], link_on[after]) == (pair(w, u), pair(w, v))


@pytest.mark.parametrize("seed", range(20))
def test_needless_pairs_of_slides_equal_their_twin(seed: int) -> None:
    rng = np.random.default_rng(seed)
    here, then, later = (some_pairs(rng, 0.6) for _ in range(3))
    kept, blocked = some_pairs(rng, 0.3), some_pairs(rng, 0.2)
    at, link_at = numbered(here, 1)
    on, link_on = numbered(then, 100)
    last, link_last = numbered(later, 200)
    # Only slides along kept links may swap places.
    found = slides(at, on, flags(kept), flags(set()))
    rows = unordered(found, last, flags(kept), flags(blocked)).tolist()
    named = {(link_at[-a], link_on[-b], link_last[-c]) for a, b, c in rows}
    moves = {(w, u, v) for _, _, w, u, v in found.tolist()}
    assert named == naive.out_of_order(moves, later, kept, blocked)


def costs(known: dict[Pair, int]) -> npt.NDArray[np.int32]:
    matrix = np.full((BROKERS, BROKERS), FAR, np.int32)
    for (a, b), cost in known.items():
        matrix[a, b] = matrix[b, a] = cost
    return matrix


@pytest.mark.parametrize("seed", range(20))
def test_fewest_moves_forward_and_backward_equal_their_twins(seed: int) -> None:
    rng = np.random.default_rng(seed)
    known = {link: int(rng.integers(-2, 6)) for link in sorted(some_pairs(rng, 0.4))}
    pivots, alive = some_pairs(rng, 0.4), some_pairs(rng, 0.7)
    frozen = set(sorted(known)[:3])
    out = np.empty((BROKERS, BROKERS), np.int32)
    moves_forward(costs(known), flags(pivots), flags(alive), flags(frozen), out)
    assert np.array_equal(out, costs(naive.fewest_moves(known, pivots, alive, frozen)))
    moves_backward(costs(known), flags(pivots), flags(alive), flags(frozen), out)
    assert np.array_equal(out, costs(naive.least_to_come(known, pivots, alive, frozen)))
