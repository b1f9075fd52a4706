"""The subscriber process of a measurement: counts, checks and times what arrives.

Messages of one length are taken many at a time, by looking at the first and the last of a read;
anything else is walked frame by frame. So the subscriber costs little next to the broker, with
1 connection as with 10, whatever the broker.
"""

from __future__ import annotations

import selectors
import socket
import sys
import time

import msgspec

from bench.load_frames import (
    NUMBER,
    PROBE,
    STAMP,
    Dialect,
    content_filters,
    dialect_of,
)
from bench.load_processors import machine_busy_s, processes_cpu_s
from bench.load_task import DONE, FEEDBACK, STANDS, WARM, LoadReport, LoadTask, dial, read_task

BUFFER_BYTES = 1 << 19
ACK_EVERY_BYTES = 1 << 18
READ_PAUSE_S = 0.0005


class Inbox:
    """One connection of the subscriber side."""

    def __init__(self, dialect: Dialect, sock: socket.socket, *, timed: bool, strided: bool):
        self.sock = sock
        self.count = 0
        self.last = -1
        self.probes = 0
        self.disordered = 0
        self.confirmed = 0
        self.latencies_ns: list[int] = []
        self._dialect = dialect
        self._timed = timed
        self._strided = strided
        self._buffer = bytearray(BUFFER_BYTES)
        self._view = memoryview(self._buffer)
        self._filled = 0
        self._unacked_bytes = 0

    def read(self) -> None:
        """Take in what the socket has; raises ConnectionError at its end."""
        got = self.sock.recv_into(self._view[self._filled :])
        if not got:
            raise ConnectionError("the broker closed the connection")
        end = self._filled + got
        offset = self._walk(end)
        self._filled = end - offset
        if offset and self._filled:
            self._buffer[: self._filled] = self._buffer[offset:end]
        self._unacked_bytes += got
        if self._dialect.acknowledges and self._unacked_bytes >= ACK_EVERY_BYTES:
            self._unacked_bytes = 0
            self.sock.sendall(self._dialect.ack(self.count + self.probes))

    def _walk(self, end: int) -> int:
        dialect, data = self._dialect, self._buffer
        offset = 0
        while True:
            stop = dialect.frame_end(data, offset, end)
            if stop is None:
                return offset
            if not dialect.is_publication(data, offset):
                self.confirmed = max(self.confirmed, dialect.confirmed(data, offset, stop))
                offset = stop
                continue
            if self._strided:
                offset = self._take_many(offset, stop - offset, end)
            else:
                self._take_one(stop)
                offset = stop

    def _take_many(self, start: int, length: int, end: int) -> int:
        """Take all messages from ``start`` on if they have one length and follow each other."""
        data, from_end = self._buffer, self._dialect.stamp_from_end
        count = (end - start) // length
        last_start = start + (count - 1) * length
        stop = last_start + length
        same = data[last_start : last_start + 5] == data[start : start + 5]
        if count > 1 and same:
            (number,) = NUMBER.unpack_from(data, stop - from_end)
            if number == self.last + count:
                self.last = number
                self.count += count
                return stop
        self._take_one(start + length)
        return start + length

    def _take_one(self, stop: int) -> None:
        number, stamp_ns = STAMP.unpack_from(self._buffer, stop - self._dialect.stamp_from_end)
        if number == PROBE:
            self.probes += 1
            return
        if number <= self.last:
            self.disordered += 1
        self.last = number
        self.count += 1
        if self._timed:
            self.latencies_ns.append(time.monotonic_ns() - stamp_ns)


