"""The scenario `autopilot`: the control loop for some hours while everything around it fails.

The real loop, gate, records and hand-over on the memory store; traffic at flow level. Profiles
fail, scripts are cut off in the middle, the store goes away, plans end half done, somebody else
changes the overlay, a person answers or does not, and the loop is killed and started again from
the records. `AutopilotChecker` knows what must never happen. Towards the end everything heals, and
the loop has to be at work.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np

from pubweave.control.evidence import Evidence, Soundness
from pubweave.control.handover import carried_out, hand_over
from pubweave.control.records import approve, list_decisions, reject
from pubweave.control.requests import CarriedOut, Reply, Trouble
from pubweave.deploy.commands import create_topology, submit
from pubweave.deploy.documents import DeploymentDocument, TopologyDocument, encode
from pubweave.deploy.layout import Layout
from pubweave.deploy.store import Write
from pubweave.deploy.topology_state import apply_actions, spell_out_step
from pubweave.generate.topologies.mutation import change_links
from pubweave.model.decisions import DecisionRecord, DecisionState
from pubweave.model.deployment import DeploymentState
from pubweave.model.files.plan import PlanRecord
from pubweave.model.topology import Topology
from pubweave.planning.problem.problem import PlanningProblem
from pubweave.sim.autopilot.day import DayOverlay, VirtualPilot, plan_quickly, starting_tree
from pubweave.sim.autopilot.drifting_traffic import DriftingWorld
from pubweave.sim.autopilot.setting import (
    FAULTS,
    FaultShares,
    PersonSetting,
    described,
    draw_day,
    draw_settings,
)
from pubweave.sim.checkers.autopilot import AutopilotChecker, Deployed
from pubweave.sim.kernel.results import RunResult
from pubweave.sim.kernel.trace import Trace

STEP_S = 5.0
HEALED_LOOKS = 6
"""So many looks are left to come to rest after the last fault."""


class _Killed(Exception):
    """The loop's process is gone."""


