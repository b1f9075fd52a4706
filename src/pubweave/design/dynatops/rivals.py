"""The systems that DYNATOPS is compared with: Bayeux, GeoPS, and topic-connected overlays.

**Bayeux**: Tapestry's routing by prefixes of ids. Every hop makes one more digit of the id right. A
topic's root is found digit by digit, too; where no broker has the wanted digit, the next higher one
counts (surrogate routing). Of the brokers that fit an entry of a routing table, proximity neighbor
selection takes the nearest. A tree goes from the root to its subscribers, as Bayeux' TREE messages
do.

Tapestry has digits of 4 bits; with 1 bit a broker has as many neighbors as on Chord.

**GeoPS**: squares within squares, each with a broker as its head. The map is cut into 2^k x 2^k
leaves with a broker each; four squares make one of the next level. Publications go up to the first
square that holds both ends, and down again. A square's head is the head of one of its four squares,
so a broker that heads several along a way is one stop. Which of the four it is alternates by level:
that puts heads a third into their squares, not into corners.

**TCO**: whenever the subscribers of some topic are no longer connected, links change. *rebuilt*
does what the paper's comparison does, with Low-ODA in the place of DCB-M: the part of the overlay
whose subscriptions changed is built anew; with thousands of changes an hour that is all of it.
*mended* repairs around the changed brokers (`tco.churn`), once an hour; *each* does so after every
single topic that a broker begins or ends to want. The cost is the number of links that come and go.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import numpy.typing as npt

from pubweave.design.dynatops._kernels import trees as kernels
from pubweave.design.dynatops._kernels.trees import Flags, Floats, Indices, Integers
from pubweave.design.dynatops.mapping.ring import RING_BITS, key_of
from pubweave.design.dynatops.mapping.routed_overlay import Notified, Publications, RoutedOverlay
from pubweave.design.dynatops.placement import Clusters
from pubweave.design.tco.changes import ChurnSettings, Resubscribe
from pubweave.design.tco.churn import MaintainedOverlay
from pubweave.design.tco.interests import Subscriptions
from pubweave.design.tco.low_oda import build_overlay
from pubweave.design.tco.verify import verify
from pubweave.design.tree.traffic import DesignError

DIGIT_BITS = 4


def prefix_overlay(
    names: Sequence[str],
    topics: Sequence[str],
    *,
    digit_bits: int = DIGIT_BITS,
    rtt: Floats | None = None,
    by_rtt: bool = False,
) -> RoutedOverlay:
    """Brokers with hashed ids; ``rtt`` by broker. O(n^2 * digits).

    >>> overlay = prefix_overlay([f"b{k}" for k in range(40)], ["news"], digit_bits=1)
    >>> int(overlay.hops.max()) <= 32, int(overlay.hops[3, 3])
    (True, 0)
    """
    if RING_BITS % digit_bits:
        raise DesignError(f"digits of {digit_bits} bits do not make up {RING_BITS}")
    keys = np.array([key_of(name) for name in names], np.int64)
    order = np.argsort(keys, kind="stable")
    digits = _digits(keys[order], digit_bits)
    if len(set(keys.tolist())) < len(keys):
        raise DesignError("brokers need different ids")
    given = np.zeros((1, 1)) if rtt is None else rtt[np.ix_(order, order)]
    table = np.zeros((*digits.shape, 1 << digit_bits), np.int32)
    kernels.fill_prefix_table(digits, given, by_rtt and rtt is not None, table)
    sorted_parents = np.zeros((len(names), len(names)), np.int32)
    kernels.route_by_prefix(table, digits, sorted_parents)
    place = np.argsort(order)
    parents = order[sorted_parents[np.ix_(place, place)]].astype(np.int32)
    wanted = _digits(np.array([key_of(topic) for topic in topics], np.int64), digit_bits)
    roots = [int(order[surrogate(digits, row)]) for row in wanted]
    return RoutedOverlay.of(parents, np.array(roots, np.int64), rtt)


def surrogate(digits: Indices, wanted: Indices) -> int:
    """Whoever is responsible for a key, among brokers in the order of their ids."""
    low, high = 0, len(digits)
    for level, digit in enumerate(wanted.tolist()):
        if high - low == 1:
            break
        column = digits[low:high, level]
        above = column[column >= digit]
        taken = int(above.min() if len(above) else column.min())
        low, high = (
            low + int(np.searchsorted(column, taken)),
            low + int(np.searchsorted(column, taken, side="right")),
        )
    return low


def _digits(keys: Integers, digit_bits: int) -> Indices:
    shifts = np.arange(RING_BITS - digit_bits, -1, -digit_bits)
    return ((keys[:, None] >> shifts) & ((1 << digit_bits) - 1)).astype(np.int32)


def leaf_places(places: Places, side: int) -> tuple[Places, Integers]:
    """The middles of side x side leaves around all places, and the leaf of each place.

    >>> leaves, leaf_of = leaf_places(Places(np.array([0.0, 1.0]), np.array([0.0, 1.0])), 2)
    >>> leaf_of.tolist(), leaves.latitudes.tolist()
    ([0, 3], [0.25, 0.25, 0.75, 0.75])
    """
    if side < 1 or side & (side - 1):
        raise DesignError(f"a hierarchy needs a power of two of leaves along its side, not {side}")
    rows, latitudes = _cut(places.latitudes, side)
    columns, longitudes = _cut(places.longitudes, side)
    middles = Places(np.repeat(latitudes, side), np.tile(longitudes, side))
    return middles, rows * side + columns


def _cut(values: Floats, side: int) -> tuple[Integers, Floats]:
    """Which of so many equal strips each value is in, and their middles."""
    low, width = float(values.min()), max(float(np.ptp(values)), 1e-9) / side
    strips = np.minimum((values - low) / width, side - 1).astype(np.int64)
    middles: Floats = low + width * (np.arange(side, dtype=np.float64) + 0.5)
    return strips, middles


def hierarchy_overlay(side: int, roots: Integers, rtt: Floats | None = None) -> RoutedOverlay:
    """Routes between all leaves; ``roots`` are leaves by topic. O(side^4 * log side).

    >>> overlay = hierarchy_overlay(2, np.array([0]))
    >>> overlay.hops[0].tolist()
    [0, 2, 2, 1]
    """
    heads = square_heads(side)
    parents = np.zeros((side * side, side * side), np.int32)
    kernels.route_by_heads(heads, parents)
    return RoutedOverlay.of(parents, roots, rtt)


def square_heads(side: int) -> Indices:
    """By level and leaf: who heads the square of that level around the leaf."""
    leaves = np.arange(side * side)
    rows, columns = leaves // side, leaves % side
    heads = [leaves]
    for level in range(1, side.bit_length()):
        # Odd levels take the last of the four squares, even ones the first.
        step = (1 << (level - 1)) if level % 2 else 0
        corner_rows = (rows >> level << level) + step
        corner_columns = (columns >> level << level) + step
        heads.append(heads[-1][corner_rows * side + corner_columns])
    return np.array(heads, np.int32)


KM_PER_DEGREE = 111.2
RTT_MS_PER_KM = 1.0
"""Only ratios of delays count."""


@dataclass(frozen=True, eq=False)
class Places:
    """Points by latitude and longitude, close enough together for a flat map.

    >>> places = Places(np.array([40.0, 41.0]), np.array([-74.0, -74.0]))
    >>> round(float(places.distances_km(places)[0, 1]), 1)
    111.2
    """

    latitudes: Floats
    longitudes: Floats

    def __len__(self) -> int:
        return len(self.latitudes)

    def flat_km(self, at_latitude: float) -> tuple[Floats, Floats]:
        east = KM_PER_DEGREE * np.cos(np.radians(at_latitude))
        return self.latitudes * KM_PER_DEGREE, self.longitudes * east

    def distances_km(self, others: Places) -> Floats:
        """By place and other place. O(n m)."""
        middle = float(np.mean(self.latitudes))
        north, east = self.flat_km(middle)
        other_north, other_east = others.flat_km(middle)
        return np.hypot(north[:, None] - other_north, east[:, None] - other_east)


def round_trips(distances_km: Floats, rng: np.random.Generator) -> Floats:
    """Random, with means in proportion to distances (section 6.1.1): half to one and a half."""
    return RTT_MS_PER_KM * distances_km * rng.uniform(0.5, 1.5, distances_km.shape)


def area_clusters(places: Places, size: int) -> tuple[Clusters, Integers]:
    """Clusters of neighboring brokers, and the cluster of each; halved along the longer side.

    O(n log^2 n).

    >>> places = Places(np.array([0.0, 0.0, 5.0, 5.0]), np.array([0.0, 1.0, 0.0, 1.0]))
    >>> area_clusters(places, 2)[1].tolist()
    [0, 0, 1, 1]
    """
    north, east = places.flat_km(float(np.mean(places.latitudes)))
    parts: list[Integers] = []
    waiting = [(np.arange(len(places), dtype=np.int64), max(1, round(len(places) / size)))]
    while waiting:
        members, count = waiting.pop()
        if count == 1:
            parts.append(members)
            continue
        axis = north if np.ptp(north[members]) >= np.ptp(east[members]) else east
        ordered = members[np.argsort(axis[members], kind="stable")]
        half = count // 2
        cut = len(members) * half // count
        waiting += [(ordered[cut:], count - half), (ordered[:cut], half)]
    starts = np.cumsum([0, *map(len, parts)], dtype=np.int64)
    members = np.concatenate(parts)
    cluster_of = np.empty(len(places), np.int64)
    cluster_of[members] = np.repeat(np.arange(len(parts)), np.diff(starts))
    return Clusters(starts, members), cluster_of


class RepairPolicy(Enum):
    """How an overlay follows its brokers' subscriptions."""

    REBUILT = "rebuilt"
    MENDED = "mended"
    EACH = "each"


