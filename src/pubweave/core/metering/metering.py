"""What a broker remembers of its own work until somebody takes it: telemetry records.

Metering makes records of `pubweave.model.telemetry` and holds a bounded number of them; it reads
no clock and writes nothing. The broker asks `is_sampled` once per publication and calls the
recording methods of sampled publications only; changes and loads are always recorded. Which
publications are sampled depends on nothing but their name, so all brokers of an overlay record the
same ones, and a larger ratio records a superset of what a smaller one does.

When nobody takes records, the newest are dropped and counted: telemetry never costs more memory
than ``max_pending_records`` tuples and never holds up routing.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from itertools import count
from operator import attrgetter
from zlib import crc32

from pubweave.model.filters.filter import Filter, topic_of
from pubweave.model.filters.text import format_filter
from pubweave.model.ids import AdvertisementId, BrokerId, ClientId, SubscriptionId
from pubweave.model.publications import Publication
from pubweave.model.records.status import COUNTERS, CounterStatus
from pubweave.model.telemetry import (
    RECORDED_TABLES,
    ClientChange,
    LinkChange,
    Record,
    Records,
    TableChange,
)

DEFAULT_MAX_PENDING_RECORDS = 100_000
MAX_REMEMBERED_PUBLISHERS = 65_536
"""How many publishers' hashes are kept at hand before starting over."""

_MASK = 0xFFFF_FFFF_FFFF_FFFF
_FIRST_MULTIPLIER = 0x9E37_79B9_7F4A_7C15
_SECOND_MULTIPLIER = 0xD6E8_FEB8_6659_FD93


@dataclass(frozen=True, slots=True)
class LoadCounters:
    """A broker's load: what a window counted, then what stands at its end."""

    window_s: float
    counted: CounterStatus
    queue_messages: int
    queue_bytes: int
    subscriptions: int
    advertisements: int
    clients: int
    links: int


@dataclass(frozen=True, slots=True)
class LinkTotals:
    """A link's load: totals that a session keeps anyway, then what stands at the moment."""

    messages_in: int
    messages_out: int
    bytes_in: int
    bytes_out: int
    queue_messages: int
    queue_bytes: int


_LOAD_VALUES = attrgetter(
    "window_s",
    *(f"counted.{counter.name}" for counter in COUNTERS if counter.metadata["in_loads"]),
    *(field.name for field in fields(LoadCounters) if field.name not in ("window_s", "counted")),
)


