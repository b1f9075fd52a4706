"""The publisher process of a measurement: sends what was encoded before, in large writes.

As fast as the broker takes it (pubweave: within the session's window of unacknowledged bytes;
MQTT: within a window of messages that the subscriber side has not reported yet), or one message at
a time at a fixed rate to measure latency.
"""

from __future__ import annotations

import select
import socket
import sys
import time

import msgspec
import numpy as np

from bench.load_frames import (
    PROBE,
    STAMP,
    Run,
    content_run,
    dialect_of,
    exact_run,
)
from bench.load_task import DONE, FEEDBACK, STANDS, WARM, LoadReport, LoadTask, dial, read_task

WRITE_BYTES = 1 << 16
PROBE_EVERY_S = 0.02
MAX_PROBES = 1000


class PublisherSide:
    """One publisher's connection and how far its messages have come."""

    def __init__(self, task: LoadTask) -> None:
        self._task = task
        self._dialect = dialect_of(task.dialect)
        self._feedback = socket.socket(fileno=task.feedback_fd)
        self._sock = dial(task.port)
        self._run = self._encode()
        self._sent_bytes = 0
        self._arrived = 0
        """Messages of the run that have reached the broker (pubweave) or the subscribers."""
        self._before_run = 0
        """Sequenced messages of the session before the run: advertisements and probes."""
        self._acked = 0
        self._stands = False
        self._warm = False
        self._done = False
        self._inbox = bytearray()
        self._deadline = time.monotonic() + task.limit_s

    def _encode(self) -> Run:
        task = self._task
        total = task.warm_count + task.count
        if task.content_seed is not None:
            return content_run(task.client, total, task.content_seed, MAX_PROBES)
        return exact_run(self._dialect, task.client, total, MAX_PROBES)

    # --- before the clock starts -----------------------------------------------------------

    def attach(self) -> None:
        """Connect, advertise, and probe until every subscriber is reached."""
        task, dialect = self._task, self._dialect
        requests = dialect.advertise(task.client, task.content_seed is not None)
        self._before_run = len(requests)
        self._sock.sendall(dialect.connect(task.client) + b"".join(requests))
        if task.content_seed is not None:
            return
        for number in range(MAX_PROBES):
            self._sock.sendall(dialect.publication(task.client, PROBE, number))
            self._before_run += 1
            self._wait(PROBE_EVERY_S)
            if self._stands:
                return
        raise TimeoutError("no probe has reached all subscribers")

    # --- sending ---------------------------------------------------------------------------

    def publish(self) -> LoadReport:
        """Warm up, wait until that has arrived, then send the run under the clock."""
        warm = self._task.warm_count
        self._send_until(warm)
        while not self._warm:
            self._wait(1.0)
        started_at, cpu_s = time.monotonic(), time.process_time()
        self._send_until(len(self._run))
        report = LoadReport(started_at, time.monotonic(), time.process_time() - cpu_s)
        while not self._done:
            self._wait(1.0)
        return report

    def _send_until(self, count: int) -> None:
        if self._task.rate_per_s:
            self._send_paced(count)
            return
        stop = int(self._run.ends[count - 1])
        view = memoryview(self._run.data)
        self._sock.setblocking(False)
        while self._sent_bytes < stop:
            limit = min(stop, self._allowed_bytes(), self._sent_bytes + WRITE_BYTES)
            if limit <= self._sent_bytes:
                self._wait(1.0)
                continue
            try:
                self._sent_bytes += self._sock.send(view[self._sent_bytes : limit])
            except BlockingIOError:
                self._wait(1.0, writable=True)
            else:
                self._wait(0.0)
        self._sock.setblocking(True)

    def _send_paced(self, count: int) -> None:
        """One message every 1/rate seconds, stamped at the moment it is sent."""
        ends = self._run.ends.tolist()
        data = bytearray(self._run.data)
        first = int(np.searchsorted(self._run.ends, self._sent_bytes, side="right"))
        from_end = self._dialect.stamp_from_end
        pause_s = 1.0 / self._task.rate_per_s
        due_at = time.monotonic()
        for number in range(first, count):
            due_at += pause_s
            time.sleep(max(0.0, due_at - time.monotonic()))
            start, stop = self._sent_bytes, ends[number]
            STAMP.pack_into(data, stop - from_end, number, time.monotonic_ns())
            self._sock.sendall(data[start:stop])
            self._sent_bytes = stop
            self._wait(0.0)

    def _allowed_bytes(self) -> int:
        """Up to where the window lets this publisher send."""
        ends = self._run.ends
        if self._dialect.acknowledges:
            before = int(ends[self._arrived - 1]) if self._arrived else 0
            return before + self._task.window_bytes
        return int(ends[min(len(ends), self._arrived + self._task.window_messages) - 1])

    # --- what comes back -------------------------------------------------------------------

    def _wait(self, timeout_s: float, *, writable: bool = False) -> None:
        """Take in acknowledgements and feedback; at most so long if there is nothing."""
        if time.monotonic() > self._deadline:
            raise TimeoutError(f"after {self._task.limit_s:.0f} s: {self._arrived} arrived")
        writers = [self._sock] if writable else []
        ready, _, _ = select.select([self._sock, self._feedback], writers, [], timeout_s)
        if self._feedback in ready:
            self._read_feedback()
        if self._sock in ready:
            self._read_acks()

    def _read_feedback(self) -> None:
        data = self._feedback.recv(FEEDBACK.size * 512)
        for (value,) in FEEDBACK.iter_unpack(data):
            if value == STANDS:
                self._stands = True
            elif value == WARM:
                self._warm = True
            elif value == DONE:
                self._done = True
            else:
                self._arrived = max(self._arrived, value)
        if self._warm and not self._dialect.acknowledges:
            self._arrived = max(self._arrived, self._task.warm_count)

    def _read_acks(self) -> None:
        data = self._sock.recv(1 << 16)
        if not data:
            raise ConnectionError("the broker closed the connection")
        inbox = self._inbox
        inbox += data
        start = 0
        while (stop := self._dialect.frame_end(inbox, start, len(inbox))) is not None:
            self._acked = max(self._acked, self._dialect.confirmed(inbox, start, stop))
            start = stop
        del inbox[:start]
        if self._dialect.acknowledges:
            self._arrived = max(self._arrived, self._acked - self._before_run)


def main() -> None:
    side = PublisherSide(read_task(sys.argv[1]))
    side.attach()
    print(msgspec.json.encode(side.publish()).decode(), flush=True)


if __name__ == "__main__":
    main()
