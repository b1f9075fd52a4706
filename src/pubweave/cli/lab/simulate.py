"""`pubweave simulate`: run a scenario for many seeds in virtual time and check every run."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import click
import numpy as np

from pubweave.cli.errors import BadInput
from pubweave.cli.kinds import COUNT, COUNT_OR_ZERO, DIRECTORY, EXISTING_FILE
from pubweave.cli.output import progress_bar, remark
from pubweave.drivers.scenarios import DRIVEN
from pubweave.generate.topologies.latencies import Matrix, assign_latencies, read_rtt_matrix
from pubweave.generate.topologies.trees import chain
from pubweave.runtime.net.signals import interrupted_by_signals
from pubweave.runtime.settings.tree import Durability
from pubweave.sim.kernel.marks import MARKS
from pubweave.sim.kernel.rare_faults import RARE
from pubweave.sim.kernel.results import RunResult
from pubweave.sim.kernel.trace import Trace
from pubweave.sim.scenarios.scenario import Scenario
from pubweave.sim.simulate import find_scenario, run_seed, scenario_names
from pubweave.sim.simulate import simulate as run_scenario

SHOWN = 5
DELIVERIES = ("wanted", "due", "excused", "counted")
"""What came of the deliveries to native clients, in words of `sim.checkers.delivery`."""


def _list_scenarios(ctx: click.Context, _: click.Parameter, is_wanted: bool) -> None:
    """Print what can be simulated, and what of other packages cannot, and end."""
    if not is_wanted or ctx.resilient_parsing:
        return
    for name in scenario_names():
        try:
            about = find_scenario(name).about
        except ValueError as error:
            about = str(error)
        click.echo(f"{name:12}{about}")
    for name, driven in DRIVEN.items():
        click.echo(f"{name:12}--drivers: {driven.about}")
    ctx.exit()


def _found(name: str, *, with_drivers: bool) -> Scenario:
    if with_drivers:
        if name not in DRIVEN:
            raise click.UsageError(f"--drivers is there for {' and '.join(DRIVEN)}")
        return DRIVEN[name]
    try:
        return find_scenario(name)
    except ValueError as error:
        raise click.UsageError(str(error)) from error


@click.command()
@click.argument("scenario")
@click.option(
    "--list",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_list_scenarios,
    help="List the scenarios, also those that installed packages add.",
)
@click.option("--seeds", type=COUNT, default=100, help="How many runs.")
@click.option(
    "--first-seed",
    type=COUNT_OR_ZERO,
    default=0,
    help="The seed of the first run; the others follow.",
)
@click.option("--seed", type=COUNT_OR_ZERO, help="Run just this one seed.")
@click.option("--trace", is_flag=True, help="Print everything that happens (with --seed).")
@click.option(
    "--telemetry", type=DIRECTORY, help="Also write the telemetry of the runs to this folder."
)
@click.option("--max-brokers", type=COUNT, help="The largest overlay; each scenario has a default.")
@click.option(
    "--fault",
    metavar="KIND",
    help="What fails in all runs, not a random choice: of all scenarios but autopilot also "
    f"{', '.join(RARE)}, beside what usually does.",
)
@click.option(
    "--durability",
    type=click.Choice(get_args(Durability)),
    default="memory",
    help="With 'journal' brokers crash in every run and their disks fail, and nothing "
    "acknowledged may be lost (not autopilot, hybrid, placement).",
)
@click.option(
    "--strategy",
    metavar="NAME",
    help="How brokers route: any strategy for trees (routing), or mqtt's tree, "
    "topic_connected and rendezvous.",
)
@click.option(
    "--pause",
    "pause_s",
    type=(click.FloatRange(min=0), click.FloatRange(min=0)),
    metavar="LOW HIGH",
    help="Also stop a broker for LOW to HIGH seconds, up to "
    "three times per run, as with SIGSTOP and SIGCONT (not autopilot).",
)
@click.option(
    "--drivers",
    "with_drivers",
    is_flag=True,
    help="Run the drivers, too: client library, connections, broker hosts and MQTT listeners on "
    "a virtual event loop (routing and mqtt).",
)
@click.option(
    "--rtt", type=EXISTING_FILE, help="Take link latencies from a matrix of round-trip times."
)
@click.option(
    "--jobs",
    type=COUNT,
    default=os.cpu_count() or 1,
    show_default="processors",
    help="Runs at the same time.",
)
@click.option("--marks", is_flag=True, help="List the marked rare branches, and who reached them.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def simulate(
    scenario: str,
    seeds: int,
    first_seed: int,
    seed: int | None,
    trace: bool,
    telemetry: Path | None,
    jobs: int,
    marks: bool,
    as_json: bool,
    with_drivers: bool,
    **given: Any,
) -> None:
    """Run SCENARIO in virtual time, once per seed, and check every run.

    Exits with 0 only if nothing was violated. The same seed gives the same run, byte for byte.

    \b
    Examples:
      pubweave simulate routing --seeds 1000
      pubweave simulate routing --seed 17 --trace
      pubweave simulate transform --seeds 2000
      pubweave simulate autopilot --seeds 200
      pubweave simulate churn --seeds 1000
      pubweave simulate rendezvous --seeds 1000
      pubweave simulate mqtt --seeds 200 --durability journal
      pubweave simulate mqtt --seeds 200 --strategy topic_connected
      pubweave simulate transform --seeds 1000 --durability journal
      pubweave simulate routing --seeds 300 --pause 35 60
      pubweave simulate churn --seeds 300 --fault sites_away --marks
      pubweave simulate routing --seeds 300 --strategy tree_covering
      pubweave simulate routing --seeds 300 --drivers
      pubweave simulate --list
    """
    found = _found(scenario, with_drivers=with_drivers)
    options = {name: value for name, value in given.items() if value is not None}
    try:
        found.check(options)
    except ValueError as error:
        raise click.UsageError(f"{scenario}: {error}") from error
    if "rtt" in options:
        options["rtt"] = _read_rtt(options["rtt"], options.get("max_brokers", found.max_brokers))
    again = _options_in_words(given) + " --drivers" * with_drivers
    chosen = found if with_drivers else scenario
    if trace:
        if seed is None:
            raise click.UsageError("--trace shows one run: name it with --seed N")
        result = run_seed(chosen, seed, trace=Trace(sys.stdout), telemetry=telemetry, **options)
        _report(found, [result], 1, 0.0, again, options, as_json=as_json, lists_marks=marks)
        return
    wanted = range(seed, seed + 1) if seed is not None else range(first_seed, first_seed + seeds)
    started = time.monotonic()
    with progress_bar(f"simulating {scenario}", len(wanted)) as bar, interrupted_by_signals():
        done = 0

        def progress(result: RunResult) -> None:
            nonlocal done
            done += 1
            bar.to(done)
            if result.violations:
                remark(f"seed {result.seed}: {result.violations[0]}")

        results = run_scenario(
            chosen, wanted, jobs=jobs, telemetry=telemetry, progress=progress, **options
        )
    if len(results) < len(wanted):
        remark(f"stopped after {len(results)} of {len(wanted)} runs")
    took_s = time.monotonic() - started
    _report(found, results, len(wanted), took_s, again, options, as_json=as_json, lists_marks=marks)


def _read_rtt(path: Path, max_brokers: int) -> Matrix:
    """The matrix in a file, if it is good for every tree; BadInput names the file and the fix."""
    try:
        matrix = read_rtt_matrix(path)
    except ValueError as error:
        raise BadInput(f"--rtt {error}; give a square CSV of round-trip times in ms") from error
    if len(matrix) < max_brokers:
        raise BadInput(
            f"--rtt {path}: {len(matrix)} rows are too few for {max_brokers} brokers: "
            f"give a larger matrix, or --max-brokers {len(matrix)}"
        )
    try:
        assign_latencies(chain(max_brokers), matrix, np.random.default_rng(0))
    except ValueError as error:
        raise BadInput(f"--rtt {path}: {error}; give one that has some") from error
    return matrix


def _options_in_words(given: dict[str, Any]) -> str:
    """The options that change a run, as one writes them, each with a space before it."""
    low_high = "" if given["pause_s"] is None else "{:g} {:g}".format(*given["pause_s"])
    written = {
        "max-brokers": given["max_brokers"],
        **{name: given[name] for name in ("fault", "durability", "strategy")},
        "pause": low_high,
        "rtt": None if given["rtt"] is None else shlex.quote(str(given["rtt"])),
    }
    plain = (None, "", "memory")
    return "".join(f" --{name} {value}" for name, value in written.items() if value not in plain)


def _report(
    scenario: Scenario,
    results: list[RunResult],
    wanted: int,
    seconds: float,
    again: str,
    options: Mapping[str, Any],
    *,
    as_json: bool,
    lists_marks: bool,
) -> None:
    """Print the outcome and leave with its exit code."""
    failed = sorted((r for r in results if r.violations), key=lambda r: r.seed)
    totals: Counter[str] = Counter()
    marks: Counter[str] = Counter()
    for result in results:
        totals.update(result.counts)
        marks.update(result.marks.keys())
    exceeded = scenario.exceeded(
        totals, len(results), options["durability"], options.get("strategy")
    )
    if as_json:
        document = {
            "scenario": results[0].scenario if results else None,
            "wanted": wanted,
            "runs": len(results),
            "failed_runs": len(failed),
            "violations": sum(len(result.violations) for result in failed),
            "counts": dict(sorted(totals.items())),
            "deliveries": {name: totals[name] for name in DELIVERIES if name in totals},
            "exceeded": exceeded,
            "marks": {name: marks[name] for name in MARKS},
            "measures": _measures(results),
            "seconds": round(seconds, 2),
            "failed": [result.to_json() for result in failed],
            "trace_digest": results[0].trace_digest if len(results) == 1 else None,
        }
        click.echo(json.dumps(document))
    else:
        _print(results, failed, totals, seconds, again)
        _print_marks(marks, is_long=lists_marks)
        if exceeded:
            click.echo(f"bound exceeded: {exceeded}")
    if failed or exceeded or len(results) < wanted:
        sys.exit(1)


def _print_marks(marks: Counter[str], *, is_long: bool) -> None:
    """How many runs have reached each rare branch that is marked."""
    if is_long:
        for name, meaning in sorted(MARKS.items(), key=lambda mark: -marks[mark[0]]):
            click.echo(f"{marks[name]:6} {name:30} {meaning}")
    click.echo(f"marks: {len(marks)} of {len(MARKS)} rare branches reached")


def _measures(results: list[RunResult]) -> dict[str, dict[str, float]]:
    """Of each measure, the median and the largest over the runs that nothing disturbed."""
    values: dict[str, list[float]] = {}
    for result in results:
        if result.setting.get("fault") != "none":
            continue
        for name, value in result.measures.items():
            values.setdefault(name, []).append(value)
    return {
        name: {"runs": len(found), "median": float(np.median(found)), "max": max(found)}
        for name, found in sorted(values.items())
    }


def _print(
    results: list[RunResult],
    failed: list[RunResult],
    totals: Counter[str],
    seconds: float,
    again: str,
) -> None:
    for result in failed[:SHOWN]:
        click.echo(f"seed {result.seed} {result.setting}")
        for violation in result.violations[:SHOWN]:
            click.echo(f"  {violation}")
        command = f"pubweave simulate {result.scenario} --seed {result.seed}{again} --trace"
        click.echo(f"  again: {command}")
    if len(failed) > SHOWN:
        click.echo(f"... and {len(failed) - SHOWN} more failed runs")
    counted = ", ".join(f"{name} {count:,}" for name, count in totals.items())
    click.echo(f"{len(results)} runs, {len(failed)} failed, {seconds:.1f} s")
    click.echo(counted)
    if wanted := totals["wanted"]:
        shares = (f"{name} {totals[name]:,} ({totals[name] / wanted:.2%})" for name in DELIVERIES)
        click.echo(f"deliveries: {', '.join(shares)}")
    for name, measure in _measures(results).items():
        click.echo(
            f"{name}: median {measure['median']:,.4g}, max {measure['max']:,.4g} "
            f"({measure['runs']} runs without faults)"
        )
