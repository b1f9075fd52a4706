"""``pubweave remap``: brokers of a running rendezvous overlay take other positions on its ring."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pubweave.cli.errors import FAILED, BadInput
from pubweave.cli.kinds import COUNT, EXISTING_FILE
from pubweave.cli.options.coordination import DeploymentChoice, deployment_options
from pubweave.cli.output import json_option, print_json, remark, warn
from pubweave.deploy.documents import Layout
from pubweave.deploy.remap.remapper import RemapDocument, abort_remap, read_remap
from pubweave.model.files.ring_mapping import read_mapping
from pubweave.model.ids import BrokerId
from pubweave.runtime.net.signals import StopRequest, run_async
from pubweave.runtime.store.session import opened_store, run_command
from pubweave.runtime.store.zookeeper_target import Coordination

if TYPE_CHECKING:
    from pubweave.control.remap_decision import RemapDecision


@click.command()
@click.argument("mapping", required=False, type=EXISTING_FILE)
@click.option(
    "--every",
    type=click.FloatRange(min=5.0),
    metavar="SECONDS",
    help="Again and again: measure for so long, and remap if that pays within as long again.",
)
@click.option(
    "--wd",
    "delay_weight",
    default=1.0,
    type=click.FloatRange(min=0, max=1e9),
    help="--every: what a hop of delay weighs against a relayed message.",
)
@click.option("--rounds", type=COUNT, help="--every: end after so many looks.")
@click.option("--abort", is_flag=True, help="Return to the old positions, if that is still open.")
@deployment_options
@json_option
@click.pass_context
def remap(
    ctx: click.Context,
    mapping: Path | None,
    every: float | None,
    delay_weight: float,
    rounds: int | None,
    abort: bool,
    deployment: DeploymentChoice,
    as_json: bool,
) -> None:
    """Move the brokers of a rendezvous overlay to the positions of MAPPING, under traffic.

    MAPPING is a CSV file with the columns broker,position, as 'pubweave design dynatops -o' writes
    it: position 0 is the first one on the ring that a broker has now. While it lasts there are two
    rings; nothing is lost. The brokers see it through by themselves, so this command may be ended:
    without MAPPING it watches the remapping that is under way. With --every it measures what is
    wanted and published, and remaps whenever that pays (DYNATOPS, Algorithm 2).

    Exit code 0 when done, 1 if it was aborted, 2 if it does not fit.

    \b
    Example:
      pubweave design dynatops --subscriptions s.csv --publications p.csv -o mapping.csv
      pubweave remap mapping.csv
      pubweave remap --every 600
      pubweave remap --abort
    """
    if sum((abort, mapping is not None, every is not None)) > 1:
        raise click.UsageError("give one of MAPPING, --every and --abort, not both")
    wanted = None if mapping is None else read_mapping(mapping)
    where = deployment.find()
    if every is not None:
        ctx.exit(run_async(_keep(where, every, delay_weight, rounds, as_json)))
    ctx.exit(run_async(_run(where, wanted, abort, as_json)))


async def _keep(
    where: Coordination, every_s: float, delay_weight: float, rounds: int | None, as_json: bool
) -> int:
    from pubweave.control.remap_decision import RemapDecider
    from pubweave.runtime.coordination.remap_run import remap_when_it_pays

    async with StopRequest() as stop, opened_store(where.target) as store:
        await remap_when_it_pays(
            store,
            where,
            RemapDecider(every_s, delay_weight),
            stop,
            rounds=rounds,
            on_decision=lambda decision: _tell_decision(decision, as_json),
            on_step=lambda step: _tell_step(step, as_json),
            on_trouble=lambda error: warn(f"{error}; trying again in {every_s:g} s"),
        )
        return stop.exit_code


async def _run(
    where: Coordination, wanted: dict[BrokerId, int] | None, abort: bool, as_json: bool
) -> int:
    from pubweave.runtime.coordination.remap_run import remap_to, watch_remap

    layout = Layout(where.overlay)
    began = time.monotonic()
    async with StopRequest() as stop, opened_store(where.target) as store:
        begun: RemapDocument | None
        if abort:
            begun = await run_command(store, abort_remap(layout, "aborted by an operator"))
        elif wanted is None:
            begun = await run_command(store, read_remap(layout))
        else:
            begun = await remap_to(store, where, wanted)
        if begun is None:
            raise BadInput(f"nobody has remapped {where.overlay!r} yet: give a MAPPING")
        last = await watch_remap(
            store, layout.overlay, begun, stop, lambda step: _tell_step(step, as_json)
        )
    seconds = time.monotonic() - began
    if as_json:
        print_json({"event": "ended", **_document(last), "seconds": round(seconds, 3)})
    elif last.step.is_final:
        why = f": {last.reason}" if last.reason else ""
        remark(f"remapping {last.version} {last.step.value}{why} ({seconds:.1f} s)")
    if not last.step.is_final:
        remark(f"remapping {last.version} goes on without us: 'pubweave remap' watches it")
        return stop.exit_code
    return 0 if last.step.is_decided or abort else FAILED


def _document(remap: RemapDocument) -> dict[str, object]:
    return {
        "version": remap.version,
        "step": remap.step.value,
        "brokers": len(remap.mapping),
        "reason": remap.reason or None,
    }


def _tell_step(remap: RemapDocument, as_json: bool) -> None:
    if as_json:
        print_json({"event": "step", **_document(remap)})
    elif not remap.step.is_final:
        remark(f"remapping {remap.version}: {remap.step.value}")


def _tell_decision(decision: RemapDecision, as_json: bool) -> None:
    if as_json:
        print_json({"event": "decision", **asdict(decision)})
        return
    text = f"cost {decision.cost_now:,.0f} per period: {decision.reason}"
    if decision.cost_then is not None:
        text += (
            f"; {decision.cost_then:,.0f} after moving {decision.moved} brokers, "
            f"benefit {decision.benefit:,.0f} for {decision.reconfiguration_cost:,.0f} messages"
        )
    remark(text)
