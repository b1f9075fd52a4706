"""A broker's part in actions, with neighbors that are scripts."""

from __future__ import annotations

from typing import Any

from pubweave.core.broker import Broker
from pubweave.core.config.broker import BrokerConfig
from pubweave.core.vocabulary.effects import (
    CloseLink,
    DecideAction,
    Effect,
    OpenLink,
    ReportAction,
    Transmit,
)
from pubweave.core.vocabulary.events import (
    ActionDecided,
    ActionRequested,
    ConnectionClosed,
    ConnectionOpened,
    DeadlineReached,
    Event,
    LinkAdded,
    LinkExpected,
    LinkRemoved,
    MessagesReceived,
)
from pubweave.model.filters.text import parse_filter
from pubweave.model.messages.session import (
    LEAVING_SUBJECT,
    PROTOCOL_VERSION,
    ActionKind,
    ActionReserve,
    ActionSignal,
    Advertise,
    Disconnect,
    Goodbye,
    Hello,
    Message,
    Refused,
    Role,
    ShiftTables,
    Signal,
    Subscribe,
    Synced,
    SyncStage,
)
from pubweave.model.plans import Append, Detach, Move, Shift
from pubweave.model.publications import Publication, make_publication

SHIFT = Shift("i", "j", "k")
RESERVE = ActionReserve("plan/0/0", ActionKind.SHIFT, SHIFT.brokers, 1)


class Bench:
    """One broker; each neighbor and client has a connection, numbered in order of arrival."""

    def __init__(self, name: str, *neighbors: str, **config: Any) -> None:
        self.now = 0.0
        self.broker = Broker(BrokerConfig(name, **config), epoch=100, now=0.0)
        self.connections: dict[str, int] = {}
        self.effects: list[Effect] = []
        for neighbor in neighbors:
            self.handle(LinkAdded(neighbor))
            self.meet(neighbor)
            self.hear(neighbor, Synced(SyncStage.SUBSCRIPTIONS))

    def handle(self, event: Event) -> None:
        self.effects = self.broker.handle(event, self.now)

    def meet(self, name: str, role: Role = Role.BROKER) -> None:
        """Somebody connects and says Hello as one who has begun anew."""
        self.connections[name] = number = len(self.connections) + 1 + 100 * int(self.now)
        self.handle(ConnectionOpened(number))
        hello = Hello(
            PROTOCOL_VERSION, role, name, 7 + number, 0, 0, 1 << 20, routing="tree", attempt=number
        )
        self.hear(name, hello)

    def hear(self, name: str, *messages: Message) -> None:
        self.handle(MessagesReceived(self.connections[name], messages, self.now))

    def signal(self, name: str, signal: Signal, attempt: int = 1) -> None:
        self.hear(name, ActionSignal("plan/0/0", signal, attempt))

    def decide(self, committed: bool) -> None:
        self.handle(ActionDecided("plan/0/0", committed))

    def said_to(self, name: str) -> list[Message]:
        return [
            message
            for effect in self.effects
            if isinstance(effect, Transmit) and effect.connection == self.connections.get(name)
            for message in effect.messages
        ]

    def signals_to(self, name: str) -> list[Signal]:
        return [m.signal for m in self.said_to(name) if isinstance(m, ActionSignal)]

    def of(self, *types: type) -> list[Effect]:
        return [effect for effect in self.effects if isinstance(effect, types)]

    def pass_time(self, until: float) -> list[Effect]:
        everything: list[Effect] = []
        while self.broker.next_deadline() <= until:
            self.now = self.broker.next_deadline()
            self.handle(DeadlineReached())
            everything += self.effects
        self.now = until
        self.effects = everything
        return everything

    @property
    def phase(self) -> str:
        action = self.broker.status(self.now).action
        return "none" if action is None else action.phase


def mover_that_holds(**config: Any) -> Bench:
    bench = Bench("i", "j", **config)
    bench.handle(ActionRequested("plan/0/0", SHIFT))
    bench.signal("j", Signal.RESERVED)
    bench.meet("k")
    bench.signal("k", Signal.LINKED)
    return bench


def publish(bench: Bench, sequence: int) -> Publication:
    publication = make_publication("ann", sequence, "T", {}, b"", 0.0)
    bench.hear("ann", publication)
    return publication


