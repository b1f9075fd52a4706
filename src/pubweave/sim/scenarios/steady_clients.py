"""Scenarios with steady clients among those that come and go.

What a steady client asked for stands from beginning to end, so what a steady publisher publishes
is due to every steady subscriber that wants it, whatever the overlay is going through; unless the
subscriber's broker crashed since all was last at rest.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from pubweave.model.ids import BrokerId
from pubweave.sim.kernel.nodes import SimClient
from pubweave.sim.kernel.random_content import random_filter
from pubweave.sim.scenarios.routing import RoutingScenario

BUSY_S = 0.03
"""A client that has to move looks so often whether all it said has arrived."""


class SteadyScenario(RoutingScenario):
    """A run with clients that stay put, on a topology that changes under them."""

    def __init__(self, seed: int, **options: Any) -> None:
        """As `RoutingScenario`."""
        self._steady: list[str] = []
        self._crashed: set[BrokerId] = set()
        """Since the last rest."""
        super().__init__(seed, **options)
        self.overlay.on_told_to_move = self._move_client

    def _join_steady(
        self, name: str, *, publishes: bool = True, subscribes: bool = True, can_move: bool = True
    ) -> None:
        world = self.world
        home, latency_s = world.choice(self.homes()), world.uniform(0.0005, 0.005)
        client = self.overlay.join(
            name, home, latency_s=latency_s, limits=self.setting.limits, can_move=can_move
        )
        self._steady.append(name)
        if publishes:
            client.core.advertise(random_filter(world))
        for _ in range(world.integer(1, 3) if subscribes else 0):
            self.overlay.subscribe(client, self.draw_filter())
        client.flush()

    def always_due(self, publisher: SimClient) -> Collection[str]:
        clients, crashed = self.overlay.clients, self._crashed
        if publisher.name not in self._steady:
            return ()
        return [name for name in self._steady if clients[name].home.name not in crashed]

    def _client(self) -> SimClient | None:
        """One of those that come and go."""
        names = [name for name in self.overlay.clients if name not in self._steady]
        return self.overlay.clients[self.world.choice(names)] if names else None

    def _move_client(self, client: SimClient) -> None:
        """Its broker leaves: it says goodbye there when all is said, and somebody joins anew."""
        if self.overlay.clients.get(client.name) is not client:
            return
        session = client.core.session
        if session.is_established and session.queue_messages:
            self.world.after(BUSY_S, self._move_client, client)
        else:
            self.overlay.leave(client.name)
            # Also one that was to stay: it had moved to a broker that a plan takes out since.
            self._steady = [name for name in self._steady if name != client.name]
            self._join()
