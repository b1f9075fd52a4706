"""What an action holds back: publications for the links that it affects, in their order.

One stand-in session takes the place of all held links in routes, so that the hot path of
publishing knows nothing of actions: it queues for the stand-in as for any other session, and at
the end of the event the broker hands over what was queued, with the session it came from. What
is held is bounded: beyond the limit the action is to be given up, and whoever feeds the hold has
to wait, as with any congested session (`flow`).

Table messages are not held here: links that are held are told the difference afterwards
(`tree_routing.TreeRouting.catch_up`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from pubweave.core.session import Session
from pubweave.core.session_limits import SessionLimits
from pubweave.model.publications import Publication


@dataclass(frozen=True)
class HeldItem:
    """A publication, where it came from, and the one link it is for, if that is settled."""

    publication: Publication
    origin: Session | None
    target: Session | None = None


class Hold:
    """The ordered, bounded hold of one action at one broker."""

    def __init__(self, limit_bytes: int, now: float) -> None:
        self.stand_in = Session("held", own_epoch=0, is_client=False, limits=SessionLimits())
        self.items: list[HeldItem] = []
        self.size_bytes = 0
        self.began_at = now
        self._limit_bytes = limit_bytes

    @property
    def is_over_limit(self) -> bool:
        return self.size_bytes > self._limit_bytes

    def gather(self, origin: Session | None) -> None:
        """Take over what an event queued for the stand-in. O(publications)."""
        queued = self.stand_in.pending
        for message in queued:
            assert isinstance(message, Publication)
            self.items.append(HeldItem(message, origin))
            self.size_bytes += message.size_bytes
        queued.clear()

    def put_first(self, publications: Iterable[Publication], target: Session) -> None:
        """A held link's session began anew: what was under way goes there again, before all."""
        again = [HeldItem(publication, None, target) for publication in publications]
        self.items[:0] = again
        self.size_bytes += sum(item.publication.size_bytes for item in again)

    def take_all(self) -> list[HeldItem]:
        """Everything, in order; the hold is empty afterwards."""
        items, self.items = self.items, []
        self.size_bytes = 0
        return items
