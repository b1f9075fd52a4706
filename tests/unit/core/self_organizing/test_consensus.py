"""The consensus on an exchange: costs add up along the ring, locks come and go, nobody waits."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import msgspec
import pytest

from pubweave.core.config.self_organizing import OrganizeConfig
from pubweave.core.config.session import SessionLimits
from pubweave.core.self_organizing.consensus import (
    EXCHANGE_S,
    HALF_LIFE_S,
    MOST_PATIENCE_INTERVALS,
    PATIENCE_INTERVALS,
    ExchangeConsensus,
)
from pubweave.core.self_organizing.cycle_cost_by_interest import CycleRefusal, DesiredLink
from pubweave.core.self_organizing.neighborhood import Known
from pubweave.core.session.session import RemoteProtocolError, Session
from pubweave.core.vocabulary.effects import ProposeExchange
from pubweave.design.ci.rules import Estimate, Heuristic
from pubweave.model.ids import Link
from pubweave.model.messages.session import ExchangeReply, ExchangeRequest, Verdict

PATH = ("b1", "b2", "b3", "b4")
CONFIG = OrganizeConfig(interval_s=5.0, lock_s=10.0, least_gain=0.0)


class FakeInside:
    """What requests use of a broker."""

    def __init__(self, own: str, neighbors: Sequence[str]) -> None:
        self.id = own
        self.links = {
            n: Session(n, own_epoch=1, is_client=False, limits=SessionLimits()) for n in neighbors
        }
        self.emitted: list[Any] = []

    def link(self, neighbor: str) -> Session | None:
        return self.links.get(neighbor)

    def is_linked(self, neighbor: str) -> bool:
        return neighbor in self.links

    def emit(self, effect: Any) -> None:
        self.emitted.append(effect)


class FakeView:
    """A member's view that the test decides; it adds ``weight`` bytes to requests, too."""

    renewal_s = 2.0

    def __init__(self, rule: str) -> None:
        self.rule = rule
        self.answer: list[float] | None = [1.0, 0.5, 1.0, 2.0]
        self.can_sum = True
        self.weight = 0

    def opened(self, request: ExchangeRequest) -> ExchangeRequest | None:
        nothing = (0.0,) * len(request.brokers)
        added = self.added(msgspec.structs.replace(request, costs=nothing))
        return added if isinstance(added, ExchangeRequest) else None

    def fault(self, request: ExchangeRequest, member: int) -> str:
        return "" if len(request.costs) == len(request.brokers) else "its costs do not add up"

    def added(self, request: ExchangeRequest) -> ExchangeRequest | CycleRefusal:
        if self.answer is None:
            return CycleRefusal(Verdict.DECLINED, "it knows too little")
        costs = tuple(sum(pair) for pair in zip(request.costs, self.answer, strict=True))
        sides = (*request.sides, b"x" * self.weight)
        return msgspec.structs.replace(request, costs=costs, sides=sides)

    def ready_in_s(self, now: float) -> float:
        return 0.0

    def removal_costs(self, request: ExchangeRequest) -> tuple[float, ...] | None:
        return request.costs if self.can_sum else None


