"""Brokers that come, go and crash for good, under traffic, on an overlay that routes by topic.

Clients whose broker is gone go on at another one. While it lasts a watch looks whether the overlay
is connected again within a bound after the last thing that happened to it.

A delivery is due to every client whose broker has taken in its subscription, however broken the
overlay is when the publication is made, and also while the client has no broker because its own
has crashed. Excused is only what a broker had alone when it crashed while its publisher had gone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any

from pubweave.core.config.topic_connected import TopicConfig
from pubweave.core.routing.rendezvous.maintenance import RendezvousMaintenance
from pubweave.core.vocabulary.events import LeaveEnded, LeaveRequested, LinkAdded
from pubweave.model.filters.filter import Filter, Operator, Predicate, topic_of
from pubweave.model.ids import BrokerId
from pubweave.model.messages.session import Advertise
from pubweave.model.publications import TOPIC_ATTRIBUTE, Publication
from pubweave.sim.checkers.history import Lost
from pubweave.sim.kernel.nodes import SimBroker, SimClient
from pubweave.sim.kernel.world import World
from pubweave.sim.overlays.clusters import part_of
from pubweave.sim.overlays.rendezvous import upkeep_of
from pubweave.sim.overlays.topic_connected import CALM_S, SETTLED_S, TopicOverlay, repair_of
from pubweave.sim.parts.clients import RandomClients
from pubweave.sim.parts.repair_watch import WATCH_EVERY_S, RepairWatch
from pubweave.sim.parts.run import Setting, SimPart, SimRun

FIRST_MEETING_S = 1.5
"""Nothing happens before: who has never heard of anybody but one cannot find the others."""
CONTACT_AGAIN_S = 2.0
IMPATIENT = 0.3
"""The share of clients that go elsewhere if their broker is away for a moment."""
ANSWER_LIMIT_S = 15.0
"""So long a client waits for a broker that it is new to (`ClientCore.silence_limit_s`)."""
ASKED = 8
"""Subscriptions that are made at rest, to see when they are acknowledged."""


@dataclass(frozen=True)
class ChurnSetting(Setting):
    """Brokers, the topics their first clients will want, and what happens to them."""

    interests: dict[BrokerId, tuple[str, ...]]
    topics: tuple[str, ...]
    fault: str
    config: TopicConfig
    churn_per_round: int
    tells_refusals: bool
    """Brokers die alone, and not with their machines."""

    def describe(self) -> dict[str, Any]:
        return {
            "brokers": len(self.interests),
            "topics": len(self.topics),
            "window_bytes": self.limits.window_bytes,
            "fault": self.fault,
            "churn_per_round": self.churn_per_round,
            "tells_refusals": self.tells_refusals,
        }


def topic_filter(topic: str) -> Filter:
    return Filter((Predicate(TOPIC_ATTRIBUTE, Operator.EQ, topic),))


def topic_clients(run: SimRun, topics: Sequence[str]) -> RandomClients:
    """Clients that name one topic in each filter."""

    def draw_filter(world: World) -> Filter:
        topic = world.choice(list(topics))
        further = Predicate("x", Operator.GE, world.integer(0, 5)) if world.chance(0.2) else None
        wanted = topic_filter(topic)
        return wanted if further is None else Filter((*wanted.predicates, further))

    def draw_content(world: World, offered: Filter) -> tuple[str, dict[str, Any]]:
        topic = topic_of(offered)
        assert topic is not None
        return topic, {"x": world.integer(5, 9)}

    return RandomClients(run, draw_filter=draw_filter, draw_content=draw_content)


class BrokerChurn(SimPart):
    """Brokers of one run that come and go, their first clients, and the watch."""

    def __init__(
        self, run: SimRun, overlay: TopicOverlay, clients: RandomClients, setting: ChurnSetting
    ) -> None:
        self.run = run
        self.world = run.world
        self.overlay = overlay
        self.setting = setting
        self.living = run.living
        self.watch = RepairWatch(overlay, run.faults, run.living)
        self.tally: Counter[str] = Counter()
        self.next_name: Callable[[str], BrokerId] = lambda name: name
        """The whole name of a broker that is to join, from its last part."""
        self.is_spare: Callable[[BrokerId], bool] = lambda name: True
        """Whether a broker may be taken away for good."""
        self.on_crash: Callable[[SimBroker], None] = lambda broker: None
        """Hears of each broker that is about to crash and will be back."""
        self.on_removed: Callable[[BrokerId], None] = lambda name: None
        """Hears of each that is gone for good."""
        self.clients = clients
        self._broker_numbers = len(self.living)
        self._found_at_join: dict[BrokerId, frozenset[BrokerId]] = {}
        """For each broker that joined, who was there then."""
        run.homes = self._homes
        overlay.on_told_to_move = self._go_elsewhere
        overlay.network.tells_refusals = setting.tells_refusals
        clients.on_left = self._on_left
        clients.on_unadvertised = self._on_unadvertised

    def _homes(self) -> list[BrokerId]:
        return [name for name in self.overlay.brokers if name not in self.overlay.leaving]

    def start(self) -> None:
        for broker, topics in self.setting.interests.items():
            self._attach_client(broker, topics)
        self.world.run_until(FIRST_MEETING_S)
        self.watch.start()

    def _attach_client(self, broker: BrokerId, topics: Sequence[str]) -> None:
        """A client that subscribes to some topics, and publishes on some of them."""
        name, limits = self.clients.next_name(), self.setting.limits
        client = self.overlay.join(name, broker, latency_s=0.001, limits=limits)
        for topic in topics:
            self.overlay.subscribe(client, topic_filter(topic))
            if self.world.chance(0.4):
                client.core.advertise(topic_filter(topic))
        client.flush()

    # --- churn -----------------------------------------------------------------------------

    def begin(self, end: float) -> None:
        for _ in range(self.setting.churn_per_round):
            self.world.at(self.world.uniform(self.world.now, end), self._churn)

    def _churn(self) -> None:
        """A broker joins, leaves or crashes; sometimes several crash at once."""
        dice = self.world.random()
        if dice < 0.4 or len(self._homes()) < 2:
            self.join_broker()
        elif dice < 0.6:
            self._leave_broker()
        else:
            for _ in range(self.world.integer(1, 3) if dice > 0.9 else 1):
                self._crash_broker()

    def _count(self, what: str, broker: BrokerId) -> None:
        self.tally[what] += 1
        self.world.note("churn", f"{what} {broker}")
        if what == "broker_join":
            self.watch.joined()
        else:
            self.watch.happened()

    def join_broker(self) -> None:
        self._broker_numbers += 1
        name = self.next_name(f"b{self._broker_numbers}")
        peers = [home for home in self._homes() if part_of(home) == part_of(name)]
        known = [home for home in peers if self._knows_most(home)] or peers
        contacts = {self.world.choice(known) for _ in range(self.world.integer(1, 2))}
        self._found_at_join[name] = frozenset(self.overlay.brokers)
        self.living.append(self.overlay.join_broker(name, sorted(contacts)))
        self._count("broker_join", name)
        self.world.after(CONTACT_AGAIN_S, self._see_in, name)
        topics = [topic for topic in self.setting.topics if self.world.chance(0.35)]
        self._attach_client(name, topics)

    def _see_in(self, name: BrokerId) -> None:
        """An operator whose new broker finds nobody (its contacts crashed) names another one."""
        node = self.overlay.brokers.get(name)
        if node is None:
            return
        self.world.after(CONTACT_AGAIN_S, self._see_in, name)
        if not node.is_up():
            return
        peers = [home for home in self._homes() if part_of(home) == part_of(name)]
        others = [home for home in peers if home != name]
        if not others or (self._knows_most(name) and self._is_introduced(name)):
            return
        strangers = [other for other in others if other not in self._known_to(name)] or others
        contact = self.world.choice([o for o in strangers if self._knows_most(o)] or strangers)
        node.link(contact)
        node.handle(LinkAdded(contact))
        self.watch.happened()

    def _is_introduced(self, name: BrokerId) -> bool:
        """Whether a broker that joined has met the overlay it joined, of which somebody lives: its
        contacts may have crashed first, and those who joined by it know no more than it does."""
        found = self._found_at_join[name] & {node.name for node in self.living}
        return not found or bool(self._known_to(name) & found)

    def _knows_most(self, name: BrokerId) -> bool:
        """Whether a broker is part of the overlay, and not of a few who know but each other."""
        peers = {node.name for node in self.living if part_of(node.name) == part_of(name)}
        return 2 * len(self._known_to(name) & peers) > len(peers)

    def _known_to(self, name: BrokerId) -> AbstractSet[BrokerId]:
        """Whom a broker has on its map, or finds on the ring by asking those it knows, and those
        they know."""
        core = self.overlay.brokers[name].known_core
        if core is None:
            return set()
        if core.part(RendezvousMaintenance) is None:
            return repair_of(core).map.records.keys()
        found, todo = {name}, [name]
        while todo:
            node = self.overlay.brokers.get(todo.pop())
            core = None if node is None else node.known_core
            for occupant in upkeep_of(core).plane.table.known if core is not None else ():
                if occupant.broker not in found:
                    found.add(occupant.broker)
                    todo.append(occupant.broker)
        return found - {name}

    def _leave_broker(self) -> None:
        names = [name for name in self._homes() if self.is_spare(name)]
        if len(self._homes()) < 2 or not names:
            return
        name = self.world.choice(names)
        self.overlay.leaving[name] = -1
        self._count("broker_leave", name)
        for client in self._clients_of(name):
            self.world.after(self.world.uniform(0.0, 1.0), self._go_elsewhere, client)
        self._ask_to_leave(self.overlay.brokers[name])
        self.world.after(WATCH_EVERY_S, self._see_off, name)

    def _ask_to_leave(self, node: SimBroker) -> None:
        """Also again, for a broker that was started anew is to stay."""
        if node.is_up() and self.overlay.leaving[node.name] != node.incarnation:
            self.overlay.leaving[node.name] = node.incarnation
            node.handle(LeaveRequested())

    def _see_off(self, name: BrokerId) -> None:
        node = self.overlay.brokers.get(name)
        if node is None:
            return
        self._ask_to_leave(node)
        core = node.core
        if self._clients_of(name) or core is None or not core.parts.may_go(node.now):
            self.world.after(WATCH_EVERY_S, self._see_off, name)
            return
        is_alone = not any(s.is_established for s in node.broker.sessions.links.values())
        counted = node.broker.counters.publications_lost_at_most
        node.broker.handle(LeaveEnded(), node.now)
        leaves_something = node.broker.counters.publications_lost_at_most > counted
        self._remove(name)
        if is_alone or leaves_something:
            self._excuse_orphans()

    def _crash_broker(self) -> None:
        homes = self._homes()
        names = [n for n in self.overlay.brokers if homes != [n] and self.is_spare(n)]
        if not names:
            return
        name = self.world.choice(names)
        self._count("broker_crash", name)
        clients = self._clients_of(name)
        self._remove(name)
        for client in clients:
            self.world.after(self.world.uniform(0.1, 1.0), self._go_elsewhere, client)
        self._excuse_orphans()

    def _remove(self, name: BrokerId) -> None:
        self.living.remove(self.overlay.brokers[name])
        self.overlay.remove_broker(name)
        self.watch.happened()
        self.on_removed(name)

    # --- clients whose broker is gone ------------------------------------------------------

    def crashed(self, broker: SimBroker) -> None:
        """A broker with a journal is killed and will come back; some of its clients do not wait."""
        self.watch.happened()
        for client in self._clients_of(broker.name):
            if self.world.chance(IMPATIENT):
                self.world.after(self.world.uniform(0.1, 2.0), self._go_on_elsewhere, client)
        self.on_crash(broker)

    def _go_on_elsewhere(self, client: SimClient) -> None:
        up = [name for name in self._homes() if self.overlay.brokers[name].is_up()]
        if client.name in self.overlay.clients and not client.home.is_up() and up:
            self._attach_elsewhere(client, up)

    def _on_left(self, client: SimClient) -> None:
        """One that has not noticed yet that its broker is gone offers nothing again either."""
        if client.home.name not in self.overlay.brokers:
            self._excuse_orphans({client.name})

    def _on_unadvertised(self) -> None:
        """A publisher without a broker that takes back what it advertised offers nothing again."""
        clients = self.overlay.clients.values()
        self._excuse_orphans({c.name for c in clients if not c.core.session.is_established})

    def _excuse_orphans(self, among: AbstractSet[str] | None = None) -> None:
        """What only the crashed broker had, and its publisher cannot offer again: it has left, or
        advertises the topic no more. ``among``: only of these publishers."""
        if among is not None and not among:
            return
        held = self.overlay.holders()
        lost = set()
        for publication in self.overlay.judge.undelivered():
            if among is not None and publication.publisher not in among:
                continue
            publisher = self.overlay.clients.get(publication.publisher)
            offers = publisher is not None and offers_again(publisher, publication)
            if publication.key not in held and not offers:
                lost.add(publication.key)
        self.overlay.judge.take(Lost(self.world.now, frozenset(lost)))

    def _clients_of(self, broker: BrokerId) -> list[SimClient]:
        return [c for c in self.overlay.clients.values() if c.home.name == broker]

    def _go_elsewhere(self, client: SimClient) -> None:
        """As the client library does with several addresses."""
        is_here = client.name in self.overlay.clients
        if is_here and client.home.name not in self._homes():
            self._attach_elsewhere(client, self._homes())

    def _attach_elsewhere(self, client: SimClient, homes: list[BrokerId]) -> None:
        home = self.world.choice(homes)
        self.overlay.homes[client.name] = home
        client.attach_to(self.overlay.brokers[home])
        self.await_answer(client, home)

    def await_answer(self, client: SimClient, home: BrokerId) -> None:
        """A client is at a broker that it is new to."""
        self.world.after(ANSWER_LIMIT_S, self._try_next, client, home)

    def _try_next(self, client: SimClient, tried: BrokerId) -> None:
        """A broker that is stopped takes connections and says nothing: the client library gives
        such a one up and tries its next address."""
        others = [name for name in self._homes() if name != tried]
        is_here = client.name in self.overlay.clients and client.home.name == tried
        if is_here and not client.core.session.is_established and others:
            self._attach_elsewhere(client, others)

    # --- outcome ---------------------------------------------------------------------------

    def violations(self) -> Iterable[str]:
        refused = (f"refused: {text}" for text in self.overlay.refusals)
        return [*self.watch.violations, *self.overlay.relays, *self.overlay.early, *refused]

    def counts(self) -> dict[str, int]:
        told = [node.broker.counters for node in self.living]
        lost = ("notifications_lost", "notifications_lost_at_most", "publications_lost_at_most")
        return {
            **{name: sum(getattr(each, name) for each in told) for name in lost},
            "duplicates_dropped": sum(each.duplicates_dropped for each in told),
            "repairs_watched": len(self.watch.repair_s),
            **self.tally,
        }

    def measures(self) -> dict[str, float]:
        degrees = self.overlay.degrees()
        return {
            "repair_s_max": max(self.watch.repair_s, default=0.0),
            "degree_mean": sum(degrees) / len(degrees),
            "degree_max": float(max(degrees)),
        }


def offers_again(client: SimClient, publication: Publication) -> bool:
    """Whether a publication is still to be sent, or matches what the publisher advertises and a
    broker has heard of. What it has begun to advertise since comes after what it offers again."""
    session = client.core.session
    queued = [*session.unacked, *session.waiting, *session.pending]
    if any(type(message) is Publication and message.key == publication.key for message in queued):
        return True
    unheard = {message.id for message in queued if isinstance(message, Advertise)}
    return any(
        filter_.matches(publication)
        for id_, filter_ in client.core.advertisements.items()
        if id_ not in unheard
    )


class EarlyAcknowledgements(SimPart):
    """Subscriptions in a topic-connected overlay while nothing breaks: are they acknowledged too
    early?

    Under churn nobody can say of an acknowledgement whether it comes too early: what has just
    broken may not be known to the broker yet. At rest it can be said of each. A broker joins, and
    clients subscribe, mostly to topics that are new to their brokers; `TopicOverlay.acknowledged`
    holds every acknowledgement against the truth of that instant."""

    def __init__(self, churn: BrokerChurn) -> None:
        self._churn = churn

    def before_burst(self) -> None:
        overlay, world = self._churn.overlay, self._churn.world
        self._churn.join_broker()
        world.run_until(world.now + CALM_S)
        for _ in range(ASKED):
            if overlay.clients:
                self._subscribe(overlay.clients[world.choice(list(overlay.clients))])
            wait_s = world.uniform(0.0, SETTLED_S) if world.chance(0.7) else 0.0
            world.run_until(world.now + wait_s)
        self._churn.run.come_to_rest()

    def _subscribe(self, client: SimClient) -> None:
        overlay, topics = self._churn.overlay, self._churn.setting.topics
        wanted = overlay.wanted_topics()
        fresh = [t for t in topics if client.home.name not in wanted.get(t, ())]
        topic = overlay.world.choice(fresh or list(topics))
        overlay.subscribe(client, topic_filter(topic))
        client.flush()

    def counts(self) -> dict[str, int]:
        repairs = [repair_of(node.broker) for node in self._churn.living]
        return {
            "links_opened": sum(repair.repairs for repair in repairs),
            "searches_widened": sum(repair.widened for repair in repairs),
            "acknowledgements_checked": self._churn.overlay.acknowledgements_checked,
            "acknowledged_by_limit": sum(repair.waits.given_up for repair in repairs),
        }
