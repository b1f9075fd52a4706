"""The broker's hot path: from a received publication to the queues of its destinations.

Decides three things: whether a publication is new (deduplication by publisher and sequence),
whether a client may publish it, and, by the strategy or the route cache, where it goes. Sessions
are used as queues only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec.structs import replace

from pubweave.core.dataplane.outgoing import OutgoingQueue
from pubweave.core.dataplane.sequences import PublisherSequences
from pubweave.core.metering.counters import Counters
from pubweave.core.metering.recorder import BrokerMeter
from pubweave.core.routing.strategy import RoutingStrategy
from pubweave.core.session.access import Access
from pubweave.core.session.session import RemoteProtocolError, Session
from pubweave.model.ids import ClientId
from pubweave.model.messages.session import Message
from pubweave.model.publications import Publication, validate_publication_content

MAX_CACHED_ROUTES = 65_536
"""How many topics' routes are kept per session."""
MAX_SKIPPED = 10_000
"""Of how many publishers and topics it is kept that the last publication was refused."""

Routes = dict[str, tuple[Session, ...]]
"""The routes of one session's publications, by topic."""
OtherMessage = Callable[[Session, Message, float], None]
Accepted = Callable[[Session, Publication, float], None]


class RouteCache(dict[Session, Routes]):
    """The strategy's answers where only the topic decides them, by the session that a publication
    comes from. No snapshot has them: its indexes are built anew, with other versions."""


class RouteObserver(Protocol):
    """Observes routed publications and their routes."""

    def routed(
        self, publication: Publication, origin: Session, route: tuple[Session, ...]
    ) -> None: ...


class Tracer(Protocol):
    """Traces publications to learn their receivers (`relocation`)."""

    @property
    def is_tagging(self) -> bool: ...

    def tag(self, publication: Publication, now: float) -> Publication: ...

    def waited(self, seconds: float) -> None: ...

    def routed(
        self,
        publication: Publication,
        origin: Session,
        route: tuple[Session, ...],
        now: float,
    ) -> None: ...


