"""A simulated overlay whose strategy the simulator knows nothing of: no tables to compare.

Deliveries are judged as everywhere, for that asks no tables.
"""

from __future__ import annotations

from pubweave.sim.overlays.base import SimOverlay


class UnknownOverlay(SimOverlay):
    """Any strategy on a tree."""

    def check_tables(self) -> list[str]:
        return []
