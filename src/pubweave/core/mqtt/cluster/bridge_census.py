"""How many bridges are connected to an overlay: with two of them there may be a loop."""

from __future__ import annotations

from pubweave.core.mqtt.session.session import MqttSession
from pubweave.model.ids import BrokerId


class BridgeCensus:
    """The bridges that are connected here, and how many there are at other gateways.

    >>> bridges = BridgeCensus()
    >>> bridges.heard("b2", 2)
    >>> bridges.count, bridges.changes
    (2, 1)
    """

    def __init__(self) -> None:
        self.count = 0
        """Here and at other gateways."""
        self.here: dict[str, None] = {}
        """Names of sessions."""
        self.changes = 0
        """How often the number of bridges at any gateway has changed."""
        self._elsewhere: dict[BrokerId, int] = {}

    def note(self, session: MqttSession, *, is_over: bool) -> None:
        """A session of this gateway connected, ended or subscribed."""
        is_known = session.name in self.here
        is_bridge_now = not is_over and session.connection is not None and is_bridge(session)
        if is_bridge_now == is_known:
            return
        self.changes += 1
        self.count += 1 if is_bridge_now else -1
        if is_bridge_now:
            self.here[session.name] = None
        else:
            del self.here[session.name]

    def heard(self, gateway: BrokerId, count: int) -> None:
        """Another gateway has announced its count, or is gone."""
        before = self._elsewhere.get(gateway, 0)
        if count == before:
            return
        self.changes += 1
        self.count += count - before
        if count:
            self._elsewhere[gateway] = count
        else:
            del self._elsewhere[gateway]


def is_bridge(session: MqttSession) -> bool:
    """Whether a session is a bridge, which forwards: its Connect or a subscription says so."""
    return session.is_bridge or session.subscriptions.of_bridges > 0
