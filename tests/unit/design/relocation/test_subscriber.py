"""Where subscribers should be: the priced moves against everything counted anew."""

from __future__ import annotations

import dataclasses
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubweave.design.relocation.rules import Preference, Priority
from pubweave.design.relocation.subscriber import (
    PlacedSubscriber,
    SubscriberPlacement,
    SubscriberProblem,
)
from pubweave.design.tree.traffic import DesignError
from pubweave.model.topology import Topology
from tests.naive.relocation import messages_of_placement, place_subscribers

LOAD, DELAY = Preference(Priority.LOAD, 100), Preference(Priority.DELAY, 100)


@st.composite
def problems(draw: st.DrawFn) -> SubscriberProblem:
    count = draw(st.integers(2, 7))
    links = [(f"b{draw(st.integers(0, n - 1))}", f"b{n}") for n in range(1, count)]
    topology = Topology.from_links(links)
    brokers = sorted(topology.brokers)
    publishers = {f"p{n}": draw(st.sampled_from(brokers)) for n in range(draw(st.integers(1, 3)))}
    subscribers = tuple(
        PlacedSubscriber(
            f"s{number}",
            draw(st.sampled_from(brokers)),
            draw(st.dictionaries(st.sampled_from(sorted(publishers)), st.integers(0, 31))),
            {broker: float(draw(st.integers(0, 8))) for broker in brokers},
        )
        for number in range(draw(st.integers(1, 5)))
    )
    hop_ms = {way: 1.0 for a, b in links for way in ((a, b), (b, a))}
    return SubscriberProblem(
        topology, hop_ms, publishers, subscribers, draw(st.integers(1, 6)), LOAD
    )


def placed(problem: SubscriberProblem, moves: dict[str, str]) -> dict[str, str]:
    return {s.client: moves.get(s.client, s.broker) for s in problem.subscribers}


@settings(deadline=None, max_examples=150)
@given(problems())
def test_moves_for_load_never_add_messages_and_respect_the_room(
    problem: SubscriberProblem,
) -> None:
    moves = place_subscribers(problem)
    before = messages_of_placement(problem, placed(problem, {}))
    after = messages_of_placement(problem, placed(problem, moves))
    assert after <= before
    homes = [*placed(problem, moves).values(), *problem.publisher_at.values()]
    for client, broker in moves.items():
        assert homes.count(broker) <= problem.most_clients, client


@settings(deadline=None, max_examples=100)
@given(problems())
def test_afterwards_no_single_move_saves_a_message(problem: SubscriberProblem) -> None:
    at = placed(problem, place_subscribers(problem))
    now = messages_of_placement(problem, at)
    homes = [*at.values(), *problem.publisher_at.values()]
    for client in at:
        for broker in sorted(problem.topology.brokers):
            if broker != at[client] and homes.count(broker) < problem.most_clients:
                assert messages_of_placement(problem, {**at, client: broker}) >= now


@settings(deadline=None, max_examples=60)
@given(problems(), st.integers(0, 31))
def test_what_others_want_is_what_subscribers_want_that_cannot_move(
    problem: SubscriberProblem, who: int
) -> None:
    """Brokers know each other's clients only together: bits by broker, and how many there are."""
    fixed = [s for n, s in enumerate(problem.subscribers) if who >> n & 1]
    movable = tuple(s for s in problem.subscribers if s not in fixed)
    named = tuple(
        dataclasses.replace(s, ping_ms={}) if s in fixed else s for s in problem.subscribers
    )
    others: dict[str, dict[str, int]] = {}
    for subscriber in fixed:
        for publisher, bits in subscriber.wanted.items():
            at = others.setdefault(publisher, {})
            at[subscriber.broker] = at.get(subscriber.broker, 0) | bits
    homes = [*(s.broker for s in problem.subscribers), *problem.publisher_at.values()]
    together = dataclasses.replace(
        problem, subscribers=movable, others=others, clients_at=Counter(homes)
    )
    moves = place_subscribers(dataclasses.replace(problem, subscribers=named))
    assert place_subscribers(together) == moves


@settings(deadline=None, max_examples=60)
@given(problems(), st.sampled_from([0.0, 0.2, 0.5]))
def test_every_move_promises_at_least_what_is_asked_for(
    problem: SubscriberProblem, least_gain: float
) -> None:
    placement = SubscriberPlacement(dataclasses.replace(problem, least_gain=least_gain))
    for client in list(placement.subscribers):
        at = {c: s.broker for c, s in placement.subscribers.items()}
        before = messages_of_placement(problem, at)
        selection = placement.choose(client)
        if selection.moves:
            assert selection.gain >= least_gain
            placement.move(client, selection.choice)
            after = messages_of_placement(problem, at | {client: selection.choice})
            rates = [selection.of(b).message_rate for b in (at[client], selection.choice)]
            # What it added less is what all of them need less.
            assert before - after == rates[0] - rates[1]


def chain(most_clients: int, preference: Preference = LOAD) -> SubscriberProblem:
    """A publisher at b1, two subscribers with the same wishes at b3, one of another at b3."""
    topology = Topology.from_links([("b1", "b2"), ("b2", "b3")])
    far = {"b1": 0.0, "b2": 0.0, "b3": 0.0}
    wishes = (0b0011, 0b0011, 0b1100)
    return SubscriberProblem(
        topology,
        {way: 5.0 for a, b in topology.links for way in ((a, b), (b, a))},
        {"p": "b1"},
        tuple(PlacedSubscriber(f"s{n}", "b3", {"p": w}, far) for n, w in enumerate(wishes)),
        most_clients,
        preference,
    )


def test_with_room_all_go_to_the_publisher() -> None:
    assert set(place_subscribers(chain(9)).values()) == {"b1"}
    assert set(place_subscribers(chain(9, DELAY)).values()) == {"b1"}


def test_with_little_room_all_come_as_near_as_they_can() -> None:
    problem = chain(2)
    moves = place_subscribers(problem)
    assert moves == {"s0": "b1", "s1": "b2", "s2": "b2"}
    assert messages_of_placement(problem, placed(problem, {})) == 4 * 3
    assert messages_of_placement(problem, placed(problem, moves)) == 4 * 2


def test_a_subscriber_that_gets_nothing_stays_and_room_must_be() -> None:
    idle = PlacedSubscriber("s", "b3", {"p": 0}, {"b1": 0.0})
    problem = chain(9)
    quiet = SubscriberProblem(problem.topology, {}, {"p": "b1"}, (idle,), 9, LOAD)
    assert place_subscribers(quiet) == {}
    with pytest.raises(DesignError, match="most_clients"):
        chain(0)


def test_a_hundred_subscribers_save_what_the_count_says() -> None:
    rng = np.random.default_rng(3)
    topology = Topology.from_links([(f"b{(n - 1) // 2}", f"b{n}") for n in range(1, 31)])
    brokers = sorted(topology.brokers)
    problem = SubscriberProblem(
        topology,
        {},
        {f"p{n}": str(rng.choice(brokers)) for n in range(5)},
        tuple(
            PlacedSubscriber(
                f"s{n}",
                str(rng.choice(brokers)),
                {f"p{n % 5}": int(rng.integers(1, 2**20))},
                dict.fromkeys(brokers, 0.0),
            )
            for n in range(100)
        ),
        6,
        LOAD,
    )
    before = messages_of_placement(problem, placed(problem, {}))
    after = messages_of_placement(problem, placed(problem, place_subscribers(problem)))
    assert after < 0.7 * before
