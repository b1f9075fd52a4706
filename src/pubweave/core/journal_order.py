"""Which effects wait until the journal has their event, and for how long.

The rule of the journal: whatever tells somebody what this broker has done leaves after the event
that it comes from is on disk, and in order. What promises nothing leaves at once: keep-alive,
answers to questions, telemetry, and everything for clients that only look on. So a broker whose
disk is full or slow is still known to be alive, and says what is wrong.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from pubweave.core.effects import Effect, EmitTelemetry, PauseReading, Transmit, TransmitPackets
from pubweave.core.events import ConnectionId
from pubweave.model.messages import Answer, Hello, Ping, Pong
from pubweave.model.mqtt_packets import PingResp

_PROMISES_NOTHING = (Ping, Pong, Answer)


class JournalOrder:
    """Effects of events by the number of the event, until the journal has that many.

    >>> order = JournalOrder(lambda connection: False)
    >>> order.noted([Transmit(1, (Pong(0.5),))])
    [Transmit(connection=1, messages=(Pong(sent_at=0.5),))]
    >>> order.is_awaited
    False
    """

    def __init__(self, is_onlooker: Callable[[ConnectionId], bool]) -> None:
        """``is_onlooker`` knows the connections of clients that only look on."""
        self._is_onlooker = is_onlooker
        self._waiting: deque[tuple[int, list[Effect]]] = deque()
        self._greeted_by: dict[ConnectionId, int] = {}
        """Connections whose Hello waits, and for which event: nothing may go before it."""
        self.events = 0
        """How many events were noted so far."""

    @property
    def is_awaited(self) -> bool:
        """Whether an effect waits for the journal."""
        return bool(self._waiting)

    def noted(self, effects: list[Effect]) -> list[Effect]:
        """The next event is handed to the journal; which of its effects need not wait."""
        self.events += 1
        waiting = [effect for effect in effects if self._has_to_wait(effect)]
        if not waiting:
            return effects
        self._waiting.append((self.events, waiting))
        if len(waiting) == len(effects):
            return []
        return [effect for effect in effects if not self._has_to_wait(effect)]

    def settled(self, events: int) -> list[Effect]:
        """So many events are on disk: the effects that may leave now, in order."""
        freed: list[Effect] = []
        while self._waiting and self._waiting[0][0] <= events:
            freed += self._waiting.popleft()[1]
        if self._greeted_by:
            self._greeted_by = {c: event for c, event in self._greeted_by.items() if event > events}
        return freed

    def _has_to_wait(self, effect: Effect) -> bool:
        if isinstance(effect, Transmit):
            if all(isinstance(message, _PROMISES_NOTHING) for message in effect.messages):
                return effect.connection in self._greeted_by
            if self._is_onlooker(effect.connection):
                return False
            if type(effect.messages[0]) is Hello:
                self._greeted_by[effect.connection] = self.events
            return True
        if isinstance(effect, TransmitPackets):
            return not all(isinstance(packet, PingResp) for packet in effect.packets)
        return not isinstance(effect, EmitTelemetry | PauseReading)