def test_a_mover_asks_opens_its_link_falls_silent_and_asks_for_the_commit() -> None:
    bench = Bench("i", "j")
    bench.handle(ActionRequested("plan/0/0", SHIFT))
    assert bench.said_to("j") == [RESERVE]
    assert bench.of(OpenLink) == [], "k is not ready to be dialed yet"
    bench.signal("j", Signal.RESERVED)
    assert bench.of(OpenLink) == [OpenLink("k")]
    bench.meet("k")
    bench.signal("k", Signal.LINKED)
    assert bench.signals_to("j") == [Signal.MARKER]
    assert bench.signals_to("k") == [Signal.QUIET]
    bench.signal("k", Signal.READY)
    assert bench.of(DecideAction) == []
    bench.signal("j", Signal.MARKER)
    assert bench.of(DecideAction) == [DecideAction("plan/0/0", True)]
    bench.decide(True)
    assert bench.signals_to("k")[0] is Signal.COMMITTED
    assert bench.signals_to("j") == [Signal.COMMITTED]
    assert bench.of(CloseLink) == [CloseLink("j")]
    assert [e.done for e in bench.effects if isinstance(e, ReportAction)] == [True]
    assert [link.remote for link in bench.broker.status(0.0).links] == ["k"]


def test_signals_that_come_twice_or_out_of_place_change_nothing() -> None:
    bench = mover_that_holds()
    for signal in (Signal.LINKED, Signal.RESERVED, Signal.QUIET, Signal.BUSY, Signal.READY):
        bench.signal("k", signal)
        bench.signal("k", signal)
    assert bench.phase == "holding"
    bench.signal("j", Signal.MARKER)
    bench.decide(True)
    bench.decide(True)
    bench.decide(False)
    bench.signal("k", Signal.ABORTED)
    assert bench.phase == "none"
    assert [link.remote for link in bench.broker.status(0.0).links] == ["k"]


def test_while_a_mover_holds_publications_wait_and_local_deliveries_go_on() -> None:
    bench = Bench("i", "j")
    bench.meet("ann", Role.CLIENT)
    bench.meet("bob", Role.CLIENT)
    everything = parse_filter("class = 'T'")
    bench.hear("ann", Advertise("ann:1", everything))
    bench.hear("bob", Subscribe("bob:1", everything))
    bench.hear("j", Subscribe("x:1", everything))
    bench.hear("j", Synced(SyncStage.SUBSCRIPTIONS))
    bench.handle(ActionRequested("plan/0/0", SHIFT))
    bench.meet("k")
    bench.signal("k", Signal.LINKED)
    first = publish(bench, 1)
    assert bench.said_to("bob") == [first]
    assert bench.said_to("j") == []
    assert bench.broker.status(0.0).action.held_messages == 1  # type: ignore[union-attr]
    bench.hear("bob", Subscribe("bob:2", parse_filter("class = 'T' and n > 1")))
    bench.signal("k", Signal.READY)
    bench.signal("j", Signal.MARKER)
    second = publish(bench, 2)
    bench.decide(True)
    said = bench.said_to("k")
    assert said[0] == ActionSignal("plan/0/0", Signal.COMMITTED, 1)
    assert [m for m in said if isinstance(m, Publication)] == [first, second]
    third = publish(bench, 3)
    assert bench.said_to("k") == [third]


def test_before_it_asked_for_the_commit_a_mover_gives_up_by_itself() -> None:
    bench = mover_that_holds(hold_limit_s=0.5)
    effects = bench.pass_time(0.6)
    assert [e for e in effects if isinstance(e, DecideAction)] == [
        DecideAction("plan/0/0", False, "i waited too long (holding)")
    ]
    assert bench.signals_to("j") == [Signal.ABORTED]
    assert [e for e in effects if isinstance(e, CloseLink)] == [CloseLink("k")]
    assert bench.phase == "none"


def test_after_it_asked_for_the_commit_a_mover_asks_until_it_is_told() -> None:
    bench = mover_that_holds(hold_limit_s=0.5, ask_again_s=1.0)
    bench.signal("k", Signal.READY)
    bench.signal("j", Signal.MARKER)
    effects = bench.pass_time(3.5)
    asked = [e for e in effects if isinstance(e, DecideAction)]
    assert asked == [DecideAction("plan/0/0", True)] * 3
    assert bench.phase == "ready"
    bench.decide(False)
    assert bench.signals_to("j") == [Signal.ABORTED]


