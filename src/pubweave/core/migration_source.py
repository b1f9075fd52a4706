"""The broker that a client leaves, once the migration is decided.

The decision is its own, taken in one event (`migration_departure`): from there on only forward. It
takes in nothing more of the client, whose library keeps what is not acknowledged: so the client
pauses and buffers without knowing. It sends the update, and goes on to deliver what comes for the
client until `moved` is back. Behind that nothing for the client comes here any more. When the
client has acknowledged all of it, it is told to go, and the destination where its session ended.

A source that was restarted in between knows nothing of this until its neighbor tells it. The
client may have come back to it meanwhile; it has to pause again, and is sent on in the end.
"""

from __future__ import annotations

from pubweave.core.broker_inside import BrokerInside
from pubweave.core.migration_part import MigrationPart, Stage
from pubweave.core.migration_tables import ClientEntries
from pubweave.core.session import Session
from pubweave.model.ids import BrokerId
from pubweave.model.migration_messages import (
    DECIDED,
    Migration,
    MigrationComplete,
    MovedSession,
)


class SourcePart(MigrationPart):
    """The part of the broker that lets the client go."""

    def __init__(self, inside: BrokerInside, migration: Migration, now: float) -> None:
        super().__init__(inside, migration)
        self.began_at = now
        self.is_over = False
        self._had_client = self.session is not None
        self._has_decided = False
        """Else it was restarted since, and is told of the decision."""

    @property
    def session(self) -> Session | None:
        """Of the client; None while it is not attached."""
        return self.inside.sessions.clients.get(self.migration.client)

    def decide(self) -> None:
        """The client moves: the update goes as soon as this event is over."""
        self._has_decided = True
        self._owes_update = True

    def told(self, neighbor: BrokerId, how_far: str) -> None:
        """Decided before a restart of this broker. If nobody has the update, it got lost with
        this one and another: it goes again, with what the client has told here since."""
        super().told(neighbor, how_far)
        if how_far == DECIDED and not self._has_passed:
            self._owes_update = True

    def _pass_update(self) -> None:
        session = self.session
        if self.stage is Stage.RESERVED and session is not None:
            self._entries = ClientEntries(*self.inside.routing.from_hop(session))
        super()._pass_update()

    def _known(self) -> ClientEntries:
        """After a restart: what the client has told here since is told again where it goes."""
        known = super()._known()
        entries = self.inside.routing.advertisements
        ours = {i: f for i, f in known.advertisements.items() if not entries[i].hop.is_client}
        return ClientEntries(ours, known.subscriptions)

    def _say_moved(self) -> None:
        """There is nobody left to tell."""

    @property
    def is_eager(self) -> bool:
        return super().is_eager or self.stage is Stage.MOVED

    def look(self, now: float) -> None:
        super().look(now)
        if self.stage is Stage.MOVED and self.is_settled and self._is_drained():
            self.is_over = True

    def _is_drained(self) -> bool:
        session = self.session
        return session is None or not (session.queue_messages or session.pending)

    def last_word(self, last_sequence: int) -> MigrationComplete:
        """What the destination has to know to go on with the client's session."""
        session = self.session
        if session is None or not self._has_decided:
            is_gone = session is None and self._had_client
            return MigrationComplete(self.migration, None, last_sequence, is_gone)
        ended = MovedSession(
            session.own_epoch,
            session.remote_epoch,
            session.remote_attempt,
            session.received,
            session.acked,
        )
        return MigrationComplete(self.migration, ended, last_sequence)
