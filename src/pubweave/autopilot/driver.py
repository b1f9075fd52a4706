"""The autopilot on a real overlay: answers the loop's requests with Spark, ZooKeeper and a clock.

The loop (`control.autopilot`) decides; here is only what it takes to find out and to carry out.
Nothing is kept that the store does not have: this process may be killed at any instant. Ctrl-C ends
it in order: a deployment that is under way pauses after its step and is gone on with at the next
start.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from pubweave.autopilot.profiler import Profiler, ProfilerError
from pubweave.autopilot.telemetry_window import link_window
from pubweave.control.alternatives import weigh
from pubweave.control.autopilot import Autopilot
from pubweave.control.evidence import Evidence, evidence_of
from pubweave.control.handover import carried_out, hand_over
from pubweave.control.records import encode_status, list_decisions, read_decision
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
from pubweave.deploy.commands import read_topology
from pubweave.deploy.documents import Layout
from pubweave.deploy.executor import ExecutorConfig
from pubweave.deploy.store import Create, Outcome, Read, Write
from pubweave.design.tree.traffic import Floats
from pubweave.model.decisions import AutopilotStatus, DecisionRecord, DecisionState
from pubweave.model.files.plan import PlanRecord, topology_hash
from pubweave.model.files.profile import WorkloadProfile
from pubweave.model.topology import Topology
from pubweave.planning.problem.problem import PlanningProblem, PlanResult
from pubweave.planning.solver import solve_problem
from pubweave.runtime.coordination.deployment_run import STEP_TIMEOUT_S, ExecutorWatch
from pubweave.runtime.coordination.executor_host import ExecutorHost, executor_name
from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.net.signals import StopRequest
from pubweave.runtime.store.session import opened_store, run_command
from pubweave.runtime.store.zookeeper_store import ZooKeeperStore
from pubweave.runtime.store.zookeeper_target import Coordination

WINDOW = "window"
CONNECT_S = 60.0
"""How long a start waits for ZooKeeper: it may be starting, too."""
ANNOUNCE_S = 5.0
OTHER_GONE_S = 12.0
"""A killed autopilot's node goes when its session has run out."""


@dataclass(frozen=True, eq=False)
class AssumedPrices:
    """Where prices come from that no profile has measured."""

    matrix_ms: Floats | None = None
    mesh: Topology | None = None
    assumed_ms: float | None = None


@dataclass(frozen=True, eq=False)
class PilotSetup:
    """Which overlay the autopilot is for, what it may do, and with what means."""

    where: Coordination
    telemetry: Path
    """Where the overlay's brokers write it."""
    work: Path
    """A directory of its own: windows, profiles, Spark's log."""
    settings: ControlSettings = field(default_factory=ControlSettings)
    prices: AssumedPrices = field(default_factory=AssumedPrices)
    step_timeout_s: float = STEP_TIMEOUT_S
    plan_limit_s: float = 5.0
    search_limit_s: float = 30.0
    memory: str = "2g"
    """Of Spark's driver."""
    seed: int = 0
    looks: int | None = None
    """End after so many looks; None: when asked to."""
    rehearse: bool = True
    """Carry plans out in simulation first."""


class _Over(Exception):
    """It is time to end: somebody asked for it, or all looks are done."""


OnTell = Callable[[float, AutopilotStatus, str], None]
"""Is told the time, what the autopilot is doing, and a line for people (or nothing)."""


def ignore_telling(now: float, status: AutopilotStatus, line: str) -> None:
    """Nobody listens."""


async def read_decisions(
    where: Coordination, last: int | None = None
) -> tuple[DecisionRecord, ...]:
    """What an overlay's autopilot decided and what came of it: the last, or all; oldest first."""
    async with opened_store(where.target) as store:
        return await run_command(store, list_decisions(Layout(where.overlay), last))


