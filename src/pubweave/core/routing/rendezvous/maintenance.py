"""Maintenance of a rendezvous overlay at one broker: links, ring, topic trees and interests.

The ring and the trees (`rendezvous/control_plane`) say whom the broker has to be linked with and of
whom it wants which topic; here links are opened and lost, and everything is looked at when it is
time (`rendezvous/topics` then tells wishes and ends topics). As in every overlay that routes by
topic, a link that is lost costs time and no publications: what a broker has taken in it keeps for a
while (`topic_log`), and whoever wants the topic next says what it has got.

Nobody waits for a neighbor: only clients are held up by congested queues
(`core.session.backpressure`), because links of a ring close circles. A neighbor that is too far
behind is cut off, and gets what is kept when it comes back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, get_args

from pubweave.core.dataplane.part import BrokerPart, EventHandler, MessageHandler
from pubweave.core.dataplane.services import BrokerServices
from pubweave.core.routing.rendezvous.absent_brokers import RingAbsences
from pubweave.core.routing.rendezvous.clusters import AttachedClusters
from pubweave.core.routing.rendezvous.control_plane import ControlPlane, rendezvous_status
from pubweave.core.routing.rendezvous.idle_links import IdleLinks
from pubweave.core.routing.rendezvous.remap import Remapping
from pubweave.core.routing.rendezvous.routing import RendezvousRouting
from pubweave.core.routing.rendezvous.topics import RendezvousTopics
from pubweave.core.routing.rendezvous.user_placement import UserPlacing
from pubweave.core.routing.topic_connected.confirmations import TopicConfirmations
from pubweave.core.routing.topic_connected.gaps import TopicGaps
from pubweave.core.routing.topic_connected.link_monitor import LinkMonitor
from pubweave.core.session.session import RemoteProtocolError, Session
from pubweave.core.vocabulary.events import ConnectionId, LeaveEnded, LeaveRequested, RemapAnnounced
from pubweave.design.dynatops.mapping.ring import key_of
from pubweave.model.ids import BrokerId
from pubweave.model.messages.migration import RedirectReply
from pubweave.model.messages.rendezvous import (
    ChordLeaving,
    ChordMessage,
    ChordNeighbors,
    LinkUnused,
    Occupant,
    PlacementDigest,
    RendezvousMessage,
    RendezvousStatus,
    RingMember,
    TreeMessage,
)
from pubweave.model.messages.session import Hello, Message, Role, SequencedMessage
from pubweave.model.messages.topic_connected import BrokerRecord, TopicMessage, TopicMissed
from pubweave.model.records.status import TOPICS_SUBJECT

FIRST_VERSION = 1
TIDY_EVERY_S = 1.0


class RendezvousMaintenance(BrokerPart):
    """One broker's planes, links and topics."""

    deadline: float = 0.0

    def __init__(self, services: BrokerServices[RendezvousRouting]) -> None:
        now = services.started_at
        self._services = services
        self._routing = routing = services.routing
        self._topics = services.config.topics
        self._config = services.config.rendezvous
        self.id = services.config.id
        self.links = LinkMonitor(services, self._address_of)
        self.default = FIRST_VERSION
        """The version of the plane by which publications travel."""
        self.planes: dict[int, ControlPlane] = {}
        self.add_plane(FIRST_VERSION, self.first_position)
        self.remapping = Remapping(self, services.emit)
        self.clusters = AttachedClusters(services.sessions, routing)
        self.absences = RingAbsences(services.config, self._send, self._on_ring)
        self.topics = RendezvousTopics(services, self.planes, self.clusters, self.absences)
        self.gaps = TopicGaps(services)
        self._given: set[BrokerId] = set()
        """Neighbors that the driver named: these links stay."""
        self.spare = IdleLinks(
            self.links,
            services.sessions,
            self._send,
            self._used,
            self._on_link_closed,
            self._config.release_after_s,
        )
        self.placing = UserPlacing(services, self._send, self.linked, now)
        self._lost: set[BrokerId] = set()
        self._leaving_at: float | None = None
        self._cleanup_at = now + TIDY_EVERY_S
        self._checked_at = now
        self._planes_at = now
        """When ring and trees are checked, if nothing happens before."""
        self.deadline = now
        self.confirmations = TopicConfirmations(services, self._is_reached)
        routing.on_change = self._on_topics
        routing.on_subscribed = self.confirmations.subscribed

    def event_handlers(self) -> Mapping[type[Any], EventHandler]:
        return {
            LeaveRequested: self._leave,
            LeaveEnded: self._count_left_behind,
            RemapAnnounced: self.remapping.announced,
        }

    def message_handlers(self) -> Mapping[type[Any], MessageHandler]:
        messages = (*get_args(TopicMessage), *get_args(RendezvousMessage))
        return dict.fromkeys(messages, self.receive) | {RedirectReply: self.placing.replied}

    @property
    def first_position(self) -> int:
        """The position of this broker unless it is mapped elsewhere."""
        given = self._config.position
        return key_of(self.id) if given is None else given

    @property
    def plane(self) -> ControlPlane:
        return self.planes[self.default]

    @property
    def subscribed(self) -> Collection[str]:
        """Topics whose trees this broker has to join."""
        return () if self._leaving_at is not None else self._routing.subscribed

    def add_plane(self, version: int, position: int) -> ControlPlane:
        """Begin another version, with this broker at a position."""
        plane = self.planes[version] = ControlPlane(
            version,
            self._occupant(position),
            self._config,
            send=self._send,
            is_lost=self.is_lost,
            linked=self.linked,
            askers=self._routing.askers,
        )
        plane.chord.is_default = version == self.default
        return plane

    def _occupant(self, position: int) -> Occupant:
        return Occupant(position, self.id, self._services.sessions.address)

    # --- neighbors -------------------------------------------------------------------------

    def _send(self, neighbor: BrokerId, message: SequencedMessage) -> None:
        session = self._services.sessions.links.get(neighbor)
        if session is not None and session.remote_epoch:
            self._services.send(session, message)

    def linked(self) -> list[BrokerId]:
        """Neighbors on the ring with an established link."""
        sessions = self._services.sessions.links
        return [
            name
            for name, link in sessions.items()
            if link.is_established and not self.is_lost(name) and name not in self.clusters.gateways
        ]

    def _on_ring(self) -> list[BrokerId]:
        """Neighbors on the ring, whether or not their links are established."""
        return [name for name in self.links.links if name not in self.clusters.gateways]

    def _address_of(self, broker: BrokerId) -> str:
        for plane in self.planes.values():
            occupant = plane.table.get(broker)
            if occupant is not None:
                return occupant.address
        return ""

    def link_added(self, neighbor: BrokerId, now: float) -> None:
        self._given.add(neighbor)
        self.links.added(neighbor, now)
        self.check_soon(now)

    def link_removed(self, neighbor: BrokerId, now: float) -> bool:
        """An operator removes a link; the ring may open it again."""
        self._given.discard(neighbor)
        if neighbor in self.links.links:
            self.links.discard(neighbor, now)
            self._lose(neighbor, now)
        return True

    def accepts_foreign_link(self, hello: Hello) -> bool:
        return self.clusters.is_gateway(hello)

    def was_redirected_here(self, hello: Hello) -> bool:
        return self.placing.was_redirected_here(hello)

    def greeted(self, connection: ConnectionId, message: Message, now: float) -> bool:
        """A broker that is no neighbor yet, and speaks as we do, may become one by saying so; a
        client that comes from another broker gets what it may have missed."""
        if isinstance(message, Hello):
            self._greeted(message, now)
        return False

    def _greeted(self, hello: Hello, now: float) -> None:
        if hello.role is Role.CLIENT:
            session = self._services.sessions.clients.get(hello.id)
            if hello.remote_epoch and (session is None or not session.continues(hello)):
                self._routing.returning[hello.id] = now
                self.placing.greeted(hello, now)
        elif hello.id not in (self.id, *self._services.sessions.links):
            if self.clusters.is_gateway(hello):
                self.clusters.gateways[hello.id] = None
                self.links.accept(hello.id, now)
            elif hello.routing == self._routing.protocol:
                self.links.accept(hello.id, now)

    def link_began(self, link: Session, now: float) -> None:
        """A session with a neighbor began: send it what it must know of us."""
        self.gaps.discard(link)
        if link.remote in self.clusters.gateways:
            return  # it says what it wants
        for plane in self.planes.values():
            plane.table.own = self._occupant(plane.table.own.position)
            if plane.is_active:
                plane.chord.greet(link.remote)
        self.absences.link_began(link.remote, now)
        self.placing.gossip.link_began(link.remote)
        self.check_soon(now)

    def _lose(self, neighbor: BrokerId, now: float) -> None:
        for plane in self.planes.values():
            plane.lost(neighbor, now)
        self.absences.lost(neighbor, now)
        self.topics.lost(neighbor, now)
        self.placing.lost(neighbor)
        self.check_soon(now)

    def _used(self) -> set[BrokerId]:
        """Of which links this end has a use: for ring or trees, or to find other brokers."""
        links, asked, wanted = self.links.links, self._routing.asked, self._routing.wanted
        if self.remapping.is_under_way:
            return set(links)
        used = {*self._given, *self.clusters.gateways}
        for plane in self.planes.values():
            used.update(plane.table.needed())
        for neighbor in links.keys() - used:
            session = self._services.sessions.links.get(neighbor)
            if session is None or asked.get(session) or wanted.get(session):
                used.add(neighbor)
        return used

    def _on_link_closed(self, neighbor: BrokerId) -> None:
        for plane in self.planes.values():
            plane.chord.met.discard(neighbor)

    # --- what happens ----------------------------------------------------------------------

    def _on_topics(self) -> None:
        self.deadline = self._planes_at = 0.0

    def check_soon(self, now: float) -> None:
        """Something happened: check soon."""
        soon = now + self._topics.settle_s
        self.deadline = min(self.deadline, soon)
        self._planes_at = min(self._planes_at, soon)

    def receive(self, link: Session, message: TopicMessage | RendezvousMessage, now: float) -> None:
        if isinstance(message, BrokerRecord):
            raise RemoteProtocolError("BrokerRecord is not for rendezvous brokers")
        if isinstance(message, TopicMissed):
            self.gaps.receive(link, message, now)
            return
        if isinstance(message, TopicMessage):
            self._routing.receive_wanted(link, message)
            if link.remote in self.clusters.gateways:
                self.check_soon(now)
            return
        if link.remote in self.clusters.gateways:
            raise RemoteProtocolError(f"{type(message).__name__} is for brokers of the ring")
        match message:
            case LinkUnused():
                self.spare.take(link.remote, now)
            case PlacementDigest():
                self.placing.receive(link.remote, message, now)
            case RingMember():
                self.absences.receive(link.remote, message, now)
            case _:
                self._add_version(link.remote, message, now)

    def _add_version(
        self, sender: BrokerId, message: ChordMessage | TreeMessage, now: float
    ) -> None:
        if isinstance(message, ChordNeighbors | ChordLeaving):
            self._catch_up(message, now)
        plane = self.planes.get(message.version)
        if plane is not None and plane.is_active:
            plane.receive(sender, message, now)
            self.check_soon(now)

    def _catch_up(self, message: ChordNeighbors | ChordLeaving, now: float) -> None:
        """Others have switched to a version that we do not have: it was agreed on, so follow."""
        if message.is_default and message.version > self.default:
            if message.version not in self.planes:
                self.add_plane(message.version, self.first_position)
            self.switch(message.version, now)

    def switch(self, version: int, now: float) -> None:
        """Switch to a version; older ones end."""
        self.default = version
        for older in [number for number in self.planes if number < version]:
            del self.planes[older]
        self.plane.is_active = self.plane.is_live = self.plane.chord.is_default = True
        for neighbor in self.linked():
            self.plane.chord.greet(neighbor)
        self.check_soon(now)

    def _leave(self, event: LeaveRequested, now: float) -> None:
        if self._leaving_at is None:
            self._leaving_at = now
            self._services.sessions.closed_reason = f"broker {self.id!r} leaves the overlay"
            for plane in self.planes.values():
                plane.chord.leave()
            self.placing.leave()
            self.deadline = self._planes_at = now

    def may_go(self, now: float) -> bool:
        """Whether the others do not need this broker any more, and have received its queues."""
        if self._leaving_at is None or now - self._leaving_at < 4 * self._topics.settle_s:
            return False
        if now - self._leaving_at > self._topics.linger_s + self._topics.hand_over_s:
            return True
        links = self._services.sessions.links.values()
        if any(link.queue_messages or link.pending for link in links):
            return False
        return not self._held()

    def _held(self) -> list[str]:
        """Topics of which something may be nowhere else. To a broker that has lost everybody the
        rendezvous of all seems to be here, but those it has lost may come back."""
        is_cut_off = bool(self._lost) and not self.plane.table.known
        return self.topics.held(is_cut_off=is_cut_off)

    def _count_left_behind(self, event: LeaveEnded, now: float) -> None:
        """The broker leaves: count what it has not handed over as lost."""
        logs = self._routing.logs
        lost = sum(len(logs[topic].kept) for topic in self._held())
        self._services.counters.publications_lost_at_most += lost

    def excuse(self, seconds: float) -> None:
        """As `OverlayRepair.excuse`: others may have closed the ring without this broker."""
        self.links.excuse(seconds)
        self.spare.restored()
        self._routing.excuse(seconds)
        self.topics.excuse(seconds)
        self.absences.excuse(seconds)
        self.gaps.excuse(seconds)
        for plane in self.planes.values():
            plane.chord.excuse()
            plane.trees.excuse(seconds)
        self.remapping.excuse(seconds)
        self.deadline = self._planes_at = 0.0

    def restored(self, incarnation: int, away_s: float, now: float) -> None:
        """As `OverlayRepair.restored`; here sessions alone tell one incarnation from another."""
        self.excuse(away_s)
        self.links.restored(now)
        self.absences.restored(now)
        for plane in self.planes.values():
            plane.table.is_leaving = False
        self.remapping.restored()
        self.placing.restored()
        self._leaving_at = None
        self._services.sessions.closed_reason = ""
        self._cleanup_at = now + TIDY_EVERY_S

    # --- looking around --------------------------------------------------------------------

    def on_deadline(self, now: float) -> None:
        """Update links, ring, trees and interests. O(topics + links)."""
        if now < self.deadline:
            return
        self.deadline = now + self._topics.look_every_s
        self._checked_at = self._routing.now = now
        self._check_links(now)
        self.gaps.check(now)
        self.placing.check(now)
        self.confirmations.check()
        if now < self._planes_at:
            return
        self._planes_at = now + self._config.retry_s
        self.clusters.check(now)
        offered = self.topics.offered(now)
        subscribed = self.subscribed
        self.absences.check(subscribed, now)
        for plane in self.planes.values():
            self._check_plane(plane, subscribed, offered, now)
        self.remapping.check(subscribed, offered, now)
        # Two that joined by one that sleeps know each other, and nobody who stays.
        is_alone = self.links.has_strangers or not self.plane.table.known
        self.topics.check(now, is_alone=is_alone)
        if now >= self._cleanup_at:
            self._cleanup_at = now + TIDY_EVERY_S
            self.topics.clean_up(now, has_strangers=self.links.has_strangers)

    def _check_plane(
        self,
        plane: ControlPlane,
        subscribed: Collection[str],
        offered: Collection[str],
        now: float,
    ) -> None:
        if plane.is_active:
            plane.chord.check(now)
            for broker in plane.table.needed():
                if broker not in self.links.links:
                    self.links.open(broker, now)
        if plane.is_live:
            plane.trees.check(now, subscribed, offered)

    def _is_reached(self, topic: str) -> bool:
        """Whether this broker has joined a topic's tree, and who is above it there sends it all."""
        place = self.plane.trees.places.get(topic)
        if place is None or not place.is_joined:
            return False
        link = self._services.sessions.links.get(place.above or "")
        return place.is_root or (link is not None and self._routing.is_opened(link, topic))

    def is_lost(self, broker: BrokerId) -> bool:
        """Whether a link with a broker is lost."""
        link = self.links.links.get(broker)
        return link is not None and link.lost_at is not None

    def _check_links(self, now: float) -> None:
        self.spare.check(now)
        self.links.check(now)
        lost = {broker for broker, link in self.links.links.items() if link.lost_at is not None}
        # One that was lost may have said that it is there, and be gone again before this look.
        counted_on = [plane.table for plane in self.planes.values()]
        for broker in sorted(lost):
            if broker not in self._lost or any(broker in table.brokers for table in counted_on):
                self._lose(broker, now)
        self._lost = lost

    def answer(self, verb: str, argument: str, now: float) -> Any:
        return self.overview() if verb == TOPICS_SUBJECT else None

    def overview(self) -> RendezvousStatus:
        gateways = sorted(self.clusters.gateways)
        return rendezvous_status(self.plane, self.planes, self._routing, gateways, self._checked_at)
