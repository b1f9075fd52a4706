"""A simulated topic-connected overlay: brokers that join, leave and crash, and its truth.

What the brokers say of themselves (records, views) is not asked here: whether a topic is
connected is worked out from the clients' wishes, the sessions on both ends of each link, and what
each end has heard of the other. Clients that come to another broker get there what was published
meanwhile, so nothing is excused. An acknowledged subscription means that its broker is connected
in the topic: that is held against the truth whenever nothing has happened for a while.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any, Protocol

from pubweave.core.broker import Broker
from pubweave.core.config.topic_connected import TopicConfig
from pubweave.core.routing.topic_connected.membership_map import MembershipMap, pieces_of
from pubweave.core.routing.topic_connected.repair import OverlayRepair
from pubweave.core.routing.topic_connected.routing import TopicRouting
from pubweave.core.session.session import Session
from pubweave.core.vocabulary.effects import Effect, FollowRedirect, ReportMove, Transmit
from pubweave.core.vocabulary.events import Event, LocalPauseEnded, MessagesReceived
from pubweave.model.ids import BrokerId
from pubweave.model.messages.session import Ack
from pubweave.model.publications import Publication
from pubweave.sim.checkers.delivery import DeliveryJudge
from pubweave.sim.checkers.history import Key
from pubweave.sim.kernel.network import SimLink
from pubweave.sim.kernel.nodes import SimBroker, SimClient
from pubweave.sim.overlays.base import SimOverlay

CROSSING_S = 10.0
"""How long a publication may be under way to a broker that has just ended its part in a topic:
as long as a partition lasts, and a little."""
CALM_S = 2.0
"""Maps are true after so long without anything new."""
SETTLED_S = 1.0
"""A broker that has wanted a topic for so long is known to all."""


class BrokerInspector:
    """Sees to it that a broker gets nothing it did not ask for, and acknowledges nothing early."""

    def __init__(self, overlay: TopicOverlay, broker: SimBroker) -> None:
        self._overlay = overlay
        self._node = broker
        self._handle = broker.core_effects
        broker.core_effects = self._inspect
        self._seen_at: dict[str, float] = {}
        """When it took part in each topic last."""
        self._wanted_at: dict[str, float] = {}
        """When a client of it wanted each topic last."""
        self._handled_at = 0.0
        self._life = broker.incarnation

    def _inspect(self, event: Event, now: float) -> list[Effect]:
        instant = self._node.world.now
        core = self._node.broker
        repair = repair_of(core)
        self._before(event, core, repair, instant)
        given_up = repair.waits.given_up
        effects = self._handle(event, now)
        if repair.waits.given_up == given_up:
            for effect in effects:
                if type(effect) is Transmit and Ack in map(type, effect.messages):
                    session = core.sessions.of(effect.connection)
                    if session is not None and session.is_client:
                        self._overlay.acknowledged(self._node, session, instant)
        return effects

    def _before(self, event: Event, core: Broker, repair: OverlayRepair, now: float) -> None:
        if self._life != self._node.incarnation:
            self._life = self._node.incarnation
            self._slept(now - self._handled_at)
        if isinstance(event, LocalPauseEnded):
            self._slept(event.seconds)
        self._handled_at = now
        routing = routing_of(core)
        # A fading topic that a broker misses which is away is taken part in until it is back.
        claimed, missed, seen_at = routing.claimed, repair.absences.missed, self._seen_at
        for topic in routing.topics:
            if topic in claimed or topic not in seen_at or topic in missed:
                self._wanted_at[topic] = now
            seen_at[topic] = now
        if isinstance(event, MessagesReceived):
            for message in event.messages:
                if type(message) is Publication:
                    self._check(message, event.connection, now)

    def _slept(self, away_s: float) -> None:
        """A broker that was stopped, or killed with a journal, goes on where it was: its topics
        last so much longer, and what was sent to it meanwhile waits for it."""
        self._overlay.slept[self._node.name] = self._node.world.now, away_s
        for times in (self._seen_at, self._wanted_at):
            times.update({topic: at + away_s for topic, at in times.items()})

    def _check(self, publication: Publication, connection: int, now: float) -> None:
        session = self._node.broker.sessions.of(connection)
        if session is None or session.is_client:
            return
        topics = self._node.config.topics
        crossing_s = CROSSING_S
        woke_at, slept_s = self._overlay.slept.get(session.remote, (0.0, 0.0))
        if now - woke_at < CROSSING_S:
            crossing_s += slept_s  # what a broker had to send when it stopped it sends now
        patience_s = topics.linger_s + topics.hand_over_s + crossing_s
        took_part_at = self._seen_at.get(publication.topic, -crossing_s - 1)
        wanted_at = self._wanted_at.get(publication.topic, -patience_s - 1)
        if now - took_part_at > crossing_s or now - wanted_at > patience_s:
            got = f"{self._node.name} got {publication.topic} from {session.remote}"
            self._overlay.relays.append(f"{now:.3f} {got}: a relay")


class TopicRules(Protocol):
    """What must hold in an overlay that routes by topic: how its strategy connects brokers."""

    inspects: bool
    """What brokers get and acknowledge can be judged at any time."""

    def split_topics(self, wanted: dict[str, set[BrokerId]] | None = None) -> list[str]: ...

    def check_tables(self) -> list[str]: ...

    def is_quiet(self) -> bool: ...


class TopicOverlay(SimOverlay):
    """Brokers and clients of one run; `brokers` are those that live."""

    def __init__(
        self,
        *args: Any,
        rules: Callable[[TopicOverlay], TopicRules] | None = None,
        **options: Any,
    ) -> None:
        """As `SimOverlay`. ``rules``: `MeshRules`, or that of another strategy."""
        self.rules = MeshRules(self) if rules is None else rules(self)
        self.on_made: Callable[[SimBroker], None] = lambda broker: None
        """Hears of every broker, before it starts."""
        self.relays: list[str] = []
        self.leaving: dict[BrokerId, int] = {}
        """Brokers that were told to go, and in which incarnation."""
        self.slept: dict[BrokerId, tuple[float, float]] = {}
        """When a broker went on last that was stopped, or killed with a journal, and for how long
        it was."""
        self._made = 0
        self.calm_since = 0.0
        self.wanted_since: dict[tuple[str, BrokerId], float] = {}
        """Since when each broker wants each topic. Both are kept by `RepairWatch`."""
        self.acknowledgements_checked = 0
        self.early: list[str] = []
        """Subscriptions that were acknowledged before their topic was connected."""
        self.on_sent: Callable[[SimClient, BrokerId], None] = lambda client, home: None
        """Hears of each client that a broker sends to another one."""
        self._acknowledged: set[tuple[str, str]] = set()
        """Subscriptions that have been acknowledged, with the broker that did."""
        super().__init__(*args, **options)
        configs = [node.config.topics for node in self.brokers.values()]
        self.judge = DeliveryJudge(
            by_topic=True,
            keeps_subscriptions=True,
            keeps_little=any(topics.keep_bytes < TopicConfig.keep_bytes for topics in configs),
        )

    def make_broker(self, name: BrokerId) -> SimBroker:
        """A new broker finds its ways, and its sessions are none of anybody before."""
        broker = super().make_broker(name)
        if self.rules.inspects and type(broker) is SimBroker:
            BrokerInspector(self, broker)
        broker.find_path = self._find_path
        broker.before_start = self._link_contacts
        self._made += 1
        broker.epoch_base = 1000 * self._made
        self.on_made(broker)
        return broker

    def _link_contacts(self, broker: SimBroker) -> None:
        """Whom a broker is told of besides its neighbors in the topology: a gateway of brokers of
        the ring, others of those of their placement cluster that are there; who comes later
        tells them."""
        placed = broker.config.placement.contacts(broker.name)
        for name in (*broker.config.topics.ring, *(n for n in placed if n in self.brokers)):
            broker.links[name] = self._find_path(broker.name, name)

    def _find_path(self, near: BrokerId, far: BrokerId) -> tuple[SimLink, SimBroker]:
        if far in self.gone:
            return SimLink(0.0), self.gone[far]
        return super()._find_path(near, far)

    # --- churn -----------------------------------------------------------------------------

    def join_broker(self, name: BrokerId, contacts: Collection[BrokerId]) -> SimBroker:
        """A broker starts that knows a few others."""
        self.brokers[name] = broker = self.make_broker(name)
        for contact in contacts:
            broker.links[contact] = self._find_path(name, contact)
        self.give_journal(broker)
        broker.start()
        return broker

    def remove_broker(self, name: BrokerId) -> None:
        """A broker is gone for good, whether it left or crashed."""
        self.gone[name] = broker = self.brokers.pop(name)
        broker.crash()
        self.leaving.pop(name, None)

    def lost_with(self, broker: Broker) -> frozenset[Key]:
        """Nothing for certain: others keep it, too, or its publisher offers it again. Who sees to
        the crash knows better."""
        return frozenset()

    def _on_move(self, client: SimClient, effect: FollowRedirect | ReportMove) -> None:
        super()._on_move(client, effect)
        if isinstance(effect, FollowRedirect):
            self.on_sent(client, client.home.name)

    # --- the truth -------------------------------------------------------------------------

    def wanted_topics(self) -> dict[str, set[BrokerId]]:
        """By topic: the brokers whose clients subscribe to it or advertise it, and said so."""
        found: dict[str, set[BrokerId]] = {}
        for client in self.clients.values():
            core = client.home.core
            if core is None:
                continue
            routing = routing_of(core)
            for heard, asked in (
                (routing.subscriptions, client.core.subscriptions),
                (routing.advertisements, client.core.advertisements),
            ):
                for id_ in asked.keys() & heard.keys():
                    found.setdefault(heard[id_].topic, set()).add(client.home.name)
        return found

    def split_topics(self, wanted: dict[str, set[BrokerId]] | None = None) -> list[str]:
        """Topics that are in pieces."""
        return self.rules.split_topics(wanted)

    def ways(self, topic: str, brokers: Collection[BrokerId]) -> dict[BrokerId, list[BrokerId]]:
        """The links on which some brokers pass a topic on among themselves, both ways."""
        return {
            name: [
                other
                for other in self.brokers[name].broker.sessions.links
                if other in brokers
                and self._carries(name, other, topic)
                and self._carries(other, name, topic)
            ]
            for name in brokers
        }

    def _carries(self, near: BrokerId, far: BrokerId, topic: str) -> bool:
        """Whether a publication on a topic goes from one broker to another."""
        core = self.brokers[near].broker
        session = core.sessions.links.get(far)
        if session is None or not session.is_established:
            return False
        routing = routing_of(core)
        return topic in routing.topics and topic in routing.wanted.get(session, ())

    def check_tables(self) -> list[str]:
        return self.rules.check_tables()

    def degrees(self) -> list[int]:
        """How many links of each broker stand."""
        return [
            sum(s.is_established for s in node.broker.sessions.links.values())
            for node in self.brokers.values()
        ]

    # --- acknowledgements ------------------------------------------------------------------

    def acknowledged(self, broker: SimBroker, client: Session, now: float) -> None:
        """A client's subscriptions are acknowledged: is its broker connected in their topics?"""
        found = routing_of(broker.broker).subscriptions.items()
        topics = {
            claim.topic
            for id_, claim in found
            if claim.client is client and (id_, broker.name) not in self._acknowledged
        }
        self._acknowledged.update((id_, broker.name) for id_, c in found if c.client is client)
        if now - self.calm_since < CALM_S:
            return
        for topic in sorted(topics):
            others = [b for b in self.brokers if self._wants_long(topic, b, now)]
            self.acknowledgements_checked += any(other != broker.name for other in others)
            pieces = self._pieces_around(broker, topic)
            if any(pieces.get(other) != pieces[broker.name] for other in others):
                self.early.append(
                    f"{now:.3f} {broker.name} acknowledges {client.remote}'s subscription to "
                    f"{topic} before it is connected with {sorted(others)}"
                )

    def _pieces_around(self, broker: SimBroker, topic: str) -> dict[BrokerId, int]:
        """The pieces of a topic if links count that others are opening: what is published
        meanwhile comes over them, and a broker cannot see from afar that they do not stand."""
        taking = [
            name
            for name, node in self.brokers.items()
            if node.core is not None and topic in routing_of(node.core).topics
        ]
        ways = {
            name: [o for o in taking if self._flows(name, o, topic) and self._flows(o, name, topic)]
            for name in taking
        }
        for one in taking:
            for other in repair_of(self.brokers[one].broker).own.links:
                if other in ways and broker.name not in (one, other):
                    ways[one].append(other)
                    ways[other].append(one)
        return pieces_of(taking, ways)

    def _flows(self, near: BrokerId, far: BrokerId, topic: str) -> bool:
        """Whether what one broker gets of a topic goes to another, now or as soon as their session
        has a connection again: it may just be changing from one to the next."""
        core = self.brokers[near].broker
        session = core.sessions.links.get(far)
        return session is not None and topic in routing_of(core).wanted.get(session, ())

    def _wants_long(self, topic: str, broker: BrokerId, now: float) -> bool:
        since = self.wanted_since.get((topic, broker))
        return since is not None and now - since > SETTLED_S

    def holders(self) -> set[Key]:
        """What living brokers keep, and those that will come back."""
        return {
            key
            for node in self.brokers.values()
            if (core := node.known_core) is not None
            for topic in routing_of(core).topics
            for key in routing_of(core).logs[topic].keys
        }

    # --- rest ------------------------------------------------------------------------------

    def is_quiet(self) -> bool:
        return self.rules.is_quiet()

    def home_of(self, client: str) -> BrokerId:
        """Where a client is now; a gateway's name, and those of its sessions, end in its broker."""
        if client in self.clients:
            return self.clients[client].home.name
        return client.rpartition("@")[2].rpartition(":")[2]


