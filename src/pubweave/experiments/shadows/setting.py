"""The evaluation of Shadows (section VI): overlays of 2,000 nodes and a sequence of churn.

The same seed gives the same nodes and the same rounds to every variant.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

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
from pubweave.design.tco.verify import Gap, verify
from pubweave.design.tco.warm_up import warm_up_tco
from pubweave.generate.workloads.churn_rounds import Popularity, random_subscriptions, topic_sets

# Playing churn on a maintained overlay, round by round, with a clock and the verifier.


@dataclass(frozen=True)
class RoundRecord:
    """One round: what changed, how long each step took, what the overlay is like after it."""

    number: int
    kind: str
    """join, leave, change, or batch where there are several."""
    topics: int | None
    """How many topics the node that joined or left has."""
    nodes: int
    links: int
    average_degree: float
    max_degree: int
    added: int
    removed: int
    """Both with those of tidying."""
    shadow_size: int
    repair_ms: float
    backups_ms: float
    backups_updated: int
    tidy_ms: float
    gap: Gap | None
    is_verified: bool
    """Whether the verifier was asked; without a gap the overlay is then topic-connected."""

    @property
    def changed(self) -> int:
        return self.added + self.removed

    def as_json(self) -> dict[str, Any]:
        document = asdict(self)
        document["gap"] = None if self.gap is None else str(self.gap)
        document["is_connected"] = (self.gap is None) if self.is_verified else None
        return document


def play(
    overlay: MaintainedOverlay,
    rounds: Iterable[Sequence[Change]],
    clock: Callable[[], float],
    *,
    verify_every: int = 1,
) -> Iterator[RoundRecord]:
    """Apply the rounds one after the other; every so many of them are verified."""
    for number, changes in enumerate(rounds, 1):
        topics = _topic_count(overlay, changes)
        began = clock()
        outcome = overlay.apply(changes)
        repaired = clock()
        updated = overlay.update_backups()
        has_backups = clock()
        tidied = overlay.tidy()
        ended = clock()
        is_verified = verify_every > 0 and number % verify_every == 0
        gaps = verify(*overlay.snapshot()).gaps if is_verified else ()
        yield RoundRecord(
            number=number,
            kind=_kind(changes),
            topics=topics,
            nodes=overlay.node_count,
            links=overlay.link_count,
            average_degree=round(overlay.average_degree, 4),
            max_degree=overlay.max_degree,
            added=len(outcome.added) + len(tidied.added),
            removed=len(outcome.removed) + len(tidied.removed),
            shadow_size=outcome.shadow_size,
            repair_ms=round(1e3 * (repaired - began), 4),
            backups_ms=round(1e3 * (has_backups - repaired), 4),
            backups_updated=updated,
            tidy_ms=round(1e3 * (ended - has_backups), 4),
            gap=gaps[0] if gaps else None,
            is_verified=is_verified,
        )


def _kind(changes: Sequence[Change]) -> str:
    if len(changes) != 1:
        return "batch"
    [change] = changes
    return (
        "join" if isinstance(change, Join) else "leave" if isinstance(change, Leave) else "change"
    )


def _topic_count(overlay: MaintainedOverlay, changes: Sequence[Change]) -> int | None:
    if len(changes) != 1:
        return None
    [change] = changes
    if isinstance(change, Join):
        return len(change.topics)
    return len(overlay.topics_of(change.node)) if change.node in overlay.state.number_of else None


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
