"""DYNATOPS Figures 7 to 9, Poisson model (section 6.1.2): users whose subscriptions change hourly.

50,000 users with 5 topics each, 100 brokers, 1,000 topics. A user whose hour has an arrival draws
all its topics anew (``whole``), or one of them within its pattern: the paper does not say what a
change is. Neither does it say how much is published: every topic has as many publications an hour.
Publishers are users of random brokers. Hops take 1.

`bayeux`, `tco` and `dynatops-bnr` have users where they were put at random; `dynatops` places them
by section 4. `dynatops-plus` is ours: users where their topics last
(`design.dynatops.placement.lasting`), in clusters that hear of each other through one broker, and
the better mapping. `dynatops-wide` is the paper's rule in the same clusters, told in the same way
and as often: what the rule alone does.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from pubweave.design.dynatops.mapping.routed_overlay import Publications
from pubweave.design.dynatops.placement import (
    Clusters,
    HostedUsers,
    LastingPlacement,
    LastingRule,
    PlacementRule,
    UserPlacement,
)
from pubweave.design.dynatops.rivals import RepairPolicy, prefix_overlay
from pubweave.design.tco.interests import Indices, Integers
from pubweave.experiments.dynatops.systems import (
    Account,
    ConnectedOverlay,
    FixedOverlay,
    RingOverlay,
    SystemRun,
    broker_keys,
)
from pubweave.generate.workloads.dynatops import MODE_SIZE, Pattern, drawn_topics

RATES = (0.025, 0.05, 0.1, 0.2)
"""Changes per user and hour, Figure 7."""
FREE_PERIODS_H = (2, 5, 10, 20, 50)
"""Figure 9."""
SYSTEMS = (
    "bayeux",
    "bayeux-16",
    "tco",
    "tco-mended",
    "tco-each",
    "dynatops-bnr",
    "dynatops-up",
    "dynatops",
    "dynatops-wide",
    "dynatops-plus",
)
PUBLISHERS_EACH = 5
"""Of each topic and hour: so many ways are measured, whatever the number of publications."""
WIDE_SYSTEMS = ("dynatops-wide", "dynatops-plus")
WIDE_CLUSTER = 100
"""Brokers of a cluster of these, for any pattern."""
WIDE_TELLS_PER_H = 2
"""T_update is half an hour there."""


@dataclass(frozen=True)
class PoissonSetting:
    """One run; the paper's by default, but for what it does not say."""

    users: int = 50_000
    brokers: int = 100
    topics: int = 1_000
    hours: int = 100
    rate: float = 0.1
    pattern: Pattern = Pattern.MULTIMODAL
    whole: bool = True
    cluster_size: int = 5
    load_weight: float = 100.0
    """w_l: when users join, loads of a cluster differ by at most 1/w_l of all subscriptions. Ours
    weighs loads by their mean, and has a weight of its own."""
    update_h: int = 1
    """T_update."""
    free_period_h: int = 10
    """T_free."""
    publications_per_h: float = 10.0
    """Of each topic: 100 in a free period of 10 hours."""
    linger: int = 0
    """dynatops-plus: hours that brokers stay in trees without users."""
    systems: tuple[str, ...] = SYSTEMS
    seed: int = 1


def run_poisson(setting: PoissonSetting) -> Iterator[SystemRun]:
    """One row for each system, all on the same users."""
    rng = np.random.default_rng([setting.seed, round(setting.rate * 1e6)])
    topics = drawn_topics(setting.users, setting.topics, setting.pattern, rng)
    accounts = _accounts(setting, topics, rng)
    # Several systems share the users of one placement.
    placements = {id(each.placed): each.placed for each in accounts}.values()
    wide = {id(each.placed) for each in accounts if each.name in WIDE_SYSTEMS}
    per_period = setting.publications_per_h * setting.free_period_h
    expected = np.full(setting.topics, per_period)
    for hour in range(setting.hours):
        if hour % setting.free_period_h == 0:
            for account in accounts:
                account.adapt(expected)
        who = np.flatnonzero(rng.poisson(setting.rate, setting.users))
        old = topics[who].copy()
        new = changed_topics(old, setting, rng)
        topics[who] = new
        is_told = (hour + 1) % setting.update_h == 0
        changes, told = {}, {}
        for placed in placements:
            name = id(placed)
            told[name] = WIDE_TELLS_PER_H if name in wide else int(is_told)
            _change_within_hour(placed, (who, old, new), told[name])
            changes[name] = placed.take_changes()
        published = _publications(setting, rng)
        for account in accounts:
            name = id(account.placed)
            account.settle(changes[name], times_told=told[name])
            account.adapt(None)
            account.notify(published)
    for account in accounts:
        yield account.row(
            setting.hours, model="poisson", pattern=setting.pattern.value, rate=setting.rate,
            cluster_size=setting.cluster_size, load_weight=setting.load_weight,
            free_period_h=setting.free_period_h, seed=setting.seed,
        )  # fmt: skip