class Metering:
    """The telemetry of one broker in one incarnation (``epoch``)."""

    def __init__(
        self,
        broker_id: BrokerId,
        sample_ratio: float = 1.0,
        *,
        epoch: int,
        max_pending_records: int = DEFAULT_MAX_PENDING_RECORDS,
    ) -> None:
        if not 0.0 <= sample_ratio <= 1.0:
            raise ValueError(f"sample_ratio must be between 0 and 1, got {sample_ratio}")
        if max_pending_records < 1:
            raise ValueError(f"max_pending_records must be positive, got {max_pending_records}")
        self.dropped_records = 0
        self._broker = broker_id
        self._epoch = epoch
        self._sample_ratio = float(sample_ratio)
        self._samples_all = sample_ratio == 1.0
        self._threshold = int(sample_ratio * 2.0**64)
        self._max_pending_records = max_pending_records
        self._publisher_hashes: dict[ClientId, int] = {}
        self._pending = 0
        self._rows: Records = {name: [] for name in RECORDED_TABLES}
        self._number: dict[str, Callable[[], int]] = {
            name: count().__next__ for name in RECORDED_TABLES
        }
        # Looked up once: these three are called for every sampled publication.
        self._publication_number = self._number["publications"]
        self._delivery_number = self._number["deliveries"]
        self._hop_number = self._number["hops"]
        self._link_windows: dict[BrokerId, tuple[float, tuple[int, ...]]] = {}

    def is_sampled(self, publication: Publication) -> bool:
        """Whether the overlay records this publication: a hash of its name below the ratio.

        A multiplicative mix rather than a checksum of the sequence: checksums are linear, and two
        publishers would have the same sequence numbers sampled.
        """
        if self._samples_all:
            return True
        publisher = publication.publisher
        seed = self._publisher_hashes.get(publisher)
        if seed is None:
            seed = self._remember(publisher)
        mixed = (seed + publication.sequence) * _FIRST_MULTIPLIER & _MASK
        return (mixed ^ mixed >> 32) * _SECOND_MULTIPLIER & _MASK < self._threshold

    def publication_accepted(
        self, publication: Publication, now: float, received_at: float | None = None
    ) -> None:
        """An attached client's publication came in; ``received_at`` is when it was read."""
        number = self._publication_number()
        queueing_ms = 0.0 if received_at is None else (now - received_at) * 1e3
        self._add(
            "publications",
            (
                publication.published_at,
                now,
                self._broker,
                self._epoch,
                number,
                publication.publisher,
                publication.sequence,
                publication.topic,
                publication.size_bytes,
                publication.attributes,
                self._sample_ratio,
                queueing_ms,
                None,
            ),
        )

    def delivered(self, publication: Publication, client_id: ClientId, now: float) -> None:
        """A notification was queued for an attached client."""
        number = self._delivery_number()
        self._add(
            "deliveries",
            (
                now,
                self._broker,
                self._epoch,
                number,
                publication.publisher,
                publication.sequence,
                publication.topic,
                client_id,
                (now - publication.published_at) * 1e3,
            ),
        )

    def hop(
        self, publication: Publication, from_broker: BrokerId, received_at: float, now: float
    ) -> None:
        """A notification came over a link, read at ``received_at``, turned to at ``now``."""
        number = self._hop_number()
        self._add(
            "hops",
            (
                received_at,
                self._broker,
                self._epoch,
                number,
                from_broker,
                publication.publisher,
                publication.sequence,
                publication.topic,
                publication.size_bytes,
                (now - received_at) * 1e3,
                None,
            ),
        )

    def subscription_changed(
        self,
        client_id: ClientId,
        subscription_id: SubscriptionId,
        filter_: Filter | None,
        change: TableChange,
        now: float,
    ) -> None:
        """An attached client's subscription came or went; a broker may know only the id then."""
        self._record(
            "subscription_changes",
            now,
            client_id,
            subscription_id,
            None if filter_ is None else format_filter(filter_),
            None if filter_ is None else topic_of(filter_),
            change.value,
        )

    def advertisement_changed(
        self,
        client_id: ClientId,
        advertisement_id: AdvertisementId,
        filter_: Filter | None,
        change: TableChange,
        now: float,
    ) -> None:
        """An attached client's advertisement came or went; a broker may know only the id then."""
        self._record(
            "advertisement_changes",
            now,
            client_id,
            advertisement_id,
            None if filter_ is None else format_filter(filter_),
            None if filter_ is None else topic_of(filter_),
            change.value,
        )

    def client_changed(self, client_id: ClientId, change: ClientChange, now: float) -> None:
        """A client's session began anew, or ended and took its tables with it."""
        self._record("client_changes", now, client_id, change.value)

    def migration_ended(
        self,
        client_id: ClientId,
        destination: BrokerId,
        outcome: str,
        hops: int,
        paused_ms: float,
        now: float,
    ) -> None:
        """A client's move away from this broker ended, one way or another."""
        self._record("migrations", now, client_id, destination, outcome, hops, paused_ms)

    def link_changed(self, neighbor: BrokerId, change: LinkChange, now: float) -> None:
        """A link of this broker came, went, or changed its connection."""
        if change is LinkChange.REMOVED:
            self._link_windows.pop(neighbor, None)
        self._record("link_changes", now, neighbor, change.value)

    def rtt_sampled(self, neighbor: BrokerId, rtt_ms: float, now: float) -> None:
        """A neighbor answered after ``rtt_ms``."""
        self._record("link_rtts", now, neighbor, rtt_ms)

    def load_sampled(self, now: float, counters: LoadCounters) -> None:
        """A window of the broker's load ended; the driver adds ``cpu_s`` and its own drops."""
        self._record(
            "broker_loads",
            now,
            *_LOAD_VALUES(counters),
            self._sample_ratio,
            None,
            self.dropped_records,
        )

    def link_load_sampled(self, neighbor: BrokerId, now: float, totals: LinkTotals) -> None:
        """Record what a link carried since its last sample; the first one only opens a window."""
        flow = (totals.messages_in, totals.messages_out, totals.bytes_in, totals.bytes_out)
        window = self._link_windows.get(neighbor)
        if window is not None and now <= window[0]:
            return
        self._link_windows[neighbor] = (now, flow)
        if window is None:
            return
        self._record(
            "link_loads",
            now,
            neighbor,
            now - window[0],
            *_growth(window[1], flow),
            totals.queue_messages,
            totals.queue_bytes,
        )

    def pop(self) -> Records:
        """Hand over all records by table and forget them; empty when there are none."""
        if not self._pending:
            return {}
        taken = {name: rows for name, rows in self._rows.items() if rows}
        for name in taken:
            self._rows[name] = []
        self._pending = 0
        return taken

    def _record(self, table: str, now: float, *values: object) -> None:
        number = self._number[table]()
        self._add(table, (now, self._broker, self._epoch, number, *values))

    def _add(self, table: str, record: Record) -> None:
        if self._pending >= self._max_pending_records:
            self.dropped_records += 1
            return
        self._pending += 1
        self._rows[table].append(record)

    def _remember(self, publisher: ClientId) -> int:
        if len(self._publisher_hashes) >= MAX_REMEMBERED_PUBLISHERS:
            self._publisher_hashes.clear()
        seed = crc32(publisher.encode()) << 32
        self._publisher_hashes[publisher] = seed
        return seed


def _growth(before: tuple[int, ...], after: tuple[int, ...]) -> tuple[int, ...]:
    # A counter below its last value began anew with a new session: all of it is growth.
    return tuple(b - a if b >= a else b for a, b in zip(before, after, strict=True))
