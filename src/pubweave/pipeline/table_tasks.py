"""Tables that need each other, computed side by side as soon as what they need is there.

Spark plans a query in one thread and its last tasks leave cores idle; with several queries under
way both are used. Every frame is written and read back, so no table is computed twice.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
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


def run_tasks(
    spark: SparkSession,
    tasks: Sequence[TableTask],
    write: Callable[[str, DataFrame], DataFrame],
    *,
    threads: int = 3,
    on_done: Callable[[str, int, int], None] | None = None,
) -> tuple[dict[str, DataFrame], dict[str, float]]:
    """All frames as written, and the seconds each took; the first failure ends it."""
    frames: dict[str, DataFrame] = {}
    seconds: dict[str, float] = {}
    waiting = {task.name: task for task in tasks}
    check_needs(tasks)

    def work(task: TableTask) -> tuple[DataFrame, float]:
        # A pool of its own: otherwise jobs queue behind the longest, first come first served.
        spark.sparkContext.setLocalProperty("spark.scheduler.pool", task.name)
        started = time.monotonic()
        return write(task.name, task.make(frames)), time.monotonic() - started

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


def check_needs(tasks: Sequence[TableTask]) -> None:
    """Assert that every need is made by an earlier task, so that nothing waits for ever."""
    made: set[str] = set()
    for task in tasks:
        missing = set(task.needs) - made
        assert not missing, f"{task.name} needs {sorted(missing)}, which no earlier task makes"
        made.add(task.name)
