"""How many bridges stand at the doors of an overlay: with two of them there may be a ring."""

from __future__ import annotations

from pubweave.core.mqtt.session.session import MqttSession
from pubweave.model.ids import BrokerId


class BridgeCensus:
    """The bridges that are connected here, and how many there are at other doors.

    >>> bridges = Bridges()
    >>> bridges.heard("b2", 2)
    >>> bridges.count, bridges.changes
    (2, 1)
    """

    def __init__(self) -> None:
        self.count = 0
        """Here and at other doors."""
        self.here: dict[str, None] = {}
        """Names of sessions."""
        self.changes = 0
        """How often the number of bridges somewhere has changed."""
        self._elsewhere: dict[BrokerId, int] = {}

    def note(self, session: MqttSession, *, is_over: bool) -> None:
        """A session of this door came, went or subscribed."""
        is_known = session.name in self.here
        is_one = not is_over and session.connection is not None and is_bridge(session)
        if is_one == is_known:
            return
        self.changes += 1
        self.count += 1 if is_one else -1
        if is_one:
            self.here[session.name] = None
        else:
            del self.here[session.name]

    def heard(self, door: BrokerId, count: int) -> None:
        """Another door has said how many it has, or is gone."""
        before = self._elsewhere.get(door, 0)
        if count == before:
            return
        self.changes += 1
        self.count += count - before
        if count:
            self._elsewhere[door] = count
        else:
            del self._elsewhere[door]


def is_bridge(session: MqttSession) -> bool:
    """Whether what is sent to a session is passed on: its Connect or a subscription says so."""
    return session.is_bridge or session.subscriptions.of_bridges > 0
