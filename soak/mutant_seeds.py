"""Runs seeds of scenarios until one fails: exit code 1, and what was violated on standard output.

python -m soak.mutant_seeds --seeds 30 routing:memory routing:journal mqtt:journal
"""

from __future__ import annotations

import argparse
import sys

from pubweave.sim.simulate import run_seed


def first_violation(scenario: str, durability: str, seeds: range) -> str | None:
    """What the first seed that fails violates; None if none does."""
    options: dict[str, object] = {} if durability == "memory" else {"durability": durability}
    for seed in seeds:
        violations = run_seed(scenario, seed, **options).violations
        if violations:
            return f"{scenario} {durability} seed {seed}: {violations[0]}"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(description="Run seeds of scenarios until one fails")
    parser.add_argument("--seeds", type=int, default=30)
    parser.add_argument("runs", nargs="+", metavar="SCENARIO:DURABILITY")
    given = parser.parse_args()
    for run in given.runs:
        scenario, _, durability = run.partition(":")
        found = first_violation(scenario, durability, range(given.seeds))
        if found is not None:
            print(found)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
