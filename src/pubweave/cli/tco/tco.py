"""``pubweave tco``: topic-connected overlays, built, kept under churn, and verified.

Parsing, progress, printing and exit codes only. Nodes are the clients of a subscriptions file.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import click

from pubweave.cli.errors import FAILED
from pubweave.cli.output import json_option, print_json, progress_bar, remark, warn
from pubweave.cli.tco.churn import FILE, churn
from pubweave.design.tco.interests import Subscriptions
from pubweave.model.files.subscriptions import read_subscriptions
from pubweave.model.files.topology import read_topology, write_topology

GAPS_SHOWN = 10


@click.group()
def tco() -> None:
    """Overlays in which every topic's subscribers are connected among themselves.

    Subscriptions are CSV (gzip or not) or Parquet with the columns client,topic; a client is a
    node of the overlay. An overlay is node-link JSON.

    \b
    Example:
      pubweave tco build subscriptions.csv -o overlay.json
      pubweave tco verify overlay.json subscriptions.csv
      pubweave tco churn overlay.json --subscriptions subscriptions.csv --joins 500 --leaves 500
    """


tco.add_command(churn)


@tco.command()
@click.argument("subscriptions", type=FILE)
@click.option("-o", "--output", type=FILE, required=True, help="The overlay, as node-link JSON.")
@click.option(
    "--mode",
    default="low-oda",
    type=click.Choice(["low-oda", "gm"]),
    help="Low maximum and average degree, or the least average degree whatever the maximum.",
)
@click.option(
    "--rho",
    default=3.0,
    type=click.FloatRange(min=1),
    help="low-oda: how many times more a link must contribute to raise the maximum degree.",
)
@click.option("--spark", is_flag=True, help="Build parts side by side; for 100,000 and more.")
@click.option(
    "--part-size",
    default=20_000,
    type=click.IntRange(min=2),
    help="--spark: nodes of a part; larger parts mean lower degrees and more time.",
)
@click.option(
    "--variant",
    default="divide",
    type=click.Choice(["divide", "backbone"]),
    help="--spark: join parts by representatives, or attach everybody to a backbone.",
)
@click.option("--master", default="local[*]", help="--spark: its master URL.")
@click.option("--memory", default="4g", help="--spark: memory of its driver.")
@json_option
def build(
    subscriptions: Path,
    output: Path,
    mode: str,
    rho: float,
    spark: bool,
    as_json: bool,
    **scale: Any,
) -> None:
    """Build a topic-connected overlay of low degree from SUBSCRIPTIONS, and verify it.

    The links are those of Low-ODA (rho = 3), chosen exactly; ties go to nodes with more topics,
    then to those that come first in the file.

    \b
    Example:
      pubweave tco build subscriptions.csv -o overlay.json
      pubweave tco build followers.parquet -o overlay.json --mode gm --json
      pubweave tco build large.parquet -o overlay.json --spark
    """
    from pubweave.design.tco.low_oda import Mode, build_overlay
    from pubweave.design.tco.verify import verify as verified

    wanted = Subscriptions.from_pairs(*read_subscriptions(subscriptions))
    began = time.perf_counter()
    with progress_bar("joining parts of topics, %", 100, shown=not as_json) as bar:

        def tell(share: float) -> None:
            bar.to(round(100 * share))

        if spark:
            from pubweave.pipeline.batch import build_on_spark

            links = build_on_spark(
                wanted, Mode(mode), rho, log=output.with_suffix(".spark.log"), tell=tell, **scale
            )
        else:
            links = build_overlay(wanted, Mode(mode), rho=rho, on_progress=tell)
    seconds = time.perf_counter() - began
    verdict = verified(wanted, links)
    write_topology(wanted.overlay(links), output)
    document = {
        "output": str(output),
        "mode": mode,
        **_degrees(wanted.node_count, links),
        "topics": wanted.topic_count,
        "subscriptions": wanted.size,
        "seconds": round(seconds, 4),
        "is_connected": verdict.is_connected,
    }
    if as_json:
        print_json(document)
    else:
        click.echo(
            f"{document['nodes']:,} nodes, {document['topics']:,} topics, "
            f"{document['subscriptions']:,} subscriptions\n{document['links']:,} links; degree "
            f"{document['average_degree']:.2f} on average, {document['max_degree']} at most; "
            f"{seconds:.2f} s"
        )
        remark(f"wrote {output}; verified: every topic is connected")
    if not verdict.is_connected:
        warn(f"{len(verdict.gaps)} topics are not connected: {verdict.gaps[0]}; please report it")
        raise click.exceptions.Exit(FAILED)


def _degrees(nodes: int, links: Any) -> dict[str, Any]:
    import numpy as np

    degrees = np.bincount(links.ravel(), minlength=nodes)
    return {
        "nodes": nodes,
        "links": len(links),
        "average_degree": round(2 * len(links) / nodes, 4) if nodes else 0.0,
        "max_degree": int(degrees.max(initial=0)),
    }


@tco.command()
@click.argument("overlay", type=FILE)
@click.argument("subscriptions", type=FILE)
@json_option
def verify(overlay: Path, subscriptions: Path, as_json: bool) -> None:
    """Prove that OVERLAY connects the subscribers of every topic, or name those it does not.

    Any node-link JSON or GraphML will do, whoever made it. Exit code 1 if a topic is not
    connected. A client that is no node of the overlay is connected with nobody.

    \b
    Example:
      pubweave tco verify overlay.json subscriptions.csv
    """
    from pubweave.design.tco.verify import verify as verified

    topology = read_topology(overlay)
    wanted = Subscriptions.from_pairs(*read_subscriptions(subscriptions))
    links = wanted.links_of(topology)
    verdict = verified(wanted, links)
    missing = [client for client in wanted.nodes if client not in topology.brokers]
    if as_json:
        gaps = [{"topic": gap.topic, "one": gap.one, "other": gap.other} for gap in verdict.gaps]
        print_json(
            {
                "is_connected": verdict.is_connected,
                "topics": verdict.topics,
                "gaps": gaps,
                "missing_clients": len(missing),
                **_degrees(wanted.node_count, links),
            }
        )
    else:
        _print_verdict(verdict, missing, _degrees(wanted.node_count, links))
    if not verdict.is_connected:
        raise click.exceptions.Exit(FAILED)


def _print_verdict(verdict: Any, missing: list[str], degrees: dict[str, Any]) -> None:
    for gap in verdict.gaps[:GAPS_SHOWN]:
        click.echo(str(gap))
    if len(verdict.gaps) > GAPS_SHOWN:
        click.echo(f"... and {len(verdict.gaps) - GAPS_SHOWN:,} more topics (--json has all)")
    if missing:
        warn(f"{len(missing):,} clients are no nodes of the overlay, for example {missing[0]!r}")
    state = (
        f"{len(verdict.gaps):,} of {verdict.topics:,} topics are not connected"
        if verdict.gaps
        else f"connected: all {verdict.topics:,} topics"
    )
    click.echo(
        f"{state}; {degrees['links']:,} links among {degrees['nodes']:,} clients, degree "
        f"{degrees['average_degree']:.2f} on average, {degrees['max_degree']} at most"
    )
