"""Subscribe and Unsubscribe: from topic filters to subscriptions of the overlay, and the answers.

A Subscribe is answered when the broker has accepted or refused the overlay subscriptions made of
it; retained publications follow the answer.
"""

from __future__ import annotations

from pubweave.core.mqtt.bridges.loop_probes import LoopProbes
from pubweave.core.mqtt.cluster.gossip import GatewayGossip
from pubweave.core.mqtt.protocol.topics import (
    filters_of,
    has_wildcards,
    names_gateways,
    parse_pattern,
)
from pubweave.core.mqtt.services import MqttServices
from pubweave.core.mqtt.session.inflight import Delivery
from pubweave.core.mqtt.session.native_client import NO_ANSWER, PendingReply
from pubweave.core.mqtt.session.session import MqttSession, session_of
from pubweave.core.mqtt.session.subscriptions import MqttSubscription
from pubweave.model.filters.filter import Filter
from pubweave.model.filters.text import NotationError, parse_filter
from pubweave.model.mqtt_packets import (
    Reason,
    SubAck,
    Subscribe,
    TopicFilter,
    UnsubAck,
    Unsubscribe,
)

FILTER_PROPERTY = "filter"
"""The user property of a Subscribe that carries a content filter."""


class SubscribeHandler:
    """Grants and withdraws the subscriptions of sessions."""

    def __init__(
        self,
        services: MqttServices,
        gossip: GatewayGossip,
        loop_probes: LoopProbes,
    ) -> None:
        self._services = services
        self._config = services.config
        self._access = services.sessions.access
        self._gossip = gossip
        self._loop_probes = loop_probes

    # --- asking ----------------------------------------------------------------------------

    def subscribe(self, session: MqttSession, packet: Subscribe) -> None:
        """Ask the overlay for each filter of a packet; `granted` answers."""
        end = session.end
        if end is None:
            return
        content, problem = _content_filter(packet)
        natives: list[tuple[str, ...]] = []
        are_new: list[bool] = []
        for asked in packet.filters:
            refusal = problem or self._why_refused(session, asked, content)
            are_new.append(asked.pattern not in session.subscriptions)
            if refusal:
                # A name that no subscription has, which counts as refused.
                natives.append((refusal,))
                end.refusals[refusal] = refusal
                continue
            filters = self._gossip.filters_of(parse_pattern(asked.pattern).pattern, content)
            natives.append(tuple(end.subscribe(filter_) for filter_ in filters))
        end.reply_later(packet, None, tuple(natives), tuple(are_new))

    def _why_refused(self, session: MqttSession, asked: TopicFilter, content: Filter | None) -> str:
        """Why a filter is refused without asking the overlay; empty if it is not."""
        try:
            shared = parse_pattern(asked.pattern)
        except ValueError as error:
            return f"{Reason.TOPIC_FILTER_INVALID:#x} {error}"
        if names_gateways(shared.pattern):
            return f"{Reason.NOT_AUTHORIZED:#x} {asked.pattern!r} is not for clients"
        if self._services.routes_whole_topics and has_wildcards(shared.pattern):
            # The overlay subscription is to a wildcard topic, to which no user has rights.
            forbidden = self._access.why_not_subscribe(
                session.user, filters_of(shared.pattern, content)
            )
            if forbidden:
                return f"{Reason.NOT_AUTHORIZED:#x} {forbidden}"
        if shared.group and asked.no_local:
            return f"{Reason.PROTOCOL_ERROR:#x} {asked.pattern!r}: shared and no local"
        most = self._config.subscriptions_per_session
        if len(session.subscriptions) >= most and asked.pattern not in session.subscriptions:
            return f"{Reason.QUOTA_EXCEEDED:#x} {most} subscriptions are the limit for a session"
        return ""

    # --- answering -------------------------------------------------------------------------

    def granted(self, session: MqttSession, reply: PendingReply, now: float) -> None:
        """The broker has handled all subscriptions made of a Subscribe: answer it."""
        packet, end, connection = reply.answer, session.end, session.connection
        assert isinstance(packet, Subscribe)
        if end is None:
            return
        content, _ = _content_filter(packet)
        reasons, texts = [], []
        to_send: list[Delivery] = []
        for asked, natives, is_new in zip(
            packet.filters, reply.natives, reply.are_new, strict=True
        ):
            refusal = next((end.refusals[n] for n in natives if n in end.refusals), None)
            if refusal is None:
                before = session.subscriptions.get(asked.pattern)
                since = now if before is None else before.since
                wanted = _subscription(packet, asked, natives, content, since)
                retained = self._retained_for(session, wanted, is_new, now)
                if session.inflight.has_room_for([*to_send, *retained]):
                    reasons.append(asked.qos)
                    to_send += retained
                    self._add(session, wanted)
                    if is_new and self._services.routes_whole_topics:
                        _note_retained(session, retained)
                    continue
                text = f"more is retained for {asked.pattern!r} than a session may keep"
                refusal = f"{Reason.QUOTA_EXCEEDED:#x} {text}"
            for native in natives:
                if native in end.subscriptions:
                    _withdraw(session, native, is_refused=native in end.refusals)
            code, _, text = refusal.partition(" ")
            is_ours = code.startswith("0x")
            reasons.append(int(code, 16) if is_ours else int(Reason.NOT_AUTHORIZED))
            texts.append(text if is_ours else refusal)
        self._gossip.session_changed(session)
        if connection is not None:
            if packet.packet_id != NO_ANSWER:
                problem = connection.reason_text("; ".join(texts)) if texts else None
                connection.send(SubAck(packet.packet_id, tuple(reasons), problem))
            self._loop_probes.probe(session, now)  # before anything comes back that is retained
        for delivery in to_send:
            session.send(delivery, now)

    def _add(self, session: MqttSession, subscription: MqttSubscription) -> None:
        before = session.subscriptions.add(subscription)
        for native in () if before is None else before.native:
            _withdraw(session, native)

    def _retained_for(
        self, session: MqttSession, subscription: MqttSubscription, is_new: bool, now: float
    ) -> list[Delivery]:
        """Retained publications for a subscription. Retain handling: 0 always, 1 if it is new, 2
        never; never to a group. Without those that their publisher may no longer publish."""
        handling = subscription.options.retain_handling
        if subscription.group or handling == 2 or (handling == 1 and not is_new):
            return []
        if not self._config.retains:
            return []  # other gateways may retain
        ids = () if subscription.subscription_id is None else (subscription.subscription_id,)
        found = []
        for publication in self._gossip.retained.matching(subscription.pattern, now):
            content = subscription.content
            if content is not None and not content.matches(publication):
                continue
            if subscription.options.no_local and session_of(publication.publisher) == session.name:
                continue
            if not self._access.may_still_publish(publication):
                continue
            qos = session.qos_for(publication, subscription.options.qos)
            found.append(Delivery(publication, qos, True, ids, subscription.is_of_bridge))
        return found

    def unsubscribe(self, session: MqttSession, packet: Unsubscribe) -> None:
        """Withdraw subscriptions, behind those of the same patterns that are not answered yet."""
        end = session.end
        if end is not None and end.is_asked(packet.patterns):
            end.reply_later(packet)
        else:
            self.withdraw(session, packet)

    def withdraw(self, session: MqttSession, packet: Unsubscribe) -> None:
        """Withdraw subscriptions; the answer says which existed."""
        reasons = []
        for pattern in packet.patterns:
            known = session.subscriptions.remove(pattern)
            reasons.append(0 if known is not None else int(Reason.NO_SUBSCRIPTION_EXISTED))
            for native in () if known is None else known.native:
                _withdraw(session, native)
        self._gossip.session_changed(session)
        if session.connection is not None and packet.packet_id != NO_ANSWER:
            session.connection.send(UnsubAck(packet.packet_id, tuple(reasons)))