class Brokers:
    """The brokers of a path, with messages that arrive at once or when told."""

    def __init__(self, config: OrganizeConfig = CONFIG) -> None:
        self.insides: dict[str, FakeInside] = {}
        self.requests: dict[str, ExchangeConsensus] = {}
        self.costs: dict[str, FakeView] = {}
        self.in_action: set[str] = set()
        self.changed: list[tuple[str, Link | None]] = []
        self.under_way: deque[tuple[str, str, ExchangeRequest | ExchangeReply]] = deque()
        self.refused: list[str] = []
        self.locked: list[str] = []
        self.now = 0.0
        for place, name in enumerate(PATH):
            near = [PATH[p] for p in (place - 1, place + 1) if 0 <= p < len(PATH)]
            self._add(name, near, config)

    def _add(self, name: str, near: list[str], config: OrganizeConfig) -> None:
        inside = self.insides[name] = FakeInside(name, near)
        costs = self.costs[name] = FakeView(config.heuristic.value)
        self.requests[name] = ExchangeConsensus(
            inside,  # type: ignore[arg-type]
            config,
            costs,  # type: ignore[arg-type]
            epoch=7,
            send=lambda link, message: self.under_way.append((name, link.remote, message)),
            is_in_action=lambda now: name in self.in_action,
            on_changed=lambda link: self.changed.append((name, link)),
            price=lambda: 1.0,
            on_refused=lambda now: self.refused.append(name),
            on_locked=lambda busy_s, gain: self.locked.append(name),
        )

    def ask(self, path: tuple[str, ...] = PATH) -> bool:
        links = len(path) - 1
        known = Known(path, (1.0,) * links, (1.0,) * links, (1.0,) * links, 5.0)
        return self.requests[path[0]].ask(DesiredLink(known, 1.0, 1.0), self.now)

    def deliver(self, count: int = 100) -> None:
        while self.under_way and count:
            count -= 1
            sender, receiver, message = self.under_way.popleft()
            origin = self.insides[receiver].links[sender]
            if isinstance(message, ExchangeRequest):
                self.requests[receiver].receive_request(origin, message, self.now)
            else:
                self.requests[receiver].receive_reply(origin, message, self.now)

    def free(self) -> list[str]:
        return [name for name in PATH if not self.requests[name].why_not(self.now)[0]]

    def proposals(self) -> list[ProposeExchange]:
        return [e for name in PATH for e in self.insides[name].emitted]

    def exchange_links(self, removed: tuple[str, str]) -> None:
        """What carrying an exchange out does to the sessions."""
        one, other = removed
        del self.insides[one].links[other], self.insides[other].links[one]
        for near, far in ((PATH[0], PATH[-1]), (PATH[-1], PATH[0])):
            self.insides[near].links[far] = Session(
                far, own_epoch=1, is_client=False, limits=SessionLimits()
            )


@pytest.fixture
def brokers() -> Brokers:
    return Brokers()


def test_the_last_broker_hands_over_the_exchange_of_the_link_that_costs_most(
    brokers: Brokers,
) -> None:
    assert brokers.ask()
    brokers.deliver()
    assert brokers.proposals() == [ProposeExchange("b1.7.1", PATH, Link("b2", "b3"))]
    assert brokers.insides["b4"].emitted
    assert brokers.free() == []
    counted = [brokers.requests[name].counters for name in PATH]
    assert sum(c.proposed for c in counted) == sum(c.agreed for c in counted) == 1


def test_the_removal_that_serves_all_together_is_chosen_not_that_of_whoever_asks(
    brokers: Brokers,
) -> None:
    brokers.costs["b1"].answer = [0.0, 5.0, 5.0, 6.0]
    for name in PATH[1:]:
        brokers.costs[name].answer = [9.0, 5.0, 4.0, 6.0]
    brokers.ask()
    brokers.deliver()
    assert [p.removed for p in brokers.proposals()] == [Link("b3", "b4")]


def test_nothing_happens_where_the_proposed_link_is_the_one_to_drop(brokers: Brokers) -> None:
    for name in PATH:
        brokers.costs[name].answer = [2.0, 2.0, 2.0, 1.0]
    brokers.ask()
    brokers.deliver()
    assert brokers.proposals() == []
    assert brokers.free() == list(PATH)
    assert brokers.requests["b1"].counters.declined == 1
    assert brokers.refused == ["b1"]


def test_what_was_declined_is_asked_again_later_and_later_but_at_once_on_another_way(
    brokers: Brokers,
) -> None:
    for name in PATH:
        brokers.costs[name].answer = [2.0, 2.0, 2.0, 1.0]
    asking, waits = brokers.requests["b1"], []
    for _ in range(6):
        begun = brokers.now
        brokers.ask()
        brokers.deliver()
        assert asking.may_ask_for(("b1", "b2", "b4"), brokers.now)
        while not asking.may_ask_for(PATH, brokers.now):
            brokers.now += CONFIG.interval_s
            asking.cool(brokers.now)
        waits.append(round((brokers.now - begun) / CONFIG.interval_s))
    assert waits == [PATIENCE_INTERVALS * 2**n for n in range(3)] + 3 * [MOST_PATIENCE_INTERVALS]


def test_by_interest_nobody_is_patient() -> None:
    brokers = Brokers(OrganizeConfig(interval_s=5.0, estimate=Estimate.OVERLAP))
    for name in PATH:
        brokers.costs[name].answer = [2.0, 2.0, 2.0, 1.0]
    brokers.ask()
    brokers.deliver()
    assert brokers.requests["b1"].counters.declined == 1
    assert brokers.requests["b1"].may_ask_for(PATH, brokers.now)


