"""What the virtual loop has and asyncio has not: processes, faults, and time that jumps."""

from __future__ import annotations

import asyncio
import gc
import time
from typing import Any

import pytest

from pubweave.sim.eventloop.loop import VirtualLoop
from pubweave.sim.eventloop.process import PROCESS, SimProcess
from pubweave.sim.eventloop.threads import VirtualThread
from pubweave.sim.kernel.trace import Trace
from pubweave.sim.kernel.world import World

PORT = 7001


class Sink(asyncio.Protocol):
    """Keeps what comes, and when."""

    def __init__(self) -> None:
        self.transport: Any = None
        self.came: list[tuple[float, bytes]] = []
        self.lost: list[Exception | None] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.came.append((asyncio.get_running_loop().time(), data))

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.append(exc)

    @property
    def data(self) -> bytes:
        return b"".join(data for _, data in self.came)


class Two:
    """A server and a client, each in a process on a host of its own, connected."""

    def __init__(self, seed: int = 1) -> None:
        self.world = World(seed, Trace())
        self.loop = VirtualLoop(self.world)
        self.loop.network.latency_s = (0.01, 0.02)
        self.server = self.loop.spawn("server", "10.0.0.1")
        self.client = self.loop.spawn("client", "10.0.0.2")
        self.there, self.here = Sink(), Sink()
        with self.loop.running():
            self.loop.begin(self.server, self.serve())
            self.world.run_until(0.5)
            self.loop.begin(self.client, self.connect())
            self.world.run_until(1.0)

    async def serve(self) -> None:
        await self.loop.create_server(lambda: self.there, "10.0.0.1", PORT)

    async def connect(self) -> None:
        await self.loop.create_connection(lambda: self.here, "10.0.0.1", PORT)

    def run(self, until: float) -> None:
        with self.loop.running():
            self.world.run_until(until)

    def write(self, data: bytes) -> None:
        self.loop.call_soon(self.here.transport.write, data, context=self.client.context)

    def end(self) -> Any:
        (end,) = self.loop.network.open_connections()
        return end


def test_hours_pass_in_no_time() -> None:
    async def main() -> float:
        await asyncio.sleep(36_000)
        return asyncio.get_running_loop().time()

    began = time.monotonic()
    assert 36_000 <= VirtualLoop(World(0)).run_until_complete(main()) < 36_001
    assert time.monotonic() - began < 60


def test_a_callback_runs_in_the_process_that_asked_for_it() -> None:
    two = Two()
    seen: list[str] = []

    async def work() -> None:
        asyncio.get_running_loop().call_soon(lambda: seen.append(PROCESS.get().name))
        asyncio.get_running_loop().call_later(1.0, lambda: seen.append(PROCESS.get().name))
        await asyncio.create_task(asyncio.sleep(0.1))
        seen.append(PROCESS.get().name)

    for process in (two.server, two.client):
        with two.loop.running():
            two.loop.begin(process, work())
            two.world.run_until(two.world.now + 5.0)
    assert seen == ["server"] * 3 + ["client"] * 3
    assert not two.server.tasks


def test_a_stopped_process_finds_everything_when_it_goes_on_and_its_timers_late() -> None:
    two = Two()
    fired: list[float] = []
    with two.loop.running():
        two.loop.call_later(1.0, lambda: fired.append(two.world.now), context=two.server.context)
    two.server.pause(until=8.0)
    two.write(b"one")
    two.run(4.0)
    two.write(b"two")
    two.run(7.9)
    assert not two.there.came
    assert not fired
    two.run(9.0)
    assert two.there.data == b"onetwo"
    assert min(at for at, _ in two.there.came) >= 8.0
    assert 8.0 <= fired[0] < 8.1


def test_a_stopped_process_is_connected_to_by_its_kernel() -> None:
    two = Two()
    two.server.pause(until=8.0)
    second = Sink()

    async def connect() -> None:
        await two.loop.create_connection(lambda: second, "10.0.0.1", PORT)

    with two.loop.running():
        two.loop.begin(two.client, connect())
    two.run(2.0)
    assert second.transport is not None


def test_a_killed_process_does_not_clean_up_and_what_it_wrote_still_arrives() -> None:
    two = Two()
    cleaned: list[str] = []

    async def work() -> None:
        two.here.transport.write(b"last words")
        try:
            await asyncio.sleep(100)
        finally:
            cleaned.append("now")

    with two.loop.running():
        two.loop.begin(two.client, work())
    two.run(1.001)
    two.loop.kill(two.client)
    two.run(5.0)
    assert two.there.data == b"last words"
    assert two.there.lost == [None]
    assert two.here.lost == []
    assert cleaned == []
    assert two.loop.faults == []


