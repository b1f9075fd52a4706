"""shift(i, j, k) as three state machines: the mover i, its old peer j, its new peer k.

The link (i, j) becomes (i, k) while (j, k) stays. What is said, in this order, every message a
frame of the sessions, so that order on a link and delivery after a dropped connection are given:

  i, k          have opened their new link already if the action had to wait for others
  i -> j -> k   reserve            nobody holds anything yet
  k -> j -> i   reserved           i and k open their new link
  k -> i        linked             over the new link
  i             holds for j;       i -> j marker, i -> k quiet
  k             holds for j;       k -> j marker
  j             has both markers: all from i and k was forwarded. Holds for i and k;
                                   j -> i marker, j -> k marker and tables
  k             has the tables:    k -> i ready
  i             has marker and ready: asks the store for the commit
  whoever hears of the commit switches its tables, says `committed` on each of its links of the
  shift before anything else, and sends what it held under the new tables.

Quiet comes from outside in, then from inside out: pausing j before k would leave publications at
j whose way leads back to where they came from. When i asks for the commit, all three have all
they need, so whoever survives can go forward by itself. `shift_tables` says what switching is.
"""

from __future__ import annotations

from pubweave.core.routing.tree.link_table import LinkTable
from pubweave.core.session.session import Session
from pubweave.core.transformation.participant import (
    HeldPublications,
    LeadingParticipant,
    Participant,
)
from pubweave.core.transformation.services import TreeServices
from pubweave.core.transformation.shift_tables import (
    HandOver,
    prepare_old_peer,
    switch_mover,
    switch_new_peer,
    switch_old_peer,
    told_to_mover,
)
from pubweave.core.transformation.states import MOVER, NEW_PEER, OLD_PEER, Phase
from pubweave.model.filters.filter import Filter
from pubweave.model.ids import ActionId, BrokerId
from pubweave.model.messages.session import (
    ActionKind,
    ActionMessage,
    ActionSignal,
    ShiftTables,
    Signal,
)
from pubweave.model.plans import Shift

PATIENT_ATTEMPTS = 5
"""So often a backlog is waited for: markers queue behind it, and everything held behind them."""


def why_not_now(inside: TreeServices, neighbors: tuple[BrokerId, ...], attempt: int) -> str:
    """Why links to these neighbors cannot be in an action at this moment; empty if they can."""
    for neighbor in neighbors:
        session = inside.link(neighbor)
        if session is None or not session.is_established:
            return f"{inside.id} has no connection to {neighbor}"
        if inside.routing.has_stale(session):
            return f"{neighbor} has not told {inside.id} all of its tables yet"
        if session.waiting and attempt <= PATIENT_ATTEMPTS:
            return f"{inside.id} has a backlog for {neighbor}"
    sync = inside.routing.sync
    for unknown in (*sync.unheard, *sync.partial):
        # Tables are handed over as if they were complete: what it has not told would be lost.
        return f"{inside.id} does not know yet what {unknown.remote} wants"
    return ""


def why_never(inside: TreeServices, shift: Shift) -> str:
    """Why this broker cannot take part in a shift on this topology; empty if it can."""
    needed = {
        shift.mover: (shift.old_peer,),
        shift.old_peer: (shift.mover, shift.new_peer),
        shift.new_peer: (shift.old_peer,),
    }[inside.id]
    for neighbor in needed:
        if not inside.is_linked(neighbor):
            return f"{inside.id} has no link to {neighbor}"
    added = {shift.mover: shift.new_peer, shift.new_peer: shift.mover}.get(inside.id)
    if added is not None and inside.link(added) is not None:
        return f"{inside.id} has a link to {added} already"
    return ""


