"""Topic-connected overlays by definition: Algorithms 1-2 and 11-12 of Shadows as they are printed.

Every contribution is counted anew from the components of the whole overlay for every choice; no
bounds, no bits, no incremental state.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from fractions import Fraction

Node = int
Pair = tuple[Node, Node]


def components(nodes: Collection[Node], links: Iterable[Pair]) -> dict[Node, Node]:
    """The smallest node of each node's component, among these nodes only."""
    neighbors: dict[Node, set[Node]] = {node: set() for node in nodes}
    for a, b in links:
        if a in neighbors and b in neighbors:
            neighbors[a].add(b)
            neighbors[b].add(a)
    label: dict[Node, Node] = {}
    for start in sorted(nodes):
        if start in label:
            continue
        waiting = [start]
        while waiting:
            node = waiting.pop()
            if node not in label:
                label[node] = start
                waiting += neighbors[node]
    return label


def is_topic_connected(topics: Mapping[Node, Collection[int]], links: Iterable[Pair]) -> bool:
    links = list(links)
    wanted = {topic for of_node in topics.values() for topic in of_node}
    for topic in wanted:
        nodes = [node for node in topics if topic in topics[node]]
        if len(set(components(nodes, links).values())) > 1:
            return False
    return True


def contribution(
    pair: Pair,
    topics: Mapping[Node, Collection[int]],
    labels: Mapping[int, Mapping[Node, Node]],
    considered: Collection[int],
) -> int:
    """Algorithm 2, line 3: common topics in which the two are in different components."""
    u, v = pair
    common = set(topics[u]) & set(topics[v]) & set(considered)
    return sum(labels[topic][u] != labels[topic][v] for topic in common)


def construct_low_edges(
    topics: Mapping[Node, Collection[int]],
    current: Sequence[Pair],
    potential: Sequence[Pair],
    *,
    considered: Collection[int] | None = None,
    rho: float | None = 3.0,
    max_degree_of: Collection[Node] | None = None,
) -> list[Pair]:
    """Algorithm 2. ``potential`` is in canonical order, the first of equals wins; rho None is GM.

    ``max_degree_of``: whose degrees the maximum is taken over (all nodes by default).
    """
    if considered is None:
        considered = {topic for of_node in topics.values() for topic in of_node}
    members = list(topics) if max_degree_of is None else list(max_degree_of)
    added: list[Pair] = []
    while True:
        links = [*current, *added]
        labels = {
            topic: components([n for n in topics if topic in topics[n]], links)
            for topic in considered
        }
        worth = {pair: contribution(pair, topics, labels, considered) for pair in potential}
        if not any(worth.values()):
            return added
        degree = {node: sum(node in link for link in links) for node in topics}
        maximum = max(degree[node] for node in members)

        def rise(pair: Pair, degree: dict[Node, int] = degree, maximum: int = maximum) -> bool:
            return any(degree[end] + 1 > maximum for end in pair)

        first = max(potential, key=worth.__getitem__)
        level = [pair for pair in potential if not rise(pair) and worth[pair] > 0]
        second = max(level or potential, key=worth.__getitem__)
        takes_first = rho is None or worth[first] > rho * worth[second]
        added.append(first if takes_first else second)


def canonical_pairs(topics: Mapping[Node, Collection[int]]) -> list[Pair]:
    """All pairs, nodes by descending number of topics: smallest row first, then column."""
    order = sorted(topics, key=lambda node: (-len(topics[node]), node))
    return [(u, v) for place, u in enumerate(order) for v in order[place + 1 :]]


def low_oda(topics: Mapping[Node, Collection[int]], rho: float | None = 3.0) -> list[Pair]:
    """Algorithm 1."""
    return construct_low_edges(topics, [], canonical_pairs(topics), rho=rho)


def shadow_pairs(topics: Mapping[Node, Collection[int]], shadows: Collection[Node]) -> list[Pair]:
    """Algorithm 7, line 3: all pairs of a shadow set, in canonical order."""
    return [pair for pair in canonical_pairs(topics) if set(pair) <= set(shadows)]


def joining_pairs(
    topics: Mapping[Node, Collection[int]], node: Node, shadows: Collection[Node]
) -> list[Pair]:
    """Algorithm 10, line 3: the pairs of a joining node with its shadows, in canonical order."""
    return [
        pair for pair in canonical_pairs(topics) if node in pair and set(pair) <= {node, *shadows}
    ]


def _order(topics: Mapping[Node, Collection[int]], node: Node) -> tuple[int, Node]:
    return -len(topics[node]), node


def greedy_backups(
    topics: Mapping[Node, Collection[int]],
    weights: Mapping[Node, int],
    node: Node,
    coverage: int,
) -> list[Node]:
    """Algorithm 11; a chosen backup has one primary more, which counts from the next choice on,
    but it is no candidate any more."""
    backups: list[Node] = []
    for _ in range(coverage):
        rest = set(topics[node])
        while rest:
            candidates = [
                other
                for other in topics
                if other != node and other not in backups and rest & set(topics[other])
            ]
            if not candidates:
                break
            best = min(
                candidates,
                key=lambda other: (
                    Fraction(weights[other], len(rest & set(topics[other]))),
                    _order(topics, other),
                ),
            )
            backups.append(best)
            rest -= set(topics[best])
    return backups


def primal_dual_backups(
    topics: Mapping[Node, Collection[int]],
    weights: Mapping[Node, int],
    node: Node,
    coverage: int,
    below: Callable[[int], int],
    window: int,
) -> list[Node]:
    """Algorithm 12; ``below`` draws the place of the next uncovered topic, and of the window."""
    backups: list[Node] = []
    for _ in range(coverage):
        rest = sorted(topics[node])
        weight = dict(weights)
        while rest:
            place = below(len(rest))
            topic = rest[place]
            wanting = [other for other in sorted(topics) if topic in topics[other]]
            if len(wanting) > window:
                first = below(len(wanting) - window + 1)
                wanting = wanting[first : first + window]
            candidates = [each for each in wanting if each != node and each not in backups]
            if not candidates:
                rest[place] = rest[-1]
                rest.pop()
                continue
            best = min(candidates, key=lambda other: (weight[other], _order(topics, other)))
            backups.append(best)
            rest = [other for other in rest if other not in topics[best]]
            least = weight[best]
            for other in candidates:
                weight[other] -= least
    return backups


def needless_links(topics: Mapping[Node, Collection[int]], links: Sequence[Pair]) -> list[Pair]:
    """Links without which (one at a time) the overlay is topic-connected as well."""
    return [
        link
        for link in links
        if is_topic_connected(topics, [each for each in links if each != link])
    ]
