"""A whole simulated overlay: brokers on a topology, clients at brokers, checkers on top.

What a routing strategy promises is known to a subclass: `tree.TreeOverlay`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from pubweave.core.broker import Broker
from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.session import SessionLimits
from pubweave.core.migration.coordinator import MigrationCoordinator
from pubweave.core.transformation.coordinator import ActionCoordinator
from pubweave.core.vocabulary.effects import FollowRedirect, ReportGap, ReportMissed, ReportMove
from pubweave.model.filters.filter import Filter
from pubweave.model.ids import BrokerId, Link, SubscriptionId
from pubweave.model.messages.session import LEAVING_SUBJECT
from pubweave.model.publications import Publication
from pubweave.model.records.recorded_traffic import RecordedClient
from pubweave.model.records.status import CounterStatus
from pubweave.model.topology import Topology
from pubweave.sim.checkers.delivery import DeliveryJudge
from pubweave.sim.checkers.history import (
    Acknowledged,
    Assured,
    AtRest,
    Attached,
    Crashed,
    Delivered,
    Key,
    Left,
    Lost,
    Published,
    Subscribed,
    ToldGap,
    ToldMissed,
    ToldToMove,
    Withdrawing,
    Withdrawn,
)
from pubweave.sim.checkers.limits import LimitsChecker
from pubweave.sim.checkers.routing_tables import Truth
from pubweave.sim.kernel.disk import DiskSetting
from pubweave.sim.kernel.journal_node import SimJournal
from pubweave.sim.kernel.network import Network, SimLink
from pubweave.sim.kernel.nodes import HandlingTime, SimBroker, SimClient
from pubweave.sim.kernel.world import World
from pubweave.sim.overlays.held_publications import publications_in

DEFAULT_LATENCY_MS = 20.0
WITHDRAWN_S = 0.05
"""It is looked so often whether a withdrawal has been acknowledged."""
FULL_QUEUES = ("the limit for a client", "its queue is full")
"""How brokers end what they tell clients that they let go because of their queues."""


class SimOverlay:
    """Brokers and clients of one run, and what the checkers know of them."""

    broker_type: type[SimBroker] = SimBroker

    def __init__(
        self,
        world: World,
        topology: Topology,
        *,
        make_config: Callable[[BrokerId], BrokerConfig],
        handling: HandlingTime,
        on_telemetry: Callable[[str, Any, float], None] | None = None,
        latency_s: Callable[[Link], float] | None = None,
        spare: Collection[BrokerId] = (),
        disk: DiskSetting | None = None,
        broker_type: type[SimBroker] | None = None,
    ) -> None:
        """``latency_s``: of links that actions make; those of the topology have their own.
        ``spare``: brokers that run without a link until an action appends them.
        ``disk``: brokers have a journal."""
        if broker_type is not None:
            self.broker_type = broker_type
        self.world = world
        self.topology = topology
        self._latency_s = latency_s or (lambda link: DEFAULT_LATENCY_MS / 1000.0)
        self.network = Network(world)
        self.judge = DeliveryJudge()
        self.limits = LimitsChecker()
        self.clients: dict[str, SimClient] = {}
        self.homes: dict[str, BrokerId] = {}
        """Where each client was that ever attached."""
        self.places: dict[str, list[tuple[BrokerId, float]]] = {}
        """Where each client was or was sent, and when it went there."""
        self.moves: list[ReportMove] = []
        self.on_delivery: Callable[[SimClient, Publication], None] = lambda client, got: None
        self.refusals: list[str] = []
        self.on_told_to_move: Callable[[SimClient], None] = lambda client: None
        """Hears of a client whose broker leaves the overlay."""
        self._published: dict[str, int] = {}
        """By publisher: the sequence of its last publication."""
        self._counted_by_dead: list[CounterStatus] = []
        self.gone: dict[BrokerId, SimBroker] = {}
        """Brokers that were taken away for good."""
        self._client_epochs = 0
        self._make_config = make_config
        self._handling = handling
        self._on_telemetry = on_telemetry
        self.disk = disk
        self.brokers = {name: self.make_broker(name) for name in [*topology.neighbors, *spare]}
        self.links: dict[Link, SimLink] = {}
        """Every path that was ever a link's."""
        self.paths: list[SimLink] = []
        """The same in the order in which they came to be."""
        for link in sorted(topology.links):
            self._add_path(link, topology.latency_ms.get(link, DEFAULT_LATENCY_MS) / 1000.0)
        for name, neighbors in topology.neighbors.items():
            for neighbor in neighbors:
                self.brokers[name].links[neighbor] = self._find_path(name, neighbor)
        for broker in self.brokers.values():
            broker.find_path = self._find_path
            self.give_journal(broker)
            broker.start()

    def make_broker(self, name: BrokerId) -> SimBroker:
        """A broker that is not started yet."""
        config = self._make_config(name)
        broker = self.broker_type(
            config, self.network, self._handling, on_telemetry=self._on_telemetry
        )
        broker.on_crash = self._on_crash
        self.limits.watch(broker)
        return broker

    def give_journal(self, broker: SimBroker) -> None:
        """A broker that is not started yet has a journal, if brokers of this run do."""
        if self.disk is not None:
            broker.journal = SimJournal(self.world, broker.name, self.disk)

    def _on_crash(self, broker: SimBroker, was: Broker) -> None:
        """A broker dies. What it has counted so far stays counted; without a journal that brings
        it back, what only its memory had is gone."""
        if broker.asleep is None:
            self._counted_by_dead.append(was.counters)
            now = self.world.now
            self.judge.take(Crashed(now, broker.name))
            self.judge.take(Lost(now, self.lost_with(was)))

    def lost_with(self, broker: Broker) -> frozenset[Key]:
        """The publications that nobody else may have when a broker dies."""
        return publications_in(broker)

    # --- topology --------------------------------------------------------------------------

    def _add_path(self, link: Link, latency_s: float) -> None:
        self.links[link] = path = SimLink(latency_s)
        self.paths.append(path)

    def _find_path(self, near: BrokerId, far: BrokerId) -> tuple[SimLink, SimBroker]:
        link = Link.between(near, far)
        if link not in self.links:
            self._add_path(link, self._latency_s(link))
        return self.links[link], self.brokers[far]

    def set_topology(self, topology: Topology) -> None:
        """An action was committed: from here on this is the topology that should be."""
        self.topology = topology

    # --- clients ---------------------------------------------------------------------------

    def join(
        self,
        name: str,
        home: BrokerId,
        *,
        latency_s: float,
        limits: SessionLimits,
        can_move: bool = True,
    ) -> SimClient:
        """A client attaches to a broker."""
        self._client_epochs += 1
        client = SimClient(
            name,
            self.network,
            self.brokers[home],
            latency_s=latency_s,
            limits=limits,
            epoch=self._client_epochs,
            on_notification=self._on_notification,
            on_session=self._on_session,
            on_refusal=self._on_refusal,
            can_move=can_move,
        )
        self.clients[name] = client
        self.homes[name] = home
        self.places.setdefault(name, []).append((home, self.world.now))
        client.find_broker = self.brokers.get
        client.on_move = self._on_move
        client.on_missed = self._on_missed
        client.on_gap = self._on_gap
        client.on_confirmed = self._on_confirmed
        client.start()
        return client

    def subscribe(self, client: SimClient, filter_: Filter) -> None:
        """A client asks for something; it is sent with what is flushed next."""
        id_ = client.core.subscribe(filter_)
        self.judge.take(Subscribed(self.world.now, client.name, id_, filter_))

    def unsubscribe(self, client: SimClient, id_: SubscriptionId) -> None:
        """A client takes back what it asked for: from here on nothing is due for it; what comes
        before its broker knows is tolerated."""
        client.core.unsubscribe(id_)
        client.flush()
        self.judge.take(Withdrawing(self.world.now, client.name, id_))
        session = client.core.session
        self._await_withdrawal(client, id_, session.acked + session.queue_messages)

    def _await_withdrawal(self, client: SimClient, id_: SubscriptionId, number: int) -> None:
        if client.name not in self.clients:
            return
        session = client.core.session
        if session.acked >= number or not session.queue_messages:
            self.judge.take(Withdrawn(self.world.now, client.name, id_))
        else:
            self.world.after(WITHDRAWN_S, self._await_withdrawal, client, id_, number)

    def join_recorded(
        self, recorded: RecordedClient, *, latency_s: float, limits: SessionLimits
    ) -> None:
        """A client of a record attaches, unless its broker is not there."""
        if recorded.broker not in self.brokers:
            return
        client = self.join(recorded.client, recorded.broker, latency_s=latency_s, limits=limits)
        for filter_ in recorded.advertisements:
            client.core.advertise(filter_)
        for filter_ in recorded.subscriptions:
            self.subscribe(client, filter_)
        client.flush()

    def leave(self, name: str) -> None:
        """A client says goodbye; what is on its way to it is nobody's concern any more."""
        client = self.clients.pop(name)
        if name in self._published:
            self._tell_acknowledged(client)
        self.judge.take(Left(self.world.now, name))
        client.leave()

    def publish(
        self, client: SimClient, topic: str, attributes: dict[str, Any], payload: bytes = b""
    ) -> None:
        """Publish, under the first advertisement of the client that is good for it."""
        publication = client.core.publish(topic, attributes, payload, self.world.now)
        client.flush()
        self._published[client.name] = publication.sequence
        offered = client.core.advertisements.items()
        under = next((id_ for id_, own in offered if own.matches(publication)), "")
        self.judge.take(Published(self.world.now, publication, under))

    def _tell_acknowledged(self, client: SimClient) -> None:
        """Tell the judge what a publisher's broker has acknowledged: all that is not queued."""
        session = client.core.session
        queued = (*session.unacked, *session.waiting, *session.pending)
        first = next((m.sequence for m in queued if type(m) is Publication), None)
        through = self._published[client.name] if first is None else first - 1
        self.judge.take(Acknowledged(self.world.now, client.name, through))

    def check_deliveries(self) -> None:
        """All is at rest: whatever is due must have come."""
        for name in self._published.keys() & self.clients.keys():
            self._tell_acknowledged(self.clients[name])
        nodes = (*self.brokers.values(), *self.gone.values())
        cores = [core for node in nodes if (core := node.known_core) is not None]
        counted = [*self._counted_by_dead, *(core.counters for core in cores)]
        lost = sum(
            each.notifications_lost
            + each.notifications_lost_at_most
            + each.publications_lost_at_most
            for each in counted
        )
        expired = sum(each.clients_expired for each in counted)
        self.judge.take(AtRest(self.world.now, lost, expired))

    def check_tables(self) -> list[str]:
        """At rest: how tables differ from what the clients have asked for, in words."""
        raise AssertionError("provided by subclasses")

    def _on_notification(self, client: SimClient, publication: Publication) -> None:
        self.judge.take(Delivered(self.world.now, client.name, publication))
        self.on_delivery(client, publication)

    def _on_move(self, client: SimClient, effect: FollowRedirect | ReportMove) -> None:
        """A client was sent to another broker, or has arrived there."""
        self.homes[client.name] = client.home.name
        if isinstance(effect, ReportMove):
            self.moves.append(effect)
        else:
            self.judge.take(ToldToMove(self.world.now, client.name))
            self.places[client.name].append((client.home.name, self.world.now))

    def places_since(self, client: str, instant: float) -> set[BrokerId]:
        """Where a client was at an instant, and everywhere it has been afterwards."""
        before = [place for place, at in self.places[client] if at <= instant]
        return {*before[-1:], *(place for place, at in self.places[client] if at > instant)}

    def _on_missed(self, client: SimClient, missed: ReportMissed) -> None:
        told = missed.publisher, missed.topic, missed.count, missed.at_most
        self.judge.take(ToldMissed(self.world.now, client.name, *told))

    def _on_gap(self, client: SimClient, gap: ReportGap) -> None:
        seen = gap.publisher, gap.topic, gap.after, gap.before
        self.judge.take(ToldGap(self.world.now, client.name, *seen))

    def _on_confirmed(self, client: SimClient, ids: tuple[SubscriptionId, ...]) -> None:
        self.judge.take(Assured(self.world.now, client.name, ids))

    def _on_session(self, client: SimClient, resumed: bool) -> None:
        self.judge.take(Attached(self.world.now, client.name, client.home.name, resumed))

    def _on_refusal(self, client: SimClient, subject: str, reason: str) -> None:
        if subject == LEAVING_SUBJECT or "leaves the overlay" in reason:
            self.on_told_to_move(client)
            return
        if reason.endswith(FULL_QUEUES):
            return  # counted by the broker as expired, and excused when the session begins anew
        self.refusals.append(f"{self.world.now:.3f} {client.name}: {subject}: {reason}")

    # --- rest ------------------------------------------------------------------------------

    def is_quiet(self) -> bool:
        """Every link and client is connected, and nobody waits for an acknowledgement."""
        for node in self.brokers.values():
            core = node.core
            if core is None or node.busy_until > self.world.now:
                return False
            actions, migrations = core.part(ActionCoordinator), core.part(MigrationCoordinator)
            if actions is not None and actions.is_busy:
                return False
            if migrations is not None and not migrations.is_idle:
                return False
            for session in core.sessions:
                if not session.is_established or session.queue_messages or session.pending:
                    return False
                if not session.is_client and core.routing.has_stale(session):
                    return False
        return self.clients_are_quiet()

    def clients_are_quiet(self) -> bool:
        """Every client is connected, and waits for no acknowledgement."""
        sessions = [client.core.session for client in self.clients.values()]
        return all(s.is_established and not s.queue_messages and not s.pending for s in sessions)

    def run_until_quiet(self, limit_s: float) -> bool:
        """Let time pass until all is quiet; False if that takes too long."""
        until = self.world.now + limit_s
        while self.world.now < until:
            self.world.run_until(self.world.now + 0.25)
            if self.is_quiet():
                return True
        return False

    def truth(self) -> Truth:
        """What all attached clients have asked for."""
        wanted: dict[str, tuple[BrokerId, str, Filter]] = {}
        offered: dict[str, tuple[BrokerId, str, Filter]] = {}
        for client in self.clients.values():
            for found, asked in (
                (wanted, client.core.subscriptions),
                (offered, client.core.advertisements),
            ):
                found.update({i: (client.home.name, client.name, f) for i, f in asked.items()})
        return Truth(wanted, offered)
