"""Bayeux' overlay: Tapestry's routing by prefixes of ids, with or without a look at distances.

Every hop makes one more digit of the id right. A topic's root is found digit by digit, too; where
no broker has the wanted digit, the next higher one counts (surrogate routing). Of the brokers that
fit an entry of a routing table, proximity neighbor selection takes the nearest. A tree goes from
the root to its subscribers, as Bayeux' TREE messages do.

Tapestry has digits of 4 bits; with 1 bit a broker has as many neighbors as on Chord.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from pubweave.design.dynatops._kernels import routed as kernels
from pubweave.design.dynatops._kernels.trees import Floats, Indices, Integers
from pubweave.design.dynatops.mapping.ring import RING_BITS, key_of
from pubweave.design.dynatops.mapping.routed_overlay import RoutedOverlay
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
