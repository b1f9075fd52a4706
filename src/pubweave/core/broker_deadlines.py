"""When the parts of a broker want to be called, and calling them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pubweave.core.effects import Effect

if TYPE_CHECKING:
    from pubweave.core.broker import Broker


def next_deadline(broker: Broker, ack_at: float | None) -> float:
    """The earliest instant that any part waits for; acknowledgements are due at ``ack_at``."""
    tick_at = broker.upkeep.tick_at
    deadline = tick_at if ack_at is None else min(ack_at, tick_at)
    for part in (broker.organizer, broker.actions, broker.migrations, broker.topics, broker.door):
        due = None if part is None else part.deadline
        if due is not None and due < deadline:
            deadline = due
    return deadline


def on_deadline(broker: Broker, effects: list[Effect], now: float) -> None:
    """Some deadline has come: call the parts that are due."""
    if broker.actions is not None:
        broker.actions.on_deadline(now)
    if broker.organizer is not None and now >= broker.organizer.deadline:
        broker.organizer.on_deadline(now)
    if broker.migrations is not None:
        broker.migrations.on_deadline(now)
    if broker.topics is not None and now >= broker.topics.deadline:
        broker.topics.look(now)
    if broker.door is not None and now >= broker.door.deadline:
        broker.door.on_deadline(now, effects)
    if now >= broker.upkeep.tick_at:
        broker.upkeep.on_tick(now, effects)
        _give_up_the_absent(broker, effects, now)
        if broker.relocator is not None:
            broker.relocator.on_tick(now)


def _give_up_the_absent(broker: Broker, effects: list[Effect], now: float) -> None:
    """A neighbor that was never there holds nobody up for ever: what waits for it is counted."""
    for link in broker.sessions.links.values():
        if link.is_congested and broker.routing.give_up(link, now):
            broker.counters.publications_lost_at_most += link.forget_waiting()
            broker._flow.relieve(link, effects)
