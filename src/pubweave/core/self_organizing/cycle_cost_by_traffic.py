"""The costs of a cycle by all traffic, relayed notifications included (`design.ci.cycle_traffic`).

Every broker of the cycle adds its side of the same slices to the request, as a Bloom filter with
one hash. The last one counts the unions of neighboring sides by their bits and prices all removals,
exact but for the counting (`BloomFilter.count`). A cycle's traffic is unknown before the request,
so a broker desires links by price alone: those that cost at most as much as the dearest on the
path, at equal prices another one each time.
"""

from __future__ import annotations

import math
import zlib

import msgspec

from pubweave.core.config.self_organizing import OrganizeConfig
from pubweave.core.self_organizing.cycle_cost_by_interest import CycleRefusal, DesiredLink
from pubweave.core.self_organizing.neighborhood import Known, Neighborhood
from pubweave.core.self_organizing.prices import LinkPrices
from pubweave.core.self_organizing.traffic_sides import (
    SLICES,
    SPAN_SLICES,
    SliceRange,
    TrafficSides,
)
from pubweave.design.ci.cycle_traffic import Union, link_promise, removal_costs_by_sides
from pubweave.model.bloom import LEAST_BITS, MOST_BITS, BloomFilter, adapted_side_bits
from pubweave.model.ids import BrokerId
from pubweave.model.messages.session import ExchangeRequest, Verdict

RULE = "sides"
ROUNDING = 1e-9
"""The tolerance for equal prices summed in another order."""
PACKED_BYTES_MORE = 64
"""How much packing can add to incompressible bytes."""


class CycleCostByTraffic:
    """The `CycleView` of one broker by traffic sides."""

    rule = RULE

    def __init__(
        self,
        own: BrokerId,
        config: OrganizeConfig,
        neighborhood: Neighborhood,
        prices: LinkPrices,
        cache: TrafficSides,
    ) -> None:
        self._own = own
        self._config = config
        self._neighborhood = neighborhood
        self._prices = prices
        self._cache = cache

    @property
    def renewal_s(self) -> float:
        return (SPAN_SLICES + 1) * self._config.interval_s / SLICES

    def ready_in_s(self, now: float) -> float:
        return 0.0 if self._cache.sound_span() else self._cache.sound_in_s(now)

    # --- evaluation ------------------------------------------------------------------------

    def expected_gain(self, known: Known) -> float:
        """The gain of a link that cost nothing."""
        return self._expected_gain(known, 0.0)

    def _expected_gain(self, known: Known, direct_cost: float) -> float:
        processing = (self._prices.broker_price(), *known.processing)
        return link_promise(processing, known.link_costs, direct_cost)

    def desired_link(self, broker: BrokerId, now: float) -> DesiredLink | None:
        known = self._neighborhood.get(broker)
        direct_cost = self._prices.new_link_price(broker, now)
        if known is None or direct_cost is None or len(known.path) < 3:
            return None
        if self._cache.sound_span() is None:
            return None  # it could not add its side to a request
        gain = self._expected_gain(known, direct_cost)
        if gain < -ROUNDING:
            return None
        turn = zlib.crc32(f"{self._own} {broker} {self._cache.last_number}".encode())
        return DesiredLink(known, direct_cost, max(0.0, gain), turn)

    # --- consensus -------------------------------------------------------------------------

    def opened(self, request: ExchangeRequest) -> ExchangeRequest | None:
        span = self._cache.sound_span()
        entries = None if span is None else self._cache.side(span, ())
        if span is None or entries is None:
            return None
        bits = self._config.bloom_bits
        if self._config.adapt_bloom:
            bits = adapted_side_bits(len(entries))
        bare = msgspec.structs.replace(request, last_slice=span.last, slices=span.count, bits=bits)
        opened = self.added(bare)
        return opened if isinstance(opened, ExchangeRequest) else None

    def fault(self, request: ExchangeRequest, member: int) -> str:
        if request.costs or len(request.sides) != member:
            return "its sides do not add up"
        if not 1 <= request.slices <= SLICES:
            return f"it is about {request.slices} slices"
        if not LEAST_BITS <= request.bits <= MOST_BITS:
            return f"its filters have {request.bits} bits"
        if any(len(side) > request.bits // 8 + PACKED_BYTES_MORE for side in request.sides):
            return "its filters are too large"
        return ""

    def added(self, request: ExchangeRequest) -> ExchangeRequest | CycleRefusal:
        span = SliceRange(request.last_slice, request.slices)
        member = request.brokers.index(self._own)
        # The link that would close the cycle does not exist yet.
        keys = self._cache.side(span, request.brokers[max(0, member - 1) : member + 2])
        if keys is None:
            if self._cache.has_overflowed(span):
                return CycleRefusal(
                    Verdict.DECLINED, f"{self._own} has more to note than it has room"
                )
            return CycleRefusal(Verdict.BUSY, f"{self._own} has not noted all of {span}")
        side = BloomFilter(request.bits, 1)
        side.add(keys)
        return msgspec.structs.replace(request, sides=(*request.sides, side.to_bytes()))

    def removal_costs(self, request: ExchangeRequest) -> list[float] | None:
        try:
            sides = [BloomFilter.from_bytes(side, request.bits, 1) for side in request.sides]
        except ValueError:
            return None  # any earlier member may have added the invalid filter
        union = union_counts(sides)
        if math.isinf(union(0, len(sides))):
            return None  # the filters are too small for what there is to count
        return removal_costs_by_sides(request.processing, request.link_costs, union)


def union_counts(sides: list[BloomFilter]) -> Union:
    """How many entries neighboring sides have together. O(sides^2 x bits)."""
    size = len(sides)
    counts: list[list[float]] = []
    for first in range(size):
        united = sides[first]
        counts.append([united.count])
        for more in range(1, size):
            united = united | sides[(first + more) % size]
            counts[-1].append(united.count)
    return lambda first, count: counts[first][count - 1]
