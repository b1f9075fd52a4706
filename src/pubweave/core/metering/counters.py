"""What a broker counts, and the rates that follow from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pubweave.core.session.session import Session
from pubweave.model.messages.session import SequencedMessage
from pubweave.model.publications import Publication
from pubweave.model.records.status import CounterStatus, RateStatus


@dataclass(slots=True)
class Counters(CounterStatus):
    """Totals since the broker started."""

    def session_lost(self, client: Session, *, is_replayed: bool) -> None:
        """A client's session is over against its wish. What was sent and not acknowledged may have
        arrived; where what was missed ``is_replayed`` elsewhere, one that is away may have gone
        there. The rest is lost."""
        unsent = _publications(client.waiting) + _publications(client.pending)
        if client.is_established or not is_replayed:
            self.notifications_lost += unsent
            unsent = 0
        self.notifications_lost_at_most += unsent + _publications(client.unacked)

    def status(self) -> CounterStatus:
        """The totals of this moment."""
        return self + CounterStatus()


def _publications(queue: Iterable[SequencedMessage]) -> int:
    """Confirmations and refusals in a queue are no notifications."""
    return sum(type(message) is Publication for message in queue)


@dataclass(frozen=True)
class TableSizes:
    """How much a strategy holds."""

    subscriptions: int
    advertisements: int
    forwarded: int
    """Subscriptions passed on to neighbors, counted once per neighbor."""


class LoadWindow:
    """The difference between two readings of the counters, a window apart."""

    def __init__(self, now: float) -> None:
        self._started_at = now
        self._before = CounterStatus()
        self.rates = RateStatus()

    def due(self, now: float, window_s: float) -> bool:
        return now - self._started_at >= window_s

    def turn(self, counters: CounterStatus, now: float) -> tuple[float, CounterStatus]:
        """End the window: its length in seconds and what was counted in it."""
        window_s = now - self._started_at
        delta = counters - self._before
        self._started_at, self._before = now, counters
        if window_s > 0:
            self.rates = RateStatus(
                window_s=window_s,
                publications_in_per_s=delta.publications_in / window_s,
                publications_accepted_per_s=delta.publications_accepted / window_s,
                deliveries_per_s=delta.deliveries / window_s,
                messages_out_per_s=delta.messages_out / window_s,
            )
        return window_s, delta
