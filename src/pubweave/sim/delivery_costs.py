"""What trees cost for publications that a run has seen: CI Eqs. 1 and 2 word for word.

The slow and obvious form, on purpose: it judges brokers that decide by `design.ci_rules`, and
shares no code with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import pairwise

from pubweave.model.ids import BrokerId, Link
from pubweave.model.topology import Topology


class DeliveryCosts:
    """Prices of all brokers and links."""

    def __init__(
        self, processing: Callable[[BrokerId], float], communication: Callable[[Link], float]
    ) -> None:
        self._processing = processing
        self._communication = communication

    def of_all(self, topology: Topology, interests: Iterable[tuple[BrokerId, ...]]) -> float:
        """cost(N, T): each interest is V(n), the publisher's broker first. Eq. 2."""
        return sum(self.of_one(topology, brokers) for brokers in interests)

    def of_one(self, topology: Topology, brokers: tuple[BrokerId, ...]) -> float:
        """cost(n, T): the brokers and links of the smallest subtree with all of them. Eq. 1."""
        ways = [topology.path(brokers[0], broker) for broker in dict.fromkeys(brokers)]
        passed = {broker for way in ways for broker in way}
        links = {Link.between(*hop) for way in ways for hop in pairwise(way)}
        return sum(self._processing(broker) for broker in sorted(passed)) + sum(
            self._communication(link) for link in sorted(links)
        )
