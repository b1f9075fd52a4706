"""What a plan does to the picture: which links go, come, or carry a shift, and when.

Pure: from the links that stand and a plan's steps to a mark per link. A link has one mark, that of
what happens soonest.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from pubweave.dashboard.snapshot import DeploymentView
from pubweave.model.decisions import DecisionRecord
from pubweave.model.files.plan import PlanFileError
from pubweave.model.ids import BrokerId, Link
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
