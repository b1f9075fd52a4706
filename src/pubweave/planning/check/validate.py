"""The judge: whether a plan leads from its problem's source to its target by the rules.

It knows values and rules and nothing of how plans are made: no planner code is imported here, so
that a mistake in a planner cannot hide itself. Every plan passes through it before it leaves the
planner, and plans of any origin may be brought to it.

The rules of a step are those of `planning.problem`. A move brings a goal link at once (IPITT
section V) and is else judged as the shift it generalises: the link it adds closes a cycle with the
link it removes, and every other link of that cycle is its pivot (a shift's cycle has three links,
so its pivot is one). Why that is enough for a tree: all pivots stay, so an added link joins the
same two parts that its removed link held together. The tree is checked after every step all the
same.
"""

from __future__ import annotations

import enum
from itertools import pairwise
from typing import NoReturn

from pubweave.model.ids import BrokerId, Link
from pubweave.model.plans import Action, Append, Detach, Move, Plan, Shift, Step
from pubweave.model.topology import Topology, validate_tree
from pubweave.planning.problem.problem import PlanningProblem

# From here on the array judge is the quicker one.
_MANY_BROKERS = 20


class PlanRule(enum.Enum):
    """The rules a plan can break, in the words of the message."""

    DISTINCT_BROKERS = "its brokers must be different from each other"
    KNOWN_BROKERS = "it names a broker that the overlay does not have at that time"
    REMOVED_LINK_PRESENT = "the link it removes is not there before the step"
    PIVOT_PRESENT = "the link it slides along is not there before the step"
    FROZEN = "the link it removes belongs to the target and must stay"
    PINNED = "the link it removes is pinned"
    FORBIDDEN = "the link it adds is forbidden"
    ADDED_LINK_ABSENT = "the link it adds is already there"
    REMOVED_ONCE = "another action of the step removes the same link"
    PIVOT_STAYS = "another action of the step removes the link it slides along"
    ADDED_ONCE = "another action of the step adds the same link"
    DISJOINT_BROKERS = "it shares a broker with another action of the step"
    MOVE_ALLOWED = "moves are not allowed"
    MOVE_ADDS_GOAL_LINK = "a move must bring a link of the target"
    MOVE_CLOSES_CYCLE = (
        "the link it removes is not on the path between the ends of the link it adds"
    )
    APPENDED_IS_NEW = "the broker it appends is already there"
    APPENDED_IS_WANTED = "the broker it appends is not in the target"
    DETACHED_IS_LEAF = "the broker it detaches is not a leaf at that neighbor"
    DETACHED_IS_UNWANTED = "the broker it detaches belongs to the target"
    DETACHED_IS_LEFT_ALONE = "another action of the step uses the broker it detaches"
    STEP_NOT_EMPTY = "the step has no action"
    MAX_DEGREE = "a broker has more links than allowed"
    TREE = "the overlay is not a tree"
    TARGET_REACHED = "the plan does not end in the target"


class InvalidPlanError(ValueError):
    """A plan that breaks a rule: at which step (from 1), by which action, which rule."""

    def __init__(
        self,
        rule: PlanRule,
        *,
        step: int | None = None,
        action: Action | None = None,
        detail: str = "",
    ) -> None:
        self.rule = rule
        self.step = step
        self.action = action
        where = "the plan" if step is None else f"step {step}"
        what = "" if action is None else f", {action}"
        super().__init__(f"{where}{what}: {rule.value}" + (f" ({detail})" if detail else ""))


def validate_plan(problem: PlanningProblem, plan: Plan) -> None:
    """Raise InvalidPlanError unless the plan is valid for the problem.

    Raises TopologyError where the source or the target is no tree."""
    validate_tree(problem.source)
    validate_tree(problem.target)
    if len(problem.source.brokers) >= _MANY_BROKERS:
        from pubweave.planning.check.fast_validate import accepts

        if accepts(problem, plan):
            return
    state = _State(problem.source)
    for number, step in enumerate(plan.steps, 1):
        _Judgement(problem, state, number).judge(step)
    _judge_end(problem.target, state)


