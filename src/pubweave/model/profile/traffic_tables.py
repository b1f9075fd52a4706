"""A profile's tables about publications: their rates, who shares an interest in them, traces."""

from __future__ import annotations

from pubweave.model.profile.profile import ProfileColumn, ProfileKind, ProfileTable


def text(name: str, meaning: str, *, key: bool = False, nullable: bool = False) -> ProfileColumn:
    return ProfileColumn(name, ProfileKind.TEXT, "", meaning, nullable, key)


def count(
    name: str, unit: str, meaning: str, *, key: bool = False, nullable: bool = False
) -> ProfileColumn:
    return ProfileColumn(name, ProfileKind.INTEGER, unit, meaning, nullable, key)


def number(name: str, unit: str, meaning: str, *, nullable: bool = False) -> ProfileColumn:
    return ProfileColumn(name, ProfileKind.FLOAT, unit, meaning, nullable)


def flag(name: str, meaning: str, *, key: bool = False) -> ProfileColumn:
    return ProfileColumn(name, ProfileKind.BOOLEAN, "", meaning, False, key)


def quantiles(name: str, what: str, *, nullable: bool = False) -> tuple[ProfileColumn, ...]:
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

STATE_TABLES = (
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