def test_a_busy_answer_is_tried_again_and_a_refusal_is_not() -> None:
    bench = Bench("i", "j")
    bench.handle(ActionRequested("plan/0/0", SHIFT))
    bench.signal("j", Signal.BUSY)
    effects = bench.pass_time(0.5)
    sent = [m for e in effects if isinstance(e, Transmit) for m in e.messages]
    assert ActionReserve("plan/0/0", ActionKind.SHIFT, SHIFT.brokers, 2) in sent
    bench.signal("j", Signal.REFUSED, attempt=1)
    assert bench.phase == "reserving", "that was the answer to the first attempt"
    bench.hear("j", ActionSignal("plan/0/0", Signal.REFUSED, 2, "no link"))
    assert bench.of(DecideAction) == [DecideAction("plan/0/0", False, "no link")]
    assert bench.phase == "none"


def test_an_action_asked_for_twice_is_reported_twice_and_done_once() -> None:
    bench = Bench("i", "j")
    bench.handle(ActionRequested("plan/0/0", Shift("i", "nobody", "k")))
    assert [e.done for e in bench.effects if isinstance(e, ReportAction)] == [False]
    bench.handle(ActionRequested("plan/0/0", Shift("i", "nobody", "k")))
    (report,) = bench.effects
    assert report == ReportAction("plan/0/0", False, "i has no link to nobody")


def test_an_expected_link_is_opened_and_used_for_nothing() -> None:
    bench = Bench("k", "j")
    bench.handle(LinkExpected("plan/0/0", "i"))
    assert bench.of(OpenLink) == [OpenLink("i")]
    bench.handle(LinkExpected("plan/0/0", "i"))
    assert bench.effects == [], "once is enough"
    bench.meet("i")
    assert [type(message) for message in bench.said_to("i")] == [Hello], "no tables are told"
    bench.hear("j", Advertise("ann/1", parse_filter("[class,eq,'T']")))
    assert bench.said_to("i") == []


def test_a_new_peer_whose_link_was_expected_says_so_as_soon_as_it_is_reserved() -> None:
    bench = Bench("k", "j")
    bench.handle(LinkExpected("plan/0/0", "i"))
    bench.meet("i")
    bench.hear("j", RESERVE)
    assert bench.signals_to("j") == [Signal.RESERVED]
    assert bench.signals_to("i") == [Signal.LINKED]
    bench.signal("i", Signal.QUIET)
    assert bench.phase == "holding"


def test_a_new_peer_whose_expected_link_does_not_stand_yet_says_so_when_it_does() -> None:
    bench = Bench("k", "j")
    bench.handle(LinkExpected("plan/0/0", "i"))
    bench.hear("j", RESERVE)
    assert bench.signals_to("j") == [Signal.RESERVED]
    bench.meet("i")
    assert bench.signals_to("i") == [Signal.LINKED]


def test_an_expected_link_whose_connection_is_down_is_told_of_when_it_is_back() -> None:
    """Its session goes on, so it never begins again: what waits for it must be sent at once."""
    bench = Bench("k", "j")
    bench.handle(LinkExpected("plan/0/0", "i"))
    bench.meet("i")
    session = bench.broker.sessions.links["i"]
    bench.handle(ConnectionClosed(bench.connections["i"]))
    bench.hear("j", RESERVE)
    assert not session.is_established
    assert session.queue_messages == 1


def test_a_mover_takes_the_link_over_that_it_expected() -> None:
    bench = Bench("i", "j")
    bench.handle(LinkExpected("plan/0/0", "k"))
    bench.meet("k")
    session = bench.broker.sessions.links["k"]
    bench.handle(ActionRequested("plan/0/0", SHIFT))
    bench.signal("k", Signal.LINKED)
    assert bench.phase == "holding", "the reservation came back over the new link"
    bench.signal("j", Signal.RESERVED)
    bench.signal("j", Signal.MARKER)
    bench.signal("k", Signal.READY)
    bench.decide(committed=True)
    assert bench.broker.sessions.links == {"k": session}


def test_an_expected_link_goes_with_its_action_and_with_no_other() -> None:
    bench = Bench("k", "j")
    bench.handle(LinkExpected("plan/0/0", "i"))
    bench.meet("i")
    bench.handle(ActionDecided("plan/0/7", False))
    assert "i" in bench.broker.sessions.links
    bench.decide(committed=False)
    assert bench.of(CloseLink) == [CloseLink("i")]
    assert list(bench.broker.sessions.links) == ["j"]
    bench.handle(LinkExpected("plan/0/1", "i"))
    assert bench.of(OpenLink) == [OpenLink("i")]


