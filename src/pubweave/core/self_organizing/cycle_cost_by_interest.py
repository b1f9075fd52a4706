"""The costs of a cycle by common interest: one broker's knowledge in the equations of `ci/rules`.

A broker says whether it desires a link (evaluation, Eqs. 3-7) and what it would pay after the
removal of each of the cycle's links (consensus, Eq. 8), or that it knows too little. lMST and lMIT
do the same with weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import msgspec

from pubweave.core.config.self_organizing import OrganizeConfig
from pubweave.core.self_organizing.neighborhood import Known, Neighborhood
from pubweave.core.self_organizing.prices import LinkPrices
from pubweave.design.ci.rules import (
    Estimate,
    Heuristic,
    TripleEstimate,
    add_costs,
    link_weight,
    neighborhood_overlap,
    path_costs,
    removal_costs,
    removal_weights,
    triple_by_overlap,
    wants_lighter_link,
    wants_link,
)
from pubweave.model.ids import BrokerId
from pubweave.model.messages.session import ExchangeRequest, Verdict


class CycleCostByInterest:
    """The `CycleView` of one broker by common interest, which no exchange changes."""

    renewal_s = 0.0

    def __init__(
        self,
        own: BrokerId,
        config: OrganizeConfig,
        neighborhood: Neighborhood,
        prices: LinkPrices,
        own_count: Callable[[], int],
    ) -> None:
        """``own_count`` is I_i: how many notifications of the last window concerned this broker's
        own clients."""
        self._own = own
        self._config = config
        self._neighborhood = neighborhood
        self._prices = prices
        self._own_count = own_count

    @property
    def rule(self) -> str:
        return self._config.heuristic.value

    def ready_in_s(self, now: float) -> float:
        return 0.0

    # --- evaluation ------------------------------------------------------------------------

    def expected_gain(self, known: Known) -> float:
        return known.common

    def desired_link(self, broker: BrokerId, now: float) -> DesiredLink | None:
        known = self._neighborhood.get(broker)
        direct_cost = self._prices.new_link_price(broker, now)
        if known is None or direct_cost is None or len(known.path) < 3:
            return None
        heuristic = self._config.heuristic
        if heuristic is Heuristic.CI:
            return self._desired_by_cost(known, direct_cost)
        weight = link_weight(heuristic, direct_cost, known.common)
        weights = [
            link_weight(heuristic, cost, common)
            for cost, common in zip(known.link_costs, known.link_commons, strict=True)
        ]
        if not wants_lighter_link(weight, weights):
            return None
        return DesiredLink(known, direct_cost, max(weights) - weight)

    def _desired_by_cost(self, known: Known, direct_cost: float) -> DesiredLink | None:
        common = self._commons(known.path)
        triple = None if common is None else self._triple(known.path, common)
        if common is None or triple is None:
            return None
        processing = (self._prices.broker_price(), *known.processing)
        cost = path_costs(processing, known.link_costs, common, triple)[-1]
        if not wants_link(direct_cost, cost, known.common):
            return None
        return DesiredLink(known, direct_cost, (cost - direct_cost) * known.common)

    # --- consensus -------------------------------------------------------------------------

    def opened(self, request: ExchangeRequest) -> ExchangeRequest | None:
        nothing = (0.0,) * len(request.brokers)
        opened = self.added(msgspec.structs.replace(request, costs=nothing))
        return opened if isinstance(opened, ExchangeRequest) else None

    def fault(self, request: ExchangeRequest, member: int) -> str:
        if len(request.costs) != len(request.brokers) or request.sides:
            return "its costs do not add up"
        return "" if all(map(math.isfinite, request.costs)) else "its costs are no costs"

    def added(self, request: ExchangeRequest) -> ExchangeRequest | CycleRefusal:
        vector = self.vector(request.brokers, request.processing, request.link_costs)
        if vector is None:
            return CycleRefusal(Verdict.DECLINED, f"{self._own} cannot say what it would cost")
        costs = tuple(add_costs((request.costs, vector)))
        return msgspec.structs.replace(request, costs=costs)

    def removal_costs(self, request: ExchangeRequest) -> Sequence[float]:
        return request.costs

    def vector(
        self,
        cycle: Sequence[BrokerId],
        processing: Sequence[float],
        link_costs: Sequence[float],
    ) -> list[float] | None:
        """This broker's costs after the removal of each link; None if it knows too little."""
        member = cycle.index(self._own)
        heuristic = self._config.heuristic
        if heuristic is Heuristic.CI:
            common = self._commons(cycle)
            triple = None if common is None else self._triple(cycle, common)
            if common is None or triple is None:
                return None
            return removal_costs(member, processing, link_costs, common, triple)
        shared = self._neighborhood.common(cycle[(member + 1) % len(cycle)])
        if heuristic is Heuristic.MIT and shared is None:
            return None
        weight = link_weight(heuristic, link_costs[member], shared or 0.0)
        return removal_weights(member, weight, len(cycle))

    # --- what is known ---------------------------------------------------------------------

    def _commons(self, members: Sequence[BrokerId]) -> list[float] | None:
        """I(own, member) of all members; the own entry is never used."""
        found: list[float] = []
        for member in members:
            common = 0.0 if member == self._own else self._neighborhood.common(member)
            if common is None:
                return None
            found.append(common)
        return found

    def _triple(
        self, members: Sequence[BrokerId], common: Sequence[float]
    ) -> TripleEstimate | None:
        overlap = neighborhood_overlap(
            self._own_count(), [known.common for _, known in self._neighborhood]
        )
        if overlap is None:
            return None
        by_overlap = triple_by_overlap(overlap, common)
        if self._config.estimate is not Estimate.CONJUNCTION:
            return by_overlap

        def by_filters(via: int, far: int) -> float:
            joint = self._neighborhood.joint_hits(members[via], members[far])
            if joint is None:
                return by_overlap(via, far)
            return min(joint, common[via], common[far])

        return by_filters


