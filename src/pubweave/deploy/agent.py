"""The agent of one broker: what the store says becomes the core's events, and the other way round.

No I/O, no clock: `Agent.handle(event, now)` takes what the store and the core say and returns
requests to the store and events for the core, in order. An agent lives and dies with its core;
both forget everything in a crash. Its duties, all of them decided afresh from the mirror:

- **Join.** Before the core gets its links, every action of this broker that is RUNNING is aborted:
  whatever an earlier incarnation knew of it is lost. So nothing is undecided, and the links are
  the store's topology with what was committed since. Then the broker is registered. A core that
  came back from its journal has forgotten nothing of note: what runs goes on, and is told again.
- **Expect.** While a shift waits for others of its step, both ends of the link that it will bring
  connect already, so that it does not take that time when its turn comes.
- **Start.** An action that this broker leads (or joins the overlay by) starts when it is RUNNING
  and every earlier action of its step that shares a broker with it is DONE. After an aborted one
  it never starts: the plan is about to be aborted, and the broker they share may not know yet.
- **Decide.** `DecideAction` becomes a compare-and-set of the action's state; whatever stands there
  afterwards is told to the core. That an action was aborted is told unasked.
- **Report.** The broker's part of an action becomes a node; when all parts of an action it leads
  are there, the action is DONE. Its load goes to the reports.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from pubweave.core.vocabulary.effects import DecideAction, ReportAction
from pubweave.core.vocabulary.events import ActionDecided, ActionRequested, LinkAdded, LinkExpected
from pubweave.deploy.documents import (
    ActionDocument,
    BrokerDocument,
    BrokerReport,
    DeploymentDocument,
    Layout,
    PartDocument,
    PlanDocument,
    TopologyDocument,
    action_id,
    encode,
    validate_name,
)
from pubweave.deploy.mirror import Mirror
from pubweave.deploy.store import (
    Create,
    Outcome,
    Path,
    StoreAnswer,
    StoreEvent,
    StoreRequest,
    Write,
)
from pubweave.deploy.topology_state import earlier_sharing, leader_of, neighbors_after
from pubweave.model.deployment import ActionState, DeploymentState
from pubweave.model.ids import ActionId, BrokerId
from pubweave.model.plans import Action, Append, Shift

COMMITTED = (ActionState.COMMITTED, ActionState.DONE)


@dataclass(frozen=True)
class AgentConfig:
    """Whose agent it is. ``epoch`` is larger than that of every earlier incarnation."""

    broker: BrokerId
    overlay: str
    address: str
    epoch: int
    retry_s: float = 0.5
    """After an answer that leaves things open, the store is asked again after this time."""
    remembers: bool = False
    """The core came back from its journal, with its part in what runs."""
    expecting: tuple[ActionId, ...] = ()
    """Actions for which such a core has a link open already."""
    ended: tuple[ReportAction, ...] = ()
    """How the last actions of such a core ended: its last words may not have been heard."""


class StatusTaken(msgspec.Struct, frozen=True):
    """The driver has asked the core how it is doing."""

    report: BrokerReport


AgentEvent = StoreEvent | DecideAction | ReportAction | StatusTaken
CoreEvent = LinkAdded | LinkExpected | ActionRequested | ActionDecided
AgentEffect = StoreRequest | CoreEvent


class Agent:
    """One broker's agent. The first event is `SessionChanged(CONNECTED)`."""

    def __init__(self, config: AgentConfig) -> None:
        validate_name(config.broker, "the broker's id")
        self.config = config
        self.has_joined = False
        """The core has its links."""
        self._layout = Layout(config.overlay)
        self._mirror = Mirror(config.retry_s)
        self._effects: list[CoreEvent] = []
        self._own: dict[ActionId, OwnAction] = {}
        self._own_of = ""
        self._expected: set[ActionId] = set()
        self._expecting: dict[ActionId, None] = dict.fromkeys(config.expecting)
        """Whose link the core was told to expect, and not what became of it."""
        self._requested: set[ActionId] = set()
        self._told_aborted: set[ActionId] = set()
        self._decisions: dict[ActionId, DecideAction] = {}
        self._reports = AgentReports(self._layout, self._mirror, config.broker)

    @property
    def is_ready(self) -> bool:
        """The core has its links, and everybody can see that the broker lives."""
        path = self._layout.broker(self.config.broker)
        return self.has_joined and self._mirror.document(path, BrokerDocument) == self._self()

    @property
    def problem(self) -> str:
        """What stands in the way, in words; empty if nothing does."""
        path = self._layout.broker(self.config.broker)
        there = self._mirror.document(path, BrokerDocument)
        if there is not None and there.epoch > self.config.epoch:
            return f"another {self.config.broker} at {there.address} has taken this one's place"
        return self._mirror.problem

    def handle(self, event: AgentEvent, now: float) -> list[AgentEffect]:
        """Take an event in; return what is to be asked and what to tell the core, in order.

        DocumentError: somebody else wrote what cannot be read. Nothing is lost by it: what the
        core was to be told already is told with the next event."""
        match event:
            case DecideAction(id_):
                self._decisions[id_] = event
            case ReportAction(id_):
                self._decisions.pop(id_, None)
                self._expecting.pop(id_, None)
                self._reports.note_part(event)
            case StatusTaken(report):
                self._reports.note_status(report)
            case _:
                if isinstance(event, StoreAnswer):
                    self._reports.note_stored(event)
                self._mirror.handle(event, now)
        if self._mirror.is_connected:
            self._act()
        told, self._effects = self._effects, []
        return [*told, *self._mirror.flush(now)]

    def next_deadline(self) -> float:
        """When `TimerFired` is due; infinite: never."""
        return self._mirror.next_deadline()

    def _act(self) -> None:
        self._watch()
        if not self.has_joined:
            self._join()
        if self.has_joined:
            self._register()
            self._start()
            self._tell_aborted()
            self._finish()
        self._decide()
        self._reports.store()
        # What was learned may call for more to be watched.
        self._watch()

    # --- what to look at -------------------------------------------------------------------

    def _watch(self) -> None:
        layout = self._layout
        nodes = [layout.topology, layout.plan, layout.broker(self.config.broker)]
        nodes += [layout.action(id_) for id_ in self._decisions]
        children: list[Path] = []
        deployment = self._mirror.document(layout.plan, DeploymentDocument)
        if deployment is None or (self.has_joined and deployment.state.is_final):
            self._own, self._own_of = {}, ""
        else:
            nodes.append(layout.steps(deployment.deployment))
            self._find_own(deployment.deployment)
        for id_, own in self._own.items():
            nodes.append(layout.action(id_))
            nodes += [layout.action(earlier) for earlier in own.waits_for]
            if own.is_leader and self._state(id_) is ActionState.COMMITTED:
                children.append(layout.parts(id_))
        self._mirror.watch(dict.fromkeys(nodes), children)

    def _find_own(self, deployment: str) -> None:
        if deployment != self._own_of:
            plan = self._mirror.document(self._layout.steps(deployment), PlanDocument)
            self._own = {}
            if plan is not None:
                self._own = own_actions(plan, deployment, self.config.broker)
                self._own_of = deployment

    def _document(self, id_: ActionId) -> ActionDocument | None:
        return self._mirror.document(self._layout.action(id_), ActionDocument)

    def _state(self, id_: ActionId) -> ActionState:
        document = self._document(id_)
        return document.state if document is not None else ActionState.PENDING

    def _move(self, id_: ActionId, state: ActionState, reason: str = "") -> None:
        """Compare-and-set an action's state, if it is known as it is."""
        path = self._layout.action(id_)
        document = self._document(id_)
        if document is not None and self._mirror.is_settled(path):
            moved = document.moved_to(state, self.config.broker, reason)
            self._mirror.send(Write(path, encode(moved), self._mirror.version(path)))

    # --- join ------------------------------------------------------------------------------

    def _join(self) -> None:
        """Give the core its links as soon as no action of this broker is undecided."""
        mirror, layout = self._mirror, self._layout
        if not (mirror.is_settled(layout.topology) and mirror.is_settled(layout.plan)):
            return
        topology = mirror.document(layout.topology, TopologyDocument)
        if topology is None:
            return
        deployment = mirror.document(layout.plan, DeploymentDocument)
        committed = [] if deployment is None else self._committed(topology, deployment)
        if committed is None:
            return
        links = topology.topology()
        broker = self.config.broker
        before = frozenset(links.neighbors.get(broker, ()))
        after = neighbors_after(before, broker, [self._own[id_].action for id_ in committed])
        self._effects += [LinkAdded(neighbor) for neighbor in sorted(after)]
        if not self.config.remembers:
            aborted = {id_ for id_ in self._own if self._state(id_) is ActionState.ABORTED}
            self._told_aborted = aborted
        for id_ in committed:
            if self._state(id_) is ActionState.COMMITTED and not self.config.remembers:
                self._reports.note_restarted(id_)
        self._say_again()
        self.has_joined = True

    def _say_again(self) -> None:
        """What a core said right before it died, as far as it is still of interest."""
        for report in self.config.ended:
            if report.action_id not in self._own:
                continue
            state = self._state(report.action_id)
            if state is ActionState.COMMITTED:
                self._reports.note_part(report)
            elif state is ActionState.RUNNING and not report.done:
                wish = DecideAction(report.action_id, False, report.reason)
                self._decisions[report.action_id] = wish

    def _committed(
        self, topology: TopologyDocument, deployment: DeploymentDocument
    ) -> list[ActionId] | None:
        """This broker's actions that the topology does not have yet; None: not known yet.

        Aborts what still runs, if this broker has forgotten its part of it."""
        mirror, layout = self._mirror, self._layout
        if not mirror.is_settled(layout.steps(deployment.deployment)):
            return None
        applied = topology.steps_applied if topology.deployment == deployment.deployment else 0
        if not all(mirror.is_settled(layout.action(id_)) for id_ in self._own):
            return None
        running = [id_ for id_ in self._own if self._state(id_) is ActionState.RUNNING]
        if self.config.remembers:
            running = []
        for id_ in running:
            self._move(id_, ActionState.ABORTED, f"{self.config.broker} was restarted")
        if running:
            return None
        return [
            id_
            for id_, own in self._own.items()
            if own.step >= applied and self._state(id_) in COMMITTED
        ]

    def _self(self) -> BrokerDocument:
        return BrokerDocument(
            address=self.config.address, epoch=self.config.epoch, session=self._mirror.sessions
        )

    def _register(self) -> None:
        """Keep the ephemeral node of this broker, and only of this incarnation, in place."""
        path, epoch = self._layout.broker(self.config.broker), self.config.epoch
        self._mirror.hold(path, self._self(), lambda there: there.epoch <= epoch)

    # --- start -----------------------------------------------------------------------------

    def _start(self) -> None:
        deployment = self._mirror.document(self._layout.plan, DeploymentDocument)
        if deployment is None or deployment.state is not DeploymentState.RUNNING:
            return
        for id_, own in self._own.items():
            if not self._mirror.is_settled(self._layout.action(id_)):
                continue
            if self._state(id_) is not ActionState.RUNNING:
                continue
            if own.neighbor_to_be and id_ not in self._expected:
                self._expected.add(id_)
                self._expecting[id_] = None
                self._effects.append(LinkExpected(id_, own.neighbor_to_be))
            if (
                own.is_starter
                and id_ not in self._requested
                and all(self._state(earlier) is ActionState.DONE for earlier in own.waits_for)
            ):
                self._requested.add(id_)
                self._effects.append(ActionRequested(id_, own.action))

    def _tell_aborted(self) -> None:
        for id_ in self._own:
            if id_ not in self._told_aborted and self._state(id_) is ActionState.ABORTED:
                self._told_aborted.add(id_)
                self._expecting.pop(id_, None)
                if id_ not in self._decisions:
                    self._effects.append(ActionDecided(id_, committed=False))
        for id_ in [id_ for id_ in self._expecting if self._is_past(id_)]:
            del self._expecting[id_]
            self._effects.append(ActionDecided(id_, committed=False))

    def _is_past(self, id_: ActionId) -> bool:
        """Whether the action's deployment is over. If this broker has not reported its part, the
        action was not committed: a deployment ends only after all have, of what was."""
        deployment = self._mirror.document(self._layout.plan, DeploymentDocument)
        return (
            deployment is None
            or deployment.state.is_final
            or not id_.startswith(deployment.deployment + "/")
        )

    # --- decide ----------------------------------------------------------------------------

    def _decide(self) -> None:
        """Record what the core wants, or tell it what stands there."""
        for id_, wish in list(self._decisions.items()):
            state = self._state(id_)
            if state in COMMITTED or state is ActionState.ABORTED or self._is_swept(id_):
                del self._decisions[id_]
                self._effects.append(ActionDecided(id_, committed=state in COMMITTED))
            elif state is ActionState.RUNNING:
                wanted = ActionState.COMMITTED if wish.commit else ActionState.ABORTED
                self._move(id_, wanted, wish.reason)
            # PENDING: the executor's change is on its way to us.

    def _is_swept(self, id_: ActionId) -> bool:
        """An action of an earlier deployment whose nodes are gone. It was not committed: a
        deployment ends only after every broker has reported its part of what was."""
        path = self._layout.action(id_)
        deployment = self._mirror.document(self._layout.plan, DeploymentDocument)
        return (
            deployment is not None
            and not id_.startswith(deployment.deployment + "/")
            and self._mirror.is_settled(path)
            and not self._mirror.is_there(path)
        )

    # --- report ----------------------------------------------------------------------------

    def _finish(self) -> None:
        """All brokers have reported their part of an action this one leads: it is done."""
        for id_, own in self._own.items():
            if own.is_leader and self._state(id_) is ActionState.COMMITTED:
                parts = self._mirror.children(self._layout.parts(id_))
                if parts is not None and set(own.action.brokers) <= set(parts):
                    self._move(id_, ActionState.DONE)


