"""The demo's world: brokers far apart in a small internet, a bad tree over them, stock traders.

All of it from one seed: the same seed gives the same distances, tree, quotes and clients.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import numpy.typing as npt

from pubweave.generate.topologies.underlay import (
    PlacedBrokers,
    UnderlayParameters,
    make_underlay,
    place_brokers,
)
from pubweave.generate.workloads.stocks import (
    Distribution,
    StockWorkload,
    stock_workload,
    synthetic_quotes,
)
from pubweave.model.ids import Link
from pubweave.model.topology import Topology
from pubweave.runtime.overlay.run_directory import TELEMETRY_DIRECTORY
from pubweave.runtime.overlay.spec import OverlaySpec, make_spec

SYMBOLS = ("ACME", "BOLT", "CORN", "DUNE", "ECHO", "FERN", "GATE", "HILL", "IRIS", "JADE")
SUBSCRIBERS_PER_PUBLISHER = 10
SPREAD_BROKERS = 5
RATE_PER_S = 20.0
QUOTE_DAYS = 250
UNDERLAY = UnderlayParameters(domains=12, routers_per_domain=20)
TREES_DRAWN = 20


@dataclass(frozen=True, eq=False)
class DemoWorld:
    """Where brokers are, how they are linked at first, and who uses them."""

    topology: Topology
    distances_ms: dict[Link, float]
    """One way, between any two brokers."""
    round_trips_ms: npt.NDArray[np.float64]
    """The same as a matrix of round trips, in the natural order of the brokers."""
    workload: StockWorkload


def make_demo(brokers: int, seed: int) -> DemoWorld:
    """The world of a seed.

    >>> make_demo(brokers=6, seed=1).topology.is_tree
    True
    """
    rng = np.random.default_rng(seed)
    placed = place_brokers(make_underlay(rng, UNDERLAY), brokers, rng)
    topology = _bad_tree(placed, rng)
    workload = stock_workload(
        synthetic_quotes(SYMBOLS, QUOTE_DAYS, rng),
        topology,
        Distribution.RANDOM,
        min(SPREAD_BROKERS, brokers),
        rng,
        SUBSCRIBERS_PER_PUBLISHER,
        RATE_PER_S,
    )
    distances = {
        Link.between(one, other): round(float(placed.distance_ms[i, j]), 3)
        for i, one in enumerate(placed.brokers)
        for j, other in enumerate(placed.brokers[:i])
    }
    return DemoWorld(topology, distances, 2.0 * placed.distance_ms, workload)


def demo_spec(world: DemoWorld, run_dir: Path) -> OverlaySpec:
    """An overlay whose brokers pretend to be apart, with telemetry in the run directory."""
    telemetry = run_dir / TELEMETRY_DIRECTORY
    spec = make_spec(world.topology, name="demo", base_port=0, telemetry_directory=telemetry)
    return replace(spec, distances_ms=world.distances_ms)


def _bad_tree(placed: PlacedBrokers, rng: np.random.Generator) -> Topology:
    """The longest of some random trees, as one gets that grew without a plan."""
    drawn = [placed.random_overlay(rng) for _ in range(TREES_DRAWN)]
    return max(drawn, key=lambda tree: sum(tree.latency_ms.values()))
