"""Subscribe and Unsubscribe: from topic filters to subscriptions of the overlay, and the answers.

A Subscribe is answered when the broker has taken in what it became, or refused it; retained
publications follow the answer.
"""

from __future__ import annotations

from pubweave.core.config.mqtt import MqttConfig
from pubweave.core.mqtt.bridges.loop_probes import LoopProbes
from pubweave.core.mqtt.cluster.gossip import GatewayGossip
from pubweave.core.mqtt.protocol.topics import (
    filters_of,
    has_wildcards,
    names_doors,
    parse_pattern,
)
from pubweave.core.mqtt.session.inflight import Delivery
from pubweave.core.mqtt.session.native_client import InProcessLink, PendingReply
from pubweave.core.mqtt.session.session import MqttSession, session_of
from pubweave.core.mqtt.session.subscriptions import MqttSubscription
from pubweave.core.session.access import Access
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
"""The user property of a Subscribe that has a filter over contents."""


class SubscribeHandler:
    """Grants and takes back what sessions subscribe to."""

    def __init__(
        self,
        config: MqttConfig,
        access: Access,
        loop: InProcessLink,
        doors: GatewayGossip,
        rings: LoopProbes,
    ) -> None:
        self._config = config
        self._access = access
        self._loop = loop
        self._doors = doors
        self._rings = rings

    # --- asking ----------------------------------------------------------------------------

    def subscribe(self, session: MqttSession, packet: Subscribe) -> None:
        """Ask the overlay for each filter of a packet; `granted` answers."""
        end = session.end
        if end is None:
            return
        content, problem = _content_filter(packet)
        natives: list[tuple[str, ...]] = []
        is_news: list[bool] = []
        for wish in packet.filters:
            fault = problem or self._fault(session, wish, content)
            is_news.append(wish.pattern not in session.subscriptions)
            if fault:
                # A name that no subscription has: it counts as refused.
                natives.append((fault,))
                end.refusals[fault] = fault
                continue
            filters = self._doors.filters_of(parse_pattern(wish.pattern).pattern, content)
            natives.append(tuple(end.client.subscribe(filter_) for filter_ in filters))
        end.promise(packet, None, tuple(natives), tuple(is_news))
        self._loop.touch(end)

    def _fault(self, session: MqttSession, wish: TopicFilter, content: Filter | None) -> str:
        """What is wrong with a filter, before anybody is asked; empty: nothing."""
        try:
            shared = parse_pattern(wish.pattern)
        except ValueError as error:
            return f"{Reason.TOPIC_FILTER_INVALID:#x} {error}"
        if names_doors(shared.pattern):
            return f"{Reason.NOT_AUTHORIZED:#x} {wish.pattern!r} is not for clients"
        if self._doors.routes_whole_topics and has_wildcards(shared.pattern):
            # The broker is asked for a wild topic, to which nobody has a right of their own.
            forbidden = self._access.why_not_subscribe(
                session.user, filters_of(shared.pattern, content)
            )
            if forbidden:
                return f"{Reason.NOT_AUTHORIZED:#x} {forbidden}"
        if shared.group and wish.no_local:
            return f"{Reason.PROTOCOL_ERROR:#x} {wish.pattern!r}: shared and no local"
        most = self._config.subscriptions_per_session
        if len(session.subscriptions) >= most and wish.pattern not in session.subscriptions:
            return f"{Reason.QUOTA_EXCEEDED:#x} {most} subscriptions are the limit for a session"
        return ""

    # --- answering -------------------------------------------------------------------------

    def granted(self, session: MqttSession, promise: PendingReply, now: float) -> None:
        """The broker has heard of all that a Subscribe became: answer it."""
        packet, end, connection = promise.answer, session.end, session.connection
        assert isinstance(packet, Subscribe)
        if end is None:
            return
        content, _ = _content_filter(packet)
        reasons, texts = [], []
        greetings: list[Delivery] = []
        for wish, natives, is_new in zip(
            packet.filters, promise.natives, promise.is_news, strict=True
        ):
            refusal = next((end.refusals[n] for n in natives if n in end.refusals), None)
            if refusal is None:
                before = session.subscriptions.get(wish.pattern)
                since = now if before is None else before.since
                wanted = _subscription(packet, wish, natives, content, since)
                greeting = self._greeting(session, wanted, is_new, now)
                if session.outbox.has_room_for([*greetings, *greeting]):
                    reasons.append(wish.qos)
                    greetings += greeting
                    self._add(session, wanted)
                    if is_new and self._doors.routes_whole_topics:
                        _note_past(session, greeting)
                    continue
                text = f"more is retained for {wish.pattern!r} than a session may keep"
                refusal = f"{Reason.QUOTA_EXCEEDED:#x} {text}"
            for native in natives:
                if native in end.client.subscriptions:
                    _take_back(session, native, is_refused=native in end.refusals)
            code, _, text = refusal.partition(" ")
            is_ours = code.startswith("0x")
            reasons.append(int(code, 16) if is_ours else int(Reason.NOT_AUTHORIZED))
            texts.append(text if is_ours else refusal)
        self._doors.session_changed(session)
        if connection is None:
            return
        problem = connection.problem("; ".join(texts)) if texts else None
        connection.say(SubAck(packet.packet_id, tuple(reasons), problem))
        self._rings.probe(session, now)  # before anything comes back that is retained
        for parcel in greetings:
            session.send(parcel, now)

    def _add(self, session: MqttSession, subscription: MqttSubscription) -> None:
        before = session.subscriptions.add(subscription)
        for native in () if before is None else before.native:
            _take_back(session, native)
        if session.end is not None:
            self._loop.touch(session.end)

    def _greeting(
        self, session: MqttSession, subscription: MqttSubscription, is_new: bool, now: float
    ) -> list[Delivery]:
        """What is retained for a subscription. Retain handling: 0 always, 1 for a new subscription,
        2 never; never to a group. Not what its publisher may not publish any more."""
        handling = subscription.options.retain_handling
        if subscription.group or handling == 2 or (handling == 1 and not is_new):
            return []
        if not self._config.retains:
            return []  # perhaps other doors do
        ids = () if subscription.subscription_id is None else (subscription.subscription_id,)
        found = []
        for publication in self._doors.retained.matching(subscription.pattern, now):
            content = subscription.content
            if content is not None and not content.matches(publication):
                continue
            if subscription.options.no_local and session_of(publication.publisher) == session.name:
                continue
            if not self._access.may_still_publish(publication):
                continue
            qos = session.quality(publication, subscription.options.qos)
            found.append(Delivery(publication, qos, True, ids, subscription.is_of_bridge))
        return found

    def unsubscribe(self, session: MqttSession, packet: Unsubscribe) -> UnsubAck:
        """Take subscriptions back, and say which there were."""
        reasons = []
        for pattern in packet.patterns:
            known = session.subscriptions.remove(pattern)
            reasons.append(0 if known is not None else int(Reason.NO_SUBSCRIPTION_EXISTED))
            for native in () if known is None else known.native:
                _take_back(session, native)
        if session.end is not None:
            self._loop.touch(session.end)
        self._doors.session_changed(session)
        return UnsubAck(packet.packet_id, tuple(reasons))