@dataclass(frozen=True)
class OwnAction:
    """An action that a broker takes part in. Its starters are told to start it: the leader, and
    a broker that joins the overlay, because nobody else can tell it."""

    step: int
    action: Action
    is_leader: bool
    is_starter: bool
    waits_for: tuple[ActionId, ...] = ()
    neighbor_to_be: BrokerId | None = None
    """Whom a shift that has to wait will give the broker a link to."""


def own_actions(plan: PlanDocument, deployment: str, broker: BrokerId) -> dict[ActionId, OwnAction]:
    """The broker's actions by id, in the order of the plan."""
    found: dict[ActionId, OwnAction] = {}
    for number, step in enumerate(plan.plan().steps):
        for place, action in enumerate(step):
            if broker not in action.brokers:
                continue
            is_leader = leader_of(action) == broker
            is_starter = is_leader or isinstance(action, Append)
            before = earlier_sharing(step, place)
            found[action_id(deployment, number, place)] = OwnAction(
                number,
                action,
                is_leader,
                is_starter,
                tuple(action_id(deployment, number, earlier) for earlier in before)
                if is_starter
                else (),
                _neighbor_to_be(action, broker) if before else None,
            )
    return found


def _neighbor_to_be(action: Action, broker: BrokerId) -> BrokerId | None:
    if isinstance(action, Shift) and broker in action.added_link:
        return action.added_link.far_end(broker)
    return None