def test_a_link_that_is_there_is_not_expected() -> None:
    bench = Bench("k", "j")
    bench.handle(LinkExpected("plan/0/0", "j"))
    assert bench.effects == []
    bench.decide(committed=False)
    assert list(bench.broker.sessions.links) == ["j"]


def test_a_leaf_that_expects_a_link_may_leave() -> None:
    bench = Bench("b", "n")
    bench.handle(LinkExpected("plan/0/7", "x"))
    bench.hear("n", ActionReserve("plan/0/0", ActionKind.DETACH, ("b", "n"), 1))
    assert bench.phase == "reserved"


def test_a_second_action_waits_for_the_first() -> None:
    bench = mover_that_holds()
    bench.handle(ActionRequested("plan/0/1", Shift("i", "k", "m")))
    assert bench.effects == []
    bench.signal("k", Signal.READY)
    bench.signal("j", Signal.MARKER)
    bench.decide(True)
    said = [m for m in bench.said_to("k") if isinstance(m, ActionReserve)]
    assert [m.action_id for m in said] == ["plan/0/1"]


def test_an_action_that_this_broker_does_not_lead_is_refused() -> None:
    bench = Bench("i", "j")
    bench.handle(ActionRequested("plan/0/0", Move("i", "j", "k", "m")))
    (ask, report) = bench.effects
    assert isinstance(ask, DecideAction)
    assert not ask.commit
    assert isinstance(report, ReportAction)


def test_an_old_peer_hands_over_when_both_markers_came() -> None:
    bench = Bench("j", "i", "k")
    bench.hear("i", Advertise("a:1", parse_filter("class = 'T'")))
    bench.hear("i", RESERVE)
    assert bench.said_to("k")[-1] == RESERVE
    bench.hear("i", RESERVE)
    assert bench.said_to("k") == []
    bench.signal("i", Signal.MARKER)
    bench.signal("i", Signal.MARKER)
    assert bench.phase == "reserved"
    bench.signal("k", Signal.MARKER)
    assert bench.signals_to("i") == [Signal.MARKER]
    tables = [m for m in bench.said_to("k") if isinstance(m, ShiftTables)]
    assert tables[-1].is_last
    assert [m.advertised_by_mover for m in tables if m.advertised_by_mover] == [("a:1",)]


def test_an_old_peer_in_doubt_asks_and_goes_by_the_answer() -> None:
    for committed in (False, True):
        bench = Bench("j", "i", "k", hold_limit_s=0.5)
        bench.hear("i", RESERVE)
        bench.signal("i", Signal.MARKER)
        bench.signal("k", Signal.MARKER)
        effects = bench.pass_time(0.6)
        assert [e.commit for e in effects if isinstance(e, DecideAction)] == [False]
        assert bench.phase == "ready"
        bench.decide(committed)
        links = {link.remote for link in bench.broker.status(0.6).links}
        assert links == ({"k"} if committed else {"i", "k"})


def test_a_broker_in_an_action_is_busy_for_others_and_refuses_what_does_not_fit() -> None:
    bench = Bench("j", "i", "k")
    bench.hear("k", ActionReserve("plan/0/7", ActionKind.SHIFT, ("k", "j", "nobody"), 1))
    assert bench.signals_to("k") == [Signal.REFUSED]
    bench.hear("k", ActionReserve("plan/0/8", ActionKind.SHIFT, ("k", "j"), 1))
    assert bench.signals_to("k") == [Signal.REFUSED]
    bench.hear("i", RESERVE)
    bench.hear("k", ActionReserve("plan/0/9", ActionKind.SHIFT, ("k", "j", "i"), 1))
    assert bench.signals_to("k") == [Signal.BUSY]
    bench.signal("k", Signal.BUSY)
    assert bench.signals_to("i") == [Signal.BUSY]
    assert bench.phase == "none", "given back"


def test_a_link_that_an_action_uses_is_not_removed_under_it() -> None:
    bench = mover_that_holds()
    bench.signal("k", Signal.READY)
    bench.signal("j", Signal.MARKER)
    for neighbor in ("j", "k"):
        bench.handle(LinkRemoved(neighbor))
    bench.decide(True)
    assert [link.remote for link in bench.broker.status(0.0).links] == ["k"]


def test_a_client_may_not_speak_of_actions() -> None:
    bench = Bench("j", "i", "k")
    bench.meet("ann", Role.CLIENT)
    bench.hear("ann", RESERVE)
    (goodbye,) = bench.said_to("ann")
    assert isinstance(goodbye, Disconnect)
    assert bench.phase == "none"


