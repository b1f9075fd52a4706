"""What the nodes of the store hold, the one place where states change, and where things are.

A state changes only by ``moved_to``, which asserts the tables of `model.deployment`. A document
that cannot be read was written by somebody else or by another version: `DocumentError` names its
path and what to do.

Paths, after IPITT Figure 4::

    /pubweave/<overlay>/topology               what the overlay looks like   TopologyDocument
    /pubweave/<overlay>/brokers/<id>           ephemeral: a broker lives     BrokerDocument
    /pubweave/<overlay>/reports/<id>           its load, queues and rates    BrokerReport
    /pubweave/<overlay>/executor               ephemeral: who executes       ExecutorDocument
    /pubweave/<overlay>/plan                   the current deployment        DeploymentDocument
    /pubweave/<overlay>/plans/<deployment>     its steps, never changed      PlanDocument
    .../<deployment>/<step>/<place>            one action and its state      ActionDocument
    .../<deployment>/<step>/<place>/brokers/<id>   that broker's part of it  PartDocument
    /pubweave/<overlay>/remap                  brokers of a ring are moved   RemapDocument
    /pubweave/<overlay>/remapper               ephemeral: who sees to that   ExecutorDocument
    /pubweave/<overlay>/remaps/<version>/<step>/<id>   a broker has done so  PartDocument
    /pubweave/<overlay>/autopilot              ephemeral: a control loop     AutopilotStatus
    /pubweave/<overlay>/decisions/<id>         what it decided, and why      DecisionRecord

A deployment has a name of its own, so that nothing of an earlier one can be taken for the current
one's. Steps and places count from 0. An action's id is its path below ``plans``.
"""

from __future__ import annotations

import re
from typing import TypeVar

import msgspec
from msgspec import UNSET, UnsetType

from pubweave.deploy.store import Path
from pubweave.model.deployment import (
    ACTION_CHANGES,
    DEPLOYMENT_CHANGES,
    AbortedBy,
    ActionState,
    DeploymentState,
)
from pubweave.model.ids import ActionId, BrokerId, Link
from pubweave.model.plans import Action, Append, Detach, Move, Plan, Shift
from pubweave.model.records.status import BrokerStatus, RateStatus
from pubweave.model.topology import Topology

FORMAT_VERSION = 1
_OPERATIONS: dict[str, type[Shift] | type[Move] | type[Append] | type[Detach]] = {
    "shift": Shift,
    "move": Move,
    "append": Append,
    "detach": Detach,
}


class DocumentError(ValueError):
    """A node of the store that holds something else than it should."""


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """What all documents share."""

    format_version: int = FORMAT_VERSION


class TopologyDocument(Document, frozen=True, kw_only=True):
    """Brokers and links as the last finished step left them.

    ``steps_applied`` steps of ``deployment`` are in it, so that whoever adds what was committed
    since then adds nothing twice."""

    brokers: tuple[BrokerId, ...]
    links: tuple[tuple[BrokerId, BrokerId], ...]
    deployment: str = ""
    steps_applied: int = 0

    @classmethod
    def of(
        cls, topology: Topology, deployment: str = "", steps_applied: int = 0
    ) -> TopologyDocument:
        return cls(
            brokers=tuple(sorted(topology.brokers)),
            links=tuple((link.a, link.b) for link in sorted(topology.links)),
            deployment=deployment,
            steps_applied=steps_applied,
        )

    def topology(self) -> Topology:
        return Topology(
            frozenset(self.brokers), frozenset(Link.between(a, b) for a, b in self.links)
        )

    def has_step_of(self, current: DeploymentDocument) -> bool:
        """Whether it already has the step that the deployment has not counted yet."""
        return self.deployment == current.deployment and self.steps_applied > current.steps_done


class ActionEntry(msgspec.Struct, frozen=True):
    """An action as a plan names it."""

    op: str
    brokers: tuple[BrokerId, ...]

    @classmethod
    def of(cls, action: Action) -> ActionEntry:
        return cls(type(action).__name__.lower(), action.brokers)

    def action(self) -> Action:
        return _OPERATIONS[self.op](*self.brokers)