class ShiftPart(Participant):
    """What the three roles share: holding links and letting them go."""

    action: Shift

    def __init__(self, inside: TreeServices, action_id: ActionId, shift: Shift, now: float) -> None:
        super().__init__(inside, action_id, shift, now)
        self._held_links: tuple[Session, ...] = ()

    def _session(self, broker: BrokerId) -> Session:
        session = self.inside.link(broker)
        assert session is not None, f"{self.inside.id} lost its link to {broker}"
        return session

    def _hold(self, brokers: tuple[BrokerId, ...], now: float) -> None:
        config = self.inside.config
        self.hold = HeldPublications(config.hold_limit_bytes, now)
        self._held_links = tuple(self._session(broker) for broker in brokers)
        self.inside.routing.hold(self._held_links, self.hold.stand_in)
        self._give_up_at = min(self._give_up_at, now + config.hold_limit_s)

    def _resume(self, links: tuple[Session, ...]) -> None:
        """Bring links up to date: what is new, what was held, what is gone; in this order."""
        assert self.hold is not None
        routing, send = self.inside.routing, self.inside.send
        self.hold.gather(None)
        routing.let_go()
        withdrawn = [(link, routing.catch_up(link)) for link in links]
        for item in self.hold.take_all():
            if item.target is None:
                for link in routing.route_among(item.publication, item.origin, links):
                    send(routing.stand_in_for(link), item.publication)
            elif item.target in links:
                send(routing.stand_in_for(item.target), item.publication)
        for link, gone in withdrawn:
            routing.tidy(link, gone)

    def roll_back(self, now: float) -> None:
        self.signal_others(Signal.ABORTED, self.reason)
        if self.hold is not None:
            self._resume(self._held_links)
        self._unmake(now)

    def receive(self, origin: Session, message: ActionMessage, now: float) -> None:
        if isinstance(message, ActionSignal):
            match message.signal:
                case Signal.COMMITTED:
                    self.decided(True, "", now)
                case Signal.ABORTED:
                    self.decided(False, message.reason, now)
                case _:
                    self._on_signal(origin, message, now)
        elif isinstance(message, ShiftTables):
            self._on_tables(message, now)

    def _on_signal(self, origin: Session, message: ActionSignal, now: float) -> None:
        raise AssertionError("provided by subclasses")

    def _on_tables(self, message: ShiftTables, now: float) -> None:
        """Only the new peer is given tables; anybody else ignores them."""


class Mover(LeadingParticipant, ShiftPart):
    """i, the leader."""

    states = MOVER

    def __init__(self, inside: TreeServices, action_id: ActionId, shift: Shift, now: float) -> None:
        super().__init__(inside, action_id, shift, now)
        self._signals: set[Signal] = set()

    def begin(self, now: float) -> None:
        reason = why_never(self.inside, self.action)
        if reason:
            self.doubt(reason, now)
            return
        self.make_link(self.action.new_peer)
        if self.action.new_peer < self.inside.id:
            self.open_link()
        self.reserve(now)

    def reserve(self, now: float) -> None:
        obstacle = why_not_now(self.inside, (self.action.old_peer,), self.attempt + 1)
        if self.inside.migrating:
            self.inside.precedence.claim(now)
        if obstacle or self.inside.migrating:
            self.attempt += 1
            self.retry_later(now)
        else:
            self.send_reserve(self.action.old_peer, ActionKind.SHIFT)

    def _on_signal(self, origin: Session, message: ActionSignal, now: float) -> None:
        signal = message.signal
        if self.phase is Phase.RESERVING:
            if message.attempt != self.attempt:
                return
            match signal:
                case Signal.BUSY:
                    self.retry_later(now)
                case Signal.REFUSED:
                    self.doubt(message.reason, now)
                case Signal.RESERVED if self.inside.id < self.action.new_peer:
                    self.open_link()
                case Signal.LINKED:
                    self._be_quiet(now)
        elif self.phase is Phase.HOLDING and signal in (Signal.MARKER, Signal.READY):
            self._signals.add(signal)
            if len(self._signals) == 2:
                self.advance("marker and new peer ready")
                self.ask(True, "", now)

    def _be_quiet(self, now: float) -> None:
        self.advance("new peer linked")
        self._retry_at = None
        self._hold((self.action.old_peer,), now)
        self.send_signal(self.action.old_peer, Signal.MARKER)
        self.send_signal(self.action.new_peer, Signal.QUIET)

    def roll_forward(self, now: float) -> None:
        old, new = self._session(self.action.old_peer), self.use_made(now)
        self.signal_others(Signal.COMMITTED)
        switch_mover(self.inside.routing, old, new)
        if self._made_began:
            self.inside.routing.link_began(new)
        self._resume((new,))
        self.end_link(old, "the link was moved", now)
        self.inside.teardown.link_changed(old.remote, False, now)
        self.unstash(new, now)