def _change_within_hour(
    placed: HostedUsers, changed: tuple[Integers, Indices, Indices], times_told: int
) -> None:
    """Users change one after the other; brokers tell each other so often meanwhile."""
    who, old, new = changed
    parts = np.array_split(np.arange(len(who)), max(1, times_told))
    for number, some in enumerate(parts, 1):
        placed.change(who[some], old[some], new[some])
        if number == len(parts):
            placed.end_round()
        if times_told:
            placed.tell()


def _accounts(setting: PoissonSetting, topics: Indices, rng: np.random.Generator) -> list[Account]:
    """The systems that are wanted; users of all of them have the same topics."""
    brokers, seed = setting.brokers, setting.seed
    clusters = Clusters.of(brokers, setting.cluster_size)
    static_at = rng.integers(0, brokers, setting.users)
    cluster_of = rng.integers(0, clusters.count, setting.users)
    keys = broker_keys(brokers, seed)
    names = [f"{seed}/b{number}" for number in range(brokers)]
    topic_names = [f"t{number}" for number in range(setting.topics)]
    static = UserPlacement.static(topics, static_at, brokers, setting.topics)

    def placed(rule: PlacementRule) -> UserPlacement:
        return UserPlacement.joined(topics, cluster_of, clusters, setting.topics, rule)

    by_paper = placed(PlacementRule(setting.load_weight))

    def bayeux(bits: int) -> FixedOverlay:
        return FixedOverlay(prefix_overlay(names, topic_names, digit_bits=bits))

    def ring(*, thorough: bool = False) -> RingOverlay:
        return RingOverlay(setting.topics, keys, None, thorough=thorough)

    def connected(name: str, upkeep: RepairPolicy) -> Account:
        return Account(name, ConnectedOverlay(static, upkeep, seed), static)

    wide = partial(_wide_account, setting, topics, cluster_of)
    told = clusters.pairs
    makers = {
        "bayeux": lambda: Account("bayeux", bayeux(1), static),
        "bayeux-16": lambda: Account("bayeux-16", bayeux(4), static),
        "tco": lambda: connected("tco", RepairPolicy.REBUILT),
        "tco-mended": lambda: connected("tco-mended", RepairPolicy.MENDED),
        "tco-each": lambda: connected("tco-each", RepairPolicy.EACH),
        "dynatops-bnr": lambda: Account("dynatops-bnr", ring(), static, is_managed=True),
        "dynatops-up": lambda: Account("dynatops-up", ring(), by_paper, told=told),
        "dynatops": lambda: Account("dynatops", ring(), by_paper, is_managed=True, told=told),
        "dynatops-wide": lambda: wide("dynatops-wide", ring()),
        "dynatops-plus": lambda: wide("dynatops-plus", ring(thorough=True)),
    }
    return [makers[name]() for name in setting.systems]


def _wide_account(
    setting: PoissonSetting, topics: Indices, cluster_of: Integers, name: str, ring: RingOverlay
) -> Account:
    """Large clusters, told through one broker: users by the paper's rule, or where they last."""
    clusters = Clusters.of(setting.brokers, min(setting.brokers, WIDE_CLUSTER))
    within = cluster_of % clusters.count
    own: dict[str, Any] = {"cluster_size": WIDE_CLUSTER}
    placed: HostedUsers
    if name == "dynatops-plus":
        rule = LastingRule(linger=setting.linger)
        placed = LastingPlacement.joined(topics, within, clusters, setting.topics, rule)
        own["load_weight"] = rule.load_weight
    else:
        by_paper = PlacementRule(setting.load_weight)
        placed = UserPlacement.joined(topics, within, clusters, setting.topics, by_paper)
    return Account(name, ring, placed, is_managed=True, told=clusters.round_trips, own_setting=own)


def changed_topics(old: Indices, setting: PoissonSetting, rng: np.random.Generator) -> Indices:
    """All topics drawn anew, or one of each row; no topic comes twice in a row."""
    drawn = drawn_topics(len(old), setting.topics, setting.pattern, rng)
    if setting.whole:
        return drawn
    if setting.pattern is Pattern.MULTIMODAL:
        # The same mode, other topics of it.
        drawn = (old[:, :1] // MODE_SIZE * MODE_SIZE + drawn % MODE_SIZE).astype(np.int32)
    new = old.copy()
    rows, place = np.arange(len(old)), rng.integers(0, old.shape[1], len(old))
    is_known = (drawn[:, :1] == old).any(axis=1)
    new[rows, place] = np.where(is_known, old[rows, place], drawn[:, 0])
    return new


def _publications(setting: PoissonSetting, rng: np.random.Generator) -> Publications:
    topics = np.repeat(np.arange(setting.topics), PUBLISHERS_EACH)
    return Publications.of(rng.integers(0, setting.brokers, len(topics)), topics)
