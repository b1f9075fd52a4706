"""The scenarios `pubweave simulate` knows, by name, and running many seeds of one."""

from __future__ import annotations

import multiprocessing
import signal
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from pubweave.model.telemetry import Record, Records, with_matching_ms
from pubweave.sim.autopilot.scenario import AutopilotScenario
from pubweave.sim.churn.churn import ChurnScenario
from pubweave.sim.churn.hybrid import HybridScenario
from pubweave.sim.churn.placement import PlacementScenario
from pubweave.sim.churn.rendezvous import RendezvousScenario
from pubweave.sim.kernel.results import RunResult
from pubweave.sim.kernel.trace import Trace
from pubweave.sim.scenarios.mqtt import MqttScenario
from pubweave.sim.scenarios.relocate import RelocateScenario
from pubweave.sim.scenarios.reorganize import ReorganizeScenario
from pubweave.sim.scenarios.routing import RoutingScenario
from pubweave.sim.scenarios.transform import TransformScenario
from pubweave.telemetry.parquet import write_records
from pubweave.telemetry.run_description import RunClock, RunDescription, write_run_description

SCENARIOS: dict[str, Callable[..., Any]] = {
    "autopilot": AutopilotScenario,
    "churn": ChurnScenario,
    "hybrid": HybridScenario,
    "mqtt": MqttScenario,
    "placement": PlacementScenario,
    "relocate": RelocateScenario,
    "rendezvous": RendezvousScenario,
    "reorganize": ReorganizeScenario,
    "routing": RoutingScenario,
    "transform": TransformScenario,
}
"""A scenario takes a seed and the keywords ``trace`` and ``on_telemetry`` and has ``run()``."""


DURABLE = ("churn", "mqtt", "relocate", "rendezvous", "reorganize", "routing", "transform")
"""Those that can be run with journals."""


def run_seed(
    scenario: str,
    seed: int,
    *,
    trace: Trace | None = None,
    telemetry: Path | None = None,
    pause_s: tuple[float, float] | None = None,
    **options: Any,
) -> RunResult:
    """Run one seed; with ``pause_s`` brokers also stop for so long.

    An exception of the run is a violation: nothing may break the others."""
    gathered = SimTelemetry() if telemetry is not None else None
    try:
        run = SCENARIOS[scenario](
            seed,
            trace=trace,
            on_telemetry=gathered.take if gathered is not None else None,
            **options,
        )
        if pause_s is not None:
            run.faults.long_pause_s = pause_s
        result: RunResult = run.run()
    except Exception as error:
        if trace is not None:
            traceback.print_exc()
        frame = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(frame.filename).name}:{frame.lineno}"
        return RunResult(scenario, seed, (f"{type(error).__name__} at {place}: {error}",))
    if gathered is not None and telemetry is not None:
        gathered.write(telemetry, scenario, seed)
    return result


def run_seeds(
    scenario: str,
    seeds: range,
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
    scenario: str, telemetry: Path | None, options: dict[str, Any], seed: int
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
