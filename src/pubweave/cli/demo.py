"""``pubweave demo``: the whole loop on this machine, from a bad tree to a better one, with proof.

An overlay of broker processes that pretend to be apart, stock traders on it, and the autopilot:
it has Spark profile the traffic, designs a better tree, plans the fewest steps, applies them while
the traffic flows, and profiles again. Everything here only starts, shows and measures.
"""

from __future__ import annotations

import asyncio
import shutil
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pubweave.cli.errors import FAILED
from pubweave.cli.output import LiveView, json_option, output_console, print_json, remark

if TYPE_CHECKING:
    from pubweave.cli.autopilot_run import PilotSetup
    from pubweave.cli.demo_measures import Figures, Moment
    from pubweave.cli.demo_play import Play
    from pubweave.cli.demo_world import DemoWorld
    from pubweave.cli.signals import StopRequest
    from pubweave.model.decisions import AutopilotStatus, DecisionRecord
    from pubweave.model.topology import Topology
    from pubweave.runtime.overlay import Overlay

LOOKS = 2
"""One to improve the overlay, one to see what came of it."""
WINDOW_SHARE = 0.6
"""Of the seconds that a profile looks back: what it must show at least, as files are cut."""
SETTLED_AFTER_S = 3.0
DASHBOARD_INTERVAL_S = 1.0


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


@click.command()
@click.option("--brokers", default=20, show_default=True, type=click.IntRange(5, 200))
@click.option(
    "--seconds",
    default=30.0,
    show_default=True,
    type=click.FloatRange(min=10),
    help="How long to measure, before the change and after it.",
)
@click.option("--seed", default=1, show_default=True, type=click.IntRange(min=0))
@click.option(
    "--run-dir",
    default="runs/demo",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the overlay keeps its state, logs, telemetry and profiles.",
)
@click.option("--serve", is_flag=True, help="Show the dashboard, and go on until Ctrl-C.")
@click.option(
    "--port", default=8642, show_default=True, type=click.IntRange(0, 65535), help="Of --serve."
)
@json_option
@click.pass_context
def demo(ctx: click.Context, /, **given: Any) -> None:
    """Watch an overlay improve itself: profile, design, plan, apply, measure.

    Brokers are processes that pretend to be tens of milliseconds apart, linked by a bad tree. Ten
    publishers of generated stock quotes and a hundred subscribers with content filters use them
    from the first moment to the last. Every publication is held against every subscription: exit
    code 1 if anything is lost, duplicated or out of order, or if the overlay did not improve.

    \b
    Example:
      pubweave demo
      pubweave demo --serve
      pubweave demo --brokers 50 --seconds 60 --json
    """
    from pubweave.cli.signals import run_async

    ctx.exit(run_async(_run(DemoOptions(**given))))


async def _run(options: DemoOptions) -> int:
    from pubweave.cli.demo_world import make_demo
    from pubweave.cli.signals import StopRequest
    from pubweave.cli.up import choose_store, open_overlay, start_with_progress
    from pubweave.runtime.overlay_run_directory import TELEMETRY_DIRECTORY
    from pubweave.runtime.overlay_spec import make_spec

    world = make_demo(options.brokers, options.seed)
    telemetry = options.run_dir / TELEMETRY_DIRECTORY
    spec = make_spec(world.topology, name="demo", base_port=0, telemetry_directory=telemetry)
    spec = replace(spec, distances_ms=world.distances_ms)
    store = choose_store(None, is_wanted=True)
    async with StopRequest() as stop:
        overlay = open_overlay(
            spec, options.run_dir, in_process=False, restart=True, store=store,
            as_json=options.as_json,
        )  # fmt: skip
        try:
            if not await start_with_progress(overlay, stop, shown=not options.as_json):
                return stop.exit_code
            return await _Demo(options, world, overlay, stop).run()
        finally:
            await overlay.stop()