def test_a_joining_broker_and_its_neighbor_link_up_on_the_commit() -> None:
    for own, other in (("b", "n"), ("n", "b")):
        bench = Bench(own)
        bench.handle(ActionRequested("plan/0/0", Append("b", "n")))
        assert bench.of(OpenLink) == [OpenLink(other)]
        bench.meet(other)
        if own == "b":
            assert bench.signals_to("n") == [Signal.LINKED]
            bench.signal("n", Signal.COMMITTED)
        else:
            bench.signal("b", Signal.LINKED)
            assert bench.of(DecideAction) == [DecideAction("plan/0/0", True)]
            bench.decide(True)
        assert Synced(SyncStage.ADVERTISEMENTS) in bench.said_to(other)
        assert [e.done for e in bench.effects if isinstance(e, ReportAction)] == [True]


def test_a_leaving_broker_tells_its_clients_to_move_and_waits_for_them() -> None:
    bench = Bench("b", "n", clients_leave_s=5.0)
    bench.meet("ann", Role.CLIENT)
    bench.meet("$observer-1", Role.CLIENT)
    bench.hear("n", ActionReserve("plan/0/0", ActionKind.DETACH, ("b", "n"), 1))
    (told,) = bench.said_to("ann")
    assert isinstance(told, Refused)
    assert told.subject == LEAVING_SUBJECT
    bench.meet("eve", Role.CLIENT)
    assert any(isinstance(m, Disconnect) for m in bench.said_to("eve"))
    bench.pass_time(1.0)
    assert Signal.MARKER not in bench.signals_to("n")
    bench.hear("ann", Goodbye("moves"))
    bench.pass_time(1.5)
    assert bench.signals_to("n") == [Signal.MARKER]
    bench.decide(True)
    assert bench.of(CloseLink) == [CloseLink("n")]
    bench.handle(ActionRequested("plan/0/1", Append("m", "b")))
    assert [e.commit for e in bench.effects if isinstance(e, DecideAction)] == [False]
    status = bench.broker.status(2.0)
    assert status.links == ()
    assert [client.remote for client in status.clients] == ["$observer-1"]


def test_a_leaving_broker_lets_clients_go_that_stay_for_too_long_and_reopens_if_aborted() -> None:
    bench = Bench("b", "n", clients_leave_s=1.0)
    bench.meet("ann", Role.CLIENT)
    bench.hear("n", ActionReserve("plan/0/0", ActionKind.DETACH, ("b", "n"), 1))
    bench.pass_time(1.5)
    assert any(isinstance(m, Disconnect) for m in bench.said_to("ann"))
    assert bench.signals_to("n") == [Signal.MARKER]
    bench.signal("n", Signal.ABORTED)
    bench.now = 2.0
    bench.meet("eve", Role.CLIENT)
    assert [client.remote for client in bench.broker.status(2.0).clients] == ["eve"]


def test_a_broker_that_left_takes_for_new_what_it_saw_before() -> None:
    """As a leaf it got what may still wait for a restarted broker elsewhere; when it has joined
    again it can be on the way there."""
    bench = Bench("b", "n")
    bench.hear("n", Advertise("ann:1", parse_filter("class = 'T'")))
    publication = make_publication("ann", 7, "T", {}, b"", 0.0)
    for _ in range(2):
        bench.hear("n", publication)
    assert bench.broker.counters.duplicates_dropped == 1
    bench.hear("n", ActionReserve("plan/0/0", ActionKind.DETACH, ("b", "n"), 1))
    bench.pass_time(1.0)
    bench.decide(True)
    bench.handle(ActionRequested("plan/1/0", Append("b", "m")))
    bench.meet("m")
    bench.hear("m", ActionSignal("plan/1/0", Signal.COMMITTED, 1, ""))
    bench.hear("m", publication)
    assert bench.broker.counters.duplicates_dropped == 1
    assert bench.broker.counters.publications_in == 3


def test_a_broker_with_two_links_does_not_leave() -> None:
    bench = Bench("b", "n", "m")
    bench.hear("n", ActionReserve("plan/0/0", ActionKind.DETACH, ("b", "n"), 1))
    assert bench.signals_to("n") == [Signal.REFUSED]
    bench = Bench("n", "b")
    bench.handle(ActionRequested("plan/0/0", Detach("b", "n")))
    bench.signal("b", Signal.REFUSED)
    assert bench.phase == "none"
    assert [link.remote for link in bench.broker.status(0.0).links] == ["b"]
