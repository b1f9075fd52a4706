"""What a broker is asked about a ring, whatever it prices rings by.

A ring is the way between two brokers and the link that would close it. Two views of it exist:
`ring_costs.RingCosts` by what brokers have in common, `ring_by_sides.RingBySides` by all that
passes. Requests (`exchange_requests`) carry what either adds and know no more than this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from pubweave.core.neighborhood import Known
from pubweave.model.ids import BrokerId
from pubweave.model.messages import ExchangeRequest, Verdict


@dataclass(frozen=True)
class Wish:
    """A link that this broker would like to have."""

    known: Known
    direct_cost: float
    gain: float
    """What it promises by this broker's view alone; greater is better, no more."""
    turn: int = 0
    """Of equal wishes the one with the lowest goes first."""


@dataclass(frozen=True)
class Refusal:
    """Why a broker cannot take part; BUSY: it may, soon."""

    verdict: Verdict
    reason: str


class RingView(Protocol):
    """One broker's view of rings."""

    @property
    def rule(self) -> str:
        """What requests are priced by; brokers with another one do not understand each other."""

    def promise(self, known: Known) -> float:
        """Whom to find a link's price out for first: greater is earlier."""

    def wish(self, broker: BrokerId, now: float) -> Wish | None:
        """The wish for a link to a broker that is more than a hop away; None if there is none."""

    def opened(self, request: ExchangeRequest) -> ExchangeRequest | None:
        """A request that nobody has added to yet, with this broker's part."""

    def fault(self, request: ExchangeRequest, member: int) -> str:
        """What is wrong with what the members before this one have added; empty if nothing is."""

    def added(self, request: ExchangeRequest) -> ExchangeRequest | Refusal:
        """The request with this broker's part."""

    def removal_costs(self, request: ExchangeRequest) -> Sequence[float] | None:
        """What each link's removal leaves, by ring link, when all have added their part; None if
        that cannot be told."""
