"""Twenty broker processes whose publishers move to where they cost least: what is gained, lost?

    python -m soak.run_relocate [--relocation grape|pop] [--priority load|delay] [--json]
    python -m soak.run_relocate --compare --link-ms 10

A balanced tree of fan-out 2, one publisher of stock quotes for each broker at a random one, its
subscribers clustered (POP/GRAPE 5.1): the one that wants everything at one broker, those that want
a tenth at a few others. ``--relocation`` is on from the start; the first decision falls after so
many publications of a publisher as are traced. Every publication is held against every
subscription. The message rate is what brokers take in, traces and migrations included, in the
first seconds and in the last ones. Waits of publishers are printed by the hops of their way.

``--subscribers`` lets these move, too; ``--compare`` runs GRAPE alone and both, one after the
other. With ``--link-ms`` links pretend to be so long, so that delays mean something.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import math
import os
import statistics
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import uvloop

from pubweave.core.config.relocation import RelocationConfig, RelocationMode
from pubweave.design.relocation.rules import Preference, Priority
from pubweave.generate.topologies.trees import fanout_tree
from pubweave.generate.workloads.stocks import (
    Distribution,
    StockWorkload,
    read_quotes,
    stock_workload,
    synthetic_quotes,
)
from pubweave.runtime.client.client import Client
from pubweave.runtime.client.observer import OverlayStatuses, wait_until_settled
from pubweave.runtime.observe.delivery_oracle import expected_deliveries, judge
from pubweave.runtime.observe.workload import PublisherGroup, wait_for_deliveries
from pubweave.runtime.overlay.overlay import Overlay
from pubweave.runtime.overlay.run_directory import RunDirectory
from pubweave.runtime.overlay.spec import OverlaySpec, make_spec
from pubweave.runtime.settings.tree import Settings
from soak.run_fifty import SubscriberProcesses

TRACED = 100
REST_S = 10.0
"""A client is left alone so long after a move: the paper's minute, at ten times its rate."""
ROOM = 1.5
"""So many times its share of all clients a broker has room for."""
SPREAD = 4
AFTER_S = 10.0
BAR = 0.5
"""The message rate is to fall by this share."""


def run(
    brokers: int = 20,
    rate: float = 10.0,
    seconds: float = 50.0,
    *,
    config: RelocationConfig,
    quotes_file: Path | None = None,
    link_ms: float = 0.0,
    seed: int = 1,
) -> dict[str, Any]:
    """Run it and return the figures; ``is_clean`` should be true."""
    rng = np.random.default_rng(seed)
    topology = fanout_tree(brokers, 2, rng)
    names = [f"S{number:02d}" for number in range(brokers)]
    quotes = synthetic_quotes(names, 1000, rng) if quotes_file is None else read_quotes(quotes_file)
    chosen = {name: quotes[name] for name in sorted(quotes)[:brokers]}
    workload = stock_workload(
        chosen, topology, Distribution.CLUSTERED, SPREAD, rng, rate_per_s=rate
    )
    clients = len(workload.publishers) + len(workload.subscribers)
    config = replace(config, most_clients=math.ceil(ROOM * clients / brokers))
    spec = replace(
        make_spec(topology, Settings(relocation=config), name="relocate", base_port=0),
        distances_ms=dict.fromkeys(topology.links, link_ms) if link_ms else {},
    )
    with tempfile.TemporaryDirectory(prefix="pubweave-relocate-") as scratch:
        figures = uvloop.run(_relocate(Path(scratch), spec, workload, seconds, rate))
    return {
        "brokers": brokers,
        "publishers": len(workload.publishers),
        "subscribers": len(workload.subscribers),
        "relocation": f"{config.mode.value} {config.preference}"
        + (" and subscribers" if config.subscribers else ""),
        "link_ms": link_ms,
        "seed": seed,
        "load_average": os.getloadavg()[0],
        **figures,
    }


