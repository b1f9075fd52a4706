"""How many seeds the simulator runs in a second of one processor, by scenario and durability.

    python -m bench.bench_simulate [--seeds 20] [--only routing,churn] [--rounds 3] [--json]
    python -m bench.bench_simulate --against DIRECTORY     # the `src` of another checkout

Each case is a process of its own that imports the simulator, runs one seed to warm up, and takes
its processor time while it runs the others, so imports do not count and neither does what else the
machine does. The best round of a case counts. With ``--against`` the same cases are run with
another version of pubweave in turn, and the ratio of the two is printed: on a busy machine a ratio
says more than either figure.

Where two versions draw different numbers, the same seeds are other runs, and some are ten times as
long as others: take many. The messages that reached brokers and clients in a run do not depend
on how the simulator counts its steps, so the time per delivery is printed, too.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCENARIOS = ("routing", "transform", "reorganize", "relocate", "churn", "rendezvous", "mqtt")
DURABILITIES = ("memory", "journal")
HERE = Path(__file__).resolve().parent.parent / "src"


@dataclass(frozen=True)
class Cost:
    """What the seeds of one case took."""

    seeds: int
    deliveries: int
    processor_s: float

    @property
    def seeds_per_s(self) -> float:
        return self.seeds / self.processor_s

    @property
    def delivery_ms(self) -> float:
        return 1000.0 * self.processor_s / max(1, self.deliveries)


def run_case(scenario: str, durability: str, seeds: int) -> Cost:
    """Run seeds in this process."""
    from pubweave.sim.simulate import SCENARIOS as KNOWN
    from pubweave.sim.simulate import run_seed

    options: dict[str, Any] = {"max_brokers": KNOWN[scenario].max_brokers}
    if durability != "memory":
        options["durability"] = durability
    run_seed(scenario, seeds, **options)
    deliveries, began_s = 0, time.process_time()
    for seed in range(seeds):
        result = run_seed(scenario, seed, **options)
        deliveries += result.counts.get("deliveries", 0)
    return Cost(seeds, deliveries, time.process_time() - began_s)


def measure(sources: Path, scenario: str, durability: str, seeds: int) -> Cost:
    """The same in a process of its own, with the pubweave in ``sources``."""
    command = [sys.executable, __file__, "--case", scenario, durability, "--seeds", str(seeds)]
    environment = {**os.environ, "PYTHONPATH": str(sources)}
    done = subprocess.run(command, env=environment, check=True, capture_output=True, text=True)
    return Cost(**json.loads(done.stdout))


def compare(
    names: list[str], seeds: int, rounds: int, against: Path | None
) -> list[dict[str, Any]]:
    """The best round of each case, here and there in turn."""
    found = []
    for scenario in names:
        for durability in DURABILITIES:
            best: dict[str, Cost] = {}
            for _ in range(rounds):
                for label, sources in (("here", HERE), ("there", against)):
                    if sources is not None:
                        cost = measure(sources, scenario, durability, seeds)
                        known = best.get(label, cost)
                        best[label] = min(known, cost, key=lambda each: each.processor_s)
            found.append(row(scenario, durability, best["here"], best.get("there")))
            print(line(found[-1]), flush=True)
    return found


def row(scenario: str, durability: str, here: Cost, there: Cost | None) -> dict[str, Any]:
    figures = {
        "scenario": scenario,
        "durability": durability,
        "seeds_per_s": here.seeds_per_s,
        "delivery_ms": here.delivery_ms,
    }
    if there is not None:
        figures |= {
            "before_seeds_per_s": there.seeds_per_s,
            "before_delivery_ms": there.delivery_ms,
            "times_seeds": here.seeds_per_s / there.seeds_per_s,
            "times_per_delivery": there.delivery_ms / here.delivery_ms,
        }
    return figures


def line(figures: dict[str, Any]) -> str:
    text = (
        f"{figures['scenario']:<12} {figures['durability']:<8} "
        f"{figures['seeds_per_s']:7.2f} seeds/s {figures['delivery_ms']:8.3f} ms/delivery"
    )
    if "times_seeds" in figures:
        text += (
            f"   before {figures['before_seeds_per_s']:6.2f} {figures['before_delivery_ms']:8.3f}"
            f"   times {figures['times_seeds']:5.2f} {figures['times_per_delivery']:5.2f}"
        )
    return text


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--seeds", type=int, default=20, help="of each case")
    parser.add_argument("--rounds", type=int, default=3, help="the best one counts")
    parser.add_argument("--only", default=",".join(SCENARIOS), help="scenarios, with commas")
    parser.add_argument("--against", type=Path, metavar="DIRECTORY", help="another version's src")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--case", nargs=2, metavar=("SCENARIO", "DURABILITY"), help="one, here")
    arguments = parser.parse_args()
    if arguments.case:
        cost = run_case(*arguments.case, arguments.seeds)
        print(json.dumps(vars(cost)))
        return 0
    names = arguments.only.split(",")
    found = compare(names, arguments.seeds, arguments.rounds, arguments.against)
    if arguments.json:
        print(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
