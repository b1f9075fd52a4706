"""The workload profile: which tables it has, what their columns mean, and its ``profile.json``.

The pipeline writes it; design, control and reports read it (`files/profile`). Schemas and
documentation (docs/profile.md) follow from these tables. Counts are of recorded publications:
where the overlay sampled, multiply by the inverse of the sample ratio, or take a column that says
it is weighted.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import msgspec

from pubweave.model.telemetry import Column, ColumnKind, count, number, text

PROFILE_VERSION = 1
"""Grows with every change that a reader of older profiles would have to know of."""

PROFILE_FILE = "profile.json"


@dataclass(frozen=True)
class ProfileTable:
    """One table of a profile."""

    name: str
    meaning: str
    columns: tuple[Column, ...]

    @cached_property
    def column_names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @cached_property
    def key(self) -> tuple[str, ...]:
        """The columns that name a row; empty for a table of one row."""
        return tuple(column.name for column in self.columns if column.key)


class TableSummary(msgspec.Struct, frozen=True):
    """Where a table of a profile is, below its directory, and how many rows it has."""

    path: str
    rows: int


class SourceSummary(msgspec.Struct, frozen=True):
    """What was read of one telemetry table."""

    files: int
    records: int
    duplicates: int
    quarantined: int
    missing: int
    """Record numbers that were never seen between the first and the last: telemetry dropped."""


class RefreshSummary(msgspec.Struct, frozen=True):
    """How a followed profile was brought up to date."""

    waited_s: float
    """From the writing of the batch's first file to this profile: how old its news may be."""
    open_records: int
    """Read for this profile: of publications that may go on, and since the last balance."""
    closed_records: int
    """In the sums of the balance, and not read again."""
    rebuilt: str | None = None
    """Why the balance was put aside and everything counted anew; null as a rule."""


class ProfileDescription(msgspec.Struct, frozen=True):
    """The content of ``profile.json``."""

    source: str
    run: str
    clock: str
    window_started_at: float
    window_ended_at: float
    settings: dict[str, float | int | str | None]
    sources: dict[str, SourceSummary]
    quarantine: dict[str, int]
    """How many records each reason kept out."""
    tables: dict[str, TableSummary]
    spark_version: str
    master: str
    stage_seconds: dict[str, float]
    unreadable_files: int = 0
    batch: int | None = None
    """The last micro-batch inside, where the profile follows its source."""
    refresh: RefreshSummary | None = None
    """What that batch cost, where the profile follows its source."""
    profile_version: int = PROFILE_VERSION

    @property
    def window_s(self) -> float:
        return self.window_ended_at - self.window_started_at


class ProfileError(ValueError):
    """A profile that cannot be used, with the reason and the remedy."""


def flag(name: str, meaning: str, *, key: bool = False) -> Column:
    return Column(name, ColumnKind.BOOLEAN, "", meaning, False, key)


def quantiles(name: str, what: str, *, nullable: bool = False) -> tuple[Column, ...]:
    """Median, 95th and 99th percentile of a duration, by KLL sketch."""
    return tuple(
        number(
            f"{name}_ms_p{percent}", "ms", f"{percent}th percentile of {what}", nullable=nullable
        )
        for percent in (50, 95, 99)
    )


TOPIC = text("topic", "the topic (PADRES: class)", key=True)
BROKER = text("broker", "the broker", key=True)
NEIGHBOR = text("neighbor", "the broker at the far end of the link", key=True)
BROKER_A = text("broker_a", "the broker whose id sorts first", key=True)
BROKER_B = text("broker_b", "the other broker", key=True)
PUBLISHER = text("publisher", "the publisher", key=True)
CLIENT = text("client", "the client", key=True)
SLOT = count("slot", "", "number of the time slot since the window's start", key=True)
SLOT_STARTED_AT = number("slot_started_at", "s", "when the slot began, by the run's clock")
TREE = count("tree", "", "names a delivery tree within this profile", key=True)
PUBLICATIONS = count("publications", "publications", "recorded publications")
RATE = number("rate_per_s", "1/s", "publications per second, weighted by the sampling")
FILTERED_RATE = number(
    "filtered_rate_per_s", "1/s", "the estimate for the next slot (DYNATOPS Eq. 8)"
)


def _table(name: str, meaning: str, *columns: Column) -> ProfileTable:
    return ProfileTable(name, meaning, columns)