def subscriptions_of(wanted: Flags) -> Subscriptions:
    """Brokers b0, b1, ... and topics t0, t1, ... of a matrix by broker and topic."""
    owners, topics = np.nonzero(wanted)
    names = [f"b{number}" for number in range(wanted.shape[0])]
    return Subscriptions.from_pairs(
        names, [f"t{number}" for number in range(wanted.shape[1])], owners, topics
    )


class ConnectedBrokers:
    """An overlay that is topic-connected after every `follow`.

    >>> brokers = ConnectedBrokers(np.array([[1, 0], [1, 1], [0, 1]], np.uint8), Upkeep.REBUILT)
    >>> brokers.links.tolist()
    [[1, 0], [1, 2]]
    >>> brokers.follow(np.array([[1, 1], [1, 0], [0, 1]], np.uint8))
    2
    """

    def __init__(self, wanted: Flags, upkeep: RepairPolicy, seed: int = 1) -> None:
        self._wanted = wanted.copy()
        subscriptions = subscriptions_of(wanted)
        self.links = build_overlay(subscriptions)
        self._mended = (
            MaintainedOverlay(
                subscriptions, self.links, ChurnSettings(), np.random.default_rng(seed)
            )
            if upkeep is not RepairPolicy.REBUILT
            else None
        )
        self._one_by_one = upkeep is RepairPolicy.EACH

    def follow(self, wanted: Flags) -> int:
        """Let brokers want other topics; returns how many links were removed and added."""
        if self._mended is None:
            changed = self._rebuild(wanted)
        else:
            changed = self._mend(self._mended, wanted)
        self._wanted = wanted.copy()
        return changed

    def _rebuild(self, wanted: Flags) -> int:
        subscriptions = subscriptions_of(wanted)
        if verify(subscriptions, self.links).is_connected:
            return 0
        before = _pairs(self.links)
        self.links = build_overlay(subscriptions)
        return len(before ^ _pairs(self.links))

    def _mend(self, overlay: MaintainedOverlay, wanted: Flags) -> int:
        changed = 0
        for changes in self._rounds(wanted):
            changed += overlay.apply(changes).changed
            overlay.update_backups()
            changed += overlay.tidy().changed
        _, self.links = overlay.snapshot()
        return changed

    def _rounds(self, wanted: Flags) -> Iterator[list[Resubscribe]]:
        """All changes at once, or one topic of one broker after the other."""
        begun, ended = wanted > self._wanted, wanted < self._wanted
        if self._one_by_one:
            for broker, topic in np.argwhere(begun).tolist():
                yield [Resubscribe(f"b{broker}", begun=(f"t{topic}",))]
            for broker, topic in np.argwhere(ended).tolist():
                yield [Resubscribe(f"b{broker}", ended=(f"t{topic}",))]
            return
        yield [
            Resubscribe(f"b{broker}", _names(begun[broker]), _names(ended[broker]))
            for broker in np.flatnonzero((begun | ended).any(axis=1)).tolist()
        ]

    def notify(self, users: Indices, publications: Publications) -> Notified:
        """Publications spread among the brokers that want them, each getting one message.

        O(publications * links)."""
        starts, neighbors = _adjacency(len(self._wanted), self.links)
        outcome = np.zeros(3)
        kernels.hops_within(
            starts, neighbors, self._wanted, publications.brokers, publications.topics, users,
            outcome,
        )  # fmt: skip
        messages, reached, hops = outcome.tolist()
        return Notified(len(publications.topics), messages, 0.0, hops, hops, reached)


def _names(topics: npt.NDArray[np.bool_]) -> tuple[str, ...]:
    return tuple(f"t{topic}" for topic in np.flatnonzero(topics))


def _pairs(links: Indices) -> set[tuple[int, int]]:
    return {(min(a, b), max(a, b)) for a, b in links.tolist()}


def _adjacency(count: int, links: Indices) -> tuple[Integers, Indices]:
    ends = np.concatenate([links, links[:, ::-1]])
    order = np.argsort(ends[:, 0], kind="stable")
    starts = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(ends[:, 0], minlength=count), out=starts[1:])
    return starts, np.ascontiguousarray(ends[order, 1]).astype(np.int32)
