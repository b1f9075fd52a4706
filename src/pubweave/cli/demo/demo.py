"""``pubweave demo``: the whole loop on this machine, from a bad tree to a better one, with proof.

An overlay of broker processes that pretend to be apart, stock traders on it, and the autopilot:
it has Spark profile the traffic, designs a better tree, plans the fewest steps, applies them while
the traffic flows, and profiles again. Everything here only starts, shows and measures.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from pubweave.cli.demo.world import make_demo
from pubweave.cli.kinds import COUNT_OR_ZERO, DIRECTORY, PORT
from pubweave.cli.options.brokers import choose_store
from pubweave.cli.output import json_option
from pubweave.cli.run.up import open_overlay, start_with_progress
from pubweave.runtime.net.signals import StopRequest, run_async
from pubweave.runtime.overlay.run_directory import TELEMETRY_DIRECTORY
from pubweave.runtime.overlay.spec import make_spec

if TYPE_CHECKING:
    from pubweave.cli.demo.stages import DemoOptions


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
    from pubweave.cli.demo.stages import DemoOptions

    ctx.exit(run_async(_run(DemoOptions(**given))))


async def _run(options: DemoOptions) -> int:
    from pubweave.cli.demo.stages import Demo

    world = make_demo(options.brokers, options.seed)
    telemetry = options.run_dir / TELEMETRY_DIRECTORY
    spec = make_spec(world.topology, name="demo", base_port=0, telemetry_directory=telemetry)
    spec = replace(spec, distances_ms=world.distances_ms)
    store = choose_store(None, is_wanted=True)
    async with StopRequest() as stop:
        overlay = open_overlay(spec, options.run_dir, options.as_json, store=store)
        try:
            if not await start_with_progress(overlay, stop, shown=not options.as_json):
                return stop.exit_code
            return await Demo(options, world, overlay, stop).run()
        finally:
            await overlay.stop()
