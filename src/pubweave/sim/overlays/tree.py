"""A simulated overlay of `tree` brokers, and what their tables should hold at rest."""

from __future__ import annotations

from pubweave.sim.checkers.routing_tables import check_tables
from pubweave.sim.overlays.base import SimOverlay


class TreeOverlay(SimOverlay):
    """Content routing on a tree, with covering or without."""

    def check_tables(self) -> list[str]:
        cores = {name: self.brokers[name].broker for name in self.topology.neighbors}
        return check_tables(self.topology, cores, self.truth())
