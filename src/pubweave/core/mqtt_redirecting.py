"""Clients that are sent to another broker's door, by MQTT 5's "use another server".

The session stays here until its client connects there and claims it (`mqtt_moving`), so nothing is
lost, and a client that comes back instead finds everything as it was. Clients are sent one after
the other, never all at once, and none again before it had time to settle, at any door.
"""

from __future__ import annotations

from collections import deque
from math import inf

from pubweave.core.mqtt_comings import Comings
from pubweave.core.mqtt_config import MqttConfig
from pubweave.core.mqtt_connection import MqttError
from pubweave.core.mqtt_doors import OtherDoors
from pubweave.core.mqtt_session import session_of
from pubweave.core.mqtt_sessions import Sessions
from pubweave.core.mqtt_words import Redirected
from pubweave.model.ids import BrokerId, ClientId
from pubweave.model.mqtt_packets import Reason

RESTING_MAX = 100_000


class Redirecting:
    """Who is to be sent where, and who has been lately."""

    def __init__(
        self, config: MqttConfig, sessions: Sessions, doors: OtherDoors, comings: Comings
    ) -> None:
        self._config = config
        self._sessions = sessions
        self._doors = doors
        self._comings = comings
        self._waiting: deque[tuple[str, str]] = deque()
        self._next_at = 0.0
        self.redirected = 0
        self._resting: dict[str, float] = {}

    def redirect(self, client: ClientId, destination: BrokerId, now: float) -> str | None:
        """Send a client to another door: empty if it is or will be, else why it is not; None: it
        is no client of this door."""
        name = session_of(client)
        session = self._sessions.get(name)
        if session is None:
            return None
        address = self._doors.addresses.get(destination, "")
        if session.connection is None or not session.connection.is_v5:
            return f"{client} cannot be redirected: only connected MQTT 5 clients can"
        if not address:
            return f"no door of {destination} is known"
        if self._resting.get(name, now) > now:
            return f"{client} was redirected lately"
        self.rest(name, now)
        self._doors.say(Redirected(name), now)
        self._waiting.append((name, address))
        self._send(now)
        return ""

    def rest(self, session: str, now: float) -> None:
        """Leave a client alone for a while: it has been sent somewhere."""
        if len(self._resting) >= RESTING_MAX:
            del self._resting[next(iter(self._resting))]
        self._resting.pop(session, None)
        self._resting[session] = now + self._config.redirect_hold_s

    @property
    def deadline(self) -> float:
        return self._next_at if self._waiting else inf

    def on_deadline(self, now: float) -> None:
        self._send(now)

    def _send(self, now: float) -> None:
        while self._waiting and now >= self._next_at:
            name, address = self._waiting.popleft()
            session = self._sessions.get(name)
            if session is None or session.connection is None:
                continue
            self._next_at = now + self._config.redirect_every_s
            self.redirected += 1
            session.will = None  # it goes because it was told to
            error = MqttError(Reason.USE_ANOTHER_SERVER, "another broker is closer")
            self._comings.end(session.connection, error, now, server_reference=address)
