"""Clients that come back wait until the neighbors have said who wants what they publish.

An advertisement draws the subscriptions it calls for from the whole tree, and that takes the way
there and back. A client whose session began anew advertises and at once sends what it still has:
without waiting, that would be routed to nobody and yet be acknowledged. So its advertisement is a
question to all neighbors (`link_sync`), and from its first publication on the client is not
listened to before they have answered. What waits is not acknowledged, so the client's window
bounds it, and a new connection sends it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from pubweave.core.session.session import RemoteProtocolError, Session
from pubweave.model.messages.session import Advertise, Message, SequencedMessage, SessionMessage
from pubweave.model.publications import Publication


def cut_behind_advertisements(messages: Sequence[Message]) -> list[Sequence[Message]]:
    """The messages in parts: whether what follows an advertisement has to wait is known only when
    that has been handled.

    >>> from pubweave.model.filters.filter import Filter
    >>> asked = Advertise("a:1", Filter())
    >>> [len(part) for part in cut_behind_advertisements([asked, asked, asked])]
    [1, 1, 1, 0]
    """
    cuts = [place + 1 for place, m in enumerate(messages) if isinstance(m, Advertise)]
    return [messages[begin:end] for begin, end in pairwise([0, *cuts, len(messages)])]


class PublisherGate:
    """The clients that have to wait, and what they have said since."""

    def __init__(self) -> None:
        self.returning: dict[Session, None] = {}
        """Clients that had a session before this one, which nobody here remembers."""
        self._waiting: dict[Session, list[SequencedMessage]] = {}
        self._opened: list[Session] = []

    def is_shut(self, client: Session) -> bool:
        return client in self._waiting

    @property
    def has_opened(self) -> bool:
        """Whether `pop_opened` would return anything."""
        return bool(self._opened)

    def shut(self, client: Session) -> None:
        """The neighbors were asked about an advertisement of this client."""
        self._waiting.setdefault(client, [])

    def open(self, client: Session) -> None:
        """They have answered, or had their time."""
        if client in self._waiting:
            self._opened.append(client)

    def admit(self, client: Session, messages: Sequence[Message]) -> list[Message]:
        """Keep what has to wait; what may be handled now. O(messages)."""
        waiting = self._waiting.get(client)
        if waiting is None:
            return list(messages)
        now: list[Message] = []
        for message in messages:
            if isinstance(message, SessionMessage) or not (waiting or type(message) is Publication):
                now.append(message)
            else:
                waiting.append(message)
        if sum(message.size_bytes for message in waiting) > 4 * client.limits.window_bytes:
            raise RemoteProtocolError("sends beyond its window")
        return now

    def pop_opened(self) -> list[tuple[Session, list[SequencedMessage]]]:
        """Whoever need not wait any more, with what it has said meanwhile."""
        opened, self._opened = self._opened, []
        return [(client, self._waiting.pop(client)) for client in opened if self.is_shut(client)]

    def greeted(self, client: Session, *, is_returning: bool) -> None:
        """A client's connection begins: what was not handled comes again."""
        if client in self._waiting:
            self._waiting[client] = []
        if is_returning:
            self.returning[client] = None

    def discard(self, client: Session) -> None:
        """A client's session is over or begins anew."""
        self._waiting.pop(client, None)
        self.returning.pop(client, None)