class LivePilot:
    """The autopilot of one overlay: ``await LivePilot(setup, on_tell).run()``.

    It ends when it is asked to `stop`, or after the looks of its setup; what it decided is in the
    store (`read_decisions`)."""

    def __init__(
        self, setup: PilotSetup, on_tell: OnTell = ignore_telling, stop: StopRequest | None = None
    ) -> None:
        self._setup = setup
        self._on_tell = on_tell
        self._stop = stop or StopRequest()
        self._profiler = Profiler(setup.work / "spark.log", setup.memory)
        self._name = executor_name()
        self._rng = np.random.default_rng(setup.seed)
        self._looks = 0
        self._said: AutopilotStatus | None = None
        self._profiling: asyncio.Future[Any] | None = None
        self._store: ZooKeeperStore
        self.loop = Autopilot(setup.where.overlay, self._name, setup.settings)

    def stop(self) -> None:
        """End in order; a plan that is being carried out pauses after its step."""
        self._stop.ask()

    async def run(self) -> None:
        """Watch the overlay and change it when that pays. OverlayError if it has an autopilot."""
        async with opened_store(self._setup.where.target, limit_s=CONNECT_S) as self._store:
            try:
                await self._run()
            except _Over:
                return
            finally:
                await self._profiler.close()

    async def _run(self) -> None:
        await self._claim()
        running = self.loop.run(time.time())
        request = next(running)
        while True:
            value = await self._answer(request)
            request = running.send(Reply(value, time.time()))

    async def _answer(self, request: Request) -> object:
        match request:
            case Rest(until):
                await self._rest(until)
                return None
            case TakeProfile(since, waiting):
                return await self._profile_unless_answered(since, waiting)
            case Weigh(evidence, allowed):
                return await self._weigh(evidence, allowed)
            case AskStore(script):
                return await self._attempt(run_command(self._store, script))
            case CarryOut(record):
                return await self._attempt(self._carry_out(record))
            case Tell(status, line):
                self._said = status
                await self._announce(status)
                self._on_tell(time.time(), status, line)
                return None

    async def _attempt(self, work: Any) -> object:
        """What the work gives, or the trouble it is in: ours are ValueErrors with a sentence."""
        try:
            return await work
        except (ValueError, OSError) as error:
            return Trouble(str(error) or type(error).__name__)

    # --- resting -----------------------------------------------------------------------------

    async def _rest(self, until: float) -> None:
        limit = self._setup.looks
        if limit is not None and self._looks >= limit and self.loop.history.open_record is None:
            raise _Over
        while (left_s := until - time.time()) > 0:
            if await self._stop.wait(min(left_s, ANNOUNCE_S)):
                raise _Over
            # The node goes with a lost session, and the loop may have nothing new to say for long.
            await self._announce(self._said)
        if self._stop.is_set:
            raise _Over

    # --- profile and weighing ----------------------------------------------------------------

    async def _profile_unless_answered(self, since: float, waiting: str) -> object:
        """A profile, or None as soon as a person has answered; the profile is not given up then,
        it is only that nobody waits for it: stopping Spark costs more than letting it end."""
        if self._profiling is not None:
            await self._unless_stopped(self._profiling, "")
        self._looks += 1
        self._profiling = asyncio.ensure_future(self._attempt(self._take_profile(since)))
        if not await self._unless_stopped(self._profiling, waiting):
            return None
        done, self._profiling = self._profiling, None
        return done.result()

    async def _unless_stopped(self, work: asyncio.Future[Any], waiting: str) -> bool:
        """Wait for some work; False if the decision ``waiting`` was answered first."""
        while not work.done():
            await asyncio.wait({work}, timeout=self._setup.settings.review_poll_s)
            if self._stop.is_set:
                work.cancel()
                await asyncio.gather(work, return_exceptions=True)
                raise _Over
            if waiting and await self._is_answered(waiting):
                return False
        return True

    async def _is_answered(self, id_: str) -> bool:
        seen = await self._attempt(run_command(self._store, read_decision(self.loop.layout, id_)))
        return isinstance(seen, DecisionRecord) and seen.state is not DecisionState.WAITING

    async def _take_profile(self, since: float) -> Evidence | Trouble:
        setup = self._setup
        layout = self.loop.layout
        topology = await run_command(self._store, read_topology(layout))
        window, output = setup.work / WINDOW, setup.work / "profile"
        await asyncio.to_thread(link_window, setup.telemetry, window, since)
        try:
            await self._profiler.profile(window, output, time.time())
        except ProfilerError as error:
            return Trouble(str(error))
        prices = setup.prices
        return await asyncio.to_thread(
            evidence_of,
            WorkloadProfile(output),
            topology,
            matrix_ms=prices.matrix_ms,
            mesh=prices.mesh,
            assumed_ms=prices.assumed_ms,
        )

    async def _weigh(self, evidence: Evidence, allowed: Any) -> object:
        """In a thread, so that the session with the store stays alive meanwhile."""
        until = time.monotonic() + self._setup.search_limit_s
        work = asyncio.to_thread(
            weigh,
            evidence,
            self._setup.settings,
            self._plan,
            allowed=allowed,
            stop=lambda: self._stop.is_set or time.monotonic() >= until,
            rng=self._rng,
        )
        options = await self._attempt(work)
        if self._stop.is_set:
            raise _Over
        return options

    def _plan(self, problem: PlanningProblem) -> PlanResult:
        until = time.monotonic() + self._setup.plan_limit_s
        return solve_problem(
            problem,
            stop=lambda: self._stop.is_set or time.monotonic() >= until,
            clock=time.monotonic,
            seed=self._setup.seed,
        )

    # --- deployment --------------------------------------------------------------------------

    async def _carry_out(self, record: DecisionRecord) -> CarriedOut:
        setup = self._setup
        problem = await self._rehearsed(record) if setup.rehearse else ""
        if problem:
            return CarriedOut(None, reason=problem)
        layout = self.loop.layout
        config = ExecutorConfig(
            setup.where.overlay, self._name, step_timeout_s=setup.step_timeout_s
        )
        async with ExecutorHost(setup.where.target, config) as host:
            begun = await run_command(host.store, hand_over(layout, record))
            if isinstance(begun, CarriedOut):
                return begun
            watch = ExecutorWatch(host, layout, begun, self._stop, waits_out_pauses=True)
            async for _ in watch.reports():
                pass
        if not watch.last.state.is_final:
            raise _Over
        return carried_out(watch.last)

    async def _rehearsed(self, record: DecisionRecord) -> str:
        """What went wrong in rehearsal; empty if nothing did."""
        topology = await run_command(self._store, read_topology(self.loop.layout))
        how = await rehearsed(record, topology, self._setup.work / WINDOW)
        if how is not None and how.words and self._said is not None:
            self._on_tell(time.time(), self._said, how.words)
        return "" if how is None else how.problem

    # --- the node that says we are here ------------------------------------------------------

    async def _claim(self) -> None:
        """Be the overlay's only autopilot; OverlayError if another one is."""
        until = time.monotonic() + OTHER_GONE_S
        path = self.loop.layout.autopilot
        while (seen := await self._store.ask(Read(path))).outcome is not Outcome.MISSING:
            if time.monotonic() >= until and seen.outcome is Outcome.OK:
                whose = msgspec.json.decode(seen.data, type=AutopilotStatus).name
                raise OverlayError(
                    f"an autopilot of the overlay {self._setup.where.overlay!r} is running "
                    f"already ({whose}): stop that one first"
                )
            if await self._stop.wait(0.5):
                raise _Over

    async def _announce(self, status: AutopilotStatus | None) -> None:
        """Best effort: what counts is in the records. Without the store nobody could read it."""
        if status is None:
            return
        path, data = self.loop.layout.autopilot, encode_status(status)
        answer = await self._store.ask(Write(path, data))
        if answer.outcome is Outcome.MISSING:
            await self._store.ask(Create(path, data, ephemeral=True))


