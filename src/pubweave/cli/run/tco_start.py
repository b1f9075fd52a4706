"""The topology that ``pubweave up --subscriptions`` starts: Low-ODA's, a broker for each client."""

from __future__ import annotations

from pathlib import Path

import click

from pubweave.cli.errors import BadInput
from pubweave.cli.output import remark
from pubweave.cli.tco.files import named_links, read_wanted
from pubweave.core.routing.topic_connected.membership_map import MAP_TOPIC
from pubweave.design.tco.interests import Subscriptions
from pubweave.model.ids import Link
from pubweave.model.topology import Topology

STRATEGY = "topic_connected"
BROKERS_MAX = 500
"""More processes than that are a mistake: somebody else's followers, taken for brokers."""


def choose_source(topology: Path | None, subscriptions: Path | None, strategy: str) -> Path:
    """The one file that an overlay is to be started from; `click.UsageError` if it is not one."""
    if subscriptions is not None and strategy != STRATEGY:
        raise click.UsageError(f"--subscriptions needs --strategy {STRATEGY}")
    if topology is not None and subscriptions is not None:
        raise click.UsageError(
            "give either TOPOLOGY or --subscriptions, not both: the links are made from the latter"
        )
    source = topology or subscriptions
    if source is None:
        raise click.UsageError(
            f"give a TOPOLOGY file, or --subscriptions FILE with --strategy {STRATEGY}"
        )
    return source


def topology_for(path: Path) -> Topology:
    """An overlay in which the subscribers of each topic are connected, and all brokers are."""
    from pubweave.design.tco.low_oda import build_overlay

    wanted = read_wanted(path)
    if wanted.node_count > BROKERS_MAX:
        raise BadInput(
            f"{path}: {wanted.node_count:,} clients; one broker is started for each, at most "
            f"{BROKERS_MAX}: let 'client' be the broker that wants the topic"
        )
    # Brokers find each other by the map, a topic of all: the overlay must be in one piece.
    everybody = Subscriptions.of(
        {
            name: (MAP_TOPIC, *(wanted.topic_names[topic] for topic in wanted.topics_of(node)))
            for node, name in enumerate(wanted.nodes)
        }
    )
    links = build_overlay(everybody)
    remark(
        f"{path}: {wanted.node_count} brokers, {wanted.topic_count} topics, {len(links)} links "
        f"(degree {2 * len(links) / wanted.node_count:.1f} on average)"
    )
    pairs = named_links(everybody, links)
    return Topology(frozenset(wanted.nodes), frozenset(Link.between(a, b) for a, b in pairs))
