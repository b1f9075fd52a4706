"""The broker that a client leaves, once the migration is decided.

The decision is its own, taken in one event (`migration/departure`): from there on only forward. It
takes in nothing more of the client, whose library keeps what is not acknowledged: so the client
pauses and buffers without knowing. It sends the update, and goes on to deliver what comes for the
client until `moved` is back. Behind that nothing for the client comes here any more. When the
client has acknowledged all of it, it is told to go, and the destination where its session ended.

A source that was restarted in between knows nothing of this until its neighbor tells it. The
client may have come back to it meanwhile; it has to pause again, and is sent on in the end.
"""

from __future__ import annotations

from pubweave.core.migration.participant import MigrationParticipant
from pubweave.core.migration.states import DESTINATION, Stage
from pubweave.core.migration.tables import ClientEntries, move_advertisements
from pubweave.core.session.session import Session
from pubweave.core.session.tokens import is_same
from pubweave.core.transformation.services import TreeServices
from pubweave.core.vocabulary.events import ConnectionId
from pubweave.core.vocabulary.rare_branches import Branch, sometimes
from pubweave.model.ids import BrokerId
from pubweave.model.messages.migration import (
    DECIDED,
    Migration,
    MigrationComplete,
    MovedSession,
)
from pubweave.model.messages.session import Hello


class MigrationSource(MigrationParticipant):
    """The part of the broker that lets the client go."""

    def __init__(self, inside: TreeServices, migration: Migration, now: float) -> None:
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

    def check(self, now: float) -> None:
        super().check(now)
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


# The broker that gets a client.
#
# It has the client from the update on: what the client published before is in front of that, and
# what is for the client waits here from `moved` on, until the client comes. The source's last
# word, `complete`, says where the client's session ended; the session goes on there. A client
# that comes before it waits.


class MigrationDestination(MigrationParticipant):
    """The part of the broker that gets the client."""

    states = DESTINATION

    def __init__(self, inside: TreeServices, migration: Migration) -> None:
        super().__init__(inside, migration)
        self.address = inside.sessions.address
        self._early: tuple[ConnectionId, Hello] | None = None

    def check(self, now: float) -> None:
        if self._owes_update:
            self._owes_update = False
            self._adopt(now)
            self._say_moved()

    def _adopt(self, now: float) -> None:
        """From here on the client is ours, though it is not here yet."""
        inside, client = self.inside, self.migration.client
        session = inside.sessions.adopt(client, now)
        move_advertisements(inside.routing, self._entries.advertisements, session)
        wanted = self._entries.subscriptions
        self._move_subscriptions(wanted, wanted, session)
        if inside.meter is not None:
            inside.meter.client_attached(client, now)
            for message in self._entries.messages():
                inside.meter.table_changed(client, message, now)

    def greeted(self, connection: ConnectionId, hello: Hello) -> bool:
        """The client is here before the source's last word: it has to wait, if it was sent here;
        False if it was not."""
        if not is_same(hello.token, self.migration.id):
            return False
        self._early = (connection, hello)
        sometimes(Branch.EARLY_CLIENT)
        return True

    def is_early(self, connection: ConnectionId) -> bool:
        return self._early is not None and self._early[0] == connection

    def completed(self, message: MigrationComplete, now: float) -> None:
        super().completed(message, now)
        inside = self.inside
        session = inside.sessions.clients.get(self.migration.client)
        if session is not None and message.is_gone:
            inside.teardown.withdraw(session, "the client has left", now)
        elif session is not None and message.session is not None and not session.remote_epoch:
            # Else this broker was restarted, and the client has begun a session of its own here.
            session.go_on(message.session)
        inside.sequences.note(self.migration.client, message.last_sequence)
        if self._early is not None:
            inside.greet(*self._early, now)
