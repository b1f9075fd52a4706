"""What an operator does with the store, as scripts that any driver can run.

A script is a generator: it yields requests, is sent their answers, and returns what it found. So
the same script runs at once on the memory store and over sockets. Each is safe to run again after
it was cut off anywhere, and each changes the deployment by compare-and-set only.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from pubweave.deploy.documents import (
    ActionDocument,
    DeploymentDocument,
    Document,
    ExecutorDocument,
    Layout,
    PartDocument,
    PlanDocument,
    TopologyDocument,
    action_id,
    decode,
    encode,
    validate_name,
)
from pubweave.deploy.store import (
    Create,
    Delete,
    List,
    Outcome,
    Path,
    Read,
    StoreAnswer,
    StoreRequest,
    Write,
)
from pubweave.deploy.topology_state import apply_actions, spell_out_step
from pubweave.model.deployment import AbortedBy, ActionState, DeploymentState
from pubweave.model.files.plan import PlanRecord, plan_id, topology_hash
from pubweave.model.ids import ActionId, BrokerId
from pubweave.model.plans import Action, Plan, Step
from pubweave.model.topology import Topology, TopologyError, validate_tree

T = TypeVar("T")
DocumentT = TypeVar("DocumentT", bound=Document)
Script = Generator[StoreRequest, StoreAnswer, T]
TRIES = 20
"""How often a change is tried again that somebody else came before."""


class DeploymentError(ValueError):
    """What was asked cannot be done now; the message says why and what can."""


class ActionStatus(msgspec.Struct, frozen=True):
    """An action of the current step and what its brokers have reported of it."""

    text: str
    state: ActionState
    reason: str
    parts: dict[BrokerId, PartDocument]
    waits_for: tuple[BrokerId, ...] = ()
    """It is decided, and these brokers have yet to report their part."""
    since: float | None = None
    """When it came into its state (seconds since 1970), if the store tells."""

    @property
    def held_messages(self) -> int:
        return sum(part.held_messages for part in self.parts.values())


class Progress(msgspec.Struct, frozen=True):
    """How far the current deployment is."""

    deployment: DeploymentDocument
    steps: tuple[tuple[str, ...], ...]
    actions: tuple[ActionStatus, ...]
    executor: str | None
    """Who executes; None: nobody, so nothing moves."""
    missing: tuple[BrokerId, ...] = ()
    """Brokers that decided actions wait for and that are not there."""


# --- topology ----------------------------------------------------------------------------------


def create_topology(layout: Layout, topology: Topology) -> Script[bool]:
    """Store what the overlay looks like at first; False if the store knows one already."""
    validate_tree(topology)
    for broker in sorted(topology.brokers):
        validate_name(broker, "the broker's id")
    answer = yield Create(layout.topology, encode(TopologyDocument.of(topology)))
    if answer.outcome not in (Outcome.OK, Outcome.EXISTS):
        raise DeploymentError(
            f"{layout.topology}: cannot be written ({answer.outcome.value}); "
            "is the store reachable, and are the credentials right?"
        )
    return answer.outcome is Outcome.OK


def read_topology(layout: Layout) -> Script[Topology]:
    """What the overlay looks like after the last finished step."""
    document, _ = yield from _read(layout.topology, TopologyDocument)
    if document is None:
        raise DeploymentError(
            f"{layout.topology}: the store knows no topology of the overlay {layout.overlay!r}; "
            "is its name right, and was it started with this store?"
        )
    return document.topology()


# --- a new deployment --------------------------------------------------------------------------


def submit(
    layout: Layout,
    record: PlanRecord,
    pause_after: int | None = None,
    *,
    by: BrokerId = "",
    purpose: str = "",
    decision: str | UnsetType = UNSET,
) -> Script[DeploymentDocument]:
    """Hand a plan over: the deployment that an executor will carry out.

    Refused while another one is under way, or where the plan does not fit the overlay."""
    is_unsure = False
    for _ in range(TRIES):
        current, version = yield from _read(layout.plan, DeploymentDocument)
        if current is not None and not current.state.is_final:
            if is_unsure and current.by == by and current.deployment.endswith(plan_id(record)):
                return current
            raise DeploymentError(
                f"deployment {current.deployment} is {current.state.value} "
                f"({current.steps_done} of {current.step_count} steps done): "
                "wait for its end, resume it, or abort it"
            )
        # Read after the last deployment has ended: from here on nobody changes the topology
        # unless somebody else submits a plan, and then our compare-and-set fails.
        topology = yield from read_topology(layout)
        document = _plan_for(record, topology)
        number = 1 if current is None else current.number + 1
        wanted = DeploymentDocument(
            deployment=f"{number}-{plan_id(record)}",
            number=number,
            state=DeploymentState.READY,
            step_count=len(document.steps),
            pause_after=pause_after,
            by=by,
            purpose=purpose,
            decision=decision,
        )
        laid = yield Create(layout.steps(wanted.deployment), encode(document))
        if laid.outcome not in (Outcome.OK, Outcome.EXISTS):
            continue
        outcome = yield from _store(layout.plan, wanted, version)
        if outcome is Outcome.OK:
            return wanted
        is_unsure = is_unsure or outcome is Outcome.UNSURE
    raise DeploymentError("the store does not take the plan; try again when it is reachable")


def _plan_for(record: PlanRecord, topology: Topology) -> PlanDocument:
    """The steps as they will be carried out on this topology; DeploymentError if they cannot."""
    if record.source_hash is not None and record.source_hash != topology_hash(topology):
        raise DeploymentError(
            "the plan was made for another topology than the overlay has now: "
            f"{record.source_hash[:19]}..., the overlay is {topology_hash(topology)[:19]}...; "
            "make a new plan"
        )
    steps: list[Step] = []
    now = topology
    for number, step in enumerate(record.plan.steps, 1):
        try:
            spelled = spell_out_step(now, step)
            now = apply_actions(now, spelled)
            validate_tree(now)
        except TopologyError as error:
            raise DeploymentError(
                f"step {number} of the plan does not fit the overlay: {error}; make a new plan"
            ) from error
        steps.append(spelled)
    return PlanDocument.of(Plan(tuple(steps)), topology_hash(topology), topology_hash(now))


def sweep(layout: Layout) -> Script[int]:
    """Remove what earlier deployments left in the store; the number of nodes."""
    current, _ = yield from _read(layout.plan, DeploymentDocument)
    listed = yield List(layout.plans)
    removed = 0
    for name in listed.children:
        if current is None or name != current.deployment:
            removed += yield from _remove(layout.steps(name))
    return removed


def _remove(path: Path) -> Script[int]:
    removed = 0
    listed = yield List(path)
    for name in listed.children:
        removed += yield from _remove(f"{path}/{name}")
    answer = yield Delete(path)
    return removed + (answer.outcome is Outcome.OK)


# --- the current deployment --------------------------------------------------------------------


def request_pause(layout: Layout) -> Script[DeploymentDocument]:
    """Let the deployment pause after the step that runs now."""

    def pause(current: DeploymentDocument) -> DeploymentDocument:
        if current.state in (DeploymentState.READY, DeploymentState.RUNNING):
            return msgspec.structs.replace(current, pause_after=current.steps_done + 1)
        if current.state is DeploymentState.PAUSED:
            return current
        raise DeploymentError(f"the plan is {current.state.value}: it cannot pause")

    return (yield from _change(layout, pause))


def resume(layout: Layout, pause_after: int | None = None) -> Script[DeploymentDocument]:
    """Let a paused deployment go on, to pause again after that many steps in all (None: not)."""

    def go_on(current: DeploymentDocument) -> DeploymentDocument:
        if current.state is DeploymentState.PAUSED:
            running = current.moved_to(DeploymentState.RUNNING)
            return msgspec.structs.replace(running, pause_after=pause_after)
        if current.state in (DeploymentState.READY, DeploymentState.RUNNING):
            # Running, perhaps without an executor: taking a pause back is all there is to do.
            return msgspec.structs.replace(current, pause_after=pause_after)
        raise DeploymentError(f"the plan is {current.state.value}: it cannot be resumed")

    return (yield from _change(layout, go_on))


def abort(layout: Layout, reason: str) -> Script[DeploymentDocument]:
    """Let the deployment end where it is. What is decided of the current step is finished."""

    def give_up(current: DeploymentDocument) -> DeploymentDocument:
        if current.state is DeploymentState.RUNNING:
            return current.given_up(DeploymentState.ABORTING, AbortedBy.OPERATOR, reason)
        if current.state in (DeploymentState.READY, DeploymentState.PAUSED):
            return current.given_up(DeploymentState.ABORTED, AbortedBy.OPERATOR, reason)
        if current.state is DeploymentState.DONE:
            raise DeploymentError("the plan is done: there is nothing to abort")
        return current

    return (yield from _change(layout, give_up))


def read_progress(layout: Layout) -> Script[Progress]:
    """How far the current deployment is; DeploymentError if there has never been one."""
    current, _ = yield from _read_deployment(layout)
    plan, _ = yield from _read(layout.steps(current.deployment), PlanDocument)
    executor, _ = yield from _read(layout.executor, ExecutorDocument)
    steps = plan.plan().steps if plan is not None else ()
    actions: list[ActionStatus] = []
    if current.steps_done < len(steps):
        for place, action in enumerate(steps[current.steps_done]):
            id_ = action_id(current.deployment, current.steps_done, place)
            actions.append((yield from _read_action(layout, id_, action)))
    living = yield List(layout.brokers)
    awaited = {broker for action in actions for broker in action.waits_for}
    return Progress(
        current,
        tuple(tuple(str(action) for action in step) for step in steps),
        tuple(actions),
        executor.name if executor is not None else None,
        tuple(sorted(awaited.difference(living.children))),
    )


def _read_action(layout: Layout, id_: ActionId, action: Action) -> Script[ActionStatus]:
    path = layout.action(id_)
    seen = yield from _read_answer(path)
    document = ActionDocument.of(action)
    if seen.outcome is Outcome.OK:
        document = decode(seen.data, ActionDocument, path)
    listed = yield List(layout.parts(id_))
    parts: dict[BrokerId, PartDocument] = {}
    for broker in listed.children:
        part, _ = yield from _read(layout.part(id_, broker), PartDocument)
        if part is not None:
            parts[broker] = part
    is_decided = document.state is ActionState.COMMITTED
    return ActionStatus(
        str(action),
        document.state,
        document.reason,
        parts,
        tuple(broker for broker in action.brokers if is_decided and broker not in parts),
        seen.written_at,
    )


# --- reading and compare-and-set ---------------------------------------------------------------


def _read(path: Path, kind: type[DocumentT]) -> Script[tuple[DocumentT | None, int]]:
    """A document and its version, and None and -1 if there is none."""
    answer = yield from _read_answer(path)
    if answer.outcome is Outcome.MISSING:
        return None, -1
    return decode(answer.data, kind, path), answer.version


def _read_answer(path: Path) -> Script[StoreAnswer]:
    """An answer that says what is there, or that nothing is."""
    for _ in range(TRIES):
        answer = yield Read(path)
        if answer.outcome in (Outcome.OK, Outcome.MISSING):
            return answer
        if answer.outcome is Outcome.DENIED:
            raise DeploymentError(f"{path}: the store denies access; check the credentials")
    raise DeploymentError(f"{path}: the store does not answer; try again when it is reachable")


def _store(path: Path, document: Document, version: int) -> Script[Outcome]:
    """Create the node if it was missing, else replace it if it is still the same."""
    data = encode(document)
    answer = yield (Create(path, data) if version < 0 else Write(path, data, version))
    return answer.outcome


def _read_deployment(layout: Layout) -> Script[tuple[DeploymentDocument, int]]:
    current, version = yield from _read(layout.plan, DeploymentDocument)
    if current is None:
        raise DeploymentError(
            f"no plan was ever applied to the overlay {layout.overlay!r}: apply one first"
        )
    return current, version


def _change(
    layout: Layout, change: Callable[[DeploymentDocument], DeploymentDocument]
) -> Script[DeploymentDocument]:
    """Change the deployment as it then is, as often as somebody comes before us."""
    for _ in range(TRIES):
        current, version = yield from _read_deployment(layout)
        wanted = change(current)
        if wanted == current:
            return current
        if (yield from _store(layout.plan, wanted, version)) is Outcome.OK:
            return wanted
    raise DeploymentError("the store does not take the change; try again when it is reachable")
