"""The executor: carries the current deployment out, step by step, through the store alone.

No I/O, no clock, and nothing to remember: whatever it does next follows from what stands in the
store, so that it can die anywhere and another goes on. Every write is a compare-and-set, so that a
second one that has not noticed its lost session does no harm either.

The life of a deployment: READY (actions are laid out as PENDING nodes) -> RUNNING: when every
broker of the step lives, its actions become RUNNING, the agents do the rest, and when all are DONE
the topology is written, then the count of steps -> DONE. An aborted action, a broker that stays
away, or a step that takes too long: ABORTING, until every action of the step is DONE or ABORTED;
then the topology that results is written, and the deployment is ABORTED.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import msgspec

from pubweave.deploy.documents import (
    ActionDocument,
    DeploymentDocument,
    Document,
    ExecutorDocument,
    Layout,
    PlanDocument,
    TopologyDocument,
    action_id,
    encode,
)
from pubweave.deploy.mirror import Mirror
from pubweave.deploy.store import Create, Path, StoreEvent, StoreRequest, Write
from pubweave.deploy.topology_state import apply_actions
from pubweave.model.deployment import AbortedBy, ActionState, DeploymentState
from pubweave.model.ids import ActionId, BrokerId
from pubweave.model.plans import Plan


class ExecutorRole(enum.Enum):
    """Of all executors of an overlay one executes, and the others stand by to take its place."""

    CONNECTING = "connecting"
    STANDBY = "standby"
    EXECUTING = "executing"


class ActionProgress(msgspec.Struct, frozen=True):
    """One action of the current step."""

    action_id: ActionId
    text: str
    brokers: tuple[BrokerId, ...]
    state: ActionState
    reason: str = ""


class ExecutorReport(msgspec.Struct, frozen=True):
    """Where things stand; told whenever it changed."""

    role: ExecutorRole
    holder: str = ""
    """Who executes."""
    deployment: DeploymentDocument | None = None
    actions: tuple[ActionProgress, ...] = ()
    missing: tuple[BrokerId, ...] = ()
    """Brokers of the step that are not registered."""
    problem: str = ""


OVER = (ActionState.DONE, ActionState.ABORTED)
UNDECIDED = (ActionState.PENDING, ActionState.RUNNING)


@dataclass(frozen=True)
class ExecutorConfig:
    """``name`` tells executors apart: no two that live at the same time have the same."""

    overlay: str
    name: str
    step_timeout_s: float = 60.0
    missing_grace_s: float = 15.0
    """A broker of an undecided action that is gone for this long aborts the plan."""
    retry_s: float = 0.5


ExecutorEffect = StoreRequest | ExecutorReport


class Executor:
    """One executor. The first event is `SessionChanged(CONNECTED)`."""

    def __init__(self, config: ExecutorConfig) -> None:
        self.config = config
        self._layout = Layout(config.overlay)
        self._mirror = Mirror(config.retry_s)
        self._looked_at = -math.inf
        self._told: ExecutorReport | None = None
        self._plan_of = ""
        self._plan = Plan()
        self._clock = StepClock(config.step_timeout_s, config.missing_grace_s)

    def handle(self, event: StoreEvent, now: float) -> list[ExecutorEffect]:
        """Take an event in; return what is to be asked, and what to tell if that changed."""
        mirror = self._mirror
        self._looked_at = now
        mirror.handle(event, now)
        self._watch()
        if mirror.is_connected and self._elect():
            self._execute(now)
            self._watch()
        effects: list[ExecutorEffect] = list(mirror.flush(now))
        report = self._report()
        if report != self._told:
            self._told = report
            effects.append(report)
        return effects

    def next_deadline(self) -> float:
        """When `TimerFired` is due; infinite: never."""
        times = [self._mirror.next_deadline(), *self._clock.deadlines()]
        # What was due already has been looked at; what held it up comes as an event of its own.
        return min((time for time in times if time > self._looked_at), default=math.inf)

    # --- what to look at -------------------------------------------------------------------

    def _watch(self) -> None:
        layout = self._layout
        nodes = [layout.executor, layout.plan, layout.topology]
        deployment = self._deployment()
        if deployment is not None and not deployment.state.is_final:
            nodes.append(layout.steps(deployment.deployment))
            self._read_plan(deployment)
            if deployment.state is DeploymentState.READY:
                wanted: Iterable[int] = range(self._plan.step_count)
            else:
                wanted = (deployment.steps_done,)
            nodes += [layout.action(id_) for step in wanted for id_ in self._ids(deployment, step)]
        self._mirror.watch(nodes, [layout.brokers])

    def _deployment(self) -> DeploymentDocument | None:
        return self._mirror.document(self._layout.plan, DeploymentDocument)

    def _read_plan(self, deployment: DeploymentDocument) -> None:
        if self._plan_of == deployment.deployment:
            return
        document = self._mirror.document(self._layout.steps(deployment.deployment), PlanDocument)
        self._plan = Plan() if document is None else document.plan()
        self._plan_of = "" if document is None else deployment.deployment

    def _ids(self, deployment: DeploymentDocument, step: int) -> list[ActionId]:
        if step >= self._plan.step_count:
            return []
        count = len(self._plan.steps[step])
        return [action_id(deployment.deployment, step, place) for place in range(count)]

    def _action(self, id_: ActionId) -> ActionDocument | None:
        return self._mirror.document(self._layout.action(id_), ActionDocument)

    def _states(self, deployment: DeploymentDocument) -> dict[ActionId, ActionState]:
        """The actions of the current step as far as they are known."""
        found = {id_: self._action(id_) for id_ in self._ids(deployment, deployment.steps_done)}
        return {
            id_: document.state if document is not None else ActionState.PENDING
            for id_, document in found.items()
        }

    def _write(self, path: Path, document: Document) -> None:
        """Compare-and-set against what was last read; nothing, if that is not settled."""
        if self._mirror.is_settled(path):
            self._mirror.send(Write(path, encode(document), self._mirror.version(path)))

    # --- one executes ----------------------------------------------------------------------

    def _self(self) -> ExecutorDocument:
        return ExecutorDocument(name=self.config.name, session=self._mirror.sessions)

    def _elect(self) -> bool:
        """Whether this one executes. Whoever has the ephemeral node does."""
        name = self.config.name
        executes = self._mirror.hold(
            self._layout.executor, self._self(), lambda holder: holder.name == name
        )
        if executes is False:
            self._clock.stop()
        return executes is True

    # --- states of the deployment ----------------------------------------------------------

    def _execute(self, now: float) -> None:
        deployment = self._deployment()
        layout = self._layout
        if deployment is None or not all(
            map(self._mirror.is_settled, (layout.plan, layout.topology))
        ):
            return
        topology = self._mirror.document(layout.topology, TopologyDocument)
        if deployment.state not in (DeploymentState.RUNNING, DeploymentState.ABORTING):
            self._clock.stop()
        if topology is None or self._plan_of != deployment.deployment:
            return
        match deployment.state:
            case DeploymentState.READY:
                self._lay_out(deployment)
            case DeploymentState.RUNNING:
                self._run(deployment, topology, now)
            case DeploymentState.ABORTING:
                self._abort(deployment, topology, now)

    def _lay_out(self, deployment: DeploymentDocument) -> None:
        """Make the nodes of all actions; when they are there, the deployment runs."""
        mirror = self._mirror
        is_complete = True
        for step, actions in enumerate(self._plan.steps):
            for id_, action in zip(self._ids(deployment, step), actions, strict=True):
                path = self._layout.action(id_)
                is_there = mirror.is_settled(path) and mirror.is_there(path)
                is_complete = is_complete and is_there
                if mirror.is_settled(path) and not is_there:
                    mirror.send(Create(path, encode(ActionDocument.of(action))))
        if is_complete:
            self._write(self._layout.plan, deployment.moved_to(DeploymentState.RUNNING))

    def _run(self, deployment: DeploymentDocument, topology: TopologyDocument, now: float) -> None:
        if deployment.steps_done == deployment.step_count:
            self._write(self._layout.plan, deployment.moved_to(DeploymentState.DONE))
            return
        if topology.has_step_of(deployment):
            self._count_step(deployment)
            return
        self._clock.run(deployment.deployment, deployment.steps_done, now)
        states = self._states(deployment)
        aborted = [id_ for id_, state in states.items() if state is ActionState.ABORTED]
        if aborted:
            document = self._action(aborted[0])
            reason = document.reason if document is not None else ""
            self._give_up(deployment, f"{self._text(aborted[0])} was aborted: {reason}")
        elif all(state is ActionState.DONE for state in states.values()):
            self._write_topology(deployment, topology, states)
        elif self._is_out_of_time(deployment, states, now):
            return
        elif not self._clock.missing:
            self._start(states)

    def _start(self, states: dict[ActionId, ActionState]) -> None:
        """Every broker of the step lives: let its actions run."""
        for id_, state in states.items():
            document = self._action(id_)
            if state is ActionState.PENDING and document is not None:
                moved = document.moved_to(ActionState.RUNNING, self.config.name)
                self._write(self._layout.action(id_), moved)

    def _count_step(self, deployment: DeploymentDocument) -> None:
        """The topology has the step: count it, and go on, pause, or be done."""
        done = deployment.steps_done + 1
        counted = msgspec.structs.replace(deployment, steps_done=done)
        if done == deployment.step_count:
            counted = counted.moved_to(DeploymentState.DONE)
        elif deployment.pause_after is not None and done >= deployment.pause_after:
            counted = counted.moved_to(DeploymentState.PAUSED)
        self._write(self._layout.plan, counted)

    def _abort(
        self, deployment: DeploymentDocument, topology: TopologyDocument, now: float
    ) -> None:
        """Abort what is undecided, wait for what is committed, write down what came of it."""
        self._clock.stop()
        states = self._states(deployment)
        # Whom the end waits for; it has no time limit, because there is no way back.
        needed = self._brokers_of(deployment, states, (ActionState.COMMITTED,))
        self._clock.check(needed, self._mirror.children(self._layout.brokers) or needed, now)
        for id_, state in states.items():
            document = self._action(id_)
            if state in UNDECIDED and document is not None:
                reason = deployment.reason or "the plan was aborted"
                moved = document.moved_to(ActionState.ABORTED, self.config.name, reason)
                self._write(self._layout.action(id_), moved)
        if not all(state in OVER for state in states.values()):
            return
        is_whole = bool(states) and ActionState.ABORTED not in states.values()
        if ActionState.DONE in states.values() and not topology.has_step_of(deployment):
            self._write_topology(deployment, topology, states)
            return
        done = deployment.steps_done + (1 if is_whole else 0)
        ended = msgspec.structs.replace(deployment, steps_done=done)
        self._write(self._layout.plan, ended.moved_to(DeploymentState.ABORTED))

    def _give_up(self, deployment: DeploymentDocument, reason: str) -> None:
        number = deployment.steps_done + 1
        why = f"step {number}: {reason}"
        given_up = deployment.given_up(DeploymentState.ABORTING, AbortedBy.EXECUTOR, why)
        self._write(self._layout.plan, given_up)

    def _write_topology(
        self,
        deployment: DeploymentDocument,
        topology: TopologyDocument,
        states: dict[ActionId, ActionState],
    ) -> None:
        """The topology with what is DONE of the current step, before the step is counted."""
        actions = self._plan.steps[deployment.steps_done]
        done = [
            action
            for action, state in zip(actions, states.values(), strict=True)
            if state is ActionState.DONE
        ]
        after = apply_actions(topology.topology(), done)
        applied = deployment.steps_done + 1
        self._write(
            self._layout.topology, TopologyDocument.of(after, deployment.deployment, applied)
        )

    # --- time ------------------------------------------------------------------------------

    def _is_out_of_time(
        self, deployment: DeploymentDocument, states: dict[ActionId, ActionState], now: float
    ) -> bool:
        """Give the step up if it takes too long, or if a broker it needs stays away."""
        living = self._mirror.children(self._layout.brokers)
        if living is None:
            return True  # not known: neither start anything nor blame anybody
        self._clock.check(self._brokers_of(deployment, states, UNDECIDED), living, now)
        gone = self._clock.gone(now)
        if gone:
            self._give_up(deployment, f"{', '.join(gone)} did not come back")
        elif self._clock.is_late(now):
            late = [self._text(id_) for id_, state in states.items() if state not in OVER]
            self._give_up(deployment, f"timed out, waiting for {', '.join(late)}")
        return bool(gone) or self._clock.is_late(now)

    def _brokers_of(
        self,
        deployment: DeploymentDocument,
        states: dict[ActionId, ActionState],
        wanted: tuple[ActionState, ...],
    ) -> list[BrokerId]:
        """The brokers of the step's actions that are in one of these states."""
        actions = self._plan.steps[deployment.steps_done] if states else ()
        return sorted(
            {
                broker
                for action, state in zip(actions, states.values(), strict=True)
                if state in wanted
                for broker in action.brokers
            }
        )

    # --- what to tell ----------------------------------------------------------------------

    def _text(self, id_: ActionId) -> str:
        document = self._action(id_)
        return id_ if document is None else str(document.action())

    def _report(self) -> ExecutorReport:
        holder = self._mirror.document(self._layout.executor, ExecutorDocument)
        deployment = self._deployment()
        if not self._mirror.is_connected or holder is None:
            return ExecutorReport(
                ExecutorRole.CONNECTING, deployment=deployment, problem=self._mirror.problem
            )
        is_executing = holder == self._self()
        actions: tuple[ActionProgress, ...] = ()
        if is_executing and deployment is not None and self._plan_of == deployment.deployment:
            actions = tuple(
                ActionProgress(
                    id_, str(document.action()), document.brokers, document.state, document.reason
                )
                for id_ in self._ids(deployment, deployment.steps_done)
                if (document := self._action(id_)) is not None
            )
        return ExecutorReport(
            ExecutorRole.EXECUTING if is_executing else ExecutorRole.STANDBY,
            holder.name,
            deployment,
            actions,
            self._clock.missing,
            self._mirror.problem,
        )


