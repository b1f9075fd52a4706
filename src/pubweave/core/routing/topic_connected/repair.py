"""Repair of a topic-connected overlay after joins, leaves, crashes and new topics.

Every broker announces its topics, links and backups to all (`BrokerRecord`), keeps the resulting
map (`topic_connected/membership_map`), and checks it when it has changed. If a topic is in pieces,
the brokers of the shadow set choose the same links from the same map
(`topic_connected/link_choice`), and each opens its own. Maps may differ for a moment, so
superfluous links may be opened; a topic that is still in pieces after that is connected among all
brokers that take part in it.

There is no coordinator and no consensus. It converges because records only get newer, a link that
is not established in time is lost, and lost links are not chosen.

A broker that joins is given one broker to link with, gets the map from it, and is alone in its
topics on the map, which is repaired like any other break, as is a new topic of a broker. A broker
that leaves, the overlay or a topic, announces that first, and goes when the others are connected
without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, get_args

from msgspec.structs import replace

from pubweave.core.dataplane.part import BrokerPart, EventHandler, MessageHandler
from pubweave.core.dataplane.services import BrokerServices
from pubweave.core.routing.topic_connected.absent_brokers import AbsentBrokers
from pubweave.core.routing.topic_connected.confirmations import TopicConfirmations
from pubweave.core.routing.topic_connected.gaps import TopicGaps
from pubweave.core.routing.topic_connected.gateway import RingGateway
from pubweave.core.routing.topic_connected.leaving import TopicLeaving
from pubweave.core.routing.topic_connected.link_choice import (
    choose_backups,
    everybody_concerned,
    links_among,
    needs_backups,
    shadow_set,
)
from pubweave.core.routing.topic_connected.link_monitor import NO_AGE, Age, LinkMonitor
from pubweave.core.routing.topic_connected.membership_map import MembershipMap, MembershipView
from pubweave.core.routing.topic_connected.routing import TopicRouting
from pubweave.core.routing.topic_connected.subscribe_barrier import SubscribeBarrier
from pubweave.core.session.session import RemoteProtocolError, Session
from pubweave.core.vocabulary.events import ConnectionId, DialRefused, LeaveEnded, LeaveRequested
from pubweave.core.vocabulary.rare_branches import Branch, sometimes
from pubweave.model.ids import BrokerId, SubscriptionId
from pubweave.model.messages.session import Hello, Message, Role
from pubweave.model.messages.topic_connected import BrokerRecord, TopicMessage, TopicMissed
from pubweave.model.records.status import TOPICS_SUBJECT, TopicsStatus

WIDEN_AFTER_S = 0.3
"""After this time a break is repaired among all concerned, not only the shadow set."""
CLEANUP_EVERY_S = 1.0
RETURNING_S = 10.0
"""How long a client from another broker may take to repeat its subscriptions."""


class OverlayRepair(BrokerPart):
    """One broker's map, links and topics over time."""

    deadline: float = 0.0

    def __init__(self, services: BrokerServices[TopicRouting]) -> None:
        now = services.started_at
        self._services = services
        self._config = services.config.topics
        self._id = services.config.id
        self.map = MembershipMap(self._id)
        self.links = LinkMonitor(services, self._address_of, self._age_of)
        self.gateway = RingGateway(services)
        self.map.receive(BrokerRecord(self._id, services.sessions.address, services.epoch, 0), now)
        self._view: MembershipView | None = None
        self._fading: dict[str, float] = {}
        """Topics that no client wants any more, and since when."""
        self._withdrawn_at: dict[str, float] = {}
        """Those of them that are not announced any more, and since when."""
        self._wanted: dict[BrokerId, float] = {}
        """Chosen links, and since when; some are to be opened by their far ends."""
        self._broken_at: dict[str, float] = {}
        self._renew_at = now
        self._backed_up: MembershipView | None = None
        """The view for which the backups suffice."""
        self._chosen: tuple[MembershipView, bool, list[BrokerId]] | None = None
        self._cleanup_at = now + CLEANUP_EVERY_S
        self.deadline = now
        self.repairs = 0
        self.widened = 0
        self.waits = SubscribeBarrier(services, self.links, self.map, lambda: self.view)
        self.confirmations = TopicConfirmations(services, self.waits.is_reached)
        self.absences = AbsentBrokers(self.map, lambda: self.view, self._config.keep_s)
        self.gaps = TopicGaps(services)
        self.leaving = TopicLeaving(
            services, self.links, self.map, lambda: self.view, self.gateway.is_missed
        )
        services.routing.on_change = self._on_topics
        services.routing.on_subscribed = self._subscribed

    def event_handlers(self) -> Mapping[type[Any], EventHandler]:
        return {
            DialRefused: self._refused,
            LeaveRequested: self._leave,
            LeaveEnded: self._count_left_behind,
        }

    def message_handlers(self) -> Mapping[type[Any], MessageHandler]:
        return dict.fromkeys(get_args(TopicMessage), self.receive)

    # --- the map ---------------------------------------------------------------------------

    @property
    def own(self) -> BrokerRecord:
        return self.map.records[self._id]

    @property
    def view(self) -> MembershipView:
        if self._view is None:
            self._view = self.map.view()
        return self._view

    @property
    def is_leaving(self) -> bool:
        return self.leaving.began_at is not None

    def _address_of(self, broker: BrokerId) -> str:
        record = self.map.records.get(broker)
        return "" if record is None else record.address

    def _age_of(self, broker: BrokerId) -> Age:
        record = self.map.records.get(broker)
        return NO_AGE if record is None else record.age

    # --- events ----------------------------------------------------------------------------

    def _subscribed(self, client: Session, topic: str, id_: SubscriptionId) -> None:
        self.waits.subscribed(client, topic)
        self.confirmations.subscribed(client, topic, id_)

    def _check_waits(self, now: float) -> None:
        self.waits.check(now)
        self.confirmations.check()

    def _on_topics(self) -> None:
        self.deadline = 0.0

    def _check_soon(self, now: float) -> None:
        self.deadline = min(self.deadline, now + self._config.settle_s)

    def link_added(self, neighbor: BrokerId, now: float) -> None:
        self._monitor_of(neighbor).added(neighbor, now)
        self._check_soon(now)

    def link_removed(self, neighbor: BrokerId, now: float) -> bool:
        if neighbor in self._monitor_of(neighbor).links:
            self._monitor_of(neighbor).discard(neighbor, now)
            self._check_soon(now)
        return True

    def _monitor_of(self, neighbor: BrokerId) -> LinkMonitor:
        return self.gateway.links if neighbor in self.gateway.ring else self.links

    def link_down(self, link: Session, now: float) -> None:
        self.deadline = min(self.deadline, now)

    def _refused(self, event: DialRefused, now: float) -> None:
        if self._monitor_of(event.neighbor).refused(event.neighbor, now):
            self.deadline = min(self.deadline, now)

    def accepts_foreign_link(self, hello: Hello) -> bool:
        return self.gateway.is_ring_broker(hello)

    def greeted(self, connection: ConnectionId, message: Message, now: float) -> bool:
        """A Hello of a broker with the same protocol makes it a neighbor; a client that was
        elsewhere may have missed publications."""
        if not isinstance(message, Hello):
            return False
        if message.role is Role.CLIENT:
            self._note_client(message, now)
        elif (
            message.role is Role.BROKER
            and message.routing == self._services.routing.protocol
            and message.id not in (self._id, *self._services.sessions.links)
        ):
            self.links.accept(message.id, now)
        return False

    def _note_client(self, hello: Hello, now: float) -> None:
        session = self._services.sessions.clients.get(hello.id)
        if hello.remote_epoch and (session is None or not session.continues(hello)):
            self._services.routing.returning[hello.id] = now

    def link_began(self, link: Session, now: float) -> None:
        """A session with a neighbor began: send it the whole map."""
        self._check_soon(now)
        self.gaps.discard(link)
        if link.remote in self.gateway.ring:
            return
        # Records of gone brokers are sent, too: the neighbor keeps publications for them.
        doubtful = self.view.doubtful
        for broker in self.map.records:
            if broker not in doubtful:
                self._services.send(link, self.map.record_of(broker, now))

    def receive(self, link: Session, message: TopicMessage, now: float) -> None:
        if isinstance(message, BrokerRecord) and link.remote in self.gateway.ring:
            raise RemoteProtocolError("BrokerRecord is for brokers of one topic-connected overlay")
        if isinstance(message, TopicMissed):
            self.gaps.receive(link, message, now)
        elif not isinstance(message, BrokerRecord):
            self._services.routing.receive_wanted(link, message)
            self._check_waits(now)
        elif message.broker == self._id:
            self._supersede(message, now)
        elif message.silent_s >= self._config.forget_after_s:
            if self.map.discard(message):
                self._view = None
                self._check_soon(now)
                self._services.routing.send_all(message, but=link)
        elif self.map.has_forgotten(message):
            forgotten = replace(message, silent_s=self._config.forget_after_s)
            self._services.send(link, forgotten)
        elif self.map.receive(message, now):
            self._view = None
            self._check_soon(now)
            if self._id in message.links and message.broker not in self.links.links:
                # It wants a link, or crashed after that: accept the link, or lose it later.
                self.links.accept(message.broker, now)
            self._services.routing.send_all(message, but=link)
            if (self._id, *self.own.age) in message.lost:
                # It counts us as gone until it has a newer record of us.
                self._announce(replace(self.own, version=self.own.version + 1), now)

    def _supersede(self, record: BrokerRecord, now: float) -> None:
        """Supersede a record of an earlier incarnation of ours that others take for newer."""
        if record.age > self.own.age:
            sometimes(Branch.RECORD_SUPERSEDED)
            self._announce(
                replace(self.own, incarnation=record.incarnation, version=record.version + 1),
                now,
            )

    def _leave(self, event: LeaveRequested, now: float) -> None:
        if self.leaving.begin(now):
            self.deadline = now

    def may_go(self, now: float) -> bool:
        return self.leaving.may_go(now)

    def _count_left_behind(self, event: LeaveEnded, now: float) -> None:
        self.leaving.count_left_behind()

    def excuse(self, seconds: float) -> None:
        """Extend all times by a local pause. Others may have lost and discarded this broker: it
        announces itself."""
        self.links.excuse(seconds)
        self.gateway.excuse(seconds)
        self.map.excuse(seconds)
        self._services.routing.excuse(seconds)
        self.absences.excuse(seconds)
        self.gaps.excuse(seconds)
        self._fading = {topic: at + seconds for topic, at in self._fading.items()}
        self._withdrawn_at = {topic: at + seconds for topic, at in self._withdrawn_at.items()}
        self._broken_at = {topic: at + seconds for topic, at in self._broken_at.items()}
        self.waits.restored()
        self._wanted.clear()
        self._renew_at = self.deadline = 0.0

    def restored(self, incarnation: int, away_s: float, now: float) -> None:
        """This broker was restored from its journal (`journal/recovery`). Others may have lost it:
        with a new incarnation it counts as present again. If it was leaving, it stays now."""
        self.excuse(away_s)
        self.links.restored(now)
        self.gateway.links.restored(now)
        self.leaving.cancel()
        version = self.own.version + 1
        self._announce(replace(self.own, incarnation=incarnation, version=version), now)
        self._cleanup_at = now + CLEANUP_EVERY_S

    # --- checks ----------------------------------------------------------------------------

    def on_deadline(self, now: float) -> None:
        """Update links, topics and the own record, and repair what is in pieces."""
        if now < self.deadline:
            return
        self.deadline = now + self._config.look_every_s
        self._services.routing.now = now
        self.links.check(now)
        self.gateway.check(self.view.present, is_leaving=self.is_leaving, now=now)
        topics = self._staying_topics(now)
        self._refresh(topics, now)
        self._repair(now)
        self._probe(now)
        self.leaving.seek(now)
        self.gaps.check(now)
        self._check_waits(now)
        if now >= self._cleanup_at:
            self._cleanup_at = now + CLEANUP_EVERY_S
            self._clean_up(now)

    def _staying_topics(self, now: float) -> tuple[str, ...]:
        """The topics to announce; ends those that are over."""
        routing, config = self._services.routing, self._config
        staying = []
        for topic in list(routing.topics):
            if topic in routing.claimed:
                self._fading.pop(topic, None)
                self._withdrawn_at.pop(topic, None)
                staying.append(topic)
                continue
            age_s = now - self._fading.setdefault(topic, now) - config.linger_s
            if age_s < 0 or (
                topic not in self._withdrawn_at
                and (age_s < config.keep_s or self._is_kept_on(topic))
                and not self.leaving.is_through(topic)
            ):
                staying.append(topic)
                continue
            # Publications do not revive it meanwhile.
            past_s = now - self._withdrawn_at.setdefault(topic, now)
            is_whole = topic not in self.view.pieces
            if past_s >= 4 * config.settle_s and (is_whole or past_s > config.hand_over_s):
                if not is_whole:
                    sometimes(Branch.FADES_IN_PIECES)
                self._end(topic)
        if self.is_leaving:
            staying = [topic for topic in staying if self.leaving.holds(topic)]
        return tuple(sorted(staying))

    def _is_kept_on(self, topic: str) -> bool:
        return topic in self.absences.missed or self.gateway.is_missed(topic)

    def _end(self, topic: str) -> None:
        routing = self._services.routing
        if self.leaving.holds(topic):
            sometimes(Branch.FADES_ALONE)
            self._services.counters.publications_lost_at_most += len(routing.logs[topic].kept)
        routing.end(topic)
        del self._fading[topic]
        self._withdrawn_at.pop(topic, None)

    def _refresh(self, topics: tuple[str, ...], now: float) -> None:
        """Announce what has changed here."""
        own, coverage = self.own, self._config.coverage
        fresh = replace(
            own,
            address=self._services.sessions.address,
            topics=topics,
            links=self.links.standing(),
            lost=self.links.lost(),
            is_leaving=self.is_leaving,
            is_gateway=self.gateway.is_linked,
        )
        if fresh != own or now >= self._renew_at:
            self._renew_at = now + self._config.forget_after_s / 4
            self._announce(replace(fresh, version=own.version + 1), now)
        if self._backed_up is not self.view and needs_backups(self.view, self.own, coverage):
            own = self.own
            backups = choose_backups(self.view, own, coverage)
            if backups != own.backups:
                self._announce(replace(own, version=own.version + 1, backups=backups), now)
        self._backed_up = self.view

    def _announce(self, record: BrokerRecord, now: float) -> None:
        self.map.receive(record, now)
        self._view = None
        self._services.routing.send_all(record)

    def _clean_up(self, now: float) -> None:
        config = self._config
        for record in self.map.forget_silent(now, config.forget_after_s):
            self._view = None
            self._services.routing.send_all(record)
        self.absences.check(now)
        routing = self._services.routing
        keeps_all = self.links.has_strangers or self.gateway.keeps_all(now)
        lasting = routing.topics if keeps_all else self.absences.missed
        routing.logs.clean_up(now, config.keep_s, config.keep_bytes, lasting)
        returning = routing.returning
        for name in [name for name, at in returning.items() if now - at > RETURNING_S]:
            del returning[name]
        for client in list(self._services.sessions.clients.values()):
            if client.queue_bytes > self._config.queue_limit_bytes:
                self._services.teardown.expire(client, "too slow: its queue is full", now)

    # --- repair ----------------------------------------------------------------------------

    def _repair(self, now: float) -> None:
        """Step II of Shadows, at a broker that may be concerned."""
        view = self.view
        self._broken_at = {topic: self._broken_at.get(topic, now) for topic in view.pieces}
        if view.is_connected or self.own.is_leaving:
            self._wanted.clear()
            return
        self._check_soon(now)
        is_old = any(now - since > WIDEN_AFTER_S for since in self._broken_at.values())
        chosen = self._choice(view, is_old)
        self._wanted = {neighbor: self._wanted.get(neighbor, now) for neighbor in chosen}
        for neighbor, since in self._wanted.items():
            is_ours = self._id < neighbor or now - since > self._config.knock_after_s
            if is_ours and neighbor not in self.links.links:
                self.repairs += 1
                self.links.open(neighbor, now)
        self._refresh(self.own.topics, now)

    def _probe(self, now: float) -> None:
        """Probe brokers whose loss nobody in reach has witnessed."""
        if self.view.prober == self._id and not self.is_leaving:
            for broker in sorted(self.view.doubtful - self.links.links.keys()):
                self.links.open(broker, now, is_probe=True)

    def _choice(self, view: MembershipView, is_old: bool) -> list[BrokerId]:
        """The brokers to link with; cached until the map changes."""
        if self._chosen is None or self._chosen[0] is not view or self._chosen[1] != is_old:
            chosen = self._own_links(view, shadow_set(view, self.map.records))
            if not chosen and is_old:
                chosen = self._own_links(view, everybody_concerned(view))
                if chosen:
                    self.widened += 1
                    sometimes(Branch.REPAIR_WIDENED)
            self._chosen = view, is_old, chosen
        return self._chosen[2]

    def _own_links(self, view: MembershipView, among: list[BrokerId]) -> list[BrokerId]:
        """The far ends of the links that are this broker's, of those chosen."""
        if self._id not in among:
            return []
        pairs = links_among(view, among, self._config.rho)
        return [a if b == self._id else b for a, b in pairs if self._id in (a, b)]

    def answer(self, verb: str, argument: str, now: float) -> Any:
        if verb != TOPICS_SUBJECT:
            return None
        view = self.view
        return TopicsStatus(
            topics=tuple(self._services.routing.topics),
            records=tuple(view.present.values()),
            gone=tuple(sorted(view.gone)),
            broken=tuple(sorted(view.pieces)),
            repairs=self.repairs,
            widened=self.widened,
            gateway=self.gateway.in_charge,
        )