class PlanDocument(Document, frozen=True, kw_only=True):
    """The steps of a deployment, as they are carried out."""

    steps: tuple[tuple[ActionEntry, ...], ...]
    source_hash: str = ""
    target_hash: str = ""

    @classmethod
    def of(cls, plan: Plan, source_hash: str = "", target_hash: str = "") -> PlanDocument:
        return cls(
            steps=tuple(tuple(ActionEntry.of(action) for action in step) for step in plan.steps),
            source_hash=source_hash,
            target_hash=target_hash,
        )

    def plan(self) -> Plan:
        return Plan(tuple(tuple(entry.action() for entry in step) for step in self.steps))


class DeploymentDocument(Document, frozen=True, kw_only=True):
    """The current deployment: which, how far, and what is asked of it."""

    deployment: str
    number: int
    state: DeploymentState
    step_count: int
    steps_done: int = 0
    pause_after: int | None = None
    """Pause when this many steps are done; None: do not."""
    reason: str = ""
    """Why it is aborting or was aborted."""
    aborted_by: AbortedBy | UnsetType = UNSET
    """Left out where nobody aborted it, or a version did that did not say who."""
    by: BrokerId = ""
    """The broker that submitted it in a self-organizing overlay; empty: an operator did."""
    purpose: str = ""
    """Why the overlay is changed, in the words of whoever asked for it."""
    decision: str | UnsetType = UNSET
    """The autopilot's decision that it carries out, if any."""

    def moved_to(self, state: DeploymentState) -> DeploymentDocument:
        """This deployment in its next state."""
        assert state in DEPLOYMENT_CHANGES[self.state], f"{self.state} to {state}"
        return msgspec.structs.replace(self, state=state)

    def given_up(self, state: DeploymentState, by: AbortedBy, reason: str) -> DeploymentDocument:
        """This deployment on its way to the end, or ended."""
        return msgspec.structs.replace(self.moved_to(state), reason=reason, aborted_by=by)


class ActionDocument(Document, frozen=True, kw_only=True):
    """One action of a deployment. Its state is the decision that all its brokers obey."""

    op: str
    brokers: tuple[BrokerId, ...]
    state: ActionState = ActionState.PENDING
    reason: str = ""
    by: str = ""
    """Who brought it into this state."""

    @classmethod
    def of(cls, action: Action) -> ActionDocument:
        return cls(op=type(action).__name__.lower(), brokers=action.brokers)

    def action(self) -> Action:
        return ActionEntry(self.op, self.brokers).action()

    def moved_to(self, state: ActionState, by: str, reason: str = "") -> ActionDocument:
        """This action in its next state."""
        assert state in ACTION_CHANGES[self.state], f"{self.state} to {state}"
        return msgspec.structs.replace(self, state=state, by=by, reason=reason or self.reason)


class PartDocument(Document, frozen=True, kw_only=True):
    """One broker's part of an action is over."""

    done: bool
    reason: str = ""
    held_messages: int = 0
    held_s: float = 0.0


class BrokerDocument(Document, frozen=True, kw_only=True):
    """A living broker. ``session`` counts its sessions with the store: an older one's node is
    about to go and must not be taken for the current one's."""

    address: str
    epoch: int
    session: int = 0


class ExecutorDocument(Document, frozen=True, kw_only=True):
    """A living executor."""

    name: str
    session: int = 0


class BrokerReport(Document, frozen=True, kw_only=True):
    """What a broker tells of itself now and then: the paper's feedback (IPITT section IV-A)."""

    uptime_s: float
    client_count: int
    subscriptions: int
    advertisements: int
    link_count: int
    queue_messages: int
    queue_bytes: int
    notifications_lost: int
    rates: RateStatus

    @classmethod
    def of(cls, status: BrokerStatus) -> BrokerReport:
        sessions = (*status.links, *status.clients)
        return cls(
            uptime_s=status.uptime_s,
            client_count=status.client_count,
            subscriptions=status.subscriptions,
            advertisements=status.advertisements,
            link_count=len(status.links),
            queue_messages=sum(session.queue_messages for session in sessions),
            queue_bytes=status.queue_bytes,
            notifications_lost=status.counters.notifications_lost,
            rates=status.rates,
        )