# How long a step has been under way, and how long its missing brokers have been missing.
#
# The clock of one executor: another one that takes over begins anew. No decision rests on its
# precision; it only keeps a plan from waiting for ever.


class StepClock:
    """Times of the current step; none runs between steps."""

    def __init__(self, step_timeout_s: float, missing_grace_s: float) -> None:
        self._step_timeout_s = step_timeout_s
        self._missing_grace_s = missing_grace_s
        self._step: tuple[str, int] | None = None
        self._began_at = math.inf
        self._missing_since: dict[BrokerId, float] = {}

    @property
    def missing(self) -> tuple[BrokerId, ...]:
        """Brokers that the step needs and that are not there, in order."""
        return tuple(sorted(self._missing_since))

    def stop(self) -> None:
        """No step is under way."""
        self._step = None
        self._began_at = math.inf
        self._missing_since = {}

    def run(self, deployment: str, step: int, now: float) -> None:
        """This step is under way; the clock begins when it is first said."""
        if (deployment, step) != self._step:
            self._step = (deployment, step)
            self._began_at = now
            self._missing_since = {}

    def check(self, needed: Collection[BrokerId], living: Collection[BrokerId], now: float) -> None:
        """Who is needed, and who of all brokers is there."""
        self._missing_since = {
            broker: self._missing_since.get(broker, now)
            for broker in needed
            if broker not in living
        }

    def gone(self, now: float) -> list[BrokerId]:
        """Brokers that have been missing for too long."""
        return [
            broker
            for broker, since in self._missing_since.items()
            if now >= since + self._missing_grace_s
        ]

    def is_late(self, now: float) -> bool:
        return now >= self._began_at + self._step_timeout_s

    def deadlines(self) -> Iterator[float]:
        """The instants at which there is something to look at."""
        yield self._began_at + self._step_timeout_s
        for since in self._missing_since.values():
            yield since + self._missing_grace_s