def _subscription(
    packet: Subscribe,
    wish: TopicFilter,
    natives: tuple[str, ...],
    content: Filter | None,
    since: float,
) -> MqttSubscription:
    shared = parse_pattern(wish.pattern)
    return MqttSubscription(
        wish, shared.group, shared.pattern, packet.subscription_id, content, natives, since
    )


def _note_past(session: MqttSession, greeting: list[Delivery]) -> None:
    """What is retained was published before this subscription, and so was what its publisher said
    on the topic before. Brokers that are new to the topic may be sent it all
    (`session/deduplicator`)."""
    for parcel in greeting:
        publication = parcel.publication
        if len(session.subscriptions.matching(publication)) == 1:  # or it may be on its way
            mark = publication.publisher, publication.topic, publication.sequence
            session.ways.learn((mark,))


def _take_back(session: MqttSession, native: str, *, is_refused: bool = False) -> None:
    if session.end is None:
        return
    if is_refused:
        session.end.client.discard(native)
    else:
        session.end.client.unsubscribe(native)


def _content_filter(packet: Subscribe) -> tuple[Filter | None, str]:
    """The filter over contents that a packet asks for, and what is wrong with it."""
    texts = [value for name, value in packet.user_properties if name == FILTER_PROPERTY]
    if not texts:
        return None, ""
    try:
        predicates = [p for text in texts for p in parse_filter(text).predicates]
        return Filter(tuple(predicates)), ""
    except (NotationError, ValueError) as error:
        first_line = str(error).partition("\n")[0]
        return None, f"{Reason.IMPLEMENTATION_SPECIFIC:#x} {first_line}"
