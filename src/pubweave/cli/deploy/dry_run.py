"""``pubweave apply --dry-run``: the plan in simulation, on the traffic that was recorded."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pubweave.cli.deploy.plan_view import plan_in_words, print_plan
from pubweave.cli.errors import FAILED
from pubweave.cli.output import print_json, remark
from pubweave.model.files.plan import PlanRecord, plan_id
from pubweave.model.records.recorded_traffic import RecordedTraffic
from pubweave.model.topology import Topology

if TYPE_CHECKING:
    from pubweave.sim.kernel.results import RunResult


def rehearse(record: PlanRecord, current: Topology, traffic_dir: Path, as_json: bool) -> int:
    """Carry the plan out in simulation and tell what it cost; the exit code."""
    from pubweave.sim.whatif.rehearsal import Rehearsal

    traffic = _recorded(traffic_dir)
    if not as_json and not traffic.publications:
        remark(f"no traffic is recorded in {traffic_dir}: this is the plan on an idle overlay")
    result = Rehearsal(current, record.plan, traffic).run()
    if as_json:
        print_json(_document(record, traffic, result))
    else:
        _print(record, traffic, result)
    return FAILED if result.violations else 0


def _recorded(directory: Path) -> RecordedTraffic:
    if not directory.is_dir():
        return RecordedTraffic()
    from pubweave.telemetry.recorded_traffic import read_traffic

    return read_traffic(directory)


def _document(record: PlanRecord, traffic: RecordedTraffic, result: RunResult) -> dict[str, Any]:
    return {
        "event": "dry_run",
        "plan_id": plan_id(record),
        "fits": True,
        "steps": [[str(action) for action in step] for step in record.plan.steps],
        "clients": len(traffic.clients),
        "publications_per_s": round(traffic.rate_per_s, 2),
        "actions_done": result.counts["actions_committed"],
        "publications": result.counts["publications"],
        "deliveries": result.counts["deliveries"],
        "deliveries_due": result.counts["due"],
        "held_publications": result.counts["held_publications"],
        **result.measures,
        "violations": list(result.violations),
    }


def _print(record: PlanRecord, traffic: RecordedTraffic, result: RunResult) -> None:
    print_plan(record.plan)
    click.echo(f"{plan_in_words(record.plan)}; it fits the overlay, and nothing was changed")
    measures, counts = result.measures, result.counts
    click.echo(
        f"in simulation, with {len(traffic.clients)} recorded clients and "
        f"{traffic.rate_per_s:.1f} publications/s: {measures['plan_s']:.2f} s; "
        f"{counts['held_publications']} publications wait, at most {measures['hold_ms_max']:.0f} ms"
    )
    if counts["deliveries"]:
        click.echo(
            f"99% of the deliveries meanwhile take at most {measures['affected_ms_p99']:.0f} ms "
            f"where the plan affects them ({measures['affected_share']:.0%} of all), "
            f"{measures['unaffected_ms_p99']:.0f} ms elsewhere; "
            f"{counts['deliveries']:,} of {counts['due']:,} arrive"
        )
    for violation in result.violations[:5]:
        click.echo(f"  {violation}")
