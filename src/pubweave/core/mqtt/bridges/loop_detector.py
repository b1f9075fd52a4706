"""Loop detector: loops over bridges outside the overlay are counted and reported, or ended.

Two things show a loop: a probe that returns without its mark (`bridges/loop_probes`), and a
publication that one client repeats, unchanged and often, while it is delivered to a bridge. The
gateway of that bridge counts it and tells the gateway of the client, which knows whether the client
is a bridge.

Nothing is held back or dropped. A sensor that repeats its value looks the same, so counting alone
leads to a warning; it is proof only if another client published first and hardly ever since.
"""

from __future__ import annotations

from collections import OrderedDict
from math import inf

import msgspec

from pubweave.core.mqtt.bridges.echo_filter import fingerprint
from pubweave.core.mqtt.cluster.bridge_census import is_bridge
from pubweave.core.mqtt.cluster.gossip import GatewayGossip
from pubweave.core.mqtt.connections import ConnectionTable
from pubweave.core.mqtt.services import MqttServices
from pubweave.core.mqtt.session.cluster_messages import Returned
from pubweave.core.mqtt.session.connection import MqttError
from pubweave.core.mqtt.session.session import MqttSession
from pubweave.core.mqtt.session.table import MqttSessionTable
from pubweave.core.vocabulary.effects import ReportProblem
from pubweave.model.ids import ClientId
from pubweave.model.mqtt_packets import Reason
from pubweave.model.publications import Publication

WINDOW_S, TIMES, WINDOWS = 5.0, 75, 3
"""A client repeats a publication too often if it does so in this many windows in a row. Heartbeats
come more rarely; a queue that is sent after an outage does not last as long."""
PROOF_TIMES = 20
"""It comes this many times more often than from the client that published it first: proof."""
REMEMBERED_MAX, PUBLISHERS_MAX, PAIRS_MAX = 10_000, 16, 1000
WARN_EVERY_S, SHOWN_S = 600.0, 180.0
"""How often the log hears of the same two bridges, and how long status shows a loop."""
CURE = "connect the bridge with MQTT 5, set no-local or try_private, or take one of the two away"


class Repeated(msgspec.Struct):
    """A publication for one bridge: how often each client published it in this window, and in how
    many windows before, in a row, it did so too often."""

    first: ClientId
    since: float
    times: dict[ClientId, int]
    streaks: dict[ClientId, int]


class LoopDetector:
    """Loops through the bridges of this gateway."""

    def __init__(
        self,
        services: MqttServices,
        sessions: MqttSessionTable,
        gossip: GatewayGossip,
        connections: ConnectionTable,
    ) -> None:
        self.noticed = self.refused = 0
        """How often a loop was noticed, and a bridge disconnected for it."""
        self._broker = services.broker
        self._config = services.config
        self._services = services
        self._sessions = sessions
        self._gossip = gossip
        self._connections = connections
        self._repeated: OrderedDict[tuple[str, bytes], Repeated] = OrderedDict()
        self._warned: OrderedDict[tuple[str, str], float] = OrderedDict()
        self._last, self._last_at = "", -inf

    def last(self, now: float) -> str:
        """A description of the last loop; empty if there was none lately."""
        return self._last if now - self._last_at < SHOWN_S else ""

    def delivered(self, bridge: MqttSession, publication: Publication, now: float) -> None:
        """A publication is delivered to a bridge of this gateway. O(1)."""
        key = bridge.name, fingerprint(publication.topic, publication.payload)
        publisher = publication.publisher
        seen = self._repeated.get(key)
        if seen is None or now - seen.since > 2 * WINDOW_S:
            seen = self._repeated[key] = Repeated(publisher, now, {}, {})
            if len(self._repeated) > REMEMBERED_MAX:
                self._repeated.popitem(last=False)
        self._repeated.move_to_end(key)
        if now - seen.since > WINDOW_S:
            often = [client for client, times in seen.times.items() if times >= TIMES]
            seen.streaks = {client: seen.streaks.get(client, 0) + 1 for client in often}
            seen.since, seen.times = now, {}
        times = seen.times.get(publisher, 0) + 1
        if times > 1 or len(seen.times) < PUBLISHERS_MAX:
            seen.times[publisher] = times
        session, _, gateway = publisher.rpartition("@")
        is_suspect = times == TIMES and seen.streaks.get(publisher, 0) + 1 >= WINDOWS
        if is_suspect and session != bridge.name:
            is_proof = PROOF_TIMES * seen.times.get(seen.first, 0) <= times
            message = Returned(gateway, session, bridge.name, publication.topic, is_proof)
            if gateway == self._broker:
                self.returned(message, now)
            else:
                self._gossip.publish(message, now)

    def returned(self, message: Returned, now: float) -> None:
        """A client of this gateway repeats what a bridge is sent."""
        session = self._sessions.by_name.get(message.session)
        if session is not None and is_bridge(session):
            self.note(session, message.bridge, message.topic, now, is_proof=message.is_proof)

    def note(
        self, session: MqttSession, other: str, topic: str, now: float, *, is_proof: bool
    ) -> None:
        """A session brings back what the bridge ``other`` is sent, or seems to."""
        self.noticed += 1
        one, two = (name.partition("mqtt:")[2] for name in (session.name, other))
        verb = "brings back" if is_proof else "probably brings back"
        text = f"MQTT bridge {one!r} {verb} what bridge {two!r} is sent on topic {topic!r}: {CURE}"
        self._last, self._last_at = text, now
        if now - self._warned.get((session.name, other), -inf) >= WARN_EVERY_S:
            self._warned[session.name, other] = now
            if len(self._warned) > PAIRS_MAX:
                self._warned.popitem(last=False)
            self._services.emit(ReportProblem(text))
        if is_proof and self._config.on_loop == "refuse" and session.connection is not None:
            self.refused += 1
            self._connections.end(
                session.connection, MqttError(Reason.ADMINISTRATIVE_ACTION, text), now
            )
