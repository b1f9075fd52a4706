"""A simulated overlay whose strategy the simulator knows nothing of: what every strategy promises.

Of such a strategy no tables can be read. But what was in place when the overlay last came to rest
has to hold until somebody takes it back: a publication is due to each subscription that stood then,
if it is made under an advertisement that stood then, whatever breaks meanwhile.
"""

from __future__ import annotations

from typing import Any

from pubweave.model.ids import BrokerId, publisher_of
from pubweave.sim.kernel.nodes import SimClient
from pubweave.sim.overlays.base import SimOverlay


class SettledOverlay(SimOverlay):
    """Any strategy on a tree."""

    def __init__(self, *args: Any, **options: Any) -> None:
        """As `SimOverlay`."""
        self._settled: set[str] = set()
        """Subscriptions and advertisements that stood at the last rest."""
        super().__init__(*args, **options)

    def is_due(
        self, subscription: str, advertisements: list[str], path: tuple[BrokerId, ...]
    ) -> bool:
        offered = self._settled.intersection(advertisements)
        if subscription not in self._settled or not offered:
            return False
        ends = {publisher_of(subscription): path[0], publisher_of(min(offered)): path[-1]}
        return all(self._is_known(client, broker) for client, broker in ends.items())

    def _is_known(self, client: str, broker: BrokerId) -> bool:
        """Whether a broker, or what it will be when it comes back, has the session of a client."""
        core = self.brokers[broker].known_core
        is_attached = self.clients[client].core.session.is_established
        return is_attached and core is not None and client in core.sessions.clients

    def check_tables(self) -> list[str]:
        """Nothing to compare: what is asked for now is settled."""
        truth = self.truth()
        self._settled = {*truth.subscriptions, *truth.advertisements}
        return []

    def _on_session(self, client: SimClient, resumed: bool) -> None:
        super()._on_session(client, resumed)
        if not resumed:
            asked = (client.core.subscriptions, client.core.advertisements)
            self._settled.difference_update(*asked)
