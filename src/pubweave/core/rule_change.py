"""Other rules, while clients are inside: who may not stay is told and let go.

A client whose user may not be here any more loses its session. One that may stay loses the
subscriptions and advertisements that its rights do not cover any more, and is told of each as if
it had just been refused. MQTT has no words for that: there the whole session ends, and the client
hears of single filters when it subscribes again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubweave.core.mqtt.protocol.topics import filters_of
from pubweave.core.routing.topic_connected.routing import TopicRouting
from pubweave.core.routing.tree.routing import TreeRouting
from pubweave.core.session.session import Session
from pubweave.core.vocabulary.errors import RefusedError
from pubweave.model.messages.session import Advertise, Subscribe, Unadvertise, Unsubscribe
from pubweave.model.records.access import AccessRules

if TYPE_CHECKING:
    from pubweave.core.broker import Broker

Entries = dict[Session, list[Subscribe | Advertise]]


def change_access(broker: Broker, rules: AccessRules | None, now: float) -> None:
    """From here on these rules hold. O(clients, and the broker's table entries x rights)."""
    access = broker.sessions.access
    access.replace_rules(rules)
    entries = _entries(broker)
    _end_mqtt_sessions(broker, entries, now)
    for client in list(broker.sessions.clients.values()):
        broker._publishing.forget_routes(client)
        if client.connection is not None and client.connection < 0:
            continue  # the inner end of an MQTT session
        reason = access.why_not_stay(client)
        if reason:
            broker._teardown.expire(client, reason, now)
        elif broker.migrations is None or not broker.migrations.is_paused(client):
            for message, why in _forbidden(broker, client, entries):
                _withdraw(broker, client, message, why, now)


def _entries(broker: Broker) -> Entries:
    """What the clients of a broker have in its tables."""
    routing = broker.routing
    found: Entries = {}
    if isinstance(routing, TreeRouting):
        for id_, entry in routing.subscriptions.items():
            if entry.hop.is_client:
                found.setdefault(entry.hop, []).append(Subscribe(id_, entry.filter))
        for id_, entry in routing.advertisements.items():
            if entry.hop.is_client:
                found.setdefault(entry.hop, []).append(Advertise(id_, entry.filter))
    elif isinstance(routing, TopicRouting):
        for id_, claim in routing.subscriptions.items():
            found.setdefault(claim.client, []).append(Subscribe(id_, claim.filter))
        for id_, claim in routing.advertisements.items():
            found.setdefault(claim.client, []).append(Advertise(id_, claim.filter))
    return found


def _forbidden(
    broker: Broker, client: Session, entries: Entries
) -> list[tuple[Subscribe | Advertise, str]]:
    """What a client has and may not have any more, and why not."""
    found = []
    for message in entries.get(client, ()):
        try:
            broker.sessions.access.check_right(client, message)
        except RefusedError as error:
            found.append((message, str(error)))
    return found


def _end_mqtt_sessions(broker: Broker, entries: Entries, now: float) -> None:
    if broker.mqtt is None:
        return
    access = broker.sessions.access
    for session in broker.mqtt.sessions.all():
        client = None if session.end is None else broker.sessions.of(session.end.connection)
        if client is None:
            continue
        reason = access.why_not_stay(client)
        if not reason:
            reason = next((why for _, why in _forbidden(broker, client, entries)), "")
        if not reason and broker.mqtt.gossip.routes_whole_topics:
            # What is in the tables are wild topics, which say nothing of rights.
            wild = session.subscriptions.with_wildcards()
            filters = [f for s in wild for f in filters_of(s.pattern, s.content)]
            reason = access.why_not_subscribe(session.user, filters)
        if reason:
            broker.mqtt.forbid(session, reason, now)


def _withdraw(
    broker: Broker, client: Session, message: Subscribe | Advertise, why: str, now: float
) -> None:
    is_subscription = isinstance(message, Subscribe)
    withdrawal = Unsubscribe(message.id) if is_subscription else Unadvertise(message.id)
    if not broker._is_withheld(client, withdrawal, now):
        broker._on_table_message(client, withdrawal, now)
    broker._send_refusal(client, message.id, why)
