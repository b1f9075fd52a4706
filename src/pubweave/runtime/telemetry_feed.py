"""From a broker's telemetry effects to its files: adds what only the driver can measure."""

from __future__ import annotations

import time
from collections.abc import Mapping

from pubweave.core.broker import Broker
from pubweave.model.telemetry import Record, with_driver_figures, with_matching_ms
from pubweave.runtime.telemetry_files import TelemetryWriter


class TelemetryFeed:
    """Completes records with handling time, processor time and drops, and submits them.

    ``owns_process``: processor time is that of the whole process, so it is recorded only where
    one process runs one broker.
    """

    def __init__(self, writer: TelemetryWriter, broker: Broker, *, owns_process: bool) -> None:
        self._writer = writer
        self._broker = broker
        self._owns_process = owns_process
        self._cpu_s = time.process_time()

    def submit(self, records: Mapping[str, list[Record]], handling_s: float) -> None:
        """``handling_s`` is how long the core took per message of the event."""
        complete = dict(records)
        for table in ("publications", "hops"):
            if table in complete:
                complete[table] = with_matching_ms(complete[table], handling_s * 1000.0)
        if "broker_loads" in complete:
            dropped = self._writer.stats().dropped
            self._broker.upkeep.records_dropped = dropped
            complete["broker_loads"] = with_driver_figures(
                complete["broker_loads"], self._window_cpu_s(), dropped
            )
        self._writer.submit(complete)

    def _window_cpu_s(self) -> float | None:
        before, self._cpu_s = self._cpu_s, time.process_time()
        return self._cpu_s - before if self._owns_process else None

    def close(self) -> None:
        """Write out everything; blocks."""
        self._writer.close()
