"""MQTT clients of a trial, other people's (paho-mqtt), in a process of their own.

    python -m soak.jepsen.mqtt_clients CONFIG.json OUT.history

Publishers of each quality with one publication under way at a time (paho reorders what it sends
again), subscribers with kept sessions, a guest that unsubscribes now and then, one that keeps a
retained message up to date and one that looks at it with a new session, and one with a will that
leaves in order or is cut off. Orders and answers are those of `native_clients`.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
import time
from pathlib import Path
from random import Random
from typing import Any

import paho.mqtt.client as paho
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from soak.jepsen.history import HistoryWriter
from soak.jepsen.settings import VALUES

KEEP_ALIVE_S = 10
EXPIRY_S = 3600
ANSWER_S = 20.0
LOOK_EVERY_S = 15.0
SHOWN_WITHIN_S = 3.0


class MqttClient:
    """A session that paho connects again whenever it is lost; see the roles below."""

    keeps_session = True

    def __init__(
        self, plan: dict[str, Any], config: dict[str, Any], history: HistoryWriter
    ) -> None:
        self.plan = plan
        self.name: str = plan["name"]
        self.history = history
        self.config = config
        self.rng = Random(f"{self.name} {config['seed']}")
        self.over = threading.Event()
        self.first_up = threading.Event()
        self._sids: dict[str, tuple[str, str]] = {}
        """Filter -> the current subscription, and its state: asked or confirmed."""
        self._number = 0
        self._mids: dict[int, tuple[str, str]] = {}
        self._lock = threading.Lock()
        self.is_up = False
        self._publishing = threading.Lock()
        self._waits_for = 0
        """The packet that is not answered yet."""
        self._is_accepted = False
        self._answered = threading.Event()

    # --- connections ---------------------------------------------------------------------------

    def make(self, name: str) -> paho.Client:
        is_five = self.plan["version"] == 5
        client = paho.Client(
            paho.CallbackAPIVersion.VERSION2,
            client_id=name,
            protocol=paho.MQTTv5 if is_five else paho.MQTTv311,
            clean_session=None if is_five else not self.keeps_session,
            manual_ack=False,
        )
        client.reconnect_delay_set(1, 4)
        client.on_connect = self._on_connect
        client.on_disconnect = self._on_disconnect
        client.on_message = self._on_message
        client.on_subscribe = self._on_subscribe
        client.on_unsubscribe = self._on_unsubscribe
        client.on_publish = self._on_publish
        return client

    def connect(self, client: paho.Client) -> None:
        host, port = self.config["hosts"][self.plan["broker"]], self.config["port"]
        if isinstance(host, list):  # through a proxy
            host, port = host
        if self.plan["version"] == 5:
            properties = Properties(PacketTypes.CONNECT)
            properties.SessionExpiryInterval = EXPIRY_S if self.keeps_session else 0
            client.connect_async(
                *(host, port, KEEP_ALIVE_S),
                clean_start=not self.keeps_session,
                properties=properties,
            )
        else:
            client.connect_async(host, port, KEEP_ALIVE_S)

    def start(self) -> None:
        self.history.write("client", self.name, "mqtt", self.plan["broker"])
        self.client = self.make(self.name)
        self.connect(self.client)
        self.client.loop_start()

    def stop(self) -> None:
        self.client.loop_stop()

    def _on_connect(
        self, client: paho.Client, _: Any, flags: Any, reason: Any, properties: Any
    ) -> None:
        if reason.is_failure:
            self.history.write("note", f"{self.name} was refused: {reason}")
            return
        self.is_up = True
        is_first = not self.first_up.is_set()
        if not is_first:
            self.history.write("session", self.name, bool(flags.session_present))
        with self._lock:
            if not flags.session_present:
                self._sids.clear()
            # What was asked for and never answered is asked for again, under the same name.
            again = [f for f, (_, state) in self._sids.items() if state == "asked"]
            new = [f for f in self.plan.get("wanted", ()) if f not in self._sids]
        for each in new:
            self.subscribe(each)
        for each in again:
            self._ask(each)
        self.first_up.set()

    def _on_disconnect(
        self, client: paho.Client, _: Any, flags: Any, reason: Any, properties: Any
    ) -> None:
        self.is_up = False
        self.history.write("down", self.name)

    # --- subscriptions -------------------------------------------------------------------------

    def subscribe(self, filter_: str) -> None:
        with self._lock:
            self._number += 1
            sid = f"{self.name}#{self._number}"
            self._sids[filter_] = sid, "asked"
        wanted = {"under": filter_[:-1]} if filter_.endswith("#") else {"topic": filter_}
        self.history.write("sub", self.name, sid, wanted, self.plan["qos"])
        self._ask(filter_)

    def _ask(self, filter_: str) -> None:
        _, mid = self.client.subscribe(filter_, self.plan["qos"])
        if mid is not None:
            with self._lock:
                self._mids[mid] = "sub", filter_

    def unsubscribe(self, filter_: str) -> None:
        with self._lock:
            sid, state = self._sids[filter_]
            if state != "confirmed":
                return
            self._sids[filter_] = sid, "leaving"
        self.history.write("unsub", self.name, sid)
        _, mid = self.client.unsubscribe(filter_)
        if mid is not None:
            with self._lock:
                self._mids[mid] = "unsub", filter_

    def _on_subscribe(
        self, client: paho.Client, _: Any, mid: int, reasons: Any, properties: Any
    ) -> None:
        with self._lock:
            _, filter_ = self._mids.pop(mid, ("", ""))
            if filter_ not in self._sids or self._sids[filter_][1] != "asked":
                return
            sid = self._sids[filter_][0]
            if any(each.is_failure for each in reasons):
                self.history.write("note", f"{self.name} may not have {filter_}: {reasons}")
                return
            self._sids[filter_] = sid, "confirmed"
        self.history.write("subok", self.name, sid)

    def _on_unsubscribe(
        self, client: paho.Client, _: Any, mid: int, reasons: Any, properties: Any
    ) -> None:
        with self._lock:
            _, filter_ = self._mids.pop(mid, ("", ""))
            if filter_ in self._sids:
                self.history.write("unsubok", self.name, self._sids[filter_][0])
                self._sids[filter_] = self._sids[filter_][0], "left"

    def _on_message(self, client: paho.Client, _: Any, message: paho.MQTTMessage) -> None:
        publisher, n, topic, value, sent_at, _ = message.payload.decode().split(" ", 5)
        sid = self._sid_of(message.topic)
        fields = (self.name, sid, publisher, int(n), topic, int(value), float(sent_at))
        self.history.write("got", *fields, message.qos, int(message.retain))

    def _sid_of(self, topic: str) -> str:
        for filter_, (sid, _) in list(self._sids.items()):
            if filter_ == topic or (filter_.endswith("#") and topic.startswith(filter_[:-1])):
                return sid
        return "?"

    # --- publications --------------------------------------------------------------------------

    def payload(self, n: int, topic: str, value: int, now: float, name: str = "") -> bytes:
        text = f"{name or self.name} {n} {topic} {value} {now:.6f} ".encode()
        return text.ljust(self.config["payload_bytes"], b".")

    def publish(self, n: int, topic: str, *, retain: bool = False) -> None:
        """One publication, until it is acknowledged or all is over."""
        value, now = self.rng.randrange(VALUES), time.monotonic()
        self.history.write("pub", self.name, n, topic, value, self.plan["qos"], at=now)
        with self._publishing:
            self._answered.clear()
            self._waits_for = self.client.publish(
                topic, self.payload(n, topic, value, now), self.plan["qos"], retain
            ).mid
        if not self.plan["qos"]:
            return
        while not self._answered.wait(0.5):
            if self.over.is_set() and time.monotonic() > now + ANSWER_S:
                return
        if self._is_accepted:
            self.history.write("ack", self.name, n, n)

    def _on_publish(
        self, client: paho.Client, _: Any, mid: int, reason: Any, properties: Any
    ) -> None:
        with self._publishing:
            if mid == self._waits_for:
                self._is_accepted = not reason.is_failure
                self._answered.set()

    def act(self) -> None:
        """What a role does while the traffic lasts; subscribers do nothing."""


class PublisherRole(MqttClient):
    def act(self) -> None:
        every_s = 3.0 / self.config["rate"]
        n = 0
        while not self.over.wait(every_s * (0.5 + self.rng.random())):
            if self.plan["qos"] == 0 and not self.is_up:
                continue
            n += 1
            self.publish(n, self.rng.choice(self.plan["topics"]))


class KeeperRole(MqttClient):
    """Keeps retained messages up to date."""

    def act(self) -> None:
        n = 0
        while not self.over.wait(1.0 + 2.0 * self.rng.random()):
            n += 1
            self.publish(n, self.rng.choice(self.plan["topics"]), retain=True)


class GuestRole(MqttClient):
    """Takes its subscription back now and then, and comes again."""

    def act(self) -> None:
        filter_ = self.plan["wanted"][0]
        while not self.over.wait(10.0 + 10.0 * self.rng.random()):
            self.unsubscribe(filter_)
            self.over.wait(2.0 + 3.0 * self.rng.random())
            with self._lock:
                is_left = self._sids.get(filter_, ("", ""))[1] == "left"
            if is_left and self.is_up:
                self.subscribe(filter_)


class _OneVisit(MqttClient):
    """Comes, does something, goes: never with the same session."""

    keeps_session = False
    visits = 0

    def start(self) -> None:
        self.history.write("client", self.name, "mqtt", self.plan["broker"])
        self.first_up.set()

    def stop(self) -> None:
        pass

    def act(self) -> None:
        while not self.over.wait(LOOK_EVERY_S * (0.5 + self.rng.random())):
            self.visits += 1
            self.plan["broker"] = self.rng.choice(sorted(self.config["hosts"]))
            self.history.write("client", self.name, "mqtt", self.plan["broker"])
            client = self.make(f"{self.name}-{self.visits}")
            client.on_connect = client.on_disconnect = client.on_subscribe = None
            client.on_message = None
            try:
                self.visit(client)
            finally:
                client.loop_stop()

    def visit(self, client: paho.Client) -> None:
        raise NotImplementedError

    def _connected(self, client: paho.Client) -> bool:
        up = threading.Event()
        client.on_connect = lambda *_: up.set()
        self.connect(client)
        client.loop_start()
        return up.wait(ANSWER_S) and client.is_connected()


class ReaderRole(_OneVisit):
    """What is a new subscriber shown?"""

    def visit(self, client: paho.Client) -> None:
        if not self._connected(client):
            return
        shown: dict[str, int] = {}
        answered = threading.Event()

        def take(_: Any, __: Any, message: paho.MQTTMessage) -> None:
            if message.retain:
                number = int(message.payload.decode().split(" ", 2)[1])
                shown[message.topic] = max(number, shown.get(message.topic, 0))

        client.on_message = take
        client.on_subscribe = lambda *_: answered.set()
        asked_at = time.monotonic()
        client.subscribe([(topic, 1) for topic in self.plan["topics"]])
        if answered.wait(ANSWER_S):
            time.sleep(SHOWN_WITHIN_S)
            for topic in self.plan["topics"]:
                self.history.write("retained", self.name, topic, shown.get(topic, 0), asked_at)
        client.disconnect()


class TestatorRole(_OneVisit):
    """Leaves a will behind, or leaves in order."""

    def visit(self, client: paho.Client) -> None:
        n, topic = self.visits, self.plan["topics"][0]
        now = time.monotonic()
        client.will_set(topic, self.payload(n, topic, 0, now), 1)
        self.history.write("will", self.name, n, topic, at=now)
        if not self._connected(client):
            self.history.write("down", self.name)
            return
        client.on_disconnect = lambda *_: self.history.write("down", self.name)
        self.over.wait(2.0 + 4.0 * self.rng.random())
        client.on_disconnect = None
        if not client.is_connected():
            return
        if self.rng.random() < 0.5:
            client.disconnect()
            self.history.write("bye", self.name, n)
            time.sleep(0.5)
            return
        client.reconnect_delay_set(600, 600)
        with contextlib.suppress(OSError, AttributeError):  # it is gone already
            client.socket().shutdown(socket.SHUT_RDWR)  # type: ignore[union-attr]
            self.history.write("cut", self.name, n)


ROLES = {
    "publisher": PublisherRole,
    "subscriber": MqttClient,
    "guest": GuestRole,
    "keeper": KeeperRole,
    "reader": ReaderRole,
    "testator": TestatorRole,
}


def main() -> None:
    """Until standard input ends."""
    config = json.loads(Path(sys.argv[1]).read_text())
    history = HistoryWriter(Path(sys.argv[2]))
    clients = [ROLES[each["role"]](each, config, history) for each in config["clients"]]
    for client in clients:
        client.start()
    for client in clients:
        client.first_up.wait(60.0)

    def flush() -> None:
        while True:
            time.sleep(0.5)
            history.flush()

    threading.Thread(target=flush, daemon=True).start()
    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip() == "begin":
            for client in clients:
                threading.Thread(target=client.act, daemon=True).start()
        else:
            for client in clients:
                client.over.set()
    for client in clients:
        client.stop()
    history.flush()


if __name__ == "__main__":
    main()
