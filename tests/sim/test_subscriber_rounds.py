"""Subscribers that move by themselves, together with GRAPE: real cores in virtual time."""

from __future__ import annotations

from dataclasses import replace

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.relocation import RelocationConfig, RelocationMode
from pubweave.core.config.session import SessionLimits
from pubweave.core.relocation.relocator import Relocator
from pubweave.design.relocation.rules import Preference, Priority
from pubweave.model.filters.text import parse_filter
from pubweave.model.publications import Publication
from pubweave.model.records.status import TraceRequest
from pubweave.model.topology import Topology
from pubweave.sim.kernel.nodes import HandlingTime
from pubweave.sim.kernel.world import World
from pubweave.sim.overlays.tree import TreeOverlay

LINKS = [("b1", "b2"), ("b2", "b3"), ("b3", "b4"), ("b2", "b5")]
CONFIG = RelocationConfig(
    RelocationMode.GRAPE, grape_threshold=10, grape_every_s=0.0, rest_s=1.0, subscribers=True
)


class Town:
    """Publishers by home, and subscribers by home and what they want."""

    def __init__(
        self,
        config: RelocationConfig,
        publishers: dict[str, str],
        subscribers: dict[str, tuple[str, str]],
        latency_ms: dict[tuple[str, str], float] | None = None,
    ) -> None:
        self.overlay = TreeOverlay(
            World(3),
            Topology.from_links(LINKS),
            make_config=lambda name: BrokerConfig(name, relocation=config),
            handling=HandlingTime(0.0, 0.0),
        )
        self.publishers = list(publishers)
        for name, home in publishers.items():
            self._join(name, home)
            self.overlay.clients[name].core.advertise(parse_filter(f"class = '{name}'"))
            self.overlay.clients[name].flush()
        far = latency_ms or {}
        for name, (home, wanted) in subscribers.items():
            self._join(name, home)
            distance_s = {b: far.get((name, b), 1.0) / 1000 for b in self.overlay.brokers}
            self.overlay.clients[name].latency_to = distance_s.__getitem__
            filter_ = parse_filter(wanted)
            self.overlay.subscribe(self.overlay.clients[name], filter_)
            self.overlay.clients[name].flush()
        assert self.overlay.run_until_quiet(30.0)

    def _join(self, name: str, home: str) -> None:
        self.overlay.join(name, home, latency_s=0.001, limits=SessionLimits())

    def publish(self, count: int) -> None:
        for number in range(count):
            for name in self.publishers:
                client = self.overlay.clients[name]
                content = {"n": number % 10}
                self.overlay.publish(client, name, content)
            self.overlay.world.run_until(self.overlay.world.now + 0.1)

    def home(self, client: str) -> str:
        return self.overlay.clients[client].home.name

    def relocator(self, broker: str) -> Relocator:
        relocator = self.overlay.brokers[broker].broker.part(Relocator)
        assert relocator is not None
        return relocator

    def moves(self) -> int:
        return sum(self.relocator(b).rounds.moves for b in self.overlay.brokers)

    def messages(self, count: int = 20) -> int:
        """What brokers take in of so many publications of each."""
        nodes = self.overlay.brokers.values()
        before = sum(node.broker.counters.publications_in for node in nodes)
        self.publish(count)
        return sum(node.broker.counters.publications_in for node in nodes) - before

    def check(self) -> None:
        assert self.overlay.run_until_quiet(30.0)
        self.overlay.check_deliveries()
        assert self.overlay.judge.violations == []
        assert self.overlay.check_tables() == []


ALL, TENTH = "class = 'p'", "class = 'p' and n = 3"
FEW = {"s1": ("b1", ALL), "s2": ("b1", ALL), "s3": ("b4", TENTH), "s4": ("b4", ALL)}


def test_subscribers_come_to_their_publisher_and_then_stay() -> None:
    town = Town(CONFIG, {"p": "b1"}, FEW)
    before = town.messages(8)
    town.publish(60)
    assert {c: town.home(c) for c in FEW} == dict.fromkeys(FEW, "b1")
    moves = town.moves()
    assert moves == 2
    assert town.messages(8) < before / 3
    town.publish(150)
    assert town.moves() == moves
    assert town.home("p") == "b1"
    town.check()


def test_a_broker_takes_no_more_than_its_room() -> None:
    crowd = {"s1": ("b1", ALL), "s3": ("b4", TENTH), "s4": ("b4", TENTH), "s5": ("b5", TENTH)}
    town = Town(replace(CONFIG, most_clients=2), {"p": "b1"}, crowd)
    town.publish(120)
    at = [town.home(client) for client in ("p", *crowd)]
    assert max(at.count(broker) for broker in at) == 2
    assert at.count("b1") == at.count("b2") == 2
    town.check()


def test_off_nobody_but_the_publisher_moves_and_shown_only_nobody_at_all() -> None:
    town = Town(replace(CONFIG, subscribers=False), {"p": "b1"}, FEW)
    town.publish(60)
    assert (town.moves(), town.home("s3")) == (0, "b4")
    quiet = Town(RelocationConfig(), {"p": "b1"}, FEW)
    request = TraceRequest("load", 100, 10, subscribers=True)
    quiet.relocator("b1").show(["p"], Preference(Priority.LOAD, 100), request)
    quiet.publish(30)
    shown = quiet.relocator("b4").decisions.placements
    assert {name: status.choice for name, status in shown.items()} == {"s3": "b1", "s4": "b1"}
    assert shown["s4"].has_pings
    assert {c.broker for c in shown["s4"].candidates} == {"b1", "b2", "b3", "b4"}
    assert {c: quiet.home(c) for c in FEW} == {name: home for name, (home, _) in FEW.items()}
    quiet.check()


def test_one_that_is_near_its_own_broker_and_far_from_others_stays_for_delay() -> None:
    config = replace(CONFIG, preference=Preference(Priority.DELAY, 100))
    far = {("s4", broker): 500.0 for broker in ("b1", "b2", "b3")}
    town = Town(config, {"p": "b1"}, FEW, far)
    town.publish(60)
    assert town.home("s4") == "b4"
    assert town.home("s3") == "b1"
    town.check()


def test_subscribers_of_two_publishers_settle_between_them() -> None:
    both = "class prefix 'p'"
    crowd = {"s1": ("b1", "class = 'p1'"), "s2": ("b4", "class = 'p2'"), "s3": ("b5", both)}
    town = Town(replace(CONFIG, least_gain=0.1), {"p1": "b1", "p2": "b4"}, crowd)
    town.publish(120)
    assert (town.home("p1"), town.home("p2")) == ("b1", "b4")
    # b5 is off the way between them: anywhere on it fewer messages are needed.
    assert town.home("s3") in {"b1", "b2", "b3", "b4"}
    moves = town.moves()
    town.publish(150)
    assert town.moves() == moves
    town.check()


def test_a_forged_place_in_a_trace_takes_no_memory() -> None:
    """A neighbor can say any number; a bit of that place would take all there is."""
    town = Town(CONFIG, {"p": "b1"}, {"s": ("b3", "class = 'p'")})
    relocator = town.overlay.brokers["b3"].broker.part(Relocator)
    assert relocator is not None
    forged = Publication("p", 1 << 62, "p", {}, b"", 0.0, trace=1)
    relocator.rounds.note(forged, ("s",))
    assert not relocator.rounds._noted
