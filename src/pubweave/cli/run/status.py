"""``pubweave status``: what the brokers of an overlay say of themselves."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.console import Group

from pubweave.cli.errors import FAILED
from pubweave.cli.options.security import SecurityChoice, client_security_options
from pubweave.cli.options.target import address_option, attached, run_dir_option
from pubweave.cli.output import LiveView, json_option, output_console, tell
from pubweave.cli.run.status_view import (
    LINES_SHOWN,
    access_line,
    broker_table,
    journal_line,
    link_table,
    migration_line,
    organize_line,
    relocation_line,
)
from pubweave.model.ids import BrokerId, Link
from pubweave.runtime.client.observer import OverlayObserver, OverlayStatuses
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.net.signals import StopRequest, run_async
from pubweave.runtime.observe.pulse import Pulse, PulseMeter, broker_document, link_document
from pubweave.runtime.overlay.run_directory import read_live_state
from pubweave.runtime.security.credentials import Credentials


@dataclass(frozen=True)
class Watched:
    """Whom to ask, and what is known without asking."""

    kind: str
    name: str
    strategy: str | None
    """None for a single broker: it says itself."""
    addresses: dict[BrokerId, Address]
    pids: dict[BrokerId, int | None]
    links: tuple[Link, ...]


@click.command()
@run_dir_option
@address_option("--address", help="Ask this one broker instead.")
@click.option("--watch", is_flag=True, help="Again and again until Ctrl-C.")
@click.option(
    "--interval",
    default=1.0,
    type=click.FloatRange(min=0.1),
    help="Seconds between looks with --watch.",
)
@client_security_options
@json_option
@click.pass_context
def status(
    ctx: click.Context,
    run_dir: Path,
    address: Address | None,
    watch: bool,
    interval: float,
    security: SecurityChoice,
    as_json: bool,
) -> None:
    """Show the brokers and links of a running overlay.

    Exit code 1 if any broker is down. Rates are of the last 5 seconds.

    \b
    Example:
      pubweave status
      pubweave status --watch
      pubweave status --address 127.0.0.1:7000 --json
    """
    every_s = interval if watch else None
    credentials = security.credentials(run_dir if address is None else None)
    ctx.exit(run_async(_run(run_dir, address, credentials, every_s, as_json)))


async def _run(
    run_dir: Path,
    address: Address | None,
    credentials: Credentials | None,
    every_s: float | None,
    as_json: bool,
) -> int:
    watched = _overlay(run_dir) if address is None else await _single(address, credentials)
    meter = PulseMeter()
    view = LiveView(as_json=as_json)
    async with (
        StopRequest() as stop,
        OverlayObserver(watched.addresses, watched.links, credentials) as observer,
    ):
        snapshot = await observer.snapshot()
        pulse = meter.take(snapshot)
        if every_s is None:
            _show_once(watched, snapshot, pulse, as_json)
            return FAILED if snapshot.down else 0
        with view:
            while not stop.is_set:
                view.show(
                    _document(watched, snapshot, pulse),
                    pulse.line(),
                    lambda s=snapshot, p=pulse: _drawing(watched, s, p, live=True),  # type: ignore[misc]
                )
                await stop.wait(every_s)
                snapshot = await observer.snapshot()
                pulse = meter.take(snapshot)
        return stop.exit_code


def _overlay(run_dir: Path) -> Watched:
    state = read_live_state(run_dir)
    return Watched(
        "overlay",
        state.overlay,
        state.strategy,
        {broker: Address.parse(known.address) for broker, known in state.brokers.items()},
        {broker: known.pid for broker, known in state.brokers.items()},
        tuple(Link.between(a, b) for a, b in state.links),
    )


async def _single(address: Address, credentials: Credentials | None) -> Watched:
    """A broker of which only the address is known tells its name; BadInput if it is down."""
    async with attached(address, credentials) as client:
        broker = client.broker
    return Watched("broker", broker, None, {broker: address}, {}, ())


def _show_once(watched: Watched, snapshot: OverlayStatuses, pulse: Pulse, as_json: bool) -> None:
    tell(
        _document(watched, snapshot, pulse),
        as_json,
        lambda: output_console().print(_drawing(watched, snapshot, pulse, live=False)),
    )


def _strategy(watched: Watched, snapshot: OverlayStatuses) -> str | None:
    return watched.strategy or next((status.strategy for status in snapshot.up), None)


def _document(watched: Watched, snapshot: OverlayStatuses, pulse: Pulse) -> dict[str, Any]:
    brokers = {
        broker: {
            "address": str(watched.addresses[broker]),
            "pid": watched.pids.get(broker),
            **broker_document(status),
        }
        for broker, status in snapshot.statuses.items()
    }
    if not watched.links:  # a single broker: what it says of its links is all there is
        for broker, status in snapshot.statuses.items():
            sessions = () if status is None else status.links
            brokers[broker]["neighbors"] = [msgspec.to_builtins(session) for session in sessions]
    return {
        "overlay": watched.name,
        "strategy": _strategy(watched, snapshot),
        **pulse.document(),
        "down": snapshot.down,
        "broker_status": brokers,
        "link_status": [link_document(snapshot, link) for link in snapshot.links],
    }


def _drawing(watched: Watched, snapshot: OverlayStatuses, pulse: Pulse, *, live: bool) -> Group:
    addresses = {broker: str(address) for broker, address in watched.addresses.items()}
    brokers = broker_table(snapshot, addresses, watched.pids, LINES_SHOWN if live else None)
    links = () if live or not snapshot.links else (link_table(snapshot), "")
    totals = pulse.totals
    lines = (organize_line, relocation_line, migration_line, journal_line, access_line)
    told = [line for tell in lines if (line := tell(snapshot))]
    return Group(
        brokers,
        "",
        *links,
        *told,
        f"{watched.kind} {watched.name} (strategy {_strategy(watched, snapshot) or 'unknown'}): "
        f"brokers {pulse.brokers_up}/{pulse.brokers}, "
        f"links {pulse.links_up}/{pulse.links}, {pulse.clients} clients; "
        f"{totals.publications_accepted:,} publications, {totals.deliveries:,} deliveries, "
        f"{totals.lost_in_words}, {totals.clients_expired:,} clients expired; "
        f"queued {pulse.queue_bytes:,} bytes",
    )
