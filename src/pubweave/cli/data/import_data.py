"""``pubweave import``: outside data as telemetry, to be profiled and replayed."""

from __future__ import annotations

from pathlib import Path

import click

from pubweave.cli.output import json_option, print_json, warn


@click.command(name="import")
@click.argument("kind", type=click.Choice(["stocks", "checkins", "subscriptions", "latency"]))
@click.argument("files", nargs=-1, required=True, metavar="FILE...")
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="DIR",
    help="The run directory to make; another kind may be there already.",
)
@click.option(
    "--cell",
    type=click.FloatRange(min=0.0001),
    default=0.01,
    help="With checkins: degrees of a cell.",
)
@click.option("--master", default="local[*]", help="Spark's master URL.")
@click.option("--memory", default="2g", help="Memory of Spark's driver.")
@json_option
def import_data(
    kind: str,
    files: tuple[str, ...],
    output: str,
    cell: float,
    master: str,
    memory: str,
    as_json: bool,
) -> None:
    """Bring data of another system into the tables of a run.

    \b
    stocks         class,symbol,date,open,high,low,close,volume -> publications
    checkins       user,time,lat,lon -> subscriptions that follow people around
    subscriptions  client,topic or client,filter (and the like) -> subscriptions
    latency        a square matrix, or slice,node,n0,n1,... -> round trips

    Files are CSV, gzip or not. Imports of several kinds into one directory make one run.

    \b
    Example:
      pubweave import stocks quotes.csv.gz -o outside
      pubweave import subscriptions followers.csv -o outside
      pubweave profile outside -o profile
    """
    from pubweave.pipeline import importers
    from pubweave.pipeline.frames.locations import local_path
    from pubweave.pipeline.frames.session import spark_session

    target = local_path(output)
    log = None if target is None else Path(target) / "spark.log"
    spark = spark_session(master, memory=memory, log=log, name="pubweave import")
    try:
        match kind:
            case "stocks":
                done = importers.import_stocks(spark, files, output)
            case "checkins":
                done = importers.import_checkins(spark, files, output, cell)
            case "subscriptions":
                done = importers.import_subscriptions(spark, files, output)
            case _:
                done = importers.import_latency(spark, files, output)
    finally:
        spark.stop()
    if as_json:
        print_json(done.__dict__)
        return
    click.echo(f"{done.records:,} records in {output}/{done.table}")
    if done.refused:
        warn(f"{done.refused:,} rows were refused, see {output}/quarantine; one: {done.example}")