def test_a_broker_that_knows_too_little_declines_and_all_are_let_go(brokers: Brokers) -> None:
    brokers.costs["b3"].answer = None
    brokers.ask()
    brokers.deliver()
    assert brokers.proposals() == []
    assert brokers.free() == list(PATH)


def test_a_broker_that_cannot_price_the_whole_declines_and_all_are_let_go(
    brokers: Brokers,
) -> None:
    brokers.costs["b4"].can_sum = False
    brokers.ask()
    brokers.deliver()
    assert brokers.proposals() == []
    assert brokers.free() == list(PATH)
    assert brokers.requests["b1"].counters.declined == 1


@pytest.mark.parametrize("heavy", ["b1", "b3"])
def test_a_request_that_would_fill_a_link_s_window_goes_no_further(
    brokers: Brokers, heavy: str
) -> None:
    for inside in brokers.insides.values():
        for link in inside.links.values():
            link.remote_window_bytes = 4_000
    brokers.costs[heavy].weight = 1_000
    assert brokers.ask() == (heavy != "b1")
    brokers.deliver()
    assert brokers.proposals() == []
    assert brokers.free() == list(PATH)
    brokers.costs[heavy].weight = 100
    brokers.now = 100.0
    assert brokers.ask()
    brokers.deliver()
    assert brokers.proposals()


def test_after_an_exchange_all_brokers_of_the_ring_hear_of_it_though_a_link_is_gone(
    brokers: Brokers,
) -> None:
    brokers.ask()
    brokers.deliver()
    brokers.exchange_links(("b2", "b3"))
    brokers.now = 1.0
    brokers.requests["b4"].ended("b1.7.1", True, "", brokers.now)
    brokers.deliver()
    assert sorted(brokers.changed) == [(name, Link("b2", "b3")) for name in PATH]
    assert brokers.free() == list(PATH)
    assert brokers.requests["b4"].counters.done == 1


@pytest.mark.parametrize("limit", [1, 2])
def test_exchanges_per_interval_can_be_limited(limit: int) -> None:
    brokers = Brokers(replace(CONFIG, exchanges=limit))
    for number in range(1, limit + 1):
        brokers.now = 100.0 + number
        assert brokers.free() == list(PATH)
        brokers.ask()
        brokers.deliver()
        brokers.requests["b4"].ended(f"b1.7.{number}", True, "", brokers.now)
        brokers.deliver()
    assert brokers.free() == []
    brokers.now = 101.0 + CONFIG.interval_s
    assert brokers.free() == list(PATH)


def test_a_weak_exchange_waits_for_better_ones(brokers: Brokers) -> None:
    """Sums over four brokers: removing the second link gains 6."""
    decider = brokers.requests["b4"]
    decider.note_gain(24.0, brokers.now)
    brokers.ask()
    brokers.deliver()
    assert brokers.proposals() == []
    assert brokers.requests["b1"].counters.declined == 1
    brokers.now = 2.0 * HALF_LIFE_S - 0.1
    assert not brokers.requests["b1"].may_ask_for(PATH, brokers.now)
    brokers.now = 2.0 * HALF_LIFE_S + 0.1
    assert brokers.requests["b1"].may_ask_for(PATH, brokers.now)
    brokers.ask()
    brokers.deliver()
    assert brokers.proposals()


def test_who_is_busy_says_for_how_long_and_is_left_alone_so_long(brokers: Brokers) -> None:
    brokers.ask()
    brokers.deliver()
    assert sorted(brokers.locked) == list(PATH)
    brokers.requests["b1"]._rings.clear()  # it alone has forgotten
    brokers.ask()
    brokers.deliver()
    assert brokers.requests["b1"].counters.busy == 1
    asking, free_at = brokers.requests["b1"], EXCHANGE_S + FakeView.renewal_s
    assert not asking.may_ask_for(PATH, free_at - 0.1)
    assert asking.may_ask_for(("b1", "b3", "b4"), 0.0)
    assert asking.may_ask_for(PATH, free_at)


def test_an_exchange_that_fails_lets_all_go_and_no_link_is_forgotten(brokers: Brokers) -> None:
    brokers.ask()
    brokers.deliver()
    brokers.requests["b4"].ended("b1.7.1", False, "why", 0.0)
    brokers.deliver()
    assert brokers.free() == list(PATH)
    assert brokers.changed == []
    assert brokers.requests["b4"].counters.failed == 1


