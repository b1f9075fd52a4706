"""What is wanted at and behind each broker of a publisher's tree, and what one more would add."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from pubweave.model.ids import BrokerId
from pubweave.model.topology import Topology


class WantedTree:
    """The tree of one publisher, rooted at its broker.

    >>> tree = WantedTree(Topology.from_links([("b1", "b2"), ("b2", "b3")]), {}, "b1")
    >>> tree.add("b3", 0b0111)
    >>> tree.added(0b1100)
    {'b1': 1, 'b2': 2, 'b3': 3}
    """

    def __init__(
        self,
        topology: Topology,
        hop_ms: Mapping[tuple[BrokerId, BrokerId], float],
        root: BrokerId,
    ) -> None:
        self._above: dict[BrokerId, BrokerId | None] = {root: None}
        self.way_ms: dict[BrokerId, float] = {root: 0.0}
        """From the publisher's broker to each."""
        order = [root]
        for broker in order:
            for neighbor in topology.neighbors[broker]:
                if neighbor not in self._above:
                    self._above[neighbor] = broker
                    way_ms = self.way_ms[broker] + hop_ms.get((broker, neighbor), 0.0)
                    self.way_ms[neighbor] = way_ms
                    order.append(neighbor)
        self._order = order
        self._below: dict[BrokerId, list[BrokerId]] = {broker: [] for broker in order}
        for broker, above in self._above.items():
            if above is not None:
                self._below[above].append(broker)
        self._own: dict[BrokerId, Counter[int]] = {broker: Counter() for broker in order}
        self._behind: dict[BrokerId, int] = dict.fromkeys(order, 0)

    def add(self, broker: BrokerId, bits: int) -> None:
        """A client there wants these publications. O(depth x degree)."""
        self._own[broker][bits] += 1
        self._renew(broker)

    def remove(self, broker: BrokerId, bits: int) -> None:
        self._own[broker][bits] -= 1
        if not self._own[broker][bits]:
            del self._own[broker][bits]
        self._renew(broker)

    def _renew(self, broker: BrokerId | None) -> None:
        """Put together anew what is wanted behind the brokers from here to the publisher."""
        while broker is not None:
            behind = 0
            for bits in self._own[broker]:
                behind |= bits
            for below in self._below[broker]:
                behind |= self._behind[below]
            self._behind[broker] = behind
            broker = self._above[broker]

    def added(self, bits: int) -> dict[BrokerId, int]:
        """Messages that one more client would add, by the broker it is at. O(brokers)."""
        added: dict[BrokerId, int] = {}
        for broker in self._order:
            above = self._above[broker]
            so_far = 0 if above is None else added[above]
            added[broker] = so_far + (bits & ~self._behind[broker]).bit_count()
        return added

    def added_without(self, own: BrokerId, bits: int) -> dict[BrokerId, int]:
        """The same for a client that is counted already, were it not where it is."""
        self.remove(own, bits)
        added = self.added(bits)
        self.add(own, bits)
        return added
