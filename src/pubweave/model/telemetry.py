"""The one schema of telemetry: tables, columns, units and meanings, as data.

Whoever writes telemetry (metering in the core), stores it (Parquet files) or reads it (the
pipeline, the documentation) takes names, order and types from `TABLES`. Nothing here knows of
files, Arrow or Spark.

A record is a plain tuple with one value per column, in the order of its table: the hot path of a
broker makes them by the hundred thousand. Instants are seconds of the run's clock (unix time on
sockets, virtual time in simulation), durations milliseconds.

Every record carries ``epoch`` and ``record_number``. With the recording broker they name the
record for ever, so reading one twice changes nothing, while two deliveries of one publication stay
two records. Numbers count on within a table when a record is dropped: a gap is lost telemetry, not
a lost notification.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from pubweave.model.records.status import COUNTERS

SCHEMA_VERSION = 1
"""Grows with every change that a reader of older files would have to know of."""

Record = tuple[Any, ...]
Records = dict[str, list[Record]]
"""Records by the name of their table."""


class ColumnKind(enum.Enum):
    """How the values of a column of telemetry, or of a profile, are stored."""

    FLOAT = "float64"
    INTEGER = "int64"
    TEXT = "text"
    ATTRIBUTES = "attributes"
    """A dict of name to typed value."""
    BOOLEAN = "boolean"
    WORDS = "list<int64>"
    """A bit vector, 64 bits to a word, the lowest bit first."""


class TableChange(enum.Enum):
    """What happened to a client's subscription or advertisement."""

    ADDED = "added"
    REMOVED = "removed"


class ClientChange(enum.Enum):
    """What happened to a client at a broker."""

    ATTACHED = "attached"
    DETACHED = "detached"


class LinkChange(enum.Enum):
    """What happened to a link, as one of its two brokers saw it."""

    ADDED = "added"
    UP = "up"
    DOWN = "down"
    REMOVED = "removed"


@dataclass(frozen=True)
class Column:
    """One column; ``unit`` is empty for names and counts of one thing that the name says. The
    ``key`` columns of a profile's table together name a row."""

    name: str
    kind: ColumnKind
    unit: str
    meaning: str
    nullable: bool = False
    key: bool = False


@dataclass(frozen=True)
class Table:
    """One kind of record. ``recorded_by`` names the column with the broker that recorded it."""

    name: str
    meaning: str
    columns: tuple[Column, ...]
    recorded_by: str = "broker"

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def record_id(self) -> tuple[str, str, str]:
        """The columns that together name one record of this table."""
        return self.recorded_by, "epoch", "record_number"

    def index(self, column: str) -> int:
        """Where a record of this table holds a column."""
        return self.column_names.index(column)


def text(name: str, meaning: str, *, key: bool = False, nullable: bool = False) -> Column:
    return Column(name, ColumnKind.TEXT, "", meaning, nullable, key)


def count(
    name: str, unit: str, meaning: str, *, key: bool = False, nullable: bool = False
) -> Column:
    return Column(name, ColumnKind.INTEGER, unit, meaning, nullable, key)


def number(name: str, unit: str, meaning: str, *, nullable: bool = False) -> Column:
    return Column(name, ColumnKind.FLOAT, unit, meaning, nullable)


def _instant(name: str, meaning: str) -> Column:
    return number(name, "s", meaning)


EPOCH = count("epoch", "", "incarnation of the recording broker: differs after every restart")
RECORD_NUMBER = count(
    "record_number", "", "counts this broker's records of this table in this epoch; a gap is a drop"
)
BROKER = text("broker", "the broker that recorded this")
NEIGHBOR = text("neighbor", "the broker at the far end of the link")
CLIENT = text("client", "the client's id")
PUBLISHER = text("publisher", "the client that published; with sequence it names the publication")
SEQUENCE = count("sequence", "", "the publication's number among those of its publisher")
TOPIC = text("topic", "the publication's topic (PADRES: class)")
SIZE_BYTES = count("size_bytes", "bytes", "what the publication takes on a link, with its frame")
SAMPLE_RATIO = number(
    "sample_ratio",
    "1",
    "share of publications the broker recorded at that time; weigh counts by its inverse",
)
QUEUEING_MS = number(
    "queueing_ms", "ms", "from the broker's receiving the publication to its turning to it"
)
MATCHING_MS = number(
    "matching_ms",
    "ms",
    "handling: matching, routing and queueing for output; null where not measured",
    nullable=True,
)
WINDOW_S = number("window_s", "s", "how long the window was that ends at sampled_at")
SAMPLED_AT = _instant("sampled_at", "when the sample was taken, the end of its window")
CHANGED_AT = _instant("changed_at", "when the broker carried the change out")
MESSAGES_IN = count("messages_in", "messages", "sequenced messages received in the window")
MESSAGES_OUT = count("messages_out", "messages", "sequenced messages sent in the window")
BYTES_IN = count("bytes_in", "bytes", "size of the messages in")
BYTES_OUT = count("bytes_out", "bytes", "size of the messages out")
QUEUE_MESSAGES = count("queue_messages", "messages", "waiting for output at sampled_at")
QUEUE_BYTES = count("queue_bytes", "bytes", "size of the messages waiting for output")

