"""The scenario `mqtt`: MQTT clients at the doors of random trees, random faults, and rest between.
Other overlays than trees, with the same clients and faults, are an option (``strategy``).

At rest, clients subscribe. Then they publish while connections of links and clients break, links
are cut, brokers stall, clients go to other brokers with their sessions, by themselves or because
they are told to, or stay away until more waits than a session may keep, and, with journals, brokers
crash and disks fail. Then all heals, and what MQTT promises must have been kept (`checkers/mqtt`);
a burst at rest tells whether shared subscriptions and retained publications are right everywhere.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from pubweave.core.config.mqtt import MqttConfig
from pubweave.core.vocabulary.events import MigrationRequested
from pubweave.generate.topologies.latencies import Matrix
from pubweave.generate.topologies.trees import random_tree
from pubweave.model.mqtt_packets import Publish
from pubweave.model.topology import Topology
from pubweave.sim.checkers.mqtt import MqttChecker
from pubweave.sim.hosts.mqtt import SimMqttClient
from pubweave.sim.kernel.disk import DiskSetting
from pubweave.sim.kernel.faults import FaultRates, Faults
from pubweave.sim.kernel.nodes import HandlingTime
from pubweave.sim.kernel.results import RunResult
from pubweave.sim.kernel.trace import Trace
from pubweave.sim.kernel.world import World
from pubweave.sim.overlays.mqtt import OVERLAYS, TREE, config_of, order_of, wants
from pubweave.sim.scenarios.crash_losses import journal_counts, with_disk_faults
from pubweave.sim.scenarios.routing import TelemetrySink

REST_LIMIT_S = 120.0
FOLLOWING_SHARE = 0.8
"""Of the clients that are told to go to another broker."""
GROUP_PATTERN = "jobs/#"
PATTERNS = ("a/#", "a/+", "+/x", "a/x", "b/+/c", "b/#", "#")
TOPICS = ("a/x", "a/y", "b/x", "b/1/c", "b/2/c", "a")


@dataclass(frozen=True)
class MqttSetting:
    """What one run is like, drawn from its seed."""

    topology: Topology
    faults: FaultRates
    clients: int
    rounds: int
    round_s: float
    publications: int
    client_drops: int
    moves: int
    absences: int
    """How many times a client stays away for a while."""
    queue_messages: int
    """What a session may keep."""
    redirections: int
    """How many times a client is told to go to another broker; most do."""

    @classmethod
    def draw(cls, world: World, max_brokers: int) -> MqttSetting:
        return cls(
            topology=random_tree(world.integer(1, max_brokers), world.rng),
            faults=FaultRates(
                connection_drop_per_s=world.uniform(0.0, 1.0),
                broker_pause_per_s=0.05,
                partition_s=(0.2, 2.0),
            ),
            clients=world.integer(3, 12),
            rounds=2,
            round_s=world.uniform(4.0, 8.0),
            publications=world.integer(50, 150),
            client_drops=world.integer(0, 15),
            moves=world.integer(0, 6) if world.chance(0.6) else 0,
            absences=world.integer(1, 6) if (has_absences := world.chance(0.3)) else 0,
            queue_messages=world.integer(5, 15) if has_absences else MqttConfig().queue_messages,
            redirections=world.integer(1, 8) if world.chance(0.3) else 0,
        )

    def describe(self) -> dict[str, Any]:
        return {
            "brokers": len(self.topology.brokers),
            "clients": self.clients,
            "client_drops": self.client_drops,
            "moves": self.moves,
            "absences": self.absences,
            "redirections": self.redirections,
            "connection_drop_per_s": round(self.faults.connection_drop_per_s, 3),
        }


class MqttScenario:
    """One run."""

    name = "mqtt"

    def __init__(
        self,
        seed: int,
        *,
        max_brokers: int = 8,
        rtt: Matrix | None = None,
        trace: Trace | None = None,
        on_telemetry: TelemetrySink | None = None,
        durability: str = "memory",
        strategy: str = TREE,
    ) -> None:
        self.is_tree = strategy == TREE
        self.world = world = World(seed, trace)
        setting = MqttSetting.draw(world, max_brokers)
        self.is_durable = durability == "journal"
        if self.is_durable:
            setting = replace(setting, faults=with_disk_faults(setting.faults))
        self.setting = setting
        self.checker = MqttChecker()
        self.overlay = OVERLAYS[strategy](
            world,
            setting.topology,
            make_config=partial(
                config_of,
                strategy=strategy,
                queue_messages=setting.queue_messages,
                is_durable=self.is_durable,
            ),
            handling=HandlingTime(0.0002, 0.0002),
            on_telemetry=on_telemetry,
            disk=DiskSetting.draw(world) if self.is_durable else None,
        )
        self.faults = Faults(
            world,
            setting.faults,
            list(self.overlay.brokers.values()),
            self.overlay.paths,
            on_crash=lambda broker: None,
        )
        self.clients: dict[str, SimMqttClient] = {}
        self.sessions_lost = self.redirected = 0
        self._retained: dict[str, bytes] = {}

    def run(self) -> RunResult:
        for number in range(self.setting.clients):
            self._join(f"m{number}")
        for _ in range(self.setting.rounds):
            self._subscribe()
            if not self._come_to_rest():
                break
            self._be_active()
            self.faults.heal()
            if not self._come_to_rest():
                break
            self.checker.check_all_delivered(self.world.now)
            if not self._burst():
                break
        return self._result()

    # --- phases ----------------------------------------------------------------------------

    def _join(self, name: str) -> SimMqttClient:
        client = SimMqttClient(
            name,
            self.overlay.network,
            self._any_broker(),
            self.world.uniform(0.001, 0.01),
            self._on_delivery,
            self._on_session_lost,
            self._on_redirected,
        )
        self.clients[name] = client
        client.dial()
        return client

    def _subscribe(self) -> None:
        for client in self.clients.values():
            if self.world.chance(0.6):
                pattern = self.world.choice(list(PATTERNS))
                client.subscribe(pattern, self.world.integer(1, 2))
            if self.world.chance(0.3):
                client.subscribe(f"$share/g/{GROUP_PATTERN}", 2)

    def _be_active(self) -> None:
        world, setting = self.world, self.setting
        end = world.now + setting.round_s
        self.faults.strike_until(end)
        for count, what in (
            (setting.publications, self._publish),
            (setting.client_drops, self._drop),
            (setting.moves, self._move),
            (setting.absences, self._stay_away),
            (setting.redirections, self._redirect),
        ):
            for _ in range(count):
                world.at(world.uniform(world.now, end), what)
        world.run_until(end)

    def _burst(self) -> bool:
        """At rest: each to one of the group; the newest retained publication at every broker."""
        shared = f"$share/g/{GROUP_PATTERN}"
        group = [c.name for c in self.clients.values() if shared in c.subscriptions]
        everything = [c.name for c in self.clients.values() if "#" in c.subscriptions]
        jobs = []
        if group:
            for number in range(10):
                client = self.world.choice(list(self.clients.values()))
                payload = self.checker.publishing(client.name, 2, {}, [*group, *everything])
                jobs.append(payload)
                client.publish(f"jobs/{number}", payload, 2)
        publisher = self.world.choice(list(self.clients.values()))
        topic = f"kept/{self.world.integer(1, 3)}"
        payload = self.checker.publishing(publisher.name, 1, dict.fromkeys(everything, 1))
        publisher.publish(topic, payload, 1, retain=True)
        self._retained[topic] = payload
        lost = self.sessions_lost
        if not self._come_to_rest():
            return False
        if not everything and self.sessions_lost == lost:
            self.checker.check_shared(jobs, self.world.now)
        self.checker.check_all_delivered(self.world.now)
        self._check_retained()
        return True

    def _check_retained(self) -> None:
        for name, node in self.overlay.brokers.items():
            door = node.broker.door
            assert door is not None
            known = {p.topic: p.payload for p in door.doors.retained.matching("#", self.world.now)}
            if known != self._retained:
                text = f"{name} retains {known}, not {self._retained}"
                self.checker.violations.append(f"{self.world.now:.3f} {text}")

    # --- what clients do ---------------------------------------------------------------------

    def _publish(self) -> None:
        world = self.world
        client = world.choice(list(self.clients.values()))
        topic, qos = world.choice(list(TOPICS)), world.integer(0, 2)
        wanting = {
            c.name: max(q for p, q in c.subscriptions.items() if wants(p, topic))
            for c in self.clients.values()
            if any(wants(p, topic) for p in c.subscriptions)
        }
        orders = {} if self.is_tree else self._orders(topic)
        client.publish(topic, self.checker.publishing(client.name, qos, wanting, (), orders), qos)

    def _orders(self, topic: str) -> dict[str, str]:
        return {c.name: order_of(list(c.subscriptions), topic) for c in self.clients.values()}

    def _drop(self) -> None:
        self.world.choice(list(self.clients.values())).cut()

    def _move(self) -> None:
        client = self.world.choice(list(self.clients.values()))
        self.checker.moved(client.name)
        client.move_to(self._any_broker(), self.world.uniform(0.001, 0.01))

    def _redirect(self) -> None:
        """As an operator asks for it; a client that was told so lately is left alone."""
        client = self.world.choice(list(self.clients.values()))
        name = f"mqtt:{client.name}@{client.home.name}"
        destination = self._any_broker().name
        if destination != client.home.name and client.home.is_up():
            client.home.handle(MigrationRequested(name, destination))

    def _on_redirected(self, client: SimMqttClient, address: str) -> None:
        self.redirected += 1
        if self.world.chance(FOLLOWING_SHARE):
            self.checker.moved(client.name)
            client.move_to(self.overlay.brokers[address], self.world.uniform(0.001, 0.01))

    def _stay_away(self) -> None:
        client = self.world.choice(list(self.clients.values()))
        client.stay_away(self.world.uniform(0.5, 3.0))

    def _any_broker(self) -> Any:
        return self.world.choice(list(self.overlay.brokers.values()))

    def _on_delivery(self, client: SimMqttClient, packet: Publish) -> None:
        if not packet.retain:
            self.checker.delivered(client.name, packet.payload, self.world.now)

    def _on_session_lost(self, client: SimMqttClient) -> None:
        self.sessions_lost += 1
        self.checker.session_lost(client.name)
        if not self.is_tree:  # it subscribes anew, and what is kept of each topic comes again
            self.checker.moved(client.name)

    # --- rest --------------------------------------------------------------------------------

    def _come_to_rest(self) -> bool:
        until = self.world.now + REST_LIMIT_S
        # Long enough for a tail that will not come, and for doors to compare what they have.
        self.world.run_until(self.world.now + 5.0)
        while self.world.now < until:
            self.world.run_until(self.world.now + 0.37)
            if self._is_quiet():
                return True
        self.checker.violations.append(f"{self.world.now:.3f} the overlay does not come to rest")
        return False

    def _is_quiet(self) -> bool:
        if not all(c.is_connected and not c.unanswered for c in self.clients.values()):
            return False
        if not self.overlay.is_quiet():
            return False
        doors = [node.broker.door for node in self.overlay.brokers.values()]
        sessions = [s for door in doors if door is not None for s in door.sessions.all()]
        return all(
            s.held is None and not s.outbox.under_way and not s.outbox.waiting for s in sessions
        )

    def _overrun(self) -> int:
        """How many sessions ended because they got more than they may keep."""
        doors = [node.broker.door for node in self.overlay.brokers.values()]
        return sum(door.sessions.overrun for door in doors if door is not None)

    def _result(self) -> RunResult:
        violations = list(self.checker.violations)
        may_lose = self.setting.moves or self.redirected or self._overrun()
        if self.sessions_lost and not may_lose:
            text = "sessions were lost though no client moved and all had room"
            violations.append(f"{self.sessions_lost} {text}")
        return RunResult(
            scenario=self.name,
            seed=self.world.seed,
            violations=tuple(violations),
            setting=self.setting.describe(),
            counts={
                "deliveries": self.checker.deliveries,
                "doubled": self.checker.doubled,
                "excused": self.checker.excused,
                "sessions_lost": self.sessions_lost,
                "overrun": self._overrun(),
                "redirected": self.redirected,
                **journal_counts(self.overlay),
                "events": self.world.steps,
                **self.faults.counts,
            },
            virtual_s=round(self.world.now, 3),
            trace_digest=self.world.trace.digest() if self.world.trace is not None else None,
        )
