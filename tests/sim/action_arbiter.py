"""The smallest thing that can stand behind brokers' actions in a simulation: one truth, with a
delay. Agents, executor and store (`deploy`) are what stands there in earnest.

It starts actions at their leaders, answers `DecideAction` with the first decision that reached
it, collects reports, and tells a restarted broker which links it has.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from pubweave.core.vocabulary.effects import ActionEffect, DecideAction, ReportAction
from pubweave.core.vocabulary.events import ActionDecided, ActionRequested, Event, LinkExpected
from pubweave.model.ids import ActionId, BrokerId, Link
from pubweave.model.plans import Action, Append, Detach, Shift
from pubweave.model.topology import Topology
from pubweave.sim.kernel.nodes import SimBroker
from pubweave.sim.overlays.base import SimOverlay


@dataclass
class ActionRecord:
    """What is known of one action."""

    id: ActionId
    action: Action
    started_at: float
    committed: bool | None = None
    decided_at: float = 0.0
    reason: str = ""
    expecting: list[BrokerId] = field(default_factory=list)
    """Who was told of the link to be, and so will be told if it is not to be."""
    reports: dict[BrokerId, bool] = field(default_factory=dict)
    held_s: dict[BrokerId, float] = field(default_factory=dict)
    held_messages: dict[BrokerId, int] = field(default_factory=dict)

    @property
    def is_over(self) -> bool:
        """Decided, and all who took part have said that they are through with it."""
        if self.committed is None:
            return False
        return not self.committed or len(self.reports) == len(self.action.brokers)


class ActionArbiter:
    """Decisions for all brokers of an overlay. ``store_s`` is the way to it, and back."""

    def __init__(self, overlay: SimOverlay, store_s: Callable[[], float]) -> None:
        self._overlay = overlay
        self._world = overlay.world
        self._store_s = store_s
        self._numbers = 0
        self.records: dict[ActionId, ActionRecord] = {}
        self.violations: list[str] = []
        self.on_decided: Callable[[ActionRecord], None] = lambda record: None
        for broker in overlay.brokers.values():
            broker.on_action = self._on_effect
            broker.before_start = self._before_start

    def begin(self, action: Action) -> ActionRecord:
        """Let an action start at the broker that leads it."""
        self._numbers += 1
        record = ActionRecord(f"sim/1/{self._numbers}", action, self._world.now)
        self.records[record.id] = record
        self._world.note("arbiter", f"begins {record.id} {action}")
        self._let_expect(record)
        for broker in _asked(action):
            self._give(broker, ActionRequested(record.id, action))
        return record

    def _let_expect(self, record: ActionRecord) -> None:
        """Tell the ends of the link to be that it is to be; who hears of it is left to chance."""
        if isinstance(record.action, Shift):
            near, far = record.action.added_link
            for broker, neighbor in ((near, far), (far, near)):
                if self._world.chance(0.5):
                    record.expecting.append(broker)
                    self._give(broker, LinkExpected(record.id, neighbor))

    def running(self) -> list[ActionRecord]:
        return [record for record in self.records.values() if not record.is_over]

    def give_up(self, record: ActionRecord, reason: str) -> None:
        """As an operator would: if it is not decided yet, all who take part are told."""
        self._decide(record, False, reason)
        if not record.committed:
            for broker in record.action.brokers:
                self._give(broker, ActionDecided(record.id, False))

    # --- brokers ---------------------------------------------------------------------------

    def _give(self, name: BrokerId, event: Event) -> None:
        broker = self._overlay.brokers[name]
        incarnation = broker.incarnation

        def arrive() -> None:
            if broker.incarnation == incarnation:
                broker.handle(event)

        self._world.after(self._store_s(), arrive)

    def _on_effect(self, broker: SimBroker, effect: ActionEffect) -> None:
        if isinstance(effect, DecideAction | ReportAction):
            self._world.note(broker.name, f"  {effect}")
            self._world.after(self._store_s(), self._hear, broker.name, effect)

    def _hear(self, name: BrokerId, effect: DecideAction | ReportAction) -> None:
        record = self.records[effect.action_id]
        if isinstance(effect, DecideAction):
            self._decide(record, effect.commit, effect.reason)
            assert record.committed is not None
            self._give(name, ActionDecided(record.id, record.committed))
            return
        if effect.done and record.committed is not True:
            self.violations.append(f"{name} carried {record.id} out though it was not committed")
        if not effect.done and record.committed is True:
            self.violations.append(f"{name} gave {record.id} up though it was committed")
        record.reports[name] = effect.done
        record.held_s[name] = effect.held_s
        record.held_messages[name] = effect.held_messages

    def _decide(self, record: ActionRecord, commit: bool, reason: str) -> None:
        if record.committed is not None:
            return
        record.committed, record.reason = commit, reason
        record.decided_at = self._world.now
        self._world.note("arbiter", f"{record.id} {'committed' if commit else 'aborted'} {reason}")
        if commit:
            self._overlay.set_topology(changed(self._overlay.topology, record.action))
        for broker in () if commit else record.expecting:
            self._give(broker, ActionDecided(record.id, False))
        self.on_decided(record)

    def _before_start(self, broker: SimBroker) -> None:
        """What an agent does when its broker begins anew: its part in actions is forgotten, so
        those that were not decided are given up, and the others it has carried out already."""
        for record in self.records.values():
            if broker.name in record.action.brokers and not record.is_over:
                self._decide(record, False, f"{broker.name} began anew")
                record.reports.setdefault(broker.name, True)
        for neighbor in list(broker.links):
            broker.unlink(neighbor)
        for neighbor in self._overlay.topology.neighbors.get(broker.name, ()):
            broker.link(neighbor)


def _asked(action: Action) -> tuple[BrokerId, ...]:
    match action:
        case Shift(mover, _, _):
            return (mover,)
        case Append(broker, neighbor):
            return (neighbor, broker)
        case Detach(_, neighbor):
            return (neighbor,)
    raise ValueError(f"{action} is carried out as the actions it consists of")


def changed(topology: Topology, action: Action) -> Topology:
    """A topology after an action."""
    match action:
        case Shift():
            return topology.without_link(action.removed_link).with_link(action.added_link)
        case Append(broker, neighbor):
            grown = replace(topology, brokers=topology.brokers | {broker})
            return grown.with_link(Link.between(broker, neighbor))
        case Detach(broker, neighbor):
            shrunk = topology.without_link(Link.between(broker, neighbor))
            return replace(shrunk, brokers=topology.brokers - {broker})
    raise ValueError(f"{action} is not known here")