class _State:
    """The overlay between two steps: each broker's neighbors."""

    def __init__(self, source: Topology) -> None:
        self.neighbors: dict[BrokerId, set[BrokerId]] = {
            broker: set(ends) for broker, ends in source.neighbors.items()
        }
        self.link_count = len(source.links)

    def has(self, link: Link) -> bool:
        ends = self.neighbors.get(link.a)
        return ends is not None and link.b in ends

    def add(self, link: Link) -> None:
        self.neighbors.setdefault(link.a, set()).add(link.b)
        self.neighbors.setdefault(link.b, set()).add(link.a)
        self.link_count += 1

    def remove(self, link: Link) -> None:
        self.neighbors[link.a].remove(link.b)
        self.neighbors[link.b].remove(link.a)
        self.link_count -= 1

    def path(self, start: BrokerId, end: BrokerId) -> list[BrokerId]:
        """The brokers from start to end in the tree."""
        came_from = {start: start}
        waiting = [start]
        for broker in waiting:
            if broker == end:
                break
            for neighbor in self.neighbors[broker]:
                if neighbor not in came_from:
                    came_from[neighbor] = broker
                    waiting.append(neighbor)
        way = [end]
        while way[-1] != start:
            way.append(came_from[way[-1]])
        return way

    def is_tree(self) -> bool:
        if self.link_count != len(self.neighbors) - 1:
            return False
        # Level by level with whole sets: plans for 10,000 brokers are judged in passing.
        seen = {next(iter(self.neighbors))}
        level = seen
        while level:
            level = set().union(*map(self.neighbors.__getitem__, level)) - seen
            seen |= level
        return len(seen) == len(self.neighbors)


