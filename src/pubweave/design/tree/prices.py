"""Prices: what a notification costs at each broker and on each link that could be (CI 3.1).

``processing`` is p_v, ``communication`` is c_e for every pair of brokers, infinite where there can
be no link: nobody knows its price, or somebody forbids it. Arrays and names only; where the
numbers come from is in `profile_inputs`.

Invariant: communication is symmetric, not negative, and infinite on the diagonal.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from pubweave.design.tree.traffic import DesignError, Floats
from pubweave.model.ids import BrokerId, Link, natural_order


@dataclass(frozen=True, eq=False)
class Prices:
    """p_v and c_e of the brokers, in their natural order."""

    brokers: tuple[BrokerId, ...]
    processing: Floats
    communication: Floats

    def __post_init__(self) -> None:
        count = len(self.brokers)
        if self.processing.shape != (count,) or self.communication.shape != (count, count):
            raise DesignError(f"{count} brokers need {count} prices and a square of them")
        with np.errstate(invalid="ignore"):
            wrong = not (self.processing >= 0).all() or not (self.communication >= 0).all()
        if wrong:
            raise DesignError("a price is 0 or more")

    @classmethod
    def of(cls, processing: Mapping[BrokerId, float], links: Mapping[Link, float]) -> Prices:
        """From a price for every broker and for some links; other links cannot be.

        >>> Prices.of({"a": 1.0, "b": 2.0}, {Link("a", "b"): 5.0}).communication[0, 1]
        5.0
        """
        brokers = tuple(sorted(processing, key=natural_order))
        index_of = {broker: index for index, broker in enumerate(brokers)}
        communication = np.full((len(brokers), len(brokers)), np.inf)
        for link, price in links.items():
            a, b = index_of[link.a], index_of[link.b]
            communication[a, b] = communication[b, a] = price
        return cls(brokers, np.array([processing[b] for b in brokers], float), communication)

    @classmethod
    def from_matrix(
        cls, brokers: tuple[BrokerId, ...], processing: Floats, communication: Floats
    ) -> Prices:
        """From a full matrix; the two directions of a pair are averaged, the diagonal ignored."""
        both = (communication + communication.T) / 2
        np.fill_diagonal(both, np.inf)
        return cls(brokers, np.asarray(processing, float), both)

    def without(self, links: Iterable[Link]) -> Prices:
        """These prices with some links forbidden."""
        index_of = {broker: index for index, broker in enumerate(self.brokers)}
        left = self.communication.copy()
        for link in links:
            a, b = index_of[link.a], index_of[link.b]
            left[a, b] = left[b, a] = np.inf
        return replace(self, communication=left)

    def of_link(self, link: Link) -> float:
        """c_e of one link. O(brokers): for reports."""
        return float(self.communication[self.brokers.index(link.a), self.brokers.index(link.b)])
