"""The stages of the demo: traffic on a bad tree, the autopilot at work, and what came of it."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pubweave.autopilot.driver import AssumedPrices, LivePilot, PilotSetup, read_decisions
from pubweave.autopilot.profiler import Profiler, ProfilerError
from pubweave.autopilot.telemetry_window import ROTATE_S
from pubweave.control.settings import ControlSettings, EvidenceDemands
from pubweave.demo.clients import DemoClients, OnPulse
from pubweave.demo.measures import Moment, OverlayFigures, measured, table
from pubweave.demo.world import DemoWorld
from pubweave.model.decisions import (
    AutopilotPhase,
    AutopilotStatus,
    ControlMode,
    DecisionRecord,
    DecisionState,
)
from pubweave.model.files.atomic import replace_file
from pubweave.model.files.profile import WorkloadProfile
from pubweave.model.ids import Link
from pubweave.model.topology import Topology
from pubweave.plots.report import profile_page
from pubweave.runtime.net.signals import StopRequest
from pubweave.runtime.observe.delivery_oracle import DeliveryVerdict
from pubweave.runtime.overlay.overlay import Overlay
from pubweave.runtime.store.zookeeper_target import Coordination
from pubweave.sim.whatif.replay import replay
from pubweave.telemetry.recorded_traffic import read_traffic

LOOKS = 2
"""One to improve the overlay, one to see what came of it."""
WINDOW_SHARE = 0.6
"""Of the seconds that a profile looks back and whose files are whole: what it must show."""
SETTLED_AFTER_S = 3.0
BEFORE, AFTER, WHOLE = "profile-before", "profile-after", "profile"
RECORDED = "traffic-before"
"""What is kept of both looks and of all, for whoever wants to look closer."""
SPARK_MEMORY = "1g"


@dataclass(frozen=True)
class DemoSummary:
    """What the change was worth, and whether every publication arrived."""

    rows: list[dict[str, Any]]
    """One per figure: before, predicted, after."""
    steps: int
    decision: str
    verdict: DeliveryVerdict | None
    """None while the clients go on."""
    report: Path

    @property
    def is_good(self) -> bool:
        """The overlay became better, and nothing was lost, doubled or out of order."""
        is_better = all((row["change"] or 0.0) < 0 for row in self.rows[:2])
        return is_better and (self.verdict is None or self.verdict.is_clean)

    def document(self) -> dict[str, Any]:
        return {
            "event": "summary",
            "figures": self.rows,
            "steps": self.steps,
            "decision": self.decision,
            "deliveries": None if self.verdict is None else asdict(self.verdict),
            "report": str(self.report),
        }


class Demo:
    """The stages of the demo: ``async with Demo(world, overlay, run_dir, seed) as demo``.

    The overlay is that of `demo.world.demo_spec`, started; clients are at work as long as this
    lasts."""

    def __init__(
        self,
        world: DemoWorld,
        overlay: Overlay,
        run_dir: Path,
        seed: int = 1,
        *,
        seconds: float = 30.0,
        stop: StopRequest | None = None,
        on_line: Callable[[str], None] = lambda line: None,
        on_pulse: OnPulse = lambda pulse: None,
        pulse_every_s: float = 1.0,
    ) -> None:
        self._world = world
        self._overlay = overlay
        self._run_dir = run_dir
        self._seed = seed
        self._seconds = seconds
        self._stop = stop or StopRequest()
        self._tell = on_line
        self._play = DemoClients(overlay, world.workload, on_pulse, pulse_every_s)
        self._work = run_dir / "autopilot"
        self._looks: list[tuple[Moment, Moment]] = []
        self._begun: Moment | None = None
        self._marking: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Demo:
        await self._play.__aenter__()
        clients = len(self._world.workload.publishers), len(self._world.workload.subscribers)
        self._tell(f"{clients[0]} publishers and {clients[1]} subscribers are at work")
        return self

    async def __aexit__(self, *given: object) -> None:
        await self._play.__aexit__(*given)

    async def go_on(self) -> None:
        """The autopilot looks on until it is asked to stop, and asks before it changes anything."""
        self._tell("the overlay and its autopilot go on, changes wait for you; Ctrl-C ends it")

        def on_tell(now: float, status: AutopilotStatus, line: str) -> None:
            self._play.stage = status.phase.value
            if line:
                self._tell(line)

        await LivePilot(self._setup(ControlMode.APPROVE, looks=None), on_tell, self._stop).run()

    # --- the loop ----------------------------------------------------------------------------

    async def improve(self) -> None:
        """Let the traffic flow, then the autopilot look, change the overlay, and look again."""
        play = self._play
        play.stage = "before"
        await asyncio.sleep(SETTLED_AFTER_S)
        self._begun = await play.now()
        await asyncio.sleep(self._seconds)

        def on_tell(now: float, status: AutopilotStatus, line: str) -> None:
            self._follow(status)
            if line:
                self._tell(line)

        await LivePilot(self._setup(ControlMode.AUTO, LOOKS), on_tell, self._stop).run()
        await asyncio.gather(*self._marking)
        _copy(self._work / "profile", self._run_dir / AFTER)

    @property
    def _where(self) -> Coordination:
        assert self._overlay.zookeeper is not None
        return Coordination(self._overlay.spec.name, self._overlay.zookeeper)

    @property
    def _telemetry(self) -> Path:
        directory = self._overlay.spec.settings.broker.telemetry_directory
        assert directory is not None
        return directory

    def _setup(self, mode: ControlMode, looks: int | None) -> PilotSetup:
        return PilotSetup(
            where=self._where,
            settings=ControlSettings(
                mode=mode,
                period_s=self._seconds,
                demands=EvidenceDemands(window_s=WINDOW_SHARE * (self._seconds - ROTATE_S)),
            ),
            telemetry=self._telemetry,
            work=self._work.resolve(),
            prices=AssumedPrices(matrix_ms=self._world.round_trips_ms),
            search_limit_s=8.0,
            memory=SPARK_MEMORY,
            seed=self._seed,
            looks=looks,
            rehearse=False,
        )

    def _follow(self, status: AutopilotStatus) -> None:
        """Take note of where the loop is: what is measured ends where Spark begins."""
        play = self._play
        entered, play.stage = play.stage != status.phase.value, status.phase.value
        if not entered:
            return
        if status.phase is AutopilotPhase.PROFILING:
            self._marking.append(asyncio.create_task(self._mark_end()))
        elif status.phase is AutopilotPhase.RESTING and len(self._looks) == 1:
            self._marking.append(asyncio.create_task(self._mark_begin()))
        elif status.phase is AutopilotPhase.WEIGHING:
            _copy(self._work / "profile", self._run_dir / BEFORE)
            _copy(self._work / "window", self._run_dir / RECORDED)

    async def _mark_end(self) -> None:
        if self._begun is not None:
            self._looks.append((self._begun, await self._play.now()))
            self._begun = None

    async def _mark_begin(self) -> None:
        await asyncio.sleep(SETTLED_AFTER_S)
        self._begun = await self._play.now()

    # --- the end -----------------------------------------------------------------------------

    async def sum_up(self, *, is_over: bool = True) -> DemoSummary | None:
        """What came of it; None if there is nothing to compare. Publishing ends if it ``is_over``,
        or else goes on."""
        record = await self._decision()
        if record is None or len(self._looks) < LOOKS:
            self._tell("nothing to compare: 'pubweave decisions' says what was done and why")
            return None
        # Publishing ends first where it ends: the simulation shares this process.
        verdict = await self._play.end() if is_over else None
        predicted = await asyncio.to_thread(self._predicted, record)
        before = self._measured(0, self._world.topology, _cost_before(record))
        cost_after = None if record.measured is None else record.measured.cost_ms_per_notification
        after = self._measured(1, self._target(record), cost_after)
        rows = table(before, predicted, after)
        steps = len(record.plan_record().plan.steps)
        return DemoSummary(rows, steps, record.id, verdict, await self._write_report())

    def _measured(self, look: int, topology: Topology, cost_ms: float | None) -> OverlayFigures:
        begin, end = self._looks[look]
        return measured(
            begin,
            end,
            latencies=self._play.subscribers.latencies_ms,
            received=self._play.subscribers.received,
            homes=self._play.homes,
            topology=topology,
            cost_ms=cost_ms,
        )

    async def _decision(self) -> DecisionRecord | None:
        records = await read_decisions(self._where)
        deployed = [r for r in records if r.state is DecisionState.DEPLOYED]
        return deployed[-1] if deployed else None

    def _target(self, record: DecisionRecord) -> Topology:
        """The tree that was decided on."""
        chosen = record.chosen_alternative
        assert chosen is not None
        source = self._world.topology
        removed = {Link.between(*pair) for pair in chosen.removed_links}
        added = {Link.between(*pair) for pair in chosen.added_links}
        return Topology(source.brokers, (source.links - removed) | added)

    def _predicted(self, record: DecisionRecord) -> OverlayFigures:
        """The recorded traffic in simulation on the planned tree, and the design's cost."""
        profile = WorkloadProfile(self._run_dir / BEFORE)
        costs = [row["processing_ms"] for row in profile.rows("broker_costs")]
        traffic = self._run_dir / RECORDED
        recorded = read_traffic(traffic, window_s=self._seconds / 2)
        played = replay(
            self._target(record),
            recorded,
            latency_ms=self._world.distances_ms.__getitem__,
            processing_ms=sum(costs) / len(costs) if costs else 0.0,
        )
        cost_ms = None if record.prediction is None else record.prediction.cost_ms_per_notification
        return OverlayFigures(
            cost_ms,
            played.latency_ms_mean,
            played.latency_ms_p99,
            played.hops_mean,
            played.crossings_per_delivery,
        )

    async def _write_report(self) -> Path:
        """A page of the whole run, so that it shows the change."""
        self._tell("profiling the whole run for the report")
        profiler = Profiler((self._work / "spark.log").resolve(), SPARK_MEMORY)
        whole = self._run_dir / WHOLE
        try:
            await profiler.profile(self._telemetry.resolve(), whole.resolve(), time.time())
        except ProfilerError as error:
            self._tell(f"{error}; the report is of the time after the change only")
            whole = self._run_dir / AFTER
        finally:
            await profiler.close()
        path = self._run_dir / "report.html"
        replace_file(path, profile_page(WorkloadProfile(whole)).encode())
        return path


def _cost_before(record: DecisionRecord) -> float | None:
    return None if record.inputs is None else record.inputs.cost_ms_per_notification


def _copy(source: Path, target: Path) -> None:
    """In the place of what an earlier demo left there."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
