"""The scenario `autopilot`: the control loop for some hours while everything around it fails.

The real loop, gate, records and hand-over on the memory store; traffic at flow level. Profiles
fail, scripts are cut off in the middle, the store goes away, plans end half done, somebody else
changes the overlay, a person answers or does not, and the loop is killed and started again from
the records. `AutopilotChecker` knows what must never happen. Towards the end everything heals, and
the loop has to be at work.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import msgspec
import numpy as np

from pubweave.control.evidence import Evidence, Soundness
from pubweave.control.handover import carried_out, hand_over
from pubweave.control.records import approve, list_decisions, reject
from pubweave.control.requests import CarriedOut, Reply, Trouble
from pubweave.control.settings import ChangePrices, ControlSettings, OperatorLimits, QuietHours
from pubweave.deploy.commands import create_topology, submit
from pubweave.deploy.documents import DeploymentDocument, Layout, TopologyDocument, encode
from pubweave.deploy.store import Write
from pubweave.deploy.topology_state import apply_actions, spell_out_step
from pubweave.generate.topologies.trees import change_links
from pubweave.model.decisions import ControlMode, DecisionRecord, DecisionState
from pubweave.model.deployment import DeploymentState
from pubweave.model.files.plan import PlanRecord
from pubweave.model.ids import Link
from pubweave.model.topology import Topology
from pubweave.planning.problem.problem import PlanningProblem
from pubweave.sim.autopilot.checker import AutopilotChecker, Deployed
from pubweave.sim.autopilot.day import DayOverlay, VirtualPilot, plan_quickly, starting_tree
from pubweave.sim.autopilot.drifting_traffic import DaySetting, DriftingWorld
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
        fault: str | None = None,
        trace: Trace | None = None,
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
        late = ends_at + self.settings.period_s  # for a change that began just before the end
        while self.overlay.now < (late if self._is_carrying_out() else ends_at):
            self._strike(self.shares.kill, _kill)
            value = self.answer(request, ends_at if self.overlay.now < ends_at else late)
            self._note(request, value)
            self.checker.check_records(self._records(), self.overlay.now)
            request = running.send(Reply(value, self.overlay.now))
            self._answer_proposals()
        running.close()

    def _is_carrying_out(self) -> bool:
        states = {record.state for record in self._records()}
        return not states.isdisjoint((DecisionState.APPROVED, DecisionState.DEPLOYING))

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


# What one run of the scenario `autopilot` is like, drawn from its seed.


FAULTS = ("none", "network", "control", "all", "crashes")
"""Of the scenario: nothing, profiles and the store, deployments, everything, kills only."""


@dataclass(frozen=True)
class FaultShares:
    """How often things go wrong, per request or decision."""

    profile: float = 0.0
    store: float = 0.0
    """A script is cut off after some of its requests."""
    away_s: float = 0.0
    """The store is away for so long, now and then."""
    deployment: float = 0.0
    """A plan ends after some of its steps."""
    lost_sight: float = 0.0
    """Nobody hears how a deployment ended."""
    stranger: float = 0.0
    """Somebody else changes the overlay between two looks."""
    kill: float = 0.0
    """The loop is killed, and started again some time later."""

    @classmethod
    def draw(cls, fault: str, rng: np.random.Generator) -> FaultShares:
        def some(kinds: tuple[str, ...], most: float) -> float:
            return float(rng.uniform(0.0, most)) if fault in kinds else 0.0

        return cls(
            profile=some(("network", "all"), 0.4),
            store=some(("network", "all"), 0.1),
            away_s=some(("network", "all"), 1500.0),
            deployment=some(("control", "all"), 0.5),
            lost_sight=some(("control", "all"), 0.3),
            stranger=some(("control", "all"), 0.2),
            kill=some(("crashes", "all"), 0.03),
        )


@dataclass(frozen=True)
class PersonSetting:
    """Somebody who answers proposals, or does not."""

    approves: float
    rejects: float
    """The rest is left to expire."""


def draw_day(max_brokers: int, rng: np.random.Generator) -> DaySetting:
    """A small overlay for some hours."""
    return DaySetting(
        brokers=int(rng.integers(4, max(5, max_brokers) + 1)),
        regions=2,
        topics=int(rng.integers(4, 12)),
        sets_per_topic=2,
        hot_topics=2,
        hot_s=3600.0,
        entries_per_broker=float(rng.choice([0.0, 100.0, 3000.0])),
        rate_per_s=float(rng.uniform(2.0, 30.0)),
        slow_brokers_per_day=12.0,
        hours=float(rng.uniform(4.0, 9.0)),
    )


def draw_settings(start: Topology, rng: np.random.Generator) -> ControlSettings:
    """Some mode, some schedule, some limits that the starting tree keeps."""
    period_s = float(rng.choice([300.0, 600.0, 900.0]))
    return ControlSettings(
        mode=ControlMode(str(rng.choice(["auto", "auto", "auto", "approve", "observe"]))),
        period_s=period_s,
        free_period_s=float(rng.choice([0.0, 900.0, 2700.0])),
        least_saving=float(rng.choice([0.0, 0.02, 0.1])),
        few_links=(1, 3),
        review_s=float(rng.choice([1200.0, 3600.0])),
        review_poll_s=30.0,
        stand_down_s=float(rng.choice([300.0, 1200.0])),
        keep_records=int(rng.choice([15, 500])),
        limits=_draw_limits(start, rng),
        prices=ChangePrices(weight=float(rng.choice([0.0, 1.0, 5.0]))),
    )


def _draw_limits(start: Topology, rng: np.random.Generator) -> OperatorLimits:
    links = sorted(start.links)
    absent = sorted(
        {Link.between(a, b) for a, b in combinations(sorted(start.brokers), 2)} - start.links
    )
    widest = max(start.degree(broker) for broker in start.brokers)
    begins = int(rng.integers(0, 6))
    return OperatorLimits(
        max_degree=max(3, widest) if rng.random() < 0.4 else None,
        pinned=frozenset(_some(links, rng)),
        forbidden=frozenset(_some(absent, rng)),
        links_per_change=int(rng.integers(1, 5)) if rng.random() < 0.3 else None,
        links_per_day=int(rng.integers(0, 12)) if rng.random() < 0.3 else None,
        quiet_hours=(
            (QuietHours.parse(f"{begins:02d}:00-{begins + 2:02d}:30"),)
            if rng.random() < 0.4
            else ()
        ),
    )


def _some(links: list[Link], rng: np.random.Generator) -> list[Link]:
    if not links or rng.random() < 0.5:
        return []
    return [links[int(rng.integers(len(links)))]]


def described(settings: ControlSettings, fault: str, day: DaySetting) -> dict[str, Any]:
    """The setting for whoever reads of a failed run."""
    limits = settings.limits
    return {
        "fault": fault,
        "brokers": day.brokers,
        "hours": round(day.hours, 2),
        "mode": settings.mode.value,
        "period_s": settings.period_s,
        "free_period_s": settings.free_period_s,
        "max_degree": limits.max_degree,
        "pinned": [str(link) for link in sorted(limits.pinned)],
        "forbidden": [str(link) for link in sorted(limits.forbidden)],
        "links_per_change": limits.links_per_change,
        "links_per_day": limits.links_per_day,
        "quiet_hours": [str(span) for span in limits.quiet_hours],
    }
