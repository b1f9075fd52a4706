"""The transcript of the handover of an MQTT session."""

from __future__ import annotations

from typing import Any

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.mqtt import MqttConfig
from pubweave.core.mqtt.cluster.gossip import _decode
from pubweave.core.mqtt.protocol.topics import GATEWAYS_TOPIC
from pubweave.core.mqtt.session.cluster_messages import (
    Arrived,
    Claim,
    Handover,
    HandoverTail,
    SessionsEnded,
    SessionsHeld,
)
from pubweave.model.ids import Link
from pubweave.model.mqtt_packets import (
    ConnAck,
    Connect,
    PubAck,
    Publish,
    SubAck,
    Subscribe,
    TopicFilter,
)
from pubweave.model.publications import Publication
from pubweave.model.topology import Topology
from pubweave.sim.hosts.mqtt import MqttSimBroker, NoHistory, SimMqttClient
from pubweave.sim.kernel.nodes import HandlingTime
from pubweave.sim.kernel.world import World
from pubweave.sim.overlays.tree import TreeOverlay
from tests.transcripts.recorder import LEFT_OUT, Recorder, show_message

SESSION = "mqtt:ann"
HEADER = """
ann, whose MQTT session lasts, subscribed to jobs with QoS 1 at the gateway b1. She loses her
connection and connects again at b2, 10 ms away, while bob at b1 and eve at b2 publish with QoS 1.

A line: milliseconds, sender > receiver, what comes there (acknowledgements of the overlay left
out), the state of ann's session that the receiver goes to. To be seen:

- While ann is away, what is for her waits at b1. b2 answers her Connect only when it has the
  session: it claims it, and b1 hands over all but the future.
- b2 subscribes before it says `arrived`: what b1 gets behind that, b2 gets, too, and holds.
- The tail is what came to b1 after its handover. With the last of it b1 forgets the session, and
  b2 lets ann in, session present: in flight, waiting, tail and held come in this order, each once.
- A job that was under way to ann when her connection broke comes again, marked as a duplicate.
"""


def transcript() -> str:
    world = World(2)
    link = Link.between("b1", "b2")
    overlay = TreeOverlay(
        world,
        Topology.from_links([("b1", "b2")], latency_ms={link: 10.0}),
        make_config=lambda name: BrokerConfig(name, strategy="tree", mqtt=MqttConfig()),
        handling=HandlingTime(0.0, 0.0),
        broker_type=MqttSimBroker,
    )
    recorder = Recorder(overlay, _state, _show)
    ann, bob, eve = (
        SimMqttClient(
            name,
            overlay.network,
            overlay.brokers[home],
            0.001,
            NoHistory(),
        )
        for name, home in (("ann", "b1"), ("bob", "b1"), ("eve", "b2"))
    )
    for client in (ann, bob, eve):
        client.dial()
    world.run_until(0.5)
    ann.subscribe(TopicFilter("jobs", 1))
    world.run_until(1.0)
    recorder.begin(*overlay.brokers.values())
    jobs = (
        (bob, 0.0),
        (bob, 0.0025),
        (bob, 0.03),
        (bob, 0.075),
        (eve, 0.08),
        (bob, 0.09),
        (bob, 0.12),
    )
    for number, (client, instant) in enumerate(jobs, 1):
        world.at(1.0 + instant, client.publish, Publish("jobs", b"%d" % number, 1))
    world.at(1.004, ann.stay_away, 0.046)
    world.at(1.05, ann.move_to, overlay.brokers["b2"], 0.001)
    world.run_until(1.25)
    return recorder.text(HEADER)


def _show(message: Any) -> str:
    match message:
        case Publication(topic=topic) if topic == GATEWAYS_TOPIC:
            return _show_word(_decode(message.payload))
        case Publication():
            return f"{message.topic}#{message.payload.decode()}"
        case Connect(client_id):
            return f"Connect of {client_id}"
        case ConnAck():
            return "ConnAck" + (", session present" if message.session_present else "")
        case Publish(topic, payload):
            name = f"Publish {topic}#{payload.decode()}"
            return f"{name}, id {message.packet_id}" + (" again" if message.is_duplicate else "")
        case PubAck(packet_id):
            return f"PubAck {packet_id}"
        case Subscribe() | SubAck():
            return type(message).__name__
    return show_message(message) if not isinstance(message, LEFT_OUT) else ""


def _show_word(word: Any) -> str:
    """What gateways say to each other; that is gossip, published to all of them."""
    match word:
        case Claim():
            return f"claim {word.session}, held by {word.holder or 'nobody'}"
        case Handover():
            return f"handover: {len(word.numbered)} in flight, {len(word.waiting)} waiting"
        case Arrived():
            return f"arrived: {word.session}"
        case HandoverTail():
            jobs = " ".join(one.publication.payload.decode() for one in word.deliveries)
            return f"tail: {jobs or 'nothing'}"
        case SessionsHeld() | SessionsEnded():
            return f"{word.__struct_config__.tag}: {' '.join(word.sessions)}"
    return ""


def _state(end: Any) -> str:
    gateway = end.broker.mqtt
    session = gateway.sessions.by_name.get(SESSION)
    if session is None:
        return "awaited" if SESSION in gateway.handover._awaited else "no session"
    if session.held is not None:
        return f"arriving, {len(session.held)} held"
    is_leaving = SESSION in gateway.handover._outgoing
    words = "leaving" if is_leaving else "away" if session.connection is None else "connected"
    queue = session.inflight
    return f"{words}, {len(queue.numbered)} in flight, {len(queue.waiting)} waiting"
