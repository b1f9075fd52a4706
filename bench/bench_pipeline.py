"""The pipeline at scale: a full profile by Spark, and the same by DuckDB, in one run.

``python -m bench --only pipeline --records 5e6 50e6``. Each engine runs in a process of its
own, so that peak memory is its own; starting Spark is not counted, and told apart. Both read the
same files, write Parquet, and their tables are compared.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.pipeline_compare import differences
from bench.pipeline_duckdb import run_duckdb
from bench.pipeline_overlay import Workload
from bench.pipeline_records import write_telemetry
from pubweave.model.files.profile import WorkloadProfile
from pubweave.pipeline.frames.settings import ProfileSettings

RATIO_MAX = 5.0
MEMORY = "6g"


def run(
    records: Sequence[int] = (1_000_000,), work: Path | None = None, memory: str = MEMORY
) -> dict[str, Any]:
    """Figures by number of records; telemetry and profiles in ``work`` are kept."""
    results = {}
    with tempfile.TemporaryDirectory() as scratch:
        for count in records:
            folder = (work or Path(scratch)) / str(count)
            if not (folder / "done").exists():
                write_telemetry(folder / "telemetry", Workload(count))
                (folder / "done").touch()
            results[f"{count:,} records"] = _measure(folder, memory)
    return results


def _measure(folder: Path, memory: str) -> dict[str, Any]:
    duckdb, spark = (_child(engine, folder, memory) for engine in ("duckdb", "spark"))
    ratio = spark["seconds"] / duckdb["seconds"]
    wrong = differences(WorkloadProfile(folder / "spark"), folder / "duckdb")
    return {
        "load_average": os.getloadavg()[0],
        "duckdb": duckdb,
        "spark": spark,
        "spark / duckdb": ratio,
        "bar": f"{'met' if ratio <= RATIO_MAX else 'MISSED'} (at most {RATIO_MAX:g})",
        "tables that differ": wrong or "none",
    }


def _child(engine: str, folder: Path, memory: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "bench.bench_pipeline", engine, str(folder), memory],
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def spark_figures(folder: Path, memory: str) -> dict[str, Any]:
    from pubweave.pipeline.batch import run_profile
    from pubweave.pipeline.frames.session import spark_session
    from pubweave.pipeline.frames.small_tables import is_small

    source = str(folder / "telemetry")
    started = time.monotonic()
    spark = spark_session(memory=memory, quick=is_small(source), log=folder / "spark.log")
    spark.range(1).count()
    start_s = time.monotonic() - started
    started = time.monotonic()
    about = run_profile(spark, source, str(folder / "spark"), ProfileSettings(), time.time())
    seconds = time.monotonic() - started
    jvm = int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
    cpu_s, peak = _cpu_s(jvm), _peak_mb(jvm)
    spark.stop()
    return {
        "seconds": seconds,
        "start_s": start_s,
        "cpu_s": cpu_s + time.process_time(),
        "peak_mb": peak + _own_peak_mb(),
    } | _longest(about.stage_seconds)


def duckdb_figures(folder: Path, memory: str) -> dict[str, Any]:
    started = time.monotonic()
    output = folder / "duckdb"
    (output / "work.duckdb").unlink(missing_ok=True)
    stages = run_duckdb(folder / "telemetry", output, os.cpu_count() or 1, f"{memory}b")
    seconds = time.monotonic() - started
    (output / "work.duckdb").unlink()
    return {
        "seconds": seconds,
        "cpu_s": time.process_time(),
        "peak_mb": _own_peak_mb(),
    } | _longest(stages)


def _longest(stages: Mapping[str, float]) -> dict[str, Any]:
    """Where the time goes; stages run side by side, so they add up to more than the whole."""
    longest = sorted(stages.items(), key=lambda stage: -stage[1])[:8]
    return {"longest": {name: round(spent, 2) for name, spent in longest}}


def _own_peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def _peak_mb(process: int) -> int:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) // 1024
    return 0


def _cpu_s(process: int) -> float:
    user, system = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    """One engine on one folder, in this process: its figures as a line of JSON."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("engine", choices=("spark", "duckdb"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("memory")
    options = parser.parse_args()
    engine = {"spark": spark_figures, "duckdb": duckdb_figures}[options.engine]
    print(json.dumps(engine(options.folder, options.memory)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
