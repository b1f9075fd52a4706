"""Table messages on their way to the strategy: advertisements, subscriptions, end marks."""

from __future__ import annotations

from pubweave.core.dataplane.grace import GracePeriods
from pubweave.core.dataplane.outgoing import OutgoingQueue
from pubweave.core.dataplane.sequences import PublisherSequences
from pubweave.core.metering.recorder import BrokerMeter
from pubweave.core.routing.strategy import RoutingStrategy
from pubweave.core.session.access import Access
from pubweave.core.session.session import Session
from pubweave.core.vocabulary.errors import RefusedError
from pubweave.model.ids import publisher_of
from pubweave.model.messages.session import (
    Confirmed,
    Subscribe,
    Synced,
    TableMessage,
    Unadvertise,
)


class TableIntake:
    """Checks table messages, hands them to the strategy and notes what follows from them."""

    def __init__(
        self,
        access: Access,
        routing: RoutingStrategy,
        outgoing: OutgoingQueue,
        sequences: PublisherSequences,
        grace: GracePeriods,
        meter: BrokerMeter | None,
    ) -> None:
        self._access = access
        self._routing = routing
        self._outgoing = outgoing
        self._sequences = sequences
        self._grace = grace
        self._meter = meter

    def receive(self, origin: Session, message: TableMessage | Synced, now: float) -> None:
        """A message for the tables. RemoteProtocolError from a client refused too often."""
        try:
            self._access.check_entry(origin, message)
            self._routing.receive(origin, message)
        except RefusedError as error:
            self._outgoing.refuse(origin, getattr(message, "id", "synced"), str(error))
            self._access.check_patience(origin)
            return
        if isinstance(message, Subscribe) and origin.is_client and not self._routing.confirms:
            self._outgoing.send(origin, Confirmed((message.id,)))
        if isinstance(message, Unadvertise):
            self._sequences.withdrawn(publisher_of(message.id))
        if isinstance(message, Synced) and not origin.is_client:
            self._grace.synced(origin, now)
        elif self._routing.gate.is_shut(origin):
            self._grace.note_waiting(origin, now)
        if origin.is_client and self._meter is not None:
            self._meter.table_changed(origin.remote, message, now)
