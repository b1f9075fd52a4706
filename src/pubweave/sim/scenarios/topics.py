"""Scenarios on overlays that route by topic: `churn`, `rendezvous`, `placement` and `hybrid`.

Brokers come, go and crash under traffic; at rest all that the strategy promises must hold.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import replace

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.placement import LASTING, SIMILARITY, PlacementConfig
from pubweave.core.config.session import SessionLimits
from pubweave.core.config.topic_connected import TopicConfig
from pubweave.design.tco.mending_by_name import canonical, mending_links
from pubweave.model.ids import BrokerId, Link
from pubweave.model.topology import Topology
from pubweave.sim.kernel.faults import FaultRates
from pubweave.sim.kernel.nodes import HandlingTime
from pubweave.sim.kernel.rare_faults import RARE
from pubweave.sim.kernel.world import World
from pubweave.sim.overlays.clusters import RING, part_of
from pubweave.sim.overlays.rendezvous import FAST, ring_overlay, upkeep_of
from pubweave.sim.overlays.topic_connected import TopicOverlay, repair_of
from pubweave.sim.parts.churn import (
    BrokerChurn,
    ChurnSetting,
    EarlyAcknowledgements,
    topic_clients,
)
from pubweave.sim.parts.remaps import RingRemaps
from pubweave.sim.parts.run import Options, SimPart, SimRun
from pubweave.sim.scenarios.scenario import DeliveryBounds, Scenario

SILENCE_LIMIT_S = 5.0
PING_EVERY_S = 1.0
CLIENT_EXPIRY_S = 8.0
"""Of clients whose goodbye was lost; others are back sooner."""
FAULTS = ("none", "connections", "cuts", "pauses", "all")
MAX_BROKERS = 14
FEWEST = 6
"""Brokers of a hybrid overlay: two of the ring, and two clusters of two."""
UPDATE_S = 0.5


def draw_churn(world: World, options: Options) -> ChurnSetting:
    count = world.integer(2, options.max_brokers)
    topics = tuple(f"t{number}" for number in range(world.integer(1, 12)))
    interests = {
        f"b{number}": tuple(t for t in topics if world.chance(0.35))
        for number in range(1, count + 1)
    }
    window_bytes = int(world.choice([1 << 20, 1 << 13, 4000]))
    usual = None if options.fault in RARE else options.fault
    chosen = usual or world.choice(list(FAULTS))
    if options.fault in RARE and chosen == "none":
        chosen = "connections"
    config = TopicConfig(start_limit_s=2.0, forget_after_s=90.0)
    return ChurnSetting(
        topology=connected_topology(interests),
        interests=interests,
        topics=topics,
        limits=SessionLimits(window_bytes, 5 * window_bytes, window_bytes),
        handling=HandlingTime(world.uniform(0, 0.0005), world.uniform(0, 0.001)),
        faults=_rates(world, chosen),
        fault=chosen,
        config=config.patient() if options.is_durable else config,
        clients=0,
        rounds=2,
        round_s=world.uniform(3.0, 6.0),
        actions_per_round=world.integer(30, 90),
        churn_per_round=world.integer(2, 8),
        tells_refusals=world.chance(0.6),
    )


def _rates(world: World, fault: str) -> FaultRates:
    has = {name: fault in (name, "all") for name in FAULTS}
    return FaultRates(
        connection_drop_per_s=world.uniform(0.2, 2.0) if has["connections"] else 0.0,
        delay_spike_per_s=0.2 if has["connections"] else 0.0,
        partition_per_s=0.3 if has["cuts"] else 0.0,
        broker_pause_per_s=0.2 if has["pauses"] else 0.0,
    )


def connected_topology(interests: dict[BrokerId, tuple[str, ...]]) -> Topology:
    """A topic-connected overlay, in one piece as a whole, too (Low-ODA on few brokers)."""
    order = canonical({broker: len(topics) for broker, topics in interests.items()})
    members: dict[str, list[BrokerId]] = {"": order}
    for broker in order:
        for topic in interests[broker]:
            members.setdefault(topic, []).append(broker)
    pieces = {t: {b: place for place, b in enumerate(brokers)} for t, brokers in members.items()}
    pairs = mending_links(pieces, order, dict.fromkeys(order, 0))
    return Topology(frozenset(order), frozenset(Link.between(a, b) for a, b in pairs))


def topic_config(broker: BrokerId, setting: ChurnSetting, strategy: str) -> BrokerConfig:
    return BrokerConfig(
        id=broker,
        strategy=strategy,
        limits=setting.limits,
        ping_every_s=PING_EVERY_S,
        silence_limit_s=SILENCE_LIMIT_S,
        client_expiry_s=CLIENT_EXPIRY_S,
        topics=setting.config,
        rendezvous=FAST,
    )


def topic_run(
    name: str,
    world: World,
    options: Options,
    setting: ChurnSetting,
    kind: Callable[..., TopicOverlay],
    config: Callable[[BrokerId], BrokerConfig],
) -> tuple[SimRun, BrokerChurn]:
    """A run whose brokers come and go; its parts are not composed yet."""
    run = SimRun(
        name,
        world,
        options,
        setting,
        kind,
        config,
        latency_s=lambda link: world.uniform(0.001, 0.04),
    )
    assert isinstance(run.overlay, TopicOverlay)
    clients = topic_clients(run, setting.topics)
    return run, BrokerChurn(run, run.overlay, clients, setting)


def churn(world: World, options: Options, setting: ChurnSetting | None = None) -> SimRun:
    """A topic-connected overlay."""
    drawn = setting or draw_churn(world, options)

    def config(broker: BrokerId) -> BrokerConfig:
        return topic_config(broker, drawn, "topic_connected")

    run, part = topic_run("churn", world, options, drawn, TopicOverlay, config)
    run.compose(part.clients, part, EarlyAcknowledgements(part))
    return run


def ring_run(
    name: str,
    world: World,
    options: Options,
    setting: ChurnSetting,
    config: Callable[[BrokerId], BrokerConfig] | None = None,
) -> tuple[SimRun, BrokerChurn, RingRemaps]:
    """A run on a ring that is remapped."""
    config = config or (lambda broker: topic_config(broker, setting, "rendezvous"))
    run, part = topic_run(name, world, options, setting, ring_overlay, config)
    return run, part, RingRemaps(part)


def rendezvous(world: World, options: Options) -> SimRun:
    run, part, remaps = ring_run("rendezvous", world, options, draw_churn(world, options))
    run.compose(part.clients, remaps, part)
    return run


def placement(world: World, options: Options) -> SimRun:
    """Brokers belong to placement clusters: whoever subscribes or unsubscribes may be sent to
    another broker of its cluster. What a user had subscribed to before stays due to it."""
    setting = draw_churn(world, options)
    size = world.integer(2, 7)
    load_weight = float(world.choice([0.0, 0.5, PlacementConfig.load_weight]))
    rule = str(world.choice([LASTING, LASTING, LASTING, SIMILARITY]))

    def config(broker: BrokerId) -> BrokerConfig:
        number = int(broker.removeprefix("b")) - 1
        first = number - number % size
        cluster = [f"b{other + 1}" for other in range(first, first + size)]
        placing = PlacementConfig(
            members=tuple(name for name in cluster if name != broker),
            update_s=UPDATE_S,
            load_weight=load_weight,
            rest_s=UPDATE_S,
            rule=rule,
        )
        return replace(topic_config(broker, setting, "rendezvous"), placement=placing)

    run, part, remaps = ring_run("placement", world, options, setting, config)
    part.overlay.on_sent = part.await_answer
    run.compose(part.clients, remaps, part, SentUsers(run))
    return run


class SentUsers(SimPart):
    """Counts the users that brokers sent elsewhere."""

    def __init__(self, run: SimRun) -> None:
        self._run = run

    def counts(self) -> dict[str, int]:
        sent = (upkeep_of(node.broker).placing.sent for node in self._run.living)
        return {"users_sent": sum(sent)}


def hybrid(world: World, options: Options) -> SimRun:
    """Clusters of brokers that reach a ring through gateways."""
    drawn = draw_churn(world, options)
    count = world.integer(FEWEST, max(FEWEST, options.max_brokers))
    parts = [RING, *(f"c{number}" for number in range(1, world.integer(1, count // 3 - 1) + 1))]
    names = []
    for place in range(count):
        # Two of each part; the others anywhere.
        part = parts[place // 2] if place < 2 * len(parts) else world.choice(parts)
        names.append(f"{part}b{place + 1}")
    interests = {name: tuple(t for t in drawn.topics if world.chance(0.35)) for name in names}
    gateways = Gateways(world)
    links: set[Link] = set()
    for part in parts:
        inside = [name for name in names if part_of(name) == part]
        links |= connected_topology({name: interests[name] for name in inside}).links
        for name in inside[:2] if part != RING else ():
            gateways.tell(name, [n for n in names if part_of(n) == RING])
    topology = Topology(frozenset(names), frozenset(links))
    setting = replace(drawn, interests=interests, topology=topology)

    def config(broker: BrokerId) -> BrokerConfig:
        if part_of(broker) == RING:
            return topic_config(broker, setting, "rendezvous")
        clustered = topic_config(broker, setting, "topic_connected")
        ring = gateways.ring_of.get(broker, ())
        return replace(clustered, topics=replace(clustered.topics, ring=ring))

    run, churning, remaps = ring_run("hybrid", world, options, setting, config)
    gateways.attach(churning)
    run.compose(churning.clients, remaps, churning, gateways)
    return run


class Gateways(SimPart):
    """An operator who sees to it that every cluster keeps a gateway that was told of a living
    broker of the ring: beyond that whoever is in charge may crash, and so may the broker it is
    linked with."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.ring_of: dict[BrokerId, tuple[BrokerId, ...]] = {}
        """By gateway: the brokers of the ring that it was told of."""

    def attach(self, churning: BrokerChurn) -> None:
        self._run = churning.run
        churning.next_name = self._next_name
        churning.is_spare = self._is_spare

    def tell(self, gateway: BrokerId, ring: list[BrokerId]) -> None:
        """Tell a gateway of some brokers of the ring."""
        some = tuple(name for name in ring if self._world.chance(0.6))
        self.ring_of[gateway] = some or (self._world.choice(ring),)

    def _clusters(self) -> list[str]:
        return sorted({part_of(name) for name in self._run.overlay.brokers} - {RING})

    def _next_name(self, last: str) -> BrokerId:
        """It joins a part; in a cluster it may be told of the ring."""
        part = self._world.choice([RING, *self._clusters()])
        name = f"{part}{last}"
        if part != RING and self._world.chance(0.5):
            self.tell(name, [n for n in self._run.homes() if part_of(n) == RING])
        return name

    def _is_spare(self, name: BrokerId) -> bool:
        """Whether every part has a broker, and every cluster a gateway, without this one."""
        staying = [home for home in self._run.homes() if home != name]
        parts = {part_of(home) for home in self._run.overlay.brokers}
        return {part_of(home) for home in staying} == parts and all(
            any(part_of(home) == part and self._reaches_ring(home, staying) for home in staying)
            for part in parts - {RING}
        )

    def _reaches_ring(self, gateway: BrokerId, living: Collection[BrokerId]) -> bool:
        return any(name in living for name in self.ring_of.get(gateway, ()))

    def counts(self) -> dict[str, int]:
        inside = [node for node in self._run.living if part_of(node.name) != RING]
        linked = sum(repair_of(node.broker).gateway.is_linked for node in inside)
        return {"clusters": len(self._clusters()), "gateways": linked}