async def _relocate(
    scratch: Path, spec: OverlaySpec, workload: StockWorkload, seconds: float, rate: float
) -> dict[str, Any]:
    contents = {p.client: workload.publications(p) for p in workload.publishers}
    wanted = {s.client: s.filter for s in workload.subscribers}
    async with contextlib.AsyncExitStack() as stack:
        overlay = await stack.enter_async_context(Overlay(spec, RunDirectory(scratch / "run")))
        receivers = stack.enter_context(
            SubscriberProcesses(workload.subscribers, overlay.spec.addresses)
        )
        await receivers.wait_until_ready()
        group = await stack.enter_async_context(
            PublisherGroup(workload.publishers, contents, overlay.spec.addresses)
        )
        await wait_until_settled(overlay.observer)

        async def publish(lasts_s: float) -> float:
            """Publish, wait until everything has come; messages at brokers per publication."""
            first = await overlay.observer.snapshot(5.0)
            await group.publish(lasts_s)
            expected = expected_deliveries(group.published, wanted)
            await wait_for_deliveries(receivers.count, sum(len(due) for due in expected.values()))
            return _messages(first, await overlay.observer.snapshot(5.0))

        before = await publish(0.8 * TRACED / rate)
        first_counts = receivers.counts()
        await publish(seconds)
        last_counts = receivers.counts()
        after = await publish(AFTER_S)
        settled = await wait_until_settled(overlay.observer)
        receipts = receivers.finish()
        first_ms = [r.latencies_ms[:n] for r, n in zip(receipts, first_counts, strict=True)]
        last_ms = [r.latencies_ms[n:] for r, n in zip(receipts, last_counts, strict=True)]
        received = {client: keys for r in receipts for client, keys in r.received.items()}
        verdict = judge(group.published, wanted, received)
        return {
            "is_clean": verdict.is_clean,
            "verdict": asdict(verdict),
            "messages_before": round(before, 3),
            "messages_after": round(after, 3),
            "rate_saved": round(1 - after / before, 3),
            "delay_ms_before": round(statistics.fmean(itertools.chain(*first_ms)), 2),
            "delay_ms_after": round(statistics.fmean(itertools.chain(*last_ms)), 2),
            **_told(settled, group.clients),
            "broker_deaths": overlay.deaths,
        }


def _messages(first: OverlayStatuses, last: OverlayStatuses) -> float:
    came = _total(last, "messages_in") - _total(first, "messages_in")
    return came / max(
        1, _total(last, "publications_accepted") - _total(first, "publications_accepted")
    )


def _total(snapshot: OverlayStatuses, name: str) -> int:
    return sum(getattr(status.counters, name) for status in snapshot.up)


def _told(settled: OverlayStatuses, publishers: list[Client]) -> dict[str, Any]:
    by_hops: dict[int, list[float]] = {}
    for client in publishers:
        for move in client.moves:
            by_hops.setdefault(move.hops, []).append(1000.0 * move.wait_s)
    parts = [status.relocation for status in settled.up if status.relocation is not None]
    moved = [status.migrations for status in settled.up if status.migrations is not None]
    return {
        "decided": sum(part.decided for part in parts),
        "rounds": sum(part.rounds for part in parts),
        "subscriber_moves": sum(part.subscriber_moves for part in parts),
        "migrations_done": sum(part.done for part in moved),
        "paused_ms_per_hop": round(
            sum(part.paused_ms for part in moved) / max(1, sum(part.hops for part in moved)), 1
        ),
        "moves": sum(len(waits) for waits in by_hops.values()),
        "given_up": sum(part.given_up for part in parts),
        "without_pings": sum(part.without_pings for part in parts),
        "trace_messages": sum(part.messages_out for part in parts),
        "wait_ms_by_hops": {
            hops: round(statistics.fmean(waits), 1) for hops, waits in sorted(by_hops.items())
        },
    }


def main() -> int:
    """The command line; exit code 1 if anything was lost or doubled, or too little gained."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--brokers", type=int, default=20)
    parser.add_argument("--rate", type=float, default=10.0)
    parser.add_argument("--seconds", type=float, default=50.0)
    parser.add_argument("--relocation", choices=["grape", "pop"], default="grape")
    parser.add_argument("--priority", choices=["load", "delay"], default="load")
    parser.add_argument("--weight", type=float, default=100.0)
    parser.add_argument("--quotes", type=Path, help="real quotes, a CSV file")
    parser.add_argument("--subscribers", action="store_true", help="these move, too")
    parser.add_argument("--compare", action="store_true", help="without and with subscribers")
    parser.add_argument("--link-ms", type=float, default=0.0, help="how long links pretend to be")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    given = parser.parse_args()
    config = RelocationConfig(
        RelocationMode(given.relocation),
        Preference(Priority(given.priority), given.weight),
        pop_window_s=60.0 / given.rate,
        pop_threshold=TRACED,
        grape_threshold=TRACED,
        rest_s=REST_S,
        subscribers=given.subscribers,
    )
    configs = [replace(config, subscribers=s) for s in (False, True)] if given.compare else [config]
    is_met = True
    for each in configs:
        figures = run(
            given.brokers,
            given.rate,
            given.seconds,
            config=each,
            quotes_file=given.quotes,
            link_ms=given.link_ms,
            seed=given.seed,
        )
        is_met = is_met and figures["is_clean"] and figures["rate_saved"] >= BAR
        if given.json:
            print(json.dumps(figures), flush=True)
        else:
            for name, value in figures.items():
                print(f"{name:24} {value}", flush=True)
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
