"""The pipeline at scale: a full profile by Spark, and the same by DuckDB, in one run.

``python -m benchmarks.bench_pipeline --records 5e6 20e6 50e6``. Telemetry is made once per size and
kept in the work folder. Each engine runs in a process of its own, so that peak memory is its own;
starting Spark is not counted, and told apart. Both read the same files and write Parquet.
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
from pathlib import Path
from typing import Any

from benchmarks.pipeline_records import Workload, write_telemetry
from pubweave.pipeline.settings import ProfileSettings

SETTINGS = ProfileSettings()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=float, nargs="+", default=[1e6])
    parser.add_argument("--work", type=Path, help="where telemetry and profiles go; kept")
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--memory", default="6g")
    parser.add_argument("--engine", choices=("spark", "duckdb"), help="only one of them")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        engine = {"spark": spark_figures, "duckdb": duckdb_figures}[options.engine]
        print(json.dumps(engine(options.child, options.threads, options.memory)))
        return 0
    results = run(options)
    if options.json is not None:
        options.json.write_text(json.dumps(results, indent=2) + "\n")
    return 0


def run(options: argparse.Namespace) -> list[dict[str, Any]]:
    with tempfile.TemporaryDirectory() as scratch:
        work = options.work or Path(scratch)
        results = []
        for records in options.records:
            folder = work / f"{int(records)}"
            if not (folder / "telemetry" / "run.json").exists():
                write_telemetry(folder / "telemetry", Workload(int(records)))
            result: dict[str, Any] = {"records": int(records)}
            for engine in [options.engine] if options.engine else ["duckdb", "spark"]:
                result[engine] = _child(engine, folder, options)
            results.append(result)
            _print(result)
    return results


def _child(engine: str, folder: Path, options: argparse.Namespace) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.bench_pipeline", "--child", str(folder), "--engine",
         engine, "--threads", str(options.threads), "--memory", options.memory],
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    told: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return told


def spark_figures(folder: Path, threads: int, memory: str) -> dict[str, Any]:
    from pubweave.model.profile_files import WorkloadProfile
    from pubweave.pipeline.jobs.profile import run_profile
    from pubweave.pipeline.session import spark_session

    started = time.monotonic()
    spark = spark_session(f"local[{threads}]", memory=memory, log=folder / "spark.log")
    spark.range(1).count()
    start_s = time.monotonic() - started
    started = time.monotonic()
    about = run_profile(
        spark, str(folder / "telemetry"), str(folder / "spark"), SETTINGS, time.time()
    )
    seconds = time.monotonic() - started
    process = int(spark.sparkContext._jvm.java.lang.ProcessHandle.current().pid())  # type: ignore[union-attr]
    peak = _peak_mb(process)
    spark.stop()
    profile = WorkloadProfile(folder / "spark")
    [cost], [audit] = profile.rows("overlay_cost"), profile.rows("audit")
    return {
        "start_s": start_s,
        "seconds": seconds,
        "peak_mb": peak,
        "stages": about.stage_seconds,
        "figures": {
            "cost_ms": cost["cost_ms"],
            "relay_overhead": cost["relay_overhead"],
            "due": audit["due"],
            "wrong": audit["lost"] + audit["unexpected"] + audit["duplicated"],
            "common_interest": sum(r["notifications"] for r in profile.rows("common_interest")),
            "trees": about.tables["delivery_trees"].rows,
        },
    }


def duckdb_figures(folder: Path, threads: int, memory: str) -> dict[str, Any]:
    from benchmarks.pipeline_duckdb import run_duckdb

    with tempfile.TemporaryDirectory(dir=folder) as output:
        started = time.monotonic()
        stages, figures = run_duckdb(
            folder / "telemetry", Path(output), SETTINGS, threads, memory.upper() + "B"
        )
        seconds = time.monotonic() - started
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    return {"seconds": seconds, "peak_mb": peak, "stages": stages,
            "figures": {k: float(v) for k, v in figures.items()}}  # fmt: skip


def _peak_mb(process: int) -> int:
    for line in Path(f"/proc/{process}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) // 1024
    return 0


def _print(result: dict[str, Any]) -> None:
    print(f"{result['records']:,} records")
    for engine in ("duckdb", "spark"):
        if engine in result:
            told = result[engine]
            print(f"  {engine:7} {told['seconds']:8.1f} s  {told['peak_mb']:6,} MB peak")
            worst = sorted(told["stages"].items(), key=lambda stage: -stage[1])[:6]
            print("          " + ", ".join(f"{name} {spent:.1f}" for name, spent in worst))
    if "duckdb" in result and "spark" in result:
        ratio = result["spark"]["seconds"] / result["duckdb"]["seconds"]
        print(f"  Spark / DuckDB {ratio:.2f} (Spark's start of "
              f"{result['spark']['start_s']:.1f} s not counted)")  # fmt: skip
        for name, value in result["duckdb"]["figures"].items():
            other = result["spark"]["figures"][name]
            same = abs(value - other) <= 1e-6 * max(1.0, abs(value))
            print(f"  {name:16} {'same' if same else f'DIFFERENT: {value} and {other}'}")


if __name__ == "__main__":
    sys.exit(main())
