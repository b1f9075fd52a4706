"""The writer: files turn over by age and count, and no trouble with them reaches the broker."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from pubweave.model.telemetry import Record
from pubweave.runtime.broker.telemetry_writer import RotatingFiles, TelemetryWriter
from pubweave.telemetry import parquet
from pubweave.telemetry.parquet import read_table, telemetry_files

PATIENCE_S = 20.0


def rtts(count: int, first: int = 0) -> list[Record]:
    return [(float(n), "b1", 1, n, "b2", 1.5) for n in range(first, first + count)]


def numbers(directory: Path) -> list[int]:
    found: list[int] = read_table(directory, "link_rtts").column("record_number").to_pylist()
    return found


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.005)


class FullDisk:
    """Stands in for write_batches: refuses while ``is_full``, counts how often it was asked."""

    def __init__(self, code: int = errno.ENOSPC) -> None:
        self.is_full = True
        self.asked = 0
        self._code = code
        self._write = parquet.write_batches

    def __call__(self, *arguments: Any) -> Path:
        self.asked += 1
        if self.is_full:
            raise OSError(self._code, os.strerror(self._code))
        return self._write(*arguments)


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    disk = FullDisk()
    monkeypatch.setattr(parquet, "write_batches", disk)
    return disk


def rotating(directory: Path, rotate_s: float = 5.0, rotate_records: int = 10) -> RotatingFiles:
    return RotatingFiles(directory, "b1", "u", rotate_s, rotate_records)


def test_a_file_is_written_when_its_oldest_record_is_old_enough(tmp_path: Path) -> None:
    files = rotating(tmp_path)
    files.add("link_rtts", rtts(2), now=100.0)
    files.add("link_rtts", rtts(2, 2), now=104.0)
    files.write_due(104.9)
    assert telemetry_files(tmp_path, "link_rtts") == []
    files.write_due(105.0)
    assert numbers(tmp_path) == [0, 1, 2, 3]
    files.add("link_rtts", rtts(1, 4), now=106.0)
    files.write_due(110.0)
    assert files.files == 1


def test_a_file_is_written_when_it_has_enough_records(tmp_path: Path) -> None:
    files = rotating(tmp_path, rotate_records=10)
    files.add("link_rtts", rtts(7), now=0.0)
    assert files.files == 0
    files.add("link_rtts", rtts(20, 7), now=0.0)
    assert files.files == 2
    sizes = [pq.ParquetFile(p).metadata.num_rows for p in telemetry_files(tmp_path, "link_rtts")]
    assert sizes == [10, 10]
    assert files.buffered == 7
    files.write_all(0.0)
    assert numbers(tmp_path) == list(range(27))


def test_a_full_disk_drops_backs_off_and_recovers(tmp_path: Path, full_disk: FullDisk) -> None:
    files = rotating(tmp_path, rotate_s=0.5)
    files.add("link_rtts", rtts(3), now=0.0)
    files.write_due(0.5)
    assert (files.dropped, files.written, full_disk.asked) == (3, 0, 1)
    assert files.last_error is not None
    assert "No space left" in files.last_error
    files.add("link_rtts", rtts(4, 3), now=0.6)
    files.write_due(1.2)  # within the first second of backing off: dropped untried
    assert (files.dropped, full_disk.asked) == (7, 1)
    files.add("link_rtts", rtts(1, 7), now=1.3)
    files.write_due(2.0)  # tried again, and again no room: now two seconds
    assert (files.dropped, full_disk.asked) == (8, 2)
    files.add("link_rtts", rtts(1, 8), now=2.1)
    files.write_due(3.9)
    assert (files.dropped, full_disk.asked) == (9, 2)
    full_disk.is_full = False
    files.add("link_rtts", rtts(2, 9), now=4.0)
    files.write_due(4.5)
    assert (files.dropped, files.written) == (9, 2)
    assert numbers(tmp_path) == [9, 10]


def test_a_misfit_record_costs_only_itself(tmp_path: Path) -> None:
    files = rotating(tmp_path, rotate_records=100)
    rows = rtts(5)
    rows[2] = (2.0, "b1", 1, 2, "b2", "not a number")
    files.add("link_rtts", rows, now=0.0)
    files.add("no_such_table", rtts(4), now=0.0)
    files.write_all(0.0)
    assert numbers(tmp_path) == [0, 1, 3, 4]
    assert (files.written, files.dropped, files.buffered) == (4, 5, 0)


def test_close_writes_everything_that_was_submitted(tmp_path: Path) -> None:
    writer = TelemetryWriter(tmp_path, "b1", rotate_s=3600.0)
    for first in range(0, 1000, 10):
        writer.submit({"link_rtts": rtts(10, first), "link_changes": []})
    writer.close()
    writer.close()
    assert numbers(tmp_path) == list(range(1000))
    stats = writer.stats()
    assert (stats.written, stats.dropped, stats.queued, stats.files) == (1000, 0, 0, 1)
    assert stats.last_error is None


def test_files_appear_by_age_without_closing(tmp_path: Path) -> None:
    writer = TelemetryWriter(tmp_path, "b1", rotate_s=0.05)
    try:
        writer.submit({"link_rtts": rtts(3)})
        wait_until(lambda: writer.stats().written == 3)
        writer.submit({"link_rtts": rtts(3, 3)})
        wait_until(lambda: writer.stats().written == 6)
    finally:
        writer.close()
    assert numbers(tmp_path) == list(range(6))
    assert len(telemetry_files(tmp_path, "link_rtts")) == 2


def test_many_tables_below_the_record_limit_are_written_before_the_queue_is_full(
    tmp_path: Path,
) -> None:
    writer = TelemetryWriter(tmp_path, "b1", rotate_s=3600.0, max_queued_records=100)
    try:
        for first in range(0, 1000, 20):
            writer.submit({"link_rtts": rtts(20, first)})
            wait_until(lambda: writer.stats().queued <= 60)
    finally:
        writer.close()
    assert writer.stats().dropped == 0
    assert numbers(tmp_path) == list(range(1000))


def test_a_restarted_broker_overwrites_nothing(tmp_path: Path) -> None:
    for incarnation in range(3):
        writer = TelemetryWriter(tmp_path, "b1")
        writer.submit({"link_rtts": rtts(5, incarnation * 5)})
        writer.close()
    assert sorted(numbers(tmp_path)) == list(range(15))


def test_a_stuck_disk_never_holds_submit_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release, stuck = threading.Event(), threading.Event()
    write = parquet.write_batches

    def write_when_released(*arguments: Any) -> Path:
        stuck.set()
        assert release.wait(PATIENCE_S)
        return write(*arguments)

    monkeypatch.setattr(parquet, "write_batches", write_when_released)
    writer = TelemetryWriter(tmp_path, "b1", rotate_s=0.02, max_queued_records=1000)
    try:
        writer.submit({"link_rtts": rtts(10)})
        assert stuck.wait(PATIENCE_S)
        began = time.monotonic()
        for first in range(10, 50_010, 100):
            writer.submit({"link_rtts": rtts(100, first)})
        took_s = time.monotonic() - began
        stats = writer.stats()
    finally:
        release.set()
        writer.close()
    assert took_s < 2.0  # 500 submissions; each would have waited for the disk
    assert (stats.queued, stats.dropped, stats.written) == (1000, 49_010, 0)
    assert numbers(tmp_path) == list(range(1000))
    assert writer.stats().written + writer.stats().dropped == 50_010


def test_a_full_disk_never_raises_and_is_shown(tmp_path: Path, full_disk: FullDisk) -> None:
    writer = TelemetryWriter(tmp_path, "b1", rotate_s=3600.0, rotate_records=10)
    writer.submit({"link_rtts": rtts(10)})
    wait_until(lambda: writer.stats().dropped == 10)
    assert "No space left" in str(writer.stats().last_error)
    full_disk.is_full = False
    writer.submit({"link_rtts": rtts(5, 10)})
    writer.close()  # the last write is tried although the writer is backing off
    stats = writer.stats()
    assert (stats.written, stats.dropped, stats.queued) == (5, 10, 0)
    assert numbers(tmp_path) == list(range(10, 15))


def test_an_unusable_directory_costs_records_only(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file, not a directory", encoding="utf-8")
    writer = TelemetryWriter(tmp_path / "taken", "b1", rotate_s=0.02)
    writer.submit({"link_rtts": rtts(10)})
    wait_until(lambda: writer.stats().dropped == 10)
    writer.close()
    assert "taken" in str(writer.stats().last_error)


def test_what_comes_after_closing_is_dropped_and_counted(tmp_path: Path) -> None:
    writer = TelemetryWriter(tmp_path, "b1")
    writer.close()
    writer.submit({"link_rtts": rtts(4)})
    assert (writer.stats().dropped, writer.stats().queued) == (4, 0)


def test_a_bug_in_the_thread_stops_telemetry_and_not_the_broker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr(RotatingFiles, "write_due", fail)
    writer = TelemetryWriter(tmp_path, "b1")
    wait_until(lambda: writer.stats().last_error is not None)
    writer.submit({"link_rtts": rtts(4)})
    writer.close()
    assert writer.stats().dropped == 4
    assert "a bug" in str(writer.stats().last_error)


def test_a_program_that_forgets_to_close_ends_and_keeps_its_records(tmp_path: Path) -> None:
    program = (
        "import sys\n"
        "from pathlib import Path\n"
        "from pubweave.runtime.broker.telemetry_writer import TelemetryWriter\n"
        "writer = TelemetryWriter(Path(sys.argv[1]), 'b1', rotate_s=3600.0)\n"
        "writer.submit({'link_rtts': [(1.0, 'b1', 1, n, 'b2', 1.5) for n in range(5)]})\n"
    )
    subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=True, timeout=60)
    assert numbers(tmp_path) == list(range(5))


@pytest.mark.parametrize(
    "options", [{"rotate_s": 0.0}, {"rotate_records": 0}, {"max_queued_records": 0}]
)
def test_limits_must_be_positive(tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="positive"):
        TelemetryWriter(tmp_path, "b1", **options)
