"""Tables that need each other, computed side by side as soon as what they need is there.

Spark plans a query in one thread and its last tasks leave cores idle; with several queries under
way both are used. Every frame but parts is written and read back, so no table is computed twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession

Frames = Mapping[str, DataFrame]


@dataclass(frozen=True)
class TableTask:
    """A frame to compute from other tasks' frames."""

    name: str
    needs: tuple[str, ...]
    make: Callable[[Frames], DataFrame]
    is_part: bool = False
    """A part of those that need it: computed with them, and not written for itself."""


def run_tasks(
    spark: SparkSession,
    tasks: Sequence[TableTask],
    write: Callable[[str, DataFrame], DataFrame],
    *,
    whole: Collection[str] = (),
    given: Frames | None = None,
    threads: int = 3,
    on_done: Callable[[str, int, int], None] | None = None,
) -> tuple[dict[str, DataFrame], dict[str, float]]:
    """All frames as written, and the seconds each took; the first failure ends it.

    Parts are written if they are named in ``whole``; what is ``given`` is not made again.
    """
    frames: dict[str, DataFrame] = dict(given or {})
    seconds: dict[str, float] = {}
    waiting = {task.name: task for task in tasks if task.name not in frames}
    check_needs(tasks)

    def work(task: TableTask) -> tuple[DataFrame, float]:
        # A pool of its own: otherwise jobs queue behind the longest, first come first served.
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", task.name)
        started = time.monotonic()
        made = task.make(frames)
        written = made if task.is_part and task.name not in whole else write(task.name, made)
        return written, time.monotonic() - started

    running: dict[Future[tuple[DataFrame, float]], str] = {}
    with ThreadPoolExecutor(threads) as pool:
        try:
            while waiting or running:
                for task in [t for t in waiting.values() if all(n in frames for n in t.needs)]:
                    running[pool.submit(work, waiting.pop(task.name))] = task.name
                done, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in done:
                    name = running.pop(future)
                    frames[name], seconds[name] = future.result()
                    if on_done is not None:
                        on_done(name, len(frames), len(tasks))
        except BaseException:  # also Ctrl-C: Spark would go on computing what nobody awaits
            pool.shutdown(wait=False, cancel_futures=True)
            spark.sparkContext.cancelAllJobs()
            raise
    return frames, seconds


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
