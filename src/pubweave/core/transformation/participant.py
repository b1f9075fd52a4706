"""One broker's part in an action of a plan: what parts of every kind share.

A part asks for the decision, hears of it, and ends; `transformation/shift` and
`transformation/append_detach` are the kinds. There is one truth about how an action ends, in the
store behind the agents: a part that is in doubt (too late, too full, a neighbor began anew) asks
for the action to be given up and goes by the answer, which may be that it was committed. Only the
leader ever asks for a commit; so until it has, it may give up by itself.

Aborted in any phase: as before; committed only after the last one, and then only forward
(`transformation/states`).
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable
from dataclasses import dataclass

from pubweave.core.config.session import SessionLimits
from pubweave.core.session.session import Session
from pubweave.core.transformation.services import TreeServices
from pubweave.core.transformation.states import Phase
from pubweave.core.vocabulary.effects import CloseLink, DecideAction, OpenLink, ReportAction
from pubweave.core.vocabulary.rare_branches import Branch, sometimes
from pubweave.core.vocabulary.state_table import StateTable
from pubweave.model.ids import ActionId, BrokerId
from pubweave.model.messages.session import (
    ActionKind,
    ActionMessage,
    ActionReserve,
    ActionSignal,
    SequencedMessage,
    Signal,
    Synced,
    TableMessage,
)
from pubweave.model.plans import Action
from pubweave.model.publications import Publication
from pubweave.model.records.status import BrokerActionStatus

RETRY_S = 0.2
"""About how long a leader waits before it asks busy brokers again."""


class Participant:
    """A part in an action; subclasses say what signals mean and what the end does."""

    states: StateTable[Phase]
    """Of the role."""

    def __init__(
        self, inside: TreeServices, action_id: ActionId, action: Action, now: float
    ) -> None:
        self.inside = inside
        self.action_id = action_id
        self.action = action
        self.phase = self.states.first
        self.committed: bool | None = None
        self.reason = ""
        self.hold: HeldPublications | None = None
        self.attempt = 1
        self._began_at = now
        self._give_up_at = now + inside.config.action_limit_s
        self._asked: DecideAction | None = None
        self._ask_again_at = 0.0
        self._made: Session | None = None
        """The session of a link that comes to be with a commit."""
        self._made_stands = False
        """That session was there already when the part began."""
        self._made_began = False
        """That session began anew after it had been used: what we know of it is stale."""
        self._stash: list[TableMessage | Synced] = []

    # --- to be provided --------------------------------------------------------------------

    def receive(self, origin: Session, message: ActionMessage, now: float) -> None:
        """A message of this action came."""
        raise AssertionError("provided by subclasses")

    def others(self) -> tuple[BrokerId, ...]:
        """The other brokers that take part."""
        return tuple(b for b in self.action.brokers if b != self.inside.id)

    def roll_back(self, now: float) -> None:
        """As if the action had never been."""
        raise AssertionError("provided by subclasses")

    def roll_forward(self, now: float) -> None:
        """Do what this broker has to do of the action."""
        raise AssertionError("provided by subclasses")

    def made_established(self, now: float) -> None:
        """The session of the new link stands for the first time, or again from the beginning."""

    def doubt(self, reason: str, now: float) -> None:
        """Something is wrong: find out how the action ends."""
        if self._asked is None:
            self.ask(False, reason, now)

    # --- decision and end ------------------------------------------------------------------

    def advance(self, event: str) -> None:
        """Something happened that leads to another phase."""
        self.phase = self.states.after(self.phase, event)

    @property
    def is_over(self) -> bool:
        return self.phase is Phase.OVER

    def ask(self, commit: bool, reason: str, now: float) -> None:
        self._asked = DecideAction(self.action_id, commit, reason)
        self._ask_again_at = now + self.inside.config.ask_again_s
        self.inside.emit(self._asked)

    def decided(self, committed: bool, reason: str, now: float) -> None:
        """The decision, from the store or from another broker; the first one counts."""
        if self.is_over:
            return
        held_messages = len(self.hold.items) if self.hold is not None else 0
        held_s = now - self.hold.began_at if self.hold is not None else 0.0
        self.advance("committed" if committed else "aborted")
        self.committed = committed
        if committed:
            self.roll_forward(now)
        else:
            self.reason = reason or (self._asked.reason if self._asked is not None else "")
            if self.hold is not None:
                sometimes(Branch.ABORTED_WHILE_HOLDING)
            self.roll_back(now)
        self.inside.emit(
            ReportAction(
                self.action_id, committed, self.reason, held_messages=held_messages, held_s=held_s
            )
        )

    def leave(self, now: float) -> None:
        """Give a reservation back without a word."""
        self.advance("given back")
        self._unmake(now)

    def send_signal(self, broker: BrokerId, signal: Signal, reason: str = "") -> None:
        session = self.inside.link(broker)
        if session is not None:
            self.inside.send(session, ActionSignal(self.action_id, signal, self.attempt, reason))

    def signal_others(self, signal: Signal, reason: str = "") -> None:
        for broker in self.others():
            self.send_signal(broker, signal, reason)

    # --- time ------------------------------------------------------------------------------

    @property
    def deadline(self) -> float:
        return self._ask_again_at if self._asked is not None else self._give_up_at

    def on_deadline(self, now: float) -> None:
        if self.is_over:
            return
        if self._asked is not None:
            if now >= self._ask_again_at:
                self.ask(self._asked.commit, self._asked.reason, now)
        elif now >= self._give_up_at:
            self.doubt(f"{self.inside.id} waited too long ({self.phase.value})", now)

    # --- sessions --------------------------------------------------------------------------

    def make_link(self, neighbor: BrokerId) -> None:
        """A session for a link that comes to be with a commit; nothing is routed over it yet."""
        expected = self.inside.expected.pop(neighbor, None)
        if expected is None:
            self._made = self.inside.sessions.add_link(neighbor)
        else:
            self._made = self.inside.sessions.links[neighbor]
            self._made_stands = expected.has_begun

    def open_link(self) -> None:
        assert self._made is not None
        self.inside.emit(OpenLink(self._made.remote))

    def _unmake(self, now: float) -> None:
        """The new link is not to be."""
        if self._made is not None:
            self.end_link(self._made, "the action was given up", now)
            self._made = None

    def end_link(self, session: Session, reason: str, now: float) -> None:
        self.inside.flush(session)
        self.inside.teardown.end(session, reason, now)
        self.inside.emit(CloseLink(session.remote))

    def link_began(self, session: Session, under_way: list[SequencedMessage], now: float) -> bool:
        """A link's session began anew. True if this part sees to what follows from it."""
        if session is self._made:
            self._stash.clear()
            if self.phase in (Phase.RESERVING, Phase.RESERVED):
                self.made_established(now)
            else:
                self._made_began = True
                sometimes(Branch.NEW_LINK_RESTARTS)
                self.doubt(f"{session.remote} began anew", now)
            return True
        if session.remote not in self.others():
            return False
        table = self.inside.routing.links.get(session)
        if table is None or not table.is_held or self.hold is None:
            self.doubt(f"{session.remote} began anew", now)
            return False
        self.inside.routing.link_began(session, under_way)
        sometimes(Branch.HELD_LINK_RESTARTS)
        self.hold.put_first([m for m in under_way if isinstance(m, Publication)], session)
        self.held_link_began(session)
        self.doubt(f"{session.remote} began anew", now)
        return True

    def held_link_began(self, session: Session) -> None:
        """A held link's far end forgot everything."""

    def keeps(self, origin: Session, message: TableMessage | Synced, now: float) -> bool:
        """Whether a table message has to wait because its link is not known to routing yet: its
        sender began anew and knows of a commit before we do. Its window bounds what is kept."""
        if origin is not self._made:
            return False
        self._stash.append(message)
        sometimes(Branch.TABLES_BEFORE_COMMIT)
        if self.hold is not None:
            self.inside.flow.hold(origin, self.hold.stand_in, now)
        self.doubt(f"{origin.remote} tells its tables", now)
        return True

    def use_made(self, now: float) -> Session:
        """The new link is in use from here on; the session that was made for it."""
        assert self._made is not None
        session, self._made = self._made, None
        self.inside.teardown.link_changed(session.remote, True, now)
        return session

    def unstash(self, session: Session, now: float) -> None:
        for message in self._stash:
            self.inside.tables.receive(session, message, now)
        self._stash.clear()

    def status(self, now: float) -> BrokerActionStatus:
        return BrokerActionStatus(
            id=self.action_id,
            action=str(self.action),
            phase=self.phase.value,
            held_messages=len(self.hold.items) if self.hold is not None else 0,
            held_bytes=self.hold.size_bytes if self.hold is not None else 0,
            seconds=now - self._began_at,
        )


