"""One pubweave broker process of a measurement, with the same host that `pubweave broker` uses."""

from __future__ import annotations

import argparse
import asyncio
import signal
from dataclasses import replace
from pathlib import Path

import uvloop

from pubweave.core.config.relocation import RelocationConfig, RelocationMode
from pubweave.core.strategies import STRATEGIES, no_parts
from pubweave.runtime.broker.host import BrokerHost
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.settings.tree import BrokerTable, JournalTable, Settings, TelemetryTable


async def serve(settings: Settings, *, is_bare: bool = False) -> None:
    """``is_bare``: without any part of the strategy, to see what they cost."""
    if is_bare:
        tree = STRATEGIES["tree"]
        STRATEGIES["tree"] = replace(tree, make_parts=no_parts)
    host = BrokerHost(settings)
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await host.start()
    await stopped.wait()
    await host.stop()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--id", required=True)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--neighbor", action="append", default=[], metavar="ID=PORT")
    parser.add_argument("--telemetry", type=Path)
    parser.add_argument("--sample", type=float, default=1.0)
    parser.add_argument("--journal", type=Path)
    parser.add_argument(
        "--relocation", choices=["bare", "off", "grape", "subscribers"], default="off"
    )
    options = parser.parse_args()
    neighbors = (each.split("=") for each in options.neighbor)
    table = BrokerTable(
        id=options.id,
        listen=Address("127.0.0.1", options.port),
        neighbors={id_: Address("127.0.0.1", int(port)) for id_, port in neighbors},
        telemetry=TelemetryTable(directory=options.telemetry, sample=options.sample),
        durability="memory" if options.journal is None else "journal",
        journal=JournalTable(directory=options.journal),
    )
    settings = Settings(table, relocation=_relocation(options.relocation))
    uvloop.run(serve(settings, is_bare=options.relocation == "bare"))


def _relocation(way: str) -> RelocationConfig:
    if way in ("bare", "off"):
        return RelocationConfig()
    # Nobody moves, or there would be one broker instead of two.
    with_rounds = way == "subscribers"
    return RelocationConfig(RelocationMode.GRAPE, least_gain=0.99, subscribers=with_rounds)


if __name__ == "__main__":
    main()
