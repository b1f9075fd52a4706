"""The judge of deliveries finds what is planted in a history, and agrees with a slow twin."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubweave.model.filters.filter import Filter
from pubweave.model.filters.text import parse_filter
from pubweave.model.publications import Publication, make_publication
from pubweave.sim.checkers.delivery import DeliveryJudge, judge
from pubweave.sim.checkers.history import (
    Acknowledged,
    Assured,
    AtRest,
    Attached,
    Crashed,
    Delivered,
    Event,
    History,
    Left,
    Lost,
    Published,
    Subscribed,
    ToldGap,
    ToldMissed,
    Withdrawing,
    Withdrawn,
)
from tests.sim.slow_deliveries import missing_deliveries, wrong_deliveries

WANTED = parse_filter("class = 'T'")


def made(sequence: int, topic: str = "T", **attributes: int) -> Publication:
    return make_publication("p", sequence, topic, attributes, b"", 0.0)


def timed(*events: Callable[[float], Event]) -> History:
    """Events one second apart."""
    return [event(float(at)) for at, event in enumerate(events)]


def publish(sequence: int, topic: str = "T", advertisement: str = "p:1") -> Callable[..., Event]:
    return lambda at: Published(at, made(sequence, topic), advertisement)


def deliver(sequence: int, topic: str = "T") -> Callable[..., Event]:
    return lambda at: Delivered(at, "s", made(sequence, topic))


def subscribe(id_: str = "s:1", wanted: Filter = WANTED) -> Callable[..., Event]:
    return lambda at: Subscribed(at, "s", id_, wanted)


def confirm(id_: str = "s:1") -> Callable[..., Event]:
    return lambda at: Assured(at, "s", (id_,))


def acknowledge(through: int) -> Callable[..., Event]:
    return lambda at: Acknowledged(at, "p", through)


def rest(lost: int = 0, expired: int = 0) -> Callable[..., Event]:
    return lambda at: AtRest(at, lost, expired)


def attach(broker: str = "b", *, is_resumed: bool = False) -> Callable[..., Event]:
    return lambda at: Attached(at, "s", broker, is_resumed)


def lose(*sequences: int) -> Callable[..., Event]:
    return lambda at: Lost(at, frozenset(("p", sequence) for sequence in sequences))


BEGIN = attach(), subscribe(), confirm()

PLANTED = {
    "a loss": ((*BEGIN, publish(1), acknowledge(1), rest()), "never got p#1"),
    "a loss before another that came": (
        (*BEGIN, publish(1), publish(2), deliver(2), acknowledge(2), rest()),
        "never got p#1",
    ),
    "a duplicate": ((*BEGIN, publish(1), deliver(1), deliver(1)), "got p#1 twice"),
    "a late duplicate": (
        (*BEGIN, publish(1), deliver(1), acknowledge(1), rest(), deliver(1)),
        "got p#1 twice",
    ),
    "disorder": ((*BEGIN, publish(1), publish(2), deliver(2), deliver(1)), "out of order"),
    "disorder across topics of one publisher": (
        (
            attach(),
            subscribe(wanted=Filter(())),
            publish(1, "U"),
            publish(2),
            deliver(2),
            deliver(1, "U"),
        ),
        "out of order",
    ),
    "what nobody asked for": ((*BEGIN, publish(1, "U"), deliver(1, "U")), "did not ask for"),
    "what was asked for by another only": (
        (subscribe(), publish(1), lambda at: Delivered(at, "other", made(1))),
        "other got p#1, which it did not ask for",
    ),
    "what nobody published": ((*BEGIN, deliver(7)), "nobody published"),
    "what came for a withdrawn subscription": (
        (
            *BEGIN,
            lambda at: Withdrawing(at, "s", "s:1"),
            lambda at: Withdrawn(at, "s", "s:1"),
            publish(1),
            deliver(1),
        ),
        "did not ask for",
    ),
    "a session lost for no reason": (
        (*BEGIN, attach(), rest()),
        "1 sessions began anew though no broker",
    ),
    "a session lost after a crash that it had survived": (
        (*BEGIN, lambda at: Crashed(at, "b"), attach(is_resumed=True), attach(), rest()),
        "began anew though no broker",
    ),
    "a session lost twice to one crash where it stays": (
        (*BEGIN, lambda at: Crashed(at, "b"), attach(), attach(), rest()),
        "1 sessions began anew though no broker",
    ),
    "a session lost though another broker crashed": (
        (*BEGIN, lambda at: Crashed(at, "elsewhere"), attach(), rest()),
        "began anew though no broker",
    ),
    "a loss that a crash does not explain": (
        (*BEGIN, publish(1), lambda at: Crashed(at, "elsewhere"), lose(2), acknowledge(1), rest()),
        "never got p#1",
    ),
    "a loss after the session that began anew": (
        (
            *BEGIN,
            lambda at: Crashed(at, "b"),
            attach(),
            confirm(),
            publish(1),
            acknowledge(1),
            rest(),
        ),
        "never got p#1",
    ),
    "something counted as lost though all is well": (
        (*BEGIN, publish(1), deliver(1), acknowledge(1), rest(lost=1)),
        "nothing has failed",
    ),
    "a client told of less than it misses": (
        (
            *BEGIN,
            publish(1),
            publish(2),
            lambda at: ToldMissed(at, "s", "p", "T", 1, False),
            acknowledge(2),
            rest(),
        ),
        "never got p#2",
    ),
    "a client told of more than it misses": (
        (
            *BEGIN,
            publish(1),
            deliver(1),
            lambda at: ToldMissed(at, "s", "p", "T", 1, False),
            acknowledge(1),
            rest(),
        ),
        "was told of 1 lost",
    ),
    "a gap that is none": (
        (
            *BEGIN,
            publish(1),
            deliver(1),
            publish(2),
            lambda at: ToldGap(at, "s", "p", "T", 1, 2),
            deliver(2),
            acknowledge(2),
            rest(),
        ),
        "where nothing is missing",
    ),
    "a gap in silence": (
        (
            *BEGIN,
            publish(1),
            deliver(1),
            publish(2),
            lose(2),
            publish(3),
            deliver(3),
            acknowledge(3),
            rest(),
        ),
        "never heard that it missed p#2",
    ),
    "a gap in silence that a later publication had to show": (
        (
            *BEGIN,
            publish(1),
            deliver(1),
            publish(2),
            lose(2),
            acknowledge(2),
            rest(),
            publish(3),
            deliver(3),
            acknowledge(3),
            rest(),
        ),
        "never heard that it missed p#2",
    ),
}


@pytest.mark.parametrize(("planted", "found"), PLANTED.values(), ids=PLANTED)
def test_what_is_planted_is_found_and_nothing_else(
    planted: tuple[Callable[[float], Event], ...], found: str
) -> None:
    (violation,) = judge(timed(*planted)).violations
    assert found in violation


SOUND = {
    "all is well": (*BEGIN, publish(1), deliver(1), acknowledge(1), rest()),
    "not confirmed yet": (attach(), subscribe(), publish(1), confirm(), acknowledge(1), rest()),
    "not confirmed again": (
        *BEGIN, lambda at: Crashed(at, "b"), attach(), publish(1), acknowledge(1), rest()
    ),
    "under no advertisement": (*BEGIN, publish(1, advertisement=""), acknowledge(1), rest()),
    "never acknowledged": (*BEGIN, publish(1), publish(2), deliver(1), acknowledge(1), rest()),
    "never acknowledged, and came": (*BEGIN, publish(1), deliver(1), rest()),
    "withdrawn meanwhile": (
        *BEGIN, publish(1), lambda at: Withdrawing(at, "s", "s:1"), acknowledge(1), rest()
    ),
    "came before the withdrawal was acknowledged": (
        *BEGIN, lambda at: Withdrawing(at, "s", "s:1"), publish(1),
        lambda at: Withdrawn(at, "s", "s:1"), deliver(1), acknowledge(1), rest()
    ),
    "asked for later": (publish(1), *BEGIN, deliver(1), acknowledge(1), rest()),
    "gone": (*BEGIN, publish(1), lambda at: Left(at, "s"), acknowledge(1), rest()),
    "lost with the session": (
        *BEGIN, publish(1), lambda at: Crashed(at, "b"), attach(), acknowledge(1), rest()
    ),
    "lost twice to one crash, when it was being moved": (
        *BEGIN,
        lambda at: Crashed(at, "b"),
        attach(),
        publish(1),
        attach("c"),
        acknowledge(1),
        rest(),
    ),
    "lost with a session that expired": (
        *BEGIN, publish(1), attach(), acknowledge(1), rest(expired=1)
    ),
    "lost with a broker": (
        *BEGIN, publish(1), lambda at: Crashed(at, "b2"), lose(1), acknowledge(1), rest()
    ),
    "told": (
        *BEGIN, publish(1), lambda at: ToldMissed(at, "s", "p", "T", 1, False), acknowledge(1),
        rest()
    ),
    "a gap in what was on its way when it was asked for": (
        *(publish(number) for number in (1, 2, 3)),
        *BEGIN,
        *(deliver(1), lambda at: ToldGap(at, "s", "p", "T", 1, 3), deliver(3)),
        *(acknowledge(3), rest()),
    ),
    "a gap that was told": (
        *BEGIN, publish(1), deliver(1), publish(2), lose(2), publish(3),
        lambda at: ToldGap(at, "s", "p", "T", 1, 3), deliver(3), acknowledge(3), rest()
    ),
}  # fmt: skip


@pytest.mark.parametrize("history", SOUND.values(), ids=SOUND)
def test_what_is_sound_is_no_violation(history: tuple[Callable[[float], Event], ...]) -> None:
    assert judge(timed(*history)).violations == []


def test_wanted_due_and_excused_are_counted() -> None:
    judged = judge(timed(
        attach(), subscribe(), publish(1), confirm(), publish(2), publish(3), lose(2), deliver(1),
        deliver(3), lambda at: ToldGap(at, "s", "p", "T", 1, 3), acknowledge(3), rest()
    ))  # fmt: skip
    assert (judged.wanted, judged.due, judged.excused, judged.violations) == (3, 2, 1, [])
    assert judged.tally["with_broker"] == 1


def test_where_topics_have_routes_of_their_own_order_holds_within_one() -> None:
    history = timed(
        attach(), subscribe(wanted=Filter(())), publish(1, "U"), publish(2), deliver(2),
        deliver(1, "U"),
    )  # fmt: skip
    assert judge(history, by_topic=True).violations == []


def test_what_outlives_its_session_stays_due_at_another_broker() -> None:
    history = timed(*BEGIN, attach("c"), publish(1), acknowledge(1), rest())
    assert judge(history).due == 0
    assert "never got p#1" in judge(history, keeps_subscriptions=True).violations[0]


FILTERS = ["class = 'T'", "class = 'T' and n > 2", "class prefix 'T'", "class = 'U'"]


class Life:
    """A random history of one publisher and two clients, mostly sound."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.history: History = []
        self.said: list[Publication] = []
        self.standing: dict[str, list[str]] = {"a": [], "b": []}
        self.numbers = 0
        for _ in range(self.rng.randint(5, 60)):
            self.step()
        self.add(Acknowledged, "p", len(self.said) - self.rng.choice([0, 0, 1]))
        self.add(AtRest, 0, 99)

    def add(self, kind: type[Event], *of: object) -> None:
        self.history.append(kind(float(len(self.history)), *of))  # type: ignore[arg-type]

    def step(self) -> None:
        rng, dice = self.rng, self.rng.random()
        client = rng.choice(list(self.standing))
        ids = self.standing[client]
        if dice < 0.15:
            self.numbers += 1
            ids.append(f"{client}:{self.numbers}")
            self.add(Subscribed, client, ids[-1], parse_filter(rng.choice(FILTERS)))
        elif dice < 0.3 and ids:
            self.add(Assured, client, (rng.choice(ids),))
        elif dice < 0.35 and ids:
            id_ = ids.pop(rng.randrange(len(ids)))
            self.add(Withdrawing, client, id_)
            if rng.random() < 0.5:
                self.add(Withdrawn, client, id_)
        elif dice < 0.6:
            topic = rng.choice(["T", "T", "TU", "U"])
            self.said.append(made(len(self.said) + 1, topic, n=rng.randint(0, 5)))
            self.add(Published, self.said[-1], "p:1")
        elif dice < 0.9 and self.said:
            self.add(Delivered, client, rng.choice(self.said[-4:]))
        elif dice < 0.92:
            self.add(Attached, client, "b1", rng.random() < 0.5)
        elif dice < 0.94 and self.said:
            self.add(Lost, frozenset({rng.choice(self.said).key}))
        elif dice < 0.96:
            self.add(Acknowledged, "p", len(self.said))
            self.add(AtRest, 0, 99)
        elif dice < 0.97:
            self.add(Left, client)
            del self.standing[client]
            self.standing[f"{client}'"] = []


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_the_judge_agrees_with_its_slow_twin(seed: int) -> None:
    history = Life(seed).history
    # A first attachment is no loss of a session for either.
    history = [
        Attached(-1.0, event.client, "b1", False)
        for event in history
        if isinstance(event, Subscribed)
    ] + history
    judged = judge(history)
    missing, due = missing_deliveries(history)
    assert judged.due == due
    lost = {
        (words[1], int(words[4].split("#")[1].rstrip(",")))
        for text in judged.violations
        if (words := text.split())[2:4] == ["never", "got"]
    }
    assert lost == missing
    twice, disorder, unasked = wrong_deliveries(history)
    found = ("twice", "out of order", "did not ask")
    assert [sum(each in text for text in judged.violations) for each in found] == [
        twice, disorder, unasked,
    ]  # fmt: skip


def test_random_histories_have_all_that_can_go_wrong() -> None:
    """Or the test above would agree about nothing."""
    violations = [text for seed in range(60) for text in judge(Life(seed).history).violations]
    for each in ("never got", "twice", "out of order", "did not ask"):
        assert sum(each in text for text in violations) > 10, each


def test_undelivered_is_what_may_still_come() -> None:
    judged = DeliveryJudge()
    for event in timed(*BEGIN, publish(1), publish(2), deliver(1)):
        judged.take(event)
    assert judged.undelivered() == [made(2)]


@pytest.mark.parametrize("told", [2, 3])
def test_what_is_dropped_early_is_counted_as_often_as_it_is_told(told: int) -> None:
    tell = lambda at: ToldMissed(at, "s", "p", "T", told, True)  # noqa: E731
    history = timed(*BEGIN, publish(1), acknowledge(1), tell, rest(lost=3))
    judged = judge(history, keeps_little=True)
    assert bool(judged.violations) == (told < 3)
    assert judge(history).violations, "where nothing is dropped early, nothing is counted"
