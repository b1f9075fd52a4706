"""``pubweave remap``: brokers of a running rendezvous overlay take other positions on its ring."""

from __future__ import annotations

import csv
import time
from pathlib import Path

import click

from pubweave.cli.errors import FAILED, BadInput
from pubweave.cli.kinds import COUNT, EXISTING_FILE
from pubweave.cli.options.coordination import DeploymentChoice, deployment_options
from pubweave.cli.output import json_option, print_json, remark
from pubweave.deploy.layout import Layout
from pubweave.deploy.remap.documents import (
    RemapDocument,
    RemapRefusedError,
    abort_remap,
    read_remap,
    submit_remap,
)
from pubweave.model.ids import BrokerId
from pubweave.runtime.net.signals import StopRequest, run_async
from pubweave.runtime.store.session import opened_store, run_command
from pubweave.runtime.store.zookeeper_store import ZooKeeperStore
from pubweave.runtime.store.zookeeper_target import Coordination

HEADER = ["broker", "position"]


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
        from pubweave.cli.deploy.remap_loop import LoopChoice, keep_remapping

        loop = LoopChoice(every, delay_weight, rounds)
        ctx.exit(run_async(keep_remapping(where, loop, as_json)))
    ctx.exit(run_async(_run(where, wanted, abort, as_json)))


def read_mapping(path: Path) -> dict[BrokerId, int]:
    """Places on the ring by broker: 0 for the first one; BadInput names the line."""
    found: dict[BrokerId, int] = {}
    with path.open(encoding="utf-8-sig", newline="") as file:
        rows = csv.reader(file)
        header = [name.strip() for name in next(rows, [])]
        if header != HEADER:
            raise BadInput(f"{path}: its first line must be {','.join(HEADER)}")
        for row in rows:
            if not row:
                continue
            fields = [field.strip() for field in row]
            if len(fields) != 2 or not fields[0] or not fields[1].isdecimal():
                raise BadInput(f"{path}: line {rows.line_num}: write {','.join(HEADER)}")
            if fields[0] in found:
                raise BadInput(f"{path}: line {rows.line_num}: {fields[0]!r} comes twice")
            found[fields[0]] = int(fields[1])
    if sorted(found.values()) != list(range(len(found))):
        raise BadInput(f"{path}: positions must be 0 to {len(found) - 1}, each once")
    return found


async def _run(
    where: Coordination, wanted: dict[BrokerId, int] | None, abort: bool, as_json: bool
) -> int:
    from pubweave.cli.deploy.remap_loop import remap_document, watch_remap

    layout = Layout(where.overlay)
    began = time.monotonic()
    async with StopRequest() as stop, opened_store(where.target) as store:
        try:
            if abort:
                reason = "aborted by an operator"
                begun: RemapDocument | None = await run_command(store, abort_remap(layout, reason))
            elif wanted is None:
                begun = await run_command(store, read_remap(layout))
            else:
                positions = await _positions(store, where, wanted)
                begun = await run_command(store, submit_remap(layout, positions))
        except RemapRefusedError as error:
            raise BadInput(str(error)) from error
        if begun is None:
            raise BadInput(f"nobody has remapped {where.overlay!r} yet: give a MAPPING")
        last = await watch_remap(store, layout.overlay, begun, stop, as_json)
    seconds = time.monotonic() - began
    if as_json:
        print_json({"event": "ended", **remap_document(last), "seconds": round(seconds, 3)})
    elif last.step.is_final:
        why = f": {last.reason}" if last.reason else ""
        remark(f"remapping {last.version} {last.step.value}{why} ({seconds:.1f} s)")
    if not last.step.is_final:
        remark(f"remapping {last.version} goes on without us: 'pubweave remap' watches it")
        return stop.exit_code
    return 0 if last.step.is_decided or abort else FAILED


async def _positions(
    store: ZooKeeperStore, where: Coordination, wanted: dict[BrokerId, int]
) -> dict[BrokerId, int]:
    """The ids on the ring that the places of a mapping mean: those that brokers have now."""
    from pubweave.cli.deploy.remap_loop import observe

    statuses = await observe(store, where)
    if statuses.keys() != wanted.keys():
        odd = sorted(statuses.keys() ^ wanted.keys())
        which = "the mapping lacks" if odd[0] in statuses else "no broker runs that is called"
        raise BadInput(f"{which} {odd[0]!r}: a mapping names every broker once")
    ids = sorted(status.own.position for status in statuses.values())
    return {broker: ids[place] for broker, place in wanted.items()}
