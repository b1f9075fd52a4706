"""Makes what every broker consists of, whatever its strategy."""

from __future__ import annotations

from collections.abc import Callable

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.dataplane.grace import GracePeriods
from pubweave.core.dataplane.outgoing import OutgoingQueue
from pubweave.core.dataplane.part import BrokerParts
from pubweave.core.dataplane.publishing import EarlyLog, Publishing, RouteCache
from pubweave.core.dataplane.sequences import PublisherSequences
from pubweave.core.dataplane.services import BrokerServices
from pubweave.core.dataplane.tables import TableIntake
from pubweave.core.dataplane.teardown import SessionTeardown
from pubweave.core.metering.counters import Counters
from pubweave.core.metering.metering import Metering
from pubweave.core.metering.recorder import BrokerMeter
from pubweave.core.mqtt.gateway import MqttGateway
from pubweave.core.mqtt.services import MqttServices
from pubweave.core.routing.strategy import RoutingStrategy
from pubweave.core.session.backpressure import FlowControl
from pubweave.core.session.table import SessionTable
from pubweave.core.strategies import Strategy
from pubweave.core.vocabulary.events import ConnectionId, MessagesReceived
from pubweave.model.messages.session import Hello

Services = BrokerServices[RoutingStrategy]


def make_services(
    config: BrokerConfig,
    strategy: Strategy,
    *,
    epoch: int,
    now: float,
    metering: Metering | None,
    greet: Callable[[ConnectionId, Hello, float], None],
    on_messages: Callable[[MessagesReceived, float], None],
) -> Services:
    """What the parts of a broker may use. ``greet`` handles a Hello that had to wait,
    ``on_messages`` what in-process clients send."""
    counters = Counters()
    flow = FlowControl(ack_delay_s=config.ack_delay_s, holds_links=strategy.needs_tree)
    outgoing = OutgoingQueue(counters, flow)
    routing = strategy.make_routing(outgoing.send)
    sessions = SessionTable(config, epoch, routing.protocol)
    sequences = PublisherSequences(routing.knows_publisher)
    routes = RouteCache()
    grace = GracePeriods(config)
    meter = BrokerMeter(metering) if metering is not None else None
    return BrokerServices(
        config=config,
        epoch=epoch,
        started_at=now,
        routing=routing,
        sessions=sessions,
        outgoing=outgoing,
        flow=flow,
        teardown=SessionTeardown(sessions, routing, outgoing, flow, routes, counters, grace, meter),
        tables=TableIntake(sessions.access, routing, outgoing, sequences, grace, meter),
        sequences=sequences,
        routes=routes,
        grace=grace,
        counters=counters,
        meter=meter,
        mqtt=_make_mqtt(config, routing, sessions, outgoing, flow, on_messages, now),
        greet=greet,
    )


def _make_mqtt(
    config: BrokerConfig,
    routing: RoutingStrategy,
    sessions: SessionTable,
    outgoing: OutgoingQueue,
    flow: FlowControl,
    on_messages: Callable[[MessagesReceived, float], None],
    now: float,
) -> MqttGateway | None:
    """The MQTT gateway, if MQTT is enabled."""
    if config.mqtt is None:
        return None
    services = MqttServices(
        broker=config.id,
        config=config.mqtt,
        sessions=sessions,
        routes_whole_topics=routing.routes_whole_topics,
        receive=on_messages,
        outgoing=outgoing,
        hold=flow.hold,
        ack=lambda session: flow.ack(session, outgoing.effects),
        relieve=lambda session: flow.relieve(session, outgoing.effects),
    )
    return MqttGateway(services, now)


def make_publishing(
    strategy: Strategy, services: Services, parts: BrokerParts, early: EarlyLog
) -> Publishing:
    """What takes in publications."""
    routing, mqtt = services.routing, services.mqtt
    is_copied = mqtt is not None and routing.routes_whole_topics
    return strategy.publishing(
        routing,
        services.counters,
        services.meter,
        services.outgoing,
        services.sessions.access,
        services.sequences,
        services.routes,
        early=early if routing.keeps_early else None,
        observer=parts.observer,
        tracer=parts.tracer,
        on_accepted=mqtt.replicator.published if mqtt is not None and is_copied else None,
    )
