"""A broker's telemetry on its way to disk, without ever holding the broker up.

`TelemetryWriter.submit` only puts rows into a bounded queue; a thread of its own turns them into
Parquet files. Whatever goes wrong there (disk full, directory gone, a misfit record, a slow disk)
costs records, which are counted, and never reaches the broker.

pyarrow is imported with the first writer, so a broker without telemetry does not load it. Every row
that was accepted ends as exactly one of written and dropped.
"""

from __future__ import annotations

import importlib
import threading
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pubweave.model.telemetry import RECORDED_TABLES, Record

CHUNK_RECORDS = 256
"""Rows converted at a time. Conversion holds the interpreter's lock, and a thread that does not let
go of it keeps it for 5 ms: after each chunk the writer lets routing have it."""
PAUSE_S = 0.0001
POLL_S = 0.1
FIRST_BACK_OFF_S = 1.0
LONGEST_BACK_OFF_S = 60.0


@dataclass(frozen=True)
class TelemetryWriterStats:
    """What became of the records so far; ``queued`` are those not yet written or dropped."""

    written: int
    dropped: int
    queued: int
    files: int
    last_error: str | None


@dataclass
class _Buffer:
    opened_at: float
    record_count: int = 0
    batches: list[Any] = field(default_factory=list)


class RotatingFiles:
    """Rows in, files out: one thread's work, with the instant of its clock as an argument.

    A table's file is written when its oldest row is ``rotate_s`` old or it has ``rotate_records``
    rows. After a failed write, what falls due is dropped untried until the back-off has passed.
    """

    def __init__(
        self, directory: Path, source: str, unique: str, rotate_s: float, rotate_records: int
    ) -> None:
        self.written = 0
        self.dropped = 0
        self.files = 0
        self.buffered = 0
        self.last_error: str | None = None
        self._directory = directory
        self._source = source
        self._unique = unique
        self._rotate_s = rotate_s
        self._rotate_records = rotate_records
        self._buffers: dict[str, _Buffer] = {}
        self._sequence = 0
        self._back_off_s = FIRST_BACK_OFF_S
        self._retry_at = float("-inf")

    def add(self, table: str, rows: list[Record], now: float) -> None:
        """Convert rows and keep them; writes whatever file they fill."""
        if table not in RECORDED_TABLES:
            self._drop(len(rows), f"no telemetry table is called {table!r}")
            return
        start = 0
        while start < len(rows):
            buffer = self._buffers.setdefault(table, _Buffer(opened_at=now))
            size = min(CHUNK_RECORDS, self._rotate_records - buffer.record_count)
            self._convert(table, rows[start : start + size], buffer)
            start += size
            time.sleep(PAUSE_S)
            if buffer.record_count >= self._rotate_records:
                self._write(table, now)

    def write_due(self, now: float) -> None:
        """Write the files of all tables whose oldest row is old enough."""
        for table, buffer in list(self._buffers.items()):
            if now - buffer.opened_at >= self._rotate_s:
                self._write(table, now)

    def write_all(self, now: float, *, even_backing_off: bool = False) -> None:
        """Write everything there is."""
        if even_backing_off:
            self._retry_at = now
        for table in list(self._buffers):
            self._write(table, now)

    def _convert(self, table: str, rows: list[Record], buffer: _Buffer) -> None:
        from pubweave.telemetry import parquet  # not before telemetry is on

        try:
            batches = [parquet.record_batch(table, rows)]
        except parquet.RecordError:
            batches = self._convert_singly(table, rows)
        except Exception as error:
            self._drop(len(rows), f"{table}: {error!r}")
            return
        count = sum(batch.num_rows for batch in batches)
        buffer.batches += batches
        buffer.record_count += count
        self.buffered += count

    def _convert_singly(self, table: str, rows: list[Record]) -> list[Any]:
        # One misfit must not cost its neighbors.
        from pubweave.telemetry import parquet

        batches = []
        for row in rows:
            try:
                batches.append(parquet.record_batch(table, [row]))
            except parquet.RecordError as error:
                self._drop(1, str(error))
        return batches

    def _write(self, table: str, now: float) -> None:
        from pubweave.telemetry import parquet

        buffer = self._buffers.pop(table)
        self.buffered -= buffer.record_count
        if not buffer.record_count:
            return
        if now < self._retry_at:
            self._drop(buffer.record_count, self.last_error)
            return
        self._sequence += 1
        try:
            parquet.write_batches(
                self._directory, self._source, self._sequence, table, buffer.batches, self._unique
            )
        except Exception as error:  # OSError: full or unwritable; Arrow has others
            self._drop(buffer.record_count, f"{self._directory / table}: {error}")
            self._retry_at = now + self._back_off_s
            self._back_off_s = min(self._back_off_s * 2, LONGEST_BACK_OFF_S)
            return
        self._back_off_s = FIRST_BACK_OFF_S
        self.files += 1
        self.written += buffer.record_count

    def _drop(self, count: int, reason: str | None) -> None:
        self.dropped += count
        self.last_error = reason


