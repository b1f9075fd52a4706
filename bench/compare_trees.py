"""Two checked-out trees of pubweave in one run: sockets, MQTT and matching, old beside new.

    python -m bench.compare_trees OLD_TREE [--new TREE] [--rounds 5] [--json FILE]

Each tree measures itself with its own code, in a process whose PYTHONPATH is that tree. Rounds are
interleaved (old, new, new, old, ...) so that whatever else the machine does hits both. Sockets are
judged by deliveries per second of the brokers' processor time, matching by the best round. That
time is counted in steps of 10 ms, so loads last for a second of it or more.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

MEASURE_SOCKETS = """
import json
from bench import rivals
from bench.bench_mqtt import qos_one, qos_zero
from bench.load_run import Load, measure
found = {}
def native(name, load, chain=1):
    with rivals.pubweave(chain) as brokers:
        found[name] = measure(brokers, load).delivered_per_broker_cpu_s
def mqtt(name, once):
    with rivals.door() as brokers:
        found[name] = once(brokers)[1]
native("exact topic 1 -> 1", Load(1_000_000))
native("exact topic 1 -> 10", Load(150_000, subscribers=10))
native("content 1 -> 1", Load(250_000, content_subscriptions=1000))
native("chain of 3, 1 -> 1", Load(300_000), 3)
mqtt("MQTT QoS 0, 1 -> 1", qos_zero(Load(100_000)))
mqtt("MQTT QoS 1, 1 -> 1", qos_one(30_000))
mqtt("MQTT QoS 1, 1 -> 10", qos_one(8_000, 10))
print(json.dumps(found))
"""

MEASURE_MATCHING = """
import json
from bench.bench_matching import measure_many, measure_small
found = {"matching " + name: 1e6 / us for name, us in measure_small(5).items()}
for spread in ("overlay", "even"):
    found["matching " + spread] = measure_many(False, spread, 50_000, 500, 5)["publications_per_s"]
print(json.dumps(found))
"""


def measured(tree: Path, program: str) -> dict[str, float]:
    """What one tree says of itself: higher is better in every case."""
    environment = os.environ | {"PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}"}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, cwd=tree, env=environment, stdout=subprocess.PIPE, check=True)
    figures: dict[str, float] = json.loads(done.stdout)
    return figures


PROGRAMS = {"sockets": MEASURE_SOCKETS, "matching": MEASURE_MATCHING}


def run(old: Path, new: Path, rounds: int, programs: Iterable[str]) -> dict[str, dict[str, float]]:
    """Medians of both trees, and the new tree's ratio (above 1: faster) as a median of rounds."""
    seen: dict[str, list[dict[str, float]]] = {"old": [], "new": []}
    for number in range(rounds):
        pair = [("old", old), ("new", new)]
        for name, tree in pair if number % 2 == 0 else reversed(pair):
            print(f"  round {number + 1}/{rounds}: {name}", file=sys.stderr)
            figures: dict[str, float] = {}
            for program in programs:
                figures |= measured(tree, program)
            seen[name].append(figures)
    return {
        case: {
            "old": statistics.median(each[case] for each in seen["old"]),
            "new": statistics.median(each[case] for each in seen["new"]),
            "ratio": statistics.median(
                new[case] / old[case] for old, new in zip(seen["old"], seen["new"], strict=True)
            ),
        }
        for case in seen["old"][0]
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("old", type=Path, help="a checked-out tree to compare with")
    parser.add_argument("--new", type=Path, default=ROOT, help="the tree that is judged: this one")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", choices=PROGRAMS, help="one half of the figures")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write the figures here")
    options = parser.parse_args()
    programs = PROGRAMS.values() if options.only is None else [PROGRAMS[options.only]]
    figures = run(options.old.resolve(), options.new.resolve(), options.rounds, programs)
    title = "per second (sockets: of the brokers' processor time)"
    print(f"{title:<52}{'old':>11}{'new':>11}{'ratio':>8}")
    for case, row in figures.items():
        print(f"{case:<52}{row['old']:>11,.0f}{row['new']:>11,.0f}{row['ratio']:>8.3f}")
    if options.json is not None:
        options.json.write_text(json.dumps(figures, indent=2) + "\n")


if __name__ == "__main__":
    main()
