"""The stages of the demo: traffic on a bad tree, the autopilot at work, and what came of it."""

from __future__ import annotations

import asyncio
import secrets
import shutil
import time
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pubweave.autopilot.driver import AssumedPrices, PilotSetup, pilot_until
from pubweave.autopilot.profiler import Profiler, ProfilerError
from pubweave.autopilot.telemetry_window import ROTATE_S
from pubweave.cli.autopilot.dashboard import serving_page
from pubweave.cli.data.report import page
from pubweave.cli.demo.clients import DemoClients
from pubweave.cli.demo.measures import Moment, OverlayFigures, measured, print_summary, table
from pubweave.cli.demo.world import DemoWorld
from pubweave.cli.deploy.apply import STEP_TIMEOUT_S
from pubweave.cli.errors import FAILED
from pubweave.cli.options.security import SecurityChoice
from pubweave.cli.output import LiveView, print_json, remark
from pubweave.control.records import list_decisions
from pubweave.control.settings import ControlSettings, EvidenceDemands
from pubweave.deploy.layout import Layout
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
from pubweave.runtime.net.signals import StopRequest
from pubweave.runtime.observe.dashboard_source import InRunDirectory
from pubweave.runtime.overlay.overlay import Overlay
from pubweave.runtime.store.session import opened_store, run_command
from pubweave.runtime.store.zookeeper_target import Coordination
from pubweave.sim.whatif.replay import replay
from pubweave.telemetry.recorded_traffic import read_traffic

LOOKS = 2
"""One to improve the overlay, one to see what came of it."""
WINDOW_SHARE = 0.6
"""Of the seconds that a profile looks back and whose files are whole: what it must show."""
SETTLED_AFTER_S = 3.0
DASHBOARD_INTERVAL_S = 1.0
TOKEN_FILE = "dashboard-token"
BEFORE, AFTER, WHOLE = "profile-before", "profile-after", "profile"
RECORDED = "traffic-before"
"""What is kept of both looks and of all, for whoever wants to look closer."""
SPARK_MEMORY = "1g"


@dataclass(frozen=True)
class DemoOptions:
    """What the command line says."""

    brokers: int
    seconds: float
    seed: int
    run_dir: Path
    serve: bool
    port: int
    as_json: bool


