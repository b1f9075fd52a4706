"""What the loop knows at one look, and whether it is enough to act on.

An `Evidence` is a profile in the terms of design: traffic, prices, the topology that the store
names, and what the profile says about its own worth. From which files or simulation it comes is
not known here. Never acts on what `shortcomings` names anything for.

From a profile: the topology is the store's, which knows what the overlay looks like now. What a
price was not measured for comes from options, as in `design.tree.profile_inputs`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from pubweave.control.settings import EvidenceDemands
from pubweave.design.tree.cost import TreeCost, tree_cost
from pubweave.design.tree.profile_inputs import prices_of, traffic_of, validate_choice
from pubweave.design.tree.traffic import DesignError, Floats, Prices, Traffic
from pubweave.model.decisions import DecisionInputs
from pubweave.model.files.plan import topology_hash
from pubweave.model.ids import BrokerId, natural_order
from pubweave.model.profile import ProfileDescription
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


SILENT_S = 30.0
"""A broker whose last record is so much older than the newest of all has fallen silent."""


class Profile(Protocol):
    """What a `WorkloadProfile` offers."""

    description: ProfileDescription

    def table(self, name: str) -> Any: ...

    def rows(self, name: str) -> list[dict[str, Any]]: ...


def evidence_of(
    profile: Profile,
    topology: Topology,
    *,
    matrix_ms: Floats | None = None,
    mesh: Topology | None = None,
    assumed_ms: float | None = None,
) -> Evidence:
    """What a profile tells about an overlay; DesignError if it cannot be about this one."""
    gaps = profile.rows("telemetry_gaps")
    published = [row for row in gaps if row["table"] == "publications" and row["records"]]
    if not published:
        raise DesignError("nothing was published in the profile's window")
    traffic = traffic_of(profile, topology.brokers)
    prices = prices_of(profile, topology, matrix_ms=matrix_ms, mesh=mesh, assumed_ms=assumed_ms)
    validate_choice(prices, topology)
    started_at = min(row["first_at"] for row in published)
    ended_at = max(row["last_at"] for row in published)
    cost = next(iter(profile.rows("overlay_cost")), None)
    return Evidence(
        profile_id=f"{profile.description.run}@{started_at:.0f}-{ended_at:.0f}",
        window_started_at=started_at,
        window_ended_at=ended_at,
        topology=topology,
        traffic=traffic,
        prices=prices,
        soundness=_soundness(profile, topology, gaps),
        entries={
            row["broker"]: float(row["subscriptions"])
            for row in profile.rows("broker_subscriptions")
        },
        measured_ms_per_notification=(
            cost["cost_ms"] / cost["weight"] if cost is not None and cost["weight"] else None
        ),
        latency_ms_mean=_mean_latency(profile),
    )


def _soundness(profile: Profile, topology: Topology, gaps: list[dict[str, Any]]) -> Soundness:
    sources = profile.description.sources.values()
    audit = next(iter(profile.rows("audit")), {})
    return Soundness(
        records=sum(source.records for source in sources),
        quarantined=sum(source.quarantined for source in sources),
        missing=sum(source.missing for source in sources),
        lost=int(audit.get("lost", 0)),
        duplicated=int(audit.get("duplicated", 0)),
        unexpected=int(audit.get("unexpected", 0)),
        unproven=int(audit.get("unproven", 0)),
        silent_brokers=_silent(topology, gaps),
    )


def _silent(topology: Topology, gaps: list[dict[str, Any]]) -> tuple[BrokerId, ...]:
    last_at: dict[BrokerId, float] = {}
    for row in gaps:
        if row["records"]:
            last_at[row["broker"]] = max(row["last_at"], last_at.get(row["broker"], row["last_at"]))
    newest = max(last_at.values(), default=0.0)
    return tuple(
        broker
        for broker in sorted(topology.brokers, key=natural_order)
        if last_at.get(broker, float("-inf")) < newest - SILENT_S
    )


def _mean_latency(profile: Profile) -> float | None:
    rows = profile.rows("latency")
    deliveries = sum(row["deliveries"] for row in rows)
    if not deliveries:
        return None
    return float(sum(row["deliveries"] * row["latency_ms_mean"] for row in rows) / deliveries)
