"""One pubweave broker process of a measurement, with the same host that `pubweave broker` uses."""

from __future__ import annotations

import argparse
import asyncio
import signal
from pathlib import Path

import uvloop

from pubweave.core.config.broker import BrokerConfig
from pubweave.core.config.relocation import RelocationConfig, RelocationMode
from pubweave.runtime.broker.host import BrokerHost
from pubweave.runtime.broker.host_config import HostConfig
from pubweave.runtime.net.addresses import Address


async def serve(config: HostConfig, *, is_bare: bool = False) -> None:
    """``is_bare``: without a relocator and without migrations, to see what they cost."""
    host = BrokerHost(config)
    if is_bare:
        host.broker.migrations = host.broker.relocator = None
        host.broker._publishing.tracer = None
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
    config = HostConfig(
        broker=BrokerConfig(options.id, relocation=_relocation(options.relocation)),
        listen=Address("127.0.0.1", options.port),
        neighbors={id_: Address("127.0.0.1", int(port)) for id_, port in neighbors},
        telemetry_directory=options.telemetry,
        sample_ratio=options.sample,
        journal_directory=options.journal,
    )
    uvloop.run(serve(config, is_bare=options.relocation == "bare"))


def _relocation(way: str) -> RelocationConfig:
    if way in ("bare", "off"):
        return RelocationConfig()
    # Nobody moves, or there would be one broker instead of two.
    with_rounds = way == "subscribers"
    return RelocationConfig(RelocationMode.GRAPE, least_gain=0.99, subscribers=with_rounds)


if __name__ == "__main__":
    main()