# A decision's plan in simulation, on the traffic of its own window, before it is carried out.
#
# The same rehearsal as ``pubweave apply --dry-run``. What goes wrong there is not tried in
# earnest; where nothing can be rehearsed (no record of traffic, another overlay by now) nothing
# is said.


@dataclass(frozen=True)
class Rehearsed:
    """How it went: ``problem`` is empty if all was well."""

    words: str
    problem: str = ""


async def rehearsed(record: DecisionRecord, topology: Topology, traffic: Path) -> Rehearsed | None:
    """A rehearsal in a thread; None if there is nothing to rehearse."""
    planned = record.plan_record()
    if planned.source_hash != topology_hash(topology):
        return None
    return await asyncio.to_thread(_rehearse, planned, topology, traffic)


def _rehearse(planned: PlanRecord, topology: Topology, traffic: Path) -> Rehearsed | None:
    from pubweave.sim.whatif.rehearsal import rehearse
    from pubweave.telemetry.recorded_traffic import read_traffic

    if not traffic.is_dir():
        return None
    result = rehearse(topology, planned.plan, read_traffic(traffic))
    if result.violations:
        first = result.violations[0]
        return Rehearsed("", f"the rehearsal went wrong, so it is not tried in earnest: {first}")
    measures, counts = result.measures, result.counts
    return Rehearsed(
        f"rehearsed in simulation: {measures['plan_s']:.1f} s, {counts['held_publications']} "
        f"publications wait, at most {measures['hold_ms_max']:.0f} ms; "
        f"{counts['deliveries']:,} of {counts['due']:,} deliveries arrive"
    )