T = TypeVar("T")
DocumentT = TypeVar("DocumentT", bound=Document)


def encode(document: Document) -> bytes:
    """The bytes of a node; the same document gives the same bytes."""
    return msgspec.json.encode(document)


def decode(data: bytes, kind: type[DocumentT], path: Path) -> DocumentT:
    """The document in a node; DocumentError names the path and what is wrong."""
    document = decode_struct(data, kind, path)
    if document.format_version != FORMAT_VERSION:
        raise DocumentError(
            f"{path}: format_version {document.format_version}, this program reads "
            f"{FORMAT_VERSION}; use the version of pubweave that wrote it"
        )
    return document


def decode_struct(data: bytes, kind: type[T], path: Path) -> T:
    """The same for what has another version, or none."""
    try:
        return msgspec.json.decode(data, type=kind)
    except msgspec.DecodeError as error:
        raise DocumentError(
            f"{path}: not a {kind.__name__} ({error}); was it written by another program?"
        ) from error


ROOT = "/pubweave"
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]*")


class UnusableNameError(ValueError):
    """A name that cannot be part of a path."""


def validate_name(name: str, what: str) -> str:
    """The name, if it can be part of a path in the store; else UnusableNameError says what can."""
    if not _NAME.fullmatch(name):
        raise UnusableNameError(
            f"{what} {name!r} cannot be stored: use letters, digits, '_', '.', ':' and '-', "
            "beginning with a letter or a digit"
        )
    return name


class Layout:
    """The paths of one overlay.

    >>> Layout("demo").action("1-ab/0/2")
    '/pubweave/demo/plans/1-ab/0/2'
    """

    def __init__(self, overlay: str) -> None:
        self.overlay = validate_name(overlay, "the overlay's name")
        self.top: Path = f"{ROOT}/{overlay}"
        self.topology: Path = f"{self.top}/topology"
        self.brokers: Path = f"{self.top}/brokers"
        self.reports: Path = f"{self.top}/reports"
        self.executor: Path = f"{self.top}/executor"
        self.plan: Path = f"{self.top}/plan"
        self.plans: Path = f"{self.top}/plans"
        self.remap: Path = f"{self.top}/remap"
        self.remapper: Path = f"{self.top}/remapper"
        self.autopilot: Path = f"{self.top}/autopilot"
        self.decisions: Path = f"{self.top}/decisions"

    def broker(self, broker: BrokerId) -> Path:
        return f"{self.brokers}/{broker}"

    def report(self, broker: BrokerId) -> Path:
        return f"{self.reports}/{broker}"

    def steps(self, deployment: str) -> Path:
        return f"{self.plans}/{deployment}"

    def action(self, action_id: ActionId) -> Path:
        return f"{self.plans}/{action_id}"

    def parts(self, action_id: ActionId) -> Path:
        return f"{self.plans}/{action_id}/brokers"

    def part(self, action_id: ActionId, broker: BrokerId) -> Path:
        return f"{self.plans}/{action_id}/brokers/{broker}"

    def remap_parts(self, version: int, step: str) -> Path:
        return f"{self.top}/remaps/{version}/{step}"

    def remap_part(self, version: int, step: str, broker: BrokerId) -> Path:
        return f"{self.remap_parts(version, step)}/{broker}"

    def decision(self, id_: str) -> Path:
        return f"{self.decisions}/{id_}"


def action_id(deployment: str, step: int, place: int) -> ActionId:
    """The name of the action at a place of a step.

    >>> action_id("1-ab", 0, 2)
    '1-ab/0/2'
    """
    return f"{deployment}/{step}/{place}"
