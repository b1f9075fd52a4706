"""Clients that move to another broker: the door between `broker` and the protocol.

A client moves from the source to the destination along the one path of the tree between them
(POP/GRAPE 3.3). What is said, every message a frame of the sessions, so that order on a link and
delivery after a dropped connection are given:

  source > ... > destination   reserve       nothing has changed yet
  source < ... < destination   reserved      the client is asked, the source decides
  source > ... > destination   update        tables are revised for what the client publishes
  source < ... < destination   moved         and for what it gets; the client is told to go
  source > ... > destination   complete      the client's session goes on there

`migration/departure` is all before the decision; `migration/registry` has the parts that follow
from it, `migration/participant` and `migration/source`; `migration/tables` is what they do to
tables. Migrations of different clients may cross: each concerns its own entries.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, Protocol, get_args

import msgspec

from pubweave.core.dataplane.part import BrokerPart, EventHandler, MessageHandler
from pubweave.core.migration.departure import Departure, MigrationEnd, MigrationOutcome
from pubweave.core.migration.registry import MigrationRegistry
from pubweave.core.migration.services import MigrationServices
from pubweave.core.migration.source import MigrationDestination, MigrationSource
from pubweave.core.session.session import Session
from pubweave.core.transformation.coordinator import ActionCoordinator
from pubweave.core.transformation.services import TreeServices
from pubweave.core.vocabulary.effects import CloseConnection, Transmit
from pubweave.core.vocabulary.events import ConnectionId, MigrationRequested
from pubweave.core.vocabulary.rare_branches import Branch, sometimes
from pubweave.model.ids import BrokerId, ClientId
from pubweave.model.messages.migration import (
    Migration,
    MigrationMessage,
    MigrationSeek,
    MigrationSignal,
    Redirect,
    RedirectReply,
)
from pubweave.model.messages.session import (
    Hello,
    Message,
    Role,
    SequencedMessage,
    Synced,
    TableMessage,
)
from pubweave.model.records.status import (
    RELOCATE_SUBJECT,
    MigrationStatus,
    MoveStatus,
    RelocateRequest,
)

__all__ = ["MigrationCoordinator", "MigrationEnd", "MigrationOutcome"]

MOVES_KEPT = 100
"""How many ended migrations are kept for those who ask."""


class MigrationObserver(Protocol):
    """Observes how migrations end."""

    def client_arrived(self, client: ClientId, now: float) -> None:
        """A client has come here from another broker."""

    def migration_ended(self, end: MigrationEnd, now: float) -> None:
        """A migration that began here has ended."""


class MigrationCoordinator(BrokerPart):
    """All migrations that this broker takes part in."""

    def __init__(self, services: TreeServices, actions: ActionCoordinator) -> None:
        self._inside = inside = MigrationServices(**vars(services), actions=actions)
        self._number = f"{inside.id}/{inside.epoch:x}"
        self._departures: dict[ClientId, Departure] = {}
        self._gone: dict[ClientId, tuple[Redirect, float]] = {}
        """Clients that have moved on: where to, and until when that is remembered."""
        self._begun = 0
        self._ends = dict.fromkeys(MigrationOutcome, 0)
        self.last_moves: deque[MoveStatus] = deque(maxlen=MOVES_KEPT)
        self._hops = 0
        self._paused_ms = self._longest_paused_ms = 0.0
        self.parts = MigrationRegistry(self._inside, self._is_open, self._answered, self._arrived)
        self.paused = self.parts.paused
        self.unsettled = self.parts.by_client
        self._observers: list[MigrationObserver] = []

    def observe(self, observer: MigrationObserver) -> None:
        self._observers.append(observer)

    def event_handlers(self) -> Mapping[type[Any], EventHandler]:
        return {
            MigrationRequested: lambda event, now: self.begin(event.client, event.destination, now)
        }

    def message_handlers(self) -> Mapping[type[Any], MessageHandler]:
        return dict.fromkeys(get_args(MigrationMessage), self.receive) | {
            RedirectReply: self.replied
        }

    # --- what is asked for -----------------------------------------------------------------

    def begin(
        self,
        client: ClientId,
        destination: BrokerId,
        now: float,
        path: tuple[BrokerId, ...] = (),
        most_clients: int = 0,
    ) -> None:
        """Move a local client to another broker. ``path`` from here to there, if it is known: else
        it is sought. A destination with ``most_clients`` already, if not 0, refuses. Nothing
        happens while a migration of the client is under way."""
        if self.is_under_way(client):
            return
        self._begun += 1
        mqtt = self._inside.mqtt
        refusal = None if mqtt is None else mqtt.redirector.redirect(client, destination, now)
        if refusal is not None:
            outcome = MigrationOutcome.REFUSED if refusal else MigrationOutcome.DONE
            self._end(MigrationEnd(client, destination, outcome, refusal), now)
            return
        number = f"{self._number}.{self._begun}"
        departure = Departure(self._inside, number, client, destination, path, now, most_clients)
        self._departures[client] = departure
        departure.begin(now)
        self._see_to(departure, now)

    def is_under_way(self, client: ClientId) -> bool:
        return client in self._departures or client in self.parts.by_client

    @property
    def is_idle(self) -> bool:
        return not self._departures and not self.parts.by_client

    def status(self, now: float) -> dict[str, Any]:
        return {"migrations": self.counted()}

    def answer(self, verb: str, argument: str, now: float) -> Any:
        """``relocate`` begins a migration: how it ends is in the status, or in the answer if it was
        refused at once."""
        if verb != RELOCATE_SUBJECT:
            return None
        try:
            request = msgspec.json.decode(argument, type=RelocateRequest)
        except msgspec.MsgspecError as error:
            return {"error": f"relocate: {error}"}
        refused = self._ends[MigrationOutcome.REFUSED]
        self.begin(request.client, request.destination, now)
        if self._ends[MigrationOutcome.REFUSED] > refused:
            return {"error": self.counted().last}
        return {"client": request.client, "destination": request.destination}

    def counted(self) -> MigrationStatus:
        last = self.last_moves[-1] if self.last_moves else None
        return MigrationStatus(
            begun=self._begun,
            done=self._ends[MigrationOutcome.DONE],
            refused=self._ends[MigrationOutcome.REFUSED],
            busy=self._ends[MigrationOutcome.BUSY],
            failed=self._ends[MigrationOutcome.FAILED],
            under_way=len(self._departures) + len(self.parts.by_client),
            messages_out=self._inside.sent.messages,
            seeks_out=self._inside.sent.seeks,
            last=""
            if last is None
            else f"{last.client} to {last.destination}: {last.outcome} {last.reason}".strip(),
            last_hops=0 if last is None else last.hops,
            last_paused_ms=0.0 if last is None else last.paused_ms,
            hops=self._hops,
            paused_ms=self._paused_ms,
            longest_paused_ms=self._longest_paused_ms,
        )

    # --- time ------------------------------------------------------------------------------

    @property
    def deadline(self) -> float | None:
        if not self._departures:
            return None
        return min(departure.deadline for departure in self._departures.values())

    def on_deadline(self, now: float) -> None:
        for departure in list(self._departures.values()):
            if now >= departure.deadline:
                departure.on_deadline(now)
                self._see_to(departure, now)

    def link_begins(self, link: Session, under_way: list[SequencedMessage], now: float) -> bool:
        """Put the marks back that a neighbor's crash took along."""
        for part in self.parts.by_client.values():
            part.remark(link.remote, under_way)
        return False

    def link_began(self, link: Session, now: float) -> None:
        """A neighbor has forgotten everything."""
        for part in list(self.parts.by_client.values()):
            part.link_began(link.remote)

    def keeps(self, origin: Session, message: TableMessage | Synced, now: float) -> bool:
        return self.parts.keeps(origin, message)

    @property
    def is_eager(self) -> bool:
        """Whether something waits for its moment: then `check` has to follow each event."""
        return any(part.is_eager for part in self.parts.by_client.values())

    def check(self, now: float) -> None:
        for part in list(self.parts.by_client.values()):
            part.check(now)
            self.parts.drop_if_over(part)
            if isinstance(part, MigrationSource) and part.is_over:
                self._let_go(part, now)

    # --- messages --------------------------------------------------------------------------

    def receive(self, origin: Session, message: MigrationMessage, now: float) -> None:
        """A message about a migration came over a link."""
        if isinstance(message, MigrationSeek):
            self._on_seek(origin, message, now)
        elif self._is_way(message.migration.path) and (
            self.parts.knows(message.migration)
            or self._is_on_our_way(message.migration.path, origin.remote)
        ):
            self.parts.receive(origin, message, now)

    def _is_way(self, path: tuple[BrokerId, ...]) -> bool:
        """Whether it passes this broker, and nobody twice; whatever else a neighbor makes up is
        none of our concern."""
        return self._inside.id in path and len(set(path)) == len(path)

    def _is_on_our_way(self, path: tuple[BrokerId, ...], neighbor: BrokerId) -> bool:
        """Whether a way leads through this broker's links, past the neighbor who says so."""
        own = path.index(self._inside.id)
        beside = (*path[max(0, own - 1) : own], *path[own + 1 : own + 2])
        return neighbor in beside and all(self._inside.link(b) is not None for b in beside)

    def replied(self, origin: Session, reply: RedirectReply, now: float) -> None:
        """A client says whether it can reach the broker that it is to move to."""
        departure = self._departures.get(origin.remote)
        if departure is not None and origin.is_client:
            departure.replied(reply.token, reply.problem)
            self._see_to(departure, now)

    def greeted(self, connection: ConnectionId, message: Message, now: float) -> bool:
        """Whether the first message of a connection is seen to here: the Hello of a client that
        has moved on or is moving, or what a client says that waits for the answer to its Hello."""
        if not isinstance(message, Hello):
            return self.parts.has_early(connection)
        hello = message
        if hello.role is not Role.CLIENT:
            return False
        inside, part = self._inside, self.parts.by_client.get(hello.id)
        if isinstance(part, MigrationDestination):
            is_early = part.greeted(connection, hello)
            if not is_early:
                inside.emit(CloseConnection(connection, "the client is being moved"))
            return True
        if hello.id in inside.sessions.clients:
            self._gone.pop(hello.id, None)
            return False
        if isinstance(part, MigrationSource):
            inside.emit(CloseConnection(connection, "the client is being moved"))
            return True
        return self._sent_on(connection, hello, now)

    def _sent_on(self, connection: ConnectionId, hello: Hello, now: float) -> bool:
        """A client that has moved on is told again where to, if it can understand that."""
        for client in [c for c, (_, until) in self._gone.items() if now >= until]:
            del self._gone[client]
        gone = self._gone.get(hello.id)
        if gone is None or not hello.can_move:
            return False
        self._inside.emit(Transmit(connection, (gone[0],)))
        sometimes(Branch.SENT_ON_AGAIN)
        self._inside.emit(CloseConnection(connection, "the client has moved"))
        return True

    def _on_seek(self, origin: Session, message: MigrationSeek, now: float) -> None:
        own, path = self._inside.id, message.path
        if message.is_found:
            place = path.index(own) if own in path else -1
            link = self._inside.link(path[place - 1]) if place > 0 else None
            if link is not None:
                self._inside.send(link, message)
            elif place == 0:
                self._found(message, now)
        elif own not in path:
            path = (*path, own)
            if own == message.destination:
                self._inside.send(origin, MigrationSeek(message.number, own, path, is_found=True))
                return
            onward = MigrationSeek(message.number, message.destination, path)
            for link, table in self._inside.routing.links.items():
                if link is not origin and not table.is_held:
                    self._inside.send(link, onward)

    # --- departures ------------------------------------------------------------------------

    def _found(self, message: MigrationSeek, now: float) -> None:
        for departure in list(self._departures.values()):
            departure.found(message.number, message.path, now)
            self._see_to(departure, now)

    def _is_open(self, migration: Migration) -> bool:
        departure = self._departures.get(migration.client)
        return departure is not None and departure.migration == migration

    def _answered(self, message: MigrationSignal, now: float) -> None:
        if self._is_open(message.migration):
            departure = self._departures[message.migration.client]
            departure.answered(message.step, message.text, now)
            self._see_to(departure, now)

    def _see_to(self, departure: Departure, now: float) -> None:
        """After anything that may have changed a departure."""
        migrating = self._inside.migrating
        migrating.pop(departure.held, None)
        if departure.end is not None:
            del self._departures[departure.client]
            if departure.migration is not None:
                self.parts.remember(departure.migration, None)
            self._end(departure.end, now)
        elif departure.is_ready and departure.migration is not None:
            # The decision: from here on only forward.
            del self._departures[departure.client]
            part = self.parts.add(departure.migration, now)
            assert isinstance(part, MigrationSource)
            part.decide()
        elif departure.migration is not None:
            departure.held = departure.migration.id
            migrating[departure.held] = None

    def _arrived(self, client: ClientId, now: float) -> None:
        for observer in self._observers:
            observer.client_arrived(client, now)

    def _let_go(self, part: MigrationSource, now: float) -> None:
        """All that came for the client is with it: it goes on at its new broker."""
        inside, migration = self._inside, part.migration
        complete = part.last_word(inside.sequences.of(migration.client))
        paused_s = now - part.began_at
        redirect = Redirect(
            migration.id,
            migration.destination,
            part.address,
            is_final=True,
            paused_ms=1000.0 * paused_s,
            hops=migration.hops,
        )
        self.parts.drop(migration)
        self.parts.remember(migration, complete)
        part.completed(complete, now)
        if not complete.is_gone:
            self._gone[migration.client] = (redirect, now + inside.config.client_expiry_s)
        session = part.session
        if session is not None:
            connection = session.connection
            if connection is not None:
                inside.emit(Transmit(connection, (redirect,)))
                inside.emit(CloseConnection(connection, "the client has moved"))
                inside.sessions.closed(connection, now)
            inside.teardown.withdraw(session, "the client has moved", now)
        assert part.after is not None
        part.send(part.after, complete)
        self._end(
            MigrationEnd(
                migration.client,
                migration.destination,
                MigrationOutcome.DONE,
                hops=migration.hops,
                paused_s=paused_s,
            ),
            now,
        )

    def _end(self, end: MigrationEnd, now: float) -> None:
        self._ends[end.outcome] += 1
        outcome, paused_ms = end.outcome.value, 1000.0 * end.paused_s
        self.last_moves.append(
            MoveStatus(end.client, end.destination, outcome, end.reason, end.hops, paused_ms)
        )
        if end.outcome is MigrationOutcome.DONE:
            self._hops += end.hops
            self._paused_ms += paused_ms
            self._longest_paused_ms = max(self._longest_paused_ms, paused_ms)
        meter = self._inside.meter
        if meter is not None:
            meter.migration_ended(end.client, end.destination, outcome, end.hops, paused_ms, now)
        for observer in self._observers:
            observer.migration_ended(end, now)
