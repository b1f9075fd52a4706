"""Following telemetry while it is written."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from pubweave.model.telemetry import TABLES, Record
from pubweave.runtime.observe import telemetry_tail
from pubweave.runtime.observe.telemetry_tail import TelemetryTail
from pubweave.telemetry.parquet import write_records

NOW = 1_900_000_000.0


def record(table: str, **values: object) -> Record:
    """A record with the given columns; the others hold something of the right kind."""
    kinds = {"float64": 0.0, "int64": 0, "text": "x", "attributes": {}}
    return tuple(
        values.get(column.name, kinds[column.kind.value]) for column in TABLES[table].columns
    )


class Writer:
    """A broker's telemetry files."""

    def __init__(self, directory: Path, broker: str) -> None:
        self.directory = directory
        self.broker = broker
        self.sequence = 0

    def write(self, table: str, rows: list[Record]) -> None:
        write_records(self.directory, self.broker, self.sequence, table, rows, "u1")
        self.sequence += 1

    def deliver(self, at: float, *latencies_ms: float) -> None:
        rows = [record("deliveries", delivered_at=at, latency_ms=ms) for ms in latencies_ms]
        self.write("deliveries", rows)


def test_a_directory_that_is_not_there_yet_says_nothing(tmp_path: Path) -> None:
    tail = TelemetryTail(tmp_path / "telemetry")
    assert tail.read(NOW).latency is None
    Writer(tmp_path / "telemetry", "b1").deliver(NOW, 5.0)
    assert tail.read(NOW).latency is not None


def test_percentiles_are_those_of_the_window(tmp_path: Path) -> None:
    tail = TelemetryTail(tmp_path, window_s=10.0)
    values = np.random.default_rng(1).exponential(5.0, 400)
    one, other = Writer(tmp_path, "b1"), Writer(tmp_path, "b2")
    one.deliver(NOW - 30, 9_999.0)
    tail.read(NOW)
    one.deliver(NOW - 9, *values[:100])
    other.deliver(NOW - 1, *values[100:])
    latency = tail.read(NOW).latency
    assert latency is not None
    assert latency.deliveries == 400
    assert latency.p99_ms == pytest.approx(float(np.percentile(values, 99)))
    assert latency.mean_ms == pytest.approx(float(values.mean()))
    later = tail.read(NOW + 5).latency
    assert later is not None
    assert later.deliveries == 300
    assert tail.read(NOW + 60).latency is None


def test_each_file_counts_once_and_only_the_end_of_what_was_there_before(tmp_path: Path) -> None:
    writer = Writer(tmp_path, "b1")
    for number in range(20):
        writer.deliver(NOW, float(number))
    tail = TelemetryTail(tmp_path)
    for _ in range(3):
        latency = tail.read(NOW).latency
        assert latency is not None
        assert (latency.deliveries, latency.p50_ms) == (1, 19.0)
    writer.deliver(NOW, 21.0)
    writer.deliver(NOW, 23.0)
    latency = tail.read(NOW).latency
    assert latency is not None
    assert (latency.deliveries, latency.mean_ms) == (3, 21.0)


def test_processing_is_queueing_and_matching_of_all_that_a_broker_handles(tmp_path: Path) -> None:
    tail = TelemetryTail(tmp_path)
    writer = Writer(tmp_path, "b1")
    accepted = record(
        "publications", accepted_at=NOW, broker="b1", queueing_ms=1.0, matching_ms=2.0
    )
    crossed = record("hops", received_at=NOW, to_broker="b1", queueing_ms=1.0, matching_ms=None)
    elsewhere = record("hops", received_at=NOW, to_broker="b2", queueing_ms=0.5, matching_ms=0.25)
    writer.write("publications", [accepted, accepted])
    writer.write("hops", [crossed, elsewhere])
    recent = tail.read(NOW)
    assert recent.processing_ms == {"b1": pytest.approx(7 / 3), "b2": 0.75}
    assert recent.last_record_at == NOW


def test_a_file_that_is_none_of_ours_is_left_out(tmp_path: Path) -> None:
    tail = TelemetryTail(tmp_path)
    Writer(tmp_path, "b1").deliver(NOW, 4.0)
    (tmp_path / "deliveries" / "b2-000007-u1.parquet").write_bytes(b"nonsense")
    (tmp_path / "deliveries" / "notes.txt").write_text("hello")
    latency = tail.read(NOW).latency
    assert latency is not None
    assert latency.deliveries == 1


def test_memory_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(telemetry_tail, "ROWS_MAX", 50)
    tail = TelemetryTail(tmp_path)
    writer = Writer(tmp_path, "b1")
    for number in range(12):
        writer.deliver(NOW, *([float(number)] * 10))
        latency = tail.read(NOW).latency
    assert latency is not None
    assert (latency.deliveries, latency.p50_ms) == (50, 9.0)
