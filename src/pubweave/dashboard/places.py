"""Where brokers are in the picture: as long as possible where they were.

A picture in which everything moves with every link tells nothing about the link. So while a plan
is in motion or waits for a person nobody moves: the places suit the topology before it and after
it alike. Otherwise a changed topology settles anew from the places it had, so that only what
changed moves much, and the page lets it glide there.
"""

from __future__ import annotations

from pubweave.dashboard.source import Placer, Positions
from pubweave.model.ids import BrokerId, Link
from pubweave.model.topology import Topology


class PictureFrame:
    """Keeps the places of one overlay's brokers. Not for two threads at once."""

    def __init__(self, place: Placer) -> None:
        self.positions: Positions = {}
        self._place = place
        self._suits: tuple[frozenset[Link], frozenset[Link] | None] = (frozenset(), None)

    def settle(
        self, brokers: frozenset[BrokerId], links: frozenset[Link], target: frozenset[Link] | None
    ) -> Positions:
        """Places for the brokers with these links; ``target``: where a plan leads, if one is."""
        brokers = brokers | {end for link in links | (target or frozenset()) for end in link}
        is_placed = brokers <= self.positions.keys()
        is_same = (links, target) == self._suits
        is_on_its_way = target is not None and target == self._suits[1]
        if is_placed and (is_same or is_on_its_way):
            return {broker: self.positions[broker] for broker in sorted(brokers)}
        self._suits = links, target
        kept = {b: at for b, at in self.positions.items() if b in brokers}
        topologies = [Topology(brokers, links)]
        if target is not None:
            topologies.append(Topology(brokers, target))
        self.positions = self._place(topologies, kept or None) if brokers else {}
        return self.positions
