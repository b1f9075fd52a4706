"""MQTT clients at the gateways of an overlay, and what MQTT promises them.

At rest, clients subscribe. Then they publish while connections break, go to other brokers with
their sessions, by themselves or because they are told to, or stay away until more waits than a
session may keep. When all has healed, what MQTT promises must have been kept (`checkers.mqtt`); a
burst at rest tells whether shared subscriptions and retained publications are right everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pubweave.core.vocabulary.events import MigrationRequested
from pubweave.model.mqtt_packets import Publish
from pubweave.sim.checkers.mqtt import MqttChecker
from pubweave.sim.hosts.mqtt import SimMqttClient
from pubweave.sim.kernel.nodes import SimBroker
from pubweave.sim.overlays.journals import journal_counts
from pubweave.sim.overlays.mqtt import order_of, wants
from pubweave.sim.parts.run import Setting, SimPart, SimRun

FOLLOWING_SHARE = 0.8
"""Of the clients that are told to go to another broker."""
GROUP_PATTERN = "jobs/#"
PATTERNS = ("a/#", "a/+", "+/x", "a/x", "b/+/c", "b/#", "#")
TOPICS = ("a/x", "a/y", "b/x", "b/1/c", "b/2/c", "a")


@dataclass(frozen=True)
class MqttSetting(Setting):
    """What one run is like; its actions are publications."""

    client_drops: int
    moves: int
    absences: int
    """How many times a client stays away for a while."""
    queue_messages: int
    """What a session may keep."""
    redirections: int
    """How many times a client is told to go to another broker; most do."""

    def describe(self) -> dict[str, Any]:
        return {
            **super().describe(),
            "client_drops": self.client_drops,
            "moves": self.moves,
            "absences": self.absences,
            "redirections": self.redirections,
            "connection_drop_per_s": round(self.faults.connection_drop_per_s, 3),
        }


class MqttClients(SimPart):
    """MQTT clients of one run; `go_round` is a round."""

    first_look_s = 5.0
    """Long enough for a tail that will not come, and for gateways to compare what they have."""
    look_every_s = 0.37

    def __init__(self, run: SimRun, setting: MqttSetting, *, is_tree: bool) -> None:
        self.run = run
        self.world = run.world
        self.overlay = run.overlay
        self.setting = setting
        self.checker = MqttChecker()
        self.clients: dict[str, SimMqttClient] = {}
        self.sessions_lost = self.redirected = 0
        self._is_tree = is_tree
        self._retained: dict[str, bytes] = {}
        self._shared: tuple[list[bytes], int] = [], -1
        """What the last burst published for the group, and how many sessions were lost before."""

    def start(self) -> None:
        for number in range(self.setting.clients):
            name, home = f"m{number}", self._any_broker()
            self.clients[name] = client = SimMqttClient(
                name,
                self.overlay.network,
                home,
                self.world.uniform(0.001, 0.01),
                self._on_delivery,
                self._on_session_lost,
                self._on_redirected,
            )
            client.dial()

    def go_round(self) -> bool:
        for client in self.clients.values():
            if self.world.chance(0.6):
                pattern = self.world.choice(list(PATTERNS))
                client.subscribe(pattern, self.world.integer(1, 2))
            if self.world.chance(0.3):
                client.subscribe(f"$share/g/{GROUP_PATTERN}", 2)
        if not self.run.becomes_quiet():
            return False
        self.run.be_active()
        return True

    def begin(self, end: float) -> None:
        setting = self.setting
        for count, what in (
            (setting.actions_per_round, self._publish),
            (setting.client_drops, self._drop),
            (setting.moves, self._move),
            (setting.absences, self._stay_away),
            (setting.redirections, self._redirect),
        ):
            for _ in range(count):
                self.world.at(self.world.uniform(self.world.now, end), what)

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
        orders = {} if self._is_tree else self._orders(topic)
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

    def _any_broker(self) -> SimBroker:
        return self.overlay.brokers[self.world.choice(self.run.homes())]

    def _on_delivery(self, client: SimMqttClient, packet: Publish) -> None:
        if not packet.retain:
            self.checker.delivered(client.name, packet.payload, self.world.now)

    def _on_session_lost(self, client: SimMqttClient) -> None:
        self.sessions_lost += 1
        self.checker.session_lost(client.name)
        if not self._is_tree:  # it subscribes anew, and what is kept of each topic comes again
            self.checker.moved(client.name)

    # --- rest --------------------------------------------------------------------------------

    def is_quiet(self) -> bool:
        if not all(c.is_connected and not c.unanswered for c in self.clients.values()):
            return False
        gateways = [node.broker.mqtt for node in self.overlay.brokers.values()]
        sessions = [
            s
            for gateway in gateways
            if gateway is not None
            for s in gateway.sessions.by_name.values()
        ]
        return all(
            s.held is None and not s.inflight.numbered and not s.inflight.waiting for s in sessions
        )

    def at_rest(self) -> Iterable[str]:
        self.checker.check_all_delivered(self.world.now)
        return ()

    def burst(self) -> None:
        """At rest: each to one of the group; the newest retained publication at every broker."""
        shared = f"$share/g/{GROUP_PATTERN}"
        group = [c.name for c in self.clients.values() if shared in c.subscriptions]
        everything = [c.name for c in self.clients.values() if "#" in c.subscriptions]
        jobs = []
        for number in range(10 if group else 0):
            client = self.world.choice(list(self.clients.values()))
            payload = self.checker.publishing(client.name, 2, {}, [*group, *everything])
            jobs.append(payload)
            client.publish(f"jobs/{number}", payload, 2)
        publisher = self.world.choice(list(self.clients.values()))
        topic = f"kept/{self.world.integer(1, 3)}"
        payload = self.checker.publishing(publisher.name, 1, dict.fromkeys(everything, 1))
        publisher.publish(topic, payload, 1, retain=True)
        self._retained[topic] = payload
        self._shared = [] if everything else jobs, self.sessions_lost

    def after_burst(self) -> Iterable[str]:
        jobs, lost = self._shared
        if self.sessions_lost == lost:
            self.checker.check_shared(jobs, self.world.now)
        self.checker.check_all_delivered(self.world.now)
        for name in self.run.homes():
            node = self.overlay.brokers[name]
            gateway = node.broker.mqtt
            assert gateway is not None
            kept = gateway.gossip.retained.matching("#", node.now)
            known = {packet.topic: packet.payload for packet in kept}
            if known != self._retained:
                yield f"{name} retains {known}, not {self._retained}"

    # --- outcome -----------------------------------------------------------------------------

    def _overrun(self) -> int:
        """How many sessions ended because they got more than they may keep."""
        gateways = [node.broker.mqtt for node in self.overlay.brokers.values()]
        return sum(gateway.sessions.overrun for gateway in gateways if gateway is not None)

    def violations(self) -> Iterable[str]:
        yield from self.checker.violations
        may_lose = self.setting.moves or self.redirected or self._overrun()
        if self.sessions_lost and not may_lose:
            text = "sessions were lost though no client moved and all had room"
            yield f"{self.sessions_lost} {text}"

    def counts(self) -> dict[str, int]:
        return {
            "deliveries": self.checker.deliveries,
            "doubled": self.checker.doubled,
            "excused": self.checker.excused,
            "sessions_lost": self.sessions_lost,
            "overrun": self._overrun(),
            "redirected": self.redirected,
            **journal_counts(self.overlay),
        }
