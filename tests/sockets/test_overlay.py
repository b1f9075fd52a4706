"""Overlays on this machine through the Python API: start, supervision, stop."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import pubweave
from pubweave.model.topology import Topology
from pubweave.runtime.client.observer import RunningTotals, client_count, wait_until_settled
from pubweave.runtime.net.errors import OverlayError
from pubweave.runtime.net.reserved_ports import ReservedPorts
from pubweave.runtime.overlay.events import BrokerDied, BrokerRestarted, OverlayEvent
from pubweave.runtime.overlay.overlay import Overlay
from pubweave.runtime.overlay.processes import InProcessRunner
from pubweave.runtime.overlay.run_directory import OverlayCondition, RunDirectory, read_state
from pubweave.runtime.overlay.spec import make_spec
from pubweave.telemetry.run_description import read_run_description

pytestmark = pytest.mark.sockets

TREE = Topology.from_links([("b1", "b2"), ("b2", "b3"), ("b2", "b4"), ("b4", "b5")])


def overlay_in(
    path: Path,
    *,
    in_process: bool = False,
    restart: bool = True,
    on_event: Callable[[OverlayEvent], None] = lambda event: None,
    telemetry: bool = False,
) -> Overlay:
    directory = RunDirectory(path)
    spec = make_spec(
        TREE, base_port=0, telemetry_directory=directory.telemetry if telemetry else None
    )
    return Overlay(spec, directory, in_process=in_process, restart=restart, on_event=on_event)


def run(work: Coroutine[Any, Any, None]) -> None:
    async def bounded() -> None:
        async with asyncio.timeout(30):
            await work

    asyncio.run(bounded())


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(15):
        while not condition():  # noqa: ASYNC110 - the condition is often another process's
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("in_process", [True, False], ids=["in-process", "processes"])
def test_a_started_overlay_delivers_and_a_stopped_one_leaves_nothing(
    tmp_path: Path, in_process: bool
) -> None:
    async def work() -> None:
        overlay = overlay_in(tmp_path, in_process=in_process, telemetry=True)
        async with overlay:
            state = read_state(tmp_path)
            assert state.condition is OverlayCondition.RUNNING
            assert state.pid == os.getpid()
            pids = {broker: known.pid for broker, known in state.brokers.items()}
            assert pids == {broker: overlay.pid(broker) for broker in overlay.spec.brokers}
            assert len(set(pids.values())) == (1 if in_process else 5)
            snapshot = await overlay.snapshot()
            assert (len(snapshot.up), snapshot.links_up, snapshot.down) == (5, 4, [])
            await exchange(overlay, count=20)
        assert read_state(tmp_path).condition is OverlayCondition.STOPPED
        if not in_process:
            assert not any(is_alive(pid) for pid in pids.values() if pid is not None)
        RunDirectory(tmp_path / "other").release()
        RunDirectory(tmp_path).release()  # the claim was given back

    run(work())
    earlier = next((tmp_path / "earlier").iterdir())
    assert read_run_description(earlier / "telemetry").name == "overlay"
    assert list((earlier / "telemetry" / "publications").glob("*.parquet"))


async def exchange(overlay: Overlay, count: int) -> None:
    """A publisher at one end, a subscriber at the other: everything comes once and in order."""
    addresses = overlay.spec.addresses
    async with (
        pubweave.connect(addresses["b1"]) as publisher,
        pubweave.connect(addresses["b5"]) as subscriber,
    ):
        subscription = await subscriber.subscribe("class = 'T' and x >= 0")
        await publisher.advertise("class = 'T'")
        settled = await wait_until_settled(overlay.observer, quiet_s=0.2)
        assert [client_count(s) for s in settled.up] == [1, 0, 0, 0, 1]
        for x in range(count):
            await publisher.publish("T", {"x": x})
        got = [(await anext(subscription)).attributes["x"] for _ in range(count)]
        assert got == list(range(count))


def test_a_killed_broker_comes_back_with_its_tables_and_delivery_resumes(tmp_path: Path) -> None:
    async def work() -> None:
        events: list[OverlayEvent] = []
        async with overlay_in(tmp_path, on_event=events.append) as overlay:
            addresses = overlay.spec.addresses
            async with (
                pubweave.connect(addresses["b1"]) as publisher,
                pubweave.connect(addresses["b5"]) as subscriber,
            ):
                subscription = await subscriber.subscribe("class = 'T'")
                await publisher.advertise("class = 'T'")
                before = await wait_until_settled(overlay.observer, quiet_s=0.2)
                totals = RunningTotals()
                totals.add(before)
                killed = overlay.pid("b2")
                assert killed is not None
                os.kill(killed, signal.SIGKILL)
                await until(lambda: len(events) == 2)
                died, restarted = events
                assert isinstance(died, BrokerDied)
                assert (died.broker, died.pid, died.exit_code) == ("b2", killed, -9)
                assert "listens at" in died.log_lines[-1]
                assert "by SIGKILL, restarting in 0.2 s" in str(died)
                assert restarted == BrokerRestarted("b2", overlay.pid("b2") or 0)
                assert read_state(tmp_path).brokers["b2"].pid == restarted.pid != killed
                after = await wait_until_settled(overlay.observer, quiet_s=0.2)
                assert tables(after) == tables(before)
                for x in range(10):
                    await publisher.publish("T", {"x": x})
                got = [(await anext(subscription)).attributes["x"] for _ in range(10)]
                assert got == list(range(10))
                assert overlay.deaths == 1
                totals.add(await overlay.snapshot())
                counted = totals.counters()
                assert counted.publications_accepted == counted.deliveries == 10
                assert counted.messages_in > sum(s.counters.messages_in for s in after.up)

    def tables(snapshot: Any) -> list[tuple[str, int, int, int]]:
        return [(s.broker, s.subscriptions, s.advertisements, s.forwarded) for s in snapshot.up]

    run(work())


def test_a_broker_that_is_not_to_be_restarted_is_reported_down(tmp_path: Path) -> None:
    async def work() -> None:
        events: list[OverlayEvent] = []
        async with overlay_in(tmp_path, restart=False, on_event=events.append) as overlay:
            os.kill(overlay.pid("b5") or 0, signal.SIGKILL)
            await until(lambda: bool(events))
            assert isinstance(events[0], BrokerDied)
            assert events[0].restart_in_s is None
            snapshot = await overlay.observer.snapshot(limit_s=0.3)
            assert snapshot.down == ["b5"]
            assert snapshot.links_up == 3
            assert len(events) == 1

    run(work())


def test_without_their_fork_server_all_brokers_end(tmp_path: Path) -> None:
    async def work() -> None:
        async with overlay_in(tmp_path) as overlay:
            pids = [pid for broker in overlay.spec.brokers if (pid := overlay.pid(broker))]
            server = parent_of(pids[0])
            assert server != os.getpid()
            os.kill(server, signal.SIGKILL)
            await until(lambda: overlay.failure is not None)
            with pytest.raises(OverlayError, match="all brokers are lost"):
                await overlay.snapshot()
            await until(lambda: not any(is_alive(pid) for pid in pids))

    run(work())


def parent_of(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_broker_that_dies_while_starting_fails_the_start_with_its_log(tmp_path: Path) -> None:
    async def work() -> None:
        overlay = overlay_in(tmp_path)
        taken = overlay.spec.addresses["b4"]
        with socket.socket() as other:
            # Possible only because the reservation does not listen either.
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            other.bind(taken)
            other.listen()
            with pytest.raises(OverlayError, match=r"broker b4 .* ended with code 1") as caught:
                async with overlay:
                    pass
        assert f"broker 'b4' cannot listen at {taken}" in str(caught.value)
        assert read_state(tmp_path).condition is OverlayCondition.STOPPED

    run(work())


def test_a_port_that_somebody_listens_at_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        topology = replace(TREE, broker_attributes={"b3": {"address": str(port)}})
        with pytest.raises(OverlayError, match=rf"'b3' cannot listen at 127.0.0.1:{port}: Address"):
            ReservedPorts(make_spec(topology, base_port=0).addresses)


def test_reserved_ports_differ_and_are_given_back() -> None:
    wanted = make_spec(TREE, base_port=0).addresses
    with ReservedPorts(wanted) as ports:
        assert len({address.port for address in ports.addresses.values()}) == 5
        taken = ports.addresses["b1"]
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(taken)  # without SO_REUSEADDR, as programs that know nothing of us
    with socket.socket() as other:
        other.bind(taken)


def test_an_overlay_in_one_process_can_be_looked_into(tmp_path: Path) -> None:
    async def work() -> None:
        overlay = overlay_in(tmp_path, in_process=True)
        async with overlay:
            runner = overlay._runner
            assert isinstance(runner, InProcessRunner)
            assert sorted(runner.hosts) == ["b1", "b2", "b3", "b4", "b5"]
            assert runner.hosts["b2"].broker.config.id == "b2"

    run(work())


def test_brokers_that_pretend_to_be_apart_take_their_time_and_keep_the_order(
    tmp_path: Path,
) -> None:
    """Four links of 20 ms one way: nothing is faster, nothing is lost or overtaken."""
    chain = Topology.from_links([("b1", "b2"), ("b2", "b3"), ("b3", "b4"), ("b4", "b5")])
    spec = replace(make_spec(chain, base_port=0), distances_ms=dict.fromkeys(chain.links, 20.0))
    count = 200

    async def work() -> None:
        async with Overlay(spec, RunDirectory(tmp_path / "run"), in_process=True) as overlay:
            at = overlay.spec.addresses
            async with (
                pubweave.connect(at["b1"]) as publisher,
                pubweave.connect(at["b5"]) as subscriber,
            ):
                subscription = await subscriber.subscribe("class = 'news'")
                await publisher.advertise("class = 'news'")
                await wait_until_settled(overlay.observer)
                began = asyncio.get_running_loop().time()
                for number in range(count):
                    await publisher.publish("news", {"number": number})
                first = await anext(subscription)
                took_s = asyncio.get_running_loop().time() - began
                rest = [await anext(subscription) for _ in range(count - 1)]
                assert took_s >= 0.08
                numbers = [each.attributes["number"] for each in (first, *rest)]
                assert numbers == list(range(count))

    run(work())
