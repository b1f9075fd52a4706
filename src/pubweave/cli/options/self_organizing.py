"""Options that let an overlay organize itself: for whoever starts one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from pubweave.cli.errors import BadInput, blaming
from pubweave.cli.kinds import EXISTING_FILE, NOT_NEGATIVE, packed
from pubweave.core.config.self_organizing import MOST_HOPS, LinkPrice, OrganizeConfig
from pubweave.design.ci.rules import Estimate, Heuristic
from pubweave.model.files.topology import read_topology
from pubweave.model.ids import Link
from pubweave.model.topology import Topology

_DEFAULTS = OrganizeConfig()


@dataclass(frozen=True)
class OrganizeChoice:
    """How an overlay is to organize itself, and where the prices of its links are."""

    config: OrganizeConfig
    prices: Path | None

    def read_prices(self, topology: Topology) -> dict[Link, float]:
        """The prices in the file; BadInput names a broker or link that cannot be."""
        if self.prices is None:
            return {}
        with blaming(f"--prices {self.prices}"):
            table = read_topology(self.prices)
        strange = sorted(table.brokers - topology.brokers)
        if strange:
            raise BadInput(f"--prices {self.prices}: the overlay has no broker {strange[0]!r}")
        if not table.latency_ms:
            raise BadInput(f"--prices {self.prices}: no link has a latency_ms: give each its price")
        return dict(table.latency_ms)


_OPTIONS = (
    click.option(
        "--self-organize",
        type=click.Choice([heuristic.value for heuristic in Heuristic]),
        help="Let brokers exchange links by themselves: by cost and common interest (ci), by "
        "cost alone (mst) or by common interest alone (mit). Needs ZooKeeper.",
    ),
    click.option(
        "--eta",
        type=click.IntRange(2, MOST_HOPS),
        help=f"How many hops around itself a broker knows. [default: {_DEFAULTS.eta}]",
    ),
    click.option(
        "--organize-every",
        type=click.FloatRange(min=0.2),
        metavar="SECONDS",
        help="Between broadcasts, and at least between two changes at one broker. "
        f"[default: {_DEFAULTS.interval_s:g}]",
    ),
    click.option(
        "--link-price",
        type=click.Choice([price.value for price in LinkPrice]),
        help=f"A link costs half its RTT in ms, or 1. [default: {_DEFAULTS.link_price.value}]",
    ),
    click.option(
        "--prices",
        type=EXISTING_FILE,
        help="A topology file, no tree, whose latency_ms are the prices of links that are or "
        "could be; the others go by --link-price.",
    ),
    click.option(
        "--broker-price",
        type=NOT_NEGATIVE,
        help="What handling a notification costs. [default: 1 with hops, else the measured ms]",
    ),
    click.option(
        "--estimate",
        type=click.Choice([estimate.value for estimate in Estimate]),
        help="What ci prices a change by: all that passes the brokers concerned (sides), or what "
        "their clients have in common, by Bloom filters of three (conjunction) or as the paper "
        f"does (overlap). [default: {_DEFAULTS.estimate.value}]",
    ),
    click.option("--adapt-bloom", is_flag=True, help="Size Bloom filters by the load."),
    click.option("--damping", is_flag=True, help="Ask for more gain where links changed of late."),
)


def _choice(self_organize: str | None, **chosen: Any) -> OrganizeChoice | None:
    # A price of 0 is given, though 0 == False.
    given = {n: value for n, value in chosen.items() if value is not None and value is not False}
    if self_organize is None:
        if given:
            option = "--" + next(iter(given)).replace("_", "-")
            raise click.UsageError(f"{option} is for overlays with --self-organize")
        return None
    prices = given.pop("prices", None)
    if "organize_every" in given:
        given["interval_s"] = given.pop("organize_every")
    if "link_price" in given:
        given["link_price"] = LinkPrice(given["link_price"])
    if "estimate" in given:
        given["estimate"] = Estimate(given["estimate"])
    return OrganizeChoice(OrganizeConfig(heuristic=Heuristic(self_organize), **given), prices)


organize_options = packed("organize", _choice, *_OPTIONS)
"""All of them; the command gets ``organize``, an `OrganizeChoice` or None."""
