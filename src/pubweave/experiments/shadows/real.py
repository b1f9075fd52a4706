"""Topic-connected overlays for real subscriptions: who follows, hears and knows whom.

- twitter: followers of 100 accounts, an account is a topic;
- lastfm: users by the artists they listen to;
- facebook: friendships; everybody is a topic that all friends want, and so does it itself.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from pubweave.design.tco.churn import MaintainedOverlay
from pubweave.design.tco.interests import Indices, Subscriptions
from pubweave.design.tco.low_oda import Mode, build_overlay
from pubweave.design.tco.rounds import RoundRecord, play
from pubweave.design.tco.verify import verify
from pubweave.experiments.shadows.setting import VARIANTS
from pubweave.generate.workloads.churn_rounds import random_rounds
from pubweave.model.files.subscriptions import read_subscriptions

FILES = {
    "twitter": "subscriptions/twitter100_follower_topic.csv.gz",
    "lastfm": "subscriptions/lastfm2k_user_artist.csv.gz",
    "facebook": "subscriptions/facebook_friends.csv.gz",
}
PLAYED = ("lean", "shadow")


@dataclass(frozen=True)
class RealRun:
    """One data set: the overlays from scratch, and what churn made of them."""

    kind: str
    wanted: Subscriptions
    built: dict[str, dict[str, Any]]
    rounds: dict[str, list[RoundRecord]]
    afresh: dict[str, dict[str, Any]]
    """Low-ODA on those who are there after the rounds, by variant."""


def real_subscriptions(kind: str, data: Path) -> Subscriptions:
    """The subscriptions of a data set; `SubscriptionFileError` names what is missing."""
    pairs = read_subscriptions(data / FILES[kind])
    if kind != "facebook":
        return Subscriptions.from_pairs(pairs.clients, pairs.topics, pairs.owners, pairs.wanted)
    names = tuple(dict.fromkeys([*pairs.clients, *pairs.topics]))
    number = {name: place for place, name in enumerate(names)}
    ones = np.array([number[name] for name in pairs.clients])[pairs.owners]
    others = np.array([number[name] for name in pairs.topics])[pairs.wanted]
    everyone = np.arange(len(names))
    return Subscriptions.from_pairs(
        names,
        names,
        np.concatenate([ones, others, everyone]),
        np.concatenate([others, ones, everyone]),
    )


def run_real(kind: str, data: Path, rounds: int, seed: int, clock: Callable[[], float]) -> RealRun:
    """Both modes from scratch, then as many joins as leaves on Low-ODA's overlay."""
    wanted = real_subscriptions(kind, data)
    built, overlays = {}, {}
    for mode in Mode:
        began = clock()
        overlays[mode] = build_overlay(wanted, mode)
        built[mode.value] = _described(wanted, overlays[mode], clock() - began)
    played, afresh = {}, {}
    for variant in PLAYED:
        overlay = MaintainedOverlay(
            wanted, overlays[Mode.LOW_ODA], VARIANTS[variant], np.random.default_rng([seed, 2])
        )
        rng = np.random.default_rng([seed, 1])
        drawn = list(random_rounds(wanted, rounds // 2, rounds - rounds // 2, rng))
        singly = [[change] for change in drawn]
        played[variant] = list(play(overlay, singly, clock, verify_every=10))
        now, links = overlay.snapshot()
        began = clock()
        again = build_overlay(now)
        afresh[variant] = {
            "kept": _described(now, links, 0.0),
            "low-oda": _described(now, again, clock() - began),
        }
    return RealRun(kind, wanted, built, played, afresh)


def described(run: RealRun) -> dict[str, Any]:
    """The means of a run, for people and programs."""
    churn = {}
    for variant, records in run.rounds.items():
        kinds = {}
        for kind in ("join", "leave"):
            own = [record for record in records if record.kind == kind]
            kinds[kind] = {
                name: round(statistics.fmean(getattr(each, name) for each in own), 3)
                for name in ("changed", "repair_ms", "backups_ms", "tidy_ms", "shadow_size")
            }
        verified = [record for record in records if record.is_verified]
        churn[variant] = {
            **kinds,
            "verified_rounds": len(verified),
            "is_connected": all(record.gap is None for record in verified),
            **run.afresh[variant],
        }
    return {
        "kind": run.kind,
        "nodes": run.wanted.node_count,
        "topics": run.wanted.topic_count,
        "subscriptions": run.wanted.size,
        "built": run.built,
        "churn": churn,
    }


def _described(wanted: Subscriptions, links: Indices, seconds: float) -> dict[str, Any]:
    degrees = np.bincount(links.ravel(), minlength=wanted.node_count)
    return {
        "nodes": wanted.node_count,
        "links": len(links),
        "average_degree": round(2 * len(links) / wanted.node_count, 3),
        "max_degree": int(degrees.max(initial=0)),
        "seconds": round(seconds, 3),
        "is_connected": verify(wanted, links).is_connected,
    }
