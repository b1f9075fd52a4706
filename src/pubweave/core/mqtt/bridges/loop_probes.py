"""Ways that lead out of the overlay over a bridge and in again over another, where marks get lost.

Version 3.1.1 has no user properties (`protocol/bridge_marks`): what a mosquitto gets and gives over
such bridges cannot be told from something new. So whether there is a ring is found out. While there
are several bridges, each that has published something, be it that it is there, is now and then sent
a probe; the session over which it comes in again is one that brings back what goes to that bridge,
and is watched (`bridges/echo_filter`). Where no probe comes in without its mark there is no such
ring, and nothing is compared with anything.

```
 b1 ─ probe(left, #) ─> left ─> mosquitto ─> right ─ probe(left, #) ─> b2: right echoes left
```
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

import msgspec

from pubweave.core.config.mqtt import MqttConfig
from pubweave.core.mqtt.bridges.echo_filter import EchoFilter
from pubweave.core.mqtt.bridges.loop_detector import Loops
from pubweave.core.mqtt.cluster.bridge_census import is_bridge
from pubweave.core.mqtt.cluster.gossip import GatewayGossip
from pubweave.core.mqtt.protocol.topics import has_wildcards
from pubweave.core.mqtt.session.inflight import Delivery
from pubweave.core.mqtt.session.session import MqttSession, session_of
from pubweave.core.mqtt.session.table import MqttSessionTable
from pubweave.model.mqtt_packets import Publish
from pubweave.model.publications import Publication

LEVEL = "pubweave-ring"
"""Stands for wildcards in the topics of probes, and at the beginning of their payloads."""
PATTERNS_MAX = 16
"""So many patterns of a bridge are probed."""
WATCHED_MAX = 100
"""So many sessions of a door are watched."""
FIRST_S, EVERY_S = 1.0, 60.0
"""When probes are repeated: soon after bridges came or went, then ever more seldom."""
WAY_S = 3 * EVERY_S
"""A way by which no probe has come for so long is gone."""


class Probe(msgspec.Struct, frozen=True, array_like=True):
    """Sent to ``bridge`` because of ``pattern``, by the door that marks so."""

    mark: str
    bridge: str
    pattern: str


_decode = msgspec.json.Decoder(Probe).decode
_BEGIN = f"{LEVEL} ".encode()


class LoopProbes:
    """Which sessions of this door bring back what went out over bridges, and what they are to
    bring."""

    def __init__(
        self, config: MqttConfig, sessions: MqttSessionTable, doors: GatewayGossip, loops: Loops
    ) -> None:
        self._config = config
        self._sessions = sessions
        self._doors = doors
        self._loops = loops
        self._watched: dict[str, EchoFilter] = {}
        self._changes = 0
        self._every_s = FIRST_S
        self.deadline = inf

    # --- probes ----------------------------------------------------------------------------

    @property
    def _may_be(self) -> bool:
        return self._config.recognises_echoes and self._doors.bridges.count > 1

    def check(self, now: float) -> None:
        """The end of an event: where bridges came or went, all are probed, and soon again, because
        the far ends may not be ready yet."""
        if self._doors.bridges.changes != self._changes:
            self._changes = self._doors.bridges.changes
            self._every_s = FIRST_S
            self.deadline = now if self._may_be else inf
            if not self._may_be:
                self._watched.clear()

    def on_deadline(self, now: float) -> None:
        if now < self.deadline:
            return
        self._watched = {name: e for name, e in self._watched.items() if not e.forget_ways(now)}
        for name in self._doors.bridges.here:
            session = self._sessions.get(name)
            if session is not None:
                self.probe(session, now)
        self.deadline = now + self._every_s
        self._every_s = min(2 * self._every_s, EVERY_S)

    def probe(self, session: MqttSession, now: float) -> None:
        """Ask over which sessions what is sent to a bridge comes in again. QoS 0 is enough: it
        is asked again. Who only listens and says that it is a bridge passes nothing on."""
        is_asked = session.connection is not None and session.has_published
        if not is_asked or not self._may_be or not is_bridge(session):
            return
        for pattern, topic in _probed(session):
            probe = Probe(self._doors.marks.own, session.name, pattern)
            payload = _BEGIN + msgspec.json.encode(probe)
            publication = Publication("", 0, topic, {}, payload, now)
            session.send(Delivery(publication, 0, is_marked=True), now)

    def takes_probe(self, session: MqttSession, packet: Publish, now: float) -> bool:
        """Whether a publication is a probe of this overlay. One that has kept its mark says that
        others do, too, and need not be waited for. Where there are no two bridges, only what a
        bridge brings is looked at: a probe may have been under way when the other one left."""
        if self._doors.bridges.count < 2 and not is_bridge(session):
            return False
        if not packet.payload.startswith(_BEGIN):
            return False
        try:
            probe = _decode(packet.payload[len(_BEGIN) :])
        except msgspec.DecodeError:
            return False
        if not self._doors.marks.has(probe.mark):
            return False
        if self._may_be and not self.is_marked(packet):
            self._watch(session.name, probe, now)
            self._loops.note(session, probe.bridge, probe.pattern, now, is_proof=True)
        return True

    def _watch(self, name: str, probe: Probe, now: float) -> None:
        if name not in self._watched and len(self._watched) < WATCHED_MAX:
            self._watched[name] = EchoFilter()
        if name in self._watched:
            self._watched[name].learn(probe.bridge, probe.pattern, now + WAY_S)

    # --- publications ----------------------------------------------------------------------

    def is_marked(self, packet: Publish) -> bool:
        """Whether a publication says that it has been in this overlay."""
        return self._doors.marks.is_known(packet.content)

    def is_watched(self, session: MqttSession) -> bool:
        """Whether a session brings back what has lost its mark."""
        return session.name in self._watched

    def took(self, session: MqttSession, topic: str, payload: bytes, now: float) -> bool:
        """Whether a session brings what is expected of it; once less from now on."""
        echoes = self._watched.get(session.name)
        return echoes is not None and echoes.took(topic, payload, now)

    def brought(self, session: MqttSession, topic: str, payload: bytes, now: float) -> None:
        """Something new goes out over bridges, and so may come in again."""
        echoes = self._watched.get(session.name)
        if echoes is not None:
            echoes.expect(topic, payload, session.name, now)

    def notified(self, session: MqttSession, publication: Publication, now: float) -> None:
        """The overlay has a publication that this session, and so perhaps bridges, want."""
        echoes = self._watched.get(session.name)
        if echoes is not None:
            origin = session_of(publication.publisher)
            if origin != session.name:  # or it is expected since it was brought
                echoes.expect(publication.topic, publication.payload, origin, now)


def _probed(session: MqttSession) -> Iterator[tuple[str, str]]:
    """Patterns of a bridge with a topic of each that nobody uses. On topics that are named without
    wildcards nothing is sent that is none of their users' business."""
    patterns = [s.pattern for s in session.subscriptions.all() if not s.group]
    wild = [p for p in patterns if has_wildcards(p) and not p.startswith("$")]
    for pattern in wild[:PATTERNS_MAX]:
        levels = [LEVEL if level in ("+", "#") else level for level in pattern.split("/")]
        yield pattern, "/".join(levels)
