"""Who is sent where: the rule against its naive twin, and a broker that follows it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from pubweave.core.broker import Broker
from pubweave.core.broker_config import BrokerConfig
from pubweave.core.effects import CloseConnection, Effect, Transmit
from pubweave.core.events import ConnectionOpened, DeadlineReached, MessagesReceived
from pubweave.core.placement_config import PlacementConfig
from pubweave.core.rendezvous_placement import Host, best_host
from pubweave.core.rendezvous_upkeep import RendezvousUpkeep
from pubweave.model.filter_text import parse_filter
from pubweave.model.messages import PROTOCOL_VERSION, Hello, Message, Role, Subscribe
from pubweave.model.migration_messages import Redirect, RedirectReply
from pubweave.model.rendezvous_messages import PlacementTold
from tests.naive import dynatops as naive

TOPICS = st.frozensets(st.sampled_from("abcdef"), max_size=5)
HOSTS = st.lists(st.tuples(TOPICS, st.integers(0, 9)), min_size=1, max_size=5)


@given(TOPICS, HOSTS, st.sampled_from([0.0, 0.5, 1.0, 8.0]), st.sampled_from([0.0, 0.25]))
def test_the_best_home_is_that_of_the_naive_twin(
    wanted: frozenset[str],
    drawn: list[tuple[frozenset[str], int]],
    load_weight: float,
    least_gain: float,
) -> None:
    hosts = {f"b{n}": Host(topics, load) for n, (topics, load) in enumerate(drawn)}
    found = best_host(wanted, "b0", hosts, load_weight, least_gain)
    brokers = [(set(topics), load) for topics, load in drawn]
    assert found == f"b{naive.best_home(set(wanted), 0, brokers, load_weight, least_gain)}"


def hello(*, remote_epoch: int = 0, can_move: bool = True, token: str = "") -> Hello:
    return Hello(
        version=PROTOCOL_VERSION,
        role=Role.CLIENT,
        id="k",
        epoch=7,
        remote_epoch=remote_epoch,
        received=0,
        window_bytes=1 << 20,
        attempt=1,
        can_move=can_move,
        token=token,
    )


class Bench:
    """One broker and one client of it, without a network."""

    def __init__(self, **placement: float) -> None:
        config = PlacementConfig(members=("b2", "b3"), load_weight=0.5, **placement)
        self.now = 1.0
        self.broker = Broker(
            BrokerConfig("b1", strategy="rendezvous", placement=config), epoch=1 << 20, now=self.now
        )
        self.broker.sessions.address = "here:1"
        self.effects: list[Effect] = []
        assert isinstance(self.broker.topics, RendezvousUpkeep)
        self.placing = self.broker.topics.placing

    def attach(self, *topics: str, can_move: bool = True) -> None:
        self.broker.handle(ConnectionOpened(1), self.now)
        self.give(hello(can_move=can_move))
        for topic in topics:
            self.give(Subscribe(f"k:{topic}", parse_filter(f"class = '{topic}'")))

    def give(self, message: Message) -> None:
        event = MessagesReceived(1, (message,), self.now)
        self.effects += self.broker.handle(event, self.now)

    def wait(self, seconds: float = 0.3) -> list[Redirect]:
        """What the client is told of other brokers from here on."""
        until = self.now + seconds
        while self.broker.next_deadline() <= until:
            self.now = max(self.now, self.broker.next_deadline())
            self.effects += self.broker.handle(DeadlineReached(), self.now)
        self.now = until
        effects, self.effects = self.effects, []
        sent = [m for e in effects if isinstance(e, Transmit) for m in e.messages]
        self.is_closed = any(isinstance(effect, CloseConnection) for effect in effects)
        return [message for message in sent if isinstance(message, Redirect)]


def test_a_client_is_asked_then_sent_and_forgotten() -> None:
    bench = Bench()
    bench.placing.take("b2", PlacementTold(("x", "y"), 1, "there:2", True))
    bench.placing.take("b3", PlacementTold(("z",), 1, "there:3", True))
    bench.attach("x", "y")
    (asked,) = bench.wait()
    assert (asked.broker, asked.address, asked.is_final) == ("b2", "there:2", False)
    assert "k" in bench.broker.sessions.clients
    bench.give(RedirectReply(asked.token))
    (told,) = bench.wait()
    assert (told.broker, told.is_final, told.token) == ("b2", True, asked.token)
    assert bench.is_closed
    assert "k" not in bench.broker.sessions.clients
    assert not bench.broker.counters.clients_expired
    assert bench.placing.hosts["b2"] == Host(frozenset("xy"), 3)


def test_a_client_that_cannot_reach_the_other_broker_stays() -> None:
    bench = Bench()
    bench.placing.take("b2", PlacementTold(("x",), 1, "there:2", True))
    bench.attach("x")
    (asked,) = bench.wait()
    bench.give(RedirectReply(asked.token, "no way"))
    assert not bench.wait()
    assert "k" in bench.broker.sessions.clients


def test_nobody_is_sent_to_a_broker_that_leaves_or_without_gain() -> None:
    for told in (
        PlacementTold(("x",), 1, "there:2", False),
        PlacementTold(("y",), 1, "there:2", True),
    ):
        bench = Bench()
        bench.placing.take("b2", PlacementTold(("x",), 1, "there:2", True))
        bench.placing.take("b2", told)
        bench.attach("x")
        assert not bench.wait()


def test_a_client_that_cannot_move_is_left_alone() -> None:
    bench = Bench()
    bench.placing.take("b2", PlacementTold(("x",), 1, "there:2", True))
    bench.attach("x", can_move=False)
    assert not bench.wait()


def test_whoever_was_sent_here_rests_before_it_is_looked_at_again() -> None:
    bench = Bench(rest_s=5.0)
    bench.placing.take("b2", PlacementTold(("x",), 1, "there:2", True))
    bench.broker.handle(ConnectionOpened(1), bench.now)
    bench.give(hello(remote_epoch=3, token="place:b3:1:1"))
    bench.give(Subscribe("k:x", parse_filter("class = 'x'")))
    assert not bench.wait(4.0)
    assert bench.wait(2.0)
