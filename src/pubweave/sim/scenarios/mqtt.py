"""The scenario `mqtt`: MQTT clients at the gateways of random trees, random faults, and rest.

Other overlays than trees, with the same clients and faults, are an option (``strategy``).
"""

from __future__ import annotations

from functools import partial

from pubweave.core.config.mqtt import MqttConfig
from pubweave.core.config.session import SessionLimits
from pubweave.core.routing.rendezvous.maintenance import FIRST_VERSION
from pubweave.generate.topologies.trees import random_tree
from pubweave.sim.hosts.mqtt import MqttSimBroker
from pubweave.sim.kernel.faults import QUIET, FaultRates
from pubweave.sim.kernel.nodes import HandlingTime
from pubweave.sim.kernel.rare_faults import RARE
from pubweave.sim.kernel.world import World
from pubweave.sim.overlays.mqtt import OVERLAYS, TREE, config_of
from pubweave.sim.overlays.rendezvous import ring_rules
from pubweave.sim.parts.mqtt_clients import MqttClients, MqttSetting
from pubweave.sim.parts.run import Options, SimRun
from pubweave.sim.scenarios.scenario import Scenario

CALM_SHARE = 0.2
"""Of the runs: nothing is broken but by clients, and QoS 0 is complete."""


def draw_mqtt(world: World, max_brokers: int) -> MqttSetting:
    is_calm = world.chance(CALM_SHARE)
    faults = FaultRates(
        connection_drop_per_s=world.uniform(0.0, 1.0),
        broker_pause_per_s=0.05,
        partition_s=(0.2, 2.0),
    )
    has_absences = world.chance(0.3)
    return MqttSetting(
        topology=random_tree(world.integer(1, max_brokers), world.rng),
        limits=SessionLimits(),
        handling=HandlingTime(0.0002, 0.0002),
        faults=QUIET if is_calm else faults,
        clients=world.integer(3, 12),
        rounds=2,
        round_s=world.uniform(4.0, 8.0),
        actions_per_round=world.integer(50, 150),
        client_drops=world.integer(0, 15),
        moves=world.integer(0, 6) if world.chance(0.6) else 0,
        absences=world.integer(1, 6) if has_absences else 0,
        queue_messages=world.integer(5, 15) if has_absences else MqttConfig().queue_messages,
        redirections=world.integer(1, 8) if world.chance(0.3) else 0,
        changes=world.integer(0, 12),
        goodbyes=world.integer(0, 4),
        expirations=int(world.chance(0.2)),
        is_calm=is_calm,
    )


def mqtt(world: World, options: Options, setting: MqttSetting | None = None) -> SimRun:
    drawn = setting or draw_mqtt(world, options.max_brokers)
    strategy = options.strategy or TREE
    config = partial(
        config_of,
        strategy=strategy,
        queue_messages=drawn.queue_messages,
        is_durable=options.is_durable,
    )
    kind = partial(OVERLAYS[strategy], broker_type=MqttSimBroker)
    # Elsewhere gateways tell by their clocks what is older than a subscription, and say that these
    # must not differ by more than a second (`core.mqtt.session.deduplicator`).
    spared = () if strategy == TREE else ("clocks",)
    run = SimRun("mqtt", world, options, drawn, kind, config, spared=spared)
    if (ring := ring_rules(run.overlay)) is not None:
        ring.version = lambda: FIRST_VERSION
    clients = MqttClients(run, drawn, is_tree=strategy == TREE)
    run.rounds = [clients.go_round] * drawn.rounds
    run.compose(clients)
    return run


MQTT = Scenario(
    "MQTT clients at the gateways of random overlays, random faults, and rest in between",
    mqtt,
    max_brokers=8,
    takes=frozenset(("durability", "fault", "pause_s", "strategy")),
    faults=RARE,
    strategies=lambda: sorted(OVERLAYS),
)
