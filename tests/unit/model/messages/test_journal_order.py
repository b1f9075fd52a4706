"""Effects wait for the journal, in order; what promises nothing does not."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from pubweave.core.journal.engine import EffectOrder
from pubweave.core.vocabulary.effects import CloseConnection, Effect, EmitTelemetry, Transmit
from pubweave.model.messages.session import PROTOCOL_VERSION, Ack, Answer, Hello, Ping, Pong, Role

ONLOOKER = 9
FREE: list[Effect] = [
    Transmit(1, (Ping(0.0),)),
    Transmit(1, (Pong(0.0), Answer(1, b"{}"))),
    Transmit(ONLOOKER, (Ack(1),)),
    EmitTelemetry({}),
]
BOUND: list[Effect] = [
    Transmit(1, (Ack(1),)),
    Transmit(1, (Pong(0.0), Ack(1))),
    CloseConnection(1, "over"),
]


def order() -> EffectOrder:
    return EffectOrder(lambda connection: connection == ONLOOKER)


@settings(max_examples=50)
@given(st.lists(st.lists(st.sampled_from(FREE + BOUND), max_size=4), max_size=8), st.data())
def test_each_effect_leaves_once_and_the_bound_ones_after_their_event(
    events: list[list[Effect]], data: st.DataObject
) -> None:
    journal = order()
    left: list[Effect] = []
    settled = 0
    waiting: list[tuple[int, Effect]] = []
    for number, effects in enumerate(events, start=1):
        at_once = journal.noted(effects)
        assert at_once == [effect for effect in effects if effect in FREE]
        waiting += [(number, effect) for effect in effects if effect in BOUND]
        settled = data.draw(st.integers(settled, number))
        freed = journal.settled(settled)
        assert freed == [effect for event, effect in waiting if event <= settled]
        waiting = [(event, effect) for event, effect in waiting if event > settled]
        left += freed
        assert journal.is_awaited == bool(waiting)
    left += journal.settled(len(events))
    assert left == [effect for effects in events for effect in effects if effect in BOUND]


def test_nothing_goes_before_the_hello_of_its_connection() -> None:
    journal = order()
    hello = Transmit(1, (Hello(PROTOCOL_VERSION, Role.BROKER, "b1", 1, 0, 0, 1),))
    ping, elsewhere = Transmit(1, (Ping(0.0),)), Transmit(2, (Ping(0.0),))
    assert journal.noted([hello]) == []
    assert journal.noted([ping, elsewhere]) == [elsewhere]
    assert journal.settled(1) == [hello]
    assert journal.noted([ping]) == [ping]
    assert journal.settled(3) == [ping]
