"""Two sessions joined by a wire that can lose everything on its way."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubweave.core.config.session import SessionLimits
from pubweave.core.session.session import RemoteProtocolError, Session
from pubweave.core.vocabulary.effects import Effect, Transmit
from pubweave.model.messages.session import Ack, Role, Subscribe, Unsubscribe
from pubweave.model.publications import Publication, make_publication

SMALL = SessionLimits(window_bytes=400, congested_bytes=800, relieved_bytes=200)


def message(number: int) -> Publication:
    return make_publication("p", number, "t", {}, b"x" * 50, 0.0)


class Pair:
    """A sender and a receiver; the wire holds what is under way."""

    def __init__(self, limits: SessionLimits = SMALL) -> None:
        self.sender = Session("receiver", own_epoch=1, is_client=False, limits=limits)
        self.receiver = Session("sender", own_epoch=2, is_client=False, limits=limits)
        self.wire: list[object] = []
        self.got: list[int] = []
        self.connections = 0

    def connect(self) -> tuple[bool, bool]:
        """A new connection: what was under way on the old one is gone."""
        self.wire.clear()
        self.connections += 1
        for session in (self.sender, self.receiver):
            session.closed(0.0)
            session.opened(self.connections)
        hellos = (
            self.sender.hello(Role.BROKER, "sender"),
            self.receiver.hello(Role.BROKER, "receiver"),
        )
        resumed = self.sender.take_hello(hellos[1]), self.receiver.take_hello(hellos[0])
        effects: list[Effect] = []
        if resumed[0]:
            self.sender.retransmit(effects)
        self.put(effects)
        return resumed

    def put(self, effects: list[Effect]) -> None:
        for effect in effects:
            assert isinstance(effect, Transmit)
            self.wire.extend(effect.messages)

    def send(self, *numbers: int) -> None:
        self.sender.pending.extend(message(number) for number in numbers)
        effects: list[Effect] = []
        self.sender.flush(effects)
        self.put(effects)

    def deliver(self, count: int) -> None:
        for _ in range(min(count, len(self.wire))):
            received = self.wire.pop(0)
            assert isinstance(received, Publication)
            self.got.append(received.sequence)
            self.receiver.took_in(1, received.size_bytes)

    def acknowledge(self) -> None:
        effects: list[Effect] = []
        self.receiver.ack(effects)
        for effect in effects:
            assert isinstance(effect, Transmit)
            (ack,) = effect.messages
            assert isinstance(ack, Ack)
            self.sender.take_ack(ack.received)
        effects = []
        self.sender.pump(effects)
        self.put(effects)


@given(st.lists(st.sampled_from(["send", "deliver", "acknowledge", "reconnect"]), max_size=60))
def test_nothing_is_lost_doubled_or_reordered_by_dropped_connections(steps: list[str]) -> None:
    pair = Pair()
    pair.connect()
    sent = 0
    for step in steps:
        if step == "send":
            pair.send(sent + 1, sent + 2)
            sent += 2
        elif step == "deliver":
            pair.deliver(3)
        elif step == "acknowledge":
            pair.acknowledge()
        else:
            assert all(pair.connect()) or pair.connections == 2
    for _ in range(sent + 1):
        pair.connect()
        pair.deliver(sent)
        pair.acknowledge()
    assert pair.got == list(range(1, sent + 1))
    assert not pair.sender.queue_messages
    assert not pair.sender.queue_bytes


def test_a_full_window_makes_messages_wait_and_an_ack_lets_them_go() -> None:
    pair = Pair()
    pair.connect()
    pair.send(*range(1, 21))
    under_way = len(pair.wire)
    assert 0 < under_way < 20
    assert pair.sender.unacked_bytes <= SMALL.window_bytes + message(1).size_bytes
    pair.deliver(under_way)
    pair.acknowledge()
    assert len(pair.wire) > 0
    assert pair.sender.queue_messages == 20 - under_way


def test_sides_that_do_not_know_each_other_begin_anew_and_then_go_on() -> None:
    pair = Pair()
    assert pair.connect() == (False, False)
    assert pair.connect() == (True, True)


def test_a_side_that_forgot_the_other_is_not_resumed_even_after_a_lost_hello() -> None:
    """The receiver's session was replaced; the first Hello of the new one gets lost."""
    pair = Pair()
    pair.connect()
    pair.send(1)
    pair.deliver(1)
    pair.acknowledge()
    pair.receiver = Session("sender", own_epoch=3, is_client=False, limits=SMALL)
    pair.receiver.opened(7)
    pair.receiver.take_hello(pair.sender.hello(Role.BROKER, "sender"))
    assert pair.connect() == (False, False)


def test_beginning_anew_gives_everything_back_in_order() -> None:
    session = Session("r", own_epoch=1, is_client=False, limits=SMALL)
    held = [Unsubscribe("a"), message(1), Unsubscribe("b")]
    session.pending.extend(held)
    session.flush([])
    session.pending.append(message(2))
    assert session.restart() == [*held, message(2)]
    assert not session.queue_messages
    assert not session.queue_bytes


@pytest.mark.parametrize("received", [-1, 1, 99])
def test_an_impossible_acknowledgement_is_the_far_ends_fault(received: int) -> None:
    pair = Pair()
    pair.connect()
    with pytest.raises(RemoteProtocolError):
        pair.sender.take_ack(received)


def test_the_far_end_cannot_claim_more_of_our_memory_than_our_own_window() -> None:
    session = Session("r", own_epoch=1, is_client=False, limits=SMALL)
    greedy = Session("s", own_epoch=2, is_client=False, limits=SessionLimits(1 << 30))
    session.opened(1)
    session.take_hello(greedy.hello(Role.BROKER, "s"))
    assert session.remote_window_bytes == SMALL.window_bytes


def test_acknowledgements_keep_up_with_the_smaller_of_two_windows() -> None:
    """Who grants much more than the far end uses must not wait for a quarter of its own."""
    wide = Session("s", own_epoch=2, is_client=False, limits=SMALL.widened(100))
    narrow = Session("r", own_epoch=1, is_client=False, limits=SMALL)
    wide.opened(1)
    wide.take_hello(narrow.hello(Role.BROKER, "s"))
    assert wide.ack_every_bytes == SMALL.window_bytes // 4


def test_table_messages_have_a_weight() -> None:
    from pubweave.model.filters.filter import Filter

    assert Subscribe("a", Filter()).size_bytes > 0


def test_a_second_hello_on_a_connection_breaks_the_protocol() -> None:
    pair = Pair()
    pair.connect()
    with pytest.raises(RemoteProtocolError, match="where none is due"):
        pair.receiver.take_hello(pair.sender.hello(Role.BROKER, "sender"))
    assert pair.receiver.is_established
