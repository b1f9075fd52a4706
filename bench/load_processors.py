"""Processor time of processes and of the whole machine, as Linux counts it (in 10 ms steps).

Two cores are few: beside each rate stands how busy the broker was and how much of the machine
somebody else used meanwhile.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def processor_count() -> int:
    return os.cpu_count() or 1


def processes_cpu_s(pids: Iterable[int]) -> float:
    """Processor time that these processes have used so far."""
    return sum(_ticks(pid) for pid in pids) / _TICKS_PER_S


def machine_busy_s() -> float:
    """Processor time that was not idle on any processor since the machine started."""
    fields = [int(each) for each in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    idle = fields[3] + fields[4]
    return (sum(fields) - idle) / _TICKS_PER_S


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])