def test_requests_pass_each_other_and_an_agreed_one_locks(brokers: Brokers) -> None:
    brokers.ask()
    brokers.ask(tuple(reversed(PATH)))
    brokers.deliver(count=4)
    assert brokers.free() == list(PATH)
    brokers.deliver()
    assert brokers.free() == []
    assert len(brokers.proposals()) == 2  # the store carries one of them out


@pytest.mark.parametrize("busy", ["b2", "b3", "b4"])
def test_a_broker_in_an_action_takes_part_in_nothing(brokers: Brokers, busy: str) -> None:
    brokers.in_action.add(busy)
    brokers.ask()
    brokers.deliver()
    assert brokers.proposals() == []
    brokers.in_action.clear()
    assert brokers.free() == list(PATH)


def test_a_broker_that_is_paused_takes_part_in_nothing(brokers: Brokers) -> None:
    brokers.requests["b3"].is_paused = True
    brokers.ask()
    brokers.deliver()
    assert brokers.proposals() == []
    assert brokers.free() == ["b1", "b2", "b4"]


def test_a_lock_whose_end_was_lost_lapses(brokers: Brokers) -> None:
    brokers.ask()
    brokers.deliver(count=5)
    brokers.under_way.clear()  # b1 is cut off
    assert brokers.free() == ["b1"]
    brokers.now = CONFIG.lock_s
    assert brokers.free() == list(PATH)


def test_a_way_that_is_no_more_is_refused(brokers: Brokers) -> None:
    del brokers.insides["b3"].links["b4"]
    brokers.ask()
    brokers.deliver()
    assert brokers.proposals() == []
    assert brokers.free() == list(PATH)


def test_a_broker_with_another_heuristic_declines() -> None:
    brokers = Brokers()
    other = Brokers(OrganizeConfig(heuristic=Heuristic.MST))
    brokers.requests["b2"] = other.requests["b2"]
    other.under_way = brokers.under_way
    brokers.ask()
    brokers.deliver()
    assert brokers.requests["b1"].counters.declined == 1


def test_damping_asks_for_more_after_every_change() -> None:
    damped = Brokers(OrganizeConfig(damping=True, least_gain=0.1, interval_s=5.0))
    decider = damped.requests["b4"]
    assert decider.least_gain == pytest.approx(0.1)
    for number in (1, 2):
        damped.now = 100.0 * number
        damped.ask()
        damped.deliver()
        decider.ended(f"b1.7.{number}", True, "", damped.now)
        damped.under_way.clear()
    assert decider.least_gain == pytest.approx(0.3)
    decider.cool(300.0)
    assert decider.least_gain == pytest.approx(0.2)


@pytest.mark.parametrize(
    "ring",
    [
        ("b1", "b2"),
        ("b1", "b1", "b2"),
        ("b1", "b2", *(f"b{n}" for n in range(3, 19))),
        ("b1", "b3", "b4"),
    ],
)
def test_a_ring_that_is_none_is_a_breach_of_the_protocol(
    brokers: Brokers, ring: tuple[str, ...]
) -> None:
    size = (1.0,) * len(ring)
    request = ExchangeRequest("x", "ci", ring, size, size, size)
    with pytest.raises(RemoteProtocolError, match="ring"):
        brokers.requests["b2"].receive_request(brokers.insides["b2"].links["b1"], request, 0.0)


def test_costs_that_are_none_are_a_breach_of_the_protocol(brokers: Brokers) -> None:
    request = ExchangeRequest("x", "ci", PATH, (1.0,) * 4, (1.0,) * 4, (1.0,) * 3)
    with pytest.raises(RemoteProtocolError, match="ring"):
        brokers.requests["b2"].receive_request(brokers.insides["b2"].links["b1"], request, 0.0)


def test_a_reply_about_a_link_beyond_the_ring_is_a_breach_of_the_protocol(
    brokers: Brokers,
) -> None:
    brokers.ask()
    reply = ExchangeReply("b1.7.1", Verdict.DONE, "", 3)
    with pytest.raises(RemoteProtocolError, match="ring"):
        brokers.requests["b1"].receive_reply(brokers.insides["b1"].links["b2"], reply, 0.0)