class SubscriberSide:
    """All connections of the subscriber process."""

    def __init__(self, task: LoadTask) -> None:
        self._task = task
        self._dialect = dialect_of(task.dialect)
        self._feedback = socket.socket(fileno=task.feedback_fd)
        self._inboxes: list[Inbox] = []
        self._selector = selectors.DefaultSelector()
        self._told = 0
        self._phase = STANDS

    def attach(self) -> None:
        """Connect and subscribe every connection; return when the broker has confirmed it."""
        task, dialect = self._task, self._dialect
        filters = (
            content_filters(task.subscriptions, task.content_seed, task.connections)
            if task.content_seed is not None
            else [[] for _ in range(task.connections)]
        )
        for index, wanted in enumerate(filters):
            sock = dial(task.port)
            inbox = Inbox(
                dialect, sock, timed=task.rate_per_s > 0, strided=task.content_seed is None
            )
            client = f"{task.client}{index}"
            requests = dialect.subscribe(client, wanted)
            sock.sendall(dialect.connect(client) + b"".join(requests))
            while inbox.confirmed < len(requests):
                inbox.read()
            self._inboxes.append(inbox)
            self._selector.register(sock, selectors.EVENT_READ, inbox)
        if task.content_seed is not None:
            self._phase = WARM  # the broker's confirmation is enough: there is only one broker

    def receive(self) -> LoadReport:
        """Until every connection has all it expects, or the time is up."""
        task = self._task
        deadline = time.monotonic() + task.limit_s
        started_at = last_at = time.monotonic()
        before = self._used()
        while True:
            for key, _ in self._selector.select(timeout=1.0):
                key.data.read()
                last_at = time.monotonic()
            if self._advance_phase():
                started_at, before = time.monotonic(), self._used()
            if self._is_done() or time.monotonic() > deadline:
                break
            self._tell_count()
            if not task.rate_per_s:
                # A reader that is woken for every message makes mosquitto pay for the waking.
                time.sleep(READ_PAUSE_S)
        used = self._used()
        self._feedback.sendall(FEEDBACK.pack(DONE))
        return LoadReport(
            started_at=started_at,
            finished_at=last_at,
            cpu_s=used[0] - before[0],
            broker_cpu_s=used[1] - before[1],
            machine_busy_s=used[2] - before[2],
            received=[
                inbox.count - warm
                for inbox, warm in zip(self._inboxes, self._expected_warm, strict=True)
            ],
            disordered=sum(inbox.disordered for inbox in self._inboxes),
            latencies_us=[
                ns / 1000 for inbox in self._inboxes for ns in inbox.latencies_ns[task.warm_count :]
            ],
        )

    def _used(self) -> tuple[float, float, float]:
        """Processor time so far: of this process, of the brokers, of the machine."""
        brokers_s = processes_cpu_s(self._task.broker_pids)
        return time.process_time(), brokers_s, machine_busy_s()

    @property
    def _expected_warm(self) -> list[int]:
        return self._task.expected_warm or [self._task.warm_count] * self._task.connections

    @property
    def _expected(self) -> list[int]:
        task = self._task
        return task.expected or [task.warm_count + task.count] * task.connections

    def _has(self, counts: list[int]) -> bool:
        return all(i.count >= count for i, count in zip(self._inboxes, counts, strict=True))

    def _is_warm(self) -> bool:
        task = self._task
        if task.content_seed is not None:
            return self._has(self._expected_warm)
        return all(inbox.last >= task.warm_count - 1 for inbox in self._inboxes)

    def _is_done(self) -> bool:
        """All that is expected, or (where messages were lost) the last one came everywhere."""
        if self._phase != 0:
            return False
        final = self._task.warm_count + self._task.count - 1
        return self._has(self._expected) or all(inbox.last == final for inbox in self._inboxes)

    def _advance_phase(self) -> bool:
        """Tell the publisher when the way stands and when the warm-up is over; True at the last."""
        if self._phase == STANDS and all(inbox.probes for inbox in self._inboxes):
            self._feedback.sendall(FEEDBACK.pack(STANDS))
            self._phase = WARM
        if self._phase == WARM and self._is_warm():
            self._feedback.sendall(FEEDBACK.pack(WARM))
            self._phase = 0
            return True
        return False

    def _tell_count(self) -> None:
        if self._dialect.acknowledges:
            return
        arrived = min(inbox.last for inbox in self._inboxes) + 1
        if arrived - self._told >= self._task.window_messages // 8:
            self._told = arrived
            self._feedback.sendall(FEEDBACK.pack(arrived))


def main() -> None:
    side = SubscriberSide(read_task(sys.argv[1]))
    side.attach()
    print("ready", flush=True)
    print(msgspec.json.encode(side.receive()).decode(), flush=True)


if __name__ == "__main__":
    main()
