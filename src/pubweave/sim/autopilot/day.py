"""A day under one policy: who changes the tree when, and what traffic and changes cost together.

Three policies on the same world (`drifting_traffic`): keep the tree, always follow the
best tree at once, or the autopilot. The autopilot is the real loop (`control.autopilot`) on the
real store scripts in a memory store; only profiles, deployments and the clock are virtual. Costs
are of the truth, never of what a profile says, and a change costs everybody the same
(`control.alternatives`).
"""

from __future__ import annotations

import enum
from collections.abc import Generator
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np

from pubweave.control.alternatives import GLOBAL, Allowed, Option, change_cost, weigh
from pubweave.control.autopilot import Autopilot
from pubweave.control.requests import (
    AskStore,
    CarriedOut,
    CarryOut,
    Reply,
    Request,
    Rest,
    TakeProfile,
    Tell,
    Trouble,
    Weigh,
)
from pubweave.control.settings import ControlSettings
from pubweave.deploy.commands import DeploymentError
from pubweave.deploy.documents import DocumentError
from pubweave.deploy.memory_store import MemoryStore
from pubweave.deploy.topology_state import apply_actions, spell_out_step
from pubweave.design.tree.problem import DesignProblem
from pubweave.design.tree.spanning import minimum_spanning_tree
from pubweave.design.tree.traffic import DesignError
from pubweave.model.decisions import DecisionRecord
from pubweave.model.deployment import DeploymentState
from pubweave.model.files.plan import topology_hash
from pubweave.model.ids import Link
from pubweave.model.plans import Plan
from pubweave.model.topology import Topology
from pubweave.planning.problem.problem import PlanningProblem, PlanResult
from pubweave.planning.solver import solve_problem
from pubweave.sim.autopilot.drifting_traffic import SLOT_S, DaySetting, DriftingWorld
from pubweave.sim.kernel.store_links import run_script

STEP_S = 2.0
"""How long a step of a plan takes."""


class Policy(enum.Enum):
    """Who is in charge."""

    STATIC = "static"
    """Nobody: the tree of least latencies, made before there was any traffic."""
    ONCE = "once"
    """The best tree of the first profile, and that is that."""
    FOLLOW = "follow"
    """The best tree of each profile, at once and whatever it costs."""
    AUTOPILOT = "autopilot"


@dataclass(frozen=True)
class Change:
    """The tree changed."""

    at: float
    added: frozenset[Link]
    removed: frozenset[Link]
    cost_ms: float


@dataclass
class DayCost:
    """What a day has cost so far, in milliseconds of notifications' cost."""

    traffic_ms: float = 0.0
    change_ms: float = 0.0
    changes: list[Change] = field(default_factory=list)

    @property
    def total_ms(self) -> float:
        return self.traffic_ms + self.change_ms

    @property
    def links_changed(self) -> int:
        return sum(len(change.added) for change in self.changes)

    def undone_within(self, period_s: float) -> int:
        """Flapping: links that came or went and were changed back within the period."""
        count = 0
        for number, change in enumerate(self.changes):
            for later in self.changes[number + 1 :]:
                if later.at - change.at < period_s:
                    count += len(change.added & later.removed) + len(change.removed & later.added)
        return count


