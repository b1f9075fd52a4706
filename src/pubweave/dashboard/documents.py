"""The page's and the interface's documents: parts of a snapshot as plain JSON values.

Each function makes one part. A part is compared with the one before, so it holds nothing that
changes without need; figures that change with every look are in parts of their own (``status``,
``loads``).

A plan gives each link one mark, that of what happens to it soonest: it goes, comes, or carries a
shift.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from pubweave.dashboard.snapshot import DeploymentView, LinkView, Positions, Snapshot
from pubweave.model.decisions import DecisionRecord
from pubweave.model.deployment import ActionState
from pubweave.model.files.plan import PlanFileError
from pubweave.model.ids import BrokerId, Link, natural_order
from pubweave.model.plans import Action, Append, Detach, Move, Shift, Step


class LinkRole(enum.Enum):
    """What a plan does with a link."""

    REMOVED = "removed"
    PIVOT = "pivot"
    """It stays, and a shift slides along it."""
    NEW = "new"


class When(enum.Enum):
    """How far that is."""

    DONE = "done"
    NOW = "now"
    """In the step under way."""
    LATER = "later"
    PROPOSED = "proposed"
    """In a plan that waits for a person."""


class Mark(msgspec.Struct, frozen=True):
    """A link's part in a plan."""

    role: LinkRole
    when: When


Marks = Mapping[Link, Mark]


def links_of(action: Action) -> tuple[Link | None, Link | None, Link | None]:
    """The link that an action removes, the one it slides along, and the one it adds."""
    match action:
        case Shift():
            return action.removed_link, action.pivot_link, action.added_link
        case Move():
            return action.removed_link, None, action.added_link
        case Append():
            return None, None, Link.between(action.broker, action.neighbor)
        case Detach():
            return Link.between(action.broker, action.neighbor), None, None


def links_after(links: Iterable[Link], steps: Sequence[Step]) -> frozenset[Link]:
    """The links once the steps are done."""
    present = frozenset(links)
    for step in steps:
        for action in step:
            removed, _, added = links_of(action)
            present = present.difference([removed]).union([added] if added else [])
    return present


def brokers_of(steps: Sequence[Step]) -> frozenset[BrokerId]:
    """All brokers that take part."""
    return frozenset(b for step in steps for action in step for b in action.brokers)


def deployment_marks(links: frozenset[Link], deployment: DeploymentView) -> dict[Link, Mark]:
    """Marks of a plan in motion; ``links`` are those after the steps that are done."""
    done, rest = (
        deployment.steps[: deployment.steps_done],
        deployment.steps[deployment.steps_done :],
    )
    final = links_after(links, rest)
    marks = {link: Mark(LinkRole.NEW, When.DONE) for link in _added(done) & links & final}
    marks |= _difference(links, final, When.LATER)
    if rest and deployment.is_under_way:
        marks |= _step_marks(rest[0])
    return marks


def proposal_marks(links: frozenset[Link], steps: Sequence[Step]) -> dict[Link, Mark]:
    """Marks of a plan that waits: what it would remove and add in the end."""
    return _difference(links, links_after(links, steps), When.PROPOSED)


def steps_of(decision: DecisionRecord) -> tuple[Step, ...]:
    """The steps of a decision's plan; none if it has no plan that can be read."""
    if not decision.plan:
        return ()
    try:
        return decision.plan_record().plan.steps
    except PlanFileError:
        return ()


def _added(steps: Sequence[Step]) -> frozenset[Link]:
    found = (links_of(action)[2] for step in steps for action in step)
    return frozenset(link for link in found if link is not None)


def _difference(before: frozenset[Link], after: frozenset[Link], when: When) -> dict[Link, Mark]:
    marks = {link: Mark(LinkRole.REMOVED, when) for link in sorted(before - after)}
    return marks | {link: Mark(LinkRole.NEW, when) for link in sorted(after - before)}


def _step_marks(step: Step) -> dict[Link, Mark]:
    """A pivot that the same step also adds or removes is shown as that."""
    pivots: dict[Link, Mark] = {}
    changed: dict[Link, Mark] = {}
    for action in step:
        removed, pivot, added = links_of(action)
        if pivot is not None:
            pivots[pivot] = Mark(LinkRole.PIVOT, When.NOW)
        if removed is not None:
            changed[removed] = Mark(LinkRole.REMOVED, When.NOW)
        if added is not None:
            changed[added] = Mark(LinkRole.NEW, When.NOW)
    return pivots | changed


_DIGITS = 3
DECISIONS_SHOWN = 100
Document = dict[str, Any]


