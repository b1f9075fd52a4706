"""The slow, obvious twins of the kernels over positions: every slide by its definition.

A position is a link, a pair of brokers; a token on (w, u) may slide to (w, v) along a pivot
(u, v). Matrices are read as sets of pairs.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.naive.reachability import Pair, pair

Slide = tuple[int, int, int]
"""(w that stays, u that is left, v that is reached)."""


def slides(here: set[Pair], then: set[Pair], pivots: set[Pair], frozen: set[Pair]) -> set[Slide]:
    """Every legal slide between the positions of two instants."""
    return {
        (w, u, v)
        for position in here - frozen
        for w, u in (position, position[::-1])
        for pivot in pivots
        if u in pivot
        for v in set(pivot) - {u}
        if v != w and pair(w, v) in then
    }


def fewest_moves(
    before: Mapping[Pair, int], pivots: set[Pair], alive: set[Pair], frozen: set[Pair]
) -> dict[Pair, int]:
    """The fewest moves to each position one step on: stay, or slide for one move more."""
    after = {position: cost for position, cost in before.items() if position in alive}
    for w, u, v in slides(set(before), alive, pivots, frozen):
        cost = before[pair(w, u)] + 1
        after[pair(w, v)] = min(cost, after.get(pair(w, v), cost))
    return after


def least_to_come(
    after: Mapping[Pair, int], pivots: set[Pair], alive: set[Pair], frozen: set[Pair]
) -> dict[Pair, int]:
    """The least moves still to come from each position, given those of one step on."""
    before = {position: cost for position, cost in after.items() if position in alive}
    for w, u, v in slides(alive, set(after), pivots, frozen):
        cost = after[pair(w, v)] + 1
        before[pair(w, u)] = min(cost, before.get(pair(w, u), cost))
    return before


def out_of_order(
    found: set[Slide], later: set[Pair], kept: set[Pair], blocked: set[Pair]
) -> set[tuple[Pair, Pair, Pair]]:
    """Positions (before, after, after the next step) that need not follow each other.

    Straight back; or the other end follows along a kept link of a smaller number, though it could
    as well have gone first. Not where the position in between may not be left or come to be."""
    needless = set()
    for w, u, v in found:
        if pair(w, v) in blocked:
            continue
        if pair(w, u) in later:
            needless.add((pair(w, u), pair(w, v), pair(w, u)))
        for link in kept:
            if w not in link:
                continue
            (x,) = set(link) - {w}
            could_go_first = x != u and pair(x, u) not in blocked
            if could_go_first and link <= pair(u, v) and x != v and pair(x, v) in later:
                needless.add((pair(w, u), pair(w, v), pair(x, v)))
    return needless
