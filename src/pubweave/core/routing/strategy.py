"""The interface that routing strategies implement.

A strategy decides where table messages and publications go; it knows nothing of connections,
sequence numbers, telemetry or time. The broker owns sessions and calls the strategy; the strategy
answers by calling ``send`` and by naming the sessions a publication goes to.

`tree.routing.TreeRouting` is the strategy of IPITT, CI and POP/GRAPE (content routing on a tree).
The topic-connected overlay of Shadows and the rendezvous ring of DYNATOPS are further classes of
this shape, registered in `STRATEGIES` of `strategies.py`. docs/ARCHITECTURE.md walks through
adding one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence

from pubweave.core.matching.index import MatchIndex
from pubweave.core.metering.counters import TableSizes
from pubweave.core.routing.publisher_gate import PublisherGate
from pubweave.core.session.session import Session
from pubweave.core.vocabulary.errors import RefusedError
from pubweave.model.filters.filter import Filter
from pubweave.model.ids import AdvertisementId, ClientId, publisher_of
from pubweave.model.messages.session import (
    Advertise,
    SequencedMessage,
    Subscribe,
    Synced,
    TableMessage,
)
from pubweave.model.publications import Publication, make_publication

Send = Callable[[Session, SequencedMessage], None]
"""Queues a message for a session; it is sent, in order, at the end of the current event."""


class ClientAdvertisements:
    """The advertisements of local clients, and whether a publication is covered by them."""

    def __init__(self) -> None:
        # An index per client: every publication of a client is held against its own.
        self._allowed: dict[Session, MatchIndex[Session]] = {}
        self._ids: dict[Session, dict[AdvertisementId, None]] = {}

    def add(self, client: Session, id_: AdvertisementId, filter_: Filter) -> None:
        self._ids.setdefault(client, {})[id_] = None
        self._allowed.setdefault(client, MatchIndex()).add(id_, filter_, client)

    def remove(self, client: Session, id_: AdvertisementId) -> None:
        """Has no effect if the client has no such advertisement."""
        ids = self._ids.get(client, {})
        if id_ in ids:
            del ids[id_]
            self._allowed[client].remove(id_)

    def discard(self, client: Session) -> list[AdvertisementId]:
        """A client has left; returns its advertisements."""
        self._allowed.pop(client, None)
        return list(self._ids.pop(client, {}))

    def may_publish(self, publication: Publication, client: Session) -> bool:
        allowed = self._allowed.get(client)
        return allowed is not None and bool(allowed.match(publication))

    def may_publish_topic(self, topic: str, client: Session) -> bool:
        """Whether everything on a topic is advertised, whatever its attributes."""
        allowed = self._allowed.get(client)
        if allowed is None or not allowed.is_topic_only(topic):
            return False
        # Without attributes only a filter on nothing but the topic matches.
        return bool(allowed.match(make_publication(client.remote, 0, topic, {}, b"", 0.0)))


class RoutingStrategy(ABC):
    """What a broker asks of a routing strategy. Every method runs to its end at once.

    ``hop`` is the session a message came from: a neighbor's, or a local client's
    (``hop.is_client``). What is not abstract has a default that suits a strategy which keeps its
    tables in step by `link_began` alone and never makes anybody wait.
    """

    protocol: str
    """The protocol of the strategy; neighbors with another one are refused at Hello."""
    replays = False
    """Whether a client that moves to another broker is sent there what it has missed."""
    routes_whole_topics = False
    """Whether a subscription needs a topic, and publications are routed by nothing else."""
    confirms = False
    """Whether the strategy itself tells clients (`Confirmed`) when a subscription is in place
    everywhere. If not, their broker says so as soon as it has it, which is as much as a strategy
    promises that routes to every broker, and too early for one that does not."""
    keeps_early = False
    """Whether clients and links that come soon after the start get what was published before
    them, as far as `is_wanted_by` says so."""

    def __init__(self, send: Send) -> None:
        self._send = send
        self.own = ClientAdvertisements()
        self.gate = PublisherGate()
        """Where returning publishers wait; it stays open unless `client_greeted` shuts it."""

    # --- links -----------------------------------------------------------------------------

    @abstractmethod
    def link_added(self, link: Session) -> None:
        """A neighbor was added to the topology; its session may not be established yet."""

    @abstractmethod
    def link_removed(self, link: Session) -> None:
        """A neighbor was removed from the topology: withdraw all entries from it."""

    @abstractmethod
    def link_began(self, link: Session, under_way: Sequence[SequencedMessage] = ()) -> None:
        """The link's session began anew: tell the neighbor what it must know of our tables, then
        send again what of ``under_way`` is still its concern.

        What we still hold from it is stale until it is told again."""

    def forget_stale(self, link: Session) -> bool:
        """The neighbor has had its time to tell everything again: drop what is still stale.
        Whether it has to be looked at again after as long: it waits for us."""
        return False

    def has_stale(self, link: Session) -> bool:
        """Whether the neighbor has not sent all of its tables yet."""
        return False

    def is_held(self, link: Session) -> bool:
        """Whether a part of the broker holds a link: nothing is sent to it for now."""
        return False

    def open_full_gates(self) -> int:
        """Release what is queued at congested stand-ins of links; how many publications may be lost
        by that."""
        return 0

    def give_up(self, link: Session, now: float) -> bool:
        """A link is congested. True if its queue is to be dropped instead of holding others up: its
        far end was never there for long, and nothing is known of its interests."""
        return False

    # --- clients ---------------------------------------------------------------------------

    def client_greeted(self, client: Session, *, is_returning: bool) -> None:
        """A client has connected. ``is_returning``: it had a session that is not known here."""
        return

    @abstractmethod
    def client_left(self, client: Session) -> None:
        """A client's session has ended: withdraw its advertisements and subscriptions."""

    @abstractmethod
    def client_entries(self) -> Iterator[tuple[Session, Advertise | Subscribe]]:
        """All advertisements and subscriptions of local clients. O(entries)."""

    @abstractmethod
    def receive(self, hop: Session, message: TableMessage | Synced) -> None:
        """A table message arrived from ``hop``. RefusedError for a client's bad request."""

    # --- publications ----------------------------------------------------------------------

    @abstractmethod
    def route(self, publication: Publication, origin: Session) -> tuple[Session, ...]:
        """The sessions a publication from ``origin`` goes to, each once."""

    def is_topic_only(self, topic: str) -> bool:
        """Whether `route` depends on nothing but topic and origin, until `version` changes."""
        return False

    @property
    def version(self) -> int:
        """Grows with every change that can alter what `route` answers."""
        return 0

    def is_wanted_by(self, client: Session, publication: Publication) -> bool:
        """Whether a publication matches a subscription of a local client."""
        return False

    def may_publish(self, publication: Publication, client: Session) -> bool:
        """Whether a client's publication is one that it advertised."""
        return self.own.may_publish(publication, client)

    def may_publish_topic(self, topic: str, client: Session) -> bool:
        """Whether a client advertised everything on this topic, whatever its attributes."""
        return self.own.may_publish_topic(topic, client)

    @abstractmethod
    def knows_publisher(self, publisher: ClientId) -> bool:
        """Whether publications of this publisher may still arrive.

        The broker forgets a publisher's last sequence, by which it drops duplicates, when this
        is False. Advertisements known here are what `TreeRouting` goes by."""

    @abstractmethod
    def sizes(self) -> TableSizes:
        """For status and load samples."""


def check_name(hop: Session, id_: str) -> None:
    """Ids of a client begin with its name, so that no client can take another's."""
    if hop.is_client and publisher_of(id_) != hop.remote:
        raise RefusedError(f"ids of client {hop.remote!r} must start with '{hop.remote}:'")


def check_owner(hop: Session, known: Session, id_: str) -> None:
    """What came from ``known`` is a client's at ``hop`` only if it is of this very incarnation: one
    that was to move, and came back because neither broker of the move remembers it."""
    if not hop.is_client or known is hop:
        return
    if known.is_client or not id_.startswith(f"{hop.remote}:{hop.remote_epoch:x}."):
        raise RefusedError(f"{id_!r} belongs to another client")
