"""The end of an overlay's telemetry as it is being written: how long notifications take now.

Reads only what is new: files appear whole and are numbered per writer, so the last number of each
is all there is to remember. What is older than the window is forgotten, and so is the oldest of
more rows than are kept. Blocking: to be called in a thread, by one caller at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from pubweave.dashboard.snapshot import LatencyView
from pubweave.model.ids import BrokerId

WINDOW_S = 20.0
"""Several times as long as a writer keeps rows to itself (5 s)."""
ROWS_MAX = 500_000
FILES_MAX = 2_000
"""Read at one look; of more the oldest are left out."""

_Floats = npt.NDArray[np.float64]
_HANDLED = {"publications": ("broker", "accepted_at"), "hops": ("to_broker", "received_at")}


@dataclass(frozen=True)
class RecentTelemetry:
    """What the last seconds of telemetry say; ``processing_ms`` is CI's p_v by broker."""

    latency: LatencyView | None
    processing_ms: dict[BrokerId, float]
    last_record_at: float | None


@dataclass(frozen=True)
class _Handled:
    at: float
    broker: BrokerId
    count: int
    total_ms: float


class TelemetryTail:
    """Follows one telemetry directory, which need not be there yet."""

    def __init__(self, directory: Path, window_s: float = WINDOW_S) -> None:
        self._directory = directory
        self._window_s = window_s
        self._seen: dict[tuple[str, str], int] = {}
        """The last number read of each table and writer."""
        self._changed: dict[str, int] = {}
        self._latencies: deque[tuple[_Floats, _Floats]] = deque()
        self._rows = 0
        self._handled: deque[_Handled] = deque()
        self._last_record_at: float | None = None

    def read(self, now: float) -> RecentTelemetry:
        """Take in what is new and say how things are; files that cannot be read are left out."""
        for path in self._new_files("deliveries"):
            self._take_deliveries(path)
        for table, (broker, at) in _HANDLED.items():
            for path in self._new_files(table):
                self._take_handled(path, broker, at)
        self._forget(now - self._window_s)
        return RecentTelemetry(
            self._latency(now - self._window_s), self._processing(), self._last_record_at
        )

    # --- files -------------------------------------------------------------------------------

    def _new_files(self, table: str) -> Iterator[Path]:
        folder = self._directory / table
        try:
            changed = folder.stat().st_mtime_ns
        except OSError:
            return
        if self._changed.get(table) == changed:
            return
        is_first = table not in self._changed
        self._changed[table] = changed
        found: list[tuple[int, str, str]] = []
        for path in folder.iterdir():
            parts = path.name.removesuffix(".parquet").rsplit("-", 2)
            if path.suffix != ".parquet" or path.name.startswith(".") or len(parts) != 3:
                continue
            source, number, unique = parts
            if number.isdecimal():
                found.append((int(number), f"{source}-{unique}", path.name))
        last: dict[str, int] = {}
        for number_, writer, _ in found:
            last[writer] = max(number_, last.get(writer, 0))
        # At the first look only the end of what was written before matters.
        known = {w: n - 1 for w, n in last.items()} if is_first else self._numbers(table)
        new = sorted(entry for entry in found if entry[0] > known.get(entry[1], -1))
        for writer, number_ in last.items():
            self._seen[table, writer] = number_
        for _, _, name in new[-FILES_MAX:]:
            yield folder / name

    def _numbers(self, table: str) -> dict[str, int]:
        return {writer: n for (of, writer), n in self._seen.items() if of == table}

    def _columns(self, path: Path, names: list[str]) -> Any | None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            return pq.ParquetFile(path).read(columns=names)
        except (pa.ArrowException, OSError, KeyError):
            return None  # set aside meanwhile, or not ours: the profile will say so

    # --- rows --------------------------------------------------------------------------------

    def _take_deliveries(self, path: Path) -> None:
        table = self._columns(path, ["delivered_at", "latency_ms"])
        if table is None or not table.num_rows:
            return
        at = table["delivered_at"].to_numpy()
        self._latencies.append((at, table["latency_ms"].to_numpy()))
        self._rows += len(at)
        self._note(float(at.max()))
        while self._rows > ROWS_MAX and len(self._latencies) > 1:
            self._rows -= len(self._latencies.popleft()[0])

    def _take_handled(self, path: Path, broker: str, at: str) -> None:
        table = self._columns(path, [broker, at, "queueing_ms", "matching_ms"])
        if table is None or not table.num_rows:
            return
        last = float(table[at].to_numpy().max())
        took = table["queueing_ms"].to_numpy() + table["matching_ms"].fill_null(0.0).to_numpy()
        names = table[broker].combine_chunks().dictionary_encode()
        places = names.indices.to_numpy(zero_copy_only=False)
        counts = np.bincount(places)
        totals = np.bincount(places, took)
        for name, count, total in zip(names.dictionary.to_pylist(), counts, totals, strict=True):
            self._handled.append(_Handled(last, name, int(count), float(total)))
        self._note(last)

    def _note(self, at: float) -> None:
        self._last_record_at = max(at, self._last_record_at or at)

    def _forget(self, before: float) -> None:
        while self._latencies and self._latencies[0][0].max() < before:
            self._rows -= len(self._latencies.popleft()[0])
        while self._handled and self._handled[0].at < before:
            self._handled.popleft()

    # --- figures -----------------------------------------------------------------------------

    def _latency(self, since: float) -> LatencyView | None:
        parts = [latency[at >= since] for at, latency in self._latencies]
        values = np.concatenate(parts) if parts else np.empty(0)
        if not len(values):
            return None
        p50, p95, p99 = np.percentile(values, (50, 95, 99)).tolist()
        return LatencyView(len(values), float(values.mean()), p50, p95, p99)

    def _processing(self) -> dict[BrokerId, float]:
        sums: dict[BrokerId, tuple[int, float]] = {}
        for handled in self._handled:
            count, total = sums.get(handled.broker, (0, 0.0))
            sums[handled.broker] = count + handled.count, total + handled.total_ms
        return {broker: total / count for broker, (count, total) in sums.items()}
