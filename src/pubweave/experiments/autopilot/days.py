"""Days of drifting traffic under each policy, side by side, and the bars the autopilot must meet.

Each seed is a day of its own (`sim.autopilot_world`): rates by the hour of the day, topics that
become hot, brokers that slow down. All policies start from the same tree and pay for traffic and
changes alike. Days run in processes of their own.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import mean
from typing import Any

from pubweave.control.settings import ControlSettings
from pubweave.model.decisions import ControlMode, DecisionRecord, DecisionState, Verdict
from pubweave.sim.autopilot_day import Policy, run_day
from pubweave.sim.autopilot_world import DaySetting

SAVING_MIN = 0.30
"""Of the static tree's cost."""
FREE_PERIODS_PER_DAY = 24 * 3600.0


@dataclass(frozen=True)
class PolicyDay:
    """What one policy made of a day."""

    total_ms: float
    traffic_ms: float
    change_ms: float
    changes: int
    links_changed: int
    undone: int
    """Links changed back within a free period."""


@dataclass(frozen=True)
class Day:
    """One seed under all policies."""

    seed: int
    by_policy: dict[Policy, PolicyDay]
    looks: int
    decided: int
    """Looks that led to a change."""
    prediction_error: float
    """Mean of how far predictions were off, whichever way."""

    def below(self, other: Policy) -> float:
        """How far the autopilot's cost is below another policy's, as a share of that."""
        return 1.0 - self.by_policy[Policy.AUTOPILOT].total_ms / self.by_policy[other].total_ms

    def as_json(self) -> dict[str, Any]:
        return {
            "seed": self.seed,
            "policies": {
                policy.value: {
                    "total_ms": round(day.total_ms),
                    "traffic_ms": round(day.traffic_ms),
                    "change_ms": round(day.change_ms),
                    "changes": day.changes,
                    "links_changed": day.links_changed,
                    "undone": day.undone,
                }
                for policy, day in self.by_policy.items()
            },
            "below": {
                policy.value: round(self.below(policy), 4)
                for policy in Policy
                if policy is not Policy.AUTOPILOT
            },
            "looks": self.looks,
            "decided": self.decided,
            "prediction_error": round(self.prediction_error, 4),
        }


@dataclass(frozen=True)
class Bar:
    """Something we promised, and what came of it."""

    wanted: str
    found: str
    is_met: bool


def day_settings(period_s: float, free_period_s: float) -> ControlSettings:
    """The autopilot as an operator would start it."""
    return ControlSettings(
        mode=ControlMode.AUTO, period_s=period_s, free_period_s=free_period_s, keep_records=10_000
    )


def measure_day(seed: int, setting: DaySetting, settings: ControlSettings) -> Day:
    """One day under every policy."""
    by_policy: dict[Policy, PolicyDay] = {}
    records: tuple[DecisionRecord, ...] = ()
    for policy in Policy:
        account, made = run_day(policy, setting, settings, seed)
        records = made or records
        by_policy[policy] = PolicyDay(
            total_ms=account.total_ms,
            traffic_ms=account.traffic_ms,
            change_ms=account.change_ms,
            changes=len(account.changes),
            links_changed=account.links_changed,
            undone=account.undone_within(settings.free_period_s),
        )
    errors = [abs(r.measured.prediction_error) for r in records if r.measured is not None]
    return Day(
        seed=seed,
        by_policy=by_policy,
        looks=len(records),
        decided=sum(
            r.verdict is Verdict.CHANGE and r.state is DecisionState.DEPLOYED for r in records
        ),
        prediction_error=mean(errors) if errors else 0.0,
    )


def measure_days(
    seeds: Sequence[int], setting: DaySetting, settings: ControlSettings, jobs: int
) -> Iterator[Day]:
    """The days as they are done."""
    run = partial(measure_day, setting=setting, settings=settings)
    if jobs == 1 or len(seeds) == 1:
        yield from map(run, seeds)
        return
    # Not forked: the planner's children and numba's threads do not survive that everywhere.
    with multiprocessing.get_context("spawn").Pool(min(jobs, len(seeds))) as pool:
        yield from pool.imap_unordered(run, seeds)


def bars(days: Sequence[Day], settings: ControlSettings) -> list[Bar]:
    """What issue 7 asks for; each of the worst day, not of the mean."""
    static = [day.below(Policy.STATIC) for day in days]
    follow = [day.below(Policy.FOLLOW) for day in days]
    undone = sum(day.by_policy[Policy.AUTOPILOT].undone for day in days)
    changes = max(day.by_policy[Policy.AUTOPILOT].changes for day in days)
    most = int(FREE_PERIODS_PER_DAY // settings.free_period_s)
    return [
        Bar(
            f"total cost at least {SAVING_MIN:.0%} below the static tree's",
            f"{min(static):.1%} to {max(static):.1%}, mean {mean(static):.1%}",
            min(static) >= SAVING_MIN,
        ),
        Bar(
            "total cost below always following the best tree at once",
            f"{min(follow):.1%} to {max(follow):.1%} below, mean {mean(follow):.1%}",
            min(follow) > 0.0,
        ),
        Bar("no link changed back within a free period", f"{undone} were", undone == 0),
        Bar(
            f"at most {most} changes a day (one per free period)",
            f"{changes} on the busiest day",
            changes <= most,
        ),
    ]
