"""An overlay that stays topic-connected while nodes come and go (Shadows, Algorithms 3-10).

Each node has backups, other nodes that together want each of its topics lambda times. When it
leaves, new links are sought only among its neighbors and backups, its shadow set. A round is
`apply`, after which every topic is connected again (step II); `update_backups` is step III, which
can wait: whoever lost a backup chooses anew.

Batches go beyond the paper: all leaves and ended subscriptions of a round are mended at once, then
nodes with new topics and joining nodes are attached one after the other.

Tidying goes beyond it, too, between rounds, without hurry: churn leaves two kinds of dirt. Links
become needless when others are added near them: `trim` drops them. And some nodes collect links,
since a repair takes whom it finds among few: `relieve` takes a link from the node of highest degree
and mends the cut among the shadows of the other end, if one or two links between nodes of lower
degree do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pubweave.design.tco._kernels import backups as _kernels_backups
from pubweave.design.tco._kernels import churn as kernels
from pubweave.design.tco._kernels import mending as _kernels_mending
from pubweave.design.tco._kernels import mending as mending_kernels
from pubweave.design.tco.changes import (
    Backups,
    Change,
    ChurnSettings,
    DegreeRule,
    Join,
    Leave,
    Method,
    Pair,
    Resubscribe,
    RoundOutcome,
    check_changes,
)
from pubweave.design.tco.interests import Indices, Subscriptions
from pubweave.design.tco.low_oda import Start, construct
from pubweave.design.tco.state import OverlayArrays

MATRIX_ROWS_MAX = 600
"""Larger sets of nodes are mended by the kernels of Low-ODA."""
LEAN_SLACK = 3
"""The lean rule's level above the maximum degree at the beginning: lower ones cost average degree,
higher ones let hubs grow (chosen on seed 1 of 2,000 uniform and Zipf nodes)."""
LEVEL_TO_AVERAGE = 1.5
SEARCHES = 20
"""So many links are looked at closely after a round."""


class MaintainedOverlay:
    """Nodes, their topics, links and backups; changed by `apply` and `update_backups` only.

    >>> wanted = Subscriptions.of({"a": ["x"], "b": ["x", "y"], "c": ["y"]})
    >>> links = np.array([[0, 1], [1, 2]], np.int32)
    >>> overlay = MaintainedOverlay(wanted, links, ChurnSettings(), np.random.default_rng(1))
    >>> overlay.apply([Join("d", ("x", "y"))]).added
    (('d', 'b'),)
    >>> outcome = overlay.apply([Leave("b")])
    >>> sorted(overlay.links())
    [('a', 'd'), ('c', 'd')]
    """

    def __init__(
        self,
        wanted: Subscriptions,
        links: Indices,
        settings: ChurnSettings,
        rng: np.random.Generator,
    ) -> None:
        self.settings = settings
        self.state = OverlayArrays(wanted, links)
        self._random = rng.integers(0, 1 << 63, size=1).astype(np.uint64)
        self.outdated: dict[int, None] = {}
        self._base_level = self.max_degree + LEAN_SLACK
        self._touched: dict[str, None] = {}
        if settings.method is Method.SHADOW:
            self._rebuild(np.arange(wanted.node_count, dtype=np.int32))

    @property
    def node_count(self) -> int:
        return len(self.state.number_of)

    @property
    def link_count(self) -> int:
        return self.state.link_count

    @property
    def max_degree(self) -> int:
        return self.state.max_degree

    @property
    def average_degree(self) -> float:
        return 2 * self.link_count / self.node_count if self.node_count else 0.0

    @property
    def level(self) -> int:
        """The degree that the lean rule keeps to; it follows the average where that has grown."""
        return max(self._base_level, math.ceil(LEVEL_TO_AVERAGE * self.average_degree))

    def snapshot(self) -> tuple[Subscriptions, Indices]:
        """Who wants what now, and the links, as they are handed to a builder or a verifier."""
        return self.state.snapshot()

    def links(self) -> list[Pair]:
        """All links by name."""
        wanted, links = self.snapshot()
        return [(wanted.nodes[a], wanted.nodes[b]) for a, b in links.tolist()]

    def topics(self) -> dict[str, tuple[str, ...]]:
        """The topics of every node by name."""
        state = self.state
        return {
            name: tuple(state.topic_names[t] for t in state.listed(state.topics_of, node).tolist())
            for name, node in state.number_of.items()
        }

    def backups(self) -> dict[str, tuple[str, ...]]:
        """The backups of every node by name."""
        state = self.state
        return {
            name: tuple(state.names[other] for other in state.listed(state.backups, node).tolist())
            for name, node in state.number_of.items()
        }

    def apply(self, changes: Sequence[Change]) -> RoundOutcome:
        """One round; raises `ChurnError` and changes nothing if a change cannot be."""
        check_changes(changes, self.state.number_of, self.topics_of)
        added: list[Pair] = []
        removed: list[Pair] = []
        shadow_size = 0
        leaves = [change for change in changes if isinstance(change, Leave)]
        ended = [change for change in changes if isinstance(change, Resubscribe) and change.ended]
        if leaves or ended:
            shadow_size = self._mend(leaves, ended, added, removed)
        for change in changes:
            if isinstance(change, Join):
                node = self.state.enter(change.node)
                shadow_size += self._attach(node, change.topics, added)
            elif isinstance(change, Resubscribe) and change.begun:
                node = self.state.number_of[change.node]
                shadow_size += self._attach(node, change.begun, added)
        for pair in added:
            self._touched.update(dict.fromkeys(pair))
        return RoundOutcome(tuple(added), tuple(removed), shadow_size)

    def topics_of(self, name: str) -> set[str]:
        state = self.state
        node = state.number_of[name]
        return {state.topic_names[t] for t in state.listed(state.topics_of, node).tolist()}

    def update_backups(self) -> int:
        """Step III (Algorithm 8): new backups for whoever lost some; returns for how many."""
        bereft = np.array(list(self.outdated), np.int32)
        self.outdated.clear()
        if self.settings.method is Method.SHADOW and len(bereft):
            self._rebuild(bereft)
        return len(bereft)

    def tidy(self) -> RoundOutcome:
        """With the lean rule: drop links that the last rounds made needless, relieve a hub."""
        state = self.state
        numbers = [state.number_of[name] for name in self._touched if name in state.number_of]
        touched = np.array(numbers, np.int32)
        self._touched.clear()
        if self.settings.rule is not DegreeRule.LEAN:
            return RoundOutcome((), (), 0)
        added: tuple[Pair, ...] = ()
        removed: tuple[Pair, ...] = ()
        if self.max_degree > self.level and self.settings.method is Method.SHADOW:
            new, old = relieve(state, self.level, self.settings.rho)
            added, removed = state.named(new), state.named(old)
        removed += state.named(trim(state, touched, SEARCHES))
        return RoundOutcome(added, removed, 0)

    def _mend(
        self,
        leaves: Sequence[Leave],
        ended: Sequence[Resubscribe],
        added: list[Pair],
        removed: list[Pair],
    ) -> int:
        """Algorithms 4 and 7 for all who leave or want less; returns the size of the shadow set."""
        state = self.state
        leavers = [state.number_of[change.node] for change in leaves]
        stayers = [state.number_of[change.node] for change in ended]
        lost = [(node, state.listed(state.topics_of, node).copy()) for node in leavers]
        lost += [
            (node, state.topic_numbers(change.ended))
            for node, change in zip(stayers, ended, strict=True)
        ]
        nodes = np.concatenate([np.full(len(topics), node, np.int32) for node, topics in lost])
        topics = np.concatenate([topics for _, topics in lost])
        order = np.argsort(topics, kind="stable")
        nodes, topics = nodes[order], topics[order]
        kernels.end_subscriptions(state.topics_of, state.nodes_of, nodes, topics)
        changed = np.array(leavers + stayers, np.int32)
        shadows = self._shadows(changed, topics)
        cut, starts, seeds = kernels.cut_seeds(state.topics_of, state.neighbors, nodes, topics)
        labels = state.labels_of_cut(cut, starts, seeds, shadows)
        gone = kernels.useless_links(state.topics_of, state.neighbors, changed)
        removed += state.named(gone)
        state.unlink(gone)
        if labels.shape[1]:
            new = shadows[self._mending_links(shadows, labels)]
            state.link(new)
            added += state.named(new)
        self._forget(leavers, stayers)
        for change in leaves:
            state.depart(change.node)
        return len(shadows)

    def _shadows(self, changed: Indices, topics: Indices) -> Indices:
        state = self.state
        stamp = state.next_stamp()
        if self.settings.method is Method.NAIVE:
            found = kernels.subscribers(state.nodes_of, topics, state.marks, stamp)
            return kernels.in_order(state.topics_of, found)
        return kernels.shadow_set(
            state.topics_of, state.neighbors, state.backups, changed, state.marks, stamp
        )

    def _mending_links(self, shadows: Indices, labels: Indices) -> Indices:
        """Algorithm 2 on the shadow set, as pairs of its places."""
        degrees = self.state.neighbors.sizes[shadows]
        level = self._level_for(degrees)
        if len(shadows) > MATRIX_ROWS_MAX:
            return _construct_on(labels, degrees, level, self.settings.rho)
        is_fixed = self.settings.rule is DegreeRule.LEAN
        links = np.empty((labels.size, 2), np.int32)
        count = _kernels_mending.mend(labels, degrees, level, is_fixed, self.settings.rho, links)
        return links[:count]

    def _level_for(self, degrees: Indices | None) -> int:
        """What links should not exceed: by the rule, for shadows of these degrees."""
        if self.settings.rule is DegreeRule.LEAN:
            return self.level
        if self.settings.rule is DegreeRule.ALL:
            return self.max_degree
        if degrees is None:
            return kernels.OVER_SHADOWS
        return int(degrees.max(initial=0))

    def _forget(self, leavers: list[int], stayers: list[int]) -> None:
        """Who has lost a backup, or wants other topics, needs new backups."""
        state = self.state
        if self.settings.method is Method.NAIVE:
            return
        for node in leavers:
            for bereft in kernels.leave_backups(state.backups, state.primaries, node).tolist():
                self.outdated[bereft] = None
        for node in stayers:
            self.outdated[node] = None
            for bereft in state.listed(state.primaries, node).tolist():
                self.outdated[bereft] = None
        for node in leavers:
            self.outdated.pop(node, None)

    def _attach(self, node: int, names: Sequence[str], added: list[Pair]) -> int:
        """Algorithms 3, 9 and 10: links of a node with new topics; the size of its shadow set."""
        state, settings = self.state, self.settings
        topics = state.topic_numbers(names)
        found = kernels.join(
            self._weighing(),
            state.backups,
            state.primaries,
            state.degree_counts,
            state.marks,
            state.stamps,
            node,
            topics,
            settings.coverage,
            settings.window,
            settings.backups is Backups.GREEDY,
            settings.method is Method.NAIVE,
            self._level_for(None),
            settings.rule is DegreeRule.LEAN,
            settings.rho,
        )
        *items, pairs, shadow_size = found
        state.renew(items)
        state.link_count += len(pairs)
        self.outdated.pop(node, None)
        added += state.named(pairs)
        return int(shadow_size)

    def _weighing(self) -> _kernels_backups.Weighing:
        state = self.state
        return _kernels_backups.Weighing(
            state.topics_of, state.nodes_of, state.neighbors, state.less, state.gains, self._random
        )

    def _rebuild(self, nodes: Indices) -> None:
        state, settings = self.state, self.settings
        state.backups, state.primaries = _kernels_backups.rebuild_backups(
            self._weighing(),
            state.backups,
            state.primaries,
            nodes,
            settings.coverage,
            settings.window,
            settings.backups is Backups.GREEDY,
        )


def _construct_on(labels: Indices, degrees: Indices, level: int, rho: float) -> Indices:
    """Algorithm 2 by the kernels of Low-ODA, for rows too many for a matrix."""
    rows, topics = np.nonzero(labels != _kernels_mending.NOT_SUBSCRIBED)
    starts = np.zeros(len(labels) + 1, np.int64)
    np.cumsum(np.bincount(rows, minlength=len(labels)), out=starts[1:])
    keys = topics * (int(labels.max(initial=0)) + 1) + labels[rows, topics]
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    start = Start(first[inverse].astype(np.int32), degrees, level)
    return construct(starts, topics.astype(np.int32), labels.shape[1], rho=rho, start=start)


RELIEF_LINKS_MAX = 2
"""A link taken away may cost at most so many others."""
TRIES = 4


def trim(state: OverlayArrays, nodes: Indices, searches: int) -> Indices:
    """Drop needless links of these nodes; searches for other ways are what takes time.

    O(searches common topics), each in proportion to the smaller side of a cut.
    """
    state.neighbors, dropped = kernels.trim(
        state.wishes,
        state.neighbors,
        state.degree_counts,
        nodes,
        searches,
        state.marks,
        state.following,
        state.stamps,
    )
    state.link_count -= len(dropped)
    return dropped


def relieve(state: OverlayArrays, level: int, rho: float) -> tuple[Indices, Indices]:
    """Take one link from the node of highest degree; what was added, and what was removed."""
    hub = int(np.argmax(state.neighbors.sizes))
    others = [
        (len(common), other, common)
        for other in state.listed(state.neighbors, hub).tolist()
        for common in [_common_topics(state, hub, other)]
    ]
    for _, other, common in sorted(others, key=lambda each: each[:2])[:TRIES]:
        taken = np.array([[hub, other]], np.int32)
        state.unlink(taken)
        added = _around(state, hub, other, common, level, rho)
        if added is not None:
            state.link(added)
            return added, taken
        state.link(taken)
    none = np.zeros((0, 2), np.int32)
    return none, none


def _common_topics(state: OverlayArrays, one: int, other: int) -> Indices:
    return np.intersect1d(
        state.listed(state.topics_of, one), state.listed(state.topics_of, other), True
    )


def _around(
    state: OverlayArrays, hub: int, other: int, common: Indices, level: int, rho: float
) -> Indices | None:
    """Links that connect two nodes in these topics again without either's old link, if few do."""
    stamp = state.next_stamp()
    state.marks[[hub, other]] = stamp
    changed = np.array([other, hub], np.int32)
    shadows = kernels.shadow_set(
        state.topics_of, state.neighbors, state.backups, changed, state.marks, stamp
    )
    shadows = kernels.in_order(state.topics_of, np.append(shadows, np.int32(other)))
    seeds = np.tile(np.array([hub, other], np.int32), len(common))
    labels = state.labels_of_cut(common, np.arange(0, len(seeds) + 1, 2), seeds, shadows)
    for topic in labels.T:
        if len(np.unique(topic[topic >= 0])) < 2:  # nobody here who could reach the hub's piece
            return None
    links = np.empty((labels.size, 2), np.int32)
    degrees = state.neighbors.sizes[shadows]
    count = mending_kernels.mend(labels, degrees, level, True, rho, links)
    added = shadows[links[:count]]
    lower = state.neighbors.sizes[added] < state.neighbors.sizes[hub]
    return added if count <= RELIEF_LINKS_MAX and lower.all() else None
