"""All ways of one token through a plan, one by one; twin of
`planning.greedy._kernels_fewer_rounds.reroute`."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

Link = tuple[int, int]
Way = tuple[Link, ...]
"""The link of a token before each step, and after the last."""


def link(a: int, b: int) -> Link:
    return min(a, b), max(a, b)


def shift_between(before: Link, after: Link) -> tuple[int, int, int] | None:
    """(i, j, k) of the slide from one link to another; None: it rests."""
    if before == after:
        return None
    (i,) = set(before) & set(after)
    (j,), (k,) = set(before) - {i}, set(after) - {i}
    return i, j, k


def shifts_of(way: Way) -> list[tuple[int, tuple[int, int, int]]]:
    found = [(step, shift_between(*pair)) for step, pair in enumerate(pairwise(way))]
    return [(step, shift) for step, shift in found if shift is not None]


def rounds(ways: list[Way]) -> int:
    """Of each step the actions of its busiest broker."""
    total = 0
    for step in range(len(ways[0]) - 1):
        busy: dict[int, int] = {}
        for way in ways:
            for at, shift in shifts_of(way):
                if at == step:
                    for broker in shift:
                        busy[broker] = busy.get(broker, 0) + 1
        total += max(busy.values(), default=0)
    return total


def all_ways(ways: list[Way], token: int, kept: set[Link], closed: set[Link]) -> Iterator[Way]:
    """Every way of the token from its first link to its last that leaves all others valid."""
    old = ways[token]
    others = [way for number, way in enumerate(ways) if number != token]

    def go_on(way: Way) -> Iterator[Way]:
        step = len(way) - 1
        if step == len(old) - 1:
            if way[-1] == old[-1]:
                yield way
            return
        here = way[-1]
        slides = [
            (other[step], shift_between(other[step], other[step + 1]), other[step + 1])
            for other in others
        ]
        needed = {link(shift[1], shift[2]) for _, shift, _ in slides if shift is not None}
        resting = {before for before, shift, _ in slides if shift is None}
        if old[step] in needed and here != old[step]:
            return
        yield from go_on((*way, here))
        if here in needed or here == old[-1]:
            return
        for i, j in (here, here[::-1]):
            for pivot in sorted(kept | resting):
                if j in pivot and i not in pivot:
                    k = pivot[0] if pivot[1] == j else pivot[1]
                    if link(i, k) == old[-1] or link(i, k) not in closed:
                        yield from go_on((*way, link(i, k)))

    yield from go_on((old[0],))
