"""CI's heuristics where prices or traffic are real: measured latencies, an AS graph, demands.

The clients are those of the evaluation (`setting`), except where demands say who talks to whom.

- planetlab: 100 of 490 nodes, the measured round trips of four moments one after the other;
- seattle: 99 devices, 86 moments: links that change all the time;
- caida: 100 autonomous systems, a link costs the hops between them;
- sndlib: the nodes of a carrier's network with its demands, a link costs the distance.

Prices are scaled to the evaluation's range, processing costs are drawn as there.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from pubweave.design.tree.traffic import Floats, Prices, Traffic
from pubweave.experiments.ci.figures import Mean, mean
from pubweave.experiments.ci.run import STATIC, run_variant
from pubweave.experiments.ci.setting import CiSetting, CiWorld, clients_traffic
from pubweave.generate.topologies.latencies import read_rtt_matrix, read_rtt_slices
from pubweave.generate.topologies.trees import broker_name, random_tree_pairs
from pubweave.model.topology import TopologyError

PLANETLAB = tuple(
    f"latency/planetlab490_rtt_ms_slice{slice_}.csv.gz" for slice_ in ("01", "06", "12", "18")
)
SEATTLE = "latency/seattle99_rtt_ms_86slices.csv.gz"
CAIDA = "topology/as_caida20070917.csv.gz"
SNDLIB_DEMANDS, SNDLIB_NODES = "topology/sndlib_demands.csv.gz", "topology/sndlib_nodes.csv.gz"
SNDLIB_NETWORK = "germany50"
DEMANDS_OF_A_SOURCE = 9
"""A source's notifications go to as many of its largest demands as a type has subscribers."""
KINDS = ("planetlab", "seattle", "caida", "sndlib")
REAL_VARIANTS = ("ci", "ci-damped", "ci-sides", "lmst", "lmit", "best")


@dataclass(frozen=True)
class RealCost:
    """What one heuristic cost in one world."""

    kind: str
    seed: int
    variant: str
    cost: float


def run_real(kind: str, seed: int, data: Path, ticks: int) -> Iterator[RealCost]:
    """All heuristics in one world."""
    world = make_real_world(kind, seed, data, CiSetting(ticks=ticks))
    for name in (STATIC, *REAL_VARIANTS):
        cost = float(run_variant(world, name, seed=seed).total.sum())
        yield RealCost(kind, seed, name, cost)


def cost_shares(costs: Sequence[RealCost]) -> dict[str, dict[str, Mean]]:
    """By kind and heuristic: what it costs more than the static tree, seed by seed."""
    static = {(each.kind, each.seed): each.cost for each in costs if each.variant == STATIC}
    return {
        kind: {
            name: mean(
                [
                    each.cost / static[each.kind, each.seed] - 1
                    for each in costs
                    if (each.kind, each.variant) == (kind, name)
                ]
            )
            for name in REAL_VARIANTS
        }
        for kind in KINDS
    }


def make_real_world(kind: str, seed: int, data: Path, setting: CiSetting) -> CiWorld:
    """The same seed, the same world; FileNotFoundError names what is missing in the data."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    costs = {"planetlab": _planetlab, "seattle": _seattle, "caida": _caida, "sndlib": _sndlib}
    moments = costs[kind](data, setting.brokers, rng)
    count = len(moments[0])
    names = tuple(broker_name(number) for number in range(1, count + 1))
    load = rng.uniform(0, 1, count)
    processing = rng.uniform(0, setting.processing_max, count)
    # One who leaves comes back at another broker, so somewhere there must be room.
    setting = replace(setting, brokers=count, subscribers=min(setting.subscribers, count - 1))
    if kind == "sndlib":
        traffic = list(_demanded(data, names, setting, rng))
    else:
        traffic = list(clients_traffic(setting, names, load / load.sum(), rng))
    lasting = setting.intervals / len(moments)
    phases = [
        (round(place * lasting), Prices.from_matrix(names, processing, _scaled(costs_, setting)))
        for place, costs_ in enumerate(moments)
    ]
    pairs = [(a - 1, b - 1) for a, b in random_tree_pairs(count, rng)]
    return CiWorld(setting, np.array(pairs, dtype=np.int64), traffic, phases)


def _scaled(costs: Floats, setting: CiSetting) -> Floats:
    """Into the evaluation's range; what nobody measured is middling."""
    known = costs[~np.eye(len(costs), dtype=bool)]
    known = known[np.isfinite(known)]
    # The slowest hundredth would squeeze all others together: it counts as the slowest.
    low, high = known.min(), np.quantile(known, 0.99)
    filled = np.where(np.isfinite(costs), costs, np.median(known))
    scaled: Floats = np.clip((filled - low) / (high - low), 0.0, 1.0) * setting.link_cost_max
    return (scaled + scaled.T) / 2


