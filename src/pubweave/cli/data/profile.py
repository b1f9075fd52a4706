"""``pubweave profile``: from telemetry to a workload profile."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from pubweave.cli.errors import BadInput
from pubweave.cli.kinds import COUNT, NOT_NEGATIVE
from pubweave.cli.output import json_option, output_console, print_json, progress_bar, remark
from pubweave.model.files.profile import WorkloadProfile
from pubweave.model.profile import ProfileDescription, RefreshSummary
from pubweave.plots.profile_summary import summary_lines

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from pubweave.pipeline.frames.settings import ProfileSettings

SPARK_LOG = "spark.log"


@click.command()
@click.argument("run_dir")
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="DIR",
    help="Where it goes; an earlier profile stays till the new is complete.",
)
@click.option(
    "--follow", is_flag=True, help="Keep it up to date as telemetry arrives; Ctrl-C ends."
)
@click.option(
    "--every",
    type=click.FloatRange(min=0.1),
    default=5.0,
    help="With --follow: seconds between two profiles, at least.",
)
@click.option(
    "--slot", type=click.FloatRange(min=0.001), default=10.0, help="Seconds of a time slot."
)
@click.option(
    "--settle",
    type=NOT_NEGATIVE,
    default=2.0,
    help="Seconds a subscription may take to reach all brokers.",
)
@click.option("--hops", type=COUNT, default=3, help="How far a broker's neighborhood reaches.")
@click.option("--master", default="local[*]", help="Spark's master URL.")
@click.option("--memory", default="2g", help="Memory of Spark's driver.")
@click.option("--conf", multiple=True, metavar="KEY=VALUE", help="A Spark setting; repeatable.")
@json_option
def profile(
    run_dir: str,
    output: str,
    follow: bool,
    every: float,
    slot: float,
    settle: float,
    hops: int,
    master: str,
    memory: str,
    conf: tuple[str, ...],
    as_json: bool,
) -> None:
    """Turn the telemetry in RUN_DIR into a workload profile.

    RUN_DIR is the directory of an overlay or of a simulation's telemetry; RUN_DIR and DIR may be
    any URI that Spark's file systems know. Needs Java 17 or newer.

    \b
    Example:
      pubweave profile runs/demo -o profile
      pubweave profile runs/demo -o profile --follow
      pubweave profile hdfs://store/run7 -o hdfs://store/profile7 --master spark://host:7077
    """
    from pubweave.pipeline.frames.settings import ProfileSettings

    settings = ProfileSettings(slot_s=slot, settle_s=settle, neighborhood_hops=hops)
    spark = _session(run_dir, output, master, memory, conf)
    try:
        if follow:
            _follow(spark, run_dir, output, settings, every, as_json)
        else:
            _once(spark, run_dir, output, settings, as_json)
    finally:
        spark.stop()


def _session(
    source: str, output: str, master: str, memory: str, conf: tuple[str, ...]
) -> SparkSession:
    from pubweave.pipeline.frames.locations import local_path
    from pubweave.pipeline.frames.session import spark_session
    from pubweave.pipeline.frames.small_tables import is_small

    settings = dict(_setting(text) for text in conf)
    path = local_path(source)
    if path is not None and not path.exists():
        raise BadInput(f"{source} does not exist: name the directory of a run")
    target = local_path(output)
    log = None if target is None else target / SPARK_LOG
    return spark_session(
        master,
        memory=memory,
        conf=settings,
        log=log,
        quick=is_small(source),
        name="pubweave profile",
    )


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key:
        raise BadInput(f"--conf {text}: write it as KEY=VALUE")
    return key, value


def _once(
    spark: SparkSession, source: str, output: str, settings: ProfileSettings, as_json: bool
) -> None:
    from pubweave.pipeline.batch import run_profile

    started = time.monotonic()
    with progress_bar("tables", None, shown=not as_json) as bar:
        description = run_profile(
            spark,
            source,
            output,
            settings,
            time.time(),
            on_done=lambda _, done, total: bar.to(done, total),
        )
    _show(description, output, time.monotonic() - started, as_json)


def _follow(
    spark: SparkSession,
    source: str,
    output: str,
    settings: ProfileSettings,
    every: float,
    as_json: bool,
) -> None:
    from pubweave.pipeline.streaming.follow import Follower

    follower = Follower(spark, source, output, settings, every_s=every)
    shown: int | None = None
    is_told = False
    remark("the first profile takes a minute: Spark compiles its queries; then each is quicker")
    with follower.running():
        while follower.is_active():
            latest = follower.latest()
            if latest is not None and latest.batch != shown:
                shown = latest.batch
                _show(latest, output, sum(latest.stage_seconds.values()), as_json)
                if latest.refresh is not None and not as_json:
                    remark(refresh_line(latest.batch, latest.refresh))
            if not is_told and follower.is_ready():
                is_told = True
                remark(f"following {source}; Ctrl-C ends, the same command goes on from there")
            time.sleep(0.5)


def refresh_line(batch: int | None, refresh: RefreshSummary) -> str:
    """How old the news was, and what was read for it."""
    told = (
        f"batch {batch}: its records waited at most {refresh.waited_s:.1f} s; "
        f"{refresh.open_records:,} read, {refresh.closed_records:,} closed before"
    )
    return told if refresh.rebuilt is None else f"{told}; all counted anew: {refresh.rebuilt}"


def _show(description: ProfileDescription, output: str, seconds: float, as_json: bool) -> None:
    if as_json:
        print_json(description)
        return
    from pubweave.pipeline.frames.locations import local_path

    path = local_path(output)
    if path is None:
        rows = sum(table.rows for table in description.tables.values())
        click.echo(f"{len(description.tables)} tables with {rows:,} rows in {output}")
        return
    console = output_console()
    for label, text in summary_lines(WorkloadProfile(Path(path))):
        console.print(f"[bold]{label:<16}[/bold] {text}", highlight=False, soft_wrap=True)
    console.print(f"{'profile':<16} {output} in {seconds:.1f} s; look at it with 'pubweave report'")
