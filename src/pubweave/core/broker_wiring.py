"""What the parts of a broker that change the overlay, or let others in, are given of its inside."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from pubweave.core.broker_greeting import greet_late
from pubweave.core.broker_inside import BrokerInside
from pubweave.core.mqtt_door import MqttDoor
from pubweave.core.mqtt_native import NativeLoop
from pubweave.core.topic_routing import TopicRouting
from pubweave.core.tree_routing import TreeRouting

if TYPE_CHECKING:
    from pubweave.core.broker import Broker


def inside_of(broker: Broker, routing: TreeRouting) -> BrokerInside:
    """The inside of a broker that routes on a tree, for its actions, migrations and the rest."""
    return BrokerInside(
        config=broker.config,
        sessions=broker.sessions,
        routing=routing,
        flow=broker._flow,
        send=broker._sending.send,
        emit=lambda effect: broker._sending.effects.append(effect),
        flush=lambda session: session.flush(broker._sending.effects),
        end=broker._endings.end,
        refuse=broker._tell_refusal,
        let_go=broker._endings.expire,
        link_changed=broker._endings.link_changed,
        relieve=lambda session: broker._flow.relieve(session, broker._sending.effects),
        take_table=broker._on_table_message,
        forget_publishers=broker._publishing.forget_unknown_publishers,
        withdraw=broker._endings.withdraw,
        greet=partial(greet_late, broker),
        last_sequence=broker._publishing.last_sequence,
        note_sequence=broker._publishing.note_sequence,
        in_action=lambda: broker.actions is not None and broker.actions.is_busy,
        meter=broker._meter,
    )


def door_of(broker: Broker, now: float) -> MqttDoor | None:
    """The door of a broker that lets MQTT clients in."""
    config, access = broker.config, broker.sessions.access
    if config.mqtt is None:
        return None
    loop = NativeLoop(
        access,
        lambda event, now: broker.sessions.opened(event, now, broker._sending.effects),
        broker._on_messages,
    )
    door = MqttDoor(
        config.id,
        config.mqtt,
        access,
        loop,
        now,
        is_topical=isinstance(broker.routing, TopicRouting),
        is_leaving=lambda: bool(broker.sessions.closed_reason),
    )
    if isinstance(broker.routing, TopicRouting):
        broker._publishing.on_taken = door.copying.published
        door.copying.on_congested = broker._flow.hold
        door.copying.on_relieved = lambda session: broker._flow.relieve(
            session, broker._sending.effects
        )
    if broker.migrations is not None:
        broker.migrations.redirect = door.redirecting.redirect
    return door
