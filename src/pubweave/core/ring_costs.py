"""One broker's view of a possible exchange: what it knows, put into the equations of `ci_rules`.

A ring is the way between two brokers and the link that would close it. A broker says whether it
wants such a link (evaluation, Eqs. 3-7) and what the removal of each of its links would leave it
to pay (consensus, Eq. 8), or that it knows too little.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pubweave.core.link_prices import LinkPrices
from pubweave.core.neighborhood import Known, Neighborhood
from pubweave.core.organize_config import OrganizeConfig
from pubweave.design.ci_rules import (
    Heuristic,
    TripleEstimate,
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


@dataclass(frozen=True)
class Wish:
    """A link that this broker would like to have."""

    known: Known
    direct_cost: float
    gain: float
    """What it promises by this broker's view alone, in notifications times cost."""


class RingCosts:
    """The sums of one broker."""

    def __init__(
        self, own: BrokerId, config: OrganizeConfig, around: Neighborhood, prices: LinkPrices
    ) -> None:
        self._own = own
        self._config = config
        self._around = around
        self._prices = prices
        self.own_count = 0
        """I_i: how many notifications of the last window concerned this broker's own clients."""

    # --- evaluation ------------------------------------------------------------------------

    def wish(self, broker: BrokerId, now: float) -> Wish | None:
        """The wish for a link to a broker that is more than a hop away; None if there is none."""
        known = self._around.get(broker)
        direct_cost = self._prices.new_link_price(broker, now)
        if known is None or direct_cost is None or len(known.path) < 3:
            return None
        heuristic = self._config.heuristic
        if heuristic is Heuristic.CI:
            return self._wish_by_cost(known, direct_cost)
        weight = link_weight(heuristic, direct_cost, known.common)
        weights = [
            link_weight(heuristic, cost, common)
            for cost, common in zip(known.link_costs, known.link_commons, strict=True)
        ]
        if not wants_lighter_link(weight, weights):
            return None
        return Wish(known, direct_cost, max(weights) - weight)

    def _wish_by_cost(self, known: Known, direct_cost: float) -> Wish | None:
        common = self._commons(known.path)
        triple = None if common is None else self._triple(known.path, common)
        if common is None or triple is None:
            return None
        processing = (self._prices.broker_price(), *known.processing)
        cost = path_costs(processing, known.link_costs, common, triple)[-1]
        if not wants_link(direct_cost, cost, known.common):
            return None
        return Wish(known, direct_cost, (cost - direct_cost) * known.common)

    # --- consensus -------------------------------------------------------------------------

    def vector(
        self,
        ring: Sequence[BrokerId],
        processing: Sequence[float],
        link_costs: Sequence[float],
    ) -> list[float] | None:
        """What each link's removal would leave this broker to pay; None if it knows too little."""
        member = ring.index(self._own)
        heuristic = self._config.heuristic
        if heuristic is Heuristic.CI:
            common = self._commons(ring)
            triple = None if common is None else self._triple(ring, common)
            if common is None or triple is None:
                return None
            return removal_costs(member, processing, link_costs, common, triple)
        shared = self._around.common(ring[(member + 1) % len(ring)])
        if heuristic is Heuristic.MIT and shared is None:
            return None
        weight = link_weight(heuristic, link_costs[member], shared or 0.0)
        return removal_weights(member, weight, len(ring))

    # --- what is known ---------------------------------------------------------------------

    def _commons(self, members: Sequence[BrokerId]) -> list[float] | None:
        """I(own, member) of all; the own place is never looked at."""
        found: list[float] = []
        for member in members:
            common = 0.0 if member == self._own else self._around.common(member)
            if common is None:
                return None
            found.append(common)
        return found

    def _triple(
        self, members: Sequence[BrokerId], common: Sequence[float]
    ) -> TripleEstimate | None:
        overlap = neighborhood_overlap(self.own_count, [known.common for _, known in self._around])
        if overlap is None:
            return None
        by_overlap = triple_by_overlap(overlap, common)
        if not self._config.joint_triples:
            return by_overlap

        def by_filters(via: int, far: int) -> float:
            joint = self._around.joint_hits(members[via], members[far])
            if joint is None:
                return by_overlap(via, far)
            return min(joint, common[via], common[far])

        return by_filters