class LeadingParticipant(Participant):
    """The part of the broker that asks the others and, when all are ready, for the commit."""

    def __init__(
        self, inside: TreeServices, action_id: ActionId, action: Action, now: float
    ) -> None:
        super().__init__(inside, action_id, action, now)
        self.attempt = 0
        self._retry_at: float | None = None

    def begin(self, now: float) -> None:
        """Ask the others to take part."""
        raise AssertionError("provided by subclasses")

    def reserve(self, now: float) -> None:
        """Ask once; `retry_later` if that cannot be now."""
        raise AssertionError("provided by subclasses")

    def send_reserve(self, broker: BrokerId, kind: ActionKind) -> None:
        session = self.inside.link(broker)
        assert session is not None, f"{self.inside.id} lost its link to {broker}"
        self._retry_at = None
        self.attempt += 1
        message = ActionReserve(self.action_id, kind, self.action.brokers, self.attempt)
        self.inside.send(session, message)

    def retry_later(self, now: float) -> None:
        # Two leaders that block each other must not ask again at the same instant for ever.
        spread = zlib.crc32(f"{self.action_id} {self.attempt}".encode()) % 1000 / 1000
        self._retry_at = now + RETRY_S * (0.5 + spread)

    @property
    def deadline(self) -> float:
        deadline = super().deadline
        return deadline if self._retry_at is None else min(deadline, self._retry_at)

    def on_deadline(self, now: float) -> None:
        super().on_deadline(now)
        if not self.is_over and self._retry_at is not None and now >= self._retry_at:
            self.reserve(now)

    def doubt(self, reason: str, now: float) -> None:
        """Nobody else can have asked for the commit: before we do, we may give up at once."""
        if self._asked is None:
            self.ask(False, reason, now)
            self.decided(False, reason, now)


# What an action holds back: publications for the links that it affects, in their order.
#
# One stand-in session takes the place of all held links in routes, so that the hot path of
# publishing knows nothing of actions: it queues for the stand-in as for any other session, and at
# the end of the event the broker hands over what was queued, with the session it came from. What
# is held is bounded: beyond the limit the action is to be given up, and whoever feeds the hold
# has to wait, as with any congested session (`core.session.backpressure`).
#
# Table messages are not held here: links that are held are told the difference afterwards
# (`TreeRouting.catch_up`).


@dataclass(frozen=True)
class HeldItem:
    """A publication, where it came from, and the one link it is for, if that is settled."""

    publication: Publication
    origin: Session | None
    target: Session | None = None


class HeldPublications:
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
