"""Rare faults: each does what it says, and a run has those that it is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.mqtt import MqttConfig
from pubweave.core.journal.engine import JournalPolicy
from pubweave.core.vocabulary.effects import Effect
from pubweave.core.vocabulary.events import DeadlineReached, Event, LocalPauseEnded
from pubweave.model.topology import Topology
from pubweave.sim.kernel.clocks import Clock
from pubweave.sim.kernel.disk import DiskSetting
from pubweave.sim.kernel.faults import QUIET, Faults
from pubweave.sim.kernel.network import Network, SimConnection, SimLink
from pubweave.sim.kernel.nodes import HandlingTime, SimBroker
from pubweave.sim.kernel.rare_faults import RARE, RareFaults, SmallLimits
from pubweave.sim.kernel.second_faults import under_way
from pubweave.sim.kernel.world import World
from pubweave.sim.overlays.tree import TreeOverlay
from pubweave.sim.simulate import run_seed


class End:
    """An end that notes what comes, and when."""

    def __init__(self, name: str, world: World) -> None:
        self.name = name
        self.world = world
        self.got: list[tuple[float, object]] = []
        self.opened_at: list[float] = []
        self.is_closed = False

    def opened(self, connection: SimConnection) -> None:
        self.opened_at.append(self.world.now)

    def received(self, connection: SimConnection, messages: Sequence[Any]) -> None:
        self.got += [(self.world.now, message) for message in messages]

    def closed(self, connection: SimConnection) -> None:
        self.is_closed = True

    def is_up(self) -> bool:
        return True


class Wires:
    """Three ends, each connected with the others at the instant 1."""

    def __init__(self) -> None:
        self.world = World(1)
        self.network = Network(self.world)
        self.ends = [End(name, self.world) for name in "abc"]
        self.links: dict[str, SimLink] = {}
        self.connections: dict[str, SimConnection] = {}
        for one, other in ((0, 1), (0, 2), (1, 2)):
            way = self.ends[one].name + self.ends[other].name
            self.links[way] = SimLink(0.1)
            assert self.network.dial(self.links[way], self.ends[one], self.ends[other])
            connection = self.links[way].connection
            assert connection is not None
            self.connections[way] = connection
        self.world.run_until(1.0)

    def say(self, way: str, sender: int, message: str) -> None:
        self.network.send(self.connections[way], self.ends[sender], (message,))  # type: ignore[arg-type]


def test_while_one_end_is_deaf_bytes_pass_the_other_way_and_the_connection_stands() -> None:
    wires = Wires()
    a, b, _ = wires.ends
    wires.links["ab"].deaf, wires.links["ab"].deaf_until = "b", 5.0
    wires.say("ab", 0, "to the deaf")
    wires.say("ab", 1, "from the deaf")
    wires.world.run_until(4.9)
    assert [message for _, message in a.got] == ["from the deaf"]
    assert b.got == []
    assert not a.is_closed
    assert not b.is_closed
    assert not wires.network.dial(wires.links["ab"], a, b)
    assert not wires.network.dial(wires.links["ab"], b, a)
    wires.world.run_until(6.0)
    assert b.got == [(pytest.approx(5.1), "to the deaf")]
    assert wires.network.dial(wires.links["ab"], a, b)


def test_a_site_that_is_away_hears_itself_and_comes_back_as_a_whole() -> None:
    wires = Wires()
    a, b, c = wires.ends
    wires.network.site, wires.network.site_until = frozenset("ab"), 5.0
    wires.say("ab", 0, "inside")
    wires.say("ac", 0, "out")
    wires.say("bc", 2, "in")
    wires.world.run_until(4.9)
    assert [message for _, message in b.got] == ["inside"]
    assert c.got == []
    assert not wires.network.dial(wires.links["ac"], a, c)
    assert not wires.network.dial(wires.links["bc"], c, b)
    assert wires.network.dial(wires.links["ab"], a, b)
    wires.world.run_until(6.0)
    assert [(pytest.approx(5.1), "out")] == c.got
    assert b.got[-1] == (pytest.approx(5.1), "in")


@given(
    seed=st.integers(0, 1000),
    jump=st.floats(0, 1000),
    reading=st.floats(0, 1e6),
)
def test_a_timer_on_a_wrong_clock_never_fires_early(seed: int, jump: float, reading: float) -> None:
    clock = Clock.draw(World(seed))
    clock.jump(jump)
    instant = clock.when(reading)
    assert clock.read(instant) >= reading
    assert clock.read(instant) == pytest.approx(reading)
    assert clock.read(instant + 1.0) == pytest.approx(reading + 1.0, abs=0.031)


def chain(*, world: World | None = None, disk: DiskSetting | None = None) -> TreeOverlay:
    """Three brokers in a row, at rest."""
    world = world or World(1)
    base = BrokerConfig("", ping_every_s=2.0, silence_limit_s=5.0)
    overlay = TreeOverlay(
        world,
        Topology.from_links([("b1", "b2"), ("b2", "b3")]),
        make_config=lambda name: replace(base, id=name),
        handling=HandlingTime(0.0, 0.0),
        disk=disk,
    )
    assert overlay.run_until_quiet(60.0)
    return overlay


def listen(node: SimBroker) -> list[tuple[float, Event]]:
    """What this broker is told from now on, and the time that it is told with it."""
    heard: list[tuple[float, Event]] = []
    handle = node.core_effects

    def hear(event: Event, now: float) -> list[Effect]:
        heard.append((now, event))
        return handle(event, now)

    node.core_effects = hear
    return heard


def test_a_broker_whose_clock_jumps_hears_of_a_pause_and_loses_no_neighbor() -> None:
    overlay = chain()
    node = overlay.brokers["b2"]
    heard, before = listen(node), node.now
    drops = overlay.network.drops
    node.clock = Clock()
    node.clock_jumps(300.0)
    overlay.world.run_until(overlay.world.now + 10.0)
    (pause,) = [event for _, event in heard if isinstance(event, LocalPauseEnded)]
    assert 298.9 < pause.seconds <= 300.0
    assert heard[0][0] == pytest.approx(before + 300.0)
    assert node.now == pytest.approx(before + 310.0)
    assert overlay.network.drops == drops
    assert overlay.run_until_quiet(60.0)


def test_a_broker_with_a_fast_clock_sees_its_deadlines_sooner() -> None:
    world = World(1)
    world.draw_clock = lambda: Clock(1000.0, 1.5)
    overlay = chain(world=world)
    heard = listen(overlay.brokers["b1"])
    overlay.world.run_until(overlay.world.now + 20.0)
    ticks = [now for now, event in heard if isinstance(event, DeadlineReached)]
    assert ticks[0] > 1000.0
    assert ticks[-1] - ticks[0] > 1.4 * 18.0


def test_a_broker_that_comes_back_with_its_wall_clock_set_back_goes_on_at_once() -> None:
    world = World(1)
    walls = {"b1": [0.0], "b2": [60.0, 0.0], "b3": [0.0]}
    names = iter(["b1", "b2", "b3", "b2"])
    world.draw_clock = lambda: Clock(walls[next(names)].pop(0))
    overlay = chain(world=world, disk=DiskSetting(0.001, 1e9, JournalPolicy()))
    node = overlay.brokers["b2"]
    node.crash()
    world.run_until(world.now + 0.2)
    node.start()
    heard = listen(node)
    world.run_until(world.now + 5.0)
    assert sum(isinstance(event, DeadlineReached) for _, event in heard) >= 4
    assert overlay.is_quiet()


def strikes(overlay: TreeOverlay, rare: RareFaults) -> Faults:
    return Faults(
        overlay.world,
        QUIET,
        list(overlay.brokers.values()),
        overlay.paths,
        on_crash=lambda node: None,
        rare=rare,
    )


def test_a_second_fault_strikes_where_something_is_under_way() -> None:
    overlay = chain()
    faults = strikes(overlay, RareFaults(second_fault_per_s=3.0))
    faults.strike_until(overlay.world.now + 2.0)
    overlay.world.run_until(overlay.world.now + 2.0)
    assert faults.counts == {}, "nothing was under way"
    overlay.brokers["b1"].busy_until = overlay.world.now + 4.0
    assert [under_way(node) for node in overlay.brokers.values()] == ["pause", "", ""]
    faults.strike_until(overlay.world.now + 3.0)
    overlay.world.run_until(overlay.world.now + 3.0)
    assert faults.counts["second_in_pause"] >= 1
    assert faults.counts.get("broker_pause", 0) + overlay.network.drops >= 1


def test_a_broker_that_is_down_is_under_way_for_its_neighbors() -> None:
    overlay = chain()
    overlay.brokers["b2"].crash()
    assert [under_way(node) for node in overlay.brokers.values()] == ["", "crash", ""]
    overlay.brokers["b2"].start()
    overlay.world.run_until(overlay.world.now + 0.09)
    assert "restart" in {under_way(node) for node in overlay.brokers.values()}


def test_what_still_lasts_ends_when_all_heals() -> None:
    overlay = chain()
    faults = strikes(overlay, RareFaults(one_way_cut_per_s=2.0, site_away_per_s=2.0))
    faults.strike_until(overlay.world.now + 3.0)
    overlay.world.run_until(overlay.world.now + 3.0)
    assert faults.counts["one_way_cut"] >= 1
    assert faults.counts["site_away"] >= 1
    faults.heal()
    assert overlay.network.site_until <= overlay.world.now
    assert not any(path.is_cut(overlay.world.now) for path in overlay.paths)


def test_small_limits_reach_every_room_of_a_configuration() -> None:
    small = SmallLimits.draw(World(3))
    native = small.of(BrokerConfig("b1"))
    assert native.limits == small.limits
    assert native.topics.keep_bytes == small.keep_bytes
    config = small.of(BrokerConfig("b1", mqtt=MqttConfig(queue_messages=7)))
    assert config.topics == BrokerConfig("b1").topics
    assert config.entry.queue_bytes_per_client == small.client_queue_bytes
    assert config.mqtt is not None
    assert config.mqtt.queue_messages == min(7, small.mqtt_queue_messages)
    assert config.mqtt.queue_bytes == small.mqtt_queue_bytes


COUNTED = {
    "long_pauses": "long_pause",
    "one_way_cuts": "one_way_cut",
    "sites_away": "site_away",
    "clocks": "clock_jump",
}


@pytest.mark.parametrize("kind", RARE)
def test_a_run_has_the_rare_fault_it_is_asked_for_and_no_other(kind: str) -> None:
    results = [run_seed("routing", seed, max_brokers=6, fault=kind) for seed in range(2, 7)]
    assert all(result.setting["rare"] == (kind,) for result in results)
    assert not any(result.violations for result in results)
    counts = {name for result in results for name in result.counts}
    assert counts & set(COUNTED.values()) == ({COUNTED[kind]} if kind in COUNTED else set())
    assert (kind == "pairs") == any(name.startswith("second_in_") for name in counts)


def test_where_nothing_is_to_fail_nothing_rare_does() -> None:
    assert run_seed("churn", 1, max_brokers=3, fault="none").setting["rare"] == ()
    assert run_seed("transform", 1, max_brokers=10, fault="crashes").setting["rare"] == ()


def test_a_run_with_rare_faults_is_the_same_each_time() -> None:
    first, again = (run_seed("routing", 270_001, max_brokers=5, fault="clocks") for _ in range(2))
    assert first == again