PUBLICATIONS = Table(
    "publications",
    "A sampled publication, recorded by the broker that its publisher is attached to.",
    (
        _instant("published_at", "when the publisher made it, by the publisher's clock"),
        _instant("accepted_at", "when the broker turned to it, by the broker's clock"),
        BROKER,
        EPOCH,
        RECORD_NUMBER,
        PUBLISHER,
        SEQUENCE,
        TOPIC,
        SIZE_BYTES,
        Column("attributes", ColumnKind.ATTRIBUTES, "", "its attributes: name to typed value"),
        SAMPLE_RATIO,
        QUEUEING_MS,
        MATCHING_MS,
    ),
)

DELIVERIES = Table(
    "deliveries",
    "A sampled notification handed to one client, recorded by the broker of that client.",
    (
        _instant("delivered_at", "when the broker queued it for the client"),
        BROKER,
        EPOCH,
        RECORD_NUMBER,
        PUBLISHER,
        SEQUENCE,
        TOPIC,
        text("client", "the client it was delivered to"),
        number("latency_ms", "ms", "delivered_at - published_at; negative if the clocks differ"),
    ),
)

HOPS = Table(
    "hops",
    "A sampled notification that crossed a link, recorded by the broker that received it.",
    (
        _instant("received_at", "when to_broker read it from the link"),
        text("to_broker", "the broker that received and recorded it"),
        EPOCH,
        RECORD_NUMBER,
        text("from_broker", "the neighbor that sent it"),
        PUBLISHER,
        SEQUENCE,
        TOPIC,
        SIZE_BYTES,
        QUEUEING_MS,
        MATCHING_MS,
    ),
    recorded_by="to_broker",
)

SUBSCRIPTION_CHANGES = Table(
    "subscription_changes",
    "A subscription of an attached client that came or went; never sampled.",
    (
        CHANGED_AT,
        BROKER,
        EPOCH,
        RECORD_NUMBER,
        CLIENT,
        text("subscription", "the subscription's id"),
        text("filter", "the filter as an expression; null if only the id was known", nullable=True),
        text("topic", "the topic the filter asks for by =; null if none", nullable=True),
        text("change", "added or removed"),
    ),
)

ADVERTISEMENT_CHANGES = Table(
    "advertisement_changes",
    "An advertisement of an attached client that came or went; never sampled.",
    (
        CHANGED_AT,
        BROKER,
        EPOCH,
        RECORD_NUMBER,
        CLIENT,
        text("advertisement", "the advertisement's id"),
        text("filter", "the filter as an expression; null if only the id was known", nullable=True),
        text("topic", "the topic the filter names by =; null if none", nullable=True),
        text("change", "added or removed"),
    ),
)

CLIENT_CHANGES = Table(
    "client_changes",
    "A client's session that began anew or ended, with all it had in the tables; never sampled.",
    (CHANGED_AT, BROKER, EPOCH, RECORD_NUMBER, CLIENT, text("change", "attached or detached")),
)

LINK_CHANGES = Table(
    "link_changes",
    "A link that changed, recorded by both of its brokers; never sampled.",
    (
        CHANGED_AT,
        BROKER,
        EPOCH,
        RECORD_NUMBER,
        NEIGHBOR,
        text("change", "added or removed (the topology), up or down (its connection)"),
    ),
)

