"""Random plans that are carried out while everything fails, executors and store lines as well.

A plan ends in its target or, aborted, in the tree of what was committed; then every broker has
exactly the links of that tree.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from pubweave.deploy.commands import abort
from pubweave.deploy.topology_state import apply_actions
from pubweave.model.ids import BrokerId
from pubweave.model.plans import Plan
from pubweave.sim.kernel.nodes import SimBroker
from pubweave.sim.kernel.random_plans import PlanDraw, one_by_one
from pubweave.sim.kernel.world import World
from pubweave.sim.parts.clients import SteadyClients
from pubweave.sim.parts.deployments import SimDeployments
from pubweave.sim.parts.run import REST_LIMIT_S, SimPart, SimRun

UNDER_FAULTS_S = 15.0
"""Faults strike a plan for so long at most; then it has to come to its end."""
END_LIMIT_S = 180.0


@dataclass(frozen=True)
class PlanSetting:
    """Plans of a run, and what happens to those who carry them out."""

    fault: str
    plans: int
    steps: int
    actions: int
    disjoint: bool
    executors: int
    store_s: tuple[float, float]
    session_limit_s: float
    executor_crash_per_s: float
    line_break_per_s: float
    abort_after_s: float | None
    """An operator loses patience."""
    pauses: bool
    steady_clients: int
    spare_brokers: int
    """How many brokers can join; with some, brokers leave, too."""

    @classmethod
    def draw(cls, world: World, fault: str) -> PlanSetting:
        has_control_faults = fault in ("control", "all", "crashes")
        return cls(
            fault=fault,
            plans=world.integer(1, 2),
            steps=world.integer(1, 5),
            actions=world.integer(1, 8),
            disjoint=world.chance(0.3),
            executors=world.integer(1, 2),
            store_s=(0.0005, world.uniform(0.001, 0.02)),
            session_limit_s=world.uniform(1.0, 3.0),
            executor_crash_per_s=world.uniform(0.05, 0.6) if has_control_faults else 0.0,
            line_break_per_s=world.uniform(0.2, 4.0) if has_control_faults else 0.0,
            abort_after_s=world.uniform(0.0, 4.0) if world.chance(0.1) else None,
            pauses=world.chance(0.15),
            steady_clients=world.integer(4, 14),
            spare_brokers=int(world.choice([0, 1, 3])),
        )

    @property
    def spare(self) -> list[BrokerId]:
        """Brokers that can join."""
        return [f"x{number}" for number in range(self.spare_brokers)]


class PlansUnderFaults(SimPart):
    """Draws plans and has them carried out; strikes at executors and lines to the store."""

    def __init__(
        self, run: SimRun, steady: SteadyClients, setting: PlanSetting, *, is_serial: bool = False
    ) -> None:
        """``is_serial``: the same plans, one action at a time."""
        self.run = run
        self.world = run.world
        self.steady = steady
        self.setting = setting
        self.deployments = SimDeployments(
            run.overlay, store_s=setting.store_s, session_limit_s=setting.session_limit_s
        )
        self.tally = self.deployments.tally
        self.watch = self.deployments.watch
        self.restarts_executors = True
        """Whoever sees an executor die starts another one."""
        self._is_serial = is_serial
        self._end_faults_at = 0.0
        run.homes = self._homes
        run.starts_at_rest = True

    def _homes(self) -> list[BrokerId]:
        leaving = self.deployments.leaving
        return [name for name in self.run.overlay.topology.neighbors if name not in leaving]

    @property
    def is_calm(self) -> bool:
        """Nothing fails, so nothing may be given up."""
        return self.setting.fault == "none" and not self.run.is_durable

    # --- a plan ----------------------------------------------------------------------------

    def draw(self) -> Plan:
        setting = self.setting
        draw = PlanDraw(
            self.world,
            disjoint=setting.disjoint,
            spare=setting.spare,
            stay=self.steady.homes(),
            changes_brokers=setting.spare_brokers > 0,
        )
        plan = draw.plan(self.watch.topology, steps=setting.steps, actions=setting.actions)
        return one_by_one(plan) if self._is_serial else plan

    def carry_out(self) -> None:
        """Hand a plan over and let the world go on until it has come to its end."""
        world, setting, deployments = self.world, self.setting, self.deployments
        plan, source = self.draw(), self.watch.topology
        deployments.submit(plan, 1 if setting.pauses else None)
        for _ in range(setting.executors):
            deployments.start_executor()
        self.strike_control(world.now + UNDER_FAULTS_S)
        if setting.abort_after_s is not None:
            world.after(setting.abort_after_s, self._lose_patience)
        limit = world.now + UNDER_FAULTS_S + END_LIMIT_S
        while not deployments.is_over and world.now < limit:
            if world.now < self._end_faults_at:
                self.run.be_active()
            else:
                self.run.faults.heal()
                world.run_until(world.now + 0.5)
            deployments.operate()
        is_calm = self.is_calm and self.run.faults.long_pause_s is None
        for problem in deployments.wrong_end(
            apply_actions(source, plan.actions()),
            is_calm=is_calm and setting.abort_after_s is None,
        ):
            self.run.violate(problem)

    def _lose_patience(self) -> None:
        if not self.deployments.is_over:
            self.tally["aborts_asked"] += 1
            script = abort(self.deployments.layout, "the operator lost patience")
            self.deployments.store.run(script)

    # --- faults ----------------------------------------------------------------------------

    def strike_control(self, until: float) -> None:
        """Executors crash and lines to the store break, at random moments."""
        world = self.world
        self._end_faults_at = until
        for rate, fault in (
            (self.setting.executor_crash_per_s, self._crash_executor),
            (self.setting.line_break_per_s, self._break_line),
        ):
            for _ in range(int(world.rng.poisson(rate * UNDER_FAULTS_S))):
                world.at(world.uniform(world.now, until), fault)

    def _crash_executor(self) -> None:
        living = [executor for executor in self.deployments.executors if executor.is_alive]
        if living and not self.deployments.is_over:
            self.tally["executor_crash"] += 1
            executor = self.world.choice(living)
            self.world.note("fault", f"executor_crash {executor.config.name}")
            executor.crash()
            self.world.after(self.world.uniform(0.05, 3.0), self._start_again)

    def _start_again(self) -> None:
        if self.restarts_executors and not self.deployments.is_over:
            self.deployments.start_executor()

    def _break_line(self) -> None:
        agents, executors = self.deployments.agents.values(), self.deployments.executors
        lines = [agent.line for agent in agents if agent.line is not None]
        lines += [executor.line for executor in executors if executor.is_alive]
        if lines and not self.deployments.is_over:
            self.tally["store_line_break"] += 1
            lasts_s = self.world.uniform(0.02, 0.5) if self.world.chance(0.6) else 4.0
            self.world.choice(lines).interrupt(lasts_s, arrives=self.world.chance(0.5))

    def crashed(self, broker: SimBroker) -> None:
        self.deployments.agents[broker.name].crashed()

    # --- rest and outcome ------------------------------------------------------------------

    def stop(self) -> bool:
        self.deployments.dismiss_executors()
        self.run.faults.heal()
        until = self.world.now + REST_LIMIT_S
        while waiting := self.deployments.unheard():
            if self.world.now >= until:
                self.run.violate(f"agents never get ready: {waiting[:5]}")
                return False
            self.world.run_until(self.world.now + 0.25)
        return True

    def at_rest(self) -> Iterable[str]:
        self.deployments.leaving = ()
        return self.deployments.wrong_links()

    def settings(self) -> dict[str, Any]:
        names = ("fault", "plans", "executors", "steady_clients")
        return {name: getattr(self.setting, name) for name in names}

    def violations(self) -> Iterable[str]:
        return self.watch.violations

    def counts(self) -> dict[str, int]:
        return self.deployments.counts()

    def measures(self) -> dict[str, float]:
        return self.deployments.measures()
