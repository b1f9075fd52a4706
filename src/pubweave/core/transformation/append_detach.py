"""append(b, n) and detach(b, n): brokers that join the overlay and leave it, as a leaf at n.

n leads, because it stays. Nothing has to be held:

- append: both make a session (b is told by its agent, for no link leads to it yet); b says
  `linked` over it, n asks for the commit, and on it both treat the link as one whose session has
  just begun: tables are told by the ordinary messages.
- detach: n asks b, which must have no other link. b takes no more clients and tells those it has
  to move; when they are gone, or their time is up, all that they had is withdrawn by ordinary
  messages and b sends its marker. Then nobody behind b wants or says anything, n asks for the
  commit, and on it both forget the link.
"""

from __future__ import annotations

from pubweave.core.session.access import GATEWAY_CLIENT
from pubweave.core.session.session import Session
from pubweave.core.session.table import OBSERVER_MARK
from pubweave.core.transformation.participant import LeadingParticipant, Participant
from pubweave.core.transformation.services import TreeServices
from pubweave.core.transformation.states import (
    APPEND_JOINING,
    APPEND_NEIGHBOR,
    DETACH_LEAVING,
    DETACH_NEIGHBOR,
    Phase,
)
from pubweave.model.ids import ActionId
from pubweave.model.messages.session import (
    LEAVING_SUBJECT,
    ActionKind,
    ActionMessage,
    ActionSignal,
    Signal,
)
from pubweave.model.plans import Append, Detach

LOOK_S = 0.1
"""How often a leaving broker looks whether its clients are gone."""


class MembershipPart(Participant):
    """What the parts of append and detach share."""

    def receive(self, origin: Session, message: ActionMessage, now: float) -> None:
        if not isinstance(message, ActionSignal):
            return
        match message.signal:
            case Signal.COMMITTED:
                self.decided(True, "", now)
            case Signal.ABORTED:
                self.decided(False, message.reason, now)
            case signal:
                self._on_signal(signal, message.reason, now)

    def _on_signal(self, signal: Signal, reason: str, now: float) -> None:
        """One that is no decision."""

    def _begin_link(self, now: float) -> None:
        """The link is in the topology now; its tables are told from the beginning."""
        session = self.use_made(now)
        self.inside.routing.link_added(session)
        self.signal_others(Signal.COMMITTED)
        self.inside.routing.link_began(session)
        self.unstash(session, now)

    def roll_back(self, now: float) -> None:
        self.signal_others(Signal.ABORTED, self.reason)
        self._unmake(now)


class AppendNeighbor(LeadingParticipant, MembershipPart):
    """n of an append: it is in the overlay already."""

    states = APPEND_NEIGHBOR
    action: Append

    def begin(self, now: float) -> None:
        if self.inside.link(self.action.broker) is not None:
            self.doubt(f"{self.inside.id} has a link to {self.action.broker} already", now)
            return
        if self.inside.sessions.closed_reason:
            self.doubt(self.inside.sessions.closed_reason, now)
            return
        self.attempt = 1
        self.make_link(self.action.broker)
        self.open_link()

    def _on_signal(self, signal: Signal, reason: str, now: float) -> None:
        if signal is Signal.REFUSED:
            self.doubt(reason, now)
        elif signal is Signal.LINKED and self.phase is Phase.RESERVING:
            self.advance("broker linked")
            self.ask(True, "", now)

    def roll_forward(self, now: float) -> None:
        self._begin_link(now)


class AppendJoining(MembershipPart):
    """b of an append: it has no links and wants one."""

    states = APPEND_JOINING
    action: Append

    def begin(self, now: float) -> None:
        if self.inside.sessions.links:
            self.doubt(f"{self.inside.id} is in an overlay already", now)
            return
        self.inside.sessions.closed_reason = ""
        self.make_link(self.action.neighbor)
        self.open_link()

    def made_established(self, now: float) -> None:
        self.send_signal(self.action.neighbor, Signal.LINKED)

    def roll_forward(self, now: float) -> None:
        self._begin_link(now)


