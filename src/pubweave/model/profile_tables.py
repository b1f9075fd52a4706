"""Every table of a workload profile as data; the documentation and the schemas follow from it.

The order is that of the pipeline's questions: traffic, interest, traces, subscriptions, links and
brokers, delivery, cost, and what the telemetry itself was worth.
"""

from __future__ import annotations

from pubweave.model.profile import ProfileColumn, ProfileKind, ProfileTable
from pubweave.model.profile_columns import (
    BROKER,
    BROKER_A,
    BROKER_B,
    CLIENT,
    FILTERED_RATE,
    NEIGHBOR,
    PUBLISHER,
    RATE,
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

_PUBLICATIONS = count("publications", "publications", "recorded publications")

TOPICS = ProfileTable(
    "topics",
    "Each topic that was published on, with its traffic over the whole window.",
    (
        TOPIC,
        _PUBLICATIONS,
        RATE,
        FILTERED_RATE,
        count("publishers", "publishers", "who published on it"),
        number("size_bytes_mean", "bytes", "mean size of its publications on a link"),
    ),
)
TOPIC_RATES = ProfileTable(
    "topic_rates",
    "Publication rate of a topic in a slot; slots without publications have no row.",
    (SLOT, SLOT_STARTED_AT, TOPIC, _PUBLICATIONS, RATE, FILTERED_RATE),
)
PUBLISHERS = ProfileTable(
    "publishers",
    "Each publisher, with its traffic over the whole window.",
    (
        PUBLISHER,
        text("broker", "the broker of its last publication"),
        _PUBLICATIONS,
        RATE,
        FILTERED_RATE,
        count("topics", "topics", "how many it published on"),
    ),
)
PUBLISHER_RATES = ProfileTable(
    "publisher_rates",
    "Publication rate of a publisher in a slot; slots without publications have no row.",
    (SLOT, SLOT_STARTED_AT, PUBLISHER, _PUBLICATIONS, RATE, FILTERED_RATE),
)

BROKER_INTEREST = ProfileTable(
    "broker_interest",
    "Distinct notifications that a broker's own clients published or consumed (CI's I_i).",
    (
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
)
COMMON_INTEREST = ProfileTable(
    "common_interest",
    "Notifications that two brokers share, CI's I(i, j); pairs that share none have no row.",
    (
        BROKER_A,
        BROKER_B,
        count("notifications", "notifications", "exact"),
        number("theta_estimate", "notifications", "by theta sketches"),
        number("theta_error", "notifications", "estimate - exact"),
        number("theta_std", "notifications", "standard deviation the sketch's theory states"),
    ),
)
COMMON_INTEREST_TRIPLES = ProfileTable(
    "common_interest_triples",
    "I(i, k, j) where k is the neighbor of j on the way to i, within the neighborhood's hops.",
    (
        text("broker", "i", key=True),
        text("via", "k, a neighbor of the far broker, nearer to the broker", key=True),
        text("far", "j", key=True),
        count("hops", "hops", "from the broker to the far one"),
        count("notifications", "notifications", "exact"),
        number("estimate", "notifications", "what CI takes instead: min(phi, I(i,j), I(i,k))",
               nullable=True),
    ),
)  # fmt: skip
BLOOM_ESTIMATES = ProfileTable(
    "bloom_estimates",
    "What CI's Bloom filters would have said of the last slot, beside the truth.",
    (
        text("broker", "the broker that asks", key=True),
        text("other", "the broker whose filter is asked", key=True),
        count("cached", "notifications", "in the asking broker's cache"),
        count("common", "notifications", "in both caches, exact"),
        count("bloom_estimate", "notifications", "of the cached, those the filter affirms"),
    ),
)

TRACES = ProfileTable(
    "traces",
    "GRAPE's trace of a publisher: what a broker delivered of its last publications.",
    (
        PUBLISHER,
        BROKER,
        count("first_sequence", "", "the first publication of the trace window"),
        count("last_sequence", "", "the last publication of the trace window"),
        count("traced", "publications", "in the trace window: the bits that count"),
        ProfileColumn("bit_vector", ProfileKind.WORDS, "",
                      "bit i: the i-th traced publication was delivered here"),
        count("distinct_publications", "publications", "delivered here: the set bits"),
        count("local_deliveries", "deliveries", "to clients of this broker"),
    ),
)  # fmt: skip
DOWNSTREAM_COUNTS = ProfileTable(
    "downstream_counts",
    "POP's publisher profile: subscribers behind a link, over the publisher's trace window.",
    (
        PUBLISHER,
        BROKER,
        NEIGHBOR,
        count("publications", "publications", "traced publications that crossed the link"),
        number("subscribers_mean", "deliveries", "at and behind the neighbor, per publication"),
        number("subscribers_running", "deliveries", "POP's running average, 0.25 to the newest"),
    ),
)

SUBSCRIPTIONS = ProfileTable(
    "subscriptions",
    "From when to when a client held a subscription, and where.",
    (
        CLIENT,
        text("subscription", "the subscription's id", key=True),
        text("broker", "where the client was attached"),
        text("topic", "the topic asked for by =; null if none", nullable=True),
        text("filter", "the filter as an expression", nullable=True),
        ProfileColumn("added_at", ProfileKind.FLOAT, "s", "by the run's clock", key=True),
        number("removed_at", "s", "null while it stands", nullable=True),
    ),
)
BROKER_SUBSCRIPTIONS = ProfileTable(
    "broker_subscriptions",
    "A broker's clients and subscriptions at the window's end, and how fast they change.",
    (
        BROKER,
        count("clients", "clients", "with a subscription"),
        count("subscriptions", "subscriptions", "of its clients"),
        count("topics", "topics", "distinct ones asked for: the size of DYNATOPS' S_b"),
        number("added_per_s", "1/s", "subscriptions that came"),
        number("removed_per_s", "1/s", "subscriptions that went"),
        number("topic_changes_per_s", "1/s", "topics the broker began or ceased to ask for"),
    ),
)
SUBSCRIPTION_RATES = ProfileTable(
    "subscription_rates",
    "Subscription changes at a broker in a slot.",
    (
        SLOT,
        SLOT_STARTED_AT,
        BROKER,
        count("added", "subscriptions", "that came"),
        count("removed", "subscriptions", "that went"),
    ),
)
CLIENT_TOPICS = ProfileTable(
    "client_topics",
    "The user-topic matrix at the window's end.",
    (CLIENT, TOPIC, text("broker", "where the client is attached")),
)
BROKER_TOPICS = ProfileTable(
    "broker_topics",
    "DYNATOPS' S_b at the window's end.",
    (BROKER, TOPIC, count("clients", "clients", "of the broker that ask for the topic")),
)
PLACEMENT_CANDIDATES = ProfileTable(
    "placement_candidates",
    "The most similar brokers of each client by DYNATOPS' Sim; equal ones by load.",
    (
        CLIENT,
        count("rank", "", "1 is the best", key=True),
        text("broker", "the candidate"),
        number("similarity", "1", "share of the client's topics that the broker asks for"),
        number("load", "1", "the broker's share of all subscriptions: L_b"),
        flag("is_current", "whether the client is attached there"),
    ),
)

LINKS = ProfileTable(
    "links",
    "Each link: its cost by round trips and its exact traffic, both directions together.",
    (
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
)
LINK_QUEUES = ProfileTable(
    "link_queues",
    "Wait for output at a broker, towards a neighbor, by Little's law.",
    (
        BROKER,
        NEIGHBOR,
        number("queue_messages_mean", "messages", "waiting"),
        number("output_queueing_ms", "ms", "wait per message; null if none was sent",
               nullable=True),
    ),
)  # fmt: skip
BROKER_COSTS = ProfileTable(
    "broker_costs",
    "What a notification costs at a broker.",
    (
        BROKER,
        count("handled", "notifications", "recorded, from clients and neighbors"),
        number("input_queueing_ms", "ms", "mean wait before it was turned to"),
        number("matching_ms", "ms", "mean handling; null where not measured", nullable=True),
        number("processing_ms", "ms", "CI's p_v: both together"),
        *quantiles("queueing", "the wait for input"),
    ),
)
BROKER_LOADS = ProfileTable(
    "broker_loads",
    "A broker's exact load over the window.",
    (
        BROKER,
        number("watched_s", "s", "how long it was watched"),
        number("messages_in_per_s", "1/s", "received"),
        number("messages_out_per_s", "1/s", "sent"),
        number("bytes_in_per_s", "bytes/s", "received"),
        number("bytes_out_per_s", "bytes/s", "sent"),
        number("deliveries_per_s", "1/s", "notifications to clients"),
        number("cpu_share", "1", "processor time per second; null where not measured",
               nullable=True),
        count("queue_messages_max", "messages", "waiting for output"),
        count("duplicates_dropped", "publications", "came again and went no further"),
        count("notifications_lost", "notifications", "delivered to clients that were given up"),
        count("dropped_records", "records", "telemetry it lost"),
        count("restarts", "", "incarnations after the first"),
    ),
)  # fmt: skip

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
        _PUBLICATIONS,
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

PROFILE_TABLES: dict[str, ProfileTable] = {
    table.name: table
    for table in (
        TOPICS,
        TOPIC_RATES,
        PUBLISHERS,
        PUBLISHER_RATES,
        BROKER_INTEREST,
        COMMON_INTEREST,
        COMMON_INTEREST_TRIPLES,
        BLOOM_ESTIMATES,
        TRACES,
        DOWNSTREAM_COUNTS,
        SUBSCRIPTIONS,
        BROKER_SUBSCRIPTIONS,
        SUBSCRIPTION_RATES,
        CLIENT_TOPICS,
        BROKER_TOPICS,
        PLACEMENT_CANDIDATES,
        LINKS,
        LINK_QUEUES,
        BROKER_COSTS,
        BROKER_LOADS,
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
}