# What an agent writes down for its broker: its parts of actions, and how it is doing.
#
# Only this broker writes these nodes, so no versions are compared; each is written until the
# store has said that it is there.


class AgentReports:
    """What has yet to be written."""

    def __init__(self, layout: Layout, mirror: Mirror, broker: BrokerId) -> None:
        self._layout = layout
        self._mirror = mirror
        self._broker = broker
        self._parts: dict[Path, PartDocument] = {}
        self._status: bytes | None = None
        self._has_status_node = True

    def note_part(self, report: ReportAction) -> None:
        """The broker's part of an action is over."""
        self._parts[self._layout.part(report.action_id, self._broker)] = PartDocument(
            done=report.done,
            reason=report.reason,
            held_messages=report.held_messages,
            held_s=report.held_s,
        )

    def note_restarted(self, id_: ActionId) -> None:
        """The broker began anew with an action carried out that was decided before."""
        part = PartDocument(done=True, reason="restarted")
        self._parts[self._layout.part(id_, self._broker)] = part

    def note_status(self, report: BrokerReport) -> None:
        """Only the last one counts."""
        self._status = encode(report)

    def note_stored(self, answer: StoreAnswer) -> None:
        path = answer.request.path
        if path in self._parts:
            if answer.outcome in (Outcome.OK, Outcome.EXISTS):
                del self._parts[path]
        elif path == self._layout.report(self._broker):
            if answer.outcome is Outcome.OK:
                self._status = None
            elif answer.outcome in (Outcome.MISSING, Outcome.EXISTS):
                self._has_status_node = answer.outcome is Outcome.EXISTS

    def store(self) -> None:
        """Ask for what is not there yet."""
        for path, part in self._parts.items():
            if not self._mirror.is_changing(path):
                self._mirror.send(Create(path, encode(part)))
        path = self._layout.report(self._broker)
        if self._status is not None and not self._mirror.is_changing(path):
            write, create = Write(path, self._status), Create(path, self._status)
            self._mirror.send(write if self._has_status_node else create)
