"""The checker of limits finds whatever is too large, or is not what its sum says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pubweave.core.broker import Broker
from pubweave.core.client import KEEP_BYTES, ClientCore, ResendBuffer
from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.mqtt import MqttConfig
from pubweave.core.config.session import SessionLimits
from pubweave.core.dataplane.publishing import EARLY_SHARE
from pubweave.core.mqtt.session.connection import MqttConnection
from pubweave.core.mqtt.session.inflight import Delivery, InflightQueue
from pubweave.core.routing.tree.link_sync import GATE_SHARE
from pubweave.core.routing.tree.routing import TreeRouting
from pubweave.core.session.session import Session
from pubweave.core.vocabulary.events import DeadlineReached
from pubweave.model.messages.session import Refused
from pubweave.model.mqtt_packets import PingResp, Publish, TopicFilter
from pubweave.model.publications import Publication, make_publication
from pubweave.model.topology import Topology
from pubweave.sim.checkers.limits import COUNT_EVERY, LimitsChecker
from pubweave.sim.hosts.mqtt import MqttSimBroker, NoHistory, SimMqttClient
from pubweave.sim.kernel.nodes import HandlingTime
from pubweave.sim.kernel.world import World
from pubweave.sim.overlays.base import SimOverlay
from pubweave.sim.overlays.topic_connected import TopicOverlay
from pubweave.sim.overlays.tree import TreeOverlay
from pubweave.sim.simulate import run_seed

LIMITS = SessionLimits(1_000, 5_000, 1_000)
GATE_BYTES = GATE_SHARE * LIMITS.congested_bytes
EARLY_BYTES = EARLY_SHARE * LIMITS.congested_bytes


def big(size: int = 100_000) -> Publication:
    return make_publication("p", 1, "t", {}, b"." * size, 0.0)


def overlay_of(kind: type[SimOverlay] = TreeOverlay, strategy: str = "tree") -> SimOverlay:
    """Two brokers that know each other, one MQTT client, and a limit of each kind."""
    world = World(1)
    overlay = kind(
        world,
        Topology.from_links([("b1", "b2")]),
        make_config=lambda name: BrokerConfig(
            name,
            strategy=strategy,
            limits=LIMITS,
            mqtt=MqttConfig(queue_messages=3, retained_messages=2),
        ),
        handling=HandlingTime(0.0, 0.0),
        broker_type=MqttSimBroker,
    )
    overlay.join("c", "b1", latency_s=0.001, limits=LIMITS)
    ann = SimMqttClient("ann", overlay.network, overlay.brokers["b1"], 0.001, NoHistory())
    ann.dial()
    world.run_until(2.0)
    ann.subscribe(TopicFilter("t", 1))
    ann.publish(Publish("t", b"x", 1, retain=True))
    world.run_until(4.0)
    assert overlay.limits.checked > 50
    count(overlay)
    assert overlay.limits.violations == []
    return overlay


def count(overlay: SimOverlay) -> None:
    clients = ((c.name, c.core) for c in overlay.clients.values())
    overlay.limits.at_rest(clients, overlay.world.now)


def found_by_events(overlay: SimOverlay, events: int = 1) -> str:
    node = overlay.brokers["b1"]
    for _ in range(events):
        node.core_effects(DeadlineReached(), overlay.world.now)
    return "\n".join(overlay.limits.violations)


def wait(session: Session, publication: Publication) -> None:
    session.waiting.append(publication)
    session.waiting_bytes += publication.size_bytes


def unflushed(core: Broker) -> None:
    core.sessions.links["b2"].pending.append(Refused("x", "y"))


def far_too_much_waits(core: Broker) -> None:
    wait(core.sessions.links["b2"], big(1_000))
    core.sessions.links["b2"].waiting_bytes += 2_000_000
    core.sessions.links["b2"].waiting.extend(big(900) for _ in range(2_000))


def beyond_the_window(core: Broker) -> None:
    session = core.sessions.links["b2"]
    session.unacked.extend([big(2_000), big(10)])
    session.unacked_bytes = sum(message.size_bytes for message in session.unacked)


def full_gate(core: Broker) -> None:
    routing = core.routing
    assert isinstance(routing, TreeRouting)
    link = core.sessions.links["b2"]
    routing.sync.shut_gate(link)
    wait(routing.sync.gates[link], big(GATE_BYTES))


def full_early_log(core: Broker) -> None:
    core._early._kept.append(big(EARLY_BYTES))
    core._early._size_bytes += EARLY_BYTES + 1_000


def session_of(core: Broker) -> InflightQueue:
    assert core.mqtt is not None
    return core.mqtt.sessions.by_name["mqtt:ann"].inflight


def full_mqtt_queue(core: Broker) -> None:
    session_of(core).waiting.extend(Delivery(big(1), 1) for _ in range(4))


def full_budget(core: Broker) -> None:
    assert core.mqtt is not None
    core.mqtt.sessions.budget.size_bytes = core.mqtt.config.queues_bytes + 1
    core.mqtt.sessions.by_name.clear()


def unsent_packets(core: Broker) -> None:
    assert core.mqtt is not None
    connection = MqttConnection(99, 0.0, core.mqtt.connections.with_output)
    core.mqtt.flush = lambda: None  # type: ignore[method-assign]
    connection.send(PingResp())


def too_much_retained(core: Broker) -> None:
    assert core.mqtt is not None
    store = core.mqtt.gossip.retained
    for number in range(3):
        store._by_topic[f"x{number}"] = big(1)


@pytest.mark.parametrize(
    ("break_it", "text"),
    [
        (unflushed, "was not flushed"),
        (far_too_much_waits, "what waits for b2"),
        (beyond_the_window, "under way to b2"),
        (full_gate, "the gate of b2"),
        (full_early_log, "the early log"),
        (full_mqtt_queue, "the queue of mqtt:ann"),
        (full_budget, "the queues of all MQTT sessions"),
        (unsent_packets, "packets were not sent"),
        (too_much_retained, "retained messages"),
    ],
)
def test_what_is_too_large_is_found_after_the_next_event(
    break_it: Callable[[Broker], None], text: str
) -> None:
    overlay = overlay_of()
    break_it(overlay.brokers["b1"].broker)
    assert text in found_by_events(overlay)


def longer_than_its_sum(core: Broker) -> None:
    core.sessions.links["b2"].waiting.append(big(10))


def queued_beside_the_budget(core: Broker) -> None:
    session_of(core).size_bytes += 5


def too_many_topics(core: Broker) -> None:
    assert core.mqtt is not None
    session = core.mqtt.sessions.by_name["mqtt:ann"]
    session.advertised.update((str(number), "") for number in range(10_001))


def too_many_clients(core: Broker) -> None:
    name = "x"
    for number in range(10_001):
        core.sessions.clients[f"{name}{number}"] = core.sessions.clients["c"]


@pytest.mark.parametrize(
    ("break_it", "text"),
    [
        (longer_than_its_sum, "and the sum is"),
        (queued_beside_the_budget, "MQTT's budget"),
        (too_many_topics, "topics of mqtt:ann"),
        (too_many_clients, "clients: 1000"),
    ],
)
def test_what_has_to_be_counted_is_found_soon_and_at_rest(
    break_it: Callable[[Broker], None], text: str
) -> None:
    for look in (count, lambda overlay: found_by_events(overlay, COUNT_EVERY)):
        overlay = overlay_of()
        break_it(overlay.brokers["b1"].broker)
        look(overlay)
        assert any(text in violation for violation in overlay.limits.violations)


def test_what_ticks_enforce_may_be_exceeded_until_the_second_tick() -> None:
    overlay = overlay_of(TopicOverlay, "topic_connected")
    core = overlay.brokers["b1"].broker
    core.routing.logs._size_bytes = core.config.topics.keep_bytes + 1  # type: ignore[attr-defined]
    core.routing.logs.clean_up = lambda *_: None  # type: ignore[attr-defined]
    assert "topic logs" not in found_by_events(overlay)
    overlay.world.run_until(overlay.world.now + 4.0)
    assert any("topic logs" in violation for violation in overlay.limits.violations)


def test_a_resend_buffer_that_keeps_too_much_is_found() -> None:
    checker = LimitsChecker()
    core = ClientCore("c", epoch=1, now=0.0)
    core._acknowledged = buffer = ResendBuffer()
    buffer._kept.append((0.0, big(KEEP_BYTES)))
    checker.check_client("c", core, 1.0)
    assert "the resend buffer" in checker.violations[0]


def test_a_run_fails_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue that takes more than it may, in a run whose clients stay away."""
    monkeypatch.setattr(InflightQueue, "put", put_always)
    seeds = [s for s in range(30) if run_seed("mqtt", s, max_brokers=2).setting["absences"]]
    runs = [run_seed("mqtt", seed, max_brokers=2) for seed in seeds[:4]]
    assert any("the queue of" in text for run in runs for text in run.violations)


