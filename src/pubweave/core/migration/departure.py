"""Before a migration is decided: the way is found, everybody on it is asked, and the client.

Nothing has changed anywhere so far, so every end of this but the decision is as if nothing had
been. Brokers that are busy with an action, or whose links are not in order, are asked again until
the time of the migration is up.
"""

from __future__ import annotations

import enum
import zlib

import msgspec

from pubweave.core.migration.services import MigrationServices
from pubweave.core.session.session import Session
from pubweave.core.session.table import OBSERVER_MARK
from pubweave.core.transformation.shift import why_not_now
from pubweave.core.vocabulary.effects import Transmit
from pubweave.core.vocabulary.rare_branches import Branch, sometimes
from pubweave.model.ids import BrokerId, ClientId
from pubweave.model.messages.migration import (
    Migration,
    MigrationSeek,
    MigrationSignal,
    MigrationStep,
    Redirect,
)

RETRY_S = 0.2
"""About how long it waits before it asks again."""


class MigrationOutcome(enum.Enum):
    """How a migration ended, told at the broker that the client was to leave."""

    DONE = "done"
    REFUSED = "refused"
    """Not possible at all: the reason says why."""
    BUSY = "busy"
    """Others were in the way until its time was up."""
    FAILED = "failed"
    """It was given up on the way; the client stays."""


class MigrationEnd(msgspec.Struct, frozen=True):
    """What became of a migration."""

    client: ClientId
    destination: BrokerId
    outcome: MigrationOutcome
    reason: str = ""
    hops: int = 0
    paused_s: float = 0.0
    """From the client's pause until it was told to go on elsewhere."""


class Departure:
    """A client that is to leave. After each call, look at ``end`` and ``is_ready``."""

    def __init__(
        self,
        inside: MigrationServices,
        number: str,
        client: ClientId,
        destination: BrokerId,
        path: tuple[BrokerId, ...],
        now: float,
        most_clients: int = 0,
    ) -> None:
        self.client = client
        self.destination = destination
        self.end: MigrationEnd | None = None
        self.migration: Migration | None = None
        """Once its path is known."""
        self.address = ""
        self.held = ""
        """The id under which this broker is kept out of actions meanwhile."""
        self.is_ready = False
        """Everybody agrees: it is to be decided now."""
        self._inside = inside
        self._number = number
        self._attempt = 0
        self._path = path
        self._most_clients = most_clients
        self._give_up_at = now + inside.config.migration_limit_s
        self._retry_at: float | None = None
        self._obstacle = ""

    @property
    def _sought(self) -> str:
        """The number of the current attempt, which every broker may hear."""
        return f"{self._number}.{self._attempt}"

    @property
    def id(self) -> str:
        """The same as a token: only the brokers of the path and the client hear it."""
        return f"{self._sought}.{self._inside.sessions.tokens.tag(self._sought, self.client)}"

    @property
    def deadline(self) -> float:
        return self._give_up_at if self._retry_at is None else min(self._retry_at, self._give_up_at)

    # --- asking ----------------------------------------------------------------------------

    def begin(self, now: float) -> None:
        reason = self._why_never()
        if reason:
            self._finish(MigrationOutcome.REFUSED, reason)
        else:
            self._try(now)

    def _why_never(self) -> str:
        session = self._session()
        if session is None or self.client.startswith(OBSERVER_MARK):
            return f"{self._inside.id} has no client {self.client}"
        if self.destination == self._inside.id:
            return f"{self.client} is at {self.destination} already"
        if self._path and (self._path[0], self._path[-1]) != (self._inside.id, self.destination):
            return f"a path from {self._path[0]} to {self._path[-1]} is of no use"
        if not session.can_move:
            return f"{self.client} cannot be redirected"
        return ""

    def _session(self) -> Session | None:
        return self._inside.sessions.clients.get(self.client)

    def _try(self, now: float) -> None:
        inside = self._inside
        self._attempt += 1
        self._retry_at = None
        self.migration = None
        session = self._session()
        if session is None or not session.is_established:
            self._retry_later(f"{self.client} is not connected", now)
        elif inside.actions.is_busy or now < inside.precedence.until:
            self._retry_later(f"{inside.id} takes part in an action", now)
        elif self._path:
            self.found(self._sought, self._path, now)
        else:
            seek = MigrationSeek(self._sought, self.destination, (inside.id,))
            for link, table in inside.routing.links.items():
                if not table.is_held:
                    inside.send(link, seek)

    def found(self, number: str, path: tuple[BrokerId, ...], now: float) -> None:
        """The way to the destination: ask everybody on it."""
        if number != self._sought or self.migration is not None:
            return
        inside = self._inside
        self.migration = Migration(self.id, self.client, path, self._most_clients)
        obstacle = why_not_now(inside, path[1:2], self._attempt)
        if obstacle:
            self.migration = None
            self._retry_later(obstacle, now)
        else:
            self._tell(MigrationStep.RESERVE)

    def _tell(self, step: MigrationStep) -> None:
        assert self.migration is not None
        link = self._inside.link(self.migration.path[1])
        if link is not None:
            self._inside.send(link, MigrationSignal(self.migration, step))

    def _retry_later(self, obstacle: str, now: float) -> None:
        # Two that are in each other's way must not ask again at the same instant for ever.
        spread = zlib.crc32(self._sought.encode()) % 1000 / 1000
        self._obstacle = obstacle
        self._retry_at = now + RETRY_S * (0.5 + spread)

    # --- answers ---------------------------------------------------------------------------

    def answered(self, step: MigrationStep, text: str, now: float) -> None:
        """The answer of the brokers on the path."""
        match step:
            case MigrationStep.BUSY:
                self.migration = None
                self._retry_later(text, now)
            case MigrationStep.REFUSED:
                self._finish(MigrationOutcome.REFUSED, text)
            case MigrationStep.RESERVED:
                self.address = text
                self._invite()

    def _invite(self) -> None:
        """The client has to say whether it can reach its new broker at all."""
        session = self._session()
        if session is None or session.connection is None:
            self.give_up(MigrationOutcome.FAILED, f"{self.client} is gone")
            return
        question = Redirect(self.id, self.destination, self.address, is_final=False)
        self._inside.emit(Transmit(session.connection, (question,)))

    def replied(self, token: str, problem: str) -> None:
        """The client's answer; then it is time to decide."""
        if token != self.id or self.migration is None:
            return
        if problem:
            self.give_up(MigrationOutcome.REFUSED, problem)
            return
        session, after = self._session(), self.migration.path[1]
        if session is None or not session.is_established or not self._inside.is_linked(after):
            self.give_up(MigrationOutcome.FAILED, "a connection was lost on the way")
        else:
            self.is_ready = True

    def on_deadline(self, now: float) -> None:
        if now >= self._give_up_at:
            outcome = MigrationOutcome.BUSY if self._obstacle else MigrationOutcome.FAILED
            reason = self._obstacle or f"no answer from {self.destination}"
            self.give_up(outcome, reason)
        elif self._retry_at is not None and now >= self._retry_at:
            self._try(now)

    def give_up(self, outcome: MigrationOutcome, reason: str) -> None:
        if self.migration is not None:
            sometimes(Branch.MIGRATION_UNDONE)
            self._tell(MigrationStep.ABORT)
        self._finish(outcome, reason)

    def _finish(self, outcome: MigrationOutcome, reason: str) -> None:
        hops = self.migration.hops if self.migration is not None else 0
        self.end = MigrationEnd(self.client, self.destination, outcome, reason, hops)
