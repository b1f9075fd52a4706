"""The self-organizing mode in its variants, on the same simulated overlays: which one saves most?

    python -m bench.compare_organizing [--seeds 40] [--first-seed 0] [--only sides,overlap]

Every variant organizes the same overlays (trees, clients, publications drawn from the seed; no
faults) for the same virtual time, message by message. For each: what is left of the random tree's
cost, with a 95% confidence interval over the seeds, how that differs from the first variant on the
same seeds, exchanges, and bytes spent.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from pubweave.core.config.self_organizing import LinkPrice, OrganizeConfig
from pubweave.design.ci.rules import Estimate, Heuristic
from pubweave.sim.kernel.world import World
from pubweave.sim.parts.organizing import ReorganizeSetting
from pubweave.sim.parts.run import Options
from pubweave.sim.scenarios.trees import reorganize

ROUND_S = 60.0
BROKERS = 14
Z95 = 1.96
PAPER = OrganizeConfig(interval_s=3.0, link_price=LinkPrice.RTT, estimate=Estimate.OVERLAP)
SIDES = replace(PAPER, estimate=Estimate.SIDES)
VARIANTS = {
    "overlap": PAPER,
    "overlap+adapt_bloom": replace(PAPER, adapt_bloom=True),
    "overlap+damping": replace(PAPER, damping=True),
    "conjunction": replace(PAPER, estimate=Estimate.CONJUNCTION),
    "sides": SIDES,
    "sides+adapt_bloom": replace(SIDES, adapt_bloom=True),
    "sides+damping": replace(SIDES, damping=True),
    "mst": replace(PAPER, heuristic=Heuristic.MST),
    "mit": replace(PAPER, heuristic=Heuristic.MIT),
}

Run = tuple[float, int, int]
"""Cost left, exchanges done, bytes spent."""


def run(organize: OrganizeConfig, seed: int) -> Run:
    """One overlay organized by one variant; RuntimeError if anything went wrong with it."""
    setting = ReorganizeSetting(organize, rounds=1, round_s=ROUND_S, has_operator=False)
    options = Options(max_brokers=BROKERS, fault="none")
    result = reorganize(World(seed), options, organizing=setting).run()
    if result.violations:
        raise RuntimeError(f"seed {seed}: {result.violations[0]}")
    counts = result.counts
    return result.measures["cost_left"], counts["exchanges_done"], counts["organize_bytes"]


def line(name: str, runs: Sequence[Run], first: Sequence[Run]) -> str:
    """A variant's figures in a line."""
    left, exchanges, spent = (np.array(column) for column in zip(*runs, strict=True))
    against = left - np.array([one for one, _, _ in first])
    return (
        f"{name:22}{_interval(left):>18}{_interval(against):>18}"
        f"{exchanges.mean():12.1f}{spent.mean() / 1000:10.0f}"
    )


def _interval(values: np.ndarray) -> str:
    spread = values.std(ddof=1) if len(values) > 1 else 0.0
    return f"{values.mean():+.3f} ± {Z95 * spread / np.sqrt(len(values)):.3f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=40)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--only", default=",".join(VARIANTS))
    given = parser.parse_args()
    seeds = range(given.first_seed, given.first_seed + given.seeds)
    print(f"{'variant':22}{'cost left':>18}{'against first':>18}{'exchanges':>12}{'kB':>10}")
    first: list[Run] = []
    for name in given.only.split(","):
        runs = [run(VARIANTS[name], seed) for seed in seeds]
        first = first or runs
        print(line(name, runs, first), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
