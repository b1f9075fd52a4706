"""Writes down who says what to whom, and which state that leads to."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pubweave.core.vocabulary.effects import DecideAction, Effect, ReportAction
from pubweave.core.vocabulary.events import (
    ActionDecided,
    ActionRequested,
    ConnectionClosed,
    ConnectionOpened,
    Event,
    LinkExpected,
    MigrationRequested,
)
from pubweave.model.filters.text import format_filter
from pubweave.model.messages.migration import (
    MigrationComplete,
    MigrationEntries,
    MigrationSeek,
    MigrationSignal,
    MigrationUpdate,
    Redirect,
    RedirectReply,
)
from pubweave.model.messages.session import (
    Ack,
    ActionReserve,
    ActionSignal,
    Advertise,
    Confirmed,
    ConfirmReply,
    ConfirmRequest,
    Disconnect,
    Goodbye,
    Hello,
    Ping,
    Pong,
    ShiftTables,
    Subscribe,
    Synced,
    Unadvertise,
    Unsubscribe,
)
from pubweave.model.publications import Publication
from pubweave.sim.kernel.network import SimConnection
from pubweave.sim.kernel.nodes import SimBroker
from pubweave.sim.overlays.base import SimOverlay

LEFT_OUT = (Ack, Ping, Pong, ConfirmRequest, ConfirmReply, Confirmed)
"""What every session says all the time, and what follows every subscription on its way."""


class Recorder:
    """Lines of one run, from `begin` on. ``show`` puts a message in a few words, or leaves it out;
    ``state`` says in which state an end is, and a line ends with it where it has changed."""

    def __init__(
        self,
        overlay: SimOverlay,
        state: Callable[[Any], str],
        show: Callable[[Any], str] | None = None,
    ) -> None:
        self._world = overlay.world
        self._show = show or show_message
        self._state = state
        self._known: dict[str, str] = {}
        self._lines: list[str] | None = None
        self._arrive = overlay.network._arrive
        overlay.network._arrive = self._on_arrival  # type: ignore[method-assign]
        for broker in overlay.brokers.values():
            self._listen(broker)

    def begin(self, *ends: Any) -> None:
        """Write from here on; these are the ends whose states count."""
        self._lines = []
        self._known = {end.name: self._state(end) for end in ends}

    def text(self, header: str) -> str:
        assert self._lines is not None
        told = [f"# {line}".rstrip() for line in header.strip().splitlines()]
        return "\n".join([*told, "", *self._lines, ""])

    def note(self, near: str, far: str, what: str, end: Any = None, at: int | None = None) -> None:
        """One line, the last or at a place; ``end`` is the one whose state it may change."""
        if self._lines is None:
            return
        line = f"{1000 * self._world.now:7.1f}  {near:>5} > {far:<5}  {what}"
        state = "" if end is None else self._state_of(end)
        if end is not None and state != self._known.get(end.name, ""):
            self._known[end.name] = state
            line = f"{line:<58}  {end.name}: {state}"
        self._lines.insert(len(self._lines) if at is None else at, line)

    def _state_of(self, end: Any) -> str:
        return self._state(end) if end.name in self._known else ""

    def _on_arrival(
        self, connection: SimConnection, receiver: Any, messages: Sequence[Any]
    ) -> None:
        sender = connection.far_end(receiver).name
        is_there = not connection.is_dropped and receiver.name not in connection.left
        place = len(self._lines or ())
        self._arrive(connection, receiver, messages)
        shown = [text for text in map(self._show, messages) if text] if is_there else []
        if not shown and self._known.get(receiver.name, "") != self._state_of(receiver):
            shown = ["acknowledgement"]
        for number, text in enumerate(shown, 1):
            end = receiver if number == len(shown) else None
            self.note(sender, receiver.name, text, end, place + number - 1)

    def _listen(self, broker: SimBroker) -> None:
        """What comes to a broker from elsewhere than the network, and goes there."""
        handle = broker.core_handle

        def listening(event: Event, now: float) -> list[Effect]:
            effects = handle(event, now)
            if text := show_event(event):
                self.note("-", broker.name, text, broker)
            for effect in effects:
                if text := show_effect(effect):
                    self.note(broker.name, "-", text)
            return effects

        broker.core_handle = listening  # type: ignore[method-assign]


def show_event(event: Event) -> str:
    match event:
        case LinkExpected(_, neighbor):
            return f"an action will need a link to {neighbor}"
        case ActionRequested(_, action):
            return f"the agent asks for {action}"
        case ActionDecided(_, committed):
            return f"the store says: {'committed' if committed else 'aborted'}"
        case ConnectionOpened(_, neighbor):
            return f"a connection{'' if neighbor is None else ' to ' + neighbor} stands"
        case ConnectionClosed():
            return "a connection has ended"
        case MigrationRequested(client, destination):
            return f"an operator asks: {client} to {destination}"
    return ""


def show_effect(effect: Effect) -> str:
    match effect:
        case DecideAction(_, commit):
            return f"asks the store to {'commit' if commit else 'abort'}"
        case ReportAction(_, done, _, _, held):
            return f"reports: {'done' if done else 'given up'}, held for {1000 * held:.0f} ms"
    return ""


def show_message(message: Any) -> str:
    """A message in a few words; empty: it says nothing of the protocol."""
    for show in (_show_session, _show_action, _show_migration):
        if text := show(message):
            return text
    assert isinstance(message, LEFT_OUT), f"say in a few words what {message} is"
    return ""


def _show_session(message: Any) -> str:
    match message:
        case Publication():
            return f"{message.topic}#{message.sequence & 0xFFFFFFFF}"
        case Hello():
            return "hello, goes on" if message.remote_epoch else "hello"
        case Disconnect(reason) | Goodbye(reason):
            return f"{type(message).__name__.lower()}: {reason}"
        case Advertise(id_, filter_) | Subscribe(id_, filter_):
            return f"{type(message).__name__.lower()} {format_filter(filter_)} of {id_}"
        case Unadvertise(id_) | Unsubscribe(id_):
            return f"{type(message).__name__.lower()} {id_}"
        case Synced(stage):
            return f"synced: {stage.value}"
    return ""


def _show_action(message: Any) -> str:
    match message:
        case ActionReserve(_, kind):
            return f"reserve for a {kind.value}"
        case ActionSignal(_, signal):
            return signal.value
        case ShiftTables():
            parts = message.from_mover, message.from_old_peer, message.known_to_mover
            said = f"tables: {sum(map(len, parts))} entries"
            return said + ", these were all" if message.is_last else said
    return ""


def _show_migration(message: Any) -> str:
    match message:
        case MigrationSeek(_, destination, path, is_found):
            return f"{'found' if is_found else 'seek'} {destination}: {'-'.join(path)}"
        case MigrationSignal(_, step, text):
            return f"{step.value} {text}".rstrip()
        case MigrationEntries(_, advertisements, subscriptions):
            return f"entries: {len(advertisements)} advertised, {len(subscriptions)} subscribed"
        case MigrationUpdate():
            return "update"
        case MigrationComplete(_, session):
            assert session is not None
            return f"complete: took in {session.received}, sent {session.sent}"
        case Redirect(_, broker, _, is_final):
            return f"go to {broker}" if is_final else f"can you reach {broker}?"
        case RedirectReply(_, problem):
            return problem or "it can be reached"
    return ""
