"""Which brokers hang together while links are being added (union-find)."""

from __future__ import annotations

from collections.abc import Iterable

from pubweave.model.ids import BrokerId, Link


class DisjointSets:
    """Parts of a set of brokers that only ever grow together; near-constant time per call."""

    def __init__(self, brokers: Iterable[BrokerId]) -> None:
        self._nearer = {broker: broker for broker in brokers}

    def join(self, link: Link) -> bool:
        """Join the parts of a link's two ends; False if they were one already."""
        one, other = self._representative(link.a), self._representative(link.b)
        self._nearer[one] = other
        return one != other

    def together(self, one: BrokerId, other: BrokerId) -> bool:
        """Whether two brokers are in the same part."""
        return self._representative(one) == self._representative(other)

    def _representative(self, broker: BrokerId) -> BrokerId:
        nearer = self._nearer
        while nearer[broker] != broker:
            nearer[broker] = nearer[nearer[broker]]
            broker = nearer[broker]
        return broker
