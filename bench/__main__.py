"""Runs the benchmarks: ``python -m bench [--only NAME] [--json FILE]`` (or ``make bench``)."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench import (
    bench_chord,
    bench_design,
    bench_dynatops,
    bench_matching,
    bench_mqtt,
    bench_pipeline,
    bench_relocation,
    bench_relocation_cost,
    bench_sockets,
    bench_sockets_table,
    bench_tco,
)

BENCHMARKS: Mapping[str, Callable[[], dict[str, Any]]] = {
    "chord": bench_chord.run,
    "design": bench_design.run,
    "dynatops": bench_dynatops.run,
    "matching": bench_matching.run,
    "mqtt": bench_mqtt.run,
    "pipeline": bench_pipeline.run,
    "relocation": bench_relocation.run,
    "relocation-cost": bench_relocation_cost.run,
    "sockets": bench_sockets.run,
    "tco": bench_tco.run,
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument("--only", choices=sorted(BENCHMARKS), help="run just this benchmark")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures here")
    parser.add_argument("--records", type=float, nargs="+", metavar="N",
                        help="pipeline: so many telemetry records, one run each")  # fmt: skip
    parser.add_argument("--work", type=Path, metavar="DIR",
                        help="pipeline: keep telemetry and profiles here")  # fmt: skip
    options = parser.parse_args()
    names = [options.only] if options.only else list(BENCHMARKS)
    figures: dict[str, Any] = {"machine": machine()}
    print(_machine_line(figures["machine"]))
    for name in names:
        print(f"\n== {name}", flush=True)
        figures[name] = _run(name, options)
        _print(name, figures[name])
    if options.json is not None:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(figures, indent=2) + "\n")
        print(f"\nall figures: {options.json}")
    return 0


def _run(name: str, options: argparse.Namespace) -> dict[str, Any]:
    if name == "pipeline" and options.records:
        return bench_pipeline.run([int(count) for count in options.records], options.work)
    return BENCHMARKS[name]()


def machine() -> dict[str, Any]:
    """What the figures depend on besides the code."""
    cpu = next(
        (
            line.partition(":")[2].strip()
            for line in Path("/proc/cpuinfo").read_text().splitlines()
            if line.startswith("model name")
        ),
        platform.processor(),
    )
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "cpu": cpu,
        "cores": os.cpu_count(),
        "kernel": platform.release(),
        "python": platform.python_version(),
        "load_average_before": os.getloadavg()[0],
    }


def _machine_line(about: Mapping[str, Any]) -> str:
    return (
        f"{about['cores']} cores of {about['cpu']}, Linux {about['kernel']}, "
        f"Python {about['python']}, load before {about['load_average_before']:.2f}"
    )


def _print(name: str, result: Mapping[str, Any]) -> None:
    if name == "sockets":
        print("\n".join(bench_sockets_table.lines(result)))
    elif name == "mqtt":
        bench_mqtt.print_table(result)
    else:
        _print_figures(result, "")


def _print_figures(result: Mapping[str, Any], indent: str) -> None:
    for key, value in result.items():
        if isinstance(value, Mapping):
            print(f"{indent}{key}")
            _print_figures(value, indent + "  ")
        else:
            shown = f"{value:,.2f}" if isinstance(value, float) else f"{value}"
            print(f"{indent + key:30s}{shown:>14s}")


if __name__ == "__main__":
    sys.exit(main())