class Demo:
    """The stages of the demo, in their order."""

    def __init__(
        self, options: DemoOptions, world: DemoWorld, overlay: Overlay, stop: StopRequest
    ) -> None:
        self._options = options
        self._world = world
        self._overlay = overlay
        self._stop = stop
        self._work = options.run_dir / "autopilot"
        self._looks: list[tuple[Moment, Moment]] = []
        self._begun: Moment | None = None
        self._marking: list[asyncio.Task[None]] = []

    async def run(self) -> int:
        options, spec = self._options, self._overlay.spec
        self._tell(
            f"{len(spec.brokers)} brokers are up on a bad tree, with ZooKeeper; state and logs in "
            f"{options.run_dir}"
        )
        async with AsyncExitStack() as stack:
            view = stack.enter_context(LiveView(as_json=options.as_json))
            if options.serve:
                await stack.enter_async_context(self._dashboard())
            play = await stack.enter_async_context(
                DemoClients(self._overlay, self._world.workload, view)
            )
            clients = len(self._world.workload.publishers), len(self._world.workload.subscribers)
            self._tell(f"{clients[0]} publishers and {clients[1]} subscribers are at work")
            if not await self._stop.unless(self._improve(play)):
                return self._stop.exit_code
            code = await self._sum_up(play)
            if options.serve:
                await self._go_on(play)
        return code

    async def _go_on(self, play: DemoClients) -> None:
        """With the dashboard: the autopilot looks on, and asks before it changes anything."""
        self._tell("the overlay and its autopilot go on, changes wait for you; Ctrl-C ends it")

        def on_tell(now: float, status: AutopilotStatus, line: str) -> None:
            play.stage = status.phase.value
            if line:
                self._tell(line)

        await pilot_until(self._stop, self._setup(ControlMode.APPROVE, looks=None), on_tell)

    def _tell(self, line: str, **known: Any) -> None:
        if self._options.as_json:
            print_json({"event": "stage", "line": line, **known})
        else:
            remark(line)

    def _dashboard(self) -> Any:
        options = self._options
        token, path = secrets.token_hex(24), options.run_dir / TOKEN_FILE
        path.touch(mode=0o600)
        path.write_text(token + "\n")
        self._tell(f"the token for changes on the dashboard is in {path}")
        finder = InRunDirectory(options.run_dir)
        interval_s = DASHBOARD_INTERVAL_S
        nobody = SecurityChoice()  # the overlay of a demo is open
        return serving_page(finder, options.port, token, interval_s, options.as_json, nobody)

    # --- the loop ----------------------------------------------------------------------------

    async def _improve(self, play: DemoClients) -> None:
        """Let the traffic flow, then the autopilot look, change the overlay, and look again."""
        play.stage = "before"
        await asyncio.sleep(SETTLED_AFTER_S)
        self._begun = await play.now()
        await asyncio.sleep(self._options.seconds)

        def on_tell(now: float, status: AutopilotStatus, line: str) -> None:
            self._follow(play, status)
            if line:
                self._tell(line)

        await pilot_until(self._stop, self._setup(ControlMode.AUTO, LOOKS), on_tell)
        await asyncio.gather(*self._marking)
        _copy(self._work / "profile", self._options.run_dir / AFTER)

    def _setup(self, mode: ControlMode, looks: int | None) -> PilotSetup:
        spec = self._overlay.spec
        assert self._overlay.zookeeper is not None
        assert spec.telemetry_directory is not None
        return PilotSetup(
            where=Coordination(spec.name, self._overlay.zookeeper),
            settings=ControlSettings(
                mode=mode,
                period_s=self._options.seconds,
                demands=EvidenceDemands(window_s=WINDOW_SHARE * (self._options.seconds - ROTATE_S)),
            ),
            telemetry=spec.telemetry_directory,
            work=self._work.resolve(),
            prices=AssumedPrices(matrix_ms=self._world.round_trips_ms),
            step_timeout_s=STEP_TIMEOUT_S,
            plan_limit_s=5.0,
            search_limit_s=8.0,
            memory=SPARK_MEMORY,
            seed=self._options.seed,
            looks=looks,
        )

    def _follow(self, play: DemoClients, status: AutopilotStatus) -> None:
        """Take note of where the loop is: what is measured ends where Spark begins."""
        entered, play.stage = play.stage != status.phase.value, status.phase.value
        if not entered:
            return
        if status.phase is AutopilotPhase.PROFILING:
            self._marking.append(asyncio.create_task(self._mark_end(play)))
        elif status.phase is AutopilotPhase.RESTING and len(self._looks) == 1:
            self._marking.append(asyncio.create_task(self._mark_begin(play)))
        elif status.phase is AutopilotPhase.WEIGHING:
            _copy(self._work / "profile", self._options.run_dir / BEFORE)
            _copy(self._work / "window", self._options.run_dir / RECORDED)

    async def _mark_end(self, play: DemoClients) -> None:
        if self._begun is not None:
            self._looks.append((self._begun, await play.now()))
            self._begun = None

    async def _mark_begin(self, play: DemoClients) -> None:
        await asyncio.sleep(SETTLED_AFTER_S)
        self._begun = await play.now()

    # --- the end -----------------------------------------------------------------------------

    async def _sum_up(self, play: DemoClients) -> int:
        record = await self._decision()
        if record is None or len(self._looks) < LOOKS:
            self._tell("nothing to compare: 'pubweave decisions' says what was done and why")
            return FAILED
        # Publishing ends first where it ends: the simulation shares this process.
        verdict = await play.end() if not self._options.serve else None
        predicted = await asyncio.to_thread(self._predicted, record)
        before = self._measured(play, 0, self._world.topology, _cost_before(record))
        cost_after = None if record.measured is None else record.measured.cost_ms_per_notification
        after = self._measured(play, 1, self._target(record), cost_after)
        rows = table(before, predicted, after)
        document = {
            "event": "summary",
            "figures": rows,
            "steps": len(record.plan_record().plan.steps),
            "decision": record.id,
            "deliveries": None if verdict is None else asdict(verdict),
            "report": str(await self._write_report()),
        }
        if self._options.as_json:
            print_json(document)
        else:
            print_summary(document)
        is_better = all((row["change"] or 0.0) < 0 for row in rows[:2])
        return 0 if is_better and (verdict is None or verdict.is_clean) else FAILED

    def _measured(
        self, play: DemoClients, look: int, topology: Topology, cost_ms: float | None
    ) -> OverlayFigures:
        begin, end = self._looks[look]
        return measured(
            begin,
            end,
            latencies=play.subscribers.latencies_ms,
            received=play.subscribers.received,
            homes=play.homes,
            topology=topology,
            cost_ms=cost_ms,
        )

    async def _decision(self) -> DecisionRecord | None:
        assert self._overlay.zookeeper is not None
        async with opened_store(self._overlay.zookeeper) as store:
            records = await run_command(store, list_decisions(Layout(self._overlay.spec.name)))
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
        profile = WorkloadProfile(self._options.run_dir / BEFORE)
        costs = [row["processing_ms"] for row in profile.rows("broker_costs")]
        traffic = self._options.run_dir / RECORDED
        recorded = read_traffic(traffic, window_s=self._options.seconds / 2)
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
        options, telemetry = self._options, self._overlay.spec.telemetry_directory
        assert telemetry is not None
        self._tell("profiling the whole run for the report")
        profiler = Profiler((self._work / "spark.log").resolve(), SPARK_MEMORY)
        whole = options.run_dir / WHOLE
        try:
            await profiler.profile(telemetry.resolve(), whole.resolve(), time.time())
        except ProfilerError as error:
            self._tell(f"{error}; the report is of the time after the change only")
            whole = options.run_dir / AFTER
        finally:
            await profiler.close()
        path = options.run_dir / "report.html"
        replace_file(path, page(WorkloadProfile(whole)).encode())
        return path


def _cost_before(record: DecisionRecord) -> float | None:
    return None if record.inputs is None else record.inputs.cost_ms_per_notification


def _copy(source: Path, target: Path) -> None:
    """In the place of what an earlier demo left there."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target)
