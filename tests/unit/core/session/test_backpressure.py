"""Whose acknowledgements are withheld, for whom, and when they are sent after all."""

from __future__ import annotations

from pubweave.core.config.session import SessionLimits
from pubweave.core.session.backpressure import FlowControl
from pubweave.core.session.session import Session
from pubweave.core.vocabulary.effects import Effect, Transmit
from pubweave.model.messages.session import PROTOCOL_VERSION, Ack, Hello, Role

LIMITS = SessionLimits()


def client(name: str, number: int) -> Session:
    """A client that has sent one message, which is not acknowledged yet."""
    session = Session(name, own_epoch=1, is_client=True, limits=LIMITS)
    session.opened(number)
    session.take_hello(Hello(PROTOCOL_VERSION, Role.CLIENT, name, 7, 0, 0, LIMITS.window_bytes))
    session.took_in(1, 10)
    return session


def test_acknowledgements_wait_until_the_last_cause_is_gone() -> None:
    flow, publisher = FlowControl(ack_delay_s=0.05), client("pub", 1)
    slow, slower = client("slow", 2), client("slower", 3)
    effects: list[Effect] = []
    flow.hold(publisher, slow, 1.0)
    flow.hold(publisher, slow, 2.0)
    flow.hold(publisher, slower, 3.0)
    assert flow.holds == 2
    assert flow.congested_since == {slow: 1.0, slower: 3.0}
    flow.ack(publisher, effects)
    flow.relieve(slow, effects)
    assert flow.is_held(publisher)
    assert effects == []
    flow.relieve(slower, effects)
    assert not flow.is_held(publisher)
    assert not flow.congested_since
    assert effects == [Transmit(1, (Ack(1),))]


def test_due_acknowledgements_of_held_sessions_are_withheld() -> None:
    flow, held, free = FlowControl(ack_delay_s=0.05), client("a", 1), client("b", 2)
    effects: list[Effect] = []
    for session in (held, free):
        flow.schedule_ack(session, 1.0, effects)
    flow.hold(held, client("slow", 3), 1.0)
    flow.send_due_acks(1.1, effects)
    assert effects == [Transmit(2, (Ack(1),))]


def test_a_session_that_is_over_neither_waits_nor_makes_others_wait() -> None:
    flow, publisher, slow = FlowControl(ack_delay_s=0.05), client("pub", 1), client("slow", 2)
    other = client("other", 3)
    flow.hold(publisher, slow, 1.0)
    flow.hold(slow, other, 1.0)
    effects: list[Effect] = []
    flow.discard(slow, effects)
    assert effects == [Transmit(1, (Ack(1),))]
    assert not any(flow.is_held(session) for session in (publisher, slow, other))
    assert flow.congested_since == {other: 1.0}


def test_a_pause_of_this_broker_counts_against_nobody() -> None:
    flow, slow = FlowControl(ack_delay_s=0.05), client("slow", 1)
    flow.hold(None, slow, 1.0)
    flow.excuse(10.0)
    assert flow.congested_since == {slow: 11.0}
    flow.restarted(50.0)
    assert flow.congested_since == {slow: 50.0}


def test_where_links_form_cycles_only_clients_are_held() -> None:
    flow = FlowControl(ack_delay_s=0.05, holds_links=False)
    publisher, slow = client("pub", 1), client("slow", 2)
    link = Session("b2", own_epoch=1, is_client=False, limits=LIMITS)
    for origin in (link, publisher):
        flow.hold(origin, slow, 1.0)
    assert not flow.is_held(link)
    assert flow.is_held(publisher)
