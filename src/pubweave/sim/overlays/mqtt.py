"""Simulated overlays of brokers with doors for MQTT clients, one for each way to route."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.mqtt import MqttConfig
from pubweave.core.config.topic_connected import TopicConfig
from pubweave.core.mqtt.protocol.topics import matches_topic
from pubweave.core.mqtt.protocol.wildcard_topics import overlay_topic_of
from pubweave.model.ids import BrokerId
from pubweave.sim.overlays.base import SimOverlay
from pubweave.sim.overlays.rendezvous import FAST, ring_overlay
from pubweave.sim.overlays.topic_connected import TopicOverlay
from pubweave.sim.overlays.tree import TreeOverlay

TREE = "tree"


OVERLAYS: dict[str, Callable[..., SimOverlay]] = {
    TREE: TreeOverlay,
    "topic_connected": TopicOverlay,
    "rendezvous": ring_overlay,
}
"""By strategy."""


def config_of(
    broker: BrokerId, *, strategy: str, queue_messages: int, is_durable: bool
) -> BrokerConfig:
    """How a broker of a run is set: what is said now and then is said often."""
    config = BrokerConfig(
        broker,
        mqtt=MqttConfig(
            address=broker, announce_every_s=2.0, queue_messages=queue_messages, redirect_hold_s=2.0
        ),
        stale_grace_s=3.0,
        ping_every_s=2.0,
        silence_limit_s=5.0,
    )
    if strategy == TREE:
        return config
    topics = TopicConfig().patient() if is_durable else TopicConfig()
    return replace(config, strategy=strategy, topics=topics, rendezvous=FAST)


def wants(pattern: str, topic: str) -> bool:
    """Whether a client that subscribes so must get what is published on a topic."""
    return not pattern.startswith("$share/") and matches_topic(pattern, topic)


def order_of(patterns: list[str], topic: str) -> str:
    """Within what a client that subscribes so gets one publisher's publications in their order,
    where the overlay routes by whole topics. What it wants for several reasons comes when it
    first comes, and keeps its order within its topic."""
    ways = {overlay_topic_of(pattern) for pattern in patterns if wants(pattern, topic)}
    return ways.pop() if len(ways) == 1 else topic


def sessions_are_quiet(overlay: SimOverlay) -> bool:
    """Whether nothing waits in any session, and none is between two gateways."""
    gateways = [node.broker.mqtt for node in overlay.brokers.values()]
    sessions = [s for g in gateways if g is not None for s in g.sessions.by_name.values()]
    queues = [session.inflight for session in sessions]
    is_settled = all(session.held is None for session in sessions)
    return is_settled and not any(queue.numbered or queue.waiting for queue in queues)


def overrun(overlay: SimOverlay) -> int:
    """How many sessions ended because they got more than they may keep."""
    gateways = [node.broker.mqtt for node in overlay.brokers.values()]
    return sum(gateway.sessions.overrun for gateway in gateways if gateway is not None)
