"""A broker leaves for good while MQTT clients publish, come and go: no session ends with it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pubweave.core.mqtt.evacuation import SessionEvacuation
from pubweave.model.plans import Detach
from pubweave.sim.hosts.mqtt import SimMqttClient
from pubweave.sim.kernel.faults import FaultRates
from pubweave.sim.kernel.world import World
from pubweave.sim.parts.mqtt_clients import MqttClients, MqttSetting
from pubweave.sim.parts.run import Options, SimPart, SimRun
from pubweave.sim.scenarios.mqtt import draw_mqtt, mqtt
from tests.sim.action_arbiter import ActionArbiter

FETCHING_S = 3.0
"""After this, clients that are still not let in look for another broker."""


class Leaving(SimPart):
    """In the first round a leaf of the tree leaves; some of its clients are away."""

    def __init__(self, run: SimRun, clients: MqttClients) -> None:
        self.run = run
        self.world = run.world
        self.clients = clients
        self.arbiter = ActionArbiter(run.overlay, lambda: self.world.uniform(0.01, 0.1))
        self.neighbors = run.setting.topology.neighbors
        leaves = [b for b in sorted(self.neighbors) if len(self.neighbors[b]) == 1]
        self.leaf = self.world.choice(leaves)
        self.has_left = False

    def begin(self, end: float) -> None:
        if not self.has_left:
            self.world.after(1.0, self._leave)

    def _leave(self) -> None:
        self.has_left = True
        self.clients.checker.wills.leaving.add(self.leaf)
        self.run.homes = lambda: [b for b in self.run.overlay.brokers if b != self.leaf]
        for client in self._there()[::2]:
            client.stay_away(self.world.uniform(1.0, 12.0))
        self.arbiter.begin(Detach(self.leaf, *self.neighbors[self.leaf]))
        self.world.after(FETCHING_S, self._look_elsewhere)

    def _there(self) -> list[SimMqttClient]:
        return [c for c in self.clients.clients.values() if c.home.name == self.leaf]

    def _look_elsewhere(self) -> None:
        for client in self._there():
            if not client.is_connected:
                self.clients.checker.moved(client.name)
                home = self.run.overlay.brokers[self.world.choice(self.run.homes())]
                client.move_to(home, self.world.uniform(0.001, 0.01))
        self.world.after(FETCHING_S, self._look_elsewhere)


CALM = FaultRates(connection_drop_per_s=0.2, partition_per_s=0.0, broker_pause_per_s=0.0)


def drawn(world: World, max_brokers: int) -> MqttSetting:
    """With somebody to leave, nobody else who moves, and links that break but come back."""
    found = draw_mqtt(world, max_brokers)
    while len(found.topology.brokers) < 3:
        found = draw_mqtt(world, max_brokers)
    return replace(found, faults=CALM, moves=0, absences=0, redirections=0, queue_messages=200_000)


def begun(seed: int, durability: str = "memory") -> tuple[SimRun, Leaving]:
    """A run in which a broker leaves."""
    world, options = World(seed), Options(max_brokers=5, durability=durability)
    run = mqtt(world, options, drawn(world, 5))
    assert isinstance(run.workload, MqttClients)
    leaving = Leaving(run, run.workload)
    run.compose(run.workload, leaving)
    return run, leaving


def left(seed: int) -> tuple[tuple[str, ...], int]:
    """What a run in which a broker left did wrong, and how many sessions were lost."""
    run, leaving = begun(seed)
    result = run.run()
    (record,) = leaving.arbiter.records.values()
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
        run, _ = begun(seed, "journal")
        assert not run.run().violations, seed