class _Judgement:
    """One step before the judge: every action against the state before the step."""

    def __init__(self, problem: PlanningProblem, state: _State, number: int) -> None:
        self._problem = problem
        self._state = state
        self._number = number
        self._removed: dict[Link, Action] = {}
        self._added: dict[Link, Action] = {}
        self._pivots: dict[Link, Action] = {}
        self._busy: dict[BrokerId, Action] = {}

    def judge(self, step: Step) -> None:
        """Raise unless the step is allowed; else carry it out on the state."""
        if not step:
            raise InvalidPlanError(PlanRule.STEP_NOT_EMPTY, step=self._number)
        for action in step:
            self._judge_action(action)
        for link, action in self._pivots.items():
            if link in self._removed:
                self._refuse(PlanRule.PIVOT_STAYS, action, f"{link}, by {self._removed[link]}")
        self._judge_detached(step)
        self._carry_out(step)
        self._judge_outcome()

    def _judge_action(self, action: Action) -> None:
        if len(set(action.brokers)) != len(action.brokers) and not isinstance(action, Move):
            self._refuse(PlanRule.DISTINCT_BROKERS, action)
        match action:
            case Shift():
                self._judge_shift(action)
            case Move():
                self._judge_move(action)
            case Append():
                self._judge_append(action)
            case Detach():
                self._judge_detach(action)

    def _judge_shift(self, action: Shift) -> None:
        self._know(action, action.brokers)
        self._judge_removal(action, action.removed_link)
        pivot = action.pivot_link
        if not self._state.has(pivot):
            self._refuse(PlanRule.PIVOT_PRESENT, action, str(pivot))
        self._pivots[pivot] = action
        self._judge_addition(action, action.added_link)
        self._occupy(action, action.brokers)

    def _judge_move(self, action: Move) -> None:
        if not self._problem.allow_move:
            self._refuse(PlanRule.MOVE_ALLOWED, action)
        if action.old_a == action.old_b or action.new_a == action.new_b:
            self._refuse(PlanRule.DISTINCT_BROKERS, action)
        self._know(action, action.brokers)
        if action.added_link not in self._problem.target.links:
            self._refuse(PlanRule.MOVE_ADDS_GOAL_LINK, action, str(action.added_link))
        removed = action.removed_link
        self._judge_removal(action, removed)
        self._judge_addition(action, action.added_link)
        way = self._state.path(action.new_a, action.new_b)
        cycle = [Link.between(a, b) for a, b in pairwise(way)]
        if removed not in cycle:
            self._refuse(PlanRule.MOVE_CLOSES_CYCLE, action)
        self._pivots.update({link: action for link in cycle if link != removed})
        self._occupy(action, tuple(way))

    def _judge_append(self, action: Append) -> None:
        if action.broker in self._state.neighbors:
            self._refuse(PlanRule.APPENDED_IS_NEW, action)
        if action.broker not in self._problem.target.brokers:
            self._refuse(PlanRule.APPENDED_IS_WANTED, action)
        self._know(action, (action.neighbor,))
        self._judge_addition(action, Link.between(*action.brokers))
        self._occupy(action, action.brokers)

    def _judge_detach(self, action: Detach) -> None:
        self._know(action, action.brokers)
        if action.broker in self._problem.target.brokers:
            self._refuse(PlanRule.DETACHED_IS_UNWANTED, action)
        if self._state.neighbors[action.broker] != {action.neighbor}:
            self._refuse(PlanRule.DETACHED_IS_LEAF, action)
        self._judge_removal(action, Link.between(*action.brokers))
        self._occupy(action, action.brokers)

    def _judge_removal(self, action: Action, link: Link) -> None:
        if not self._state.has(link):
            self._refuse(PlanRule.REMOVED_LINK_PRESENT, action, str(link))
        if link in self._problem.target.links:
            self._refuse(PlanRule.FROZEN, action, str(link))
        if link in self._problem.pinned:
            self._refuse(PlanRule.PINNED, action, str(link))
        if link in self._removed:
            self._refuse(PlanRule.REMOVED_ONCE, action, f"{link}, by {self._removed[link]}")
        self._removed[link] = action

    def _judge_addition(self, action: Action, link: Link) -> None:
        if link in self._problem.forbidden:
            self._refuse(PlanRule.FORBIDDEN, action, str(link))
        if self._state.has(link):
            self._refuse(PlanRule.ADDED_LINK_ABSENT, action, str(link))
        if link in self._added:
            self._refuse(PlanRule.ADDED_ONCE, action, f"{link}, by {self._added[link]}")
        self._added[link] = action

    def _judge_detached(self, step: Step) -> None:
        detached = {action.broker: action for action in step if isinstance(action, Detach)}
        if not detached:
            return
        for other in step:
            for broker in other.brokers:
                detach = detached.get(broker)
                if detach is not None and detach != other:
                    self._refuse(PlanRule.DETACHED_IS_LEFT_ALONE, detach, f"by {other}")

    def _know(self, action: Action, brokers: tuple[BrokerId, ...]) -> None:
        for broker in brokers:
            if broker not in self._state.neighbors:
                self._refuse(PlanRule.KNOWN_BROKERS, action, broker)

    def _occupy(self, action: Action, brokers: tuple[BrokerId, ...]) -> None:
        if not self._problem.disjoint_brokers:
            return
        for broker in brokers:
            if broker in self._busy:
                self._refuse(PlanRule.DISJOINT_BROKERS, action, f"{broker}, {self._busy[broker]}")
        self._busy.update(dict.fromkeys(brokers, action))

    def _carry_out(self, step: Step) -> None:
        for link in self._removed:
            self._state.remove(link)
        for link in self._added:
            self._state.add(link)
        for action in step:
            if isinstance(action, Detach):
                del self._state.neighbors[action.broker]

    def _judge_outcome(self) -> None:
        limit = self._problem.max_degree
        if limit is not None:
            # Every broker, not only those touched: the source may start above the limit.
            for broker, ends in self._state.neighbors.items():
                if len(ends) > limit:
                    detail = f"{broker} has {len(ends)} links after the step, the limit is {limit}"
                    raise InvalidPlanError(PlanRule.MAX_DEGREE, step=self._number, detail=detail)
        if not self._state.is_tree():
            raise InvalidPlanError(PlanRule.TREE, step=self._number, detail="after the step")

    def _refuse(self, rule: PlanRule, action: Action, detail: str = "") -> NoReturn:
        raise InvalidPlanError(rule, step=self._number, action=action, detail=detail)


def _judge_end(target: Topology, state: _State) -> None:
    reached = {
        Link.between(broker, end) for broker, ends in state.neighbors.items() for end in ends
    }
    missing = sorted(target.links - reached)
    surplus = sorted(reached - target.links)
    strangers = sorted(state.neighbors.keys() ^ target.brokers)
    if missing or surplus or strangers:
        named = [
            f"{word} {', '.join(str(thing) for thing in things[:3])}"
            + (f" and {len(things) - 3} more" if len(things) > 3 else "")
            for word, things in (
                ("missing links", missing),
                ("links too many", surplus),
                ("brokers that differ", strangers),
            )
            if things
        ]
        raise InvalidPlanError(PlanRule.TARGET_REACHED, detail="; ".join(named))