class AutopilotScenario(VirtualPilot):
    """One run: ``AutopilotScenario(seed).run()``."""

    name = "autopilot"

    def __init__(
        self,
        seed: int,
        *,
        max_brokers: int = 10,
        rtt: object = None,
        fault: str | None = None,
        trace: Trace | None = None,
        on_telemetry: object = None,
    ) -> None:
        self.seed = seed
        rng = np.random.default_rng(seed)
        self.fault = fault or str(rng.choice(FAULTS))
        self.day = draw_day(max_brokers, rng)
        world = DriftingWorld(self.day, seed)
        start = starting_tree(world)
        settings = draw_settings(start, rng)
        self.shares = FaultShares.draw(self.fault, rng)
        self.person = PersonSetting(*(float(share) for share in rng.dirichlet((2, 1, 1))[:2]))
        self.checker = AutopilotChecker(settings)
        self.layout = Layout("day")
        self.kills = 0
        self.ends_at = self.day.hours * 3600.0
        self._trace = trace
        self._away_until = 0.0
        super().__init__(DayOverlay(world, start, settings), settings, rng)
        self.run_script(create_topology(self.layout, start))

    # --- life --------------------------------------------------------------------------------

    def run(self) -> RunResult:
        while self.overlay.now < self.ends_at:
            self.loop = self._start()
            try:
                self.run_until(self.ends_at)
            except _Killed:
                self.kills += 1
                self.overlay.advance(self.overlay.now + float(self.rng.uniform(0.0, 1800.0)))
        self.checker.check_end(self._records(), self.overlay.now)
        return self._result()

    def run_until(self, ends_at: float) -> None:
        running = self.loop.run(self.overlay.now)
        request = next(running)
        while self.overlay.now < ends_at:
            self._strike(self.shares.kill, _kill)
            value = self.answer(request, ends_at)
            self._note(request, value)
            self.checker.check_records(self._records(), self.overlay.now)
            request = running.send(Reply(value, self.overlay.now))
            self._answer_proposals()
        running.close()

    def _is_healed(self) -> bool:
        return self.overlay.now > self.ends_at - HEALED_LOOKS * self.settings.period_s

    def _strike(self, share: float, how: Callable[[], object]) -> object:
        """A fault, if it is time for one; what it leads to."""
        if self._is_healed() or self.rng.random() >= share:
            return None
        return how()

    # --- profiles and the store --------------------------------------------------------------

    def take_profile(self, since: float) -> object:
        self._meddle()
        trouble = self._strike(self.shares.profile, lambda: self.rng.random() < 0.5)
        if trouble is True:
            return Trouble("the Spark job was killed by signal 9")
        seen: Any = super().take_profile(since)
        if trouble is False and not isinstance(seen, Trouble):
            bad = Soundness(records=100, lost=1, silent_brokers=("b1",))
            return replace(seen, soundness=bad)
        return seen

    def ask_store(self, script: Generator[Any, Any, Any]) -> object:
        if self.rng.random() < 0.02:
            away_s = self.shares.away_s
            self._away_until = self.overlay.now + float(self.rng.uniform(0.0, away_s))
        if self.overlay.now < self._away_until and not self._is_healed():
            script.close()
            self.overlay.advance(self.overlay.now + 10.0)
            return Trouble("the store does not answer")
        cut = self._strike(self.shares.store, lambda: int(self.rng.integers(1, 4)))
        if isinstance(cut, int):
            return self._cut_off(script, cut)
        return super().ask_store(script)

    def _cut_off(self, script: Generator[Any, Any, Any], count: int) -> object:
        """Some requests are carried out, and then the connection goes."""
        try:
            request = next(script)
            for _ in range(count):
                request = script.send(self.memory.handle(self._session, request))
        except StopIteration:
            pass
        except ValueError as error:
            return Trouble(str(error))
        script.close()
        return Trouble("the store does not answer any more")

    # --- deployments -------------------------------------------------------------------------

    def carry_out(self, record: DecisionRecord) -> object:
        """Through the store as in earnest; the executor is pretended."""
        begun = super().ask_store(hand_over(self.layout, record))
        if isinstance(begun, CarriedOut | Trouble):
            return begun
        assert isinstance(begun, DeploymentDocument)
        self._execute(begun, record)
        self._strike(self.shares.kill * 5, _kill)
        if self._strike(self.shares.lost_sight, lambda: True):
            return Trouble("the store does not answer any more")
        ended: Any = super().ask_store(hand_over(self.layout, record))
        return ended

    def _execute(self, begun: DeploymentDocument, record: DecisionRecord) -> None:
        plan = record.plan_record().plan
        steps = plan.steps
        broken = self._strike(self.shares.deployment, lambda: int(self.rng.integers(len(steps))))
        done = steps if not isinstance(broken, int) else steps[:broken]
        before, began_at = self.overlay.topology, self.overlay.now
        self.overlay.advance(began_at + STEP_S * (1 + len(done)))
        self.overlay.change(replace(plan, steps=done))
        is_whole = len(done) == len(steps)
        self._settle(
            begun,
            DeploymentState.DONE if is_whole else DeploymentState.ABORTED,
            "" if is_whole else f"step {len(done) + 1}: too slow",
        )
        self.checker.handed_over(
            Deployed(record, began_at, self.overlay.now, before, self.overlay.topology, is_whole)
        )

    def _settle(self, begun: DeploymentDocument, state: DeploymentState, reason: str) -> None:
        ended = msgspec.structs.replace(begun, state=state, reason=reason)
        document = TopologyDocument.of(self.overlay.topology, begun.deployment)
        for path, data in (
            (self.layout.topology, encode(document)),
            (self.layout.plan, encode(ended)),
        ):
            self.memory.handle(self._session, Write(path, data))
        assert carried_out(ended).state is state

    def _meddle(self) -> None:
        """Somebody else changes the overlay."""
        if not self._strike(self.shares.stranger, lambda: True):
            return
        source = self.overlay.topology
        target = change_links(source, 0.2, self.rng)
        plan = plan_quickly(PlanningProblem(source, target)).plan
        if plan is None or not plan.steps or self._breaks_limits(target):
            return
        begun = self.run_script(submit(self.layout, PlanRecord(plan), purpose="a person's"))
        for step in plan.steps:
            source = apply_actions(source, spell_out_step(source, step))
        self.overlay.topology = source
        self._settle(begun, DeploymentState.DONE, "")

    def _breaks_limits(self, target: Topology) -> bool:
        """Strangers keep the limits, or the checker would blame the loop for them."""
        limits = self.settings.limits
        cap = limits.max_degree
        return (
            not limits.pinned <= target.links
            or bool(limits.forbidden & target.links)
            or (cap is not None and any(target.degree(b) > cap for b in target.brokers))
        )

    # --- the person --------------------------------------------------------------------------

    def _answer_proposals(self) -> None:
        for record in self._records():
            if record.state is not DecisionState.WAITING or self.rng.random() > 0.2:
                continue
            dice, now = self.rng.random(), self.overlay.now
            if record.expires_at is not None and now >= record.expires_at:
                continue
            if dice < self.person.approves:
                self.run_script(approve(self.layout, record.id, "ann", now))
            elif dice < self.person.approves + self.person.rejects:
                self.run_script(reject(self.layout, record.id, "bob", now))

    # --- telling -----------------------------------------------------------------------------

    def _records(self) -> tuple[DecisionRecord, ...]:
        records: tuple[DecisionRecord, ...] = self.run_script(list_decisions(self.layout))
        return records

    def _note(self, request: object, value: object) -> None:
        if self._trace is not None:
            # Evidence begins with a set, whose order is another one in every process.
            shown = value.profile_id if isinstance(value, Evidence) else str(value)[:200]
            self._trace.write(self.overlay.now, "loop", f"{type(request).__name__} -> {shown}")

    def _result(self) -> RunResult:
        records = self._records()
        states = [record.state for record in records]
        return RunResult(
            scenario=self.name,
            seed=self.seed,
            violations=tuple(self.checker.violations),
            setting=described(self.settings, self.fault, self.day),
            counts={
                "decisions": len(records),
                "changes": len(self.checker.deployed),
                "failed": states.count(DecisionState.FAILED),
                "expired": states.count(DecisionState.EXPIRED),
                "rejected": states.count(DecisionState.REJECTED),
                "kills": self.kills,
            },
            virtual_s=self.overlay.now,
            trace_digest=None if self._trace is None else self._trace.digest(),
        )


def _kill() -> None:
    raise _Killed
