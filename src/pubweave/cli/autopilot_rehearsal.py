"""A decision's plan in simulation, on the traffic of its own window, before it is carried out.

The same rehearsal as ``pubweave apply --dry-run``. What goes wrong there is not tried in earnest;
where nothing can be rehearsed (no record of traffic, another overlay by now) nothing is said.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from pubweave.model.decisions import DecisionRecord
from pubweave.model.plan_files import PlanRecord, topology_hash
from pubweave.model.topology import Topology


@dataclass(frozen=True)
class Rehearsed:
    """How it went: ``problem`` is empty if all was well."""

    words: str
    problem: str = ""


async def rehearsed(record: DecisionRecord, topology: Topology, traffic: Path) -> Rehearsed | None:
    """A rehearsal in a thread; None if there is nothing to rehearse."""
    planned = record.plan_record()
    if planned.source_hash != topology_hash(topology):
        return None
    return await asyncio.to_thread(_rehearse, planned, topology, traffic)


def _rehearse(planned: PlanRecord, topology: Topology, traffic: Path) -> Rehearsed | None:
    from pubweave.sim.rehearsal import Rehearsal
    from pubweave.telemetry.traffic_reader import read_traffic

    if not traffic.is_dir():
        return None
    result = Rehearsal(topology, planned.plan, read_traffic(traffic)).run()
    if result.violations:
        first = result.violations[0]
        return Rehearsed("", f"the rehearsal went wrong, so it is not tried in earnest: {first}")
    measures, counts = result.measures, result.counts
    return Rehearsed(
        f"rehearsed in simulation: {measures['plan_s']:.1f} s, {counts['held_publications']} "
        f"publications wait, at most {measures['hold_ms_max']:.0f} ms; "
        f"{counts['deliveries']:,} of {counts['due']:,} deliveries arrive"
    )
