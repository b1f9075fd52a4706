"""User placement at a live broker (DYNATOPS section 4, Algorithm 1): users go where they fit.

Brokers of a placement cluster tell each other, once per T_update, which topics they want for how
many subscriptions (`rendezvous/placement_gossip`). When a client has changed its subscriptions its
broker works out the utility of every broker it knows of, its own without the client
(`placement_utility`), and sends the client to the best one if that is better than to stay.

The client is asked first whether it can reach the other broker. Then it is told to go, and this
broker forgets it. At the other one it says again what it wants and what it published lately, and
gets what is kept of its topics, as any client whose broker is gone
(`topic_connected/absent_brokers`): so nothing is lost, and what comes twice is dropped by
publisher, topic and sequence.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from pubweave.core.dataplane.services import BrokerServices
from pubweave.core.routing.rendezvous.chord import SendToBroker
from pubweave.core.routing.rendezvous.placement_gossip import PlacementGossip
from pubweave.core.routing.rendezvous.placement_utility import Host, best_host
from pubweave.core.routing.rendezvous.routing import RendezvousRouting
from pubweave.core.session.session import Session
from pubweave.core.session.tokens import is_same, tag_of
from pubweave.core.vocabulary.effects import Transmit
from pubweave.design.dynatops.placement_rule import senders
from pubweave.model.ids import BrokerId, ClientId
from pubweave.model.messages.migration import Redirect, RedirectReply
from pubweave.model.messages.rendezvous import PlacementDigest, PlacementTold
from pubweave.model.messages.session import Hello

TOKEN_MARK = "place:"
"""Prefix of redirection tokens: a client that shows one has just been placed."""
ANSWER_LIMIT_S = 5.0
"""A client that does not say whether it can reach a broker stays."""


@dataclass
class _Offer:
    client: Session
    broker: BrokerId
    topics: frozenset[str]
    until: float


class UserPlacing:
    """User placement of one broker: its cluster, and clients that it may redirect."""

    def __init__(
        self,
        services: BrokerServices[RendezvousRouting],
        send: SendToBroker,
        linked: Callable[[], list[BrokerId]],
        now: float,
    ) -> None:
        self._services = services
        self._routing = routing = services.routing
        self._config = services.config.placement
        self._id = services.config.id
        self._key = services.sessions.tokens.tag("placement")
        """Known to the cluster, which signs the tokens of clients redirected here with it."""
        self.gossip = PlacementGossip(self._id, self._config, send, linked, self._announced, now)
        self._heard: dict[BrokerId, PlacementTold] = {}
        self.hosts: dict[BrokerId, Host] = {}
        """Other members of the cluster by their last news, plus clients redirected there since."""
        self._due: dict[Session, None] = {}
        """Clients whose subscriptions have changed."""
        self._offers: dict[str, _Offer] = {}
        self._held_until: dict[ClientId, float] = {}
        self._placed: dict[ClientId, frozenset[str] | None] = {}
        """What clients wanted when they were placed here; None: all that they want at first."""
        self._cleanup_at = now
        self._numbers = 0
        self.sent = 0
        """How many users were redirected to other brokers."""
        self.is_open = True
        """Whether other brokers may redirect users here."""
        if self._config.members:
            routing.on_wishes = self._changed

    def was_redirected_here(self, hello: Hello) -> bool:
        """Whether one of the cluster sent a client here. Others may not know yet that this broker
        leaves: whom they send is sent on from here."""
        text, _, tag = hello.token.rpartition(":")
        is_token = bool(self._config.members) and text.startswith(TOKEN_MARK)
        return is_token and is_same(tag, _tag(self._key, hello.id, text))

    # --- what is told ----------------------------------------------------------------------

    def _announced(self) -> PlacementTold:
        routing, address = self._routing, self._services.sessions.address
        topics, users = tuple(routing.subscribed), tuple(routing.subscribed.values())
        is_open = self.is_open and bool(address)
        return PlacementTold(topics, len(routing.subscriptions), address, is_open, users, self._key)

    def _receive(self) -> None:
        """Take over new news of members; clients that we redirected still count there."""
        known = self.gossip.known
        for name in self.hosts.keys() - known.keys():
            del self.hosts[name], self._heard[name]
        for name, announced in known.items():
            if self._heard.get(name) is not announced:
                self._heard[name] = announced
                users = announced.users or (1,) * len(announced.topics)
                self.hosts[name] = Host(
                    dict(zip(announced.topics, users, strict=False)), announced.subscriptions
                )

    def leave(self) -> None:
        """This broker is to leave: accept no more users, and redirect those that are here."""
        self.is_open = False
        self.gossip.check_soon()
        self._clean_up()

    def _clean_up(self) -> None:
        """Discard clients that have left; those of a leaving broker stay due until then."""
        clients, resting = self._services.sessions.clients, self._held_until
        self._placed = {n: t for n, t in self._placed.items() if n in clients or n in resting}
        if not self.is_open:
            for client in clients.values():
                self._changed(client)

    def restored(self) -> None:
        """This broker was restored: drop open offers, and accept users again."""
        self.is_open = True
        self._offers.clear()
        self.gossip.restored()

    def receive(self, member: BrokerId, digest: PlacementDigest, now: float) -> None:
        self.gossip.receive(member, digest, now)
        self._receive()

    def lost(self, broker: BrokerId) -> None:
        self.gossip.lost(broker)
        self._receive()

    # --- who goes where --------------------------------------------------------------------

    def _changed(self, client: Session) -> None:
        """A client has subscribed or unsubscribed."""
        if client.can_move:
            self._due[client] = None

    def greeted(self, hello: Hello, now: float) -> None:
        """A client that was redirected here is not redirected again for a while."""
        if self.was_redirected_here(hello):
            self._held_until[hello.id] = now + self._config.rest_s
            self._placed[hello.id] = None

    def check(self, now: float) -> None:
        """Send news when due, and place clients that are due. O(due x cluster x topics of one)."""
        if not self._config.members:
            return
        self.gossip.check(now)
        self._receive()
        if now >= self._cleanup_at:
            self._cleanup_at = now + self._config.update_s
            self._clean_up()
        for token in [t for t, offer in self._offers.items() if offer.until < now]:
            del self._offers[token]
        for name in [name for name, until in self._held_until.items() if until < now]:
            del self._held_until[name]
        for client in list(self._due):
            if self._services.sessions.clients.get(client.remote) is not client:
                del self._due[client]
            elif client.remote not in self._held_until and client.is_established:
                del self._due[client]
                self._place(client, now)

    def _place(self, client: Session, now: float) -> None:
        wanted = self._topics_of(client)
        if not wanted or any(offer.client is client for offer in self._offers.values()):
            return
        if not self.is_open and not self.hosts:
            self._due[client] = None
            return
        hosts = {self._id: self._without(client), **self.hosts} if self.is_open else self.hosts
        kept = self._placed.get(client.remote, frozenset())
        best = best_host(wanted, self._id, hosts, self._config, wanted if kept is None else kept)
        if best == self._id or client.connection is None:
            self._placed[client.remote] = wanted
            return
        self._numbers += 1
        text = f"{TOKEN_MARK}{self._id}:{client.own_epoch}:{self._numbers}"
        token = f"{text}:{_tag(self._heard[best].key, client.remote, text)}"
        self._offers[token] = _Offer(client, best, wanted, now + ANSWER_LIMIT_S)
        self._redirect(client, token, best, is_final=False)

    def _topics_of(self, client: Session) -> frozenset[str]:
        claims = self._routing.subscriptions.values()
        return frozenset(claim.topic for claim in claims if claim.client is client)

    def _without(self, client: Session) -> Host:
        """This broker's news without a client that may not stay."""
        others = [c for c in self._routing.subscriptions.values() if c.client is not client]
        return Host(Counter(claim.topic for claim in others), len(others))

    def _redirect(self, client: Session, token: str, broker: BrokerId, *, is_final: bool) -> None:
        redirect = Redirect(token, broker, self._heard[broker].address, is_final, hops=1)
        assert client.connection is not None
        self._services.emit(Transmit(client.connection, (redirect,)))

    def replied(self, client: Session, reply: RedirectReply, now: float) -> None:
        """A client replies whether it can reach the broker that was offered to it."""
        offer = self._offers.pop(reply.token, None)
        if offer is None or offer.client is not client or client.connection is None:
            return
        host = self.hosts.get(offer.broker)
        if reply.problem or host is None:
            self._held_until[client.remote] = now + self._config.rest_s
            return
        self.sent += 1
        self.hosts[offer.broker] = host.with_user(offer.topics, senders(len(self.hosts) + 1))
        self._redirect(client, reply.token, offer.broker, is_final=True)
        self._services.teardown.leave(client, "it was sent to another broker", now)


def _tag(key: str, client: ClientId, text: str) -> str:
    return tag_of(key.encode(), client, text)
