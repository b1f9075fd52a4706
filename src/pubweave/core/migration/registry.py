"""The parts that a broker has in migrations, and the messages between the brokers of a path.

Every message names the whole way, so a broker passes on what it has no part in, and makes the part
anew that it has forgotten. Ends are remembered, so that everything may be said twice.
"""

from __future__ import annotations

from collections.abc import Callable

from pubweave.core.migration.participant import MigrationParticipant
from pubweave.core.migration.services import MigrationServices
from pubweave.core.migration.source import MigrationDestination, MigrationSource
from pubweave.core.session.session import Session
from pubweave.core.transformation.shift import PATIENT_ATTEMPTS, why_not_now
from pubweave.core.vocabulary.events import ConnectionId
from pubweave.model.ids import ClientId, publisher_of
from pubweave.model.messages.migration import (
    Migration,
    MigrationComplete,
    MigrationEntries,
    MigrationSignal,
    MigrationStep,
    MigrationUpdate,
)
from pubweave.model.messages.session import Synced, TableMessage

REMEMBERED = 1000
"""How many ended migrations are remembered."""


class MigrationRegistry:
    """This broker's parts, by client: a client moves once at a time.

    ``is_open`` says whether a migration that began here is still to be decided, ``answered`` hears
    what became of the question to its path, ``arrived`` of clients that have come here."""

    def __init__(
        self,
        inside: MigrationServices,
        is_open: Callable[[Migration], bool],
        answered: Callable[[MigrationSignal, float], None],
        arrived: Callable[[ClientId, float], None],
    ) -> None:
        self._inside = inside
        self._is_open = is_open
        self._answered = answered
        self._arrived = arrived
        self._ended: dict[str, MigrationComplete | None] = {}
        """By id; None if it came to nothing."""
        self._asked_again: dict[str, None] = {}
        """Of those the ones whose destination is asked on behalf of a broker before."""
        self.by_client: dict[ClientId, MigrationParticipant] = {}
        self.paused: dict[ClientId, None] = {}
        """Clients of which nothing but session messages is taken in."""

    def of(self, migration: Migration) -> MigrationParticipant | None:
        part = self.by_client.get(migration.client)
        return part if part is not None and part.migration == migration else None

    def knows(self, migration: Migration) -> bool:
        """Whether this broker takes part or has: the migration has to end everywhere, even if a
        link of its way is gone."""
        return self.of(migration) is not None or migration.id in self._ended

    def has_early(self, connection: ConnectionId) -> bool:
        """Whether a client waits on this connection for the end of its migration."""
        parts = self.by_client.values()
        return any(isinstance(p, MigrationDestination) and p.is_early(connection) for p in parts)

    def add(self, migration: Migration, now: float) -> MigrationParticipant:
        inside = self._inside
        part: MigrationParticipant
        if migration.source == inside.id:
            part = MigrationSource(inside, migration, now)
            self.paused[migration.client] = None
        elif migration.destination == inside.id:
            part = MigrationDestination(inside, migration)
        else:
            part = MigrationParticipant(inside, migration)
        self.by_client[migration.client] = part
        part.guard()
        inside.migrating[migration.id] = None
        return part

    def drop(self, migration: Migration) -> None:
        part = self.of(migration)
        if part is not None:
            part.unguard()
            part.doubt.end()
            del self.by_client[migration.client]
            self.paused.pop(migration.client, None)
            self._inside.migrating.pop(migration.id, None)

    def drop_if_over(self, part: MigrationParticipant) -> None:
        """A part may outlast its migration by what it still waits for."""
        if part.is_completed and part.is_settled:
            part.finish()
            if part.is_settled:
                self.drop(part.migration)

    def remember(self, migration: Migration, complete: MigrationComplete | None) -> None:
        if len(self._ended) >= REMEMBERED:
            forgotten = next(iter(self._ended))
            del self._ended[forgotten]
            self._asked_again.pop(forgotten, None)
        self._ended[migration.id] = complete

    def _remade(self, migration: Migration, now: float) -> MigrationParticipant | None:
        """The part in a migration that is under way; made if this broker has forgotten it."""
        if migration.id in self._ended:
            return self.of(migration)
        if migration.client not in self.by_client:
            part = self.add(migration, now)
            part.doubt.begin(part.before, part.after, now)
        return self.of(migration)

    # --- messages --------------------------------------------------------------------------

    def receive(
        self,
        origin: Session,
        message: MigrationSignal | MigrationEntries | MigrationUpdate | MigrationComplete,
        now: float,
    ) -> None:
        if isinstance(message, MigrationSignal):
            self._on_signal(origin, message, now)
        elif isinstance(message, MigrationComplete):
            self._on_complete(message, now)
        else:
            part = self._remade(message.migration, now)
            if part is not None:
                part.receive(message)
                part.check(now)

    def keeps(self, origin: Session, message: TableMessage | Synced) -> bool:
        """Whether a table message is kept from the tables by a migration of its client."""
        if not self.by_client or isinstance(message, Synced) or origin.is_client:
            return False
        part = self.by_client.get(publisher_of(message.id))
        return part is not None and part.keeps(origin, message)

    def _on_signal(self, origin: Session, message: MigrationSignal, now: float) -> None:
        migration, step = message.migration, message.step
        match step:
            case MigrationStep.RESERVE:
                self._on_reserve(origin, migration, now)
            case MigrationStep.RESERVED | MigrationStep.BUSY | MigrationStep.REFUSED:
                self._on_answer(message, now)
            case MigrationStep.ABORT:
                self._on_abort(message)
            case MigrationStep.ASK:
                self._on_ask(origin, message)
            case MigrationStep.HOLD if not self._is_open(migration):
                self._on_hold(origin, message, now)
            case MigrationStep.MOVED:
                self._on_moved(origin, message, now)
            case MigrationStep.AGAIN:
                part = self._remade(migration, now)
                if part is not None:
                    part.again()
                elif migration.id in self._ended:
                    self._again_after_end(origin, message)

    def _on_reserve(self, origin: Session, migration: Migration, now: float) -> None:
        refusal = self._why_not(migration, now)
        if refusal is not None:
            step, reason = refusal
            self._inside.send(origin, MigrationSignal(migration, step, reason))
            return
        part = self.add(migration, now)
        if part.after is not None:
            self._relay(MigrationSignal(migration, MigrationStep.RESERVE), forward=True)
        else:
            answer = MigrationSignal(
                migration, MigrationStep.RESERVED, self._inside.sessions.address
            )
            self._inside.send(origin, answer)

    def _why_not(self, migration: Migration, now: float) -> tuple[MigrationStep, str] | None:
        """Why this broker cannot take part, if it cannot."""
        inside, sessions = self._inside, self._inside.sessions
        place = migration.path.index(inside.id)
        neighbors = migration.path[place - 1 : place] + migration.path[place + 1 : place + 2]
        if not all(inside.is_linked(neighbor) for neighbor in neighbors):
            return MigrationStep.BUSY, f"the way leads no longer over {inside.id}"
        if migration.client in self.by_client:
            return MigrationStep.BUSY, f"{inside.id} takes part in another move of the client"
        if inside.actions.is_busy or now < inside.precedence.until:
            return MigrationStep.BUSY, f"{inside.id} takes part in an action"
        obstacle = why_not_now(inside, neighbors, PATIENT_ATTEMPTS + 1)
        if obstacle:
            return MigrationStep.BUSY, obstacle
        if migration.destination != inside.id:
            return None
        if migration.client in sessions.clients:
            return MigrationStep.REFUSED, f"{inside.id} has a client {migration.client} already"
        if sessions.closed_reason:
            return MigrationStep.REFUSED, sessions.closed_reason
        if len(sessions.clients) >= inside.config.max_clients:
            return MigrationStep.REFUSED, f"{inside.id} is full"
        if 0 < migration.most_clients <= self._clients_to_be():
            return MigrationStep.REFUSED, f"{inside.id} has no room for {migration.client}"
        return None

    def _clients_to_be(self) -> int:
        """Those attached here, and those on their way. O(migrations under way)."""
        clients = self._inside.sessions.clients
        coming = [
            client
            for client, part in self.by_client.items()
            if isinstance(part, MigrationDestination) and client not in clients
        ]
        return len(clients) + len(coming)

    def _on_answer(self, message: MigrationSignal, now: float) -> None:
        migration = message.migration
        if migration.source == self._inside.id:
            self._answered(message, now)
            return
        if self.of(migration) is None:
            return
        if message.step is not MigrationStep.RESERVED:
            self.drop(migration)
        self._relay(message, forward=False)

    def _on_abort(self, message: MigrationSignal) -> None:
        part = self.of(message.migration)
        if part is not None and part.is_decided:
            return
        self.drop(message.migration)
        self.remember(message.migration, None)
        self._relay(message, forward=True)

    def _on_ask(self, origin: Session, message: MigrationSignal) -> None:
        """Somebody holds a reservation and does not know whether it still matters."""
        migration = message.migration
        part = self.of(migration)
        if part is not None and part.is_decided:
            return  # it is decided; what got lost is told again
        if self._is_open(migration):
            return
        if migration.id in self._ended:
            end = self._ended[migration.id] or MigrationSignal(migration, MigrationStep.ABORT)
            self._inside.send(origin, end)
        elif not self._relay(message, forward=False):
            self.drop(migration)
            self._inside.send(origin, MigrationSignal(migration, MigrationStep.ABORT))

    def _on_hold(self, origin: Session, message: MigrationSignal, now: float) -> None:
        """A neighbor takes part and thinks that this broker has forgotten it."""
        migration = message.migration
        is_forgotten = migration.client not in self.by_client
        part = self._remade(migration, now)
        complete = self._ended.get(migration.id)
        if isinstance(part, MigrationDestination) and is_forgotten:
            part.send(origin.remote, part.signal(MigrationStep.HOLD))  # no doubt waits for more
        if part is not None:
            part.told(origin.remote, message.text)
            self.drop_if_over(part)
        elif complete is not None:
            # The source's last word got lost. Publications that wait here for a restarted neighbor
            # rest on it: they go to the destination.
            self._inside.send(origin, complete)

    def _on_moved(self, origin: Session, message: MigrationSignal, now: float) -> None:
        migration = message.migration
        if migration.id in self._ended and self.of(migration) is None:
            complete = self._ended[migration.id]
            if migration.id in self._asked_again:
                del self._asked_again[migration.id]
                self._relay(message, forward=False)
            elif complete is not None:
                self._inside.send(origin, complete)  # it got lost on its way there
            return
        part = self._remade(migration, now)
        if part is not None:
            part.moved(message.text)
            self.drop_if_over(part)

    def _again_after_end(self, origin: Session, message: MigrationSignal) -> None:
        """A broker towards the source waits for what the destination passes on, though all is over
        here. Where the client is now the tables say all of it: `moved` goes behind that."""
        if self._relay(message, forward=True):
            self._asked_again[message.migration.id] = None
        else:
            self._inside.send(origin, MigrationSignal(message.migration, MigrationStep.MOVED))

    def _on_complete(self, message: MigrationComplete, now: float) -> None:
        migration = message.migration
        part = self.of(migration)
        self.remember(migration, message)
        if part is not None:
            part.completed(message, now)
            self.drop_if_over(part)
            if isinstance(part, MigrationDestination) and not message.is_gone:
                self._arrived(migration.client, now)
        self._relay(message, forward=True)

    def _relay(self, message: MigrationSignal | MigrationComplete, *, forward: bool) -> bool:
        """Pass a message on along the path, towards the destination or the source; False where it
        ends, or leads no further."""
        path = message.migration.path
        place = path.index(self._inside.id) + (1 if forward else -1)
        if 0 <= place < len(path):
            link = self._inside.link(path[place])
            if link is not None:
                self._inside.send(link, message)
                return True
        return False