def status_document(snapshot: Snapshot) -> Document:
    """The overlay in a few numbers."""
    latency = snapshot.latency
    return {
        "taken_at": snapshot.taken_at,
        "overlay": snapshot.overlay,
        "strategy": snapshot.strategy,
        "brokers": len(snapshot.brokers),
        "brokers_up": snapshot.brokers_up,
        "links": len(snapshot.links),
        "links_up": snapshot.links_up,
        "clients": sum(broker.clients for broker in snapshot.brokers),
        "publications_per_s": _rounded(snapshot.publications_per_s),
        "deliveries_per_s": _rounded(snapshot.deliveries_per_s),
        "queue_messages": snapshot.queue_messages,
        "queue_bytes": snapshot.queue_bytes,
        "cost_per_s": _rounded(snapshot.cost_per_s),
        "latency": None if latency is None else msgspec.to_builtins(latency),
        "totals": msgspec.to_builtins(snapshot.totals),
        "autopilot": msgspec.to_builtins(snapshot.autopilot),
    }


def picture_document(snapshot: Snapshot, positions: Positions, marks: Marks) -> Document:
    """Who is where, and which links there are, were or will be."""
    standing = {link.link for link in snapshot.links}
    drawn = sorted(standing | marks.keys(), key=_link_order)
    return {
        "brokers": [
            {"id": broker, "x": x, "y": y}
            for broker, (x, y) in sorted(positions.items(), key=lambda p: natural_order(p[0]))
        ],
        "links": [
            {
                "a": link.a,
                "b": link.b,
                "is_standing": link in standing,
                "role": marks[link].role.value if link in marks else None,
                "when": marks[link].when.value if link in marks else None,
            }
            for link in drawn
        ],
    }


def loads_document(snapshot: Snapshot) -> Document:
    """The figures of all brokers and links."""
    return {
        "brokers": {
            broker.id: {
                "is_up": broker.is_up,
                "publications_per_s": _rounded(broker.publications_per_s),
                "deliveries_per_s": _rounded(broker.deliveries_per_s),
                "clients": broker.clients,
                "subscriptions": broker.subscriptions,
                "queue_bytes": broker.queue_bytes,
                "queue_messages": broker.queue_messages,
                "is_congested": broker.is_congested,
                "held_messages": broker.held_messages,
                "uptime_s": round(broker.uptime_s),
            }
            for broker in snapshot.brokers
        },
        "links": [_link_load(link) for link in snapshot.links],
    }


def plan_document(deployment: DeploymentView | None) -> Document | None:
    """The plan in motion or the last one, step by step."""
    if deployment is None:
        return None
    return {
        "id": deployment.id,
        "state": deployment.state.value,
        "is_in_motion": deployment.is_in_motion,
        "is_under_way": deployment.is_under_way,
        "step_count": len(deployment.steps),
        "steps_done": deployment.steps_done,
        "progress": round(progress_of(deployment), _DIGITS),
        "steps": [[_action(action) for action in step] for step in deployment.steps],
        "actions": msgspec.to_builtins(list(deployment.actions)),
        "reason": deployment.reason,
        "purpose": deployment.purpose,
        "by": deployment.by,
        "executor": deployment.executor,
        "missing": list(deployment.missing),
    }


def progress_of(deployment: DeploymentView) -> float:
    """The share of the plan that is done, the step under way by its actions; 0 to 1."""
    if not deployment.steps:
        return 1.0
    reached = float(deployment.steps_done)
    if deployment.actions and deployment.is_in_motion:
        done = sum(action.state is ActionState.DONE for action in deployment.actions)
        reached += done / len(deployment.actions)
    return reached / len(deployment.steps)


def decisions_document(snapshot: Snapshot) -> list[Document]:
    """The latest decisions, each as it is on record but for its plan."""
    return [_decision(each) for each in snapshot.decisions[:DECISIONS_SHOWN]]


def decision_document(decision: DecisionRecord) -> Document:
    """A whole decision, its plan as steps."""
    steps = [[_action(action) for action in step] for step in steps_of(decision)]
    return {**_decision(decision), "steps": steps}


def _decision(decision: DecisionRecord) -> Document:
    document: Document = msgspec.to_builtins(decision)
    del document["plan"]
    document["alternatives"] = [
        {**shown, "net_ms": each.net_ms}
        for shown, each in zip(document["alternatives"], decision.alternatives, strict=True)
    ]
    return document


def troubles_document(snapshot: Snapshot) -> list[Document]:
    return [msgspec.to_builtins(trouble) for trouble in snapshot.troubles]


def _action(action: Action) -> Document:
    removed, pivot, added = links_of(action)
    return {
        "text": str(action),
        "removed": None if removed is None else list(removed),
        "pivot": None if pivot is None else list(pivot),
        "added": None if added is None else list(added),
    }


def _link_load(link: LinkView) -> Document:
    rounded = {name: _rounded(getattr(link, name)) for name in ("messages_per_s", "rtt_ms")}
    return {**msgspec.to_builtins(link), **rounded}


def _link_order(link: Link) -> tuple[Any, Any]:
    return natural_order(link.a), natural_order(link.b)


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, _DIGITS)
