"""Tables that need each other, computed side by side as soon as what they need is there.

Spark plans a query in one thread and its last tasks leave cores idle; with several queries under
way both are used. Every frame but parts is written and read back, so no table is computed twice.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

from pubweave.pipeline.frames.settings import ProfileWindow
from pubweave.pipeline.profiling.output import ProfileOutput
from pubweave.pipeline.profiling.screening import Screening

Frames = Mapping[str, DataFrame]


@dataclass(frozen=True)
class TableTask:
    """A frame to compute from other tasks' frames."""

    name: str
    needs: tuple[str, ...]
    make: Callable[[Frames], DataFrame]
    is_part: bool = False
    """A part of those that need it: computed with them, and not written for itself."""


class TaskRun:
    """Tasks on their way: all at once, or some of them now and the rest later."""

    def __init__(
        self,
        spark: SparkSession,
        tasks: Sequence[TableTask],
        write: Callable[[str, DataFrame], DataFrame],
        *,
        whole: Collection[str] = (),
        given: Frames | None = None,
        threads: int = 3,
        on_done: Callable[[str, int, int], None] | None = None,
    ) -> None:
        """Parts are written if they are named in ``whole``; what is ``given`` is not made again."""
        check_needs(tasks)
        self.frames: dict[str, DataFrame] = dict(given or {})
        """As written; complete when `go_on` says so."""
        self.seconds: dict[str, float] = {}
        self._spark = spark
        self._write = write
        self._whole = whole
        self._threads = threads
        self._on_done = on_done
        self._total = len(tasks)
        self._waiting = {
            task.name: task for task in most_awaited_first(tasks) if task.name not in self.frames
        }

    @property
    def is_done(self) -> bool:
        return not self._waiting

    @property
    def waiting_count(self) -> int:
        """How many tasks have not begun."""
        return len(self._waiting)

    def go_on(self, for_s: float = math.inf, at_least: int = 1) -> bool:
        """Work until all is done, then True, or until the time is up; the first failure ends it.

        What has begun is completed, and so many tasks are done however long they take.
        """
        until = time.monotonic() + for_s
        rest = self.waiting_count - at_least
        running: dict[Future[tuple[DataFrame, float]], str] = {}
        with ThreadPoolExecutor(self._threads) as pool:
            try:
                self._start_ready(pool, running)
                while running:
                    done, _ = wait(running, return_when=FIRST_COMPLETED)
                    for future in done:
                        self._take(running.pop(future), *future.result())
                    if self.waiting_count > rest or time.monotonic() < until:
                        self._start_ready(pool, running)
            except BaseException:  # also Ctrl-C: Spark would go on computing what nobody awaits
                pool.shutdown(wait=False, cancel_futures=True)
                self._spark.sparkContext.cancelAllJobs()
                raise
        return self.is_done

    def _start_ready(
        self, pool: ThreadPoolExecutor, running: dict[Future[tuple[DataFrame, float]], str]
    ) -> None:
        """Start what has all it needs, as far as threads are free: what is begun is completed."""
        ready = [t for t in self._waiting.values() if all(n in self.frames for n in t.needs)]
        for task in ready[: self._threads - len(running)]:
            running[pool.submit(self._work, self._waiting.pop(task.name))] = task.name

    def _work(self, task: TableTask) -> tuple[DataFrame, float]:
        # A pool of its own: otherwise jobs queue behind the longest, first come first served.
        self._spark.sparkContext.setLocalProperty("spark.scheduler.pool", task.name)
        started = time.monotonic()
        made = task.make(self.frames)
        is_written = not task.is_part or task.name in self._whole
        written = self._write(task.name, made) if is_written else made
        return written, time.monotonic() - started

    def _take(self, name: str, frame: DataFrame, seconds: float) -> None:
        self.frames[name], self.seconds[name] = frame, seconds
        if self._on_done is not None:
            self._on_done(name, len(self.frames), self._total)


def most_awaited_first(tasks: Sequence[TableTask]) -> list[TableTask]:
    """Those with the longest chain of others behind them come first; else the order stays.

    What is left for the end can then be done side by side (Hu's rule). O(tasks * needs).
    """
    behind: dict[str, int] = {}
    for task in reversed(tasks):
        for need in task.needs:
            behind[need] = max(behind.get(need, 0), behind.get(task.name, 0) + 1)
    return sorted(tasks, key=lambda task: -behind.get(task.name, 0))


def needed_for(tasks: Sequence[TableTask], names: Collection[str]) -> list[TableTask]:
    """The tasks that make the named frames and everything they need."""
    wanted = set(names)
    chosen = []
    for task in reversed(tasks):
        if task.name in wanted:
            wanted.update(task.needs)
            chosen.append(task)
    return chosen[::-1]


def check_needs(tasks: Sequence[TableTask]) -> None:
    """Assert that every need is made by an earlier task, so that nothing waits for ever."""
    made: set[str] = set()
    for task in tasks:
        missing = set(task.needs) - made
        assert not missing, f"{task.name} needs {sorted(missing)}, which no earlier task makes"
        made.add(task.name)


# What a followed profile need not compute again: frames whose records have not changed.
#
# Who subscribed when, and which links changed when, follows from the records of changes alone.
# Most batches bring none, and then the frames of the profile before are taken over as they are.
# Whether any came is known from the screening, which numbers all records.


OF_SUBSCRIPTIONS = (
    "subscriptions", "subscription_counts", "subscription_rates", "client_topics", "broker_topics",
    "placement_candidates", "audit_subscriptions", "audit_kinds",
)  # fmt: skip
"""Made of subscription changes, incarnations and the window's start."""
OF_LINKS = ("periods",)
"""Made of link changes, and of when traffic began."""


@dataclass(frozen=True)
class KnownFrames:
    """Frames of one profile that may serve the next."""

    output: ProfileOutput
    frames: Mapping[str, DataFrame]
    made_of: Mapping[str, Hashable]
    """By frame: what it was made of, as far as it can change within a run."""

    def taken_over(
        self, screening: Screening, window: ProfileWindow, output: ProfileOutput
    ) -> dict[str, DataFrame]:
        """Those that are still right, their tables copied into another version of the profile."""
        if not output.may_take_over(self.output):
            return {}
        now = _made_of(screening, window)
        still = [name for name in self.frames if self.made_of[name] == now[name]]
        for name in still:
            output.take_over(name, self.output)
        return {name: self.frames[name] for name in still}


def known_frames(
    output: ProfileOutput,
    frames: Mapping[str, DataFrame],
    screening: Screening,
    window: ProfileWindow,
) -> KnownFrames:
    """What the next profile may take over from one that is complete."""
    made_of = _made_of(screening, window)
    return KnownFrames(output, {name: frames[name] for name in made_of}, made_of)


def _made_of(screening: Screening, window: ProfileWindow) -> dict[str, Hashable]:
    epochs = tuple(
        (broker, epoch, first_at)
        for broker, spans in screening.spans().items()
        for epoch, first_at, _ in spans
    )
    changes = _records_of(screening, "subscription_changes")
    links = (_records_of(screening, "link_changes"), screening.first_at("publications"))
    return {
        **dict.fromkeys(OF_SUBSCRIPTIONS, (changes, epochs, window.started_at)),
        **dict.fromkeys(OF_LINKS, links),
    }


def _records_of(screening: Screening, table: str) -> Hashable:
    return tuple(c for c in screening.coverage if c.table == table)
