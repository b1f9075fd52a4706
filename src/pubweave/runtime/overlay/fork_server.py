"""A small process that forks brokers: ``python -m pubweave.runtime.overlay.fork_server``.

It has imported everything a broker needs and does nothing else, so a fork takes milliseconds and
all brokers share that memory. It has one thread and no event loop, so a fork is safe at any time,
also for a restart. Orders come in on standard input, one JSON line each; events go out on
standard output. The end of the input, however it comes about, ends all brokers and then itself.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import select
import signal
import sys
import time
from typing import NoReturn

import msgspec

from pubweave.model.ids import BrokerId
from pubweave.runtime.journal.host import code_version
from pubweave.runtime.net.addresses import Address
from pubweave.runtime.overlay.broker_process import StartBroker, run_forked
from pubweave.runtime.settings.text import decode

STOP_LIMIT_S = 10.0
"""Brokers that have not stopped after this time are killed."""


class Started(msgspec.Struct, frozen=True, tag="started"):
    """A process was forked for a broker."""

    broker: BrokerId
    pid: int


class Listening(msgspec.Struct, frozen=True, tag="listening"):
    """A broker can be reached; said by the broker itself."""

    broker: BrokerId
    pid: int
    address: Address


class Exited(msgspec.Struct, frozen=True, tag="exited"):
    """A broker's process is gone; a negative code names the signal that ended it."""

    broker: BrokerId
    pid: int
    exit_code: int


ServerEvent = Started | Listening | Exited


class ForkServer:
    """Forks brokers on order and tells of their beginning and end."""

    def __init__(self, orders_fd: int, events_fd: int) -> None:
        self._orders_fd = orders_fd
        self._events_fd = events_fd
        self._wake_fd, self._wake_write_fd = os.pipe()
        self._broker_of: dict[int, BrokerId] = {}
        self._unread = b""

    def run(self) -> None:
        """Until the orders end; then stop what runs."""
        os.set_blocking(self._wake_write_fd, False)
        signal.set_wakeup_fd(self._wake_write_fd, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        is_open = True
        while is_open:
            readable, _, _ = select.select([self._orders_fd, self._wake_fd], [], [])
            if self._wake_fd in readable:
                os.read(self._wake_fd, 4096)
                self._reap()
            if self._orders_fd in readable:
                is_open = self._take_orders()
        self._stop_all()

    def _take_orders(self) -> bool:
        data = os.read(self._orders_fd, 1 << 20)
        *lines, self._unread = (self._unread + data).split(b"\n")
        for line in lines:
            self._fork(decode(line, StartBroker))
        return bool(data)

    def _fork(self, order: StartBroker) -> None:
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            self._be_child(order, parent)
        self._broker_of[pid] = order.settings.broker.id
        self._tell(Started(order.settings.broker.id, pid))

    def _be_child(self, order: StartBroker, parent: int) -> NoReturn:
        # Standard output becomes the log: keep the way to tell the parent under another number.
        events_fd = os.dup(self._events_fd)
        signal.set_wakeup_fd(-1)
        os.close(self._wake_fd)
        os.close(self._wake_write_fd)

        def listening(address: Address) -> None:
            _write_event(events_fd, Listening(order.settings.broker.id, os.getpid(), address))
            os.close(events_fd)

        run_forked(order, parent, listening)

    def _reap(self) -> None:
        while self._broker_of:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                return
            self._tell(Exited(self._broker_of.pop(pid), pid, os.waitstatus_to_exitcode(status)))

    def _stop_all(self) -> None:
        for pid in self._broker_of:
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + STOP_LIMIT_S
        while self._broker_of and time.monotonic() < deadline:
            select.select([self._wake_fd], [], [], 0.1)
            self._reap()
        for pid in self._broker_of:
            os.kill(pid, signal.SIGKILL)

    def _tell(self, event: ServerEvent) -> None:
        with contextlib.suppress(BrokenPipeError):  # nobody is left to be told; the input ends, too
            _write_event(self._events_fd, event)


def _write_event(fd: int, event: ServerEvent) -> None:
    # Several processes share this pipe: a line is short enough to be written as one.
    os.write(fd, msgspec.json.encode(event) + b"\n")


def main() -> None:
    """Import what brokers need, then serve.

    ``--telemetry``: they will write telemetry; ``--agents``: they will have agents."""
    if "--telemetry" in sys.argv[1:]:
        importlib.import_module("pubweave.telemetry.parquet").preload()
    if "--agents" in sys.argv[1:]:
        importlib.import_module("pubweave.runtime.coordination.agent_host")
    code_version()  # of the code that the brokers will be forked with, whatever is on disk later
    gc.collect()
    gc.freeze()  # or the collector would touch, and so copy, every shared page
    ForkServer(0, 1).run()


if __name__ == "__main__":
    main()
