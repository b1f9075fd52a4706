"""The parts of a broker: what a routing strategy brings along beside its tables.

A part handles events and messages of its own and takes part in what concerns all: links, time,
status. A strategy names its parts (`core.strategies`); `Broker` asks none of them by name, it loops
over those that have something to say (`BrokerParts`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar

from pubweave.core.dataplane.publishing import RouteObserver, Tracer
from pubweave.core.session.session import Session
from pubweave.core.vocabulary.events import ConnectionId, Event
from pubweave.model.ids import BrokerId, ClientId
from pubweave.model.messages.session import Hello, Message, SequencedMessage, Synced, TableMessage

EventHandler = Callable[[Any, float], None]
"""Handles an event of the class it was named for, at an instant."""
MessageHandler = Callable[[Session, Any, float], None]
"""Handles a message of the class it was named for, from a session, at an instant."""


class BrokerPart:
    """A part of a broker. Each method does nothing unless a subclass says otherwise."""

    stand_in: Session | None = None
    """What routes name in place of links that this part holds; None: it holds none."""
    observer: RouteObserver | None = None
    """Sees every publication with its route."""
    tracer: Tracer | None = None
    """Marks publications of local clients, and sees marked ones with their routes."""
    paused: Collection[ClientId] = ()
    """Clients whose messages are dropped for now, as a set that lives on; they send them again."""
    unsettled: Collection[Any] = ()
    """While there is any, `is_eager` is asked after each event."""

    # --- events and messages of its own ----------------------------------------------------

    def event_handlers(self) -> Mapping[type[Any], EventHandler]:
        """What handles which events; asked once. Several parts may handle the same event."""
        return {}

    def message_handlers(self) -> Mapping[type[Any], MessageHandler]:
        """What handles which messages; asked once. Of each message one part is in charge. Clients
        may send only session messages; others of theirs are refused before they come here."""
        return {}

    # --- sessions and links ----------------------------------------------------------------

    def greeted(self, connection: ConnectionId, message: Message, now: float) -> bool:
        """The first message of a connection. Whether this part sees to it, and nobody else."""
        return False

    def accepts_foreign_link(self, hello: Hello) -> bool:
        """Whether a broker that routes otherwise may be a neighbor all the same."""
        return False

    def was_redirected_here(self, hello: Hello) -> bool:
        """Whether a client was sent here, and is taken although no further ones are."""
        return False

    def link_added(self, neighbor: BrokerId, now: float) -> None:
        """A neighbor was added to the topology."""

    def link_removed(self, neighbor: BrokerId, now: float) -> bool:
        """An operator removes a link. Whether this part sees to it, and nobody else."""
        return False

    def link_begins(self, link: Session, under_way: list[SequencedMessage], now: float) -> bool:
        """A link's session began anew: the neighbor has forgotten everything. ``under_way`` is what
        will be sent again. Whether the strategy's tables are not to be told to it."""
        return False

    def link_began(self, link: Session, now: float) -> None:
        """The same, after the strategy has told the neighbor its tables."""

    def link_down(self, link: Session, now: float) -> None:
        """The connection of a link was closed."""

    # --- what others have to leave alone ---------------------------------------------------

    def keeps(self, origin: Session, message: TableMessage | Synced, now: float) -> bool:
        """Whether this part keeps a table message from the tables."""
        return False

    def gather(self, origin: Session | None, now: float) -> None:
        """An event queued publications for ``stand_in``."""

    # --- time ------------------------------------------------------------------------------

    @property
    def deadline(self) -> float | None:
        """When `on_deadline` is to be called; None: not at all for now."""
        return None

    def on_deadline(self, now: float) -> None:
        """A deadline is reached, of this part or of another one."""

    def on_tick(self, now: float) -> None:
        """Periodic work, once per ``tick_s``."""

    @property
    def is_eager(self) -> bool:
        """Whether `check` is to be called after this event."""
        return False

    def check(self, now: float) -> None:
        """An event was handled."""

    def excuse(self, seconds: float) -> None:
        """Extend all times by a local pause."""

    def restored(self, incarnation: int, away_s: float, now: float) -> None:
        """The broker was restored from its journal, after this time."""

    # --- what others want to know ----------------------------------------------------------

    def status(self, now: float) -> Mapping[str, Any]:
        """Fields of `BrokerStatus` that this part fills."""
        return {}

    def answer(self, verb: str, argument: str, now: float) -> Any:
        """The answer to a query as a value for JSON; None if the verb means nothing to it."""
        return None

    # --- leaving the overlay ---------------------------------------------------------------

    def may_go(self, now: float) -> bool:
        """Whether the overlay can do without this broker, which was told to leave."""
        return True


