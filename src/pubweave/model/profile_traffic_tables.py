"""A profile's tables about publications: their rates, who shares an interest in them, traces."""

from __future__ import annotations

from pubweave.model.profile import ProfileColumn, ProfileKind, ProfileTable
from pubweave.model.profile_state_tables import (
    BROKER,
    BROKER_A,
    BROKER_B,
    FILTERED_RATE,
    NEIGHBOR,
    PUBLICATIONS,
    PUBLISHER,
    RATE,
    SLOT,
    SLOT_STARTED_AT,
    TOPIC,
    count,
    number,
    text,
)

TOPICS = ProfileTable(
    "topics",
    "Each topic that was published on, with its traffic over the whole window.",
    (
        TOPIC,
        PUBLICATIONS,
        RATE,
        FILTERED_RATE,
        count("publishers", "publishers", "who published on it"),
        number("size_bytes_mean", "bytes", "mean size of its publications on a link"),
    ),
)
TOPIC_RATES = ProfileTable(
    "topic_rates",
    "Publication rate of a topic in a slot; slots without publications have no row.",
    (SLOT, SLOT_STARTED_AT, TOPIC, PUBLICATIONS, RATE, FILTERED_RATE),
)
PUBLISHERS = ProfileTable(
    "publishers",
    "Each publisher, with its traffic over the whole window.",
    (
        PUBLISHER,
        text("broker", "the broker of its last publication"),
        PUBLICATIONS,
        RATE,
        FILTERED_RATE,
        count("topics", "topics", "how many it published on"),
    ),
)
PUBLISHER_RATES = ProfileTable(
    "publisher_rates",
    "Publication rate of a publisher in a slot; slots without publications have no row.",
    (SLOT, SLOT_STARTED_AT, PUBLISHER, PUBLICATIONS, RATE, FILTERED_RATE),
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

TRAFFIC_TABLES = (
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
)
