"""The evaluation of Shadows (section VI): overlays of 2,000 nodes and a sequence of churn.

The same seed gives the same nodes and the same rounds to every variant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from pubweave.design.tco.changes import (
    Backups,
    Change,
    ChurnSettings,
    DegreeRule,
    Join,
    Leave,
    Method,
)
from pubweave.design.tco.churn import MaintainedOverlay
from pubweave.design.tco.interests import Indices, Subscriptions
from pubweave.design.tco.low_oda import build_overlay
from pubweave.design.tco.rounds import RoundRecord, play
from pubweave.design.warm_up import warm_up_tco
from pubweave.generate.workloads.churn_rounds import Popularity, random_subscriptions, topic_sets

PRINTED = ChurnSettings(rule=DegreeRule.ALL, window=1 << 30)
VARIANTS = {
    "lean": ChurnSettings(),
    "shadow": PRINTED,
    "shadow, maximum over shadows": replace(PRINTED, rule=DegreeRule.SHADOWS),
    "shadow, greedy backups": replace(PRINTED, backups=Backups.GREEDY),
    "naive": replace(PRINTED, method=Method.NAIVE),
    **{f"lambda {coverage}": replace(PRINTED, coverage=coverage) for coverage in (1, 2, 3, 4)},
}
"""Ours first, then the paper's; "shadow" is its algorithm as printed, with primal-dual backups."""


@dataclass(frozen=True)
class ShadowsSetting:
    """One instance; the defaults are the paper's."""

    popularity: Popularity
    seed: int
    nodes: int = 2_000
    topics: int = 200
    rounds: int = 1_000
    low_oda_every: int = 25
    """Low-ODA is run from scratch after so many rounds (the paper: after each)."""


@dataclass(frozen=True)
class ShadowsWorld:
    """The nodes, their overlay by Low-ODA, and what happens to them."""

    setting: ShadowsSetting
    wanted: Subscriptions
    links: Indices
    churn: tuple[Change, ...]

    def maintained(self, variant: str) -> MaintainedOverlay:
        rng = np.random.default_rng([self.setting.seed, 2])
        return MaintainedOverlay(self.wanted, self.links, VARIANTS[variant], rng)

    def play(
        self, variant: str, clock: Callable[[], float], *, verify_every: int = 1
    ) -> list[RoundRecord]:
        """All rounds. The verifier walks over everything, after which a round finds its caches
        empty and takes twice as long: where times count it is asked seldom."""
        warm_up_tco()
        rounds = ([change] for change in self.churn)
        maintained = self.maintained(variant)
        return list(play(maintained, rounds, clock, verify_every=verify_every))

    @cached_property
    def rebuilds(self) -> list[int]:
        """After which rounds Low-ODA is run."""
        every = self.setting.low_oda_every
        return list(range(every, self.setting.rounds + 1, every))


@dataclass(frozen=True)
class Rebuilt:
    """Low-ODA from scratch after a round, beside Low-ODA from scratch before it."""

    number: int
    kind: str
    topics: int
    average_degree: float
    max_degree: int
    links: int
    changed: int
    """Links in one of the two overlays and not in the other."""
    build_ms: float


def make_world(setting: ShadowsSetting) -> ShadowsWorld:
    """Nodes, overlay and churn; a round is a join or a leave with equal probability."""
    rng = np.random.default_rng([setting.seed, 1])
    wanted = random_subscriptions(setting.nodes, setting.topics, setting.popularity, rng)
    sets = topic_sets(setting.rounds, setting.topics, setting.popularity, rng)
    present = list(wanted.nodes)
    churn: list[Change] = []
    for number, topics in enumerate(sets, 1):
        if rng.random() < 0.5 or len(present) < 2:
            name = f"n{setting.nodes + number}"
            present.append(name)
            churn.append(Join(name, tuple(wanted.topic_names[topic] for topic in topics)))
        else:
            place = int(rng.integers(len(present)))
            present[place], present[-1] = present[-1], present[place]
            churn.append(Leave(present.pop()))
    return ShadowsWorld(setting, wanted, build_overlay(wanted), tuple(churn))


def rebuilt(world: ShadowsWorld, clock: Callable[[], float]) -> Iterator[Rebuilt]:
    """Low-ODA at the world's rebuilds; ties go by the order of the nodes that stayed."""
    held = {
        name: tuple(world.wanted.topic_names[topic] for topic in world.wanted.topics_of(node))
        for node, name in enumerate(world.wanted.nodes)
    }
    wanted_at = set(world.rebuilds)
    for number, change in enumerate(world.churn, 1):
        before = _named_links(held) if number in wanted_at else set()
        topics = len(change.topics) if isinstance(change, Join) else len(held[change.node])
        if isinstance(change, Join):
            held[change.node] = change.topics
        else:
            del held[change.node]
        if number not in wanted_at:
            continue
        wanted = Subscriptions.of(held)
        began = clock()
        links = build_overlay(wanted)
        seconds = clock() - began
        named = {frozenset((wanted.nodes[a], wanted.nodes[b])) for a, b in links.tolist()}
        degrees = np.bincount(links.ravel(), minlength=wanted.node_count)
        yield Rebuilt(
            number,
            "join" if isinstance(change, Join) else "leave",
            topics,
            2 * len(links) / wanted.node_count,
            int(degrees.max()),
            len(before),
            len(named ^ before),
            1e3 * seconds,
        )


def _named_links(held: dict[str, tuple[str, ...]]) -> set[frozenset[str]]:
    wanted = Subscriptions.of(held)
    return {
        frozenset((wanted.nodes[a], wanted.nodes[b])) for a, b in build_overlay(wanted).tolist()
    }
