"""What clients of a door publish: what of it goes on to the overlay, and what is refused.

What a session brings that is known to echo (`bridges/loop_probes`) waits for a moment. An echo may
be faster than the overlay, and is known as such only when the overlay's own copy has come.
"""

from __future__ import annotations

import contextlib
from collections import deque
from math import inf

import msgspec

from pubweave.core.config.mqtt import MqttConfig
from pubweave.core.mqtt.bridges.loop_probes import LoopProbes
from pubweave.core.mqtt.capabilities import check_publication, why_too_large
from pubweave.core.mqtt.connections import ConnectionTable
from pubweave.core.mqtt.protocol.topics import is_bridge_state, is_reserved
from pubweave.core.mqtt.session.connection import MqttConnection, MqttError
from pubweave.core.mqtt.session.native_client import InProcessLink
from pubweave.core.mqtt.session.session import MqttSession
from pubweave.core.mqtt.session.table import MqttSessionTable
from pubweave.core.session.access import Access
from pubweave.core.vocabulary.effects import PauseReading
from pubweave.model.mqtt_packets import Publish, Reason

HELD_MAX = 10_000
HELD_BYTES_MAX = 8 << 20
"""What may wait of one session; beyond that, the first is taken for new."""


class PossibleEcho(msgspec.Struct, frozen=True):
    """A publication that may be an echo; from ``until`` on it is new."""

    packet: Publish
    topic: str
    until: float


class Waiting:
    """What waits of one session, in order."""

    def __init__(self) -> None:
        self.held: deque[PossibleEcho] = deque()
        self._size_bytes = 0

    def add(self, one: PossibleEcho) -> None:
        self.held.append(one)
        self._size_bytes += len(one.packet.payload)

    def take_first(self) -> PossibleEcho:
        first = self.held.popleft()
        self._size_bytes -= len(first.packet.payload)
        return first

    @property
    def is_full(self) -> bool:
        return len(self.held) > HELD_MAX or self._size_bytes > HELD_BYTES_MAX


class PublishHandler:
    """Takes publications of clients in."""

    def __init__(
        self,
        config: MqttConfig,
        access: Access,
        loop: InProcessLink,
        sessions: MqttSessionTable,
        rings: LoopProbes,
        comings: ConnectionTable,
    ) -> None:
        self.echoes = 0
        """Publications that a bridge brought back."""
        self.too_large = 0
        """Publications that were refused because of their size."""
        self._config = config
        self._access = access
        self._loop = loop
        self._sessions = sessions
        self._rings = rings
        self._comings = comings
        self._waiting: dict[str, Waiting] = {}
        """By session; none of them is empty."""

    def receive(
        self, connection: MqttConnection, session: MqttSession, packet: Publish, now: float
    ) -> None:
        """Hand a publication on, or refuse it. MqttError: the client may not even try."""
        if not session.has_published:
            session.has_published = True
            self._rings.probe(session, now)
        topic = connection.topic_of(packet, self._config.topic_alias_max)
        check_publication(packet, topic, self._config)
        too_large = why_too_large(packet, self._config)
        has_readers = not is_reserved(topic)
        if not has_readers and not is_bridge_state(topic):
            text = f"{topic!r} is not for clients to publish on"
            session.refuse(packet, Reason.NOT_AUTHORIZED, text)
        elif too_large:
            self.too_large += 1
            # 0x95 is no answer to a publication (MQTT 5.0, 3.4.2.1).
            session.refuse(packet, Reason.QUOTA_EXCEEDED, too_large)
        elif not has_readers or self._rings.takes_probe(session, packet, now):
            self._publish(session, packet, topic, now, is_for_nobody=True)
        elif self._rings.is_marked(packet):
            self.echoes += 1
            self._publish(session, packet, topic, now, is_for_nobody=True)
        elif self._may_echo(session) and not session.has_come(packet):
            waiting = self._waiting.setdefault(session.name, Waiting())
            waiting.add(PossibleEcho(packet, topic, now + self._config.echo_hold_s))
            self.release(session, now)
        else:
            self._publish(session, packet, topic, now)
        self._pause_if_congested(session)

    def _publish(
        self,
        session: MqttSession,
        packet: Publish,
        topic: str,
        now: float,
        *,
        is_for_nobody: bool = False,
    ) -> None:
        rights = self._access.publish_rights(session.user)
        session.publish(packet, topic, rights, now, is_for_nobody=is_for_nobody)
        if session.end is not None:
            self._loop.touch(session.end)

    # --- back-pressure ---------------------------------------------------------------------

    def _pause_if_congested(self, session: MqttSession) -> None:
        if _is_congested(session):
            self._pause(session, is_paused=True)

    def settled(self, session: MqttSession) -> None:
        """The broker has taken in what a client said: perhaps it may go on."""
        if not _is_congested(session):
            self._pause(session, is_paused=False)

    def _pause(self, session: MqttSession, *, is_paused: bool) -> None:
        connection = session.connection
        if connection is not None and connection.is_paused != is_paused:
            connection.is_paused = is_paused
            self._comings.effects.append(PauseReading(connection.number, is_paused))

    # --- what may be an echo ---------------------------------------------------------------

    def _may_echo(self, session: MqttSession) -> bool:
        return self._rings.is_watched(session) or session.name in self._waiting

    def release(self, session: MqttSession, now: float) -> None:
        """Of what a session has brought, hand on what is an echo for certain, or has waited long
        enough: in order, so that each answer and each publication stays behind those before it."""
        try:
            self._release(session, now)
        except MqttError as error:
            if session.connection is not None:
                self._comings.end(session.connection, error, now)

    def _release(self, session: MqttSession, now: float) -> None:
        waiting = self._waiting.pop(session.name, None)
        while waiting is not None and waiting.held:
            is_echo = self._is_echo(session, waiting.held[0], now)
            if not is_echo and waiting.held[0].until > now and not waiting.is_full:
                self._waiting[session.name] = waiting
                return
            self._hand_on(session, waiting.take_first(), now, is_echo=is_echo)

    def release_all(self, session: MqttSession, now: float) -> None:
        """A client goes: what it has said counts, if the broker still takes it."""
        waiting = self._waiting.pop(session.name, None)
        if waiting is not None and session.end is not None:
            with contextlib.suppress(MqttError):
                while waiting.held:
                    one = waiting.take_first()
                    is_echo = self._is_echo(session, one, now)
                    self._hand_on(session, one, now, is_echo=is_echo)

    def _is_echo(self, session: MqttSession, one: PossibleEcho, now: float) -> bool:
        return self._rings.took(session, one.topic, one.packet.payload, now)

    def _hand_on(
        self, session: MqttSession, one: PossibleEcho, now: float, *, is_echo: bool
    ) -> None:
        self.echoes += is_echo
        if not is_echo:
            self._rings.brought(session, one.topic, one.packet.payload, now)
        self._publish(session, one.packet, one.topic, now, is_for_nobody=is_echo)

    @property
    def deadline(self) -> float:
        """O(sessions of which something waits)."""
        return min((self._due(name) for name in self._waiting), default=inf)

    def _due(self, name: str) -> float:
        """When the first that waits of a session may go."""
        return self._waiting[name].held[0].until

    def on_deadline(self, now: float) -> None:
        for name in [name for name in self._waiting if self._due(name) <= now]:
            session = self._sessions.get(name)
            if session is None:
                del self._waiting[name]
            else:
                self.release(session, now)
                self._pause_if_congested(session)


def _is_congested(session: MqttSession) -> bool:
    return session.end is not None and session.end.client.session.is_congested
