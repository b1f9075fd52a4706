"""Loop probes: find loops out of the overlay over one bridge and back over another.

MQTT 3.1.1 has no user properties, so bridges of that version lose the marks of
`protocol/bridge_marks`, and what they return looks new. While there are several bridges, each that
has published anything is sent probes at intervals. A session over which a probe returns without its
mark echoes what that bridge is sent, and gets an echo filter (`bridges/echo_filter`). Where no such
probe returns there is no such loop, and nothing is compared.

```
 b1 ─ probe(left, #) ─> left ─> mosquitto ─> right ─ probe(left, #) ─> b2: right echoes left
```
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

import msgspec

from pubweave.core.mqtt.bridges.echo_filter import EchoFilter
from pubweave.core.mqtt.bridges.loop_detector import LoopDetector
from pubweave.core.mqtt.cluster.bridge_census import is_bridge
from pubweave.core.mqtt.cluster.gossip import GatewayGossip
from pubweave.core.mqtt.protocol.topics import has_wildcards
from pubweave.core.mqtt.services import MqttServices
from pubweave.core.mqtt.session.inflight import Delivery
from pubweave.core.mqtt.session.session import MqttSession, session_of
from pubweave.core.mqtt.session.table import MqttSessionTable
from pubweave.model.mqtt_packets import Publish
from pubweave.model.publications import Publication

LEVEL = "pubweave-ring"
"""Replaces wildcards in the topics of probes; their payloads begin with it, too."""
PATTERNS_MAX = 16
"""How many patterns of a bridge are probed."""
WATCHED_MAX = 100
"""How many sessions of a gateway have an echo filter."""
FIRST_S, EVERY_S = 1.0, 60.0
"""Intervals of probes: short after bridges have changed, then doubling."""
ROUTE_S = 3 * EVERY_S
"""A route that no probe has taken for this long is gone."""


class Probe(msgspec.Struct, frozen=True, array_like=True):
    """Sent to ``bridge`` because of ``pattern``, by the gateway with this mark."""

    mark: str
    bridge: str
    pattern: str


_decode = msgspec.json.Decoder(Probe).decode
_BEGIN = f"{LEVEL} ".encode()


class LoopProbes:
    """The echo filters of this gateway's sessions, and the probes that find whom to filter."""

    def __init__(
        self,
        services: MqttServices,
        sessions: MqttSessionTable,
        gossip: GatewayGossip,
        detector: LoopDetector,
    ) -> None:
        self._services = services
        self._config = services.config
        self._sessions = sessions
        self._gossip = gossip
        self._detector = detector
        self._filters: dict[str, EchoFilter] = {}
        self._changes = 0
        self._every_s = FIRST_S
        self._probe_at = inf

    # --- probes ----------------------------------------------------------------------------

    @property
    def _is_active(self) -> bool:
        return self._config.recognises_echoes and self._gossip.bridges.count > 1

    def check(self, now: float) -> None:
        """At the end of an event: when bridges have changed, probe all of them, and soon again,
        because the far ends may not be ready yet."""
        if self._gossip.bridges.changes != self._changes:
            self._changes = self._gossip.bridges.changes
            self._every_s = FIRST_S
            self._set_deadline(now if self._is_active else inf)
            if not self._is_active:
                self._filters.clear()

    def on_deadline(self, now: float) -> None:
        if now < self._probe_at:
            return
        for name in [n for n, e in self._filters.items() if e.discard_old_routes(now)]:
            del self._filters[name]
        for name in self._gossip.bridges.here:
            session = self._sessions.by_name.get(name)
            if session is not None:
                self.probe(session, now)
        self._set_deadline(now + self._every_s)
        self._every_s = min(2 * self._every_s, EVERY_S)

    def _set_deadline(self, at: float) -> None:
        self._probe_at = at
        self._services.deadlines.set("loop probes", at)

    def probe(self, session: MqttSession, now: float) -> None:
        """Send a bridge a probe for each of its patterns. QoS 0 suffices, as probes are repeated.
        A bridge that has never published forwards nothing and is not probed."""
        is_asked = session.connection is not None and session.has_published
        if not is_asked or not self._is_active or not is_bridge(session):
            return
        for pattern, topic in _probed(session):
            probe = Probe(self._gossip.marks.own, session.name, pattern)
            payload = _BEGIN + msgspec.json.encode(probe)
            publication = Publication("", 0, topic, {}, payload, now)
            session.send(Delivery(publication, 0, is_marked=True), now)

    def receive_probe(self, session: MqttSession, packet: Publish, now: float) -> bool:
        """Whether a publication is a probe of this overlay. One that kept its mark shows no echo:
        marks do not get lost on its route. Without two bridges only publications of bridges are
        checked: a probe may have been under way when the other bridge left."""
        if self._gossip.bridges.count < 2 and not is_bridge(session):
            return False
        if not packet.payload.startswith(_BEGIN):
            return False
        try:
            probe = _decode(packet.payload[len(_BEGIN) :])
        except msgspec.DecodeError:
            return False
        if not self._gossip.marks.has(probe.mark):
            return False
        if self._is_active and not self.is_marked(packet):
            self._watch(session.name, probe, now)
            self._detector.note(session, probe.bridge, probe.pattern, now, is_proof=True)
        return True

    def _watch(self, name: str, probe: Probe, now: float) -> None:
        if name not in self._filters and len(self._filters) < WATCHED_MAX:
            self._filters[name] = EchoFilter()
        if name in self._filters:
            self._filters[name].learn(probe.bridge, probe.pattern, now + ROUTE_S)

    # --- publications ----------------------------------------------------------------------

    def is_marked(self, packet: Publish) -> bool:
        """Whether a publication carries a mark of this overlay."""
        return self._gossip.marks.is_known(packet.content)

    def is_watched(self, session: MqttSession) -> bool:
        """Whether a session has an echo filter."""
        return session.name in self._filters

    def consume_echo(self, session: MqttSession, topic: str, payload: bytes, now: float) -> bool:
        """Whether a publication of a session is an expected echo, which is then used up."""
        echo_filter = self._filters.get(session.name)
        return echo_filter is not None and echo_filter.consume(topic, payload, now)

    def published(self, session: MqttSession, topic: str, payload: bytes, now: float) -> None:
        """A session has published something new, which may return over bridges."""
        echo_filter = self._filters.get(session.name)
        if echo_filter is not None:
            echo_filter.expect(topic, payload, session.name, now)

    def notified(self, session: MqttSession, publication: Publication, now: float) -> None:
        """A publication was delivered to this session, and perhaps to bridges."""
        echo_filter = self._filters.get(session.name)
        if echo_filter is not None:
            origin = session_of(publication.publisher)
            if origin != session.name:  # `published` expects it otherwise
                echo_filter.expect(publication.topic, publication.payload, origin, now)


def _probed(session: MqttSession) -> Iterator[tuple[str, str]]:
    """Patterns of a bridge with wildcards, each with a topic that nobody uses. Topics named without
    wildcards are not probed: their users would see the probe."""
    patterns = [s.pattern for s in session.subscriptions.all() if not s.group]
    with_wildcards = [p for p in patterns if has_wildcards(p) and not p.startswith("$")]
    for pattern in with_wildcards[:PATTERNS_MAX]:
        levels = [LEVEL if level in ("+", "#") else level for level in pattern.split("/")]
        yield pattern, "/".join(levels)
