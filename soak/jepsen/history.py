"""Histories: what each client saw and each fault was, a line each, append-only.

A line is a JSON list: the monotonic time in seconds (one clock for the whole machine), a kind, and

    client   name, "native" or "mqtt", broker         there is such a client
    pub      client, n, topic, value, qos             publish was called; n: 1, 2, 3, ... per client
    ack      client, first, last                      publications first..last were acknowledged
    sub      client, sid, wanted, qos                 subscribe was called; wanted: see `matches`
    subok    client, sid                              it was confirmed
    unsure   client, sid                              the confirmation is taken back
    unsub    client, sid                              unsubscribe was called
    unsubok  client, sid                              it was acknowledged
    got      client, sid, publisher, n, topic, value, sent_at, qos, is_retained
    told     client, count, publisher, topic          "you missed so many"; "" where it was not said
    session  client, is_present                       connected; False: the broker knew no session
    down     client                                   the connection was lost
    will     client, n, topic                         connected with this will
    cut      client, n                                it was cut on purpose: the will goes out
    bye      client, n                                left in order: the will must not come
    retained client, topic, n, asked_at               what a new subscriber was shown (0: nothing)
    fault    id, name, targets, seconds               it begins ...
    over     id                                       ... and is over
    counted  broker, notifications, publications, at_most    so many more were counted as lost
    note     text                                     for the page only: how a plan went, ...
    finding  text                                     what the trial itself saw: a broker died, ...

Nothing here knows pubweave.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Line = list[Any]
SUFFIX = ".history"


class HistoryWriter:
    """Appends lines to a file; whole lines reach it within `flush` calls. Threads may share it."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1 << 16)
        self._lock = threading.Lock()

    def write(self, kind: str, *fields: Any, at: float | None = None) -> None:
        with self._lock:
            now = time.monotonic() if at is None else at
            self._file.write(json.dumps([round(now, 6), kind, *fields], separators=(",", ":")))
            self._file.write("\n")

    def flush(self) -> None:
        with self._lock:
            self._file.flush()


class HistoryReader:
    """Lines of all histories of a directory in the order of time, while they grow.

    Writers flush every second, so what is older than `LAG_S` is complete.
    """

    LAG_S = 3.0

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._places: dict[Path, int] = {}
        self._early: list[Line] = []
        self.bytes = 0

    def lines(self, until: float) -> Iterator[Line]:
        """What was written up to a time and not yet read."""
        for path in sorted(self._directory.glob(f"*{SUFFIX}")):
            self._early += self._new_lines(path)
        self._early.sort(key=lambda line: float(line[0]))
        cut = len(self._early)
        while cut and self._early[cut - 1][0] > until:
            cut -= 1
        ready, self._early = self._early[:cut], self._early[cut:]
        yield from ready

    def _new_lines(self, path: Path) -> Iterator[Line]:
        with path.open("rb") as file:
            file.seek(self._places.get(path, 0))
            for text in file:
                if not text.endswith(b"\n"):
                    break
                self._places[path] = self._places.get(path, 0) + len(text)
                self.bytes += len(text)
                yield json.loads(text)


def read_in_order(directory: Path) -> Iterator[Line]:
    """All lines of finished histories, merged by time, without having them all in memory."""
    import heapq

    def of_file(path: Path) -> Iterator[Line]:
        # Threads of one process may write two lines in the wrong order by microseconds.
        waiting: list[tuple[float, int, Line]] = []
        with path.open("rb") as file:
            for number, text in enumerate(file):
                if not text.endswith(b"\n"):
                    break
                line = json.loads(text)
                heapq.heappush(waiting, (line[0], number, line))
                if len(waiting) > 64:
                    yield heapq.heappop(waiting)[2]
        while waiting:
            yield heapq.heappop(waiting)[2]

    files = sorted(directory.glob(f"*{SUFFIX}"))
    return heapq.merge(*map(of_file, files), key=lambda line: float(line[0]))


def matches(wanted: dict[str, Any], topic: str, value: int) -> bool:
    """``{"topic": T}`` or ``{"under": PREFIX}`` (neither: any), and ``low``, ``high`` bounds."""
    if "topic" in wanted and wanted["topic"] != topic:
        return False
    if "under" in wanted and not topic.startswith(wanted["under"]):
        return False
    return bool(wanted.get("low", 0) <= value <= wanted.get("high", 1 << 30))