_TABLES = (
    _table(
        "topics",
        "Each topic that was published on, with its traffic over the whole window.",
        TOPIC,
        PUBLICATIONS,
        RATE,
        FILTERED_RATE,
        count("publishers", "publishers", "who published on it"),
        number("size_bytes_mean", "bytes", "mean size of its publications on a link"),
    ),
    _table(
        "topic_rates",
        "Publication rate of a topic in a slot; slots without publications have no row.",
        SLOT,
        SLOT_STARTED_AT,
        TOPIC,
        PUBLICATIONS,
        RATE,
        FILTERED_RATE,
    ),
    _table(
        "publishers",
        "Each publisher, with its traffic over the whole window.",
        PUBLISHER,
        text("broker", "the broker of its last publication"),
        PUBLICATIONS,
        RATE,
        FILTERED_RATE,
        count("topics", "topics", "how many it published on"),
    ),
    _table(
        "publisher_rates",
        "Publication rate of a publisher in a slot; slots without publications have no row.",
        SLOT,
        SLOT_STARTED_AT,
        PUBLISHER,
        PUBLICATIONS,
        RATE,
        FILTERED_RATE,
    ),
    _table(
        "broker_interest",
        "Distinct notifications that a broker's own clients published or consumed (CI's I_i).",
        BROKER,
        count("published", "notifications", "published by its clients"),
        count("consumed", "notifications", "delivered to its clients"),
        count("notifications", "notifications", "either, each once"),
        count("neighbors_near", "brokers", "brokers within the neighborhood's hops"),
        number(
            "neighborhood_overlap",
            "notifications",
            "CI's phi (Eq. 6), not below zero; null with fewer than two brokers near",
            nullable=True,
        ),
    ),
    _table(
        "common_interest",
        "Notifications that two brokers share, CI's I(i, j); pairs that share none have no row.",
        BROKER_A,
        BROKER_B,
        count("notifications", "notifications", "exact"),
        number("theta_estimate", "notifications", "by theta sketches"),
        number("theta_error", "notifications", "estimate - exact"),
        number("theta_std", "notifications", "standard deviation the sketch's theory states"),
    ),
    _table(
        "common_interest_triples",
        "I(i, k, j) where k is the neighbor of j on the way to i, within the neighborhood's hops.",
        text("broker", "i", key=True),
        text("via", "k, a neighbor of the far broker, nearer to the broker", key=True),
        text("far", "j", key=True),
        count("hops", "hops", "from the broker to the far one"),
        count("notifications", "notifications", "exact"),
        number(
            "estimate",
            "notifications",
            "what CI takes instead: min(phi, I(i,j), I(i,k))",
            nullable=True,
        ),
    ),
    _table(
        "bloom_estimates",
        "What CI's Bloom filters would have said of the last slot, beside the truth.",
        text("broker", "the broker that asks", key=True),
        text("other", "the broker whose filter is asked", key=True),
        count("cached", "notifications", "in the asking broker's cache"),
        count("common", "notifications", "in both caches, exact"),
        count("bloom_estimate", "notifications", "of the cached, those the filter affirms"),
    ),
    _table(
        "traces",
        "GRAPE's trace of a publisher: what a broker delivered of its last publications.",
        PUBLISHER,
        BROKER,
        count("first_sequence", "", "the first publication of the trace window"),
        count("last_sequence", "", "the last publication of the trace window"),
        count("traced", "publications", "in the trace window: the bits that count"),
        Column(
            "bit_vector",
            ColumnKind.WORDS,
            "",
            "bit i: the i-th traced publication was delivered here",
        ),
        count("distinct_publications", "publications", "delivered here: the set bits"),
        count("local_deliveries", "deliveries", "to clients of this broker"),
    ),
    _table(
        "downstream_counts",
        "POP's publisher profile: subscribers behind a link, over the publisher's trace window.",
        PUBLISHER,
        BROKER,
        NEIGHBOR,
        count("publications", "publications", "traced publications that crossed the link"),
        number("subscribers_mean", "deliveries", "at and behind the neighbor, per publication"),
        number("subscribers_running", "deliveries", "POP's running average, 0.25 to the newest"),
    ),
    _table(
        "subscriptions",
        "From when to when a client held a subscription, and where.",
        CLIENT,
        text("subscription", "the subscription's id", key=True),
        text("broker", "where the client was attached"),
        text("topic", "the topic asked for by =; null if none", nullable=True),
        text("filter", "the filter as an expression", nullable=True),
        Column("added_at", ColumnKind.FLOAT, "s", "by the run's clock", key=True),
        number("removed_at", "s", "null while it stands", nullable=True),
    ),
    _table(
        "broker_subscriptions",
        "A broker's clients and subscriptions at the window's end, and how fast they change.",
        BROKER,
        count("clients", "clients", "with a subscription"),
        count("subscriptions", "subscriptions", "of its clients"),
        count("topics", "topics", "distinct ones asked for: the size of DYNATOPS' S_b"),
        number("added_per_s", "1/s", "subscriptions that came"),
        number("removed_per_s", "1/s", "subscriptions that went"),
        number("topic_changes_per_s", "1/s", "topics the broker began or ceased to ask for"),
    ),
    _table(
        "subscription_rates",
        "Subscription changes at a broker in a slot.",
        SLOT,
        SLOT_STARTED_AT,
        BROKER,
        count("added", "subscriptions", "that came"),
        count("removed", "subscriptions", "that went"),
    ),
    _table(
        "client_topics",
        "The user-topic matrix at the window's end.",
        CLIENT,
        TOPIC,
        text("broker", "where the client is attached"),
    ),
    _table(
        "broker_topics",
        "DYNATOPS' S_b at the window's end.",
        BROKER,
        TOPIC,
        count("clients", "clients", "of the broker that ask for the topic"),
    ),
    _table(
        "placement_candidates",
        "The most similar brokers of each client by DYNATOPS' Sim; equal ones by load.",
        CLIENT,
        count("rank", "", "1 is the best", key=True),
        text("broker", "the candidate"),
        number("similarity", "1", "share of the client's topics that the broker asks for"),
        number("load", "1", "the broker's share of all subscriptions: L_b"),
        flag("is_current", "whether the client is attached there"),
    ),
    _table(
        "links",
        "Each link: its cost by round trips and its exact traffic, both directions together.",
        BROKER_A,
        BROKER_B,
        flag("is_present", "whether it is in the topology at the window's end"),
        count("rtt_samples", "round trips", "measured"),
        *quantiles("rtt", "the round-trip time", nullable=True),
        number("cost_ms", "ms", "CI's c_e: half the median round trip", nullable=True),
        count("messages", "messages", "over the link in the window"),
        count("bytes", "bytes", "over the link in the window"),
        number("messages_per_s", "1/s", "while it was watched"),
        number("bytes_per_s", "bytes/s", "while it was watched"),
        count("notifications", "notifications", "recorded crossings"),
    ),
    _table(
        "link_queues",
        "Wait for output at a broker, towards a neighbor, by Little's law.",
        BROKER,
        NEIGHBOR,
        number("queue_messages_mean", "messages", "waiting"),
        number(
            "output_queueing_ms", "ms", "wait per message; null if none was sent", nullable=True
        ),
    ),
    _table(
        "broker_costs",
        "What a notification costs at a broker.",
        BROKER,
        count("handled", "notifications", "recorded, from clients and neighbors"),
        number("input_queueing_ms", "ms", "mean wait before it was turned to"),
        number("matching_ms", "ms", "mean handling; null where not measured", nullable=True),
        number("processing_ms", "ms", "CI's p_v: both together"),
        *quantiles("queueing", "the wait for input"),
    ),
    _table(
        "broker_loads",
        "A broker's exact load over the window.",
        BROKER,
        number("watched_s", "s", "how long it was watched"),
        number("messages_in_per_s", "1/s", "received"),
        number("messages_out_per_s", "1/s", "sent"),
        number("bytes_in_per_s", "bytes/s", "received"),
        number("bytes_out_per_s", "bytes/s", "sent"),
        number("deliveries_per_s", "1/s", "notifications to clients"),
        number(
            "cpu_share", "1", "processor time per second; null where not measured", nullable=True
        ),
        count("queue_messages_max", "messages", "waiting for output"),
        count("duplicates_dropped", "publications", "came again and went no further"),
        count("notifications_lost", "notifications", "delivered to clients that were given up"),
        count("dropped_records", "records", "telemetry it lost"),
        count("restarts", "", "incarnations after the first"),
    ),
    _table(
        "latency",
        "Delivery latency in a slot, of publications affected by a transformation and of others.",
        SLOT,
        flag("affected", "in flight while a link of its delivery tree's brokers changed", key=True),
        SLOT_STARTED_AT,
        count("deliveries", "deliveries", "recorded"),
        number("latency_ms_mean", "ms", "mean"),
        *quantiles("latency", "the delivery latency"),
        number("latency_ms_max", "ms", "the slowest"),
    ),
    _table(
        "transformations",
        "Periods in which links came or went while publications were on their way.",
        count("transformation", "", "numbered by time", key=True),
        number("started_at", "s", "by the run's clock"),
        number("ended_at", "s", "by the run's clock"),
        count("links_added", "links", "that came"),
        count("links_removed", "links", "that went"),
        count("affected_publications", "publications", "in flight and touched"),
    ),
    _table(
        "audit",
        "Every publication against the deliveries it should have had: the verdict, one row.",
        count("publications", "publications", "audited"),
        count("due", "deliveries", "that had to happen"),
        count("delivered", "deliveries", "of those due, that happened"),
        count("lost", "deliveries", "due and not recorded, though the record is complete"),
        count("unproven", "deliveries", "due and not recorded, where telemetry is missing"),
        count("duplicated", "deliveries", "beyond the first to the same client"),
        count("unexpected", "deliveries", "to a client without a matching subscription"),
        count("uncertain", "deliveries", "near a change of subscription: neither due nor wrong"),
        count("orphaned", "deliveries", "of publications that nobody recorded"),
    ),
    _table(
        "audit_findings",
        "Each delivery that is lost, unproven, duplicated or unexpected.",
        text("finding", "lost, unproven, duplicated or unexpected", key=True),
        PUBLISHER,
        count("sequence", "", "with the publisher it names the publication", key=True),
        CLIENT,
        text("broker", "where the client was attached"),
        text("topic", "the publication's topic"),
        number("published_at", "s", "by the publisher's clock"),
        count("deliveries", "deliveries", "of this publication to this client"),
    ),
    _table(
        "delivery_trees",
        "Publications of a topic that took the same links from one broker to the same receivers.",
        TREE,
        text("topic", "the topic"),
        text("broker", "the root: the publishers' broker"),
        PUBLICATIONS,
        number("weight", "publications", "the same, weighted by the sampling"),
        count("brokers", "brokers", "in the tree"),
        count("links", "links", "crossed"),
        count("receivers", "brokers", "with local deliveries"),
        count("relays", "brokers", "neither root nor receiver: DYNATOPS' relay overhead"),
        number("processing_ms", "ms", "sum of p_v over its brokers"),
        number("communication_ms", "ms", "sum of c_e over its links"),
        number("cost_ms", "ms", "cost(n, T) of one publication (CI Eq. 1)"),
        number("delay_ms", "ms", "sum over receivers of the links' cost from the root: d_p"),
    ),
    _table(
        "tree_links",
        "The links of each delivery tree, away from the root.",
        TREE,
        text("from_broker", "nearer to the root"),
        text("to_broker", "farther from the root", key=True),
    ),
    _table(
        "tree_receivers",
        "The brokers with local deliveries in each delivery tree.",
        TREE,
        BROKER,
    ),
    _table(
        "topic_costs",
        "The cost of each topic as the overlay is: the terms of DYNATOPS Eqs. 3 and 4.",
        TOPIC,
        number("weight", "publications", "N_p, weighted by the sampling"),
        number("relay_overhead", "messages", "N_p times o_p"),
        number("delay_ms", "ms", "N_p times d_p"),
        number("cost_ms", "ms", "this topic's part of cost(N, T)"),
    ),
    _table(
        "overlay_cost",
        "The cost of the overlay as it is, one row: CI Eq. 2 and DYNATOPS Eqs. 1 to 5.",
        number("weight", "publications", "the publications counted, weighted by the sampling"),
        number("processing_ms", "ms", "the brokers' part of cost(N, T)"),
        number("communication_ms", "ms", "the links' part of cost(N, T)"),
        number("cost_ms", "ms", "cost(N, T)"),
        number("relay_overhead", "messages", "O, cumulative"),
        number("delay_ms", "ms", "D, cumulative"),
        number("delay_weight", "1/ms", "w_d"),
        number("notification_cost", "messages", "C = O + w_d D"),
    ),
    _table(
        "telemetry_gaps",
        "What each broker recorded, twice or never.",
        text("table", "the telemetry table", key=True),
        BROKER,
        count("epoch", "", "incarnation of the broker", key=True),
        count("records", "records", "distinct"),
        count("duplicates", "records", "read more than once"),
        count("missing", "records", "never seen between the first and the last number"),
        number("first_at", "s", "the earliest instant"),
        number("last_at", "s", "the latest instant"),
    ),
    _table(
        "quarantine",
        "Records and files that were kept out, and why.",
        text("table", "the telemetry table"),
        text("reason", "why it was kept out"),
        text("broker", "who recorded it", nullable=True),
        count("epoch", "", "incarnation of the broker", nullable=True),
        count("record_number", "", "the record's number", nullable=True),
        text("record", "the record as JSON, or the file's name", nullable=True),
    ),
)
"""In the order of the pipeline's questions: traffic, interest, traces, subscriptions, links and
brokers, delivery, cost, and what the telemetry itself was worth."""
PROFILE_TABLES: dict[str, ProfileTable] = {table.name: table for table in _TABLES}
