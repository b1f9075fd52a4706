"""A restarted broker on the path of a migration does not know whether `moved` had passed it.

If it had, what came from other sides has gone to the destination for the client, and what comes
next must not overtake it by way of the source. So long as the neighbor on the destination's side
has not spoken, publications for both neighbors on the path wait at their gates. That neighbor
either has not said `moved` yet: then it had not passed here, and all goes on as it was. Or it says
it again, in its place among its own publications. Then three kinds of publications wait:

  from the destination's side            in front of `moved`: to the source
  others that the client wants           behind it: to the destination, whether or not it had passed
  others                                 as they are

Somebody who does not come back is waited for `DOUBT_S`, or until a gate is full.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping

from pubweave.core.session.session import Session
from pubweave.core.transformation.services import TreeServices
from pubweave.core.vocabulary.rare_branches import Branch, sometimes
from pubweave.model.filters.filter import Filter
from pubweave.model.ids import BrokerId, ClientId, SubscriptionId, publisher_of
from pubweave.model.messages.migration import MigrationSignal
from pubweave.model.messages.session import SequencedMessage
from pubweave.model.publications import Publication

DOUBT_S = 30.0


class MigrationUncertainty:
    """Publications that wait for word from the destination's side, while ``is_open``."""

    def __init__(self, inside: TreeServices) -> None:
        self._inside = inside
        self._links: tuple[Session, Session] | None = None
        self._until = 0.0

    @property
    def is_open(self) -> bool:
        return self._links is not None

    def begin(self, before: BrokerId | None, after: BrokerId | None, now: float) -> None:
        """This broker has forgotten how far it had come. At the ends of the path nothing depends on
        that: their clients begin anew."""
        ends = [n for n in (before, after) if n is not None and self._inside.is_linked(n)]
        links = [link for link in map(self._inside.link, ends) if link is not None]
        if len(links) == 2:
            sometimes(Branch.MIGRATION_DOUBTED)
            self._links = (links[0], links[1])
            self._until = now + DOUBT_S
            for link in links:
                self._inside.routing.sync.keep_shut(link)
                self._inside.routing.set_gate(link, is_shut=True)
            self._inside.routing.sync.doubt(links[1])

    def end(self) -> None:
        """All goes on as it is."""
        links, self._links = self._links, None
        if links is not None:
            self._inside.routing.sync.trust(links[1])
        for link in links or ():
            if self._inside.routing.sync.release(link):
                self._inside.routing.set_gate(link, is_shut=False)

    def check(self, now: float) -> None:
        """End it if it has lasted too long."""
        if self.is_open and now >= self._until:
            self.end()

    def settle(
        self, wanted: Mapping[SubscriptionId, Filter], moved: MigrationSignal | None
    ) -> bool:
        """`moved` had passed, or does now, and tables have been switched; ``moved`` is for the
        source's side, if that lacks it. ``wanted`` by the client. False if nothing waits any more,
        because a gate was full: then nothing is done. O(publications that wait)."""
        sync = self._inside.routing.sync
        is_in_time = self._links is not None and all(link in sync.gates for link in self._links)
        if self._links is not None and is_in_time:
            sometimes(Branch.DOUBT_SETTLED)
            before, after = self._links
            beyond = self._publishers_beyond(after)
            waiting = sync.clear_gate(before)
            again = [
                m for m in _wanted(waiting, list(wanted.values())) if m.publisher not in beyond
            ]
            if moved is not None:
                waiting = _marked(waiting, moved, beyond, again)
            sync.put_at_gate(before, waiting)
            sync.put_at_gate(after, _merged(sync.clear_gate(after), again))
        self.end()
        return is_in_time

    def _publishers_beyond(self, after: Session) -> set[ClientId]:
        """Those on the destination's side. O(advertisements)."""
        entries = self._inside.routing.advertisements.items()
        return {publisher_of(id_) for id_, entry in entries if entry.hop is after}


def _wanted(waiting: Iterable[SequencedMessage], filters: list[Filter]) -> list[Publication]:
    publications = [message for message in waiting if isinstance(message, Publication)]
    return [p for p in publications if any(f.matches(p) for f in filters)]


def _marked(
    waiting: list[SequencedMessage],
    mark: MigrationSignal,
    beyond: set[ClientId],
    again: list[Publication],
) -> list[SequencedMessage]:
    """The mark behind the last publication of those beyond, and behind it what the client gets
    ``again`` by way of the destination, with what its publishers published after that; all else
    stays where it is: other migrations' marks are among it, and what they separate."""
    place = 0
    for index, message in enumerate(waiting, 1):
        if isinstance(message, Publication) and message.publisher in beyond:
            place = index
    first: dict[ClientId, int] = {}
    for publication in again:
        first.setdefault(publication.publisher, publication.sequence)
    front, back = list[SequencedMessage](), list[SequencedMessage]()
    for message in waiting[:place]:
        is_late = isinstance(message, Publication) and message.sequence >= first.get(
            message.publisher, message.sequence + 1
        )
        (back if is_late else front).append(message)
    return [*front, mark, *back, *waiting[place:]]


def _merged(there: list[SequencedMessage], again: list[Publication]) -> list[SequencedMessage]:
    """Each publication once, a publisher's in their order; what is there stays where it is, as
    marks of other migrations are among it."""
    known = {message.key for message in there if isinstance(message, Publication)}
    missing = dict[ClientId, deque[Publication]]()
    for publication in again:
        if publication.key not in known:
            missing.setdefault(publication.publisher, deque()).append(publication)
    merged = list[SequencedMessage]()
    for message in there:
        if isinstance(message, Publication):
            earlier = missing.get(message.publisher)
            while earlier and earlier[0].sequence < message.sequence:
                merged.append(earlier.popleft())
        merged.append(message)
    return [*merged, *(publication for rest in missing.values() for publication in rest)]
