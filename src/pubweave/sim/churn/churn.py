"""The scenario `churn`: a topic-connected overlay whose brokers come, go and crash under traffic.

Each round is a stretch of publications, changes of subscriptions, joins, leaves, crashes and
faults; then faults heal and everything comes to rest: all topics connected, all maps true,
everything due delivered. While it lasts a watch looks whether the overlay is connected again
within a bound after the last thing that happened to it.

A delivery is due to every client whose broker has taken in its subscription, however broken the
overlay is when the publication is made, and also while the client has no broker because its own
has crashed. Excused is only what a broker had alone when it crashed while its publisher had gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.vocabulary.events import LeaveRequested, LinkAdded
from pubweave.generate.topologies.latencies import Matrix
from pubweave.model.filters.filter import Filter, Operator, Predicate, topic_of
from pubweave.model.ids import BrokerId, Link
from pubweave.model.messages.session import Advertise
from pubweave.model.publications import TOPIC_ATTRIBUTE, Publication
from pubweave.sim.churn.repair_watch import WATCH_EVERY_S, RepairWatch
from pubweave.sim.churn.setting import ChurnSetting
from pubweave.sim.kernel.faults import Faults
from pubweave.sim.kernel.nodes import SimBroker, SimClient
from pubweave.sim.kernel.results import RunResult
from pubweave.sim.overlays.churn import CALM_S, SETTLED_S, ChurnOverlay
from pubweave.sim.overlays.topic_connected import TopicOverlay, repair_of
from pubweave.sim.scenarios.crash_losses import check_sessions, journal_counts
from pubweave.sim.scenarios.routing import RoutingScenario

SILENCE_LIMIT_S = 5.0
PING_EVERY_S = 1.0
FIRST_MEETING_S = 1.5
"""Nothing happens before: who has never heard of anybody but one cannot find the others."""
CONTACT_AGAIN_S = 2.0
IMPATIENT = 0.3
"""The share of clients that go elsewhere if their broker is away for a moment."""
ANSWER_LIMIT_S = 15.0
"""So long a client waits for a broker that it is new to (`ClientCore.silence_limit_s`)."""
CLIENT_EXPIRY_S = 8.0
"""Of clients whose goodbye was lost; others are back sooner."""


class ChurnScenario(RoutingScenario):
    """One run."""

    name = "churn"
    overlay_type: type[TopicOverlay] = ChurnOverlay
    overlay: TopicOverlay
    setting: ChurnSetting  # type: ignore[assignment]

    def __init__(
        self, seed: int, *, max_brokers: int = 14, fault: str | None = None, **options: Any
    ) -> None:
        """As `RoutingScenario`; brokers that are killed for good do not come back either way."""
        self._fault = fault
        self._leaving: dict[BrokerId, int] = {}
        """Brokers that were told to go, and in which incarnation."""
        self._broker_numbers = 0
        self._found_at_join: dict[BrokerId, frozenset[BrokerId]] = {}
        """For each broker that joined, who was there then."""
        self._lost_with_broker = 0
        self.counts: dict[str, int] = {}
        super().__init__(seed, max_brokers=max_brokers, **options)
        self._living: list[SimBroker] = list(self.overlay.brokers.values())
        self._broker_numbers = len(self._living)
        self.faults = Faults(
            self.world,
            self.setting.faults,
            self._living,
            self.overlay.paths,
            on_crash=self._on_crash,
        )
        self.watch = RepairWatch(self.overlay, self.faults, self._living)
        self.overlay.on_told_to_move = self._go_elsewhere
        self.overlay.network.tells_refusals = self.setting.tells_refusals

    def draw_setting(self, max_brokers: int, rtt: Matrix | None) -> Any:
        return ChurnSetting.draw(self.world, max_brokers, self._fault)

    def draw_filter(self) -> Filter:
        topic = self.world.choice(list(self.setting.topics))
        predicates = [Predicate(TOPIC_ATTRIBUTE, Operator.EQ, topic)]
        if self.world.chance(0.2):
            predicates.append(Predicate("x", Operator.GE, self.world.integer(0, 5)))
        return Filter(tuple(predicates))

    def draw_content(self, offered: Filter) -> tuple[str, dict[str, Any]] | None:
        topic = topic_of(offered)
        assert topic is not None
        return topic, {"x": self.world.integer(5, 9)}

    def latency_s(self, link: Link) -> float:
        return self.world.uniform(0.001, 0.04)

    def homes(self) -> list[BrokerId]:
        return [name for name in self.overlay.brokers if name not in self._leaving]

    def _config(self, broker: BrokerId) -> BrokerConfig:
        return BrokerConfig(
            id=broker,
            strategy="topic_connected",
            limits=self.setting.limits,
            ping_every_s=PING_EVERY_S,
            silence_limit_s=SILENCE_LIMIT_S,
            client_expiry_s=CLIENT_EXPIRY_S,
            topics=self.setting.config.patient() if self.is_durable else self.setting.config,
        )

    def run(self) -> RunResult:
        for broker, topics in self.setting.interests.items():
            self._attach_client(broker, topics)
        self.world.run_until(FIRST_MEETING_S)
        self.watch.start()
        return super().run()

    def _attach_client(self, broker: BrokerId, topics: Sequence[str]) -> None:
        """A client that subscribes to some topics, and publishes on some of them."""
        self._client_numbers += 1
        name = f"k{self._client_numbers}"
        limits = self.setting.limits
        client = self.overlay.join(name, broker, latency_s=0.001, limits=limits)
        for topic in topics:
            filter_ = Filter((Predicate(TOPIC_ATTRIBUTE, Operator.EQ, topic),))
            self.overlay.subscribe(client, filter_)
            if self.world.chance(0.4):
                client.core.advertise(filter_)
        client.flush()

    def _burst(self) -> None:
        if self.overlay_type is ChurnOverlay:
            self._join_broker()
            ask_at_rest(self.overlay, self.setting.topics)
            self._come_to_rest()
        super()._burst()

    # --- churn -----------------------------------------------------------------------------

    def _be_active(self) -> None:
        world = self.world
        end = world.now + self.setting.round_s
        for _ in range(self.setting.churn_per_round):
            world.at(world.uniform(world.now, end), self._churn)
        super()._be_active()

    def _churn(self) -> None:
        """A broker joins, leaves or crashes; sometimes several crash at once."""
        dice = float(self.world.rng.random())
        if dice < 0.4 or len(self.homes()) < 2:
            self._join_broker()
        elif dice < 0.6:
            self._leave_broker()
        else:
            for _ in range(self.world.integer(1, 3) if dice > 0.9 else 1):
                self._crash_broker()

    def _count(self, what: str, broker: BrokerId) -> None:
        self.counts[what] = self.counts.get(what, 0) + 1
        self.world.note("churn", f"{what} {broker}")
        if what == "broker_join":
            self.watch.joined()
        else:
            self.watch.happened()

    def _join_broker(self) -> None:
        name = self.next_broker()
        peers = [home for home in self.homes() if self.is_peer(name, home)]
        known = [home for home in peers if self._knows_most(home)] or peers
        contacts = {self.world.choice(known) for _ in range(self.world.integer(1, 2))}
        self._found_at_join[name] = frozenset(self.overlay.brokers)
        self._living.append(self.overlay.join_broker(name, sorted(contacts)))
        self._count("broker_join", name)
        self.world.after(CONTACT_AGAIN_S, self._see_in, name)
        topics = [topic for topic in self.setting.topics if self.world.chance(0.35)]
        self._attach_client(name, topics)

    def next_broker(self) -> BrokerId:
        """The name of a broker that is to join."""
        self._broker_numbers += 1
        return f"b{self._broker_numbers}"

    def is_peer(self, one: BrokerId, other: BrokerId) -> bool:
        """Whether two brokers are of one overlay, if there are several."""
        return True

    def is_spare(self, name: BrokerId) -> bool:
        """Whether a broker may be taken away for good."""
        return True

    def _see_in(self, name: BrokerId) -> None:
        """An operator whose new broker finds nobody (its contacts crashed) names another one."""
        node = self.overlay.brokers.get(name)
        if node is None:
            return
        self.world.after(CONTACT_AGAIN_S, self._see_in, name)
        if not node.is_up():
            return
        others = [home for home in self.homes() if home != name and self.is_peer(name, home)]
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
        found = self._found_at_join[name] & {node.name for node in self._living}
        return not found or bool(self._known_to(name) & found)

    def _knows_most(self, name: BrokerId) -> bool:
        """Whether a broker is part of the overlay, and not of a few who know but each other."""
        peers = [node.name for node in self._living if self.is_peer(name, node.name)]
        return 2 * len(self._known_to(name) & set(peers)) > len(peers)

    def _known_to(self, name: BrokerId) -> AbstractSet[BrokerId]:
        core = self.overlay.brokers[name].known_core
        return set() if core is None else repair_of(core).map.records.keys()

    def _leave_broker(self) -> None:
        names = [name for name in self.homes() if self.is_spare(name)]
        if len(self.homes()) < 2 or not names:
            return
        name = self.world.choice(names)
        self._leaving[name] = -1
        self._count("broker_leave", name)
        for client in self._clients_of(name):
            self.world.after(self.world.uniform(0.0, 1.0), self._go_elsewhere, client)
        self._ask_to_leave(self.overlay.brokers[name])
        self.world.after(WATCH_EVERY_S, self._see_off, name)

    def _ask_to_leave(self, node: SimBroker) -> None:
        """Also again, for a broker that was started anew is to stay."""
        if node.is_up() and self._leaving[node.name] != node.incarnation:
            self._leaving[node.name] = node.incarnation
            node.handle(LeaveRequested())

    def _see_off(self, name: BrokerId) -> None:
        node = self.overlay.brokers.get(name)
        if node is None:
            return
        self._ask_to_leave(node)
        topics = node.core.topics if node.core is not None else None
        if self._clients_of(name) or topics is None or not topics.may_go(self.world.now):
            self.world.after(WATCH_EVERY_S, self._see_off, name)
            return
        is_alone = not any(s.is_established for s in node.broker.sessions.links.values())
        counted = node.broker.counters.publications_lost_at_most
        topics.count_left_behind()
        leaves_something = node.broker.counters.publications_lost_at_most > counted
        self._remove(name)
        if is_alone or leaves_something:
            self._excuse_orphans()

    def _on_crash(self, broker: SimBroker) -> None:
        """A broker with a journal is killed and will come back; some of its clients do not wait."""
        self.watch.happened()
        for client in self._clients_of(broker.name):
            if self.world.chance(IMPATIENT):
                self.world.after(self.world.uniform(0.1, 2.0), self._go_on_elsewhere, client)

    def _go_on_elsewhere(self, client: SimClient) -> None:
        up = [name for name in self.homes() if self.overlay.brokers[name].is_up()]
        if client.name in self.overlay.clients and not client.home.is_up() and up:
            self._attach_elsewhere(client, up)

    def _crash_broker(self) -> None:
        names = [n for n in self.overlay.brokers if self.homes() != [n] and self.is_spare(n)]
        if not names:
            return
        name = self.world.choice(names)
        self._count("broker_crash", name)
        clients = self._clients_of(name)
        for client in clients:
            self.overlay.bereave(client)
        self._remove(name)
        for client in clients:
            self.world.after(self.world.uniform(0.1, 1.0), self._go_elsewhere, client)
        self._excuse_orphans()

    def _remove(self, name: BrokerId) -> None:
        self._living.remove(self.overlay.brokers[name])
        self.overlay.remove_broker(name)
        self._leaving.pop(name, None)
        self.watch.happened()

    def _leave(self) -> None:
        """A client that has not noticed yet that its broker is gone offers nothing again either."""
        before = list(self.overlay.clients.values())
        super()._leave()
        left = [client for client in before if client.name not in self.overlay.clients]
        self._excuse_orphans({c.name for c in left if c.home.name not in self.overlay.brokers})

    def _unadvertise(self) -> None:
        """A publisher without a broker that takes back what it advertised offers nothing again."""
        super()._unadvertise()
        clients = self.overlay.clients.values()
        self._excuse_orphans({c.name for c in clients if not c.core.session.is_established})

    def _excuse_orphans(self, among: AbstractSet[str] | None = None) -> None:
        """What only the crashed broker had, and its publisher cannot offer again: it has left, or
        advertises the topic no more. ``among``: only of these publishers."""
        held = self.overlay.holders()
        for publication, client in self.overlay.checker.undelivered():
            if among is not None and publication.publisher not in among:
                continue
            publisher = self.overlay.clients.get(publication.publisher)
            offers = publisher is not None and offers_again(publisher, publication)
            if publication.key not in held and not offers:
                self._lost_with_broker += 1
                self.overlay.checker.excuse_one(publication, client)

    def _clients_of(self, broker: BrokerId) -> list[SimClient]:
        return [c for c in self.overlay.clients.values() if c.home.name == broker]

    def _go_elsewhere(self, client: SimClient) -> None:
        """As the client library does with several addresses."""
        is_here = client.name in self.overlay.clients
        if is_here and client.home.name not in self.homes():
            self._attach_elsewhere(client, self.homes())

    def _attach_elsewhere(self, client: SimClient, homes: list[BrokerId]) -> None:
        home = self.world.choice(homes)
        self.overlay.bereave(client)
        self.overlay.homes[client.name] = home
        client.attach_to(self.overlay.brokers[home])
        self._await_answer(client, home)

    def _await_answer(self, client: SimClient, home: BrokerId) -> None:
        self.world.after(ANSWER_LIMIT_S, self._try_next, client, home)

    def _try_next(self, client: SimClient, tried: BrokerId) -> None:
        """A broker that is stopped takes connections and says nothing: the client library gives
        such a one up and tries its next address."""
        others = [name for name in self.homes() if name != tried]
        is_here = client.name in self.overlay.clients and client.home.name == tried
        if is_here and not client.core.session.is_established and others:
            self._attach_elsewhere(client, others)

    # --- outcome ---------------------------------------------------------------------------

    def strategy_counts(self) -> dict[str, int]:
        """What is counted of this way to route alone."""
        repairs = [repair_of(node.broker) for node in self._living]
        return {
            "links_opened": sum(repair.repairs for repair in repairs),
            "searches_widened": sum(repair.widened for repair in repairs),
            "acknowledgements_checked": self.overlay.acknowledgements_checked,
            "acknowledged_by_limit": sum(repair.waits.given_up for repair in repairs),
        }

    def _result(self) -> RunResult:
        violations = [
            *self.violations,
            *self.overlay.checker.violations,
            *self.watch.violations,
            *self.overlay.relays,
            *self.overlay.early,
            *(f"refused: {text}" for text in self.overlay.refusals),
        ]
        if self.is_durable:
            violations += check_sessions(self.overlay, self.overlay.gone.values())
        told = [node.broker.counters for node in self._living]
        lost = ("notifications_lost", "notifications_lost_at_most", "publications_lost_at_most")
        counts = {
            "lost_with_broker": self._lost_with_broker,
            **{name: sum(getattr(each, name) for each in told) for name in lost},
            "duplicates_dropped": sum(each.duplicates_dropped for each in told),
            "repairs_watched": len(self.watch.repair_s),
            **self.strategy_counts(),
            **self.counts,
            **journal_counts(self.overlay),
        }
        degrees = self.overlay.degrees()
        measures = {
            "repair_s_max": max(self.watch.repair_s, default=0.0),
            "degree_mean": sum(degrees) / len(degrees),
            "degree_max": float(max(degrees)),
        }
        return self.result_of(violations, counts, measures)


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


# Subscriptions in a topic-connected overlay while nothing breaks: are they acknowledged too
# early?
#
# Under churn nobody can say of an acknowledgement whether it comes too early: what has just
# broken may not be known to the broker yet. At rest it can be said of each. A broker joins, and
# clients subscribe, mostly to topics that are new to their brokers; `ChurnOverlay.acknowledged`
# holds every acknowledgement against the truth of that instant.


ASKED = 8


def ask_at_rest(overlay: TopicOverlay, topics: tuple[str, ...]) -> None:
    """Let clients subscribe, one after the other or nearly at once."""
    world = overlay.world
    world.run_until(world.now + CALM_S)
    for _ in range(ASKED):
        if overlay.clients:
            _subscribe(overlay, overlay.clients[world.choice(list(overlay.clients))], topics)
        world.run_until(world.now + (world.uniform(0.0, SETTLED_S) if world.chance(0.7) else 0.0))


def _subscribe(overlay: TopicOverlay, client: SimClient, topics: tuple[str, ...]) -> None:
    wanted = overlay.wanted_topics()
    fresh = [t for t in topics if client.home.name not in wanted.get(t, ())]
    topic = overlay.world.choice(fresh or list(topics))
    overlay.subscribe(client, Filter((Predicate(TOPIC_ATTRIBUTE, Operator.EQ, topic),)))
    client.flush()
