"""What one run of the scenario `autopilot` is like, drawn from its seed."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from pubweave.control.settings import ChangePrices, ControlSettings, OperatorLimits, QuietHours
from pubweave.model.decisions import ControlMode
from pubweave.model.ids import Link
from pubweave.model.topology import Topology
from pubweave.sim.autopilot.drifting_traffic import DaySetting

FAULTS = ("none", "network", "control", "all", "crashes")
"""Of the scenario: nothing, profiles and the store, deployments, everything, kills only."""


@dataclass(frozen=True)
class FaultShares:
    """How often things go wrong, per request or decision."""

    profile: float = 0.0
    store: float = 0.0
    """A script is cut off after some of its requests."""
    away_s: float = 0.0
    """The store is away for so long, now and then."""
    deployment: float = 0.0
    """A plan ends after some of its steps."""
    lost_sight: float = 0.0
    """Nobody hears how a deployment ended."""
    stranger: float = 0.0
    """Somebody else changes the overlay between two looks."""
    kill: float = 0.0
    """The loop is killed, and started again some time later."""

    @classmethod
    def draw(cls, fault: str, rng: np.random.Generator) -> FaultShares:
        def some(kinds: tuple[str, ...], most: float) -> float:
            return float(rng.uniform(0.0, most)) if fault in kinds else 0.0

        return cls(
            profile=some(("network", "all"), 0.4),
            store=some(("network", "all"), 0.1),
            away_s=some(("network", "all"), 1500.0),
            deployment=some(("control", "all"), 0.5),
            lost_sight=some(("control", "all"), 0.3),
            stranger=some(("control", "all"), 0.2),
            kill=some(("crashes", "all"), 0.03),
        )


@dataclass(frozen=True)
class PersonSetting:
    """Somebody who answers proposals, or does not."""

    approves: float
    rejects: float
    """The rest is left to expire."""


def draw_day(max_brokers: int, rng: np.random.Generator) -> DaySetting:
    """A small overlay for some hours."""
    return DaySetting(
        brokers=int(rng.integers(4, max(5, max_brokers) + 1)),
        regions=2,
        topics=int(rng.integers(4, 12)),
        sets_per_topic=2,
        hot_topics=2,
        hot_s=3600.0,
        entries_per_broker=float(rng.choice([0.0, 100.0, 3000.0])),
        rate_per_s=float(rng.uniform(2.0, 30.0)),
        slow_brokers_per_day=12.0,
        hours=float(rng.uniform(4.0, 9.0)),
    )


def draw_settings(start: Topology, rng: np.random.Generator) -> ControlSettings:
    """Some mode, some schedule, some limits that the starting tree keeps."""
    period_s = float(rng.choice([300.0, 600.0, 900.0]))
    return ControlSettings(
        mode=ControlMode(str(rng.choice(["auto", "auto", "auto", "approve", "observe"]))),
        period_s=period_s,
        free_period_s=float(rng.choice([0.0, 900.0, 2700.0])),
        least_saving=float(rng.choice([0.0, 0.02, 0.1])),
        few_links=(1, 3),
        review_s=float(rng.choice([1200.0, 3600.0])),
        review_poll_s=30.0,
        stand_down_s=float(rng.choice([300.0, 1200.0])),
        keep_records=int(rng.choice([15, 500])),
        limits=_draw_limits(start, rng),
        prices=ChangePrices(weight=float(rng.choice([0.0, 1.0, 5.0]))),
    )


def _draw_limits(start: Topology, rng: np.random.Generator) -> OperatorLimits:
    links = sorted(start.links)
    absent = sorted(
        {Link.between(a, b) for a, b in combinations(sorted(start.brokers), 2)} - start.links
    )
    widest = max(start.degree(broker) for broker in start.brokers)
    begins = int(rng.integers(0, 6))
    return OperatorLimits(
        max_degree=max(3, widest) if rng.random() < 0.4 else None,
        pinned=frozenset(_some(links, rng)),
        forbidden=frozenset(_some(absent, rng)),
        links_per_change=int(rng.integers(1, 5)) if rng.random() < 0.3 else None,
        links_per_day=int(rng.integers(0, 12)) if rng.random() < 0.3 else None,
        quiet_hours=(
            (QuietHours.parse(f"{begins:02d}:00-{begins + 2:02d}:30"),)
            if rng.random() < 0.4
            else ()
        ),
    )


def _some(links: list[Link], rng: np.random.Generator) -> list[Link]:
    if not links or rng.random() < 0.5:
        return []
    return [links[int(rng.integers(len(links)))]]


def described(settings: ControlSettings, fault: str, day: DaySetting) -> dict[str, Any]:
    """The setting for whoever reads of a failed run."""
    limits = settings.limits
    return {
        "fault": fault,
        "brokers": day.brokers,
        "hours": round(day.hours, 2),
        "mode": settings.mode.value,
        "period_s": settings.period_s,
        "free_period_s": settings.free_period_s,
        "max_degree": limits.max_degree,
        "pinned": [str(link) for link in sorted(limits.pinned)],
        "forbidden": [str(link) for link in sorted(limits.forbidden)],
        "links_per_change": limits.links_per_change,
        "links_per_day": limits.links_per_day,
        "quiet_hours": [str(span) for span in limits.quiet_hours],
    }
