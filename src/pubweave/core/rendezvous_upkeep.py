"""A broker's part in a rendezvous overlay over time: links, ring, trees, and who wants what.

The ring and the trees (`rendezvous_plane`) say whom the broker has to be linked with and of whom
it wants which topic; here links are opened, wishes are told, and topics end that nobody needs. As
in every overlay that routes by topic, a link that is lost costs time and no publications: what a
broker has taken in it keeps for a while (`topic_log`), and whoever wants the topic next says what
it has got.

Nobody waits for a neighbor: only clients are held up by congested queues (`flow`), because links
of a ring close circles. A neighbor that is too far behind is cut off, and gets what is kept when
it comes back.
"""

from __future__ import annotations

from collections.abc import Collection

from pubweave.core.rendezvous_links import SpareLinks
from pubweave.core.rendezvous_plane import RendezvousPlane
from pubweave.core.rendezvous_remap import Remapping
from pubweave.core.rendezvous_report import rendezvous_status
from pubweave.core.rendezvous_routing import RendezvousRouting
from pubweave.core.session import RemoteProtocolError, Session
from pubweave.core.topic_inside import TopicInside
from pubweave.core.topic_link_watch import LinkWatch
from pubweave.design.dynatops.ring import key_of
from pubweave.model.ids import BrokerId
from pubweave.model.messages import Hello, Message, Role, SequencedMessage
from pubweave.model.rendezvous_messages import (
    ChordNeighbors,
    LinkUnused,
    Occupant,
    RendezvousMessage,
)
from pubweave.model.rendezvous_status import RendezvousStatus
from pubweave.model.topic_messages import BrokerRecord, TopicMessage

FIRST_VERSION = 1
TIDY_EVERY_S = 1.0
RETURNING_S = 10.0
"""A client that came from another broker has told its subscriptions again after so long."""


