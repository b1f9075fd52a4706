"""A broker leaves for good while MQTT clients publish, come and go: no session ends with it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from pubweave.core.mqtt.evacuation import SessionEvacuation
from pubweave.model.plans import Detach
from pubweave.sim.hosts.mqtt import SimMqttClient
from pubweave.sim.kernel.faults import FaultRates
from pubweave.sim.kernel.world import World
from pubweave.sim.scenarios.mqtt import MqttScenario, MqttSetting
from tests.sim.action_arbiter import ActionArbiter

FETCHING_S = 3.0
"""After this, clients that are still not let in look for another broker."""


class LeavingScenario(MqttScenario):
    """In the first round a leaf of the tree leaves; some of its clients are away."""

    def __init__(self, seed: int, **options: Any) -> None:
        super().__init__(seed, **options)
        self.arbiter = ActionArbiter(self.overlay, lambda: self.world.uniform(0.01, 0.1))
        self.gone = ""
        leaves = [b for b in sorted(self.overlay.brokers) if len(self._neighbors(b)) == 1]
        self.leaf = self.world.choice(leaves)

    def _neighbors(self, broker: str) -> list[str]:
        links = self.setting.topology.links
        return sorted({end for link in links if broker in link for end in link} - {broker})

    def _be_active(self) -> None:
        if not self.gone:
            self.world.after(1.0, self._leave)
        super()._be_active()

    def _leave(self) -> None:
        self.gone = self.leaf
        for client in self._there()[::2]:
            client.stay_away(self.world.uniform(1.0, 12.0))
        self.arbiter.begin(Detach(self.leaf, *self._neighbors(self.leaf)))
        self.world.after(FETCHING_S, self._look_elsewhere)

    def _there(self) -> list[SimMqttClient]:
        return [c for c in self.clients.values() if c.home.name == self.leaf]

    def _look_elsewhere(self) -> None:
        for client in self._there():
            if not client.is_connected:
                self.checker.moved(client.name)
                client.move_to(self._any_broker(), self.world.uniform(0.001, 0.01))
        self.world.after(FETCHING_S, self._look_elsewhere)

    def _any_broker(self) -> Any:
        left = [node for name, node in self.overlay.brokers.items() if name != self.gone]
        return self.world.choice(left)

    def _check_retained(self) -> None:
        """Who is gone hears nothing more."""
        node = self.overlay.brokers.pop(self.gone)
        super()._check_retained()
        self.overlay.brokers[self.gone] = node


DRAW = MqttSetting.draw
CALM = FaultRates(connection_drop_per_s=0.2, partition_per_s=0.0, broker_pause_per_s=0.0)


def drawn(world: World, max_brokers: int) -> MqttSetting:
    """With somebody to leave, nobody else who moves, and links that break but come back."""
    found = DRAW(world, max_brokers)
    while len(found.topology.brokers) < 3:
        found = DRAW(world, max_brokers)
    return replace(found, faults=CALM, moves=0, absences=0, redirections=0, queue_messages=200_000)


@pytest.fixture(autouse=True)
def _settings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MqttSetting, "draw", drawn)


def left(seed: int) -> tuple[tuple[str, ...], int]:
    """What a run in which a broker left did wrong, and how many sessions were lost."""
    scenario = LeavingScenario(seed, max_brokers=5)
    result = scenario.run()
    (record,) = scenario.arbiter.records.values()
    assert record.committed
    return result.violations, result.counts["sessions_lost"]


def test_no_session_ends_with_its_broker() -> None:
    assert left(0) == ((), 0)


@pytest.mark.slow
def test_no_session_ends_with_its_broker_in_more_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    assert [left(seed) for seed in range(1, 13)] == [((), 0)] * 12
    monkeypatch.setattr(SessionEvacuation, "add", lambda *_: None)
    assert sum(left(seed)[1] for seed in range(1, 13)) > 0, "it would not be noticed"


@pytest.mark.slow
def test_a_broker_that_could_not_leave_keeps_its_promises() -> None:
    """With crashes the action is given up, in the middle of it all."""
    for seed in range(4):
        result = LeavingScenario(seed, max_brokers=5, durability="journal").run()
        assert not result.violations, seed
