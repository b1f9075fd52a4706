"""User placement at a live broker (DYNATOPS section 4, Algorithm 1): users go where they fit.

Brokers of a placement cluster tell each other, once per T_update, which topics they want and how
many subscriptions they have. When a client has changed its subscriptions its broker works out the
utility Sim - w_l L of every broker it knows of, its own without the client, and sends the client to
the best one if that is better than to stay. L is the share of the cluster's subscriptions: a broker
knows of no others.

The client is asked first whether it can reach the other broker. Then it is told to go, and this
broker forgets it. At the other one it says again what it wants and what it published lately, and
gets what is kept of its topics, as any client whose broker is gone (`topic_routing.returning`): so
nothing is lost, and what comes twice is dropped by publisher, topic and sequence.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from pubweave.core.chord_upkeep import Tell
from pubweave.core.effects import Transmit
from pubweave.core.rendezvous_routing import RendezvousRouting
from pubweave.core.session import Session
from pubweave.core.topic_inside import TopicInside
from pubweave.model.ids import BrokerId, ClientId
from pubweave.model.messages import Hello
from pubweave.model.migration_messages import Redirect, RedirectReply
from pubweave.model.rendezvous_messages import PlacementTold

TOKEN_MARK = "place:"
"""Tokens of redirections begin so: whoever comes with one has just been placed."""
ANSWER_LIMIT_S = 5.0
"""A client that does not say whether it can reach a broker stays."""


class Host(NamedTuple):
    """What counts of a broker as a home for users."""

    topics: frozenset[str]
    subscriptions: int


@dataclass
class _Offer:
    client: Session
    broker: BrokerId
    topics: frozenset[str]
    until: float


def utility(wanted: frozenset[str], host: Host, every: int, load_weight: float) -> float:
    """Sim - w_l L of a user and a broker, of ``every`` subscriptions in all.

    >>> utility(frozenset({"x", "y"}), Host(frozenset({"x", "z"}), 1), 4, 1.0)
    0.25
    """
    similarity = len(wanted & host.topics) / len(wanted) if wanted else 0.0
    return similarity - load_weight * (host.subscriptions / every if every else 0.0)


def best_host(
    wanted: frozenset[str],
    own: BrokerId,
    hosts: Mapping[BrokerId, Host],
    load_weight: float,
    least_gain: float = 0.0,
) -> BrokerId:
    """Where a user belongs who is at ``own``: there, unless another one has more utility. Of equal
    ones the least loaded, then the first by name. O(hosts x topics of the user).

    >>> hosts = {"b1": Host(frozenset("x"), 3), "b2": Host(frozenset("xy"), 3)}
    >>> best_host(frozenset("xy"), "b1", hosts, 1.0), best_host(frozenset("x"), "b1", hosts, 1.0)
    ('b2', 'b1')
    """
    every = sum(host.subscriptions for host in hosts.values())
    worth = {b: utility(wanted, host, every, load_weight) for b, host in hosts.items()}
    best = min(hosts, key=lambda b: (-worth[b], hosts[b].subscriptions, b))
    return best if worth[best] > worth[own] + least_gain else own


class UserPlacing:
    """One broker's part: what it knows of its cluster, and clients it may send elsewhere."""

    def __init__(
        self, inside: TopicInside, routing: RendezvousRouting, tell: Tell, now: float
    ) -> None:
        self._inside = inside
        self._routing = routing
        self._tell_neighbor = tell
        self._config = inside.config.placement
        self._id = inside.config.id
        self.hosts: dict[BrokerId, Host] = {}
        """Others of the cluster, as they said last and with those whom we have sent there since."""
        self._addresses: dict[BrokerId, str] = {}
        self._due: dict[Session, None] = {}
        """Clients that want something else than before."""
        self._offers: dict[str, _Offer] = {}
        self._resting: dict[ClientId, float] = {}
        self._numbers = 0
        self._tell_at = now
        self.sent = 0
        """How many users were sent to other brokers."""
        self.is_open = True
        """Whether others may send users here."""
        if self._config.members:
            routing.on_wishes = self._changed

    # --- what is told ----------------------------------------------------------------------

    def _tell_one(self, member: BrokerId) -> None:
        routing, address = self._routing, self._inside.sessions.address
        told = PlacementTold(
            tuple(routing.subscribed), len(routing.subscriptions), address, self.is_open
        )
        self._tell_neighbor(member, told)

    def _tell_all(self) -> None:
        for member in self._config.members:
            self._tell_one(member)

    def link_began(self, neighbor: BrokerId) -> None:
        if neighbor in self._config.members:
            self._tell_one(neighbor)

    def leave(self) -> None:
        """This broker is to go: nobody is to be sent here."""
        self.is_open = False
        self._tell_all()

    def came_back(self) -> None:
        """This broker was away: what was asked is forgotten, and it is open again."""
        self.is_open = True
        self._offers.clear()
        self._tell_at = 0.0

    def take(self, member: BrokerId, told: PlacementTold) -> None:
        if told.is_open and told.address:
            self.hosts[member] = Host(frozenset(told.topics), told.subscriptions)
            self._addresses[member] = told.address
        else:
            self.lost(member)

    def lost(self, broker: BrokerId) -> None:
        self.hosts.pop(broker, None)

    # --- who goes where --------------------------------------------------------------------

    def _changed(self, client: Session) -> None:
        """A client has subscribed or unsubscribed."""
        if client.can_move:
            self._due[client] = None

    def greeted(self, hello: Hello, now: float) -> None:
        """A client that comes because it was sent here is left alone for a while."""
        if hello.token.startswith(TOKEN_MARK):
            self._resting[hello.id] = now + self._config.rest_s

    def look(self, now: float) -> None:
        """Tell, when it is time, and place whoever is due. O(due x cluster x topics of one)."""
        if not self._config.members:
            return
        if now >= self._tell_at:
            self._tell_at = now + self._config.update_s
            self._tell_all()
        for token in [t for t, offer in self._offers.items() if offer.until < now]:
            del self._offers[token]
        for name in [name for name, until in self._resting.items() if until < now]:
            del self._resting[name]
        for client in list(self._due):
            if self._inside.sessions.clients.get(client.remote) is not client:
                del self._due[client]
            elif client.remote not in self._resting and client.is_established:
                del self._due[client]
                self._place(client, now)

    def _place(self, client: Session, now: float) -> None:
        wanted = self._topics_of(client)
        if not wanted or any(offer.client is client for offer in self._offers.values()):
            return
        hosts = {self._id: self._without(client), **self.hosts}
        rule = self._config.load_weight, self._config.least_gain
        best = best_host(wanted, self._id, hosts, *rule)
        if best == self._id or client.connection is None:
            return
        self._numbers += 1
        token = f"{TOKEN_MARK}{self._id}:{client.own_epoch}:{self._numbers}"
        self._offers[token] = _Offer(client, best, wanted, now + ANSWER_LIMIT_S)
        self._redirect(client, token, best, is_final=False)

    def _topics_of(self, client: Session) -> frozenset[str]:
        claims = self._routing.subscriptions.values()
        return frozenset(claim.topic for claim in claims if claim.client is client)

    def _without(self, client: Session) -> Host:
        """This broker as a home, for a client that may not stay."""
        others = [c for c in self._routing.subscriptions.values() if c.client is not client]
        return Host(frozenset(claim.topic for claim in others), len(others))

    def _redirect(self, client: Session, token: str, broker: BrokerId, *, is_final: bool) -> None:
        redirect = Redirect(token, broker, self._addresses[broker], is_final, hops=1)
        assert client.connection is not None
        self._inside.emit(Transmit(client.connection, (redirect,)))

    def replied(self, client: Session, reply: RedirectReply, now: float) -> None:
        """A client says whether it can reach the broker that it was asked about."""
        offer = self._offers.pop(reply.token, None)
        if offer is None or offer.client is not client or client.connection is None:
            return
        host = self.hosts.get(offer.broker)
        if reply.problem or host is None:
            self._resting[client.remote] = now + self._config.rest_s
            return
        self.sent += 1
        load = host.subscriptions + len(offer.topics)
        self.hosts[offer.broker] = Host(host.topics | offer.topics, load)
        self._redirect(client, reply.token, offer.broker, is_final=True)
        self._inside.endings.expire(client, "it was sent to another broker", now, counted=False)
