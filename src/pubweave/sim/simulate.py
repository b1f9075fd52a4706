"""Simulating: a scenario over many seeds, each checked; and the scenarios there are, by name."""

from __future__ import annotations

import gc
import multiprocessing
import signal
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from pubweave.model.plugins import find, names
from pubweave.model.telemetry import Record, Records, with_matching_ms
from pubweave.sim.autopilot.scenario import FAULTS, AutopilotScenario
from pubweave.sim.kernel.marks import counted
from pubweave.sim.kernel.results import RunResult
from pubweave.sim.kernel.trace import Trace
from pubweave.sim.kernel.world import World
from pubweave.sim.parts.run import Options
from pubweave.sim.scenarios.mqtt import MQTT
from pubweave.sim.scenarios.scenario import Scenario, ScenarioError
from pubweave.sim.scenarios.topics import CHURN, HYBRID, PLACEMENT, RENDEZVOUS
from pubweave.sim.scenarios.trees import RELOCATE, REORGANIZE, ROUTING, TRANSFORM
from pubweave.telemetry.parquet import write_records
from pubweave.telemetry.run_description import RunClock, RunDescription, write_run_description


def _autopilot(world: World, options: Options) -> AutopilotScenario:
    return AutopilotScenario(
        world.seed,
        max_brokers=options.max_brokers,
        fault=options.fault,
        trace=options.trace,
    )


SCENARIOS = {
    "autopilot": Scenario(
        "the control loop for some hours while everything around it fails",
        _autopilot,
        max_brokers=10,
        takes=frozenset(("fault",)),
        faults=FAULTS,
    ),
    "churn": CHURN,
    "hybrid": HYBRID,
    "mqtt": MQTT,
    "placement": PLACEMENT,
    "relocate": RELOCATE,
    "rendezvous": RENDEZVOUS,
    "reorganize": REORGANIZE,
    "routing": ROUTING,
    "transform": TRANSFORM,
}
GROUP = "pubweave.scenarios"
"""Entry points of this group add scenarios: each names a `Scenario`."""
DURABLE = tuple(name for name, scenario in SCENARIOS.items() if "durability" in scenario.takes)
"""Those that can be run with journals."""
YOUNG_OBJECTS = 20_000
"""How many new objects make Python look for garbage in a run, which makes many and few cycles."""


def scenario_names() -> list[str]:
    """All scenarios: ours, and those that installed packages add."""
    return names(GROUP, SCENARIOS)


def find_scenario(name: str | Scenario) -> Scenario:
    """The scenario of a name; PluginError if there is none or it cannot be loaded."""
    if isinstance(name, Scenario):
        return name
    found = find(GROUP, SCENARIOS, name)
    if not isinstance(found, Scenario):
        raise ScenarioError(f"the entry point {name!r} of {GROUP} names no Scenario: {found!r}")
    return found


def simulate(
    scenario: str | Scenario,
    seeds: Iterable[int],
    *,
    jobs: int = 1,
    telemetry: Path | None = None,
    progress: Callable[[RunResult], None] | None = None,
    **options: Any,
) -> list[RunResult]:
    """Run a scenario once per seed, on ``jobs`` processors; ``options`` are fields of `Options`.

    ``progress`` hears of each result when it is there. Ctrl-C ends it early with the results so
    far, so there are fewer of them than seeds. ``violations`` of a result is empty exactly if
    everything held. O(seeds x the run)."""
    results: list[RunResult] = []
    try:
        for result in run_seeds(scenario, list(seeds), jobs=jobs, telemetry=telemetry, **options):
            results.append(result)
            if progress is not None:
                progress(result)
    except KeyboardInterrupt:
        pass
    return results


def run_seed(
    scenario: str | Scenario,
    seed: int,
    *,
    trace: Trace | None = None,
    telemetry: Path | None = None,
    **options: Any,
) -> RunResult:
    """Run one seed. An exception of the run is a violation: nothing may break the others."""
    gathered = SimTelemetry() if telemetry is not None else None
    take = gathered.take if gathered is not None else None
    found = find_scenario(scenario)
    try:
        with _rare_collections(), counted() as reached:
            ran = found.begin(seed, trace=trace, on_telemetry=take, **options).run()
        result: RunResult = replace(ran, marks=dict(sorted(reached.items())))
    except ScenarioError:
        raise
    except Exception as error:
        if trace is not None:
            traceback.print_exc()
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(frame.filename).name}:{frame.lineno}"
        name = scenario if isinstance(scenario, str) else scenario.about
        return RunResult(name, seed, (f"{type(error).__name__} at {place}: {error}",))
    if gathered is not None and telemetry is not None:
        gathered.write(telemetry, result.scenario, seed)
    return result


@contextmanager
def _rare_collections() -> Iterator[None]:
    young, *older = gc.get_threshold()
    gc.set_threshold(max(young, YOUNG_OBJECTS) if young else 0, *older)
    try:
        yield
    finally:
        gc.set_threshold(young, *older)


def run_seeds(
    scenario: str | Scenario,
    seeds: Sequence[int],
    *,
    jobs: int,
    telemetry: Path | None = None,
    **options: Any,
) -> Iterator[RunResult]:
    """Run many seeds on ``jobs`` processors; results come as they are done.

    With ``telemetry``, each seed writes into a folder of its own below it.
    """
    run = partial(_run_one, scenario, telemetry if len(seeds) > 1 else None, options)
    if len(seeds) == 1:
        yield run_seed(scenario, seeds[0], telemetry=telemetry, **options)
    elif jobs == 1:
        yield from map(run, seeds)
    else:
        context = multiprocessing.get_context("fork")
        with context.Pool(jobs, initializer=_leave_signals_to_the_first) as pool:
            yield from pool.imap_unordered(run, seeds, chunksize=2)


def _leave_signals_to_the_first() -> None:
    """The process that collects the results is the one to be interrupted, and ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _run_one(
    scenario: str | Scenario, telemetry: Path | None, options: dict[str, Any], seed: int
) -> RunResult:
    folder = telemetry / f"seed-{seed}" if telemetry is not None else None
    return run_seed(scenario, seed, telemetry=folder, **options)


class SimTelemetry:
    """Gathers what brokers emit; `write` puts it into files, the same bytes for the same seed."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], list[Record]] = {}

    def take(self, broker: str, records: Records, matching_s: float) -> None:
        for table, rows in records.items():
            if table in ("publications", "hops"):
                rows = with_matching_ms(rows, matching_s * 1000.0)
            self._rows.setdefault((broker, table), []).extend(rows)

    def write(self, directory: Path, scenario: str, seed: int) -> int:
        """Write all tables; the number of records."""
        write_run_description(
            directory,
            RunDescription(
                name=f"simulate {scenario}",
                clock=RunClock.VIRTUAL,
                started_at=0.0,
                sample_ratio=1.0,
                details={"seed": str(seed)},
            ),
        )
        for (broker, table), rows in sorted(self._rows.items()):
            write_records(directory, broker, 0, table, rows, unique=f"seed{seed}")
        return sum(len(rows) for rows in self._rows.values())
