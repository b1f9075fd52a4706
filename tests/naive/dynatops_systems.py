"""The systems DYNATOPS is compared with, by definition: routes hop by hop, trees as sets."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence

Route = Callable[[int, int], list[int]]


def tree(route: Route, root: int, subscribers: Sequence[int]) -> set[int]:
    """All brokers on the routes from the root to the subscribers."""
    return {broker for end in subscribers for broker in route(root, end)} | {root}


def prefix_route(
    ids: Sequence[str], table: dict[tuple[int, str], int], a: int, b: int
) -> list[int]:
    """One digit more right at each hop; ``table`` names who serves a prefix, seen from a broker."""
    way = [a]
    while way[-1] != b:
        here, shared = way[-1], 0
        while ids[here][shared] == ids[b][shared]:
            shared += 1
        way.append(table[here, ids[b][: shared + 1]])
    return way


def surrogate(ids: Sequence[str], key: str) -> int:
    """Digit by digit; where nobody has the digit, the next higher one, and after the last 0."""
    left, base = list(range(len(ids))), 16 if any(c > "1" for c in "".join(ids) + key) else 2
    for level in range(len(key)):
        digit = int(key[level], 16)
        for step in range(base):
            wanted = f"{(digit + step) % base:x}"
            some = [broker for broker in left if ids[broker][level] == wanted]
            if some:
                left = some
                break
    return left[0]


def square_route(side: int, heads: Callable[[int, int], int], a: int, b: int) -> list[int]:
    """Up square by square to the first that holds both leaves, and down; each head once."""
    level = 0
    while _square(side, a, level) != _square(side, b, level):
        level += 1
    up = [heads(each, a) for each in range(level + 1)]
    down = [heads(each, b) for each in range(level - 1, -1, -1)]
    way: list[int] = []
    for head in up + down:
        if not way or way[-1] != head:
            way.append(head)
    return way


def head(side: int, level: int, leaf: int) -> int:
    """Of the four squares in one the last (odd levels) or the first (even) gives the head."""
    if level == 0:
        return leaf
    row, column = _square(side, leaf, level)
    step = level % 2
    child = (2 * row + step, 2 * column + step)
    first_leaf = (child[0] << (level - 1)) * side + (child[1] << (level - 1))
    return head(side, level - 1, first_leaf)


def _square(side: int, leaf: int, level: int) -> tuple[int, int]:
    return (leaf // side) >> level, (leaf % side) >> level


def hops_within(links: set[tuple[int, int]], members: set[int], start: int) -> dict[int, int]:
    """Breadth first among those who want a topic."""
    hops, queue = {start: 0}, deque([start])
    while queue:
        at = queue.popleft()
        for a, b in links:
            other = b if a == at else a if b == at else -1
            if other in members and other not in hops:
                hops[other] = hops[at] + 1
                queue.append(other)
    return hops
