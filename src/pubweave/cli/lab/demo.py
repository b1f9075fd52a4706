"""``pubweave demo``: the whole loop on this machine, from a bad tree to a better one, with proof.

An overlay of broker processes that pretend to be apart, stock traders on it, and the autopilot:
it has Spark profile the traffic, designs a better tree, plans the fewest steps, applies them while
the traffic flows, and profiles again. Everything here only starts, shows and measures.
"""

from __future__ import annotations

import secrets
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pubweave.cli.autopilot.dashboard import tell_started
from pubweave.cli.errors import FAILED
from pubweave.cli.kinds import COUNT_OR_ZERO, DIRECTORY, PORT
from pubweave.cli.options.coordination import choose_store
from pubweave.cli.output import LiveView, json_option, new_table, output_console, remark, tell
from pubweave.cli.run.up import LINE_INTERVAL_S, LIVE_INTERVAL_S, open_overlay, start_with_progress
from pubweave.runtime.net.signals import StopRequest, run_async

if TYPE_CHECKING:
    from pubweave.demo.clients import DemoPulse

TOKEN_FILE = "dashboard-token"


@click.command()
@click.option("--brokers", default=20, type=click.IntRange(5, 200))
@click.option(
    "--seconds",
    default=30.0,
    type=click.FloatRange(min=10),
    help="How long to measure, before the change and after it.",
)
@click.option("--seed", default=1, type=COUNT_OR_ZERO)
@click.option(
    "--run-dir",
    default="runs/demo",
    type=DIRECTORY,
    help="Where the overlay keeps its state, logs, telemetry and profiles.",
)
@click.option("--serve", is_flag=True, help="Show the dashboard, and go on until Ctrl-C.")
@click.option("--port", default=8642, type=PORT, help="Of --serve.")
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
    ctx.exit(run_async(_run(**given)))


async def _run(
    brokers: int, seconds: float, seed: int, run_dir: Path, serve: bool, port: int, as_json: bool
) -> int:
    from pubweave.demo.stages import Demo
    from pubweave.demo.world import demo_spec, make_demo

    world = make_demo(brokers, seed)
    store = choose_store(None, is_wanted=True)

    async with StopRequest() as stop:
        overlay = open_overlay(demo_spec(world, run_dir), run_dir, as_json, store=store)
        try:
            if not await start_with_progress(overlay, stop, shown=not as_json):
                return stop.exit_code
            said = "brokers are up on a bad tree, with ZooKeeper; state and logs in"
            _say(as_json, f"{brokers} {said} {run_dir}")
            async with AsyncExitStack() as stack:
                view = stack.enter_context(LiveView(as_json=as_json))
                if serve:
                    await stack.enter_async_context(_dashboard(run_dir, port, as_json))
                every_s = LIVE_INTERVAL_S if view.is_live else LINE_INTERVAL_S
                running = Demo(
                    world,
                    overlay,
                    run_dir,
                    seed,
                    seconds=seconds,
                    stop=stop,
                    on_line=partial(_say, as_json),
                    on_pulse=lambda pulse: _show(view, pulse),
                    pulse_every_s=every_s,
                )
                await stack.enter_async_context(running)
                if not await stop.unless(running.improve()):
                    return stop.exit_code
                summary = await running.sum_up(is_over=not serve)
                if summary is not None:
                    document = summary.document()
                    tell(document, as_json, partial(_print_summary, document))
                if serve:
                    await running.go_on()
            return 0 if summary is not None and summary.is_good else FAILED
        finally:
            await overlay.stop()


def _say(as_json: bool, line: str) -> None:
    tell({"event": "stage", "line": line}, as_json, lambda: remark(line))


def _show(view: LiveView, pulse: DemoPulse) -> None:
    from rich.text import Text

    view.show(pulse.document(), str(pulse), lambda: Text(str(pulse)))


def _dashboard(run_dir: Path, port: int, as_json: bool) -> AbstractAsyncContextManager[str]:
    from pubweave.runtime.observe.dashboard_server import serving_dashboard
    from pubweave.runtime.observe.dashboard_source import InRunDirectory

    token, path = secrets.token_hex(24), run_dir / TOKEN_FILE
    path.touch(mode=0o600)
    path.write_text(token + "\n")
    _say(as_json, f"the token for changes on the dashboard is in {path}")
    return serving_dashboard(
        InRunDirectory(run_dir),
        port=port,
        token=token,
        on_address=lambda at: tell_started(at, is_read_only=False, as_json=as_json),
    )


def _print_summary(document: dict[str, Any]) -> None:
    shown = new_table("", "before", "predicted", "after", "change", "prediction off by")
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