def _planetlab(data: Path, count: int, rng: np.random.Generator) -> list[Floats]:
    matrices = [read_rtt_matrix(data / name) for name in PLANETLAB]
    nodes = len(matrices[0])
    chosen = rng.choice(nodes, size=min(count, nodes), replace=False)
    return [matrix[np.ix_(chosen, chosen)] for matrix in matrices]


def _seattle(data: Path, count: int, rng: np.random.Generator) -> list[Floats]:
    return read_rtt_slices(data / SEATTLE)


def _caida(data: Path, count: int, rng: np.random.Generator) -> list[Floats]:
    neighbors: dict[str, list[str]] = {}
    for row in _rows(data / CAIDA):
        neighbors.setdefault(row["from_as"], []).append(row["to_as"])
        neighbors.setdefault(row["to_as"], []).append(row["from_as"])
    systems = sorted(neighbors)
    places = rng.choice(len(systems), size=min(count, len(systems)), replace=False)
    chosen = [systems[place] for place in places]
    rows = []
    for start in chosen:
        reached = _hops_from(start, neighbors)
        rows.append([reached.get(other, np.nan) for other in chosen])
    return [np.array(rows, dtype=np.float64)]


def _hops_from(start: str, neighbors: dict[str, list[str]]) -> dict[str, int]:
    hops = {start: 0}
    order = [start]
    for system in order:
        for neighbor in neighbors[system]:
            if neighbor not in hops:
                hops[neighbor] = hops[system] + 1
                order.append(neighbor)
    return hops


def _sndlib(data: Path, count: int, rng: np.random.Generator) -> list[Floats]:
    places = np.array(
        [(float(row["lat"]), float(row["lon"])) for row in _sndlib_rows(data / SNDLIB_NODES)]
    )
    lat, lon = np.radians(places).T
    east = np.cos((lat[:, None] + lat) / 2) * (lon[:, None] - lon)
    return [np.hypot(east, lat[:, None] - lat)]


def _demanded(
    data: Path, names: tuple[str, ...], setting: CiSetting, rng: np.random.Generator
) -> Iterator[Traffic]:
    """Each node publishes to its largest demands, at a rate in proportion to them."""
    index_of = {row["node"]: place for place, row in enumerate(_sndlib_rows(data / SNDLIB_NODES))}
    demands = np.zeros((len(names), len(names)))
    for row in _sndlib_rows(data / SNDLIB_DEMANDS):
        demands[index_of[row["source"]], index_of[row["target"]]] += float(row["demand"])
    wanted = np.argsort(-demands, axis=1)[:, :DEMANDS_OF_A_SOURCE]
    weight = np.take_along_axis(demands, wanted, axis=1).sum(axis=1)
    sets = [
        [source, *(int(t) for t in wanted[source] if demands[source, t] > 0)]
        for source in range(len(names))
    ]
    owner = [source for source, members in enumerate(sets) for _ in members]
    members = [member for each in sets for member in each]
    receivers = np.array([len(each) - 1 for each in sets])
    total = setting.types * setting.rate_per_tick * setting.interval_ticks
    for _ in range(setting.intervals):
        counts = rng.poisson(total * weight / weight.sum())
        deliveries = float((counts * receivers).sum())
        yield Traffic.from_pairs(names, owner, members, counts, deliveries)


def _sndlib_rows(path: Path) -> list[dict[str, str]]:
    found = [row for row in _rows(path) if row["network"] == SNDLIB_NETWORK]
    if not found:
        raise TopologyError(f"{path}: has no network {SNDLIB_NETWORK}")
    return found


def _rows(path: Path) -> Iterator[dict[str, str]]:
    with gzip.open(path, "rt") as lines:
        yield from csv.DictReader(lines)