def _subscription(
    packet: Subscribe,
    asked: TopicFilter,
    natives: tuple[str, ...],
    content: Filter | None,
    since: float,
) -> MqttSubscription:
    shared = parse_pattern(asked.pattern)
    return MqttSubscription(
        asked, shared.group, shared.pattern, packet.subscription_id, content, natives, since
    )


def _note_retained(session: MqttSession, retained: list[Delivery]) -> None:
    """Mark retained publications as given: they were published before this subscription, as was
    everything before them, which a broker that is new to the topic may still be sent
    (`session/deduplicator`)."""
    for delivery in retained:
        publication = delivery.publication
        if len(session.subscriptions.matching(publication)) == 1:  # or it may be on its way
            mark = publication.publisher, publication.topic, publication.sequence
            session.deduplicator.learn((mark,))


def _withdraw(session: MqttSession, native: str, *, is_refused: bool = False) -> None:
    if session.end is None:
        return
    session.end.unsubscribe(native, is_refused=is_refused)


def _content_filter(packet: Subscribe) -> tuple[Filter | None, str]:
    """The content filter of a packet, and why it is refused (empty if it is not)."""
    texts = [value for name, value in packet.user_properties if name == FILTER_PROPERTY]
    if not texts:
        return None, ""
    try:
        predicates = [p for text in texts for p in parse_filter(text).predicates]
        return Filter(tuple(predicates)), ""
    except (NotationError, ValueError) as error:
        first_line = str(error).partition("\n")[0]
        return None, f"{Reason.IMPLEMENTATION_SPECIFIC:#x} {first_line}"
