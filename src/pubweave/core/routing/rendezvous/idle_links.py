"""Links of a ring that neither end needs any more: brokers were remapped, or others came between.

An end that has had no use for a link for a while says so. If the other has none either it answers
the same, and the link is closed by both; if one has, nothing happens. So a link that somebody
needs is never taken from it, and one that is closed is not taken for a crash.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from pubweave.core.routing.rendezvous.chord import SendToBroker
from pubweave.core.routing.topic_connected.link_monitor import LinkMonitor
from pubweave.core.session.table import SessionTable
from pubweave.model.ids import BrokerId
from pubweave.model.messages.rendezvous import LinkUnused

ANSWER_LIMIT_S = 5.0
"""Within so long after this end has offered it, a link may be closed."""


class IdleLinks:
    """``used`` says which links this end needs; ``on_close`` hears of each that is over."""

    def __init__(
        self,
        links: LinkMonitor,
        sessions: SessionTable,
        send: SendToBroker,
        used: Callable[[], Collection[BrokerId]],
        on_close: Callable[[BrokerId], None],
        release_after_s: float,
    ) -> None:
        self._links = links
        self._sessions = sessions
        self._send = send
        self._used = used
        self._on_close = on_close
        self._release_after_s = release_after_s
        self._unused_since: dict[BrokerId, float] = {}
        self._offered_at: dict[BrokerId, float] = {}
        self.closed = 0

    def check(self, now: float) -> None:
        """Offer what has been of no use; close what the other end has closed. O(links)."""
        used = self._used()
        for neighbor in list(self._links.links):
            session = self._sessions.links.get(neighbor)
            if session is None or neighbor in used:
                self._unused_since.pop(neighbor, None)
                self._offered_at.pop(neighbor, None)
            elif not session.is_established:
                if self._is_offered(neighbor, now):
                    self._close(neighbor, now)
            elif now - self._unused_since.setdefault(neighbor, now) > self._release_after_s:
                self._unused_since[neighbor] = now
                self._offer(neighbor, now)

    def restored(self) -> None:
        """This broker was away: a link that does not stand may be needed all the same."""
        self._unused_since.clear()
        self._offered_at.clear()

    def take(self, neighbor: BrokerId, now: float) -> None:
        """The other end has no use for a link."""
        if neighbor not in self._links.links or neighbor in self._used():
            return
        if self._is_offered(neighbor, now):
            self._close(neighbor, now)
        else:
            self._offer(neighbor, now)

    def _is_offered(self, neighbor: BrokerId, now: float) -> bool:
        return now - self._offered_at.get(neighbor, -ANSWER_LIMIT_S) < ANSWER_LIMIT_S

    def _offer(self, neighbor: BrokerId, now: float) -> None:
        self._offered_at[neighbor] = now
        self._send(neighbor, LinkUnused())

    def _close(self, neighbor: BrokerId, now: float) -> None:
        self._unused_since.pop(neighbor, None)
        self._offered_at.pop(neighbor, None)
        self._links.discard(neighbor, now)
        self._on_close(neighbor)
        self.closed += 1
