"""What the loop knows at one look, and whether it is enough to act on.

An `Evidence` is a profile in the terms of design: traffic, prices, the topology that the store
names, and what the profile says about its own worth. From which files or simulation it comes is
not known here. Never acts on what `shortcomings` names anything for.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pubweave.control.settings import EvidenceDemands
from pubweave.design.tree.cost import TreeCost, tree_cost
from pubweave.design.tree.prices import Prices
from pubweave.design.tree.traffic import Traffic
from pubweave.model.decisions import DecisionInputs
from pubweave.model.files.plan import topology_hash
from pubweave.model.ids import BrokerId
from pubweave.model.topology import Topology

_NAMED_AT_MOST = 5


@dataclass(frozen=True)
class Soundness:
    """What a profile says about itself."""

    records: int = 0
    quarantined: int = 0
    missing: int = 0
    """Records that were dropped before they reached a file."""
    lost: int = 0
    duplicated: int = 0
    unexpected: int = 0
    unproven: int = 0
    silent_brokers: tuple[BrokerId, ...] = ()
    """Brokers of the overlay that told nothing in the window."""

    @property
    def quarantine_share(self) -> float:
        return self.quarantined / max(1, self.records + self.quarantined)

    @property
    def missing_share(self) -> float:
        return self.missing / max(1, self.records + self.missing)


@dataclass(frozen=True, eq=False)
class Evidence:
    """A look at the overlay."""

    profile_id: str
    window_started_at: float
    window_ended_at: float
    topology: Topology
    traffic: Traffic
    prices: Prices
    soundness: Soundness = field(default_factory=Soundness)
    entries: Mapping[BrokerId, float] = field(default_factory=dict)
    """Subscriptions and advertisements of each broker's clients: the state that shifts move."""
    measured_ms_per_notification: float | None = None
    """What the delivery trees really cost; None: take the model's word."""
    latency_ms_mean: float | None = None

    @property
    def window_s(self) -> float:
        return self.window_ended_at - self.window_started_at

    @property
    def notifications_per_s(self) -> float:
        return self.traffic.notifications / self.window_s if self.window_s > 0 else 0.0

    def cost_of(self, topology: Topology) -> TreeCost:
        """cost(N, T) of the window's traffic on a tree."""
        return tree_cost(self.traffic, self.prices, topology)

    def inputs(self, gaps: tuple[str, ...]) -> DecisionInputs:
        """What a decision's record keeps of this."""
        cost = self.cost_of(self.topology)
        per_notification = self.measured_ms_per_notification
        return DecisionInputs(
            profile_id=self.profile_id,
            window_started_at=self.window_started_at,
            window_ended_at=self.window_ended_at,
            topology_hash=topology_hash(self.topology),
            notifications_per_s=self.notifications_per_s,
            cost_ms_per_s=cost.total / self.window_s if self.window_s > 0 else 0.0,
            cost_ms_per_notification=(
                cost.per_notification if per_notification is None else per_notification
            ),
            latency_ms_mean=self.latency_ms_mean,
            quarantine_share=self.soundness.quarantine_share,
            gaps=gaps,
        )


def shortcomings(evidence: Evidence, demands: EvidenceDemands, now: float) -> tuple[str, ...]:
    """Why nothing should be decided by this evidence, in words; empty if it is good enough."""
    sound = evidence.soundness
    silent = ", ".join(sound.silent_brokers[:_NAMED_AT_MOST])
    if len(sound.silent_brokers) > _NAMED_AT_MOST:
        silent += f" and {len(sound.silent_brokers) - _NAMED_AT_MOST} more"
    checks = (
        (
            evidence.window_s < demands.window_s,
            f"the window is {evidence.window_s:.0f} s long, {demands.window_s:.0f} s are needed",
        ),
        (
            now - evidence.window_ended_at > demands.age_s,
            f"the window ended {now - evidence.window_ended_at:.0f} s ago",
        ),
        (
            evidence.traffic.notifications < demands.notifications,
            f"{evidence.traffic.notifications:.0f} notifications were seen, "
            f"{demands.notifications} are needed",
        ),
        (bool(silent), f"nothing was heard of {silent}"),
        (
            sound.quarantine_share > demands.quarantine_share,
            f"{sound.quarantine_share:.1%} of the records are in quarantine",
        ),
        (
            sound.missing_share > demands.missing_share,
            f"{sound.missing_share:.1%} of the records were dropped",
        ),
        (
            bool(sound.lost or sound.duplicated or sound.unexpected),
            f"the audit is not clean: {sound.lost} lost, {sound.duplicated} duplicated, "
            f"{sound.unexpected} unexpected",
        ),
    )
    return tuple(words for is_so, words in checks if is_so)