class Publishing:
    """Routes batches of publications.

    ``touched`` collects the sessions with queued messages; the broker flushes them.
    """

    def __init__(
        self,
        routing: RoutingStrategy,
        counters: Counters,
        meter: BrokerMeter | None,
        outgoing: OutgoingQueue,
        access: Access,
        sequences: PublisherSequences,
        routes: RouteCache,
        *,
        early: EarlyLog | None,
        observer: RouteObserver | None,
        tracer: Tracer | None,
        on_accepted: Accepted | None,
    ) -> None:
        """``early`` keeps publications for a while after the start, ``observer`` sees what is
        routed, ``tracer`` marks publications, ``on_accepted`` is called with those of clients
        that were accepted, where they are to be copied."""
        self._routing = routing
        self._counters = counters
        self._meter = meter
        self._outgoing = outgoing
        self._touched = outgoing.touched
        self._access = access
        self._last_sequence = sequences.last
        self._early = early
        self._observer = observer
        self.tracer = tracer
        self._on_accepted = on_accepted
        self._routes = routes
        self._routes_version = -1
        self._skipped: dict[tuple[ClientId, str], int] = {}
        """By publisher and topic where the last publication was refused: the one before it."""

    def route_batch(
        self,
        origin: Session,
        messages: Sequence[Message],
        on_other: OtherMessage,
        received_at: float,
        now: float,
    ) -> Sequence[Message]:
        """Queue every publication of a batch for its destinations; O(publications x destinations).

        Other messages go to ``on_other``, in order. Returns what is left of the batch when one of
        them made its client wait.
        """
        routes: Routes | None = None
        touched = self._touched
        last_sequence = self._last_sequence
        skipped, tracer = self._skipped, self.tracer
        tags = origin.is_client and tracer is not None and tracer.is_tagging
        is_noted = self._meter is not None or self._observer is not None or self._early is not None
        previous: tuple[Session, ...] = ()
        received = routed = size_bytes = 0
        gate, rest = self._routing.gate, iter(messages)
        was_shut = gate.is_shut(origin)
        try:
            for message in rest:
                if type(message) is not Publication:
                    on_other(origin, message, now)
                    if not was_shut and gate.is_shut(origin):
                        break
                    routes = None  # tables may have changed
                    continue
                received += 1
                size_bytes += message.size_bytes
                if message.sequence <= last_sequence.get(message.publisher, 0):
                    self._counters.duplicates_dropped += 1
                    continue
                routes = routes or self._routes_of(origin)
                route = routes.get(message.topic)
                if route is None:
                    route = self._route(message, origin, routes)
                    if route is None:
                        continue
                elif origin.is_client and not self._is_sound(origin, message):
                    continue
                routed += 1
                last_sequence[message.publisher] = message.sequence
                if tags or (skipped and origin.is_client):
                    message = self._amended(message, tags, now)
                if route is not previous:
                    touched.update(dict.fromkeys(route))
                    previous = route
                for destination in route:
                    destination.pending.append(message)
                if is_noted or message.trace:
                    self._note(message, origin, route, received_at, now)
        finally:
            self._count(origin, received, routed, size_bytes)
        return tuple(rest)

    def _amended(self, message: Publication, tags: bool, now: float) -> Publication:
        """A client's publication as it travels on: marked if it ``tags``, and behind the last one
        that was accepted on its topic, not behind one that was refused."""
        previous = self._skipped.pop((message.publisher, message.topic), None)
        if previous is not None:
            message = replace(message, previous=previous, encoded=b"")
        if tags and self.tracer is not None:
            message = self.tracer.tag(message, now)
        return message

    def _note(
        self,
        message: Publication,
        origin: Session,
        route: tuple[Session, ...],
        received_at: float,
        now: float,
    ) -> None:
        """Report a routed publication to all observers."""
        if self._early is not None and not self._early.note(message, origin, now):
            self._early = None
        if self._meter is not None:
            self._meter.routed(message, origin, route, received_at, now)
        if self._observer is not None:
            self._observer.routed(message, origin, route)
        if message.trace and self.tracer is not None:
            self.tracer.waited(now - received_at)
            self.tracer.routed(message, origin, route, now)

    def _count(self, origin: Session, received: int, routed: int, size_bytes: int) -> None:
        origin.took_in(received, size_bytes)
        counters = self._counters
        counters.messages_in += received
        counters.bytes_in += size_bytes
        counters.publications_in += received
        if origin.is_client:
            counters.publications_accepted += routed

    # --- routes ----------------------------------------------------------------------------

    def _routes_of(self, origin: Session) -> Routes:
        """The cached answers for publications of a session, none of them outdated."""
        version = self._routing.version
        if version != self._routes_version:
            self._routes.clear()
            self._routes_version = version
        routes = self._routes.get(origin)
        if routes is None:
            routes = self._routes[origin] = {}
        return routes

    def _route(
        self, publication: Publication, origin: Session, routes: Routes
    ) -> tuple[Session, ...] | None:
        """Ask the strategy; cache its answer where only the topic decides it.

        None for a publication that its client was refused."""
        routing = self._routing
        if origin.is_client and not self._may_publish(origin, publication):
            return None
        route = routing.route(publication, origin)
        topic = publication.topic
        if routing.is_topic_only(topic) and (
            not origin.is_client or self._may_publish_topic(topic, origin)
        ):
            if len(routes) >= MAX_CACHED_ROUTES:
                routes.clear()
            routes[topic] = route
        return route

    def forget_routes(self, origin: Session) -> None:
        """What a session may publish has changed, or it is over."""
        self._routes.pop(origin, None)

    # --- checks ----------------------------------------------------------------------------

    def _may_publish(self, origin: Session, publication: Publication) -> bool:
        if not self._is_sound(origin, publication):
            return False
        if not self._routing.may_publish(publication, origin):
            reason = "it matches no advertisement of this client: advertise first"
        elif (
            (access := self._access).rules is None  # asked for every publication: without a call
            or access.may_publish(publication, origin)
        ):
            return True
        else:
            reason = access.why_not_publish(publication, origin)
        self._refuse(origin, publication, reason)
        return False

    def _may_publish_topic(self, topic: str, origin: Session) -> bool:
        if not self._access.may_publish_topic(topic, origin):
            return False
        return self._routing.may_publish_topic(topic, origin)

    def _is_sound(self, origin: Session, publication: Publication) -> bool:
        """Whether a client's publication is its own and valid; an invalid one is refused."""
        if publication.publisher != origin.remote:
            raise RemoteProtocolError(
                f"client {origin.remote!r} published under the name of {publication.publisher!r}"
            )
        if publication.trace:
            raise RemoteProtocolError(f"client {origin.remote!r} traces by itself")
        if publication.attributes or not publication.topic:
            try:
                validate_publication_content(publication.topic, publication.attributes)
            except ValueError as error:
                self._refuse(origin, publication, str(error))
                return False
        return True

    def _refuse(self, origin: Session, publication: Publication, reason: str) -> None:
        """Refuse a publication; RemoteProtocolError if that happened too often."""
        if len(self._skipped) >= MAX_SKIPPED:
            del self._skipped[next(iter(self._skipped))]
        key = publication.publisher, publication.topic
        self._skipped.setdefault(key, publication.previous)
        self._outgoing.refuse(origin, f"publication {publication.sequence}", reason)
        self._access.check_patience(origin)


# The publications since a broker was started, replayed to clients and links that connect later.
#
# A broker that was restarted without a journal does not know its clients, but its neighbors still
# send what these clients want. A client that reconnects and subscribes again gets what arrived
# before it; it drops duplicates. Links may connect later than clients, too: a broker with a store
# reads its links from there. The log is bounded in time and bytes.


EARLY_BYTES = 4 << 20


class EarlyLog:
    """The publications since a broker was started, until ``until``."""

    def __init__(self, until: float, is_wanted_by: Callable[[Session, Publication], bool]) -> None:
        self._until = until
        self._is_wanted_by = is_wanted_by
        self._kept: list[Publication] = []
        self._published: list[Publication] = []
        self._size_bytes = 0

    def note(self, publication: Publication, origin: Session, now: float) -> bool:
        """Keep a publication. Whether the log goes on: if not, nobody gets anything from it."""
        self._size_bytes += publication.size_bytes
        if now >= self._until or self._size_bytes > EARLY_BYTES:
            self._until = -math.inf
            self._kept, self._published = [], []
            return False
        self._kept.append(publication)
        if origin.is_client:
            self._published.append(publication)
        return True

    def is_over(self, now: float) -> bool:
        """Whether the log has ended: its time is over, or it has too many bytes."""
        return now >= self._until or self._size_bytes > EARLY_BYTES

    def excuse(self, seconds: float) -> None:
        """Extend the log's time by a local pause."""
        self._until += seconds

    def published(self) -> list[Publication]:
        """The publications of own clients, in order."""
        return self._published.copy()

    def replay(self, client: Session) -> list[Publication]:
        """The publications that match the subscriptions of a client, in order. O(kept)."""
        return [p for p in self._kept if self._is_wanted_by(client, p)]
