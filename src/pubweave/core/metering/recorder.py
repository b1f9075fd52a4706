"""What of a broker's work becomes telemetry: the bridge between `broker` and `metering`.

Present only in brokers that record; the broker calls it beside its own work and never depends on
it. It remembers the filters of attached clients, so that a withdrawal is recorded with what was
withdrawn.
"""

from __future__ import annotations

from pubweave.core.metering.counters import TableSizes
from pubweave.core.metering.metering import LinkTotals, LoadCounters, Metering
from pubweave.core.session.session import Session
from pubweave.core.session.table import SessionTable
from pubweave.model.filters.filter import Filter
from pubweave.model.ids import BrokerId, ClientId
from pubweave.model.messages.session import (
    Advertise,
    Subscribe,
    Synced,
    TableMessage,
    Unadvertise,
    Unsubscribe,
)
from pubweave.model.publications import Publication
from pubweave.model.records.status import CounterStatus
from pubweave.model.telemetry import ClientChange, LinkChange, Records, TableChange


class BrokerMeter:
    """Turns what a broker does into records."""

    def __init__(self, metering: Metering) -> None:
        self._metering = metering
        self._subscriptions: dict[ClientId, dict[str, Filter]] = {}
        self._advertisements: dict[ClientId, dict[str, Filter]] = {}
        self._told_dropped = 0

    def pop_dropped(self) -> int:
        """How many records were dropped since this was last asked."""
        before, self._told_dropped = self._told_dropped, self._metering.dropped_records
        return self._told_dropped - before

    def pop(self) -> Records:
        return self._metering.pop()

    def routed(
        self,
        publication: Publication,
        origin: Session,
        route: tuple[Session, ...],
        received_at: float,
        now: float,
    ) -> None:
        """A publication from ``origin`` was queued for every session of ``route``."""
        metering = self._metering
        if not metering.is_sampled(publication):
            return
        if origin.is_client:
            metering.publication_accepted(publication, now, received_at)
        else:
            metering.hop(publication, origin.remote, received_at, now)
        for destination in route:
            if destination.is_client:
                metering.delivered(publication, destination.remote, now)

    def delivered(self, publication: Publication, client: ClientId, now: float) -> None:
        """A publication that came before was queued for a client."""
        if self._metering.is_sampled(publication):
            self._metering.delivered(publication, client, now)

    def table_changed(self, client: ClientId, message: TableMessage | Synced, now: float) -> None:
        """A client's table message was accepted."""
        metering = self._metering
        match message:
            case Subscribe(id_, filter_):
                self._subscriptions.setdefault(client, {})[id_] = filter_
                metering.subscription_changed(client, id_, filter_, TableChange.ADDED, now)
            case Unsubscribe(id_):
                gone = self._subscriptions.get(client, {}).pop(id_, None)
                if gone is not None:
                    metering.subscription_changed(client, id_, gone, TableChange.REMOVED, now)
            case Advertise(id_, filter_):
                self._advertisements.setdefault(client, {})[id_] = filter_
                metering.advertisement_changed(client, id_, filter_, TableChange.ADDED, now)
            case Unadvertise(id_):
                gone = self._advertisements.get(client, {}).pop(id_, None)
                if gone is not None:
                    metering.advertisement_changed(client, id_, gone, TableChange.REMOVED, now)

    def client_attached(self, client: ClientId, now: float) -> None:
        self._metering.client_changed(client, ClientChange.ATTACHED, now)

    def client_left(self, client: ClientId, now: float) -> None:
        """A client is gone, and with it all that it subscribed to and advertised."""
        for id_ in list(self._subscriptions.get(client, {})):
            self.table_changed(client, Unsubscribe(id_), now)
        for id_ in list(self._advertisements.get(client, {})):
            self.table_changed(client, Unadvertise(id_), now)
        self._subscriptions.pop(client, None)
        self._advertisements.pop(client, None)
        self._metering.client_changed(client, ClientChange.DETACHED, now)

    def migration_ended(
        self,
        client: ClientId,
        destination: BrokerId,
        outcome: str,
        hops: int,
        paused_ms: float,
        now: float,
    ) -> None:
        self._metering.migration_ended(client, destination, outcome, hops, paused_ms, now)

    def link_changed(self, neighbor: str, change: LinkChange, now: float) -> None:
        self._metering.link_changed(neighbor, change, now)

    def rtt_sampled(self, neighbor: str, rtt_ms: float, now: float) -> None:
        self._metering.rtt_sampled(neighbor, rtt_ms, now)

    def load_sampled(
        self,
        window_s: float,
        counted: CounterStatus,
        sizes: TableSizes,
        sessions: SessionTable,
        now: float,
    ) -> None:
        """A load window ended: one record for the broker, one for each of its links."""
        self._metering.load_sampled(
            now,
            LoadCounters(
                window_s=window_s,
                counted=counted,
                queue_messages=sum(session.queue_messages for session in sessions),
                queue_bytes=sum(session.queue_bytes for session in sessions),
                subscriptions=sizes.subscriptions,
                advertisements=sizes.advertisements,
                clients=len(sessions.clients),
                links=len(sessions.links),
            ),
        )
        for neighbor, link in sessions.links.items():
            self._metering.link_load_sampled(
                neighbor,
                now,
                LinkTotals(
                    messages_in=link.received_total,
                    messages_out=link.sent_total,
                    bytes_in=link.received_total_bytes,
                    bytes_out=link.sent_total_bytes,
                    queue_messages=link.queue_messages,
                    queue_bytes=link.queue_bytes,
                ),
            )