class MeshRules:
    """A topic-connected overlay: brokers of a topic are connected, and every map is true."""

    inspects = True

    def __init__(self, overlay: TopicOverlay) -> None:
        self._overlay = overlay

    def split_topics(self, wanted: dict[str, set[BrokerId]] | None = None) -> list[str]:
        """Topics whose brokers are not connected, both ways on every link.

        All that take part may connect them: also one whose client is away and not given up yet."""
        return [
            topic
            for topic, brokers in (wanted or self._overlay.wanted_topics()).items()
            if self._is_split(topic, brokers)
        ]

    def _is_split(self, topic: str, brokers: set[BrokerId]) -> bool:
        taking_part = brokers | {
            name
            for name, node in self._overlay.brokers.items()
            if node.core is not None and topic in routing_of(node.core).topics
        }
        pieces = pieces_of(sorted(taking_part), self._overlay.ways(topic, taking_part))
        return len({pieces[broker] for broker in brokers}) > 1

    def check_tables(self) -> list[str]:
        """At rest: whether all is connected, nobody takes part in what nobody wants, and all
        maps are the same and true."""
        problems = [f"topic {topic} is in pieces" for topic in self.split_topics()]
        wanted = self._overlay.wanted_topics()
        truth = {n: {t for t, b in wanted.items() if n in b} for n in self._overlay.brokers}
        for name, node in self._overlay.brokers.items():
            taken = set(routing_of(node.broker).topics)
            if taken != truth[name]:
                problems.append(f"{name} takes part in {sorted(taken ^ truth[name])} wrongly")
            problems += self._check_map(name, repair_of(node.broker).map, truth)
        return problems

    def _check_map(
        self, name: BrokerId, map_: MembershipMap, truth: dict[str, set[str]]
    ) -> list[str]:
        present = {n: r for n, r in map_.view().present.items() if not r.is_leaving}
        if set(present) != set(self._overlay.brokers):
            return [f"{name} is wrong about who is there: {sorted(set(present) ^ set(truth))}"]
        return [
            f"{name} has an old record of {other}"
            for other, record in present.items()
            if set(record.topics) != truth[other]
        ]

    def is_quiet(self) -> bool:
        if not all(node.is_up() for node in self._overlay.brokers.values()) or self.split_topics():
            return False
        for node in self._overlay.brokers.values():
            core = node.broker
            if node.busy_until > self._overlay.world.now or not self._is_settled(core):
                return False
            if any(self._overlay.home_of(c) != node.name for c in core.sessions.clients):
                return False  # a client that went elsewhere has yet to be forgotten here
            for session in core.sessions:
                is_lost = not session.is_client and session.remote not in self._overlay.brokers
                if not is_lost and (session.queue_messages or session.pending):
                    return False
        return self._overlay.clients_are_quiet()

    def _is_settled(self, core: Broker) -> bool:
        routing, repair = routing_of(core), repair_of(core)
        # Who has left counts no more; it is forgotten when its record is not renewed.
        present = {n: r for n, r in repair.view.present.items() if not r.is_leaving}
        return (
            repair.view.is_connected
            and not repair.gaps.has_suspected
            and set(routing.topics) == set(routing.claimed) == set(repair.own.topics)
            and set(present) == set(self._overlay.brokers)
            and all(repair_of(self._overlay.brokers[n].broker).own == r for n, r in present.items())
        )


def routing_of(broker: Broker) -> TopicRouting:
    assert isinstance(broker.routing, TopicRouting)
    return broker.routing


def repair_of(broker: Broker) -> OverlayRepair:
    repair = broker.part(OverlayRepair)
    assert repair is not None
    return repair