def put_always(queue: InflightQueue, delivery: Delivery) -> bool:
    queue.waiting.append(delivery)
    queue.size_bytes += delivery.publication.size_bytes
    queue._budget.size_bytes += delivery.publication.size_bytes
    return True


def full_client_queue(core: Broker, *, is_full: bool) -> None:
    """Ticks would end its session, so none of them is let through."""
    session = core.sessions.clients["c"]
    session.waiting.clear()
    session.waiting_bytes = 0
    if is_full:
        wait(session, big(core.config.entry.queue_bytes_per_client + 1))


@pytest.mark.parametrize("pause", ["", "queue", "life"])
def test_what_ticks_enforce_may_be_exceeded_for_two_of_them_in_a_row(pause: str) -> None:
    overlay = overlay_of()
    node, watch = overlay.brokers["b1"], overlay.limits._watches[0]
    watch._handle = lambda event, now: []
    watch._largest = 1 << 30
    for tick in range(5):
        full_client_queue(node.broker, is_full=True)
        if pause == "queue" and tick == 2:
            full_client_queue(node.broker, is_full=False)
        node.incarnation += pause == "life" and tick == 2
        node.core_effects(DeadlineReached(), overlay.world.now)
        node.broker.maintenance.tick_at += 1.0
    assert ("the queue of c" in "".join(overlay.limits.violations)) == (not pause)