# The interface of cycle costs.
#
# A cycle is the path between two brokers and the link that would close it. There are two views:
# `CycleCostByInterest` by what brokers have in common, `CycleCostByTraffic` by all traffic.
# Requests (`self_organizing/consensus`) carry what either adds, and depend on this alone.


@dataclass(frozen=True)
class DesiredLink:
    """A link that this broker desires."""

    known: Known
    direct_cost: float
    gain: float
    """The expected gain by this broker's view alone; only the order matters."""
    turn: int = 0
    """Of equal gains the lowest goes first."""


@dataclass(frozen=True)
class CycleRefusal:
    """Why a broker cannot take part; BUSY if it may soon."""

    verdict: Verdict
    reason: str


class CycleView(Protocol):
    """One broker's view of cycles."""

    @property
    def rule(self) -> str:
        """How requests are priced; brokers with another rule decline."""

    @property
    def renewal_s(self) -> float:
        """How long after an exchange its brokers know too little of the new traffic."""

    def ready_in_s(self, now: float) -> float:
        """When this broker knows enough of its traffic to take part; 0 if it does."""

    def expected_gain(self, known: Known) -> float:
        """The expected gain of a free link, to decide whose price to probe first."""

    def desired_link(self, broker: BrokerId, now: float) -> DesiredLink | None:
        """A desired link to a broker more than a hop away; None if it would not pay."""

    def opened(self, request: ExchangeRequest) -> ExchangeRequest | None:
        """A new request with this broker's part; None if it knows too little."""

    def fault(self, request: ExchangeRequest, member: int) -> str:
        """What is wrong with the parts of earlier members; empty if nothing is."""

    def added(self, request: ExchangeRequest) -> ExchangeRequest | CycleRefusal:
        """The request with this broker's part."""

    def removal_costs(self, request: ExchangeRequest) -> Sequence[float] | None:
        """The total costs after each link's removal, when all have added their part; None if
        they are unknown."""
