"""A profile's tables about deliveries: latency, the audit, trees and their cost, the telemetry."""

from __future__ import annotations

from pubweave.model.profile.profile import ProfileTable
from pubweave.model.profile.traffic_tables import (
    BROKER,
    CLIENT,
    PUBLICATIONS,
    PUBLISHER,
    SLOT,
    SLOT_STARTED_AT,
    TOPIC,
    TREE,
    count,
    flag,
    number,
    quantiles,
    text,
)

LATENCY = ProfileTable(
    "latency",
    "Delivery latency in a slot, of publications affected by a transformation and of others.",
    (
        SLOT,
        flag("affected", "in flight while a link of its delivery tree's brokers changed", key=True),
        SLOT_STARTED_AT,
        count("deliveries", "deliveries", "recorded"),
        number("latency_ms_mean", "ms", "mean"),
        *quantiles("latency", "the delivery latency"),
        number("latency_ms_max", "ms", "the slowest"),
    ),
)
TRANSFORMATIONS = ProfileTable(
    "transformations",
    "Periods in which links came or went while publications were on their way.",
    (
        count("transformation", "", "numbered by time", key=True),
        number("started_at", "s", "by the run's clock"),
        number("ended_at", "s", "by the run's clock"),
        count("links_added", "links", "that came"),
        count("links_removed", "links", "that went"),
        count("affected_publications", "publications", "in flight and touched"),
    ),
)
AUDIT = ProfileTable(
    "audit",
    "Every publication against the deliveries it should have had: the verdict, one row.",
    (
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
)  # fmt: skip
AUDIT_FINDINGS = ProfileTable(
    "audit_findings",
    "Each delivery that is lost, unproven, duplicated or unexpected.",
    (
        text("finding", "lost, unproven, duplicated or unexpected", key=True),
        PUBLISHER,
        count("sequence", "", "with the publisher it names the publication", key=True),
        CLIENT,
        text("broker", "where the client was attached"),
        text("topic", "the publication's topic"),
        number("published_at", "s", "by the publisher's clock"),
        count("deliveries", "deliveries", "of this publication to this client"),
    ),
)

DELIVERY_TREES = ProfileTable(
    "delivery_trees",
    "Publications of a topic that took the same links from one broker to the same receivers.",
    (
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
)
TREE_LINKS = ProfileTable(
    "tree_links",
    "The links of each delivery tree, away from the root.",
    (
        TREE,
        text("from_broker", "nearer to the root"),
        text("to_broker", "farther from the root", key=True),
    ),
)
TREE_RECEIVERS = ProfileTable(
    "tree_receivers",
    "The brokers with local deliveries in each delivery tree.",
    (TREE, BROKER),
)
TOPIC_COSTS = ProfileTable(
    "topic_costs",
    "The cost of each topic as the overlay is: the terms of DYNATOPS Eqs. 3 and 4.",
    (
        TOPIC,
        number("weight", "publications", "N_p, weighted by the sampling"),
        number("relay_overhead", "messages", "N_p times o_p"),
        number("delay_ms", "ms", "N_p times d_p"),
        number("cost_ms", "ms", "this topic's part of cost(N, T)"),
    ),
)
OVERLAY_COST = ProfileTable(
    "overlay_cost",
    "The cost of the overlay as it is, one row: CI Eq. 2 and DYNATOPS Eqs. 1 to 5.",
    (
        number("weight", "publications", "the publications counted, weighted by the sampling"),
        number("processing_ms", "ms", "the brokers' part of cost(N, T)"),
        number("communication_ms", "ms", "the links' part of cost(N, T)"),
        number("cost_ms", "ms", "cost(N, T)"),
        number("relay_overhead", "messages", "O, cumulative"),
        number("delay_ms", "ms", "D, cumulative"),
        number("delay_weight", "1/ms", "w_d"),
        number("notification_cost", "messages", "C = O + w_d D"),
    ),
)

TELEMETRY_GAPS = ProfileTable(
    "telemetry_gaps",
    "What each broker recorded, twice or never.",
    (
        text("table", "the telemetry table", key=True),
        BROKER,
        count("epoch", "", "incarnation of the broker", key=True),
        count("records", "records", "distinct"),
        count("duplicates", "records", "read more than once"),
        count("missing", "records", "never seen between the first and the last number"),
        number("first_at", "s", "the earliest instant"),
        number("last_at", "s", "the latest instant"),
    ),
)
QUARANTINE = ProfileTable(
    "quarantine",
    "Records and files that were kept out, and why.",
    (
        text("table", "the telemetry table"),
        text("reason", "why it was kept out"),
        text("broker", "who recorded it", nullable=True),
        count("epoch", "", "incarnation of the broker", nullable=True),
        count("record_number", "", "the record's number", nullable=True),
        text("record", "the record as JSON, or the file's name", nullable=True),
    ),
)

DELIVERY_TABLES = (
    LATENCY,
    TRANSFORMATIONS,
    AUDIT,
    AUDIT_FINDINGS,
    DELIVERY_TREES,
    TREE_LINKS,
    TREE_RECEIVERS,
    TOPIC_COSTS,
    OVERLAY_COST,
    TELEMETRY_GAPS,
    QUARANTINE,
)