class RendezvousUpkeep:
    """One broker's planes, links and topics. ``routing`` is the `inside`'s, with its type."""

    def __init__(self, inside: TopicInside, routing: RendezvousRouting, now: float) -> None:
        self._inside = inside
        self._routing = routing
        self._topics = inside.config.topics
        self._config = inside.config.rendezvous
        self.id = inside.config.id
        self.links = LinkWatch(inside, self._address_of, lambda broker: 0)
        self.default = FIRST_VERSION
        """The version of the plane by which publications travel."""
        self.planes: dict[int, RendezvousPlane] = {}
        self.add_plane(FIRST_VERSION, self.first_position)
        self.remapping = Remapping(self, inside.emit)
        self._given: set[BrokerId] = set()
        """Neighbors that the driver named: these links stay."""
        self.spare = SpareLinks(
            self.links,
            inside.sessions,
            self._tell,
            self._is_used,
            self._on_link_closed,
            self._config.release_after_s,
        )
        self._lost: set[BrokerId] = set()
        self._published_at: dict[str, float] = {}
        """When clients could publish on a topic last."""
        self._fading: dict[str, float] = {}
        """Topics that nobody needs any more, since when."""
        self._leaving_at: float | None = None
        self._tidy_at = now + TIDY_EVERY_S
        self._looked_at = now
        self._planes_at = now
        """When ring and trees are looked at, if nothing happens before."""
        self.deadline = now
        routing.on_change = self._on_topics

    @property
    def first_position(self) -> int:
        """Where this broker is unless it is mapped elsewhere."""
        given = self._config.position
        return key_of(self.id) if given is None else given

    @property
    def plane(self) -> RendezvousPlane:
        return self.planes[self.default]

    @property
    def subscribed(self) -> Collection[str]:
        """Topics whose trees this broker is to be in."""
        return () if self._leaving_at is not None else self._routing.subscribed

    def add_plane(self, version: int, position: int) -> RendezvousPlane:
        """Begin another version, with this broker at a position."""
        plane = self.planes[version] = RendezvousPlane(
            version,
            self._occupant(position),
            self._config,
            tell=self._tell,
            is_lost=self.is_lost,
            linked=self.linked,
            askers=self._routing.askers,
        )
        plane.chord.is_default = version == self.default
        return plane

    def _occupant(self, position: int) -> Occupant:
        return Occupant(position, self.id, self._inside.sessions.address)

    # --- neighbors -------------------------------------------------------------------------

    def _tell(self, neighbor: BrokerId, message: SequencedMessage) -> None:
        session = self._inside.sessions.links.get(neighbor)
        if session is not None and session.remote_epoch:
            self._inside.send(session, message)

    def linked(self) -> list[BrokerId]:
        """Neighbors with a link that stands."""
        sessions = self._inside.sessions.links
        return [n for n, link in sessions.items() if link.is_established and not self.is_lost(n)]

    def _address_of(self, broker: BrokerId) -> str:
        for plane in self.planes.values():
            occupant = plane.table.get(broker)
            if occupant is not None:
                return occupant.address
        return ""

    def link_added(self, neighbor: BrokerId, now: float) -> None:
        self._given.add(neighbor)
        self.links.added(neighbor, now)
        self.hurry(now)

    def link_removed(self, neighbor: BrokerId, now: float) -> None:
        """An operator takes a link away; the ring may open it again."""
        self._given.discard(neighbor)
        if neighbor in self.links.links:
            self.links.forget(neighbor, now)
            self._lose(neighbor, now)

    def greeted(self, hello: Message, now: float) -> None:
        """A broker that is no neighbor yet, and speaks as we do, may become one by saying so; a
        client that comes from another broker gets what it may have missed."""
        if not isinstance(hello, Hello):
            return
        if hello.role is Role.CLIENT:
            session = self._inside.sessions.clients.get(hello.id)
            if hello.remote_epoch and (session is None or not session.continues(hello)):
                self._routing.returning[hello.id] = now
        elif hello.routing == self._routing.protocol and hello.id not in (
            self.id,
            *self._inside.sessions.links,
        ):
            self.links.accept(hello.id, now)

    def link_began(self, link: Session, now: float) -> None:
        """A neighbor knows nothing of us, or another one did."""
        for plane in self.planes.values():
            plane.table.own = self._occupant(plane.table.own.position)
            if plane.is_active:
                plane.chord.greet(link.remote)
        self.hurry(now)

    def _lose(self, neighbor: BrokerId, now: float) -> None:
        for plane in self.planes.values():
            plane.lost(neighbor, now)
        self.hurry(now)

    def _is_used(self, neighbor: BrokerId) -> bool:
        """Whether this end needs a link: by ring or tree, or to find others."""
        session = self._inside.sessions.links.get(neighbor)
        return (
            neighbor in self._given
            or any(neighbor in plane.table.needed() for plane in self.planes.values())
            or self.remapping.is_under_way
            or session is None
            or bool(self._routing.asked.get(session) or self._routing.wanted.get(session))
        )

    def _on_link_closed(self, neighbor: BrokerId) -> None:
        for plane in self.planes.values():
            plane.chord.met.discard(neighbor)

    # --- what happens ----------------------------------------------------------------------

    def _on_topics(self) -> None:
        self.deadline = self._planes_at = 0.0

    def hurry(self, now: float) -> None:
        """Something happened: look soon."""
        soon = now + self._topics.settle_s
        self.deadline = min(self.deadline, soon)
        self._planes_at = min(self._planes_at, soon)

    def take(self, link: Session, message: TopicMessage | RendezvousMessage, now: float) -> None:
        if isinstance(message, BrokerRecord):
            raise RemoteProtocolError("BrokerRecord is not for rendezvous brokers")
        if isinstance(message, TopicMessage):
            self._routing.take_wanted(link, message)
            return
        if isinstance(message, LinkUnused):
            self.spare.take(link.remote, now)
            return
        if isinstance(message, ChordNeighbors):
            self._catch_up(message, now)
        plane = self.planes.get(message.version)
        if plane is not None and plane.is_active:
            plane.take(link.remote, message, now)
            self.hurry(now)

    def _catch_up(self, message: ChordNeighbors, now: float) -> None:
        """Others have gone over to a version that we have not: it was agreed, so we follow."""
        if message.is_default and message.version > self.default:
            if message.version not in self.planes:
                self.add_plane(message.version, self.first_position)
            self.switch(message.version, now)

    def switch(self, version: int, now: float) -> None:
        """From here on this version is the one that counts; older ones are over."""
        self.default = version
        for older in [number for number in self.planes if number < version]:
            del self.planes[older]
        self.plane.is_active = self.plane.is_live = self.plane.chord.is_default = True
        for neighbor in self.linked():
            self.plane.chord.greet(neighbor)
        self.hurry(now)

    def leave(self, now: float) -> None:
        """This broker is to go: `may_go` says when."""
        if self._leaving_at is None:
            self._leaving_at = now
            self._inside.sessions.closed_reason = f"broker {self.id!r} leaves the overlay"
            for plane in self.planes.values():
                plane.chord.leave()
            self.deadline = self._planes_at = now

    def may_go(self, now: float) -> bool:
        """Whether everybody can do without this broker, and has what it had to send."""
        if self._leaving_at is None or now - self._leaving_at < 4 * self._topics.settle_s:
            return False
        if now - self._leaving_at > self._topics.linger_s + self._topics.hand_over_s:
            return True
        links = self._inside.sessions.links.values()
        if any(link.queue_messages or link.pending for link in links):
            return False
        kept = [t for t in self._routing.topics if self._routing.logs[t].kept]
        return all(self._is_handed_on(topic) for topic in kept)

    def _is_handed_on(self, topic: str) -> bool:
        """Whether the next hop to the rendezvous gets what is kept of a topic, or it is here."""
        for plane in self._live:
            place = plane.trees.places.get(topic)
            hop = plane.table.next_hop(key_of(topic) if place is None else place.key)
            if hop is not None and hop.broker not in self._routing.askers(topic):
                return False
        return True

    # --- looking around --------------------------------------------------------------------

    def look(self, now: float) -> None:
        """Bring links, ring, trees and wishes up to date. O(topics + links)."""
        self.deadline = now + self._topics.look_every_s
        self._looked_at = now
        self._look_at_links(now)
        if now < self._planes_at:
            return
        self._planes_at = now + self._config.retry_s
        offered = self._offered(now)
        subscribed = self.subscribed
        for plane in self.planes.values():
            self._look_at_plane(plane, subscribed, offered, now)
        self.remapping.look(subscribed, offered, now)
        self._end_topics(now)
        self._ask_for_topics()
        if now >= self._tidy_at:
            self._tidy_at = now + TIDY_EVERY_S
            self._tidy(now)

    def _look_at_plane(
        self,
        plane: RendezvousPlane,
        subscribed: Collection[str],
        offered: Collection[str],
        now: float,
    ) -> None:
        if plane.is_active:
            plane.chord.look(now)
            for broker in plane.table.needed():
                if broker not in self.links.links:
                    self.links.open(broker, now)
        if plane.is_live:
            plane.trees.look(now, subscribed, offered)

    @property
    def _live(self) -> list[RendezvousPlane]:
        return [plane for plane in self.planes.values() if plane.is_live]

    def is_lost(self, broker: BrokerId) -> bool:
        """Whether a link with a broker is lost."""
        link = self.links.links.get(broker)
        return link is not None and link.is_lost

    def _look_at_links(self, now: float) -> None:
        self.spare.look(now)
        self.links.look(now)
        lost = {broker for broker, link in self.links.links.items() if link.is_lost}
        for broker in lost - self._lost:
            self._lose(broker, now)
        self._lost = lost

    def _offered(self, now: float) -> dict[str, None]:
        """Topics that have to go to their rendezvous from here: clients publish on them, or
        something is kept of them that may be nowhere else."""
        routing = self._routing
        self._published_at.update(
            dict.fromkeys((*routing.advertised, *routing.published_lately), now)
        )
        routing.published_lately.clear()
        for topic, at in list(self._published_at.items()):
            is_over = now - at > self._topics.linger_s and self._is_handed_on(topic)
            if topic not in routing.topics or is_over:
                del self._published_at[topic]
        kept = [topic for topic in self._fading if routing.logs[topic].kept]
        return dict.fromkeys([*self._published_at, *kept])

    def _needed(self, topic: str) -> bool:
        return topic in self._routing.claimed or any(
            place.targets or place.sources
            for plane in self._live
            if (place := plane.trees.places.get(topic)) is not None
        )

    def _end_topics(self, now: float) -> None:
        """Take part in what is needed here; what is not ends when others have what is kept."""
        routing = self._routing
        for plane in self._live:
            for topic, place in plane.trees.places.items():
                if place.targets or place.sources:
                    routing.begin(topic)
        for topic in list(routing.topics):
            if self._needed(topic):
                self._fading.pop(topic, None)
                continue
            age_s = now - self._fading.setdefault(topic, now)
            is_over = age_s >= self._topics.linger_s and self._is_handed_on(topic)
            if not routing.logs[topic].kept:
                self._end(topic)
            elif not self.plane.table.known:
                pass  # others may be found yet: it is kept as long as anything is
            elif is_over:
                self._end(topic)
            elif age_s > self._topics.linger_s + self._topics.hand_over_s:
                self._inside.counters.publications_lost += len(routing.logs[topic].kept)
                self._end(topic)

    def _end(self, topic: str) -> None:
        self._routing.end(topic)
        del self._fading[topic]

    def _ask_for_topics(self) -> None:
        """Tell neighbors what we want of them, and what no longer."""
        routing = self._routing
        wanted: dict[BrokerId, dict[str, None]] = {}
        for topic in routing.topics:
            for plane in self._live:
                for broker in plane.trees.wanted_from(topic):
                    wanted.setdefault(broker, {})[topic] = None
        for name, link in self._inside.sessions.links.items():
            now_wanted = wanted.get(name, {})
            for topic in now_wanted:
                routing.ask(link, topic, wants=True)
            for topic in [t for t in routing.asked.get(link, ()) if t not in now_wanted]:
                routing.ask(link, topic, wants=False)

    def is_fed(self, plane: RendezvousPlane) -> bool:
        """Whether all whom a version wants topics of have said that they send them."""
        links = self._inside.sessions.links
        return all(
            broker in links and self._routing.is_opened(links[broker], topic)
            for topic in plane.trees.places
            for broker in plane.trees.wanted_from(topic)
        )

    def _tidy(self, now: float) -> None:
        """Forget what is old; whatever nobody wanted meanwhile counts as lost."""
        topics = self._topics
        went = self._routing.logs.tidy(now, topics.keep_s, topics.keep_bytes)
        for topic, times in went.items():
            if not self._is_handed_on(topic):
                self._inside.counters.publications_lost += len(times)
        returning = self._routing.returning
        for name in [name for name, at in returning.items() if now - at > RETURNING_S]:
            del returning[name]
        for client in list(self._inside.sessions.clients.values()):
            if client.queue_bytes > topics.queue_limit_bytes:
                self._inside.endings.expire(client, "too slow: its queue is full", now)

    def status(self) -> RendezvousStatus:
        return rendezvous_status(self.plane, self.planes, self._routing, self._looked_at)
