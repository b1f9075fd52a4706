"""Publishers that move by POP and GRAPE: the real cores in virtual time, on the paper's example."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.relocation import RelocationConfig, RelocationMode
from pubweave.core.config.session import SessionLimits
from pubweave.core.relocation.relocator import Relocator
from pubweave.design.relocation.rules import Preference, Priority
from pubweave.model.filters.text import parse_filter
from pubweave.model.records.status import TraceRequest
from pubweave.model.topology import Topology
from pubweave.sim.kernel.nodes import HandlingTime, SimClient
from pubweave.sim.kernel.world import World
from pubweave.sim.overlays.tree import TreeOverlay

# Figure 1: 1 subscriber at b1, 6 and 3 behind b2 and b4, 15 behind b5, 13 of them behind b6.
LINKS = [("b1", "b2"), ("b2", "b3"), ("b1", "b4"), ("b1", "b5"), ("b5", "b6"), ("b6", "b7"),
         ("b6", "b8")]  # fmt: skip
SUBSCRIBERS = {"b1": 1, "b2": 2, "b3": 4, "b4": 3, "b5": 2, "b6": 5, "b7": 4, "b8": 4}
EVERYTHING = "class = 'STOCK'"
POP = RelocationConfig(RelocationMode.POP, pop_threshold=5, pop_window_s=10.0)
GRAPE = RelocationConfig(RelocationMode.GRAPE, grape_threshold=10, grape_every_s=0.0)


class Market:
    """A publisher at b1 that publishes ten times a second, and subscribers everywhere."""

    def __init__(
        self,
        config: RelocationConfig,
        subscribers: dict[str, int] | None = None,
        filter_: str = EVERYTHING,
        at: str = "b1",
    ) -> None:
        self.overlay = TreeOverlay(
            World(7),
            Topology.from_links(LINKS),
            make_config=lambda name: BrokerConfig(name, relocation=config),
            handling=HandlingTime(0.0, 0.0),
        )
        self.publisher = self.join("pub", at)
        self.publisher.core.advertise(parse_filter(EVERYTHING))
        self.publisher.flush()
        for home, count in (SUBSCRIBERS if subscribers is None else subscribers).items():
            for number in range(count):
                self.subscribe(f"sub-{home}-{number}", home, filter_)
        assert self.overlay.run_until_quiet(30.0)

    def join(self, name: str, home: str) -> SimClient:
        self.overlay.join(name, home, latency_s=0.001, limits=SessionLimits())
        return self.overlay.clients[name]

    def subscribe(self, name: str, home: str, filter_: str) -> None:
        client = self.join(name, home)
        wanted = parse_filter(filter_)
        self.overlay.subscribe(client, wanted)
        client.flush()

    def publish(self, count: int) -> None:
        for number in range(count):
            self.overlay.publish(self.publisher, "STOCK", {"n": number % 10})
            self.pass_time(0.1)

    def pass_time(self, seconds: float) -> None:
        self.overlay.world.run_until(self.overlay.world.now + seconds)

    def relocator(self, broker: str) -> Relocator:
        relocator = self.overlay.brokers[broker].broker.part(Relocator)
        assert relocator is not None
        return relocator

    @property
    def home(self) -> str:
        return self.publisher.home.name

    def messages_out(self) -> int:
        return sum(self.relocator(b).counted().messages_out for b in self.overlay.brokers)

    def check(self) -> None:
        """Nothing was lost, doubled or out of order, and tables are as they should be."""
        assert self.overlay.run_until_quiet(30.0)
        self.overlay.check_deliveries()
        assert self.overlay.judge.violations == []
        assert self.overlay.check_tables() == []


def test_profile_tables_are_those_of_figure_1() -> None:
    market = Market(replace(POP, pop_threshold=1000))
    market.publish(1)
    market.pass_time(2.0)
    tables = {name: market.relocator(name).pop.tables["pub"] for name in market.overlay.brokers}
    assert tables["b1"].averages == {"b2": 6, "b4": 3, "b5": 15}
    assert tables["b1"].own == 1
    assert tables["b5"].averages == {"b6": 13}
    assert tables["b6"].averages == {"b7": 4, "b8": 4}
    assert tables["b6"].upstream == "b5"
    assert tables["b7"].averages == {}
    # One result over each of the seven links.
    assert market.messages_out() == 7


def test_the_running_average_gives_a_quarter_to_the_newest_result() -> None:
    market = Market(replace(POP, pop_threshold=1000), {"b2": 4})
    market.publish(1)
    market.subscribe("late", "b2", EVERYTHING)
    assert market.overlay.run_until_quiet(30.0)
    market.publish(1)
    market.pass_time(2.0)
    table = market.relocator("b1").pop.tables["pub"]
    assert table.averages == {"b2": 0.25 * 5 + 0.75 * 4}


def test_pop_moves_the_publisher_to_the_broker_of_the_example() -> None:
    market = Market(POP)
    market.publish(40)
    assert market.home == "b6"
    assert market.relocator("b1").counted().moves == 1
    market.check()
    market.publish(40)
    assert market.home == "b6"
    market.check()


def test_with_equal_halves_pop_stays() -> None:
    """A strict majority is needed."""
    market = Market(POP, {"b1": 3, "b5": 3})
    market.publish(40)
    assert market.home == "b1"
    assert market.relocator("b1").decisions.selections["pub"].choice == "b1"


def test_pop_traces_at_most_n_publications_in_a_window() -> None:
    market = Market(replace(POP, pop_most_traced=5, pop_threshold=1000, pop_window_s=1e6))
    market.publish(200)
    # Seven results for each; 200 draws fall short of five only by a miracle.
    assert market.messages_out() == 5 * 7


def test_the_first_publication_of_a_window_is_always_traced() -> None:
    market = Market(replace(POP, pop_threshold=1000, pop_most_traced=1, pop_window_s=5.0))
    for _ in range(4):
        market.publish(1)
        market.pass_time(6.0)
    assert market.messages_out() == 4 * 7


def test_grape_gathers_bits_and_deliveries_of_every_broker() -> None:
    market = Market(replace(GRAPE, preference=Preference(Priority.LOAD, 100)), {"b1": 1})
    market.subscribe("low", "b7", "class = 'STOCK' and n = 3")
    market.subscribe("low2", "b7", "class = 'STOCK' and n = 3")
    assert market.overlay.run_until_quiet(30.0)
    market.publish(10)
    market.pass_time(3.0)
    found = market.relocator("b1").decisions.selections["pub"]
    rates = {candidate.broker: candidate.message_rate for candidate in found.candidates}
    # Only what got a publication is asked: ten at b1, one over each hop to b7.
    assert rates == {"b1": 13, "b5": 10 + 10 + 1 + 1, "b6": 10 * 3 + 1, "b7": 10 * 4}
    assert found.choice == "b1"
    assert found.has_pings
    # Three requests, three answers.
    assert market.messages_out() == 6
    assert market.relocator("b7").grape.sessions == {}


def test_grape_moves_for_load_and_for_delay_to_different_brokers() -> None:
    """The database that wants everything at b3, the crowd that wants little at b7."""
    homes = {}
    for priority in Priority:
        market = Market(replace(GRAPE, preference=Preference(priority, 100)), {"b3": 1})
        for number in range(15):
            market.subscribe(f"low{number}", "b7", "class = 'STOCK' and n = 3")
        assert market.overlay.run_until_quiet(30.0)
        market.publish(30)
        market.check()
        homes[priority] = market.home
    assert homes == {Priority.LOAD: "b3", Priority.DELAY: "b7"}


def test_delays_are_the_links_and_pings_the_publishers_own() -> None:
    market = Market(replace(GRAPE, preference=Preference(Priority.DELAY, 100)), {"b5": 2})
    far = {"b1": 0.001, "b5": 0.5}
    market.publisher.latency_to = lambda name: far[name]
    market.pass_time(6.0)
    market.publish(10)
    market.pass_time(3.0)
    found = {c.broker: c for c in market.relocator("b1").decisions.selections["pub"].candidates}
    assert found["b1"].delay_ms == pytest.approx(1 + 20, abs=0.5)
    assert found["b5"].delay_ms == pytest.approx(500, abs=0.5)
    assert market.home == "b1"


def test_a_publisher_of_its_own_mode_and_one_that_is_only_shown() -> None:
    market = Market(RelocationConfig(publishers={"other": RelocationMode.GRAPE}))
    assert market.relocator("b1").is_tagging
    market.publish(20)
    assert market.relocator("b1").counted().decided == 0
    market.relocator("b1").show(
        ["pub"], Preference(Priority.LOAD, 100), TraceRequest("load", 100, 50)
    )
    market.publish(51)
    market.pass_time(3.0)
    found = market.relocator("b1").decisions.selections["pub"]
    assert len(found.candidates) == 8
    assert market.home == "b1"
    assert market.relocator("b1").counted().moves == 0


def test_answers_that_do_not_come_are_given_up() -> None:
    market = Market(replace(GRAPE, answer_limit_s=5.0))
    market.publish(5)
    market.overlay.brokers["b7"].crash()
    market.publish(5)
    market.pass_time(20.0)
    status = market.relocator("b1").counted()
    assert (status.decided, status.given_up) == (0, 1)
    market.overlay.brokers["b7"].start()
    assert market.overlay.run_until_quiet(60.0)
    market.publish(12)
    market.pass_time(3.0)
    assert sum(market.relocator(b).counted().decided for b in market.overlay.brokers) > 0


def test_memory_is_freed_when_a_session_has_been_told() -> None:
    market = Market(GRAPE)
    market.publish(5)
    assert market.relocator("b8").counted().memory_bytes > 0
    market.publish(5)
    market.pass_time(0.5)
    assert market.relocator("b8").counted().memory_bytes == 0


def test_subscribers_who_want_every_tenth_publication_weigh_a_tenth() -> None:
    market = Market(replace(POP, pop_most_traced=4000, pop_threshold=4000), {"b4": 2})
    for number in range(10):
        market.subscribe(f"low{number}", "b2", "class = 'STOCK' and n = 3")
    assert market.overlay.run_until_quiet(30.0)
    market.publish(100)
    market.pass_time(1.0)
    averages = market.relocator("b1").pop.tables["pub"].averages
    assert averages["b4"] == 2
    # The newest of n = 3 was six publications ago.
    assert averages["b2"] == pytest.approx(2.5 * 0.75**6 / (1 - 0.75**10), rel=0.01)


def test_one_that_has_moved_rests_and_is_not_traced_so_long() -> None:
    market = Market(replace(GRAPE, rest_s=30.0), {"b8": 2, "b1": 1})
    market.publish(40)
    assert market.home == "b8"
    said = market.messages_out()
    market.publish(100)
    assert market.messages_out() == said
    market.pass_time(25.0)
    market.publish(20)
    assert market.messages_out() > said
    market.check()


def test_a_move_that_promises_too_little_is_not_made() -> None:
    """At b5 rather than at b1 four of 44 messages less are needed."""
    crowd = {"b1": 1, "b5": 2, "b6": 1}
    eager, calm = Market(GRAPE, crowd), Market(replace(GRAPE, least_gain=0.6), crowd)
    for market in (eager, calm):
        market.publish(60)
    assert (eager.home, calm.home) == ("b5", "b1")
    assert "promises" in calm.relocator("b1").decisions.selections["pub"].reason


def test_sessions_of_a_fast_publisher_are_apart() -> None:
    market = Market(replace(GRAPE, grape_every_s=20.0), {"b1": 1, "b5": 1})
    market.publish(150)
    assert market.messages_out() == 2  # one request, one answer in fifteen seconds
    market.publish(100)
    assert market.messages_out() == 4
