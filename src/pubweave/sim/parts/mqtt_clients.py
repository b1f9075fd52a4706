"""MQTT clients at the gateways of an overlay, and what MQTT promises them.

At rest, clients subscribe and unsubscribe. Then they publish, change what they want, say goodbye or
begin anew while connections break, go to other brokers with their sessions, by themselves or
because they are told to, or stay away until more waits than a session may keep. What MQTT promises
must have been kept (`checkers.mqtt`); a burst at rest tells whether shared subscriptions are right
everywhere, and clients that ask each broker afterwards whether all retain the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pubweave.core.vocabulary.events import MigrationRequested
from pubweave.model.mqtt_packets import (
    Content,
    Disconnect,
    Publish,
    Reason,
    TopicFilter,
    Will,
)
from pubweave.sim.checkers.mqtt import MqttChecker
from pubweave.sim.hosts.mqtt import (
    PATTERNS,
    SHORT_S,
    MqttManner,
    SimMqttClient,
    any_manner,
    any_will,
    options_of,
)
from pubweave.sim.kernel.nodes import SimBroker
from pubweave.sim.overlays.journals import journal_counts
from pubweave.sim.overlays.mqtt import order_of, overrun, sessions_are_quiet
from pubweave.sim.parts.run import Setting, SimPart, SimRun

FOLLOWING_SHARE = 0.8
"""Of the clients that are told to go to another broker."""
GROUP_PATTERN = "jobs/#"
GROUP = f"$share/g/{GROUP_PATTERN}"
KEPT = ("kept/1", "kept/2", "kept/3")
TOPICS = ("a/x", "a/y", "b/x", "b/1/c", "b/2/c", "a")
SIZES = (0, 0, 0, 0, 100, 4_096, 65_536)
"""Of payloads; 0: as long as the publication's name."""
EXPIRES_S = (1, 2)
LONG_ABSENCE_S = 25.0
EXCUSED_MOST, EXCUSED_MOST_CRASHES, EXCUSED_MOST_OVERRUN = 0.05, 0.1, 0.6
"""The largest share of what was wanted that one run may excuse; the same where brokers crash, and
where sessions have so little room that they end, with all that waits in them."""


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
    changes: int = 0
    """How many times a client subscribes or unsubscribes."""
    goodbyes: int = 0
    """How many times a client disconnects as one should, for a while."""
    expirations: int = 0
    """How many times a client stays away until its session has expired, if that ever does."""
    is_calm: bool = False
    """Nothing is broken in the whole run, but by clients."""

    def describe(self) -> dict[str, Any]:
        return {
            **super().describe(),
            "client_drops": self.client_drops,
            "moves": self.moves,
            "absences": self.absences,
            "redirections": self.redirections,
            "is_calm": self.is_calm,
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
        self.clients: dict[str, SimMqttClient] = {}
        self.redirected = 0
        self._is_tree = is_tree
        self._struck = 0
        """How many faults had struck at the last rest."""
        self._rested_at = 0.0
        self._wills = self._probes = 0
        durable_s = 10.0 if run.is_durable else 0.0
        paused_s = 3 * run.faults.long_pause_s[1] if run.faults.long_pause_s else 5.0
        self._limits = mqtt = next(iter(self.overlay.brokers.values())).config.mqtt
        assert mqtt is not None
        self.checker = MqttChecker(
            is_calm=setting.is_calm and not run.is_durable,
            late_s=0.0 if setting.is_calm else paused_s + durable_s,
            stalls_s=durable_s,
            queue_messages=mqtt.queue_messages,
            queue_bytes=mqtt.queue_bytes,
            suback_wait_s=mqtt.suback_wait_s,
            are_clocks_right="clocks" not in self.run.rare.kinds,
            is_troubled=self._is_troubled,
            order_of=(lambda patterns, topic: "") if is_tree else order_of,
            cuts=self.run.faults.cuts,
            heard_at=self.run.faults.heard_at,
            jumped_s=self.run.faults.jumped_s,
        )

    def _faults(self) -> int:
        return sum(self.run.faults.counts.values())

    def _is_troubled(self) -> bool:
        """Whether something was broken since the last rest, or a broker had slept through that."""
        return self._faults() > self._struck or self.run.faults.is_asleep_at(self._rested_at)

    def start(self) -> None:
        for number in range(self.setting.clients):
            self._join(f"m{number}", self._any_broker(), any_manner(self.world)).dial()

    def _join(self, name: str, home: SimBroker, manner: MqttManner) -> SimMqttClient:
        self.clients[name] = client = SimMqttClient(
            name,
            self.overlay.network,
            home,
            self.world.uniform(0.001, 0.01),
            self.checker,
            self._on_redirected,
            manner,
            lambda: self._next_will(name, manner),
        )
        return client

    def _next_will(self, name: str, manner: MqttManner) -> Will | None:
        if not self.world.chance(0.4):
            return None
        self._wills += 1
        return any_will(self.world, name, self._wills, manner)

    def go_round(self) -> bool:
        for client in self.clients.values():
            for _ in range(2):
                if self.world.chance(0.5):
                    self._change(client)
            if client.manner.is_v5 and client.manner.expiry_s and self.world.chance(0.3):
                client.subscribe(TopicFilter(GROUP, 2))
        if not self.run.becomes_quiet():
            return False
        self.checker.settle(self.world.now)
        self.checker.retained.is_at_rest = False
        self._struck, self._rested_at = self._faults(), self.world.now
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
            (setting.changes, self._change_one),
            (setting.goodbyes, self._say_goodbye),
            (setting.expirations, self._stay_away_for_long),
        ):
            for _ in range(count):
                self.world.at(self.world.uniform(self.world.now, end), what)

    # --- what clients do ---------------------------------------------------------------------

    def _any_client(self) -> SimMqttClient:
        found: SimMqttClient = self.world.choice(list(self.clients.values()))
        return found

    def _publish(self) -> None:
        client, world = self._any_client(), self.world
        if world.chance(0.1):
            self._retain()
            return
        topic, qos = world.choice(list(TOPICS)), world.integer(0, 2)
        if world.chance(0.1):
            topic = f"jobs/{world.integer(1, 3)}"
        expires = client.manner.is_v5 and world.chance(0.15)
        content = Content(expiry_s=world.choice(list(EXPIRES_S)) if expires else None)
        packet = Publish(topic, b"", qos, content=content)
        self._say(client, packet, world.choice(list(SIZES)))

    def _retain(self) -> None:
        """Each kept topic has one publisher; now and then it is cleared."""
        topic = self.world.choice(list(KEPT))
        client = list(self.clients.values())[KEPT.index(topic) % len(self.clients)]
        packet = Publish(topic, b"", self.world.integer(1, 2), retain=True)
        self._say(client, packet, -1 if self.world.chance(0.25) else 0)

    def _say(self, client: SimMqttClient, packet: Publish, size: int = 0) -> None:
        if packet.qos or client.is_connected:
            client.publish(self.checker.publishing(client.name, packet, self.world.now, size))

    def _change_one(self) -> None:
        self._change(self._any_client())

    def _change(self, client: SimMqttClient) -> None:
        """Subscribe, again or anew, or unsubscribe. What a client asks of a pattern never
        changes."""
        known = [text for text in client.subscriptions if text != GROUP]
        if known and self.world.chance(0.3):
            client.unsubscribe(self.world.choice(known))
            return
        pattern = self.world.choice(list(PATTERNS))
        number = PATTERNS.index(pattern) + int(client.name[1:])
        client.subscribe(options_of(pattern, number, client.manner))

    def _drop(self) -> None:
        self._any_client().cut()

    def _move(self) -> None:
        client = self._any_client()
        self.checker.moved(client.name)
        client.move_to(self._any_broker(), self.world.uniform(0.001, 0.01))

    def _redirect(self) -> None:
        """As an operator asks for it; a client that was told so lately is left alone."""
        client = self._any_client()
        name = f"mqtt:{client.name}@{client.home.name}"
        destination = self._any_broker().name
        if destination != client.home.name and client.home.is_up():
            self.checker.redirecting(client.name, self.world.now)
            client.home.handle(MigrationRequested(name, destination))

    def _on_redirected(self, client: SimMqttClient, address: str) -> None:
        self.redirected += 1
        if self.world.chance(FOLLOWING_SHARE):
            self.checker.moved(client.name)
            client.move_to(self.overlay.brokers[address], self.world.uniform(0.001, 0.01))

    def _stay_away(self) -> None:
        self._any_client().stay_away(self.world.uniform(0.5, 6.0))

    def _stay_away_for_long(self) -> None:
        short = [c for c in self.clients.values() if c.manner.expiry_s == SHORT_S]
        if short:
            client: SimMqttClient = self.world.choice(short)
            client.stay_away(LONG_ABSENCE_S)

    def _say_goodbye(self) -> None:
        client = self._any_client()
        ends = client.manner.is_v5 and self.world.chance(0.3)
        packet = Disconnect(
            Reason.DISCONNECT_WITH_WILL
            if client.manner.is_v5 and self.world.chance(0.3)
            else Reason.SUCCESS,
            0 if ends else None,
        )
        client.starts_over = client.manner.is_v5 and self.world.chance(0.2)
        client.say_goodbye(self.world.uniform(0.1, 3.0), packet)

    def _any_broker(self) -> SimBroker:
        return self.overlay.brokers[self.world.choice(self.run.homes())]

    def crashed(self, broker: SimBroker) -> None:
        self.checker.crashed(broker.name, is_durable=self.run.is_durable)

    # --- rest --------------------------------------------------------------------------------

    def is_quiet(self) -> bool:
        if not all(c.is_connected and not c.unanswered for c in self.clients.values()):
            return False
        return sessions_are_quiet(self.overlay)

    def at_rest(self) -> Iterable[str]:
        self.checker.check_all_delivered(self.world.now)
        self.checker.retained.is_at_rest = True
        self._struck, self._rested_at = self._faults(), self.world.now
        return ()

    def burst(self) -> None:
        """At rest: each to one of the group, and to all others that want it; a newest retained
        publication on every topic."""
        for number in range(10):
            self._say(self._any_client(), Publish(f"jobs/{number}", b"", 2))
        for _ in KEPT:
            self._retain()

    def after_burst(self) -> Iterable[str]:
        """Then whoever asks, at any broker, gets the same of what is retained."""
        now = self.world.now
        self.checker.check_shared("jobs/", now)
        self.checker.check_all_delivered(now)
        probes = []
        for broker in self.run.homes():
            self._probes += 1
            probe = self._join(
                f"p{self._probes}", self.overlay.brokers[broker], MqttManner(expiry_s=0)
            )
            probe.subscribe(TopicFilter("kept/#", self.world.integer(0, 2)))
            probe.dial()
            probes.append(probe)
        if self.run.becomes_quiet():
            self.checker.check_all_delivered(self.world.now)
        for probe in probes:
            del self.clients[probe.name]
            probe.is_gone = True
            probe.say_goodbye(0.0, Disconnect())
        return ()

    # --- outcome -----------------------------------------------------------------------------

    def violations(self) -> Iterable[str]:
        most = EXCUSED_MOST_CRASHES if self.run.is_durable else EXCUSED_MOST
        if self.setting.absences:
            most = EXCUSED_MOST_OVERRUN
        self.checker.check_excused(most, self.world.now)
        yield from self.checker.violations

    def counts(self) -> dict[str, int]:
        return {
            **self.checker.all_counts(),
            "overrun": overrun(self.overlay),
            "redirected": self.redirected,
            **journal_counts(self.overlay),
        }
