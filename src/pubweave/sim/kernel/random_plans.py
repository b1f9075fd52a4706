"""Random plans that a tree can be led through: valid steps, also such as share brokers."""

from __future__ import annotations

from collections.abc import Collection

from pubweave.deploy.topology_state import added_link, apply_actions, removed_link
from pubweave.model.ids import BrokerId, Link
from pubweave.model.plans import Action, Append, Detach, Move, Plan, Shift, Step
from pubweave.model.topology import Topology
from pubweave.sim.kernel.world import World

TRIES = 8
MEMBERSHIP_SHARE = 0.25
MOVE_SHARE = 0.1


class PlanDraw:
    """Draws plans for one overlay. ``spare`` brokers may join, any leaf may leave except those
    that ``stay``; ``disjoint``: no two actions of a step share a broker."""

    def __init__(
        self,
        world: World,
        *,
        disjoint: bool,
        spare: Collection[BrokerId] = (),
        stay: Collection[BrokerId] = (),
        changes_brokers: bool = False,
    ) -> None:
        self._world = world
        self._disjoint = disjoint
        self._brokers = spare
        self._stay = stay
        self._changes_brokers = changes_brokers

    def plan(self, topology: Topology, *, steps: int, actions: int) -> Plan:
        """Up to so many steps of up to so many actions; empty steps are left out."""
        found = []
        for _ in range(steps):
            step = self.step(topology, self._world.integer(1, actions))
            if step:
                found.append(step)
                topology = apply_actions(topology, step)
        return Plan(tuple(found))

    def step(self, topology: Topology, actions: int) -> Step:
        """Actions that may run at once. A move has a step of its own."""
        if self._world.chance(MOVE_SHARE):
            move = random_move(self._world, topology)
            return (move,) if move is not None else ()
        drawn = _StepDraw(disjoint=self._disjoint)
        for _ in range(actions * TRIES):
            if len(drawn.actions) == actions:
                break
            if self._changes_brokers and self._world.chance(MEMBERSHIP_SHARE):
                drawn.offer(self._membership(topology))
            else:
                drawn.offer(random_shift(self._world, topology))
        return tuple(drawn.actions)

    def _membership(self, topology: Topology) -> Append | Detach | None:
        world = self._world
        spare = [broker for broker in self._brokers if broker not in topology.brokers]
        leaves = [broker for broker in topology.leaves if broker not in self._stay]
        if spare and world.chance(0.5):
            return Append(world.choice(spare), world.choice(list(topology.neighbors)))
        if not leaves or len(topology.brokers) < 5:
            return None
        leaf = world.choice(leaves)
        return Detach(leaf, topology.neighbors[leaf][0])


class _StepDraw:
    """A step in the making: each link is removed by one action at most and then nobody's pivot,
    none is added twice, and a broker that joins or leaves is in no other action (IPITT section
    III; see `planning.check.validate`)."""

    def __init__(self, *, disjoint: bool) -> None:
        self.actions: list[Action] = []
        self._disjoint = disjoint
        self._removed: set[Link] = set()
        self._kept: set[Link] = set()
        self._added: set[Link] = set()
        self._busy: set[BrokerId] = set()
        self._alone: set[BrokerId] = set()

    def offer(self, action: Action | None) -> None:
        """Take an action in if it goes with the others."""
        if action is None or not self._fits(action):
            return
        self.actions.append(action)
        removed, added = removed_link(action), added_link(action)
        if removed is not None:
            self._removed.add(removed)
        if added is not None:
            self._added.add(added)
        if isinstance(action, Shift):
            self._kept.add(action.pivot_link)
        elif isinstance(action, Append | Detach):
            self._alone.add(action.broker)
        self._busy.update(action.brokers)

    def _fits(self, action: Action) -> bool:
        brokers = set(action.brokers)
        if self._alone & brokers or (self._disjoint and self._busy & brokers):
            return False
        if isinstance(action, Append | Detach) and action.broker in self._busy:
            return False
        if isinstance(action, Shift) and action.pivot_link in self._removed:
            return False
        return (
            removed_link(action) not in self._removed | self._kept
            and added_link(action) not in self._added
        )


def random_move(world: World, topology: Topology) -> Move | None:
    """Any move over a path of three or four links; None where the draw has none."""
    start = world.choice(list(topology.neighbors))
    ends = [broker for broker, hops in topology.hops_from(start).items() if hops in (3, 4)]
    if not ends:
        return None
    way = topology.path(start, world.choice(ends))
    at = world.integer(0, len(way) - 2)
    return Move(way[at], way[at + 1], way[0], way[-1])


def random_shift(world: World, topology: Topology) -> Shift | None:
    """Any shift the tree allows; None where the draw hits a leaf's neighbor without others."""
    mover = world.choice(list(topology.neighbors))
    old_peer = world.choice(list(topology.neighbors[mover]))
    others = [broker for broker in topology.neighbors[old_peer] if broker != mover]
    return Shift(mover, old_peer, world.choice(others)) if others else None


def one_by_one(plan: Plan) -> Plan:
    """The same actions, one per step: what a plan without parallel steps would be."""
    return Plan(tuple((action,) for action in plan.actions()))