DURABLE = frozenset(("durability", "pause_s", "fault"))
NOT_DURABLE = frozenset(("pause_s", "fault"))
TOPIC_DELIVERIES = DeliveryBounds(due=0.95, due_with_journals=0.85, excused=0.005)
"""A broker confirms a subscription when it is connected in the topic: most are at once. Excused is
what only a broker had that was gone for good while its publisher had gone, too."""
CHURN = Scenario(
    "a topic-connected overlay whose brokers come, go and crash under traffic",
    churn,
    MAX_BROKERS,
    DURABLE,
    (*FAULTS, *RARE),
    deliveries=TOPIC_DELIVERIES,
)
RENDEZVOUS = Scenario(
    "a ring whose brokers come, go, crash and are remapped under traffic",
    rendezvous,
    MAX_BROKERS,
    DURABLE,
    (*FAULTS, *RARE),
    deliveries=TOPIC_DELIVERIES,
)
PLACEMENT = Scenario(
    "as rendezvous, and users are sent to the brokers where they fit",
    placement,
    MAX_BROKERS,
    NOT_DURABLE,
    (*FAULTS, *RARE),
    deliveries=TOPIC_DELIVERIES,
)
HYBRID = Scenario(
    "clusters of brokers that reach a ring through gateways, under churn",
    hybrid,
    MAX_BROKERS,
    NOT_DURABLE,
    (*FAULTS, *RARE),
    deliveries=TOPIC_DELIVERIES,
)
