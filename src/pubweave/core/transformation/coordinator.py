"""A broker's actions: at most one at a time, those asked for meanwhile wait.

This is the door between `broker` and the parts (`transformation/shift`,
`transformation/append_detach`): it makes a part when this broker is asked to lead or to take part,
hands messages, decisions and deadlines to it, and remembers how the last ones ended, so that
everything may be said twice.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import Any, get_args

from pubweave.core.dataplane.part import BrokerPart, EventHandler, MessageHandler
from pubweave.core.session.session import Session
from pubweave.core.transformation.append_detach import (
    AppendJoining,
    AppendNeighbor,
    DetachLeaving,
    DetachNeighbor,
)
from pubweave.core.transformation.participant import LeadingParticipant, Participant
from pubweave.core.transformation.services import ExpectedLink, TreeServices
from pubweave.core.transformation.shift import Mover, NewPeer, OldPeer, why_never, why_not_now
from pubweave.core.vocabulary.effects import CloseLink, DecideAction, OpenLink, ReportAction
from pubweave.core.vocabulary.events import ActionDecided, ActionRequested, LinkExpected
from pubweave.core.vocabulary.rare_branches import Branch, sometimes
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
from pubweave.model.plans import Action, Append, Detach, Shift
from pubweave.model.publications import Publication
from pubweave.model.records.status import BrokerActionStatus

REMEMBERED = 1000
"""How many ended actions are remembered."""
WAITING_LIMIT = 100


class ActionCoordinator(BrokerPart):
    """The part that a broker takes in an action, if any."""

    def __init__(self, inside: TreeServices) -> None:
        self._inside = inside
        self._part: Participant | None = None
        self._waiting: deque[tuple[ActionId, Action]] = deque()
        self._ended: dict[ActionId, ReportAction] = {}
        self.stand_in = None

    def event_handlers(self) -> Mapping[type[Any], EventHandler]:
        return dict.fromkeys((LinkExpected, ActionRequested, ActionDecided), self.take_event)

    def message_handlers(self) -> Mapping[type[Any], MessageHandler]:
        return dict.fromkeys(get_args(ActionMessage), self.receive)

    @property
    def deadline(self) -> float | None:
        return None if self._part is None else self._part.deadline

    @property
    def is_busy(self) -> bool:
        return self._part is not None

    def status(self, now: float) -> dict[str, Any]:
        return {"action": self.current(now)}

    def current(self, now: float) -> BrokerActionStatus | None:
        """The action that this broker takes part in."""
        return None if self._part is None else self._part.status(now)

    def held(self) -> list[Publication]:
        """What the hold of the current part has, in order."""
        part = self._part
        if part is None or part.hold is None:
            return []
        return [item.publication for item in part.hold.items]

    def partners(self) -> tuple[BrokerId, ...]:
        """The other brokers of the current part's action."""
        return self._part.others() if self._part is not None else ()

    def reports(self) -> tuple[ReportAction, ...]:
        """How the last actions ended, for an agent that may not have heard of it."""
        return tuple(self._ended.values())

    def expecting(self) -> tuple[ActionId, ...]:
        """Actions whose turn has yet to come, and for which a link was opened already."""
        return tuple(link.action_id for link in self._inside.expected.values())

    # --- events ----------------------------------------------------------------------------

    def take_event(self, event: LinkExpected | ActionRequested | ActionDecided, now: float) -> None:
        match event:
            case LinkExpected(action_id, neighbor):
                self.expected(action_id, neighbor)
            case ActionRequested(action_id, action):
                self.requested(action_id, action, now)
            case ActionDecided(action_id, committed):
                self.decided(action_id, committed, now)

    def expected(self, action_id: ActionId, neighbor: BrokerId) -> None:
        """An action will bring a link to this neighbor when its turn comes: open it already."""
        inside = self._inside
        if neighbor not in inside.sessions.links and action_id not in self._ended:
            inside.sessions.add_link(neighbor)
            inside.expected[neighbor] = ExpectedLink(action_id)
            inside.emit(OpenLink(neighbor))

    def _expect_no_more(self, action_id: ActionId, now: float) -> None:
        inside = self._inside
        for neighbor in [n for n, link in inside.expected.items() if link.action_id == action_id]:
            del inside.expected[neighbor]
            inside.teardown.end(inside.sessions.links[neighbor], "the action was given up", now)
            inside.emit(CloseLink(neighbor))

    def requested(self, action_id: ActionId, action: Action, now: float) -> None:
        """This broker is to lead (or, of an append, to join)."""
        if action_id in self._ended:
            self._inside.emit(self._ended[action_id])
        elif self._part is None:
            self._lead(action_id, action, now)
        elif action_id != self._part.action_id and all(action_id != i for i, _ in self._waiting):
            if len(self._waiting) >= WAITING_LIMIT:
                self._refuse(action_id, "too many actions wait at this broker")
            else:
                self._waiting.append((action_id, action))

    def _lead(self, action_id: ActionId, action: Action, now: float) -> None:
        inside, own = self._inside, self._inside.id
        part: LeadingParticipant | AppendJoining
        match action:
            case Shift(mover=mover) if mover == own:
                part = Mover(inside, action_id, action, now)
            case Append(neighbor=neighbor) if neighbor == own:
                part = AppendNeighbor(inside, action_id, action, now)
            case Append(broker=broker) if broker == own:
                part = AppendJoining(inside, action_id, action, now)
            case Detach(neighbor=neighbor) if neighbor == own:
                part = DetachNeighbor(inside, action_id, action, now)
            case _:
                self._refuse(action_id, f"{own} does not lead {action}")
                return
        self._part = part
        part.begin(now)
        self._look(now)

    def _refuse(self, action_id: ActionId, reason: str) -> None:
        self._inside.emit(DecideAction(action_id, False, reason))
        self._end(ReportAction(action_id, False, reason))
        self._inside.emit(self._ended[action_id])

    def decided(self, action_id: ActionId, committed: bool, now: float) -> None:
        if not committed:
            self._expect_no_more(action_id, now)
        for waiting in [w for w in self._waiting if w[0] == action_id and not committed]:
            self._waiting.remove(waiting)
            self._refuse(action_id, "given up before it began")
        if self._part is not None and self._part.action_id == action_id:
            self._part.decided(committed, "", now)
            self._look(now)

    def receive(self, origin: Session, message: ActionMessage, now: float) -> None:
        """A message about an action came over a link."""
        if isinstance(message, ActionReserve):
            self._on_reserve(origin, message, now)
        elif self._part is not None and self._part.action_id == message.action_id:
            self._part.receive(origin, message, now)
            self._look(now)

    def on_deadline(self, now: float) -> None:
        if self._part is not None:
            self._part.on_deadline(now)
            self._look(now)

    def link_begins(self, link: Session, under_way: list[SequencedMessage], now: float) -> bool:
        """A link's session began anew; True if that is no concern of the routing's."""
        expected = self._inside.expected.get(link.remote)
        if expected is not None:
            expected.has_begun = True
            return True
        if self._part is None:
            return False
        seen_to = self._part.link_began(link, under_way, now)
        self._look(now)
        return seen_to

    def link_removed(self, neighbor: BrokerId, now: float) -> bool:
        """Whether the link to a neighbor is an action's business; if so, somebody else who wants
        it removed knows more than we do, and we ask how the action ends."""
        if neighbor in self._inside.expected:
            return True
        if self._part is None or neighbor not in self._part.others():
            return False
        if neighbor not in self._inside.sessions.links:
            return False
        self._part.doubt(f"the link to {neighbor} is to be removed", now)
        self._look(now)
        return True

    def keeps(self, origin: Session, message: TableMessage | Synced, now: float) -> bool:
        kept = self._part is not None and self._part.keeps(origin, message, now)
        self._look(now)
        return kept

    def gather(self, origin: Session | None, now: float) -> None:
        """An event queued publications for the stand-in."""
        part = self._part
        if part is None or part.hold is None:
            return
        part.hold.gather(origin)
        if part.hold.is_over_limit:
            sometimes(Branch.HOLD_OVERFLOWS)
            self._inside.flow.hold(origin, part.hold.stand_in, now)
            part.doubt(f"{self._inside.id} would hold too much", now)
            self._look(now)

    # --- taking part -----------------------------------------------------------------------

    def _on_reserve(self, origin: Session, message: ActionReserve, now: float) -> None:
        own = self._inside.id
        if self._part is not None and self._part.action_id == message.action_id:
            if self._part.attempt == message.attempt:
                return
            self._part.leave(now)
            self._look(now)
        action = _action_of(message)
        if action is None or own not in action.brokers or message.action_id in self._ended:
            self._answer(origin, message, Signal.REFUSED, f"{own} cannot take part")
        elif self._part is not None:
            self._answer(origin, message, Signal.BUSY, f"{own} is in {self._part.action_id}")
        elif self._inside.migrating:
            self._inside.precedence.claim(now)
            self._answer(origin, message, Signal.BUSY, f"{own} has a client on the move")
        elif isinstance(action, Shift):
            self._join_shift(origin, message, action, now)
        elif not self._inside.is_leaf or own != action.broker:
            self._answer(origin, message, Signal.REFUSED, f"{own} is no leaf that could leave")
        else:
            part = DetachLeaving(self._inside, message.action_id, action, now)
            part.attempt = message.attempt
            self._part = part
            part.begin(now)

    def _join_shift(
        self, origin: Session, message: ActionReserve, shift: Shift, now: float
    ) -> None:
        inside = self._inside
        is_new_peer = inside.id == shift.new_peer
        affected = (shift.old_peer,) if is_new_peer else (shift.mover, shift.new_peer)
        if reason := why_never(inside, shift):
            self._answer(origin, message, Signal.REFUSED, reason)
        elif reason := why_not_now(inside, affected, message.attempt):
            self._answer(origin, message, Signal.BUSY, reason)
        elif is_new_peer:
            part = NewPeer(inside, message.action_id, shift, now)
            part.attempt = message.attempt
            self._part = part
            part.begin(now)
        else:
            self._part = OldPeer(inside, message.action_id, shift, now)
            self._part.attempt = message.attempt
            inside.send(inside.sessions.links[shift.new_peer], message)

    def _answer(self, origin: Session, message: ActionReserve, signal: Signal, reason: str) -> None:
        self._inside.send(origin, ActionSignal(message.action_id, signal, message.attempt, reason))

    # --- ends ------------------------------------------------------------------------------

    def _look(self, now: float) -> None:
        """After anything that may have changed the part: note its hold and its end."""
        part = self._part
        if part is None:
            return
        self.stand_in = part.hold.stand_in if part.hold is not None else None
        if not part.is_over:
            return
        self._part = self.stand_in = None
        if part.hold is not None:
            self._inside.relieve(part.hold.stand_in)
        if part.committed is not None:
            self._end(ReportAction(part.action_id, part.committed, part.reason))
        if self._waiting:
            self._lead(*self._waiting.popleft(), now)

    def _end(self, report: ReportAction) -> None:
        if len(self._ended) >= REMEMBERED:
            del self._ended[next(iter(self._ended))]
        self._ended[report.action_id] = report


def _action_of(message: ActionReserve) -> Shift | Detach | None:
    """The action that a message asks to take part in; None if it makes no sense."""
    names = message.brokers
    if len(set(names)) != len(names):
        return None
    if message.kind is ActionKind.SHIFT and len(names) == 3:
        return Shift(*names)
    if message.kind is ActionKind.DETACH and len(names) == 2:
        return Detach(*names)
    return None
