"""Why a plan does not fit an overlay, in links and brokers that a person can look up.

A plan file only has a hash of the topology it was made for. Which links it takes for granted
follows from its actions; with the topology's own file the difference is complete.
"""

from __future__ import annotations

from pubweave.model.files.plan import PlanRecord, topology_hash
from pubweave.model.ids import BrokerId, Link, natural_order
from pubweave.model.plans import Action, Append, Detach, Move, Shift
from pubweave.model.topology import Topology

SHOWN_AT_MOST = 8


class MisfitError(ValueError):
    """A plan was made for another topology; the message has the difference."""


def refuse_misfit(
    record: PlanRecord, current: Topology, source: Topology | None, overlay: str
) -> None:
    """MisfitError with the difference unless the plan was made for what the overlay is now.

    Of a plan that does not say what it was made for, only its own actions are held against it."""
    if record.source_hash is not None:
        if record.source_hash == topology_hash(current):
            return
        if record.target_hash == topology_hash(current):
            raise MisfitError(f"the overlay {overlay} already is what this plan leads to")
        head = f"the plan was made for another topology than the overlay {overlay} has now:"
    else:
        head = f"the plan does not fit the overlay {overlay}:"
    lines = needs_not_met(record, current)
    if source is not None and topology_hash(source) != record.source_hash:
        lines.append("--source is not the topology the plan was made for either")
    elif source is not None:
        lines = differences(source, current)
    if not lines and record.source_hash is None:
        return
    lines = lines or [
        "what its actions touch is there, so brokers or links elsewhere differ: "
        "name the topology it was made for with --source to see which"
    ]
    more = [f"and {len(lines) - SHOWN_AT_MOST} more"] if len(lines) > SHOWN_AT_MOST else []
    shown = "".join(f"\n  {line}" for line in [*lines[:SHOWN_AT_MOST], *more])
    raise MisfitError(f"{head}{shown}\nmake a new plan from the overlay as it is")


def differences(expected: Topology, current: Topology) -> list[str]:
    """What is where, in sentences."""
    lines = [
        f"{link} is in the plan's topology, but not in the overlay"
        for link in _sorted_links(expected.links - current.links)
    ]
    lines += [
        f"{link} is in the overlay, but not in the plan's topology"
        for link in _sorted_links(current.links - expected.links)
    ]
    for broker in sorted(expected.brokers ^ current.brokers, key=natural_order):
        there, gone = ("plan's topology", "overlay")
        if broker in current.brokers:
            there, gone = gone, there
        lines.append(f"broker {broker} is in the {there}, but not in the {gone}")
    return lines


def needs_not_met(record: PlanRecord, current: Topology) -> list[str]:
    """What the plan's actions need of the overlay, and it does not have."""
    lines: list[str] = []
    touched: set[Link] = set()
    joined: set[BrokerId] = set()
    for number, step in enumerate(record.plan.steps, 1):
        for action in step:
            needed, added = _links(action)
            where = f"step {number}, {action}"
            if isinstance(action, Append):
                joined.add(action.broker)
            strangers = set(action.brokers) - current.brokers - joined
            lines += [f"no broker {broker} ({where})" for broker in sorted(strangers)]
            lines += [
                f"no link {link} ({where})"
                for link in needed
                if link not in touched and link not in current.links and not strangers
            ]
            if added is not None and added not in touched and added in current.links:
                lines.append(f"link {added} is already there ({where})")
            touched.update(needed, () if added is None else (added,))
    return lines


def _links(action: Action) -> tuple[list[Link], Link | None]:
    """Links that must be there before an action, and the one that must not."""
    match action:
        case Shift():
            return [action.removed_link, action.pivot_link], action.added_link
        case Move():
            return [action.removed_link], action.added_link
        case Append(broker, neighbor):
            return [], Link.between(broker, neighbor)
        case Detach(broker, neighbor):
            return [Link.between(broker, neighbor)], None


def _sorted_links(links: frozenset[Link]) -> list[Link]:
    return sorted(links, key=lambda link: (natural_order(link.a), natural_order(link.b)))
