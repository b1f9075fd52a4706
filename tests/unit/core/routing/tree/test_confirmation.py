"""Subscriptions are confirmed when they are in place everywhere, and not before."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from pubweave.core.routing.tree.routing import TreeRouting
from pubweave.model.filters.filter import Filter
from pubweave.model.filters.text import parse_filter
from pubweave.model.messages.session import ConfirmReply, ConfirmRequest
from pubweave.model.publications import Publication, make_publication
from tests.broker_tree import BrokerTree

CHAIN = [("b1", "b2"), ("b2", "b3")]
WANTED = parse_filter("class = 'T'")
PATIENT: dict[str, Any] = {"publisher_wait_s": 1e9, "client_expiry_s": 1e9, "silence_limit_s": 1e9}
FILTERS = [
    WANTED,
    parse_filter("class = 'U'"),
    parse_filter("class = 'T' and n < 5"),
    parse_filter("class = 'T' and n > 3"),
    Filter(()),
]
STRATEGIES = pytest.mark.parametrize("strategy", ["tree", "tree_covering"])


def is_in_place(
    tree: BrokerTree, publisher: str, subscriber: str, publication: Publication
) -> bool:
    """The naive twin: whether a publication would get to a client by the tables of this moment,
    broker by broker, if nothing that is under way arrived. Gates are open ways: they let everything
    out before anything else."""
    waiting = [(tree.homes[publisher], publisher)]
    seen = set()
    while waiting:
        name, origin = waiting.pop()
        seen.add(name)
        broker = tree.brokers[name]
        sessions = {**broker.sessions.links, **broker.sessions.clients}
        for session in broker.routing.route(publication, sessions[origin]):
            if session.is_client:
                if session.remote == subscriber:
                    return True
            elif session.remote not in seen:
                waiting.append((session.remote, name))
    return False


class Life:
    """Random operations on a random tree, with every message under way for a while."""

    def __init__(self, seed: int, strategy: str) -> None:
        self.rng = rng = Random(seed)
        brokers = [f"b{number}" for number in range(1, rng.randint(2, 6) + 1)]
        links = [(rng.choice(brokers[:i]), brokers[i]) for i in range(1, len(brokers))]
        homes = {f"c{number}": rng.choice(brokers) for number in range(rng.randint(2, 5))}
        self.tree = BrokerTree(links, homes, strategy=strategy, **PATIENT)
        self.links = links
        self.looked_at: set[str] = set()
        self.due: dict[tuple[str, tuple[str, int]], None] = {}
        self.expected = 0

    def run(self, steps: int) -> None:
        for _ in range(steps):
            name = self.rng.choice(list(self.tree.clients))
            kind = self.rng.choices(
                ["arrive", "subscribe", "advertise", "withdraw", "publish", "cut", "tick"],
                [60, 6, 5, 4, 12, 1, 5],
            )[0]
            getattr(self, f"_{kind}")(name)
            self._look()
        self.tree.settle(30)
        self._look()

    def _arrive(self, name: str) -> None:
        self.tree.arrive(self.rng)

    def _subscribe(self, name: str) -> None:
        self.tree.clients[name].core.subscribe(self.rng.choice(FILTERS))
        self.tree.flush(name)

    def _advertise(self, name: str) -> None:
        self.tree.clients[name].core.advertise(self.rng.choice(FILTERS))
        self.tree.flush(name)

    def _withdraw(self, name: str) -> None:
        core = self.tree.clients[name].core
        if core.subscriptions and self.rng.random() < 0.5:
            core.unsubscribe(self.rng.choice(list(core.subscriptions)))
        elif core.advertisements:
            core.unadvertise(self.rng.choice(list(core.advertisements)))
        self.due = {
            (client, key): None
            for client, key in self.due
            if client != name or key in self.tree.clients[client].got
        }
        self.tree.flush(name)

    def _cut(self, name: str) -> None:
        if self.links:
            self.tree.connect(*self.rng.choice(self.links))

    def _tick(self, name: str) -> None:
        self.tree.tick(self.rng.choice([0.02, 0.3, 1.0]))

    def _publish(self, name: str) -> None:
        core = self.tree.clients[name].core
        topic, n = self.rng.choice("TU"), self.rng.randint(0, 9)
        try:
            publication = core.publish(topic, {"n": n}, b"", self.tree.now)
        except ValueError:
            return
        for other, client in self.tree.clients.items():
            if any(
                client.core.subscriptions[i].matches(publication) for i in client.core.confirmed
            ):
                self.due[other, publication.key] = None
                self.expected += 1
        self.tree.flush(name)

    def _look(self) -> None:
        """Whoever was just confirmed is reached from every publisher that does not wait."""
        for name, client in self.tree.clients.items():
            for id_ in client.core.confirmed - self.looked_at:
                self.looked_at.add(id_)
                self._check(name, client.core.subscriptions[id_])

    def _check(self, subscriber: str, wanted: Filter) -> None:
        for name in self.tree.clients:
            broker = self.tree.brokers[self.tree.homes[name]]
            session = broker.sessions.clients[name]
            for topic in "TU":
                for n in (1, 4, 8):
                    sample = make_publication(name, 1 << 60, topic, {"n": n}, b"", 0.0)
                    is_due = wanted.matches(sample) and broker.routing.may_publish(sample, session)
                    if is_due and not broker.routing.gate.is_shut(session):
                        assert is_in_place(self.tree, name, subscriber, sample)


@STRATEGIES
def test_what_is_published_after_a_confirmation_arrives(strategy: str) -> None:
    expected = confirmed = 0
    for seed in range(60):
        life = Life(seed, strategy)
        life.run(250)
        missing = [
            (client, key) for client, key in life.due if key not in life.tree.clients[client].got
        ]
        assert not missing, f"seed {seed}: {missing}"
        assert not any(client.gaps for client in life.tree.clients.values()), f"seed {seed}"
        for client in life.tree.clients.values():
            assert client.core.confirmed == set(client.core.subscriptions), f"seed {seed}: stuck"
        expected += life.expected
        confirmed += len(life.looked_at)
    assert expected > 800
    assert confirmed > 300


def chain(**config: Any) -> BrokerTree:
    """A subscriber at b1, a publisher at b3 that has advertised."""
    tree = BrokerTree(CHAIN, {"sub": "b1", "pub": "b3"}, **(PATIENT | config))
    tree.clients["pub"].core.advertise(WANTED)
    tree.flush("pub")
    tree.settle()
    return tree


def subscribe(tree: BrokerTree, filter_: Filter = WANTED) -> str:
    id_ = tree.clients["sub"].core.subscribe(filter_)
    tree.flush("sub")
    return id_


def publish(tree: BrokerTree, topic: str = "T") -> tuple[str, int]:
    publication = tree.clients["pub"].core.publish(topic, {}, b"", tree.now)
    tree.flush("pub")
    return publication.key


@STRATEGIES
def test_a_subscription_is_not_confirmed_before_the_publishers_broker_has_it(strategy: str) -> None:
    tree = chain(strategy=strategy)
    id_ = subscribe(tree)
    rng = Random(1)
    while tree.arrive(rng):
        has_it = id_ in tree.brokers["b3"].routing.subscriptions  # type: ignore[attr-defined]
        assert has_it or id_ not in tree.clients["sub"].core.confirmed
    assert tree.clients["sub"].core.confirmed == {id_}


def test_a_suppressed_subscription_waits_for_the_one_that_covers_it() -> None:
    tree = chain(strategy="tree_covering")
    wide, narrow = subscribe(tree, Filter(())), subscribe(tree)
    rng = Random(1)
    while tree.arrive(rng):
        tables = tree.brokers["b3"].routing.subscriptions  # type: ignore[attr-defined]
        assert narrow not in tables
        assert wide in tables or not tree.clients["sub"].core.confirmed
    assert tree.clients["sub"].core.confirmed == {wide, narrow}


@STRATEGIES
def test_a_subscription_that_no_publisher_is_for_is_confirmed_at_once(strategy: str) -> None:
    tree = chain(strategy=strategy)
    id_ = subscribe(tree, parse_filter("class = 'other'"))
    while tree.arrive(Random(1)):
        pass
    assert tree.clients["sub"].core.confirmed == {id_}


@STRATEGIES
def test_a_broker_that_lost_its_tables_confirms_nothing_before_it_has_them_again(
    strategy: str,
) -> None:
    tree = chain(strategy=strategy)
    tree.restart("b2")
    tree.cut("b2", "b3")
    id_ = subscribe(tree)
    tree.settle(30)
    assert not tree.clients["sub"].core.confirmed, "what is behind b3 is not known at b2"
    tree.connect("b2", "b3")
    tree.settle()
    assert tree.clients["sub"].core.confirmed == {id_}
    key = publish(tree)
    tree.settle()
    assert tree.clients["sub"].got == [key]


@STRATEGIES
def test_two_restarted_brokers_in_a_row_confirm_nothing_too_early(strategy: str) -> None:
    links = [*CHAIN, ("b3", "b4")]
    tree = BrokerTree(links, {"sub": "b1", "pub": "b4"}, strategy=strategy, **PATIENT)
    tree.clients["pub"].core.advertise(WANTED)
    tree.flush("pub")
    tree.settle()
    for name in ("b1", "b2", "b3"):
        tree.restart(name)
    tree.cut("b3", "b4")
    subscribe(tree)
    tree.settle(30)
    assert not tree.clients["sub"].core.confirmed
    tree.connect("b3", "b4")
    tree.settle()
    assert len(tree.clients["sub"].core.confirmed) == 1


@STRATEGIES
def test_a_question_is_asked_anew_when_a_broker_forgot_it(strategy: str) -> None:
    tree = chain(strategy=strategy)
    id_ = subscribe(tree)
    while not tree.brokers["b2"].routing.confirmation._questions:  # type: ignore[attr-defined]
        tree.arrive(Random(1))
    tree.restart("b2")
    tree.settle()
    assert tree.clients["sub"].core.confirmed == {id_}


def test_questions_that_nobody_asks_again_are_forgotten() -> None:
    tree = chain(strategy="tree")
    routing = tree.brokers["b1"].routing
    assert isinstance(routing, TreeRouting)
    (link,) = routing.links
    routing.confirmation.asked_by(link, ConfirmRequest("x:1", WANTED, 5))
    assert len(routing.confirmation._questions) == 1, "the subscription never came"
    tree.settle(30)
    assert not routing.confirmation._questions


def test_a_stale_answer_confirms_nothing() -> None:
    tree = chain(strategy="tree")
    routing = tree.brokers["b1"].routing
    assert isinstance(routing, TreeRouting)
    first = subscribe(tree)
    tree.arrive(Random(1))
    tree.clients["sub"].core.unsubscribe(first)
    second = subscribe(tree)
    while second not in routing.subscriptions:
        tree.arrive(Random(1))
    (link,) = routing.links
    (open_,) = routing.confirmation._questions
    for number in range(open_):
        routing.confirmation.answered_by(link, ConfirmReply(number))
    assert list(routing.confirmation._questions) == [open_]


@STRATEGIES
def test_the_first_publication_behind_an_advertisement_reaches_who_is_confirmed(
    strategy: str,
) -> None:
    tree = BrokerTree(CHAIN, {"sub": "b1", "pub": "b3"}, strategy=strategy, **PATIENT)
    subscribe(tree)
    tree.settle()
    assert tree.clients["sub"].core.confirmed
    tree.clients["pub"].core.advertise(WANTED)
    keys = [publish(tree) for _ in range(3)]
    tree.settle()
    assert tree.clients["sub"].got == keys


def test_what_comes_at_once_is_handled_in_its_order() -> None:
    tree = BrokerTree(CHAIN, {"sub": "b1", "pub": "b3"}, **PATIENT)
    core = tree.clients["pub"].core
    core.advertise(parse_filter("class = 'A'"))
    core.advertise(parse_filter("class = 'B'"))
    short = core.advertise(WANTED)
    core.publish("T", {}, b"", tree.now)
    core.unadvertise(short)
    tree.flush("pub")
    tree.settle()
    routing = tree.brokers["b3"].routing
    assert isinstance(routing, TreeRouting)
    assert short not in routing.advertisements
    assert tree.brokers["b3"].counters.refused == 0


def test_a_wait_that_takes_too_long_ends_and_is_counted() -> None:
    tree = BrokerTree(CHAIN, {"sub": "b1", "pub": "b3"}, **(PATIENT | {"publisher_wait_s": 1.0}))
    tree.cut("b1", "b2")
    tree.clients["pub"].core.advertise(WANTED)
    publish(tree)
    tree.settle(0.4)
    assert tree.clients["pub"].core.session.queue_messages
    tree.settle(4)
    assert not tree.clients["pub"].core.session.queue_messages
    assert tree.brokers["b3"].counters.publisher_waits_over == 1


def test_an_advertisement_that_is_covered_by_an_answered_one_makes_nobody_wait() -> None:
    tree = chain(strategy="tree")
    tree.cut("b2", "b3")
    core = tree.clients["pub"].core
    core.advertise(parse_filter("class = 'T' and n < 5"))
    publish(tree)
    tree.settle(1)
    assert not core.session.queue_messages
    core.advertise(parse_filter("class = 'U'"))
    publish(tree, "U")
    tree.settle(1)
    assert core.session.queue_messages
