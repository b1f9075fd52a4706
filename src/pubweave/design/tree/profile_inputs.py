"""From a workload profile to a design's inputs: its traffic, its prices, its topology.

The profile is opened elsewhere and handed in. What was measured on a link counts first; for pairs
that no link has measured the price comes from a topology's latencies or from a matrix, if given.
Everything is in milliseconds, c_e one-way.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np

from pubweave.design.tree.traffic import DesignError, Floats, Integers, Prices, Traffic
from pubweave.model.ids import BrokerId, Link, natural_order
from pubweave.model.topology import Topology


class Tables(Protocol):
    """What a `WorkloadProfile` offers."""

    def table(self, name: str) -> Any: ...

    def rows(self, name: str) -> list[dict[str, Any]]: ...


def topology_of(profile: Tables) -> Topology:
    """The links that were present at the window's end, with their measured latencies."""
    present = [row for row in profile.rows("links") if row["is_present"]]
    if not present:
        raise DesignError("the profile has no links at its window's end: give --topology")
    prices = {Link.between(row["broker_a"], row["broker_b"]): row["cost_ms"] for row in present}
    known = {link: float(price) for link, price in prices.items() if price is not None}
    return Topology.from_links(prices, latency_ms=known)


def traffic_of(profile: Tables, brokers: Iterable[BrokerId]) -> Traffic:
    """The distinct sets V(n) of the profile's delivery trees, weighted by the sampling."""
    named = tuple(sorted(brokers, key=natural_order))
    trees = profile.table("delivery_trees").select(["tree", "broker", "weight"])
    receivers = profile.table("tree_receivers")
    tree_ids = trees.column("tree").to_numpy()
    order = np.argsort(tree_ids, kind="stable")
    ordered = tree_ids[order]
    weights = trees.column("weight").to_numpy()[order]
    owner = _places(ordered, receivers.column("tree").to_numpy())
    roots = _indices(trees.column("broker"), named)[order]
    found = _indices(receivers.column("broker"), named)
    if not len(ordered):
        raise DesignError(
            "the profile has no publications: profile a run with traffic, or a longer one"
        )
    return Traffic.from_pairs(
        named,
        np.concatenate((np.arange(len(ordered)), owner)),
        np.concatenate((roots, found)),
        weights,
        float(weights[owner].sum()),
    )


def _places(ordered: Integers, wanted: Integers) -> Integers:
    places = np.searchsorted(ordered, wanted)
    if len(wanted) and (not len(ordered) or (ordered[places % len(ordered)] != wanted).any()):
        raise DesignError("tree_receivers names trees that delivery_trees lacks: profile again")
    return places


def _indices(column: Any, brokers: tuple[BrokerId, ...]) -> Integers:
    """A column of broker ids as indices, at the cost of one look per distinct id."""
    encoded = column.combine_chunks().dictionary_encode()
    index_of = {broker: index for index, broker in enumerate(brokers)}
    ids = encoded.dictionary.to_pylist()
    strangers = sorted((b for b in ids if b not in index_of), key=natural_order)
    if strangers:
        raise DesignError(
            f"the profile tells of broker {strangers[0]!r}, which the topology lacks: give the "
            "topology that was measured, or profile a run of this one"
        )
    lookup = np.array([index_of[broker] for broker in ids], dtype=np.int64)
    if not len(lookup):
        return lookup
    places: Integers = lookup[encoded.indices.to_numpy(zero_copy_only=False)]
    return places


def prices_of(
    profile: Tables,
    topology: Topology,
    *,
    matrix_ms: Floats | None = None,
    mesh: Topology | None = None,
    assumed_ms: float | None = None,
) -> Prices:
    """Prices for the topology's brokers; the first source that knows a pair has the word.

    The profile's links, the topology's own latencies, those of a ``mesh`` (any topology of these
    brokers), ``matrix_ms`` (round trips, rows in the natural order of the ids), ``assumed_ms``.
    """
    brokers = tuple(sorted(topology.brokers, key=natural_order))
    communication = _matrix_prices(matrix_ms, brokers)
    if assumed_ms is not None:
        communication[~np.isfinite(communication)] = assumed_ms
    index_of = {broker: index for index, broker in enumerate(brokers)}
    for link, price in _link_prices(profile, topology, mesh).items():
        if link.a in index_of and link.b in index_of:
            a, b = index_of[link.a], index_of[link.b]
            communication[a, b] = communication[b, a] = price
    np.fill_diagonal(communication, np.inf)
    prices = Prices(brokers, _processing(profile, brokers), communication)
    _check_candidates(prices, topology)
    return prices


def _link_prices(profile: Tables, topology: Topology, mesh: Topology | None) -> dict[Link, float]:
    known: dict[Link, float] = dict(mesh.latency_ms) if mesh is not None else {}
    known.update(topology.latency_ms)
    for row in profile.rows("links"):
        if row["cost_ms"] is not None:
            known[Link.between(row["broker_a"], row["broker_b"])] = float(row["cost_ms"])
    return known


def _matrix_prices(matrix_ms: Floats | None, brokers: tuple[BrokerId, ...]) -> Floats:
    count = len(brokers)
    if matrix_ms is None:
        return np.full((count, count), np.inf)
    if len(matrix_ms) < count:
        raise DesignError(
            f"the latency matrix has {len(matrix_ms)} rows for {count} brokers: it needs a row "
            "for each, in the order of their ids"
        )
    round_trip = matrix_ms[:count, :count]
    both = np.stack((round_trip, round_trip.T))
    known = ~np.isnan(both)
    measured = known.sum(axis=0)
    total = np.where(known, both, 0.0).sum(axis=0)
    prices = np.full((count, count), np.inf)
    np.divide(total, 2.0 * measured, out=prices, where=measured > 0)
    return prices


def _processing(profile: Tables, brokers: tuple[BrokerId, ...]) -> Floats:
    """p_v; a broker that handled nothing is taken for a middling one."""
    measured = {row["broker"]: float(row["processing_ms"]) for row in profile.rows("broker_costs")}
    middling = float(np.median(list(measured.values()))) if measured else 0.0
    return np.array([measured.get(broker, middling) for broker in brokers], dtype=np.float64)


def _check_candidates(prices: Prices, topology: Topology) -> None:
    index_of = {broker: index for index, broker in enumerate(prices.brokers)}
    for link in sorted(topology.links):
        if not np.isfinite(prices.communication[index_of[link.a], index_of[link.b]]):
            raise DesignError(
                f"nobody knows what link {link} costs: it was not measured, so give latency_ms "
                "in the topology, --latency or --assume-latency"
            )


def validate_choice(prices: Prices, topology: Topology) -> None:
    """Raise unless some link besides the topology's own has a price."""
    if len(prices.brokers) > 2 and int(np.isfinite(prices.communication).sum()) // 2 <= len(
        topology.links
    ):
        raise DesignError(
            "no link but the topology's own has a price, so there is nothing to choose from: give "
            "--latency FILE with round-trip times between the brokers, or --assume-latency MS"
        )
