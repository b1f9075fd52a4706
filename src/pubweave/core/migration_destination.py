"""The broker that gets a client.

It has the client from the update on: what the client published before is in front of that, and
what is for the client waits here from `moved` on, until the client comes. The source's last word,
`complete`, says where the client's session ended; the session goes on there. A client that comes
before it waits.
"""

from __future__ import annotations

from pubweave.core.broker_inside import BrokerInside
from pubweave.core.events import ConnectionId
from pubweave.core.migration_part import MigrationPart
from pubweave.core.migration_tables import move_advertisements
from pubweave.core.tokens import is_same
from pubweave.model.messages import Hello
from pubweave.model.migration_messages import Migration, MigrationComplete


class DestinationPart(MigrationPart):
    """The part of the broker that gets the client."""

    def __init__(self, inside: BrokerInside, migration: Migration) -> None:
        super().__init__(inside, migration)
        self.address = inside.sessions.address
        self._early: tuple[ConnectionId, Hello] | None = None

    def look(self, now: float) -> None:
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
        return True

    def is_early(self, connection: ConnectionId) -> bool:
        return self._early is not None and self._early[0] == connection

    def completed(self, message: MigrationComplete, now: float) -> None:
        super().completed(message, now)
        inside = self.inside
        session = inside.sessions.clients.get(self.migration.client)
        if session is not None and message.is_gone:
            inside.withdraw(session, "the client has left", now)
        elif session is not None and message.session is not None and not session.remote_epoch:
            # Else this broker was restarted, and the client has begun a session of its own here.
            session.go_on(message.session)
        inside.note_sequence(self.migration.client, message.last_sequence)
        if self._early is not None:
            inside.greet(*self._early, now)
