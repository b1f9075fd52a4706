"""``pubweave autopilot``: let an overlay be watched and, if it pays, changed.

Parsing and exit codes; the loop is in `control`, its driver in `autopilot/driver`.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from pubweave.cli.deploy.run import step_timeout_option
from pubweave.cli.errors import BadInput, blaming
from pubweave.cli.kinds import (
    COUNT,
    COUNT_OR_ZERO,
    DIRECTORY,
    NOT_NEGATIVE,
    POSITIVE,
    SHARE,
    together,
)
from pubweave.cli.options.coordination import DeploymentChoice, ask_store, deployment_options
from pubweave.cli.options.design_inputs import price_options, read_latency
from pubweave.cli.options.plan_rules import link_named
from pubweave.cli.options.settings import config_option, set_option
from pubweave.cli.output import json_option, print_json, remark
from pubweave.control.settings import (
    ChangePrices,
    ControlSettings,
    EvidenceDemands,
    OperatorLimits,
    QuietHours,
)
from pubweave.deploy.commands import read_topology
from pubweave.model.decisions import AutopilotStatus, ControlMode
from pubweave.model.topology import Topology
from pubweave.runtime.net.signals import StopRequest, run_async
from pubweave.runtime.overlay.run_directory import TELEMETRY_DIRECTORY
from pubweave.runtime.settings.sources import read_settings
from pubweave.runtime.settings.text import kinds_in
from pubweave.runtime.settings.tree import AutopilotTable

if TYPE_CHECKING:
    from pubweave.autopilot.driver import AssumedPrices, OnTell, PilotSetup


_limit_options = together(
    click.option("--max-degree", type=COUNT, help="No broker gets more links than this."),
    click.option("--pin", "pins", multiple=True, metavar="A-B", help="This link stays."),
    click.option("--forbid", "bans", multiple=True, metavar="A-B", help="This one never is."),
    click.option(
        "--budget-per-change", type=COUNT, metavar="LINKS", help="New links in one change, at most."
    ),
    click.option(
        "--budget-per-day",
        type=COUNT_OR_ZERO,
        metavar="LINKS",
        help="New links within 24 hours, at most.",
    ),
    click.option(
        "--quiet-hours",
        multiple=True,
        metavar="22:00-06:00",
        help="Nothing is changed then, by this machine's clock.",
    ),
)
"""What no change may do."""


_worth_options = together(
    click.option(
        "--mode",
        type=click.Choice(["observe", "approve", "auto"]),
        default="observe",
        help="Only say what would be done, ask first, or do it.",
    ),
    click.option("--period", type=POSITIVE, default=300.0, help="Seconds between two looks."),
    click.option(
        "--free-period",
        type=NOT_NEGATIVE,
        default=900.0,
        help="Seconds between two changes, at least.",
    ),
    click.option(
        "--least-saving", type=SHARE, default=0.02, help="The share of the cost a change must save."
    ),
    click.option(
        "--change-weight",
        type=NOT_NEGATIVE,
        default=1.0,
        help="How much more than its messages a change counts.",
    ),
    click.option(
        "--window",
        type=POSITIVE,
        default=60.0,
        help="Seconds of traffic a profile must show, at least.",
    ),
    click.option(
        "--review",
        type=POSITIVE,
        default=3600.0,
        help="Mode approve: seconds until a proposal expires.",
    ),
)
"""When and for what a change is made."""


@click.command()
@deployment_options
@_worth_options
@_limit_options
@price_options
@click.option(
    "--telemetry", type=DIRECTORY, help="Where brokers write it. [default: RUN_DIR/telemetry]"
)
@click.option(
    "--work", type=DIRECTORY, help="For profiles and Spark's log. [default: RUN_DIR/autopilot]"
)
@click.option("--looks", type=COUNT, help="End after so many looks.")
@click.option(
    "--search-limit",
    type=POSITIVE,
    default=30.0,
    help="Seconds for the search for better trees, per look.",
)
@click.option(
    "--plan-limit", type=POSITIVE, default=5.0, help="Seconds for planning the way to each of them."
)
@step_timeout_option
@click.option(
    "--rehearse/--no-rehearse",
    default=True,
    help="Carry a plan out in simulation first, on the recorded traffic.",
)
@click.option("--memory", default="2g", help="Memory of Spark's driver.")
@click.option("--seed", default=0, type=COUNT_OR_ZERO)
@config_option
@set_option
@json_option
@click.pass_context
def autopilot(
    ctx: click.Context, /, deployment: DeploymentChoice, as_json: bool, **given: Any
) -> None:
    """Watch a running overlay and change it when that pays.

    Every period the telemetry is profiled by Spark, better trees are searched for and plans to
    them made; the best is carried out if what it saves until the next change is possible exceeds
    what it costs. Every look is a record: see 'pubweave decisions'. Ctrl-C ends in order, also in
    the middle of a plan; started again, it goes on where it was.

    \b
    Example:
      pubweave autopilot --assume-latency 1
      pubweave autopilot --mode approve --latency rtt.csv --quiet-hours 22:00-06:00
      pubweave autopilot --mode auto --max-degree 6 --budget-per-day 20 --pin b1-b2
      pubweave autopilot --config overlay.toml --set autopilot.period_s=60
    """
    from pubweave.autopilot.driver import PilotSetup

    given |= _configured(ctx, given.pop("config"), given.pop("sets"))
    run_dir, where = deployment.run_dir, deployment.find()
    telemetry = given["telemetry"] or run_dir / TELEMETRY_DIRECTORY
    if not telemetry.is_dir():
        raise BadInput(
            f"{telemetry} does not exist: start the overlay with telemetry, or name its folder "
            "with --telemetry"
        )
    setup = PilotSetup(
        where=where,
        settings=_settings(given, ask_store(where, read_topology)),
        telemetry=telemetry,
        work=(given["work"] or run_dir / "autopilot").resolve(),
        prices=_prices(given["latency"], given["assume_latency"]),
        step_timeout_s=given["step_timeout"],
        plan_limit_s=given["plan_limit"],
        search_limit_s=given["search_limit"],
        memory=given["memory"],
        seed=given["seed"],
        looks=given["looks"],
        rehearse=given["rehearse"],
    )
    ctx.exit(run_async(_fly(setup, as_json)))


async def _fly(setup: PilotSetup, as_json: bool) -> int:
    """Until a signal asks it to end; the exit code."""
    from pubweave.autopilot.driver import LivePilot

    async with StopRequest() as stop:
        await LivePilot(setup, _teller(as_json), stop).run()
        return stop.exit_code


def _configured(ctx: click.Context, config: Path | None, sets: tuple[str, ...]) -> dict[str, Any]:
    """What ``[autopilot]`` says, by parameter; a flag that was given goes before it."""
    table = read_settings(config, os.environ, sets).settings.autopilot
    return {
        name: getattr(table, key)
        for name, key in _KEYS.items()
        if ctx.get_parameter_source(name) is ParameterSource.DEFAULT
    }


_RENAMED = {
    "period": "period_s",
    "free_period": "free_period_s",
    "window": "window_s",
    "review": "review_s",
    "budget_per_change": "links_per_change",
    "budget_per_day": "links_per_day",
    "assume_latency": "assume_latency_ms",
    "search_limit": "search_limit_s",
    "plan_limit": "plan_limit_s",
    "step_timeout": "step_timeout_s",
}
_KEYS = {key: key for key in kinds_in(AutopilotTable) if key not in _RENAMED.values()} | _RENAMED
"""The key of the table that each parameter stands for."""


def _settings(given: dict[str, Any], topology: Topology) -> ControlSettings:
    known = topology.brokers
    with blaming("--quiet-hours"):
        quiet = tuple(QuietHours.parse(text) for text in given["quiet_hours"])
    return ControlSettings(
        mode=ControlMode(given["mode"]),
        period_s=given["period"],
        free_period_s=given["free_period"],
        least_saving=given["least_saving"],
        review_s=given["review"],
        limits=OperatorLimits(
            max_degree=given["max_degree"],
            pinned=frozenset(link_named("--pin", text, known) for text in given["pins"]),
            forbidden=frozenset(link_named("--forbid", text, known) for text in given["bans"]),
            links_per_change=given["budget_per_change"],
            links_per_day=given["budget_per_day"],
            quiet_hours=quiet,
            utc_offset_s=float(time.localtime().tm_gmtoff),
        ),
        demands=EvidenceDemands(window_s=given["window"]),
        prices=ChangePrices(weight=given["change_weight"]),
    )


def _prices(latency: Path | None, assumed_ms: float | None) -> AssumedPrices:
    from pubweave.autopilot.driver import AssumedPrices

    matrix, mesh = read_latency(latency)
    return AssumedPrices(matrix, mesh, assumed_ms)


def _teller(as_json: bool) -> OnTell:
    """How the loop's words reach whoever started it."""

    def tell(now: float, status: AutopilotStatus, line: str) -> None:
        if as_json:
            print_json({"at": round(now, 3), "line": line or None, "status": status})
        elif line:
            remark(f"{time.strftime('%H:%M:%S', time.localtime(now))}  {line}")

    return tell