LINK_RTTS = Table(
    "link_rtts",
    "One measured round trip over a link, recorded by the broker that asked.",
    (
        _instant("sampled_at", "when the answer came"),
        BROKER,
        EPOCH,
        RECORD_NUMBER,
        NEIGHBOR,
        number("rtt_ms", "ms", "from asking to the answer, with the neighbor's queueing"),
    ),
)

LINK_LOADS = Table(
    "link_loads",
    "The exact traffic of one link over one window, as one of its two brokers saw it.",
    (
        SAMPLED_AT,
        BROKER,
        EPOCH,
        RECORD_NUMBER,
        NEIGHBOR,
        WINDOW_S,
        MESSAGES_IN,
        MESSAGES_OUT,
        BYTES_IN,
        BYTES_OUT,
        QUEUE_MESSAGES,
        QUEUE_BYTES,
    ),
)

BROKER_LOADS = Table(
    "broker_loads",
    "The exact load of one broker over one window, links and clients together: what it counted, "
    "then what there was at its end.",
    (
        SAMPLED_AT,
        BROKER,
        EPOCH,
        RECORD_NUMBER,
        WINDOW_S,
        *(
            count(counter.name, counter.metadata["unit"], counter.metadata["meaning"])
            for counter in COUNTERS
            if counter.metadata["in_loads"]
        ),
        QUEUE_MESSAGES,
        QUEUE_BYTES,
        count("subscriptions", "subscriptions", "in the tables at sampled_at, all sources"),
        count("advertisements", "advertisements", "in the tables at sampled_at, all sources"),
        count("clients", "clients", "attached at sampled_at"),
        count("links", "links", "of the broker at sampled_at, up or down"),
        SAMPLE_RATIO,
        number(
            "cpu_s",
            "s",
            "processor time of the broker's process in the window; null where not measured",
            nullable=True,
        ),
        count(
            "dropped_records",
            "records",
            "telemetry lost since the broker's start: a total, so that a lost row hides nothing",
        ),
    ),
)

MIGRATIONS = Table(
    "migrations",
    "A client's move to another broker that ended, recorded by the broker it was to leave.",
    (
        _instant("ended_at", "when the broker let the client go, or gave the move up"),
        BROKER,
        EPOCH,
        RECORD_NUMBER,
        CLIENT,
        text("destination", "the broker it was to move to"),
        text("outcome", "done, refused, busy or failed"),
        count("hops", "links", "between the two brokers; 0 if the way was not known"),
        number("paused_ms", "ms", "how long nothing of the client was taken in; 0 if it stayed"),
    ),
)

TABLES: dict[str, Table] = {
    table.name: table
    for table in (
        PUBLICATIONS,
        DELIVERIES,
        HOPS,
        SUBSCRIPTION_CHANGES,
        ADVERTISEMENT_CHANGES,
        CLIENT_CHANGES,
        LINK_CHANGES,
        LINK_RTTS,
        LINK_LOADS,
        BROKER_LOADS,
    )
}
"""What the pipeline reads."""
RECORDED_TABLES: dict[str, Table] = {**TABLES, MIGRATIONS.name: MIGRATIONS}
"""What brokers record: those, and what is for people alone."""

_CPU_S = BROKER_LOADS.index("cpu_s")
_DROPPED = BROKER_LOADS.index("dropped_records")


def with_matching_ms(rows: Iterable[Record], matching_ms: float) -> list[Record]:
    """Records of `PUBLICATIONS` or `HOPS` with the handling time that only a driver can measure.

    The core reads no clock and leaves None in their last column, ``matching_ms``. A driver that
    timed the handling of several publications together passes the time per publication.
    """
    return [(*row[:-1], matching_ms) if row[-1] is None else row for row in rows]


def with_driver_figures(
    rows: Iterable[Record], cpu_s: float | None, writer_dropped_records: int
) -> list[Record]:
    """Records of `BROKER_LOADS` with what only a driver knows.

    ``cpu_s`` is the processor time of the window; ``writer_dropped_records`` the total that the
    writer of the files dropped, added to what the core dropped itself.
    """
    return [
        (
            *row[:_CPU_S],
            cpu_s,
            *row[_CPU_S + 1 : _DROPPED],
            row[_DROPPED] + writer_dropped_records,
            *row[_DROPPED + 1 :],
        )
        for row in rows
    ]
