"""Telemetry of a simulated run: the same tables and files as a real overlay writes."""

from __future__ import annotations

from pathlib import Path

from pubweave.model.telemetry import Record, Records, with_matching_ms
from pubweave.telemetry.parquet import write_records
from pubweave.telemetry.run_description import RunClock, RunDescription, write_run_description


class SimTelemetry:
    """Gathers what brokers emit; `write` puts it into files, the same bytes for the same seed."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, str], list[Record]] = {}

    def take(self, broker: str, records: Records, matching_s: float) -> None:
        for table, rows in records.items():
            if table in ("publications", "hops"):
                rows = with_matching_ms(rows, matching_s * 1000.0)
            self._rows.setdefault((broker, table), []).extend(rows)

    def write(self, directory: Path, scenario: str, seed: int) -> int:
        """Write all tables; the number of records."""
        write_run_description(
            directory,
            RunDescription(
                name=f"simulate {scenario}",
                clock=RunClock.VIRTUAL,
                started_at=0.0,
                sample_ratio=1.0,
                details={"seed": str(seed)},
            ),
        )
        for (broker, table), rows in sorted(self._rows.items()):
            write_records(directory, broker, 0, table, rows, unique=f"seed{seed}")
        return sum(len(rows) for rows in self._rows.values())