class DayOverlay:
    """The tree that is in place, and the account of it."""

    def __init__(self, world: DriftingWorld, topology: Topology, settings: ControlSettings) -> None:
        self.world = world
        self.topology = topology
        self.now = 0.0
        self.account = DayCost()
        self._settings = settings

    def advance(self, until: float) -> None:
        """Let traffic flow until an instant."""
        while self.now < until:
            at = min(until, (self.now // SLOT_S + 1) * SLOT_S)
            truth = self.world.truth(self.topology, self.now)
            per_s = truth.cost_of(self.topology).total / SLOT_S
            self.account.traffic_ms += per_s * (at - self.now)
            self.now = at

    def change(self, plan: Plan) -> None:
        """Be walked through a plan, at the price that it has at this instant."""
        target = self.topology
        for step in plan.steps:
            target = apply_actions(target, spell_out_step(target, step))
        truth = self.world.truth(self.topology, self.now)
        cost_ms = change_cost(plan, truth, self._settings.prices).total_ms
        self.account.change_ms += cost_ms
        self.account.changes.append(
            Change(
                self.now,
                target.links - self.topology.links,
                self.topology.links - target.links,
                cost_ms,
            )
        )
        self.topology = target


def plan_quickly(problem: PlanningProblem) -> PlanResult:
    """The first plan found, made quiet; by counted tries, so that a seed gives one day."""
    return solve_problem(problem, method="fast", stop=lambda: True, clock=lambda: 0.0)


def starting_tree(world: DriftingWorld) -> Topology:
    """The tree of least latencies: what one builds who knows the network and not the traffic."""
    chain = Topology.from_links(pairwise(world.brokers))
    truth = world.truth(chain, 0.0)
    problem = DesignProblem(chain, truth.traffic, truth.prices)
    return replace(chain, links=minimum_spanning_tree(problem).links)


def run_day(
    policy: Policy, setting: DaySetting, settings: ControlSettings, seed: int
) -> tuple[DayCost, tuple[DecisionRecord, ...]]:
    """One day from the same tree; the account, and the autopilot's records."""
    world = DriftingWorld(setting, seed)
    overlay = DayOverlay(world, starting_tree(world), settings)
    # Not the world's own generator: every policy sees the same day, whatever it measures.
    rng = np.random.default_rng([seed, 2])
    ends_at = setting.hours * 3600.0
    if policy is Policy.AUTOPILOT:
        pilot = VirtualPilot(overlay, settings, rng)
        pilot.run_until(ends_at)
        return overlay.account, pilot.loop.history.records
    if policy is not Policy.STATIC:
        _follow(overlay, settings, rng, ends_at, is_once=policy is Policy.ONCE)
    overlay.advance(ends_at)
    return overlay.account, ()


def _follow(
    overlay: DayOverlay,
    settings: ControlSettings,
    rng: np.random.Generator,
    ends_at: float,
    *,
    is_once: bool,
) -> None:
    bare = replace(settings, few_links=())
    while overlay.now + settings.period_s < ends_at:
        since = overlay.now
        overlay.advance(overlay.now + settings.period_s)
        seen = overlay.world.measured(overlay.topology, since, overlay.now, rng)
        options = _weighed(seen, bare, Allowed(), rng)
        best = next((each for each in options if each.alternative.name == GLOBAL), None)
        if best is not None and best.plan is not None and best.alternative.benefit_ms > 0:
            overlay.change(best.plan.plan)
            if is_once:
                return


def _weighed(
    seen: Any, settings: ControlSettings, allowed: Allowed, rng: np.random.Generator
) -> tuple[Option, ...]:
    return weigh(seen, settings, plan_quickly, allowed=allowed, stop=lambda: False, rng=rng)


class VirtualPilot:
    """Drives the loop in virtual time; what fails, and when, is for those who override it."""

    def __init__(
        self, overlay: DayOverlay, settings: ControlSettings, rng: np.random.Generator
    ) -> None:
        self.overlay = overlay
        self.settings = settings
        self.rng = rng
        self.memory = MemoryStore()
        self.lines: list[str] = []
        self._session = self.memory.open()
        self.loop = self._start()

    def _start(self) -> Autopilot:
        return Autopilot("day", "virtual", self.settings)

    def run_until(self, ends_at: float) -> None:
        """Answer the loop's requests until the day is over."""
        running = self.loop.run(self.overlay.now)
        request = next(running)
        while self.overlay.now < ends_at:
            value = self.answer(request, ends_at)
            request = running.send(Reply(value, self.overlay.now))
        running.close()

    def answer(self, request: Request, ends_at: float) -> object:
        match request:
            case Rest(until):
                self.overlay.advance(min(until, ends_at))
                return None
            case TakeProfile(since=since):
                return self.take_profile(since)
            case Weigh(evidence, allowed):
                try:
                    return _weighed(evidence, self.settings, allowed, self.rng)
                except DesignError as error:
                    return Trouble(str(error))
            case AskStore(script):
                return self.ask_store(script)
            case CarryOut(record):
                return self.carry_out(record)
            case Tell(_, line):
                if line:
                    self.lines.append(f"{self.overlay.now:.0f} {line}")
                return None

    def take_profile(self, since: float) -> object:
        if self.overlay.now <= since:
            return Trouble("no telemetry yet")
        return self.overlay.world.measured(self.overlay.topology, since, self.overlay.now, self.rng)

    def ask_store(self, script: Generator[Any, Any, Any]) -> object:
        try:
            return self.run_script(script)
        except (DeploymentError, DocumentError) as error:
            return Trouble(str(error))

    def run_script(self, script: Generator[Any, Any, Any]) -> Any:
        """A script that nothing happens to."""
        return run_script(script, partial(self.memory.handle, self._session))

    def carry_out(self, record: DecisionRecord) -> object:
        """The whole plan, in the time that its steps take."""
        planned = record.plan_record()
        if planned.source_hash != topology_hash(self.overlay.topology):
            return CarriedOut(None, reason="the overlay has changed since the plan was made")
        self.overlay.advance(self.overlay.now + STEP_S * planned.plan.step_count)
        self.overlay.change(planned.plan)
        return CarriedOut(DeploymentState.DONE, deployment=f"1-{record.plan_hash}")
