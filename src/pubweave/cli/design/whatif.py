"""``pubweave whatif``: recorded traffic on the overlay as it is and on another, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from pubweave.cli.errors import FAILED, BadInput, blaming
from pubweave.cli.kinds import DIRECTORY, FILE, POSITIVE
from pubweave.cli.options.design_inputs import price_options, profile_option, read_inputs
from pubweave.cli.output import json_option, new_table, output_console, tell
from pubweave.model.files.profile import WorkloadProfile
from pubweave.model.files.topology import read_topology
from pubweave.model.records.recorded_traffic import RecordedTraffic

SHOWN_BROKERS = 5


@click.command()
@click.argument("target", type=FILE)
@profile_option
@click.option(
    "--topology",
    "topology_file",
    type=FILE,
    help="The overlay as it is. [default: the profile's own]",
)
@click.option(
    "--traffic",
    type=DIRECTORY,
    help="The telemetry to replay. [default: what the profile was made of]",
)
@click.option("--window", type=POSITIVE, default=30.0, help="Seconds of it, the last ones.")
@price_options
@json_option
@click.pass_context
def whatif(
    ctx: click.Context,
    target: Path,
    profile_dir: Path,
    topology_file: Path | None,
    traffic: Path | None,
    window: float,
    latency: Path | None,
    assume_latency: float | None,
    as_json: bool,
) -> None:
    """Replay recorded traffic in simulation, on the overlay as it is and on TARGET.

    Both overlays run the real broker core in virtual time with the links' measured latencies;
    cost is that of the whole profile. Exit code 1 if a delivery would be lost or doubled.

    \b
    Example:
      pubweave design exact --profile profile --assume-latency 1 -o target.json
      pubweave whatif target.json --profile profile --assume-latency 1
    """
    from pubweave.sim.whatif.comparison import compare

    inputs = read_inputs(profile_dir, topology_file, latency, assume_latency)
    proposed = read_topology(target)
    recorded = _recorded(traffic, profile_dir, window)
    with blaming(str(target)):
        now, then = compare(inputs, proposed, recorded)
    sides = {"now": now.document(), "target": then.document()}
    tell({"window_s": recorded.window_s, **sides}, as_json, lambda: _print(sides, recorded))
    ctx.exit(FAILED if any(side["violations"] for side in sides.values()) else 0)


def _recorded(traffic: Path | None, profile_dir: Path, window_s: float) -> RecordedTraffic:
    from pubweave.telemetry.recorded_traffic import read_traffic

    where = traffic or Path(WorkloadProfile(profile_dir).description.source.removeprefix("file:"))
    if not where.is_dir():
        raise BadInput(
            f"the telemetry in {where}, from which the profile was made, is not here: name it "
            "with --traffic"
        )
    recorded = read_traffic(where, window_s=window_s)
    if not recorded.publications:
        raise BadInput(f"nothing was published in {where}: there is nothing to replay")
    return recorded


_ROWS = (
    ("latency, mean ms", "latency_ms_mean"),
    ("latency, median ms", "latency_ms_p50"),
    ("latency, 99% ms", "latency_ms_p99"),
    ("hops per delivery", "hops_mean"),
    ("links crossed per delivery", "crossings_per_delivery"),
    ("cost per notification, ms", "cost_ms_per_notification"),
)


def _print(sides: dict[str, dict[str, Any]], recorded: RecordedTraffic) -> None:
    now, target = sides["now"], sides["target"]
    table = new_table("", "now", "target", "change")
    for label, name in _ROWS:
        table.add_row(label, f"{now[name]:.3f}", f"{target[name]:.3f}", _change(now, target, name))
    for place, (broker, rate) in enumerate(now["busiest"]):
        other, other_rate = target["busiest"][place]
        label = "busiest brokers, publications/s" if place == 0 else ""
        table.add_row(label, f"{broker} {rate:.1f}", f"{other} {other_rate:.1f}", "")
    output_console().print(table)
    click.echo(
        f"replayed {now['publications']:,} publications of {len(recorded.clients)} clients over "
        f"{recorded.window_s:.1f} s: {now['deliveries']:,} deliveries now, "
        f"{target['deliveries']:,} on the target"
    )
    for side, looked in sides.items():
        for violation in looked["violations"][:SHOWN_BROKERS]:
            click.echo(f"{side}: {violation}")


def _change(now: dict[str, Any], target: dict[str, Any], name: str) -> str:
    return f"{target[name] / now[name] - 1.0:+.1%}" if now[name] else "-"