P = TypeVar("P", bound=BrokerPart)


class BrokerParts:
    """The parts of one broker, and for each thing that happens those that want to know.

    Tables and tuples are made once, so that no event asks a part that has nothing to say."""

    def __init__(self, parts: Sequence[BrokerPart]) -> None:
        self.all = tuple(parts)
        events: dict[type[Any], tuple[EventHandler, ...]] = {}
        messages: dict[type[Any], MessageHandler] = {}
        for part in parts:
            for event, handler in part.event_handlers().items():
                events[event] = (*events.get(event, ()), handler)
            messages.update(part.message_handlers())
        self._event_handlers = events.get
        self.message_handler = messages.get
        self.greeted = self._that_say("greeted")
        self.link_added = self._that_say("link_added")
        self.link_removed = self._that_say("link_removed")
        self.link_begins = self._that_say("link_begins")
        self.link_began = self._that_say("link_began")
        self.link_down = self._that_say("link_down")
        self.paused = tuple(p.paused for p in parts if p.paused is not BrokerPart.paused)
        self.keeps = self._that_say("keeps")
        self.on_deadline = self._that_say("on_deadline")
        self.on_tick = self._that_say("on_tick")
        self.excuse = self._that_say("excuse")
        self.restored = self._that_say("restored")
        self.timed = tuple(p for p in parts if type(p).deadline is not BrokerPart.deadline)
        self.eager = tuple(
            (p.unsettled, p) for p in parts if p.unsettled is not BrokerPart.unsettled
        )
        idle = BrokerPart()
        self.holder = next((p for p in parts if _says(p, "gather")), idle)
        self.observer = next((p.observer for p in parts if p.observer is not None), None)
        self.tracer = next((p.tracer for p in parts if p.tracer is not None), None)

    def _that_say(self, name: str) -> tuple[Callable[..., Any], ...]:
        """The methods of this name, of the parts that have one of their own."""
        return tuple(getattr(part, name) for part in self.all if _says(part, name))

    def of(self, kind: type[P]) -> P | None:
        """The part of a class; None if the strategy brings none."""
        for part in self.all:
            if isinstance(part, kind):
                return part
        return None

    def accepts_foreign_link(self, hello: Hello) -> bool:
        return any(part.accepts_foreign_link(hello) for part in self.all)

    def was_redirected_here(self, hello: Hello) -> bool:
        return any(part.was_redirected_here(hello) for part in self.all)

    def is_paused(self, session: Session) -> bool:
        """Whether a session's messages are dropped for now."""
        return session.is_client and any(session.remote in paused for paused in self.paused)

    def handles(self, kind: type[Any]) -> bool:
        """Whether events of a class mean something to a part."""
        return self._event_handlers(kind) is not None

    def handle(self, event: Event, now: float) -> bool:
        """Hand an event to the parts; False if it means nothing to any."""
        handlers = self._event_handlers(type(event), ())
        for handler in handlers:
            handler(event, now)
        return bool(handlers)

    def keep(self, origin: Session, message: TableMessage | Synced, now: float) -> bool:
        """Whether a part keeps a table message from the tables."""
        return any(keeps(origin, message, now) for keeps in self.keeps)

    def may_go(self, now: float) -> bool:
        """Whether the overlay can do without this broker."""
        return all(part.may_go(now) for part in self.all)

    def status(self, now: float) -> dict[str, Any]:
        """The fields of `BrokerStatus` that parts fill."""
        return {name: value for part in self.all for name, value in part.status(now).items()}


def _says(part: BrokerPart, name: str) -> bool:
    return getattr(type(part), name) is not getattr(BrokerPart, name)
