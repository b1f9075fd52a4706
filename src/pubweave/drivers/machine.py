"""What drivers take from their machine, in virtual time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Executor
from pathlib import Path
from socket import socket
from typing import Any

from pubweave.model.records.journal_records import DiskOperation
from pubweave.runtime.broker.machine import Machine
from pubweave.runtime.net.clock import UnixClock
from pubweave.sim.eventloop.loop import VirtualLoop
from pubweave.sim.eventloop.process import SimProcess
from pubweave.sim.eventloop.threads import VirtualThread
from pubweave.sim.kernel.disk import DiskSetting, SimDisk
from pubweave.sim.kernel.world import World

STARTED_AT = 1_000_000_000.0
"""What clocks show when a run begins."""


class VirtualClock(UnixClock):
    """A process's clock; it may be wrong, but it goes as fast as time."""

    def __init__(self, world: World, error_s: float = 0.0) -> None:
        self._world = world
        self._offset = STARTED_AT + error_s

    def now(self) -> float:
        return self._offset + self._world.now


class MountedDisk:
    """A disk for as long as a process has it open."""

    def __init__(self, disk: SimDisk) -> None:
        self._disk = disk

    def names(self) -> list[str]:
        return sorted(self._disk.names())

    def read(self, name: str) -> bytes:
        return self._disk.read(name)

    def carry_out(self, operations: Sequence[DiskOperation]) -> None:
        self._disk.carry_out(operations)

    def close(self) -> None:
        """What is on it stays."""


class VirtualMachine(Machine):
    """The machine of one broker process."""

    def __init__(
        self, loop: VirtualLoop, process: SimProcess, disk: SimDisk, setting: DiskSetting
    ) -> None:
        self.clock = VirtualClock(loop.world)
        self.journal_policy = setting.policy
        self._loop = loop
        self._process = process
        self._disk = disk
        self._setting = setting

    def secret(self) -> bytes:
        return self._loop.world.rng.bytes(32)

    def listening_sockets(self, places: Iterable[Any], port: int) -> Iterator[socket]:
        return self._loop.listening_sockets(places, port)

    def disk(self, directory: Path) -> MountedDisk:
        return MountedDisk(self._disk)

    def thread(self, name: str) -> Executor:
        work_s = 0.5 * self._setting.sync_s, 2.0 * self._setting.sync_s
        return VirtualThread(self._loop.world, self._process, work_s)
