"""``pubweave sub``: notifications on the command line."""

from __future__ import annotations

import asyncio
import contextlib
import time
from pathlib import Path
from typing import Any

import click

from pubweave.cli.errors import FAILED
from pubweave.cli.kinds import COUNT, POSITIVE
from pubweave.cli.options.security import SecurityChoice, client_security_options
from pubweave.cli.options.target import attached, broker_address, broker_options
from pubweave.cli.output import LiveView, json_option, print_json, remark
from pubweave.model.filters.filter import Filter
from pubweave.model.filters.text import format_filter, parse_filter
from pubweave.model.publications import Publication
from pubweave.runtime.client.client import Client
from pubweave.runtime.client.subscription import GapError, Subscription
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.net.clock import UnixClock
from pubweave.runtime.net.signals import StopRequest, run_async
from pubweave.runtime.security.credentials import Credentials

STATS_INTERVAL_S = 1.0
REFUSALS_INTERVAL_S = 0.5


@click.command()
@click.argument("filter_text", metavar="FILTER")
@click.option("-n", "--count", type=COUNT, help="End after this many notifications.")
@click.option("--duration", type=POSITIVE, help="End after this many seconds.")
@click.option("--stats", is_flag=True, help="Only how many come, every second.")
@broker_options
@client_security_options
@json_option
@click.pass_context
def sub(
    ctx: click.Context,
    filter_text: str,
    count: int | None,
    duration: float | None,
    stats: bool,
    broker: str | None,
    address: Address | None,
    run_dir: Path,
    security: SecurityChoice,
    as_json: bool,
) -> None:
    """Subscribe with a FILTER and print what comes, until Ctrl-C.

    A filter is an expression or PADRES text; * is everything. Exit code 1 if --duration is over
    before --count is reached.

    \b
    Example:
      pubweave sub "class = 'STOCK' and volume > 1000"
      pubweave sub "[class,eq,'STOCK'],[volume,>,1000]" --count 10 --json
      pubweave sub "*" --stats
    """
    wanted = parse_filter(filter_text)
    target = broker_address(broker, address, run_dir)
    credentials = security.credentials(run_dir if address is None else None)
    ctx.exit(run_async(_run(target, credentials, wanted, count, duration, stats, as_json)))


class Printer:
    """Prints or only counts notifications."""

    def __init__(self, count: int | None, *, as_json: bool, silent: bool) -> None:
        self.received = 0
        self.latency_ms_sum = 0.0
        self._count = count
        self._as_json = as_json
        self._silent = silent
        self._clock = UnixClock()

    @property
    def is_done(self) -> bool:
        return self._count is not None and self.received >= self._count

    async def print_all(self, subscription: Subscription) -> None:
        """Until the wanted count is reached or the subscription ends."""
        async for publication in subscription:
            latency_ms = (self._clock.now() - publication.published_at) * 1000.0
            self.received += 1
            self.latency_ms_sum += latency_ms
            if not self._silent:
                self._print(publication, latency_ms)
            if self.is_done:
                return

    def _print(self, publication: Publication, latency_ms: float) -> None:
        if self._as_json:
            print_json(document(publication, latency_ms))
        else:
            click.echo(line(publication, latency_ms))


async def _run(
    address: Address,
    credentials: Credentials | None,
    wanted: Filter,
    count: int | None,
    duration: float | None,
    stats: bool,
    as_json: bool,
) -> int:
    printer = Printer(count, as_json=as_json, silent=stats)
    async with StopRequest() as stop, attached(address, credentials) as client:
        subscription = await client.subscribe(wanted)
        how = "" if subscription.is_confirmed else "; not confirmed yet, something may be missing"
        remark(f"subscribed at {client.broker} to {format_filter(wanted)}{how}")
        watching = [asyncio.create_task(_tell_troubles(client))]
        if stats:
            watching.append(asyncio.create_task(_show_stats(printer, stop, as_json)))
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(duration):
                await stop.unless(printer.print_all(subscription))
        for task in watching:
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        if stats or not as_json:
            _tell_summary(printer, as_json)
        is_short = count is not None and not printer.is_done
        return stop.exit_code or (FAILED if is_short else 0)


async def _tell_troubles(client: Client) -> None:
    """Say why nothing comes any more: rules may change, or certificates be revoked; and what was
    lost on the way here."""
    told, missed, gaps = None, 0, 0
    while True:
        if client.missed_count > missed:
            more, missed = client.missed_count - missed, client.missed_count
            topics = ", ".join(dict.fromkeys(one.topic for one in client.missed))
            bound = "at most " if any(one.at_most for one in client.missed) else ""
            remark(f"missed {bound}{more:,} publications, {missed:,} so far (lately on {topics})")
        if client.gap_count > gaps:
            gaps = client.gap_count
            remark(f"{gaps:,} gaps so far; the latest: {GapError(client.gaps[-1])}")
        if client.last_refusal not in (None, told):
            told = client.last_refusal
            remark(f"the broker refused the {told}")
        await asyncio.sleep(REFUSALS_INTERVAL_S)


async def _show_stats(printer: Printer, stop: StopRequest, as_json: bool) -> None:
    from rich.text import Text

    before, then = printer.received, time.monotonic()
    with LiveView(as_json=as_json) as view:
        while not await stop.wait(STATS_INTERVAL_S):
            now = time.monotonic()
            rate = (printer.received - before) / (now - then)
            before, then = printer.received, now
            text = f"{printer.received:,} notifications, {rate:,.0f}/s"
            report = {"received": printer.received, "rate_per_s": round(rate, 1)}
            view.show(report, text, lambda t=text: Text(t))  # type: ignore[misc]


def _tell_summary(printer: Printer, as_json: bool) -> None:
    mean_ms = printer.latency_ms_sum / printer.received if printer.received else None
    if as_json:
        rounded = None if mean_ms is None else round(mean_ms, 3)
        print_json({"received": printer.received, "latency_ms_mean": rounded, "event": "ended"})
        return
    mean = "" if mean_ms is None else f", mean latency {mean_ms:.2f} ms"
    remark(f"received {printer.received:,}{mean}")


def document(publication: Publication, latency_ms: float) -> dict[str, Any]:
    """A notification for programs; a payload that is no text comes as ``payload_hex``."""
    text = _text(publication.payload)
    payload = {"payload_hex": publication.payload.hex()} if text is None else {"payload": text}
    return {
        "topic": publication.topic,
        "attributes": publication.attributes,
        **payload,
        "publisher": publication.publisher,
        "sequence": publication.sequence,
        "published_at": publication.published_at,
        "latency_ms": round(latency_ms, 3),
    }


def line(publication: Publication, latency_ms: float) -> str:
    """A notification for people, on one line whatever is in it."""
    attributes = " ".join(f"{name}={value!r}" for name, value in publication.attributes.items())
    text = _text(publication.payload)
    if not publication.payload:
        payload = ""
    elif text is None or not text.isprintable():
        payload = f"<{len(publication.payload)} bytes>"
    else:
        payload = text
    parts = (publication.topic, attributes, payload, f"{latency_ms:.2f} ms")
    return "  ".join(part for part in parts if part)


def _text(payload: bytes) -> str | None:
    try:
        return payload.decode()
    except UnicodeDecodeError:
        return None
