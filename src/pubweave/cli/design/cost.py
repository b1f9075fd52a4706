"""``pubweave cost``: what a tree costs for measured traffic, and where the cost comes from."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pubweave.cli.kinds import COUNT_OR_ZERO, FILE
from pubweave.cli.options.design_inputs import price_options, profile_option, read_inputs
from pubweave.cli.output import json_option, new_table, output_console, tell
from pubweave.design.tree.traffic import Prices

if TYPE_CHECKING:
    from pubweave.design.tree.cost import TreeCost


@click.command()
@click.argument("topology_file", metavar="TOPOLOGY", type=FILE)
@profile_option
@price_options
@click.option("--top", default=5, type=COUNT_OR_ZERO, help="How many to list.")
@json_option
def cost(
    topology_file: Path,
    profile_dir: Path,
    latency: Path | None,
    assume_latency: float | None,
    top: int,
    as_json: bool,
) -> None:
    """Price a tree for the traffic of a profile (CI Eqs. 1 and 2).

    A notification costs the processing time of every broker it passes and the latency of every
    link it crosses, both as measured.

    \b
    Example:
      pubweave cost tree.json --profile profile
    """
    from pubweave.design.tree.cost import tree_cost

    inputs = read_inputs(profile_dir, topology_file, latency, assume_latency)
    priced = tree_cost(inputs.traffic, inputs.prices, inputs.source)
    document = _document(priced, inputs.prices, top, inputs.traffic.set_count)
    tell(
        {"topology": str(topology_file), **document},
        as_json,
        lambda: _print(str(topology_file), document),
    )


def _document(priced: TreeCost, prices: Prices, top: int, sets: int) -> dict[str, Any]:
    from pubweave.design.tree.cost import dearest

    price_of = dict(zip(prices.brokers, prices.processing.tolist(), strict=True))
    links = {link: load * prices.of_link(link) for link, load in priced.link_load.items() if load}
    relays = {broker: load * price_of[broker] for broker, load in priced.relayed.items() if load}
    return {
        "cost_ms": priced.total,
        "processing_ms": priced.processing,
        "communication_ms": priced.communication,
        "notifications": priced.notifications,
        "deliveries": priced.deliveries,
        "distinct_sets": sets,
        "cost_per_notification_ms": priced.per_notification,
        "cost_per_delivery_ms": priced.per_delivery,
        "relay_ms": sum(relays.values()),
        "dearest_links": [
            {
                "link": list(link),
                "cost_ms": worth,
                "latency_ms": prices.of_link(link),
                "notifications": priced.link_load[link],
            }
            for link, worth in dearest(links, top)
        ],
        "dearest_relays": [
            {
                "broker": broker,
                "cost_ms": worth,
                "processing_ms": price_of[broker],
                "relayed": priced.relayed[broker],
            }
            for broker, worth in dearest(relays, top)
        ],
    }


def _print(name: str, document: dict[str, Any]) -> None:
    total = document["cost_ms"]
    click.echo(
        f"{name}: {total:,.1f} ms for {document['notifications']:,.0f} notifications "
        f"({document['distinct_sets']:,} distinct sets of brokers)"
    )
    for part, title in (
        ("processing_ms", "processing"),
        ("relay_ms", "  of it by relays"),
        ("communication_ms", "communication"),
    ):
        share = document[part] / total if total else 0.0
        click.echo(f"  {title:18s}{document[part]:>16,.1f} ms {share:6.1%}")
    click.echo(
        f"  {document['cost_per_notification_ms']:,.3f} ms a notification, "
        f"{document['cost_per_delivery_ms']:,.3f} ms a delivery"
    )
    for title, first, price, load in (
        ("dearest links", "link", "latency", "notifications"),
        ("dearest relays", "broker", "processing", "relayed"),
    ):
        rows = document[title.replace(" ", "_")]
        if not rows:
            continue
        headings = (first, "cost, ms", "share", f"{price}, ms", load)
        table = new_table(*headings, title=title, title_justify="left")
        for row in rows:
            table.add_row(
                row[first] if first == "broker" else "-".join(row[first]),
                f"{row['cost_ms']:,.1f}",
                f"{row['cost_ms'] / total:.1%}",
                f"{row[f'{price}_ms']:.3f}",
                f"{row[load]:,.0f}",
            )
        output_console().print(table)
