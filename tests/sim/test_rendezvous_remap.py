"""Remappings step by step, with somebody dying at each step: they complete or return."""

from __future__ import annotations

from typing import Any

import pytest

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.rendezvous import RendezvousConfig
from pubweave.core.config.session import SessionLimits
from pubweave.deploy.remap.remapper import RemapDocument, RemapRefusedError, abort_remap
from pubweave.design.dynatops.mapping.ring import RING_SIZE
from pubweave.model.deployment import STEPS, RemapStep
from pubweave.model.filters.text import parse_filter
from pubweave.model.ids import BrokerId
from pubweave.model.topology import Topology
from pubweave.sim.hosts.remap import SimRemaps
from pubweave.sim.kernel.nodes import HandlingTime
from pubweave.sim.kernel.world import World
from pubweave.sim.overlays.rendezvous import ring_overlay, ring_rules, upkeep_of

COUNT = 6
NAMES = [f"b{number}" for number in range(COUNT)]
UNDER_WAY = [step for step in STEPS if step is not RemapStep.DONE]


class Drill:
    """A ring of six, each with a client that publishes and subscribes to all topics but one."""

    def __init__(self) -> None:
        self.world = World(7)
        topology = Topology.from_links([(NAMES[0], name) for name in NAMES[1:]])
        self.overlay = ring_overlay(
            self.world,
            topology,
            make_config=self._config,
            handling=HandlingTime(0.0, 0.0),
            latency_s=lambda link: 0.002,
        )
        self.remaps = SimRemaps(self.world)
        rules = ring_rules(self.overlay)
        assert rules is not None
        rules.version = self.remaps.version
        for broker in self.overlay.brokers.values():
            self.remaps.attend(broker)
        for number, name in enumerate(NAMES):
            self._attach(f"k{number}", name, [t for t in range(COUNT) if t != number])
        assert self.overlay.run_until_quiet(20.0), self.overlay.check_tables()

    def _config(self, broker: BrokerId) -> BrokerConfig:
        position = RING_SIZE // COUNT * NAMES.index(broker)
        return BrokerConfig(broker, "rendezvous", rendezvous=RendezvousConfig(position=position))

    def _attach(self, name: str, broker: BrokerId, topics: list[int]) -> None:
        self.overlay.join(name, broker, latency_s=0.001, limits=SessionLimits())
        client = self.overlay.clients[name]
        for topic in topics:
            filter_ = parse_filter(f"class = 't{topic}'")
            self.overlay.subscribe(client, filter_)
        client.core.advertise(parse_filter(f"class = 't{topics[0]}'"))
        client.flush()

    def publish(self) -> None:
        """Everybody, again and again, until the run is over."""
        for client in self.overlay.clients.values():
            topic = parse_filter_topic(client.core.advertisements)
            self.overlay.publish(client, topic, {})
        self.world.after(0.05, self.publish)

    def turn(self, by: int = 2) -> None:
        """Everybody takes the position some places on."""
        where = {
            name: RING_SIZE // COUNT * ((place + by) % COUNT) for place, name in enumerate(NAMES)
        }
        self.remaps.submit(where)

    def crash(self, name: BrokerId) -> None:
        """Its clients go on at another one, and offer there again what they published lately."""
        for client in [c for c in self.overlay.clients.values() if c.home.name == name]:
            self.overlay.homes[client.name] = NAMES[0]
            self.world.after(0.2, client.attach_to, self.overlay.brokers[NAMES[0]])
        self.overlay.remove_broker(name)
        self.remaps.gone(name)

    def finish(self) -> RemapDocument:
        """Let it end, whichever way, and everything come to rest; nothing may be missing."""
        while self.remaps.remap is None or not self.remaps.remap.step.is_final:
            self.world.run_until(self.world.now + 0.5)
            assert self.world.now < 120.0, self.remaps.remap
        self.publish = lambda: None  # type: ignore[method-assign]
        assert self.overlay.run_until_quiet(60.0), self.overlay.check_tables()
        self.overlay.check_deliveries()
        assert not self.overlay.judge.violations
        return self.remaps.remap

    def positions(self) -> dict[BrokerId, int]:
        return {
            name: upkeep_of(node.broker).plane.table.own.position
            for name, node in self.overlay.brokers.items()
        }


def parse_filter_topic(advertised: dict[str, Any]) -> str:
    return str(next(iter(advertised.values())).predicates[0].value)


def test_all_brokers_move_under_traffic_and_nothing_is_lost() -> None:
    drill = Drill()
    steps: list[RemapStep] = []
    drill.remaps.on_step = lambda remap: steps.append(remap.step)
    drill.world.after(0.0, lambda: drill.publish())
    drill.world.after(0.5, drill.turn)
    assert drill.finish().step is RemapStep.DONE
    assert steps == list(STEPS)
    assert drill.positions()["b0"] == RING_SIZE // COUNT * 2
    assert drill.overlay.judge.due == drill.overlay.judge.deliveries


def test_a_second_remapping_waits_for_the_first() -> None:
    drill = Drill()
    drill.turn()
    drill.turn(by=3)
    assert drill.remaps.counts == {"remaps": 1, "remaps_refused": 1}
    drill.finish()
    drill.turn(by=3)
    assert drill.finish().version == 3
    assert drill.positions()["b0"] == RING_SIZE // COUNT * 3


@pytest.mark.slow
@pytest.mark.parametrize("step", UNDER_WAY)
@pytest.mark.parametrize("who", ["broker", "remapper", "both"])
def test_it_completes_or_returns_whoever_dies_in_a_step(step: RemapStep, who: str) -> None:
    drill = Drill()

    def kill(remap: RemapDocument) -> None:
        if remap.step is step:
            if who != "broker":
                drill.remaps.crash_remapper(0.5)
            if who != "remapper":
                drill.world.after(0.004, drill.crash, "b3")

    drill.remaps.on_step = kill
    drill.world.after(0.0, lambda: drill.publish())
    drill.world.after(0.5, drill.turn)
    ended = drill.finish()
    versions = {upkeep_of(node.broker).default for node in drill.overlay.brokers.values()}
    assert versions == {2 if ended.step is RemapStep.DONE else 1}


@pytest.mark.slow
@pytest.mark.parametrize("step", [step for step in UNDER_WAY if not step.is_decided])
def test_an_operator_can_return_before_the_end(step: RemapStep) -> None:
    drill = Drill()
    before = drill.positions()

    def abort(remap: RemapDocument) -> None:
        if remap.step is step:
            script = abort_remap(drill.remaps.layout, "changed my mind")
            drill.world.after(0.003, drill.remaps.store.run, script)

    drill.remaps.on_step = abort
    drill.world.after(0.0, lambda: drill.publish())
    drill.world.after(0.5, drill.turn)
    assert drill.finish().step is RemapStep.ABORTED
    assert drill.positions() == before


def test_after_the_last_step_there_is_no_way_back() -> None:
    drill = Drill()
    drill.turn()
    drill.finish()
    with pytest.raises(RemapRefusedError, match="no remapping is under way"):
        drill.remaps.store.run(abort_remap(drill.remaps.layout, "too late"))
