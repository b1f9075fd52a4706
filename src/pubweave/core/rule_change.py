"""Other rules, while clients are inside: who may not stay is told and let go.

A client whose user may not be here any more loses its session. One that may stay loses the
subscriptions and advertisements that its rights do not cover any more, and is told of each as if
it had just been refused. MQTT has no words for that: there the whole session ends, and the client
hears of single filters when it subscribes again.
"""

from __future__ import annotations

from pubweave.core.dataplane.part import BrokerParts
from pubweave.core.dataplane.publishing import Publishing
from pubweave.core.dataplane.services import BrokerServices
from pubweave.core.mqtt.gateway import MqttGateway
from pubweave.core.mqtt.protocol.topics import filters_of
from pubweave.core.routing.strategy import RoutingStrategy
from pubweave.core.session.session import Session
from pubweave.core.vocabulary.errors import RefusedError
from pubweave.core.vocabulary.events import AccessChanged
from pubweave.model.messages.session import Advertise, Subscribe, Unadvertise, Unsubscribe

Entries = dict[Session, list[Subscribe | Advertise]]


class RuleChange:
    """Applies other rules to the clients of a broker."""

    def __init__(
        self, services: BrokerServices[RoutingStrategy], parts: BrokerParts, publishing: Publishing
    ) -> None:
        self._services = services
        self._parts = parts
        self._publishing = publishing

    def apply(self, event: AccessChanged, now: float) -> None:
        """From here on these rules hold. O(clients, and the broker's table entries x rights)."""
        services = self._services
        services.sessions.access.replace_rules(event.rules)
        entries: Entries = {}
        for client, message in services.routing.client_entries():
            entries.setdefault(client, []).append(message)
        if services.mqtt is not None:
            self._end_mqtt_sessions(services.mqtt, entries, now)
        for client in list(services.sessions.clients.values()):
            self._publishing.forget_routes(client)
            if client.connection is not None and client.connection < 0:
                continue  # the inner end of an MQTT session
            reason = services.sessions.access.why_not_stay(client)
            if reason:
                services.teardown.expire(client, reason, now)
            elif not self._parts.is_paused(client):
                for message, why in self._forbidden(client, entries):
                    self._withdraw(client, message, why, now)

    def _forbidden(
        self, client: Session, entries: Entries
    ) -> list[tuple[Subscribe | Advertise, str]]:
        """What a client has and may not have any more, and why not."""
        found = []
        for message in entries.get(client, ()):
            try:
                self._services.sessions.access.check_right(client, message)
            except RefusedError as error:
                found.append((message, str(error)))
        return found

    def _end_mqtt_sessions(self, mqtt: MqttGateway, entries: Entries, now: float) -> None:
        sessions, access = self._services.sessions, self._services.sessions.access
        for session in list(mqtt.sessions.by_name.values()):
            client = None if session.end is None else sessions.of(session.end.connection)
            if client is None:
                continue
            reason = access.why_not_stay(client)
            if not reason:
                reason = next((why for _, why in self._forbidden(client, entries)), "")
            if not reason and mqtt.routes_whole_topics:
                # What is in the tables are wild topics, which say nothing of rights.
                wild = session.subscriptions.with_wildcards()
                filters = [f for s in wild for f in filters_of(s.pattern, s.content)]
                reason = access.why_not_subscribe(session.user, filters)
            if reason:
                mqtt.forbid(session, reason, now)

    def _withdraw(
        self, client: Session, message: Subscribe | Advertise, why: str, now: float
    ) -> None:
        is_subscription = isinstance(message, Subscribe)
        withdrawal = Unsubscribe(message.id) if is_subscription else Unadvertise(message.id)
        if not self._parts.keep(client, withdrawal, now):
            self._services.tables.receive(client, withdrawal, now)
        self._services.outgoing.refuse(client, message.id, why)