class TelemetryWriter:
    """Writes one source's records below ``directory``; `close` it, or its last rows are late.

    At most ``max_queued_records`` rows are held in memory; what comes beyond is dropped and
    counted. Every writer adds a random part to its file names: a restarted broker overwrites
    nothing.
    """

    def __init__(
        self,
        directory: Path,
        source: str,
        rotate_s: float = 5.0,
        rotate_records: int = 50_000,
        max_queued_records: int = 200_000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if rotate_s <= 0 or rotate_records < 1 or max_queued_records < 1:
            raise ValueError("rotate_s, rotate_records and max_queued_records must be positive")
        # Here and not in the thread: at the end of a program it is too late for some imports.
        importlib.import_module("pubweave.telemetry.parquet").preload()
        self._files = RotatingFiles(
            Path(directory), source, uuid.uuid4().hex[:16], rotate_s, rotate_records
        )
        self._max_queued_records = max_queued_records
        self._poll_s = min(POLL_S, rotate_s / 2)
        self._clock = clock
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._queue: deque[tuple[str, list[Record]]] = deque()
        self._accepted = 0
        self._refused = 0
        self._lost = 0
        self._fatal_error: str | None = None
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name=f"telemetry-{source}", daemon=False)
        self._thread.start()

    def submit(self, records: Mapping[str, list[Record]]) -> None:
        """Take records over (the lists are the writer's from now on); never waits, never raises."""
        with self._lock:  # the thread holds it only to look at the queue, never while it writes
            for table, rows in records.items():
                room = 0 if self._is_closed else self._max_queued_records - self._queued()
                if len(rows) > room:
                    self._refused += len(rows) - max(room, 0)
                    rows = rows[: max(room, 0)]
                if rows:
                    self._queue.append((table, rows))
                    self._accepted += len(rows)
            is_filling = self._queued() - self._files.buffered > self._max_queued_records // 4
        if is_filling:
            self._wake.set()

    def stats(self) -> TelemetryWriterStats:
        """What became of all records submitted so far."""
        files = self._files
        with self._lock:
            return TelemetryWriterStats(
                written=files.written,
                dropped=files.dropped + self._refused + self._lost,
                queued=max(self._queued(), 0),
                files=files.files,
                last_error=self._fatal_error or files.last_error,
            )

    def close(self) -> None:
        """Write what is left and end the thread; later submissions are dropped and counted."""
        with self._lock:
            self._is_closed = True
        self._wake.set()
        self._thread.join()

    def _queued(self) -> int:
        return self._accepted - self._files.written - self._files.dropped - self._lost

    def _run(self) -> None:
        try:
            while not self._is_last_turn():
                self._work()
            self._work()
            self._files.write_all(self._clock(), even_backing_off=True)
        except Exception as error:
            self._give_up(error)

    def _is_last_turn(self) -> bool:
        self._wake.wait(self._poll_s)
        self._wake.clear()
        with self._lock:
            # A program that ends without closing still gets its records and its exit.
            self._is_closed |= not threading.main_thread().is_alive()
            return self._is_closed

    def _work(self) -> None:
        for table, rows in self._drained().items():
            self._files.add(table, rows, self._clock())
            if self._files.buffered > self._max_queued_records // 2:
                self._files.write_all(self._clock())
        self._files.write_due(self._clock())

    def _drained(self) -> dict[str, list[Record]]:
        drained: dict[str, list[Record]] = {}
        while self._queue:
            table, rows = self._queue.popleft()
            drained.setdefault(table, []).extend(rows)
        return drained

    def _give_up(self, error: Exception) -> None:
        # Only a broken installation or a bug comes here: no telemetry any more, routing goes on.
        with self._lock:
            self._is_closed = True
            self._lost = self._queued()
            self._fatal_error = f"telemetry stopped: {error!r}"
