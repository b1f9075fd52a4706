"""What actions do to a topology, and who leads them: the words of executor and agents.

Any part of a step's actions leads from a tree to a tree: each keeps the links it slides along, so
what it adds joins the two parts that its removed link held together (see
`planning.check.validate`). That is why a step may end half done.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from itertools import count, pairwise

from pubweave.model.ids import BrokerId, Link
from pubweave.model.plans import Action, Append, Detach, Move, Shift, Step
from pubweave.model.topology import Topology, TopologyError


def leader_of(action: Action) -> BrokerId:
    """The broker that starts an action and decides it: of a shift the mover, else the neighbor
    that stays. A move is carried out as its shifts and has no leader of its own."""
    match action:
        case Shift(mover=mover):
            return mover
        case Append(neighbor=neighbor) | Detach(neighbor=neighbor):
            return neighbor
        case Move():
            raise AssertionError(f"{action} was not spelled out")


def removed_link(action: Action) -> Link | None:
    match action:
        case Shift() | Move():
            return action.removed_link
        case Detach():
            return Link.between(action.broker, action.neighbor)
        case Append():
            return None


def added_link(action: Action) -> Link | None:
    match action:
        case Shift() | Move():
            return action.added_link
        case Append():
            return Link.between(action.broker, action.neighbor)
        case Detach():
            return None


def apply_action(topology: Topology, action: Action) -> Topology:
    """The topology after an action; TopologyError where the action does not fit."""
    removed, added = removed_link(action), added_link(action)
    if isinstance(action, Shift) and action.pivot_link not in topology.links:
        raise TopologyError(f"{action}: link {action.pivot_link} is not there")
    if isinstance(action, Append):
        if action.broker in topology.brokers:
            raise TopologyError(f"{action}: {action.broker} is already there")
        topology = replace(topology, brokers=topology.brokers | {action.broker})
    try:
        if removed is not None:
            topology = topology.without_link(removed)
        if added is not None:
            topology = topology.with_link(added)
    except TopologyError as error:
        raise TopologyError(f"{action}: {error}") from error
    if isinstance(action, Detach):
        topology = replace(topology, brokers=topology.brokers - {action.broker})
    return topology


def apply_actions(topology: Topology, actions: Iterable[Action]) -> Topology:
    """The topology after all the actions, one after the other."""
    for action in actions:
        topology = apply_action(topology, action)
    return topology


def neighbors_after(
    neighbors: frozenset[BrokerId], broker: BrokerId, actions: Iterable[Action]
) -> frozenset[BrokerId]:
    """A broker's neighbors after the actions; those of others change nothing for it."""
    for action in actions:
        removed, added = removed_link(action), added_link(action)
        if removed is not None and broker in removed:
            neighbors -= {removed.far_end(broker)}
        if added is not None and broker in added:
            neighbors |= {added.far_end(broker)}
    return neighbors


def earlier_sharing(step: Step, place: int) -> tuple[int, ...]:
    """The places before this one whose actions share a broker with it: it runs after them."""
    brokers = set(step[place].brokers)
    return tuple(
        earlier for earlier in range(place) if not brokers.isdisjoint(step[earlier].brokers)
    )


def schedule_step(step: Step) -> Step:
    """The actions in an order in which those that share a broker wait for few others.

    Greedy list colouring, the most entangled first: an action joins the first wave in which
    nobody has one of its brokers; the waves follow one another."""
    users: dict[BrokerId, set[Action]] = {}
    for action in step:
        for broker in action.brokers:
            users.setdefault(broker, set()).add(action)
    entangled = {
        action: len(set[Action]().union(*(users[broker] for broker in action.brokers)))
        for action in step
    }
    waves: list[list[Action]] = []
    taken: dict[BrokerId, set[int]] = {broker: set() for broker in users}
    for action in sorted(step, key=lambda action: (-entangled[action], str(action))):
        full = set[int]().union(*(taken[broker] for broker in action.brokers))
        number = next(wave for wave in count() if wave not in full)
        if number == len(waves):
            waves.append([])
        waves[number].append(action)
        for broker in action.brokers:
            taken[broker].add(number)
    return tuple(action for wave in waves for action in wave)


def rounds(step: Step) -> int:
    """How many actions of a step, in this order, run one after the other at the most."""
    depth: dict[BrokerId, int] = {}
    for action in step:
        own = 1 + max(depth.get(broker, 0) for broker in action.brokers)
        depth.update(dict.fromkeys(action.brokers, own))
    return max(depth.values(), default=0)


def spell_out(topology: Topology, move: Move) -> tuple[Shift, ...]:
    """A move as the shifts that slide its link around the cycle (IPITT section V): first one end
    to the nearer end of the goal link, then the other. They share brokers, so a step that holds
    them carries them out in this order."""
    way = topology.path(move.new_a, move.new_b)
    links = [Link.between(a, b) for a, b in pairwise(way)]
    if move.removed_link not in links:
        raise TopologyError(f"{move}: {move.removed_link} is not between {way[0]} and {way[-1]}")
    at = links.index(move.removed_link)
    behind, ahead = way[: at + 1], way[at + 1 :]
    near, far = behind[-1], ahead[-1]
    forth = [Shift(near, old, new) for old, new in pairwise(ahead)]
    back = [Shift(far, old, new) for old, new in pairwise(reversed(behind))]
    return (*forth, *back)


def spell_out_step(topology: Topology, step: Step) -> Step:
    """The step with every move spelled out; actions that may run in any order are scheduled.

    A move's shifts build on each other, so a step with moves keeps its order."""
    if not any(isinstance(action, Move) for action in step):
        return schedule_step(step)
    spelled: list[Action] = []
    for action in step:
        spelled += spell_out(topology, action) if isinstance(action, Move) else (action,)
    return tuple(spelled)