class DetachNeighbor(LeadingParticipant, MembershipPart):
    """n of a detach: it stays."""

    states = DETACH_NEIGHBOR
    action: Detach

    def __init__(
        self, inside: TreeServices, action_id: ActionId, action: Detach, now: float
    ) -> None:
        super().__init__(inside, action_id, action, now)
        self._give_up_at += inside.config.clients_leave_s

    def begin(self, now: float) -> None:
        if not self.inside.is_linked(self.action.broker):
            self.doubt(f"{self.inside.id} has no link to {self.action.broker}", now)
        else:
            self.reserve(now)

    def reserve(self, now: float) -> None:
        self.send_reserve(self.action.broker, ActionKind.DETACH)

    def _on_signal(self, signal: Signal, reason: str, now: float) -> None:
        if self.phase is not Phase.RESERVING:
            return
        match signal:
            case Signal.BUSY:
                self.retry_later(now)
            case Signal.REFUSED:
                self.doubt(reason, now)
            case Signal.MARKER:
                self.advance("marker")
                self.ask(True, "", now)

    def roll_forward(self, now: float) -> None:
        _forget_link(self, self.action.broker, now)


class DetachLeaving(MembershipPart):
    """b of a detach: it leaves."""

    states = DETACH_LEAVING
    action: Detach

    def __init__(
        self, inside: TreeServices, action_id: ActionId, action: Detach, now: float
    ) -> None:
        super().__init__(inside, action_id, action, now)
        self._give_up_at += inside.config.clients_leave_s
        self._leave_at = now + inside.config.clients_leave_s
        self._look_at = now

    def begin(self, now: float) -> None:
        sessions = self.inside.sessions
        reason = f"broker {self.inside.id!r} leaves the overlay: connect to another one"
        sessions.closed_reason = reason
        for client in self._clients():
            self.inside.outgoing.refuse(client, LEAVING_SUBJECT, reason)

    def _clients(self) -> list[Session]:
        clients = self.inside.sessions.clients
        return [clients[name] for name in clients if not name.startswith(OBSERVER_MARK)]

    def _has_guests(self) -> bool:
        """The broker's own MQTT door stays to the end: it gives away the sessions of others."""
        return any(not client.remote.startswith(GATEWAY_CLIENT) for client in self._clients())

    @property
    def deadline(self) -> float:
        deadline = super().deadline
        return min(deadline, self._look_at) if self.phase is Phase.RESERVED else deadline

    def on_deadline(self, now: float) -> None:
        super().on_deadline(now)
        if self.phase is not Phase.RESERVED or now < self._look_at:
            return
        self._look_at = now + LOOK_S
        if (self._has_guests() and now < self._leave_at) or self._is_gated():
            return
        for client in self._clients():
            self.inside.teardown.expire(client, self.inside.sessions.closed_reason, now)
        self.advance("clients gone")
        self.send_signal(self.action.neighbor, Signal.MARKER)

    def _is_gated(self) -> bool:
        """Whether publications wait for the neighbor to know enough: the marker comes behind."""
        link = self.inside.link(self.action.neighbor)
        return link in self.inside.routing.sync.gates

    def leave(self, now: float) -> None:
        self.inside.sessions.closed_reason = ""
        super().leave(now)

    def roll_back(self, now: float) -> None:
        self.inside.sessions.closed_reason = ""
        super().roll_back(now)

    def roll_forward(self, now: float) -> None:
        _forget_link(self, self.action.neighbor, now)
        # Where it joins again it may be on the way of what it has seen as a leaf elsewhere.
        self.inside.sequences.forget_unknown()


def _forget_link(part: MembershipPart, neighbor: str, now: float) -> None:
    session = part.inside.link(neighbor)
    assert session is not None, f"{part.inside.id} lost its link to {neighbor}"
    part.signal_others(Signal.COMMITTED)
    part.inside.routing.link_removed(session)
    part.end_link(session, "the broker left the overlay", now)
    part.inside.teardown.link_changed(neighbor, False, now)