class _Demo:
    """The stages of the demo, in their order."""

    def __init__(
        self, options: DemoOptions, world: DemoWorld, overlay: Overlay, stop: StopRequest
    ) -> None:
        self._options = options
        self._world = world
        self._overlay = overlay
        self._stop = stop
        self._work = options.run_dir / "autopilot"
        self._profiles = options.run_dir / "profile-before", options.run_dir / "profile-after"
        self._looks: list[tuple[Moment, Moment]] = []
        self._begun: Moment | None = None
        self._marking: list[asyncio.Task[None]] = []

    async def run(self) -> int:
        from pubweave.cli.demo_play import Play

        options, spec = self._options, self._overlay.spec
        self._tell(
            f"{len(spec.brokers)} brokers are up on a bad tree, with ZooKeeper; state and logs in "
            f"{options.run_dir}"
        )
        async with AsyncExitStack() as stack:
            view = stack.enter_context(LiveView(as_json=options.as_json))
            if options.serve:
                await stack.enter_async_context(self._dashboard())
            play = await stack.enter_async_context(Play(self._overlay, self._world.workload, view))
            clients = len(self._world.workload.publishers), len(self._world.workload.subscribers)
            self._tell(f"{clients[0]} publishers and {clients[1]} subscribers are at work")
            if not await self._stop.unless(self._improve(play)):
                return self._stop.exit_code
            code = await self._sum_up(play)
            if options.serve:
                self._tell("the overlay goes on; Ctrl-C ends it")
                await self._stop.wait()
                return 0
        return code

    def _tell(self, line: str, **known: Any) -> None:
        if self._options.as_json:
            print_json({"event": "stage", "line": line, **known})
        else:
            remark(line)

    def _dashboard(self) -> Any:
        from pubweave.cli.dashboard import serving_page
        from pubweave.runtime.dashboard_source import InRunDirectory

        finder = InRunDirectory(self._options.run_dir)
        return serving_page(
            finder, self._options.port, None, DASHBOARD_INTERVAL_S, self._options.as_json
        )

    # --- the loop ----------------------------------------------------------------------------

    async def _improve(self, play: Play) -> None:
        """Let the traffic flow, then the autopilot look, change the overlay, and look again."""
        from pubweave.cli.autopilot_run import pilot_until

        play.stage = "before"
        await asyncio.sleep(SETTLED_AFTER_S)
        self._begun = await play.now()
        await asyncio.sleep(self._options.seconds)

        def on_tell(now: float, status: AutopilotStatus, line: str) -> None:
            self._follow(play, status)
            if line:
                self._tell(line)

        await pilot_until(self._stop, self._setup(), on_tell)
        await asyncio.gather(*self._marking)
        shutil.copytree(self._work / "profile", self._profiles[1], dirs_exist_ok=True)

    def _setup(self) -> PilotSetup:
        from pubweave.cli.apply import STEP_TIMEOUT_S
        from pubweave.cli.autopilot_run import PilotSetup, Prices
        from pubweave.control.settings import ControlSettings, EvidenceDemands
        from pubweave.model.decisions import ControlMode
        from pubweave.runtime.zookeeper_target import Coordination

        spec = self._overlay.spec
        assert self._overlay.zookeeper is not None
        assert spec.telemetry_directory is not None
        return PilotSetup(
            where=Coordination(spec.name, self._overlay.zookeeper),
            settings=ControlSettings(
                mode=ControlMode.AUTO,
                period_s=self._options.seconds,
                demands=EvidenceDemands(window_s=WINDOW_SHARE * self._options.seconds),
            ),
            telemetry=spec.telemetry_directory,
            work=self._work.resolve(),
            prices=Prices(matrix_ms=self._world.round_trips_ms),
            step_timeout_s=STEP_TIMEOUT_S,
            plan_limit_s=5.0,
            search_limit_s=8.0,
            memory="1g",
            seed=self._options.seed,
            looks=LOOKS,
        )

    def _follow(self, play: Play, status: AutopilotStatus) -> None:
        """Take note of where the loop is: what is measured ends where Spark begins."""
        from pubweave.model.decisions import AutopilotPhase

        entered, play.stage = play.stage != status.phase.value, status.phase.value
        if not entered:
            return
        if status.phase is AutopilotPhase.PROFILING:
            self._marking.append(asyncio.create_task(self._mark_end(play)))
        elif status.phase is AutopilotPhase.RESTING and len(self._looks) == 1:
            self._marking.append(asyncio.create_task(self._mark_begin(play)))
        elif status.phase is AutopilotPhase.WEIGHING:
            shutil.copytree(self._work / "profile", self._profiles[0], dirs_exist_ok=True)

    async def _mark_end(self, play: Play) -> None:
        if self._begun is not None:
            self._looks.append((self._begun, await play.now()))
            self._begun = None

    async def _mark_begin(self, play: Play) -> None:
        await asyncio.sleep(SETTLED_AFTER_S)
        self._begun = await play.now()

    # --- the end -----------------------------------------------------------------------------

    async def _sum_up(self, play: Play) -> int:
        from pubweave.cli.demo_measures import table

        record = await self._decision()
        if record is None or len(self._looks) < LOOKS:
            self._tell("the autopilot has not changed the overlay: see 'pubweave decisions'")
            return FAILED
        predicted = await asyncio.to_thread(self._predicted, record)
        before = self._measured(play, 0, self._world.topology, _cost_before(record))
        cost_after = None if record.measured is None else record.measured.cost_ms_per_notification
        after = self._measured(play, 1, self._target(record), cost_after)
        rows = table(before, predicted, after)
        page = self._write_report()
        verdict = await play.end() if not self._options.serve else None
        document = {
            "event": "summary",
            "figures": rows,
            "steps": len(record.plan_record().plan.steps),
            "decision": record.id,
            "deliveries": None if verdict is None else asdict(verdict),
            "report": str(page),
        }
        if self._options.as_json:
            print_json(document)
        else:
            _print(document)
        is_better = all((row["change"] or 0.0) < 0 for row in rows[:2])
        return 0 if is_better and (verdict is None or verdict.is_clean) else FAILED

    def _measured(
        self, play: Play, look: int, topology: Topology, cost_ms: float | None
    ) -> Figures:
        from pubweave.cli.demo_measures import measured

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
        from pubweave.control.records import list_decisions
        from pubweave.deploy.layout import Layout
        from pubweave.model.decisions import DecisionState
        from pubweave.runtime.store_session import opened_store, run_command

        assert self._overlay.zookeeper is not None
        async with opened_store(self._overlay.zookeeper) as store:
            records = await run_command(store, list_decisions(Layout(self._overlay.spec.name)))
        deployed = [r for r in records if r.state is DecisionState.DEPLOYED]
        return deployed[-1] if deployed else None

    def _target(self, record: DecisionRecord) -> Topology:
        """The tree that was decided on."""
        from pubweave.model.ids import Link
        from pubweave.model.topology import Topology

        chosen = record.chosen_alternative
        assert chosen is not None
        source = self._world.topology
        removed = {Link.between(*pair) for pair in chosen.removed_links}
        added = {Link.between(*pair) for pair in chosen.added_links}
        return Topology(source.brokers, (source.links - removed) | added)

    def _predicted(self, record: DecisionRecord) -> Figures:
        """The recorded traffic in simulation on the planned tree, and the design's cost."""
        from pubweave.cli.demo_measures import Figures
        from pubweave.model.profile_files import WorkloadProfile
        from pubweave.sim.replay import replay
        from pubweave.telemetry.traffic_reader import read_traffic

        profile = WorkloadProfile(self._profiles[0])
        costs = [row["processing_ms"] for row in profile.rows("broker_costs")]
        recorded = read_traffic(self._work / "window", window_s=self._options.seconds / 2)
        played = replay(
            self._target(record),
            recorded,
            latency_ms=self._world.distances_ms.__getitem__,
            processing_ms=sum(costs) / len(costs) if costs else 0.0,
        )
        cost_ms = None if record.prediction is None else record.prediction.cost_ms_per_notification
        return Figures(
            cost_ms,
            played.latency_ms_mean,
            played.latency_ms_p99,
            played.hops_mean,
            played.crossings_per_delivery,
        )

    def _write_report(self) -> Path:
        from pubweave.cli.report import page
        from pubweave.model.profile_files import WorkloadProfile
        from pubweave.model.whole_files import replace_file

        path = self._options.run_dir / "report.html"
        replace_file(path, page(WorkloadProfile(self._profiles[1])).encode())
        return path


def _cost_before(record: DecisionRecord) -> float | None:
    return None if record.inputs is None else record.inputs.cost_ms_per_notification


def _print(document: dict[str, Any]) -> None:
    from rich.table import Table

    shown = Table(box=None, pad_edge=False)
    shown.add_column("")
    for title in ("before", "predicted", "after", "change", "prediction off by"):
        shown.add_column(title, justify="right")
    for row in document["figures"]:
        values = [_number(row[name]) for name in ("before", "predicted", "after")]
        shares = [_percent(row[name]) for name in ("change", "prediction_error")]
        shown.add_row(row["figure"], *values, *shares)
    output_console().print(shown)
    click.echo(f"the change took {document['steps']} steps, while traffic flowed")
    verdict = document["deliveries"]
    if verdict is not None:
        click.echo(
            f"{verdict['delivered']:,} of {verdict['expected']:,} deliveries: {verdict['lost']} "
            f"lost, {verdict['duplicated']} duplicated, {verdict['unexpected']} unexpected, "
            f"{verdict['out_of_order']} out of order"
        )
    click.echo(f"report: {document['report']}")


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:,.2f}"


def _percent(share: float | None) -> str:
    return "-" if share is None else f"{share:+.1%}"
