"""The scenario `placement`: users of a rendezvous overlay are sent where they fit, under churn.

It lives as the scenario `rendezvous` does, and brokers belong to placement clusters: whoever
subscribes or unsubscribes may be sent to another broker of its cluster. What a user had subscribed
to before it was sent away stays due to it all the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.placement import LASTING, SIMILARITY, PlacementConfig
from pubweave.core.vocabulary.effects import FollowRedirect, ReportMove
from pubweave.model.ids import BrokerId
from pubweave.model.messages.session import Subscribe
from pubweave.sim.churn.rendezvous import RendezvousScenario
from pubweave.sim.kernel.nodes import SimBroker, SimClient
from pubweave.sim.kernel.results import RunResult
from pubweave.sim.overlays.rendezvous import RendezvousOverlay, upkeep_of

UPDATE_S = 0.5


class PlacementOverlay(RendezvousOverlay):
    """Brokers and clients of one run."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.on_sent: Callable[[SimClient, BrokerId], None] = lambda client, home: None
        """Hears of each client that goes to another broker."""
        super().__init__(*args, **options)

    def contacts_of(self, broker: SimBroker) -> Iterable[BrokerId]:
        """Those of its placement cluster that are there; whoever comes later does the same."""
        contacts = broker.config.placement.contacts(broker.name)
        return [name for name in contacts if name in self.brokers]

    def _on_move(self, client: SimClient, effect: FollowRedirect | ReportMove) -> None:
        """What its old broker had taken in stays due."""
        super()._on_move(client, effect)
        session = client.core.session
        untold = {
            message.id
            for message in (*session.unacked, *session.waiting, *session.pending)
            if isinstance(message, Subscribe)
        }
        known = self._heard.setdefault(client.name, set())
        known.update(id_ for id_ in client.core.subscriptions if id_ not in untold)
        if isinstance(effect, FollowRedirect):
            self.on_sent(client, client.home.name)


class PlacementScenario(RendezvousScenario):
    """One run."""

    name = "placement"
    overlay_type = PlacementOverlay
    overlay: PlacementOverlay

    def __init__(self, seed: int, **options: Any) -> None:
        """As `ChurnScenario`."""
        super().__init__(seed, **options)
        self.overlay.on_sent = self._await_answer

    def draw_setting(self, max_brokers: int, rtt: Any) -> Any:
        drawn = super().draw_setting(max_brokers, rtt)
        self._cluster_size = self.world.integer(2, 7)
        self._load_weight = float(self.world.choice([0.0, 0.5, PlacementConfig.load_weight]))
        self._rule = str(self.world.choice([LASTING, LASTING, LASTING, SIMILARITY]))
        return drawn

    def _config(self, broker: BrokerId) -> BrokerConfig:
        number, size = int(broker.removeprefix("b")) - 1, self._cluster_size
        first = number - number % size
        cluster = [f"b{other + 1}" for other in range(first, first + size)]
        placement = PlacementConfig(
            members=tuple(name for name in cluster if name != broker),
            update_s=UPDATE_S,
            load_weight=self._load_weight,
            rest_s=UPDATE_S,
            rule=self._rule,
        )
        return replace(super()._config(broker), placement=placement)

    def _result(self) -> RunResult:
        self.counts["users_sent"] = sum(upkeep_of(n.broker).placing.sent for n in self._living)
        return super()._result()
