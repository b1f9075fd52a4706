"""Publisher gate: publishers wait until the neighbors have sent matching subscriptions.

An advertisement draws the matching subscriptions from the whole tree, which takes a round trip.
What a client publishes at once would be routed nowhere, and yet be acknowledged. So a new
advertisement is a question to all neighbors (`link_sync`), and from its first publication on the
client's messages wait until they have answered. Waiting messages are not acknowledged, so the
client's window bounds them, and a new connection sends them again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from pubweave.core.session.session import RemoteProtocolError, Session
from pubweave.core.vocabulary.rare_branches import Branch, sometimes
from pubweave.model.messages.session import Message, SequencedMessage, SessionMessage
from pubweave.model.publications import Publication


class PublisherGate:
    """The clients that have to wait, and their messages since."""

    def __init__(self) -> None:
        self.returning: dict[Session, None] = {}
        """Clients with an earlier session that this broker does not know."""
        self._waiting: dict[Session, list[SequencedMessage]] = {}
        self.opened: list[Session] = []
        """Clients that need not wait any longer, until `pop_opened`."""

    @property
    def waiting(self) -> Iterable[Session]:
        """The clients that have to wait."""
        return self._waiting

    def is_shut(self, client: Session) -> bool:
        return client in self._waiting

    def shut(self, client: Session) -> None:
        """The neighbors were asked about an advertisement of this client."""
        self._waiting.setdefault(client, [])

    def open(self, client: Session) -> None:
        """They have answered, or their time is over."""
        if client in self._waiting:
            self.opened.append(client)

    def admit(self, client: Session, messages: Sequence[Message]) -> list[Message]:
        """Keep what has to wait; returns what may be handled now. O(messages)."""
        waiting = self._waiting.get(client)
        if waiting is None:
            return list(messages)
        now: list[Message] = []
        for message in messages:
            if isinstance(message, SessionMessage) or not (waiting or type(message) is Publication):
                now.append(message)
            else:
                waiting.append(message)
                sometimes(Branch.PUBLISHER_WAITS)
        if sum(message.size_bytes for message in waiting[:-1]) > 4 * client.limits.window_bytes:
            raise RemoteProtocolError("sends beyond its window")
        return now

    def pop_opened(self) -> list[tuple[Session, list[SequencedMessage]]]:
        """The clients that need not wait any longer, with their messages."""
        opened, self.opened = self.opened, []
        return [(client, self._waiting.pop(client)) for client in opened if self.is_shut(client)]

    def greeted(self, client: Session, *, is_returning: bool) -> None:
        """A client has connected: it sends again what was not handled."""
        if client in self._waiting:
            if self._waiting[client]:
                sometimes(Branch.PUBLISHER_RECONNECTS)
            self._waiting[client] = []
        if is_returning:
            self.returning[client] = None

    def discard(self, client: Session) -> None:
        """A client's session has ended or restarted."""
        self._waiting.pop(client, None)
        self.returning.pop(client, None)
