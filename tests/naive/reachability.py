"""The slow, obvious twin of the reachability relaxation, over sets of links of one token each."""

from __future__ import annotations

Pair = tuple[int, int]


def pair(u: int, v: int) -> Pair:
    return (u, v) if u < v else (v, u)


def slides(position: Pair, pivots: set[Pair]) -> set[Pair]:
    """Every position one slide away: one end moves along a pivot at it."""
    found = set()
    for end in position:
        (stays,) = set(position) - {end}
        for pivot in pivots:
            if end in pivot:
                (far,) = set(pivot) - {end}
                if far != stays:
                    found.add(pair(stays, far))
    return found


def spread(
    positions: set[Pair], pivots: set[Pair], frozen: set[Pair], blocked: set[Pair]
) -> set[Pair]:
    """Positions after one step: where the token was, or one legal slide on."""
    found = set(positions)
    for position in positions - frozen:
        found |= slides(position, pivots) - blocked
    return found


def others_pivots(here: list[set[Pair]], then: list[set[Pair]], kept: set[Pair]) -> list[set[Pair]]:
    """For each token, kept links and those on which another may rest through the step."""
    return [
        kept.union(*(here[other] & then[other] for other in range(len(here)) if other != m))
        for m in range(len(here))
    ]
