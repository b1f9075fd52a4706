"""Who publishes and who wants what in `run_sleepers`, and what its clients write down.

Everything is drawn from a seed. Publications are numbered by whoever publishes them, 1, 2, 3, ...,
over all topics of that publisher; nothing here knows of the numbers that the library uses.
"""

from __future__ import annotations

from random import Random

import msgspec

MIDDLE = 500
"""A value that every filter lets through: probes have it."""
VALUES = 1000
TOPICS = 12
TOPICS_OF_PUBLISHER = 3
TOPICS_OF_SUBSCRIBER = 4
SUBSCRIBERS_AT_BROKER = 2

Published = tuple[str, int]
"""Topic and value; its number is its place in its publisher's list, from 1 on."""


class Wanted(msgspec.Struct, frozen=True):
    """One subscription: a topic (None: any), and values from `low` to `high`."""

    topic: str | None
    low: int = 0
    high: int = VALUES

    @property
    def filter(self) -> str:
        parts = [] if self.topic is None else [f"class = '{self.topic}'"]
        if (self.low, self.high) != (0, VALUES):
            parts += [f"value >= {self.low}", f"value <= {self.high}"]
        return " and ".join(parts)

    def matches(self, published: Published) -> bool:
        topic, value = published
        return self.topic in (None, topic) and self.low <= value <= self.high


class PublisherPlan(msgspec.Struct, frozen=True):
    name: str
    broker: str
    addresses: str
    topics: tuple[str, ...]


class SubscriberPlan(msgspec.Struct, frozen=True):
    """Its subscriptions have nothing in common: what is lost for it is lost once."""

    name: str
    broker: str
    addresses: str
    wanted: tuple[Wanted, ...]


class ClientsPlan(msgspec.Struct, frozen=True):
    """All that the process of the clients has to know."""

    publishers: tuple[PublisherPlan, ...]
    subscribers: tuple[SubscriberPlan, ...]
    rate: float
    """Publications per second of all publishers together."""
    payload_bytes: int
    seed: int
    patience_s: float
    """How long to wait for what is missing after the traffic."""
    result_file: str


class Gap(msgspec.Struct, frozen=True):
    """What a client was told that it missed."""

    topic: str
    publisher: str
    count: int
    at_most: int
    """As many may be missing; the same as `count` where that is exact."""


class ClientTold(msgspec.Struct, frozen=True):
    """What the library told one client."""

    broker: str
    is_connected: bool
    refused: int
    last_refusal: str | None
    duplicates_dropped: int
    missed: tuple[Gap, ...]


class ClientsResult(msgspec.Struct, frozen=True):
    """What the clients wrote down."""

    published: dict[str, list[Published]]
    uncertain: dict[str, Published]
    """Publishers whose last call never returned, and what it was about: it may come or not."""
    received: dict[str, list[dict[str, list[int]]]]
    """Subscriber -> for each of its subscriptions: publisher -> numbers as they came."""
    told: dict[str, ClientTold]
    longest_wait_s: float
    """The longest that a publisher was made to wait."""
    quiet_s: float
    """How long nothing had come in the end."""


def draw_clients(
    addresses: dict[str, str],
    *,
    by_content: bool,
    homes: int,
    rate: float,
    payload_bytes: int,
    seed: int,
    patience_s: float,
    result_file: str,
) -> ClientsPlan:
    """A publisher and some subscribers at every broker; `homes`: how many brokers each knows."""
    rng = Random(f"clients {seed}")
    brokers = sorted(addresses)
    topics = [f"t{number}" for number in range(1, TOPICS + 1)]

    def known_to(broker: str) -> str:
        others = rng.sample([b for b in brokers if b != broker], min(homes, len(brokers)) - 1)
        return ",".join(addresses[b] for b in (broker, *others))

    publishers = [
        PublisherPlan(f"p-{b}", b, known_to(b), tuple(rng.sample(topics, TOPICS_OF_PUBLISHER)))
        for b in brokers
    ]
    subscribers = []
    for broker in brokers:
        for number in range(1, SUBSCRIBERS_AT_BROKER + 1):
            chosen = rng.sample(topics, TOPICS_OF_SUBSCRIBER)
            wanted = [_some_of(topic, rng, by_content=by_content) for topic in chosen]
            name = f"s{number}-{broker}"
            subscribers.append(SubscriberPlan(name, broker, known_to(broker), tuple(wanted)))
    if by_content:
        broker = rng.choice(brokers)
        wanted = [_some_of(None, rng, by_content=True)]
        subscribers.append(SubscriberPlan("s-any", broker, known_to(broker), tuple(wanted)))
    return ClientsPlan(
        tuple(publishers),
        tuple(subscribers),
        rate,
        payload_bytes,
        seed,
        patience_s,
        result_file,
    )


def _some_of(topic: str | None, rng: Random, *, by_content: bool) -> Wanted:
    if not by_content or (topic is not None and rng.random() < 0.5):
        return Wanted(topic)
    return Wanted(topic, rng.randrange(1, MIDDLE), rng.randrange(MIDDLE + 1, VALUES))