def test_of_a_machine_that_is_gone_nobody_hears_until_it_is_back_and_asked() -> None:
    two = Two()
    two.loop.kill(two.server, with_machine=True)
    two.loop.network.set_down("10.0.0.1", is_down=True)
    two.write(b"anybody there?")
    two.run(5.0)
    assert two.here.lost == []
    two.loop.network.set_down("10.0.0.1", is_down=False)
    two.run(6.0)
    assert [type(error) for error in two.here.lost] == [ConnectionResetError]


def test_what_is_sent_into_a_cut_comes_after_it_in_order() -> None:
    two = Two()
    two.loop.network.cut("10.0.0.2", "10.0.0.1", until=4.0)
    for n in range(50):
        two.write(bytes([n]))
    two.run(3.9)
    assert not two.there.came
    two.run(20.0)
    assert two.there.data == bytes(range(50))
    two.loop.network.cut("10.0.0.2", "10.0.0.1", until=1e9)
    two.write(b"x")
    two.run(25.0)
    two.loop.network.heal()
    two.run(32.0)
    assert two.there.data == bytes(range(50)) + b"x"


def test_who_dials_into_a_cut_gives_up() -> None:
    two = Two()
    two.loop.network.cut("10.0.0.2", "10.0.0.1", until=1e9)
    found: list[Any] = []

    async def connect() -> None:
        try:
            await two.connect()
        except OSError as error:
            found.append((type(error), two.world.now))

    with two.loop.running():
        two.loop.begin(two.client, connect())
    two.run(60.0)
    ((kind, at),) = found
    assert kind is TimeoutError
    assert 20.0 < at < 22.0


def test_a_reset_is_heard_by_both_ends_and_a_half_open_one_only_by_who_writes() -> None:
    two = Two()
    two.end().break_off()
    two.end().far_end.break_off()
    two.run(2.0)
    assert [type(e) for e in two.here.lost + two.there.lost] == [ConnectionResetError] * 2
    two = Two()
    two.end().far_end.break_off()
    two.run(60.0)
    assert len(two.there.lost) == 1
    assert two.here.lost == []
    two.write(b"hello?")
    two.run(61.0)
    assert [type(error) for error in two.here.lost] == [ConnectionResetError]
    assert two.loop.network.open_connections() == []


def test_bytes_come_in_pieces_and_never_in_another_order() -> None:
    data = bytes(range(256)) * 2_000
    counts = set()
    for seed in range(4):
        two = Two(seed)
        two.loop.network.splits = 0.9
        two.write(data)
        two.run(200.0)
        assert two.there.data == data
        counts.add(len(two.there.came))
    assert min(counts) > 50
    assert len(counts) > 1


def test_a_thread_works_in_order_not_while_stopped_and_not_after_death() -> None:
    world = World(3)
    loop = VirtualLoop(world)
    process = loop.spawn("p", "10.0.0.1")
    done: list[tuple[int, bool]] = []

    def begin() -> None:
        thread = VirtualThread(world, process)
        for n in range(5):
            future = thread.submit(lambda n=n: done.append((n, world.now >= 5.0)))
            future.add_done_callback(lambda _: None)

    begin()
    process.pause(until=5.0)
    world.run_until(4.0)
    assert done == []
    world.run_until(6.0)
    assert done == [(n, True) for n in range(5)]
    begin()
    loop.kill(process)
    world.run_until(9.0)
    assert len(done) == 5


def test_what_nobody_catches_is_found() -> None:
    async def fails() -> None:
        raise ValueError("lost")

    async def main() -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        task = asyncio.create_task(fails())
        await asyncio.sleep(1)
        assert task.done()

    loop = VirtualLoop(World(0))
    loop.run_until_complete(main())
    gc.collect()
    faults = " ".join(loop.faults)
    assert "division by zero" in faults
    assert "never retrieved: ValueError('lost')" in faults


@pytest.mark.parametrize("seed", range(3))
def test_the_same_seed_gives_the_same_trace(seed: int) -> None:
    digests = []
    for other in (seed, seed, seed + 100):
        two = Two(other)
        two.write(b"y" * 50_000)
        two.run(20.0)
        assert two.world.trace is not None
        digests.append(two.world.trace.digest())
    assert digests[0] == digests[1] != digests[2]


def test_processes_take_turns_as_the_seed_has_it() -> None:
    def order(seed: int) -> str:
        world = World(seed)
        loop = VirtualLoop(world)
        said: list[str] = []

        async def work(process: SimProcess) -> None:
            for _ in range(5):
                said.append(process.name)
                await asyncio.sleep(0)

        with loop.running():
            for name in "ab":
                process = loop.spawn(name, f"10.0.0.{name}")
                loop.begin(process, work(process))
            world.run_until(1.0)
        return "".join(said)

    orders = {order(seed) for seed in range(20)}
    assert len(orders) > 3
    assert order(7) == order(7)
