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
from pubweave.core.routing.tree.routing import TreeRouting
from pubweave.core.transformation.coordinator import ActionCoordinator
from pubweave.core.vocabulary.effects import FollowRedirect, ReportMissed, ReportMove
from pubweave.model.filters.filter import Filter
from pubweave.model.ids import BrokerId, Link
from pubweave.model.messages.session import LEAVING_SUBJECT
from pubweave.model.publications import Publication
from pubweave.model.records.recorded_traffic import RecordedClient
from pubweave.model.topology import Topology
from pubweave.sim.checkers.delivery import DeliveryChecker, Truth
from pubweave.sim.checkers.limits import LimitsChecker
from pubweave.sim.kernel.disk import DiskSetting
from pubweave.sim.kernel.journal_node import SimJournal
from pubweave.sim.kernel.network import Network, SimLink
from pubweave.sim.kernel.nodes import HandlingTime, SimBroker, SimClient
from pubweave.sim.kernel.world import World

DEFAULT_LATENCY_MS = 20.0


def tables_of(broker: Broker) -> dict[str, tuple[Filter, str]]:
    """What a tree broker's tables say: filters, and where they came from."""
    routing = broker.routing
    if not isinstance(routing, TreeRouting):
        return {}
    entries = [*routing.subscriptions.items(), *routing.advertisements.items()]
    return {id_: (entry.filter, entry.hop.remote) for id_, entry in entries}


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
        self.checker = DeliveryChecker()
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
        self.sessions_lost = 0
        self._established: set[str] = set()
        self._paths: dict[tuple[BrokerId, BrokerId], tuple[BrokerId, ...]] = {}
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
        self.limits.watch(broker)
        return broker

    def give_journal(self, broker: SimBroker) -> None:
        """A broker that is not started yet has a journal, if brokers of this run do."""
        if self.disk is not None:
            broker.journal = SimJournal(self.world, broker.name, self.disk)
            broker.on_asleep = self._on_asleep

    def _on_asleep(self, was: Broker, comes_back: Broker, since: float) -> None:
        """A table entry that was not yet on disk is told again, and until then it is not there:
        what was published meanwhile was promised to nobody for its sake."""
        kept = tables_of(comes_back)
        if tables_of(was) == kept:
            return
        reached: dict[tuple[str, int], set[str]] = {}

        def may_be_lost(publication: Publication, client: str) -> bool:
            publisher = self.clients.get(publication.publisher)
            if publication.published_at < since:
                return False
            if publisher is None:  # it has left: nobody knows its way any more
                return not self._is_told(client, publication, was, kept)
            if publication.key not in reached:
                reached[publication.key] = self._reached(publication, publisher, self.clients)
            return client not in reached[publication.key]

        self.checker.excuse_where(may_be_lost)

    def _is_told(
        self, client: str, publication: Publication, broker: Broker, entries: Collection[str]
    ) -> bool:
        """Whether a client's own broker knows that it wants a publication; of other brokers'
        clients this one need not know that."""
        own = self.clients[client]
        return own.home.name != broker.config.id or any(
            id_ in entries and filter_.matches(publication)
            for id_, filter_ in own.core.subscriptions.items()
        )

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
        self._paths.clear()

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
        client.start()
        return client

    def subscribe(self, client: SimClient, filter_: Filter) -> None:
        """A client asks for something; it is sent with what is flushed next."""
        self.checker.subscribed(client.name, client.core.subscribe(filter_), filter_)

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
        self.checker.excuse(name)
        self.clients.pop(name).leave()

    def publish(
        self,
        client: SimClient,
        topic: str,
        attributes: dict[str, Any],
        *,
        is_quiet: bool,
        may_be_lost: bool,
        always_due: Collection[str] = (),
    ) -> None:
        """Publish and work out to whom it is due: to those named as ``always_due``, if they want
        it, whatever the tables say."""
        publication = client.core.publish(topic, attributes, b"", self.world.now)
        client.flush()
        wanting = self.checker.wanting(publication, self.clients)
        if is_quiet:
            due = wanting
        else:
            reached = set() if may_be_lost else self._reached(publication, client, wanting)
            due = wanting & (reached | set(always_due))
        self.checker.published(publication, due)

    def _reached(
        self, publication: Publication, client: SimClient, among: Collection[str]
    ) -> set[str]:
        """The clients to whom the tables of this instant lead a publication for their own sake.

        A publication may reach a client's broker because somebody else there wants it too; that
        other may leave, so only the client's own subscription, or one that stands in for it
        where covering is on, makes a delivery due; and only if it is in place for the sake of
        the publisher's own advertisement, because others' may be taken back.
        """
        offered = [
            id_ for id_, own in client.core.advertisements.items() if own.matches(publication)
        ]
        return {
            other.name
            for other in map(self.clients.__getitem__, among)
            if any(
                filter_.matches(publication)
                and self.is_due(id_, offered, self._path(other.home.name, client.home.name))
                for id_, filter_ in other.core.subscriptions.items()
            )
        }

    def _path(self, start: BrokerId, end: BrokerId) -> tuple[BrokerId, ...]:
        if (start, end) not in self._paths:
            self._paths[start, end] = self.topology.path(start, end)
        return self._paths[start, end]

    def is_due(
        self, subscription: str, advertisements: list[str], path: tuple[BrokerId, ...]
    ) -> bool:
        """Whether the tables of this instant lead a publication that was made under one of
        ``advertisements`` to a subscription, for its own sake, against the direction of
        ``path``, which runs from the subscriber's broker to the publisher's."""
        raise AssertionError("provided by subclasses")

    def check_tables(self) -> list[str]:
        """At rest: how tables differ from what the clients have asked for, in words."""
        raise AssertionError("provided by subclasses")

    def _on_notification(self, client: SimClient, publication: Publication) -> None:
        self.checker.notified(client.name, publication, self.world.now)
        self.on_delivery(client, publication)

    def _on_move(self, client: SimClient, effect: FollowRedirect | ReportMove) -> None:
        """A client was sent to another broker, or has arrived there."""
        self.homes[client.name] = client.home.name
        if isinstance(effect, ReportMove):
            self.moves.append(effect)
        else:
            self.places[client.name].append((client.home.name, self.world.now))

    def places_since(self, client: str, instant: float) -> set[BrokerId]:
        """Where a client was at an instant, and everywhere it has been afterwards."""
        before = [place for place, at in self.places[client] if at <= instant]
        return {*before[-1:], *(place for place, at in self.places[client] if at > instant)}

    def _on_missed(self, client: SimClient, missed: ReportMissed) -> None:
        self.checker.missed(client.name, missed, self.world.now)

    def _on_session(self, client: SimClient, resumed: bool) -> None:
        if not resumed and client.name in self._established:
            # The broker forgot this client (it crashed, or the client's queue ran over).
            self.sessions_lost += 1
            self.checker.excuse(client.name)
        self._established.add(client.name)

    def _on_refusal(self, client: SimClient, subject: str, reason: str) -> None:
        if subject == LEAVING_SUBJECT or "leaves the overlay" in reason:
            self.on_told_to_move(client)
            return
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