class OldPeer(ShiftPart):
    """j, in the middle until the mover is gone."""

    states = OLD_PEER

    MARKERS = 2
    """Both ends must have fallen silent before the middle does."""

    def __init__(self, inside: TreeServices, action_id: ActionId, shift: Shift, now: float) -> None:
        super().__init__(inside, action_id, shift, now)
        self._markers: set[BrokerId] = set()
        self._prepared: LinkTable | None = None
        self._new_peer_began = False

    def _on_signal(self, origin: Session, message: ActionSignal, now: float) -> None:
        match message.signal:
            case Signal.BUSY | Signal.REFUSED if self.phase is Phase.RESERVED:
                self.send_signal(self.action.mover, message.signal, message.reason)
                self.leave(now)
            case Signal.RESERVED:
                self.send_signal(self.action.mover, Signal.RESERVED)
            case Signal.MARKER if self.phase is Phase.RESERVED:
                self._markers.add(origin.remote)
                if len(self._markers) == self.MARKERS:
                    self._hand_over(now)

    def _hand_over(self, now: float) -> None:
        mover, new_peer = self.action.mover, self.action.new_peer
        routing = self.inside.routing
        given, self._prepared = prepare_old_peer(
            routing, self._session(mover), self._session(new_peer)
        )
        self.advance("both markers")
        self._hold((mover, new_peer), now)
        self.send_signal(mover, Signal.MARKER)
        self.send_signal(new_peer, Signal.MARKER)
        for part in given.parts(self.action_id):
            self.inside.send(self._session(new_peer), part)

    def held_link_began(self, session: Session) -> None:
        if session.remote == self.action.new_peer:
            self._new_peer_began = True

    def roll_forward(self, now: float) -> None:
        assert self._prepared is not None
        mover, new_peer = self._session(self.action.mover), self._session(self.action.new_peer)
        self.signal_others(Signal.COMMITTED)
        switch_old_peer(
            self.inside.routing, mover, new_peer, self._prepared, began=self._new_peer_began
        )
        self._resume((new_peer,))
        self.end_link(mover, "the link was moved", now)
        self.inside.teardown.link_changed(mover.remote, False, now)


class NewPeer(ShiftPart):
    """k, which gets the mover as a neighbor."""

    states = NEW_PEER

    def __init__(self, inside: TreeServices, action_id: ActionId, shift: Shift, now: float) -> None:
        super().__init__(inside, action_id, shift, now)
        self._given = HandOver()
        self._told: dict[str, Filter] = {}
        self._old_peer_began = False

    def begin(self, now: float) -> None:
        self.make_link(self.action.mover)
        self.open_link()
        self.send_signal(self.action.old_peer, Signal.RESERVED)
        if self._made_stands:
            self.made_established(now)

    def made_established(self, now: float) -> None:
        self.send_signal(self.action.mover, Signal.LINKED)

    def _on_signal(self, origin: Session, message: ActionSignal, now: float) -> None:
        if message.signal is Signal.QUIET and self.phase is Phase.RESERVED:
            self.advance("mover quiet")
            self._hold((self.action.old_peer,), now)
            self.send_signal(self.action.old_peer, Signal.MARKER)

    def _on_tables(self, message: ShiftTables, now: float) -> None:
        if self.phase is not Phase.HOLDING:
            return
        self._given.add(message)
        if message.is_last:
            self.advance("tables complete")
            old_peer = self._session(self.action.old_peer)
            self._told = told_to_mover(self.inside.routing, old_peer, self._given)
            self.send_signal(self.action.mover, Signal.READY)

    def held_link_began(self, session: Session) -> None:
        self._old_peer_began = True

    def roll_forward(self, now: float) -> None:
        mover, old_peer = self.use_made(now), self._session(self.action.old_peer)
        self.signal_others(Signal.COMMITTED)
        switch_new_peer(
            self.inside.routing,
            mover,
            old_peer,
            self._given,
            self._told,
            began=self._old_peer_began,
        )
        if self._made_began:
            self.inside.routing.link_began(mover)
        self._resume((mover, old_peer))
        self.unstash(mover, now)
