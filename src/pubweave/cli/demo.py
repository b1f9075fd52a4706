"""``pubweave demo``: an overlay at work on this machine, and the proof that it did its work."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from pubweave.cli.errors import FAILED
from pubweave.cli.output import LiveView, json_option, print_json, remark

if TYPE_CHECKING:
    from pubweave.generate.stocks import StockWorkload
    from pubweave.model.topology import Topology
    from pubweave.runtime.overlay import Overlay
    from pubweave.runtime.overlay_oracle import Verdict
    from pubweave.runtime.overlay_workload import PublisherGroup, SubscriberGroup

MAX_DEGREE = 5
SYMBOLS = ("ACME", "BOLT", "CORN", "DUNE", "ECHO", "FERN", "GATE", "HILL", "IRIS", "JADE")
SUBSCRIBERS_PER_PUBLISHER = 10
SPREAD_BROKERS = 5
RATE_PER_S = 20.0
QUOTE_DAYS = 250
LIVE_INTERVAL_S = 1.0


@dataclass(frozen=True)
class DemoSummary:
    """What the demo has shown."""

    brokers: int
    links: int
    publishers: int
    subscribers: int
    start_s: float
    publish_s: float
    publications: int
    expected: int
    delivered: int
    lost: int
    duplicated: int
    unexpected: int
    out_of_order: int
    latency_ms_median: float | None
    latency_ms_p99: float | None
    messages: int
    messages_per_delivery: float | None
    broker_deaths: int

    def text(self) -> str:
        def ms(value: float | None) -> str:
            return "-" if value is None else f"{value:.2f} ms"

        per_delivery = self.messages_per_delivery
        return "\n".join(
            (
                f"overlay       {self.brokers} brokers (processes), {self.links} links, "
                f"started in {self.start_s:.1f} s",
                f"clients       {self.publishers} publishers, {self.subscribers} subscribers",
                f"publications  {self.publications:,} in {self.publish_s:.1f} s",
                f"deliveries    {self.delivered:,} of {self.expected:,} expected: "
                f"{self.lost} lost, {self.duplicated} duplicated, {self.unexpected} unexpected, "
                f"{self.out_of_order} out of order",
                f"latency       median {ms(self.latency_ms_median)}, p99 {ms(self.latency_ms_p99)}",
                f"messages      {self.messages:,}"
                + ("" if per_delivery is None else f", {per_delivery:.2f} per delivery"),
            )
        )


@click.command()
@click.option("--brokers", default=20, show_default=True, type=click.IntRange(1, 200))
@click.option(
    "--seconds",
    default=20.0,
    show_default=True,
    type=click.FloatRange(min=1),
    help="How long to publish.",
)
@click.option("--seed", default=1, show_default=True, type=click.IntRange(min=0))
@click.option(
    "--run-dir",
    default="runs/demo",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the overlay keeps its state, logs and telemetry.",
)
@click.option("--telemetry/--no-telemetry", default=True, show_default=True)
@json_option
@click.pass_context
def demo(
    ctx: click.Context,
    brokers: int,
    seconds: float,
    seed: int,
    run_dir: Path,
    telemetry: bool,
    as_json: bool,
) -> None:
    """Run an overlay with stock-quote publishers and subscribers, and check every delivery.

    Ten publishers of generated quotes and a hundred subscribers with content filters are spread
    over the brokers, which are processes. Every publication is held against every subscription
    to know who should get it. Exit code 1 if anything is lost, duplicated or out of order.

    \b
    Example:
      pubweave demo
      pubweave demo --brokers 50 --seconds 60 --json
    """
    from pubweave.cli.signals import run_async

    ctx.exit(run_async(_run(brokers, seconds, seed, run_dir, telemetry, as_json)))


async def _run(
    brokers: int, seconds: float, seed: int, run_dir: Path, telemetry: bool, as_json: bool
) -> int:
    from pubweave.cli.signals import StopRequest
    from pubweave.cli.up import open_overlay, start_with_progress
    from pubweave.runtime.overlay_run_directory import TELEMETRY_DIRECTORY
    from pubweave.runtime.overlay_spec import make_spec

    topology, workload = make_demo(brokers, seed)
    directory = run_dir / TELEMETRY_DIRECTORY if telemetry else None
    spec = make_spec(topology, name="demo", base_port=0, telemetry_directory=directory)
    async with StopRequest() as stop:
        overlay = open_overlay(spec, run_dir, in_process=False, restart=True, as_json=as_json)
        try:
            began = time.monotonic()
            if not await start_with_progress(overlay, stop, shown=not as_json):
                return stop.exit_code
            start_s = time.monotonic() - began
            if not as_json:
                remark(f"{len(spec.brokers)} brokers are up; state and logs in {run_dir}")
            play = Play(overlay, workload, seconds, as_json)
            await stop.unless(play.run())
        finally:
            await overlay.stop()
        if play.verdict is None:
            return stop.exit_code
        summary = play.summary(start_s)
    if as_json:
        print_json({"event": "summary", **asdict(summary)})
    else:
        click.echo(summary.text())
    return 0 if play.verdict.is_clean else FAILED


def make_demo(brokers: int, seed: int) -> tuple[Topology, StockWorkload]:
    """The tree and the clients of a seed."""
    import numpy as np

    from pubweave.generate.stock_quotes import synthetic_quotes
    from pubweave.generate.stocks import Distribution, stock_workload
    from pubweave.generate.trees import hierarchical_tree

    rng = np.random.default_rng(seed)
    topology = hierarchical_tree(brokers, MAX_DEGREE, True, rng)
    quotes = synthetic_quotes(SYMBOLS, QUOTE_DAYS, rng)
    workload = stock_workload(
        quotes,
        topology,
        Distribution.RANDOM,
        min(SPREAD_BROKERS, brokers),
        rng,
        SUBSCRIBERS_PER_PUBLISHER,
        RATE_PER_S,
    )
    return topology, workload


class Play:
    """The clients' part: join, publish, wait for the last delivery, judge."""

    def __init__(
        self, overlay: Overlay, workload: StockWorkload, seconds: float, as_json: bool
    ) -> None:
        self.verdict: Verdict | None = None
        self._overlay = overlay
        self._workload = workload
        self._seconds = seconds
        self._as_json = as_json
        self._messages = 0
        self._latencies_ms: list[float] = []

    async def run(self) -> None:
        from pubweave.runtime.overlay_observer import wait_until_settled
        from pubweave.runtime.overlay_workload import PublisherGroup, SubscriberGroup

        workload, addresses = self._workload, self._overlay.spec.addresses
        contents = {p.client: workload.publications(p) for p in workload.publishers}
        async with AsyncExitStack() as stack:
            subscribers = await stack.enter_async_context(
                SubscriberGroup(workload.subscribers, addresses)
            )
            publishers = await stack.enter_async_context(
                PublisherGroup(workload.publishers, contents, addresses)
            )
            settled = await wait_until_settled(self._overlay.observer)
            before = sum(status.counters.messages_out for status in settled.up)
            await self._publish(publishers, subscribers)
            await self._judge(publishers, subscribers)
            ended = await self._overlay.snapshot()
            self._messages = sum(s.counters.messages_out for s in ended.up) - before

    async def _publish(self, publishers: PublisherGroup, subscribers: SubscriberGroup) -> None:
        publishing = asyncio.create_task(publishers.publish(self._seconds))
        try:
            with LiveView(as_json=self._as_json) as view:
                while not publishing.done():
                    await self._show(view, publishers, subscribers)
                    await asyncio.wait({publishing}, timeout=LIVE_INTERVAL_S)
        finally:
            if not publishing.done():
                publishing.cancel()
        publishing.result()

    async def _show(
        self, view: LiveView, publishers: PublisherGroup, subscribers: SubscriberGroup
    ) -> None:
        from rich.text import Text

        snapshot = await self._overlay.snapshot()
        report: dict[str, Any] = {
            "event": "pulse",
            "brokers_up": len(snapshot.up),
            "links_up": snapshot.links_up,
            "publications": len(publishers.published),
            "deliveries": subscribers.received_count,
            "queue_bytes": snapshot.queue_bytes,
        }
        line = (
            f"brokers {len(snapshot.up)}/{len(snapshot.statuses)}  "
            f"links {snapshot.links_up}/{len(snapshot.links)}  "
            f"{len(publishers.published):,} publications  "
            f"{subscribers.received_count:,} deliveries  queued {snapshot.queue_bytes:,} bytes"
        )
        view.show(report, line, lambda: Text(line))

    async def _judge(self, publishers: PublisherGroup, subscribers: SubscriberGroup) -> None:
        from pubweave.runtime.overlay_oracle import expected_deliveries, judge
        from pubweave.runtime.overlay_workload import wait_for_deliveries

        wanted = {s.client: s.filter for s in self._workload.subscribers}
        expected = expected_deliveries(publishers.published, wanted)
        total = sum(len(due) for due in expected.values())
        await wait_for_deliveries(lambda: subscribers.received_count, total)
        self.verdict = judge(publishers.published, wanted, subscribers.received)
        self._latencies_ms = sorted(subscribers.latencies_ms)

    def summary(self, start_s: float) -> DemoSummary:
        from pubweave.runtime.overlay_workload import percentile

        assert self.verdict is not None, "run() first"
        delivered = self.verdict.delivered
        return DemoSummary(
            brokers=len(self._overlay.spec.brokers),
            links=len(self._overlay.spec.topology.links),
            publishers=len(self._workload.publishers),
            subscribers=len(self._workload.subscribers),
            start_s=round(start_s, 3),
            publish_s=self._seconds,
            **asdict(self.verdict),
            latency_ms_median=_rounded(percentile(self._latencies_ms, 0.5)),
            latency_ms_p99=_rounded(percentile(self._latencies_ms, 0.99)),
            messages=self._messages,
            messages_per_delivery=_rounded(self._messages / delivered if delivered else None),
            broker_deaths=self._overlay.deaths,
        )


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)
