"""Links that join the pieces of topics among a few brokers: Algorithm 2 of Shadows by names.

The same choices as `design.tco._kernels.mending.mend`, for brokers, which decide by themselves
about a shadow set of a dozen and should not load a compiler for it. Needs nothing but names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

Pair = tuple[str, str]
Pieces = Mapping[str, Mapping[str, int]]
"""By topic: its subscribers, each with the number of the piece that it is in."""


def mending_links(
    pieces: Pieces,
    order: Sequence[str],
    degrees: Mapping[str, int],
    *,
    rho: float = 3.0,
    is_allowed: Callable[[str, str], bool] = lambda one, other: True,
) -> list[Pair]:
    """The links among ``order`` (in canonical order, see `canonical`) that join most pieces.

    Each time e1, the link that joins pieces of most topics, or e2, the best of those that raise
    the maximum degree of these brokers least; e1 only if it joins more than rho times as many
    (Shadows, Algorithm 2). Ties go to the first pair. Pieces that no allowed pair joins are left.
    O(brokers^2 (topics + links)).

    >>> pieces = {"x": {"a": 0, "b": 1, "c": 2}, "y": {"b": 0, "c": 1}}
    >>> mending_links(pieces, ["b", "c", "a"], {"a": 1, "b": 1, "c": 1})
    [('b', 'c'), ('b', 'a')]
    """
    labels = {topic: dict(members) for topic, members in pieces.items()}
    degree = {broker: degrees[broker] for broker in order}
    level = max(degree.values(), default=0)
    worth = _contributions(labels, order, is_allowed)
    found: list[Pair] = []
    while worth:
        chosen = _choice(worth, degree, level, rho)
        found.append(chosen)
        for end in chosen:
            degree[end] += 1
            level = max(level, degree[end])
        _join(labels, worth, chosen)
    return found


def canonical(sizes: Mapping[str, int]) -> list[str]:
    """Brokers by descending number of topics, then by name.

    >>> canonical({"b": 2, "a": 1, "c": 2})
    ['b', 'c', 'a']
    """
    return sorted(sizes, key=lambda broker: (-sizes[broker], broker))


def _contributions(
    labels: Pieces, order: Sequence[str], is_allowed: Callable[[str, str], bool]
) -> dict[Pair, int]:
    """Of each pair that would join something, in how many topics; in canonical order."""
    worth: dict[Pair, int] = {}
    for place, one in enumerate(order):
        for other in order[place + 1 :]:
            value = sum(
                one in members and other in members and members[one] != members[other]
                for members in labels.values()
            )
            if value and is_allowed(one, other):
                worth[one, other] = value
    return worth


def _choice(worth: Mapping[Pair, int], degree: Mapping[str, int], level: int, rho: float) -> Pair:
    """The next link: the first of the best ones."""
    first = max(worth, key=worth.__getitem__)

    def rise(pair: Pair) -> int:
        return max(0, max(degree[end] for end in pair) + 1 - level)

    second = min(worth, key=lambda pair: (rise(pair), -worth[pair]))
    return first if worth[first] > rho * worth[second] else second


def _join(labels: Mapping[str, dict[str, int]], worth: dict[Pair, int], chosen: Pair) -> None:
    """The pieces of the chosen link's ends are one now: other links are worth less."""
    one, other = chosen
    for members in labels.values():
        kept, gone = members.get(one), members.get(other)
        if kept is None or gone is None or kept == gone:
            continue
        for pair in list(worth):
            if {members.get(pair[0]), members.get(pair[1])} == {kept, gone}:
                worth[pair] -= 1
                if not worth[pair]:
                    del worth[pair]
        members.update({broker: kept for broker, label in members.items() if label == gone})
