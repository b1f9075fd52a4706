"""Options of a single broker that concern a ring: its cluster's gateway, and placing users."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import click

from pubweave.cli.errors import BadInput
from pubweave.cli.placement_options import check_placement, number_options
from pubweave.model.topic_messages import TOPIC_PROTOCOL
from pubweave.runtime.addresses import Address

if TYPE_CHECKING:
    from pubweave.runtime.host_config import HostConfig


def parse_neighbor(text: str) -> tuple[str, Address]:
    """``id=host:port``."""
    broker, separator, address = text.partition("=")
    if not separator or not broker:
        raise click.BadParameter(f"{text!r}: write id=host:port, for example b2=10.0.0.2:7001")
    try:
        return broker, Address.parse(address)
    except ValueError as error:
        raise click.BadParameter(str(error)) from error


@dataclass(frozen=True)
class RingChoice:
    """What was chosen: brokers of the ring, members of the placement cluster, its settings."""

    ring: dict[str, Address]
    members: dict[str, Address]
    placement: dict[str, Any]

    @property
    def neighbors(self) -> dict[str, Address]:
        return {**self.ring, **self.members}

    def applied(self, config: HostConfig) -> HostConfig:
        """A broker with these settings; told in words if its strategy has no use for them."""
        broker = config.broker
        if self.ring and broker.strategy != TOPIC_PROTOCOL:
            raise BadInput(f"--ring is for brokers of clusters: give --strategy {TOPIC_PROTOCOL}")
        check_placement("--placement-with", bool(self.members), broker.strategy, self.placement)
        topics, placement = broker.topics, broker.placement
        if self.ring:
            topics = replace(topics, ring=tuple(self.ring))
        if self.members:
            placement = replace(placement, members=tuple(self.members), **self.placement)
        return replace(config, broker=replace(broker, topics=topics, placement=placement))


def ring_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """All of them; the command gets ``ring``, a `RingChoice`."""

    @click.option(
        "--ring",
        multiple=True,
        type=parse_neighbor,
        metavar="ID=HOST:PORT",
        help="A broker of a ring, with --strategy topic_connected: be a gateway there.",
    )
    @click.option(
        "--placement-with",
        "members",
        multiple=True,
        type=parse_neighbor,
        metavar="ID=HOST:PORT",
        help="Another broker of the placement cluster, with --strategy rendezvous.",
    )
    @number_options
    @functools.wraps(command)
    def packed(*args: Any, ring: Any, members: Any, placement: dict[str, Any], **given: Any) -> Any:
        return command(*args, ring=RingChoice(dict(ring), dict(members), placement), **given)

    return packed
