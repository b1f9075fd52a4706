"""Settings of the self-organizing mode: how a broker learns of its neighborhood and when it asks
for a change. Defaults are the paper's (CI section 5) where it has one, but for the estimate."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass, field

from pubweave.design.ci.rules import Estimate, Heuristic
from pubweave.model.bloom import DEFAULT_BITS, DEFAULT_HASHES, BloomFilter
from pubweave.model.ids import BrokerId

CACHE_CAPACITY = 8_192
"""Notifications remembered in all (CI section 5)."""
SIDE_CAPACITY = 65_536
"""Notifications remembered per window where brokers count by sides."""
SIDE_REQUESTS = 6
"""Links asked for per interval where brokers count by sides."""
MOST_HOPS = 16
"""No neighborhood is larger, whatever a neighbor says."""


class LinkPrice(enum.Enum):
    """What a link's communication cost is taken from where no price table says it."""

    RTT = "rtt"
    """Half its round-trip time in ms; brokers that are no neighbors are probed."""
    HOPS = "hops"
    """Each link costs 1."""


@dataclass(frozen=True)
class OrganizeConfig:
    """How a broker takes part in organizing the overlay. Brokers with other settings do no harm,
    but only those with the same heuristic and interval understand each other."""

    heuristic: Heuristic = Heuristic.CI
    """What a cheaper tree is: by cost and common interest (ci), by cost alone (mst) or by common
    interest alone (mit)."""
    eta: int = 4
    """How many hops a broadcast travels: the neighborhood."""
    interval_s: float = 5.0
    """One broadcast per broker and interval."""
    exchanges: int = 0
    """How many exchanges a broker takes part in per interval, at most; 0: any number."""
    requests: int | None = None
    """How many links a broker asks for per interval, at most; 0: any number. By default 6 with
    sides, else any number."""
    estimate: Estimate = Estimate.SIDES
    """By what CI prices a ring; the other heuristics do not look at it."""
    cache_entries: int | None = None
    """Notifications remembered: 65,536 per window with sides, else the paper's 8,192 in all."""
    bloom_bits: int = DEFAULT_BITS
    """The size of a Bloom filter of notifications."""
    bloom_hashes: int = DEFAULT_HASHES
    """Filters of sides have one: they are counted, not searched."""
    adapt_bloom: bool = False
    """Choose bits and hashes by the entries of the last windows instead."""
    damping: bool = False
    """Ask for more gain where links have changed of late."""
    least_gain: float = 0.02
    """The share of the ring's cost that an exchange must save."""
    lock_s: float = 10.0
    """A broker that has heard nothing of a request for this long takes part in others again."""
    link_price: LinkPrice = LinkPrice.RTT
    """A link costs half its round-trip time in ms, or 1."""
    broker_price: float | None = None
    """The processing cost of a notification; None: 1 with hops, else the measured time in ms."""
    link_prices: Mapping[BrokerId, float] = field(default_factory=dict)
    """This broker's row of a price table; what it names is neither measured nor probed."""

    def __post_init__(self) -> None:
        """ValueError names the field and what it can be."""
        BloomFilter(self.bloom_bits, self.bloom_hashes)
        if self.cache_entries is not None and self.cache_entries < 1:
            raise ValueError("cache_entries must be at least 1")
        if self.eta < 2:
            raise ValueError("eta must be at least 2")
        if self.eta > MOST_HOPS:
            raise ValueError(f"eta must be at most {MOST_HOPS}")
        if self.exchanges < 0 or (self.requests or 0) < 0:
            raise ValueError("exchanges and requests must be 0 or more")
        for name in ("interval_s", "lock_s"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be more than 0")
        if not 0 <= self.least_gain < 1:
            raise ValueError("least_gain must be between 0 and 1")
        prices = [*self.link_prices.values(), self.broker_price or 0.0]
        if any(not 0 <= price < float("inf") for price in prices):
            raise ValueError("link_prices and broker_price must be 0 or more")

    @property
    def is_by_sides(self) -> bool:
        """Whether rings are priced by all that passes them (`design.ci.cycle_traffic`)."""
        return self.heuristic is Heuristic.CI and self.estimate is Estimate.SIDES

    @property
    def requests_per_interval(self) -> int | None:
        """None: any number."""
        if self.requests is None:
            return SIDE_REQUESTS if self.is_by_sides else None
        return self.requests or None

    @property
    def capacity(self) -> int:
        """Of the cache, in entries."""
        return self.cache_entries or (SIDE_CAPACITY if self.is_by_sides else CACHE_CAPACITY)
