"""The overlays that are tried, and who their clients are, drawn from a seed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from random import Random
from typing import Any

from soak.jepsen import schedule

TOPICS = 12
VALUES = 1000
MIDDLE = 500
MQTT_TOPICS = ("m/a/1", "m/a/2", "m/b/1", "m/b/2")
PORT = 7000
MQTT_PORT = 1883
STORE_PORT = 2181


@dataclass(frozen=True)
class OverlayKind:
    """One of the overlays that a trial can have."""

    strategy: str
    durability: str = "memory"
    has_store: bool = False
    homes: int = 1
    """How many brokers each native client knows."""
    by_content: bool = False
    extra: dict[str, int] = field(default_factory=dict)
    """Strikes that only this kind has."""
    options: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Tables of the brokers' configuration."""


_RELOCATION = {"relocation": {"mode": "grape", "grape_threshold": 60, "rest_s": 30.0}}
KINDS = {
    "tree": OverlayKind(
        "tree", has_store=True, by_content=True, extra={"plan": 4}, options=_RELOCATION
    ),
    "tree_journal": OverlayKind(
        "tree",
        durability="journal",
        has_store=True,
        by_content=True,
        extra={"plan": 4, **schedule.ON_DISKS},
        # No client is forgotten while its broker is cut off for as long as the nemesis likes.
        options={**_RELOCATION, "broker": {"client_expiry_s": 600.0}},
    ),
    "topic_connected": OverlayKind("topic_connected", homes=3, extra={"churn": 4}),
    "rendezvous": OverlayKind(
        "rendezvous", has_store=True, homes=3, extra={"remap": 3, "churn": 2}
    ),
}


@dataclass(frozen=True)
class TrialSettings:
    """All that a trial is made of."""

    kind: str
    minutes: float
    seed: int
    brokers: int = 6
    rate: float = 80.0
    """Native publications per second, of all publishers together."""
    mqtt_rate: float = 16.0
    payload_bytes: int = 120
    faults: tuple[str, ...] = ()
    """Only these kinds; empty: all."""
    for_s: float | None = None
    """How long each of them lasts; None: as drawn."""
    settle_s: float = 20.0
    awaits_confirmation: bool = False
    patience_s: float = 120.0
    """How long to wait in the end for what is missing."""
    history_mb: int = 2000

    @property
    def overlay(self) -> OverlayKind:
        return KINDS[self.kind]

    @property
    def names(self) -> list[str]:
        return [f"b{number}" for number in range(1, self.brokers + 1)]

    def weights(self) -> dict[str, int]:
        every = {**schedule.COMMON, **self.overlay.extra}
        return {k: w for k, w in every.items() if not self.faults or k in self.faults}

    def document(self) -> dict[str, Any]:
        return asdict(self)


def draw_links(brokers: list[str], seed: int, *, is_tree: bool) -> list[tuple[str, str]]:
    """A random tree; brokers that route by topic have some links more to begin with."""
    rng = Random(f"links {seed}")
    links = {(brokers[rng.randrange(n)], brokers[n]) for n in range(1, len(brokers))}
    if not is_tree:
        for _ in range(len(brokers) // 2):
            a, b = sorted(rng.sample(range(len(brokers)), 2))
            links.add((brokers[a], brokers[b]))
    return sorted(links)


def draw_native(settings: TrialSettings, addresses: dict[str, str]) -> dict[str, Any]:
    """A publisher and two subscribers at every broker, and one that wants everything on a tree.
    Every third subscriber takes subscriptions back and makes new ones."""
    rng = Random(f"native {settings.seed}")
    brokers = sorted(addresses)
    topics = [f"t{number}" for number in range(1, TOPICS + 1)]

    def known_to(broker: str) -> str:
        others = [b for b in brokers if b != broker]
        homes = rng.sample(others, min(settings.overlay.homes - 1, len(others)))
        return ",".join(addresses[b] for b in (broker, *homes))

    publishers = [
        {"name": f"p-{b}", "broker": b, "addresses": known_to(b), "topics": rng.sample(topics, 3)}
        for b in brokers
    ]
    subscribers: list[dict[str, Any]] = []
    for number, broker in enumerate([*brokers, *brokers]):
        wanted = [_some_of(topic, rng, settings) for topic in rng.sample(topics, 3)]
        name = f"s{number // len(brokers) + 1}-{broker}"
        subscribers.append(
            {
                "name": name,
                "broker": broker,
                "addresses": known_to(broker),
                "wanted": wanted,
                "changes_every_s": 15.0 if number % 3 == 2 else 0.0,
            }
        )
    if settings.overlay.by_content:
        broker = rng.choice(brokers)
        subscribers.append(
            {
                "name": "s-any",
                "broker": broker,
                "addresses": known_to(broker),
                "wanted": [{"low": MIDDLE - 100, "high": VALUES, "under": "t"}],
                "changes_every_s": 0.0,
            }
        )
    return {
        "publishers": publishers,
        "subscribers": subscribers,
        "rate": settings.rate,
        "payload_bytes": settings.payload_bytes,
        "seed": settings.seed,
    }


def _some_of(topic: str, rng: Random, settings: TrialSettings) -> dict[str, Any]:
    if not settings.overlay.by_content or rng.random() < 0.5:
        return {"topic": topic}
    return {"topic": topic, "low": rng.randrange(1, MIDDLE), "high": rng.randrange(MIDDLE, VALUES)}


def draw_mqtt(settings: TrialSettings, hosts: dict[str, str]) -> dict[str, Any]:
    """Publishers of each quality, subscribers with kept sessions, one for everything under m/, and
    the roles that come and go: readers of retained messages, clients with wills."""
    rng = Random(f"mqtt {settings.seed}")
    brokers = sorted(hosts)
    clients: list[dict[str, Any]] = []
    for qos in (0, 1, 2):
        topics = rng.sample(MQTT_TOPICS, 2)
        clients.append({"role": "publisher", "name": f"mp{qos}", "qos": qos, "topics": topics})
        clients.append({"role": "subscriber", "name": f"ms{qos}", "qos": qos, "wanted": topics})
        others = rng.sample(MQTT_TOPICS, 2)
        clients.append({"role": "subscriber", "name": f"mt{qos}", "qos": qos, "wanted": others})
    clients.append({"role": "subscriber", "name": "many", "qos": 1, "wanted": ["m/#"]})
    clients.append({"role": "subscriber", "name": "mwatch", "qos": 1, "wanted": ["w/#"]})
    clients.append({"role": "guest", "name": "mguest", "qos": 1, "wanted": [MQTT_TOPICS[0]]})
    clients.append({"role": "keeper", "name": "mkeep", "qos": 1, "topics": ["r/1", "r/2"]})
    clients.append({"role": "reader", "name": "mread", "qos": 1, "topics": ["r/1", "r/2"]})
    clients.append({"role": "testator", "name": "mwill", "qos": 1, "topics": ["w/1"]})
    for number, each in enumerate(clients):
        each["broker"] = rng.choice(brokers)
        each["version"] = 4 if number % 3 == 1 else 5
    return {
        "clients": clients,
        "hosts": hosts,
        "port": MQTT_PORT,
        "rate": settings.mqtt_rate,
        "payload_bytes": settings.payload_bytes,
        "seed": settings.seed,
    }
