"""``pubweave relocate`` on a running overlay, over sockets."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

import pubweave
from pubweave.cli.relocate.relocate import relocate_overlay
from pubweave.core.config.relocation import RelocationConfig, RelocationMode
from pubweave.model.records.status import TraceRequest
from pubweave.model.topology import Topology
from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.overlay.overlay import Overlay
from pubweave.runtime.overlay.run_directory import RunDirectory
from pubweave.runtime.overlay.spec import make_spec
from pubweave.runtime.settings.tree import Settings
from tests.sockets.harness import run, until

pytestmark = pytest.mark.sockets

TREE = Topology.from_links([("b1", "b2"), ("b2", "b3"), ("b2", "b4"), ("b4", "b5")])


@contextlib.asynccontextmanager
async def market(
    path: Path, relocation: RelocationConfig | None = None
) -> AsyncIterator[pubweave.Client]:
    """A publisher at b1 that never rests; most of its quotes go to b5."""
    spec = make_spec(TREE, Settings(relocation=relocation or RelocationConfig()), base_port=0)
    overlay = Overlay(spec, RunDirectory(path), in_process=True)
    await overlay.start()
    addresses = overlay.observer.addresses
    async with contextlib.AsyncExitStack() as stack:
        stack.push_async_callback(overlay.stop)
        for number, (home, filter_) in enumerate(
            [("b3", "class = 'STOCK' and n = 3"), ("b5", "class = 'STOCK'")]
        ):
            subscriber = await stack.enter_async_context(
                pubweave.connect(addresses[home], client_id=f"sub{number}")
            )
            await subscriber.subscribe(filter_)
        publisher = await stack.enter_async_context(
            pubweave.connect(addresses["b1"], client_id="quotes")
        )
        await publisher.advertise("class = 'STOCK'")
        publishing = asyncio.create_task(publish(publisher))
        stack.callback(publishing.cancel)
        yield publisher


async def publish(publisher: pubweave.Client) -> None:
    number = 0
    while True:
        await publisher.publish("STOCK", {"n": number % 10})
        number += 1
        await asyncio.sleep(0.005)


async def relocated(
    path: Path, *publishers: str, dry_run: bool = True, wait_s: float = 20.0
) -> int:
    request = TraceRequest("load", 100.0, 40)
    return await relocate_overlay(path, request, publishers, wait_s, dry_run, as_json=True)


def test_a_dry_run_shows_candidates_and_leaves_the_publisher_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def look() -> None:
        async with market(tmp_path) as publisher:
            assert await relocated(tmp_path) == 0
            assert publisher.broker == "b1"
            assert await relocated(tmp_path, "quotes", wait_s=0.0) == 0
            with pytest.raises(OverlayError, match="no publisher 'nobody'"):
                await relocated(tmp_path, "nobody")

    run(look())
    found, unfinished = map(json.loads, capsys.readouterr().out.splitlines())
    assert (found["publisher"], found["publisher_at"], found["choice"]) == ("quotes", "b1", "b5")
    rates = {c["broker"]: c["message_rate"] for c in found["candidates"]}
    # Forty at each of b1, b2, b4 and b5, and every tenth at b3.
    assert rates["b1"] in (40 * 4 + 4,)
    assert rates["b5"] == 40 + 3 * 4
    assert unfinished["choice"] is None
    assert "--wait" in unfinished["reason"]


def test_publishers_are_moved_where_they_cost_least(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async def move() -> None:
        async with market(tmp_path) as publisher:
            assert await relocated(tmp_path, dry_run=False) == 0
            assert publisher.broker == "b5"
            assert publisher.refused == 0

    run(move())
    found, moved = map(json.loads, capsys.readouterr().out.splitlines())
    assert found["has_pings"]
    assert all(candidate["delay_ms"] > 0 for candidate in found["candidates"])
    assert (moved["event"], moved["from"], moved["to"]) == ("moved", "b1", "b5")


def test_subscribers_are_placed_and_moved_too(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The one at b5 wants all and goes to the publisher at b1. The one at b3 goes first: it adds
    nothing anywhere on the way to b5, so measured round trips decide."""
    trace = TraceRequest("load", 100.0, 40, subscribers=True)

    async def move() -> None:
        async with market(tmp_path) as publisher:
            assert await relocate_overlay(tmp_path, trace, (), 20.0, False, as_json=True) == 0
            assert publisher.broker == "b1"

    run(move())
    *shown, one, other = map(json.loads, capsys.readouterr().out.splitlines())
    choices = {(s["subscriber"], s["subscriber_at"]): s["choice"] for s in shown}
    assert choices.keys() == {("sub0", "b3"), ("sub1", "b5")}
    assert choices["sub1", "b5"] == "b1"
    hops = {"b2": 1, "b1": 2, "b4": 2, "b5": 3}[choices["sub0", "b3"]]
    assert all(found["event"] == "moved" for found in (one, other))
    assert {s["subscriber"]: s["hops"] for s in (one, other)} == {"sub0": hops, "sub1": 3}
    assert all(found["paused_ms"] > 0 for found in (one, other))


def test_an_overlay_with_grape_moves_them_by_itself(tmp_path: Path) -> None:
    config = RelocationConfig(RelocationMode.GRAPE, grape_threshold=20)

    async def wait() -> None:
        async with market(tmp_path, config) as publisher:
            await until(lambda: publisher.broker == "b5", limit_s=20.0)

    run(wait())
