"""The setting of POP's and GRAPE's evaluation (5.1): a tree, its latencies, stock-quote clients.

A balanced tree of fan-out 2. A publisher and its subscribers run on one machine, which is also a
broker's; the publisher begins at that broker, the closest. How far clients are from other brokers
is what PlanetLab measured between the machines. The numbers of Figure 4b are not in the paper's
text: 20 subscribers for each publisher and a publication per second are ours.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pubweave.generate.topologies.latencies import LEAST_LATENCY_MS, Matrix, read_rtt_matrix
from pubweave.generate.topologies.trees import fanout_tree
from pubweave.generate.workloads.stocks import (
    Distribution,
    Quotes,
    StockWorkload,
    read_quotes,
    stock_workload,
    synthetic_quotes,
)
from pubweave.model.ids import BrokerId, Link
from pubweave.model.topology import Topology

RTT_FILE = Path("latency") / "planetlab490_rtt_ms_median.csv.gz"
QUOTES_FILE = Path("stocks") / "padres_stockquotes.csv.gz"
CLIENT_MS = 0.5
"""From a client to the broker on its own machine, one way."""
SYNTHETIC_MS = (5.0, 120.0)
"""One-way latencies where no measurements are given, about PlanetLab's range."""


@dataclass(frozen=True)
class GrapeSetting:
    """One experiment; times are virtual."""

    brokers: int = 63
    publishers: int = 10
    subscribers: int = 20
    """Of each publisher."""
    rate_per_s: float = 1.0
    pop_window_s: float = 60.0
    """W: POP traces at most N publications in it."""
    least_gain: float = 0.05
    """What a move has to promise at least, and how long a client rests after one."""
    rest_s: float = 60.0
    duration_s: float = 640.0
    measured_s: float = 80.0
    """The last part of it, from which figures are taken; the paper takes its end."""


FULL = GrapeSetting(publishers=40, duration_s=1_080.0, measured_s=180.0)
"""The paper's 18 minutes."""


@dataclass(frozen=True)
class StockWorld:
    """A tree with latencies, clients at their brokers, and where they really are."""

    topology: Topology
    workload: StockWorkload
    one_way_ms: Matrix
    """Between the machines of all brokers, in the order of ``brokers``."""
    brokers: tuple[BrokerId, ...]

    def client_ms(self, home: BrokerId, broker: BrokerId) -> float:
        """How far a client on a machine is from a broker."""
        if home == broker:
            return CLIENT_MS
        a, b = self.brokers.index(home), self.brokers.index(broker)
        return float(self.one_way_ms[a, b])

    def machine_of(self, symbol: str) -> BrokerId:
        """The broker on whose machine the clients of a symbol run."""
        return next(p.broker for p in self.workload.publishers if p.symbol == symbol)


def read_data(folder: Path | None) -> tuple[Quotes | None, Matrix | None]:
    """Real quotes and round trips, where there is a folder with them; ValueError names a file."""
    if folder is None:
        return None, None
    return read_quotes(folder / QUOTES_FILE), read_rtt_matrix(folder / RTT_FILE)


def make_stock_world(
    setting: GrapeSetting,
    distribution: Distribution,
    spread: int,
    seed: int,
    quotes: Quotes | None = None,
    rtt_ms: Matrix | None = None,
) -> StockWorld:
    """The same seed gives the same tree, machines and clients, whatever moves them later."""
    rng = np.random.default_rng(seed)
    tree = fanout_tree(setting.brokers, 2, rng)
    brokers = tuple(sorted(tree.brokers))
    one_way = _machines(len(brokers), rtt_ms, rng)
    index_of = {broker: index for index, broker in enumerate(brokers)}
    latency_ms: Mapping[Link, float] = {
        link: float(one_way[index_of[link.a], index_of[link.b]]) for link in sorted(tree.links)
    }
    topology = replace(tree, latency_ms=latency_ms)
    chosen = _symbols(setting.publishers, quotes, rng)
    workload = stock_workload(
        chosen, topology, distribution, spread, rng, setting.subscribers, setting.rate_per_s
    )
    return StockWorld(topology, workload, one_way, brokers)


def _symbols(count: int, quotes: Quotes | None, rng: np.random.Generator) -> Quotes:
    if quotes is None:
        names = [f"S{number:03d}" for number in range(count)]
        return synthetic_quotes(names, 1_000, rng)
    if count > len(quotes):
        raise ValueError(f"{count} publishers need as many symbols, there are {len(quotes)}")
    names = [str(name) for name in rng.permutation(sorted(quotes))[:count]]
    return {name: quotes[name] for name in sorted(names)}


def _machines(count: int, rtt_ms: Matrix | None, rng: np.random.Generator) -> Matrix:
    """One-way latencies between machines drawn from a matrix of round trips, or made up."""
    if rtt_ms is None:
        drawn = rng.uniform(*SYNTHETIC_MS, size=(count, count))
        return np.asarray((drawn + drawn.T) / 2)
    if count > len(rtt_ms):
        raise ValueError(f"{count} brokers need a larger RTT matrix than {len(rtt_ms)} rows")
    rows = rng.permutation(len(rtt_ms))[:count]
    square = rtt_ms[np.ix_(rows, rows)]
    known = np.isfinite(square)
    both = np.where(known, square, 0.0) + np.where(known.T, square.T, 0.0)
    measured = known.astype(int) + known.T
    middling = float(np.nanmedian(rtt_ms))
    rtt = np.divide(both, measured, out=np.full_like(both, middling), where=measured > 0)
    return np.asarray(np.maximum(rtt / 2, LEAST_LATENCY_MS))
