"""The neighborhood of a broker, learned from broadcasts (CI section 4.3.1).

Of every broker within eta hops: the path to it with its costs and, where its broadcast has a
filter, the common interest with this one. Knowledge that is not renewed gets a second chance:
marked in one interval, dropped in the next. Decisions are made in
`self_organizing/cycle_cost_by_interest` and `self_organizing/cycle_cost_by_traffic`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np

from pubweave.core.config.self_organizing import MOST_HOPS
from pubweave.model.bloom import BloomFilter, Keys, corrected_count
from pubweave.model.ids import BrokerId, Link
from pubweave.model.messages.session import InterestBroadcast

WINDOWS_OF_HITS = 2


@dataclass
class Known:
    """A broker of the neighborhood, by its last broadcast."""

    path: tuple[BrokerId, ...]
    """This broker first, that one last."""
    processing: tuple[float, ...]
    """Of all brokers of the path but this one, whose cost changes."""
    link_costs: tuple[float, ...]
    link_commons: tuple[float, ...]
    """The common interest of the ends of each link of the path."""
    common: float
    """How many notifications of a window both were interested in (I_ij)."""
    hits: dict[int, Keys] = field(default_factory=dict)
    """By window: own entries that the other broker seems to have, too."""
    is_idle: bool = False
    """Its clients had nothing to do with any notification."""
    has_second_chance: bool = True

    def has_link(self, link: Link) -> bool:
        return any(
            Link.between(near, far) == link
            for near, far in zip(self.path, self.path[1:], strict=False)
        )


class Neighborhood:
    """The brokers within eta hops, those at one hop included."""

    def __init__(self, own: BrokerId, *, keeps_hits: bool) -> None:
        self._own = own
        self._keeps_hits = keeps_hits
        self._known: dict[BrokerId, Known] = {}

    def __len__(self) -> int:
        return len(self._known)

    def __iter__(self) -> Iterator[tuple[BrokerId, Known]]:
        return iter(self._known.items())

    def get(self, broker: BrokerId) -> Known | None:
        return self._known.get(broker)

    def common(self, broker: BrokerId) -> float | None:
        """I(own, broker); None if unknown."""
        known = self._known.get(broker)
        return None if known is None else known.common

    def learn_path(self, message: InterestBroadcast, link_cost: float) -> None:
        """A broadcast arrived over a link of this cost: keep its path only."""
        self._keep(message, link_cost, 0.0, 0.0, {}, is_idle=False)

    def learn(
        self, message: InterestBroadcast, keys: Keys, link_cost: float, link_common: float
    ) -> None:
        """A broadcast arrived over a link of this cost and common interest; ``keys`` are the own
        entries of its window. ValueError for an invalid filter."""
        filter_ = BloomFilter.from_bytes(message.filter, message.bits, message.hashes)
        mask = filter_.contains(keys)
        hits = int(np.count_nonzero(mask))
        common = corrected_count(hits, len(keys), filter_.false_positive_rate)
        kept: dict[int, Keys] = {}
        if self._keeps_hits:
            before = self._known.get(message.brokers[0])
            kept = {**(before.hits if before is not None else {}), message.window: keys[mask]}
            kept = {window: kept[window] for window in sorted(kept)[-WINDOWS_OF_HITS:]}
        is_idle = not filter_.false_positive_rate
        self._keep(message, link_cost, link_common, common, kept, is_idle=is_idle)

    def _keep(
        self,
        message: InterestBroadcast,
        link_cost: float,
        link_common: float,
        common: float,
        hits: dict[int, Keys],
        *,
        is_idle: bool,
    ) -> None:
        self._known[message.brokers[0]] = Known(
            path=(self._own, *reversed(message.brokers)),
            processing=tuple(reversed(message.processing)),
            link_costs=(link_cost, *reversed(message.link_costs)),
            link_commons=(link_common, *reversed(message.link_commons)),
            common=common,
            hits=hits,
            is_idle=is_idle,
        )

    def joint_hits(self, one: BrokerId, other: BrokerId) -> int | None:
        """How many own entries both others seem to have; None if they share no window."""
        first, second = self._known.get(one), self._known.get(other)
        if first is None or second is None:
            return None
        shared = first.hits.keys() & second.hits.keys()
        if not shared:
            return None
        window = max(shared)
        both = np.intersect1d(first.hits[window], second.hits[window], assume_unique=True)
        return len(both)

    # --- forgetting ------------------------------------------------------------------------

    def forget_stale(self) -> None:
        """Once per interval: drop what was not renewed in the last interval."""
        for broker in [b for b, known in self._known.items() if not known.has_second_chance]:
            del self._known[broker]
        for known in self._known.values():
            known.has_second_chance = False

    def forget_link(self, link: Link) -> None:
        """A link was removed: drop every path over it."""
        for broker in [b for b, known in self._known.items() if known.has_link(link)]:
            del self._known[broker]


def broadcast_fault(message: InterestBroadcast, sender: BrokerId) -> str:
    """What is wrong with a broadcast of a neighbor; empty if nothing is."""
    count = len(message.brokers)
    lengths = (len(message.processing), len(message.link_costs) + 1, len(message.link_commons) + 1)
    if not count or message.hops_left < 0 or any(length != count for length in lengths):
        return "its path does not add up"
    if count + message.hops_left > MOST_HOPS:
        return "it travels too far"
    if message.brokers[-1] != sender or len(set(message.brokers)) != count:
        return "its path does not lead here"
    numbers = (*message.processing, *message.link_costs, *message.link_commons)
    numbers = (*numbers, message.busy_s, message.gain)
    if not all(0 <= number < math.inf for number in numbers):
        return "its costs are no costs"
    return ""
