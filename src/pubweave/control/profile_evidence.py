"""From a workload profile to evidence: what its tables say, and how far they can be trusted.

The profile is opened elsewhere; the topology is the store's, which knows what the overlay looks
like now. What a price was not measured for comes from options, as in `design.tree.profile_inputs`.
"""

from __future__ import annotations

from typing import Any, Protocol

from pubweave.control.evidence import Evidence, Soundness
from pubweave.design.tree.profile_inputs import prices_of, traffic_of, validate_choice
from pubweave.design.tree.traffic import DesignError, Floats
from pubweave.model.ids import BrokerId, natural_order
from pubweave.model.profile.profile import ProfileDescription
from pubweave.model.topology import Topology

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
